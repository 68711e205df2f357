#include <algorithm>
#include <map>
#include <thread>
#include <utility>

#include "base/units.h"
#include "cli/admin_words.h"
#include "cli/inspect.h"
#include "cli/table.h"
#include "cli/watch.h"
#include "config/screen_text.h"
#include "protocol/protocol.h"

namespace sluice::cli {
namespace {

constexpr const char* about_rules =
    "Lists the rules that a running server decides by, in the order in which they are asked, with "
    "what\n"
    "each has decided: so far, and in a second. With TEXT, those whose name, pattern or comment "
    "has "
    "it.";

std::string footer_of_rules() {
  return admin_footer(
      "Of a shadow rule, what it would have allowed and denied is counted. Rules of one name or\n"
      "label are counted together. That no rule has TEXT is a failure, for scripts that want to\n"
      "know whether a rule is live.\n"
      "\n"
      "Examples:\n"
      "  sluice rules\n"
      "  sluice rules cookies --over 5s\n"
      "  sluice rules --json",
      "listed", "no rule has TEXT");
}

// More rules than a rule set can have.
constexpr size_t rules_max = 2'000'000;

// The outcomes of rules, by protocol and the rule's name in metrics.
using RuleOutcomes = std::map<std::pair<std::string, std::string>, std::map<std::string, double>>;

RuleOutcomes outcomes_in(const MetricsText& metrics) {
  RuleOutcomes all;
  for (const auto& sample : metrics.of("sluice_decisions_total"))
    all[{std::string(sample.label("protocol")), std::string(sample.label("rule"))}]
       [std::string(sample.label("outcome"))] += sample.value;
  return all;
}

// The rule's count of an outcome. A native rule has one for each protocol; they are added.
double outcome_count(const RuleOutcomes& said, const Json& rule, const std::string& outcome) {
  const std::string dialect = text_field(rule, "dialect"), name = text_field(rule, "counted_as");
  double total = 0;
  for (const protocol::Description* protocol : protocol::all()) {
    if (dialect != "native" && dialect != protocol->name) continue;
    const auto at = said.find({std::string(protocol->name), name});
    if (at == said.end()) continue;
    const auto count = at->second.find(outcome);
    if (count != at->second.end()) total += count->second;
  }
  return total;
}

bool has_text(const Json& rule, const std::string& text) {
  for (const char* key : {"name", "pattern", "comment", "counted_as"})
    if (text_field(rule, key).find(text) != std::string::npos) return true;
  return false;
}

std::string count_words(const Json& rule, const char* plain, const char* shadow) {
  const Json& decisions = field(rule, "decisions");
  int64_t count = integer_field(decisions, plain);
  if (shadow != nullptr) count += integer_field(decisions, shadow);
  return base::grouped(static_cast<uint64_t>(std::max<int64_t>(count, 0)));
}

std::string rate_of(const Json& rule, const char* outcome) {
  const Json& rates = field(rule, "per_second");
  return rate_words(rates.is_object() ? number_field(rates, outcome) : std::nullopt);
}

// If the terminal is narrow, the last columns are left out first.
std::string table_of(const Json& rules, bool with_rates, const config::CommandIo& io) {
  std::vector<Table::Column> columns{
      {"RULE", false, true}, {"PROTOCOL", false, true}, {"MODE"},        {"LIMITS", false, true},
      {"ALLOWED", true},     {"DENIED", true},          {"ERRORS", true}};
  if (with_rates) columns.insert(columns.end() - 1, {{"ALLOWED/S", true}, {"DENIED/S", true}});
  Table table(columns);
  for (const Json& rule : rules) {
    const std::string dialect = text_field(rule, "dialect");
    std::vector<std::string> row{rule_words(rule),
                                 dialect == "native" ? "all" : dialect,
                                 text_field(rule, "mode"),
                                 limits_words(list_field(rule, "limits")),
                                 count_words(rule, "allowed", "shadow_allowed"),
                                 count_words(rule, "denied", "shadow_denied"),
                                 count_words(rule, "error", nullptr)};
    if (with_rates) row.insert(row.end() - 1, {rate_of(rule, "allowed"), rate_of(rule, "denied")});
    table.add(row);
  }
  return table.text(io);
}

// Adds the rates between the two readings to each rule, as `per_second`.
void add_rates(Json& rules, const Look& before, const Look& after) {
  const RuleOutcomes first = outcomes_in(before.metrics), second = outcomes_in(after.metrics);
  const double seconds = seconds_between(before, after);
  for (Json& rule : rules) {
    Json rates = Json::object();
    for (const std::string outcome : {"allowed", "denied", "error"}) {
      double more = outcome_count(second, rule, outcome) - outcome_count(first, rule, outcome);
      if (outcome != "error")
        more += outcome_count(second, rule, "shadow_" + outcome) -
                outcome_count(first, rule, "shadow_" + outcome);
      rates[outcome] = std::max(more, 0.0) / seconds;
    }
    rule["per_second"] = std::move(rates);
  }
}

struct Asked {
  const AdminFlags& flags;
  const std::string& text;  // that the rules must contain; empty: all rules
  std::chrono::microseconds over;
  bool watched;
};

int show_rules(AdminPort& port, const Asked& asked, std::optional<Look>& last,
               config::CommandIo& io) {
  const bool json = asked.flags.json;
  AdminPort::Reply failure;
  std::optional<Look> before = std::move(last), after;
  if (asked.over.count() > 0) {
    if (!(before = look_at(port, failure))) return report_failure(failure, json, io);
    std::this_thread::sleep_for(asked.over);
  }
  Json list = Json::array();
  const auto page = read_pages(port, "/v1/rules?", "rules", rules_max, list);
  if (!page.is_done()) return report_failure(page, json, io);
  if (!asked.text.empty())
    list.erase(std::remove_if(list.begin(), list.end(),
                              [&](const Json& rule) { return !has_text(rule, asked.text); }),
               list.end());
  if (before || asked.watched) {
    if (!(after = look_at(port, failure))) return report_failure(failure, json, io);
    if (before) add_rates(list, *before, *after);
    last = std::move(after);
  }
  const bool found = asked.text.empty() || !list.empty();
  if (json) {
    io.out << to_text({{"generation", field(page.json, "generation")},
                       {"total", field(page.json, "total")},
                       {"rules", list}})
           << std::flush;
  } else if (!found) {
    return fail("no rule has `" + asked.text + "`", io);
  } else {
    io.out << table_of(list, before.has_value(), io) << std::flush;
  }
  return found ? config::exit_ok : config::exit_failure;
}

}  // namespace

int rules(const Words& words, config::CommandIo& io) {
  Arguments arguments("sluice rules [options] [TEXT]", about_rules, footer_of_rules());
  AdminFlags flags;
  WatchFlags watching;
  std::string over_text = "0s";
  add_admin_flags(arguments.app(), flags);
  add_over_flag(arguments.app(), over_text);
  add_watch_flags(arguments.app(), watching);
  if (const auto ended = arguments.parse(words, io)) return *ended;
  if (arguments.positional().size() > 1) return arguments.misused("one TEXT is enough", io);
  const std::string text = arguments.positional().empty() ? "" : arguments.positional().front();
  int ending = config::exit_ok;
  const auto over = over_of(over_text, arguments, io, ending);
  if (!over) return ending;
  auto port = AdminPort::open(flags, arguments, io, ending);
  if (!port) return ending;
  std::optional<Look> last;  // with --watch: the previous reading
  return show_or_watch(watching, arguments, io, [&](config::CommandIo& to) {
    return show_rules(*port, {flags, text, *over, watching.watch}, last, to);
  });
}

}  // namespace sluice::cli
