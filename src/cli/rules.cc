#include <algorithm>
#include <chrono>
#include <map>
#include <optional>
#include <thread>
#include <utility>

#include "base/units.h"
#include "cli/admin_words.h"
#include "cli/inspect.h"
#include "cli/terminal.h"
#include "config/screen_text.h"

namespace sluice::cli {
namespace {

constexpr const char* about_rules =
    "Lists the rules that a running server decides by, in the order in which they are asked, with "
    "what\n"
    "each has decided: so far, and in a second. With TEXT, those whose name, pattern or comment "
    "has\n"
    "it. Those that protocols bring, such as CL.THROTTLE's, are listed with --all alone.";

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

constexpr const char* see_all = "; --all lists them";

// More rules than a rule set can have.
constexpr size_t rules_max = 2'000'000;

// The rules of the server, and the time of the reading.
struct RulesLook {
  AdminPort::Reply page;  // the last one
  Json rules = Json::array();
  std::chrono::steady_clock::time_point at;
};

RulesLook look_at_rules(AdminPort& port) {
  RulesLook look;
  look.page = read_pages(port, "/v1/rules?", "rules", rules_max, look.rules);
  look.at = std::chrono::steady_clock::now();
  return look;
}

// The key under which a rule is counted: rules of one dialect with the same name in metrics are
// counted together.
std::pair<std::string, std::string> counted_as(const Json& rule) {
  return {text_field(rule, "dialect"), text_field(rule, "counted_as")};
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
void add_rates(Json& rules, const RulesLook& before, std::chrono::steady_clock::time_point at) {
  std::map<std::pair<std::string, std::string>, const Json*> decided;
  for (const Json& rule : before.rules) decided[counted_as(rule)] = &field(rule, "decisions");
  const double seconds = std::max(std::chrono::duration<double>(at - before.at).count(), 1e-3);
  for (Json& rule : rules) {
    const auto found = decided.find(counted_as(rule));
    if (found == decided.end()) continue;  // it was loaded meanwhile
    const Json& first = *found->second;
    const Json& second = field(rule, "decisions");
    const auto more = [&](const std::string& outcome) {
      return number_field(second, outcome).value_or(0) - number_field(first, outcome).value_or(0);
    };
    Json rates = Json::object();
    for (const std::string outcome : {"allowed", "denied"})
      rates[outcome] = std::max(more(outcome) + more("shadow_" + outcome), 0.0) / seconds;
    rates["error"] = std::max(more("error"), 0.0) / seconds;
    rule["per_second"] = std::move(rates);
  }
}

struct Asked {
  const AdminFlags& flags;
  const std::string& text;  // that the rules must contain; empty: all rules
  bool all;                 // built-in ones too
  std::chrono::microseconds over;
};

int show_rules(AdminPort& port, const Asked& asked, config::CommandIo& io) {
  const bool json = asked.flags.json;
  std::optional<RulesLook> before;
  if (asked.over.count() > 0) {
    before = look_at_rules(port);
    if (!before->page.is_done()) return report_failure(before->page, json, io);
    std::this_thread::sleep_for(asked.over);
  }
  const RulesLook now = look_at_rules(port);
  const AdminPort::Reply& page = now.page;
  if (!page.is_done()) return report_failure(page, json, io);
  Json list = Json::array();
  size_t hidden = 0;
  for (const Json& rule : now.rules) {
    if (!has_text(rule, asked.text)) continue;
    if (!asked.all && true_field(rule, "built_in"))
      ++hidden;
    else
      list.push_back(rule);
  }
  if (before) add_rates(list, *before, now.at);
  const bool found = asked.text.empty() || !list.empty();
  if (json) {
    io.out << to_text({{"generation", field(page.json, "generation")},
                       {"total", field(page.json, "total")},
                       {"rules", list}})
           << std::flush;
  } else if (!found) {
    std::string why = "no rule has `" + asked.text + "`";
    if (hidden > 0) why += " but " + std::to_string(hidden) + " built in" + see_all;
    return fail(why, io);
  } else {
    io.out << table_of(list, before.has_value(), io);
    for (const Json& rule : list)
      for (const auto& d : diagnostics_of(list_field(rule, "warnings")))
        io.out << config::on_screen(base::to_string(d)) << '\n';
    io.out << std::flush;
    if (hidden > 0)
      note(std::to_string(hidden) + (hidden == 1 ? " rule is" : " rules are") + " built in" +
               see_all,
           io);
  }
  return found ? config::exit_ok : config::exit_failure;
}

}  // namespace

int rules(const Words& words, config::CommandIo& io) {
  Arguments arguments("sluice rules [options] [TEXT]", about_rules, footer_of_rules());
  AdminFlags flags;
  std::string over_text = "0s";
  add_admin_flags(arguments, flags);
  add_over_flag(arguments, over_text);
  bool all = false;
  arguments.add_flag("--all", all, "List the rules that protocols bring, too");
  if (const auto ended = arguments.parse(words, io)) return *ended;
  if (arguments.positional().size() > 1) return arguments.misused("one TEXT is enough", io);
  const std::string text = arguments.positional().empty() ? "" : arguments.positional().front();
  int ending = config::exit_ok;
  const auto over = over_of(over_text, arguments, io, ending);
  if (!over) return ending;
  auto port = AdminPort::open(flags, arguments, io, ending);
  if (!port) return ending;
  return show_rules(*port, {flags, text, all, *over}, io);
}

}  // namespace sluice::cli
