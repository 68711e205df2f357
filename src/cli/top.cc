#include <algorithm>
#include <chrono>
#include <map>
#include <thread>

#include "base/units.h"
#include "cli/admin_words.h"
#include "cli/fleet.h"
#include "cli/inspect.h"
#include "cli/top_picture.h"
#include "config/screen_text.h"

namespace sluice::cli {
namespace {

using Clock = std::chrono::steady_clock;

constexpr const char* about_top =
    "Shows the actors that a running server denies most, or that ask most, over the last minutes.";

std::string footer_of_top() {
  return admin_footer(
      "Counts are of the last minutes, and of a busy server's rarer keys at most a little too "
      "high\n"
      "(error_max in JSON). REFUSES NOW: which of the counter's limits has nothing left.\n"
      "\n"
      "Examples:\n"
      "  sluice top\n"
      "  sluice top --by active --over 5s\n"
      "  sluice top --shadow\n"
      "  sluice top --limit 5\n"
      "  sluice top --rule cookies\n"
      "  sluice top --json",
      "shown", "the server refuses it");
}

constexpr size_t listed_min = 100, listed_max = 1000;
// The most counters of which the refusing limit is looked up; each needs a request.
constexpr size_t refusing_max = 50;

struct TopFlags {
  FleetFlags fleet;
  std::string by = "denied", rule, limit = "20", over = "500ms";
  bool shadow = false;
};

// What was seen at once: the list, and the status of each server that has answered.
struct Seen {
  Json answer;
  std::vector<std::optional<Look>> looks;  // in the order of the servers
  std::vector<AdminPort::Reply> replies;
};

// Which items to show: only those of rules whose names contain this text.
struct TopView {
  std::string by, rule;
  size_t count;
};

void keep_rules(Json& answer, const std::string& text) {
  Json items = Json::array();
  for (const Json& item : list_field(answer, "items"))
    if (text_field(item, "rule").find(text) != std::string::npos) items.push_back(item);
  answer["items"] = std::move(items);
}

// Puts an item of another server to that of the same counter. `at`: the server with most denials.
void join(Json& item, const Json& other) {
  if (integer_field(other, "denied") > integer_field(item, "most")) {
    item["most"] = integer_field(other, "denied");
    item["at"] = field(other, "at");
  }
  for (const char* count : {"allowed", "denied", "error_max"})
    item[count] = integer_field(item, count) + integer_field(other, count);
}

// The answers of several servers as one: sums, in the order of the count that they are listed by.
Json joined(const std::vector<AdminPort::Reply>& replies, const TopView& wanted) {
  Json all;
  std::map<std::string, Json> items;
  for (size_t at = 0; at < replies.size(); ++at) {
    const Json& answer = replies[at].json;
    if (!replies[at].is_done()) continue;
    if (all.is_null()) all = answer;
    if (integer_field(answer, "window_seconds") > integer_field(all, "window_seconds"))
      for (const char* key : {"window_seconds", "since"}) all[key] = field(answer, key);
    for (Json item : list_field(answer, "items")) {
      item["at"] = at;
      item["most"] = integer_field(item, "denied");
      const std::string key = text_field(item, "rule") + '\n' + text_field(item, "path");
      const auto [place, is_new] = items.try_emplace(key, item);
      if (!is_new) join(place->second, item);
    }
  }
  std::vector<Json> list;
  for (auto& [key, item] : items) list.push_back(std::move(item));
  const char* const denied = "denied";
  std::stable_sort(list.begin(), list.end(), [&](const Json& a, const Json& b) {
    const auto count = [&](const Json& item) {
      return wanted.by == "active" ? integer_field(item, "allowed") + integer_field(item, denied)
                                   : integer_field(item, denied);
    };
    return count(a) > count(b);
  });
  all["items"] = list;
  return all;
}

// The first reply that is not done, if no server has answered.
AdminPort::Reply see(Fleet& fleet, const TopView& wanted, Seen& seen) {
  // Many counters of a rule may come after those of all others, so the whole list is needed.
  const size_t count = wanted.rule.empty() ? wanted.count : listed_max;
  seen.looks.assign(fleet.size(), std::nullopt);
  seen.replies = fleet.ask([&](AdminPort& port) {
    auto reply = port.get("/v1/top?by=" + wanted.by + "&limit=" + std::to_string(count));
    if (reply.is_done())
      for (size_t i = 0; i < fleet.size(); ++i)
        if (&fleet.port(i) == &port) seen.looks[i] = look_at(port, reply);
    return reply;
  });
  if (const auto* const failed = failure_of(seen.replies)) return *failed;
  if (fleet.is_one()) {
    seen.answer = seen.replies.front().json;
  } else {
    seen.answer = joined(seen.replies, wanted);
  }
  if (!wanted.rule.empty()) keep_rules(seen.answer, wanted.rule);
  AdminPort::Reply done;
  done.kind = AdminPort::Reply::Kind::done;
  return done;
}

// The lines about each server; of one without an answer why.
std::vector<ServerLines> lines_about(Fleet& fleet, const std::vector<std::optional<Look>>& before,
                                     const Seen& seen) {
  std::vector<ServerLines> lines;
  for (size_t i = 0; i < fleet.size(); ++i) {
    const std::string& name = fleet.port(i).name();
    if (seen.looks[i])
      lines.push_back(
          server_lines(name, i < before.size() ? before[i] : std::nullopt, *seen.looks[i]));
    else
      lines.push_back({name, "", {config::on_screen(seen.replies[i].problem)}});
  }
  return lines;
}

// Adds `refused_by` to the first items with denials: the limits of the counter that refuse now. A
// counter that cannot be read gets none.
void add_refusing(Fleet& fleet, Json& answer, size_t count) {
  Json items = list_field(answer, "items");
  for (size_t i = 0; i < items.size(); ++i) {
    Json& item = items[i];
    AdminPort& port = fleet.port(static_cast<size_t>(integer_field(item, "at")));
    for (const char* own : {"at", "most"}) item.erase(own);
    if (i >= count || integer_field(item, "denied") == 0 || true_field(item, "cut")) continue;
    const auto reply = port.get("/v1/counters/" + text_field(item, "path"));
    Json refusing = Json::array();
    for (const Json& limit : list_field(reply.json, "limits"))
      if (!true_field(limit, "allowed")) refusing.push_back(limit);
    if (reply.is_done()) item["refused_by"] = std::move(refusing);
  }
  answer["items"] = std::move(items);
}

// The first items of the answer. More were requested, so that the rates of items that moved up are
// known.
Json first_items(const Json& answer, size_t count) {
  Json cut = answer;
  Json items = Json::array();
  for (const Json& item : list_field(answer, "items"))
    if (items.size() < count) items.push_back(item);
  cut["items"] = std::move(items);
  return cut;
}

// No server has answered.
int report_none(Fleet& fleet, const AdminPort::Reply& reply, const Seen& seen, bool json,
                config::CommandIo& io) {
  if (fleet.is_one() || json) return report_failure(reply, json, io);
  return report_unanswered(fleet, seen.replies, io, nullptr);
}

int show_top(Fleet& fleet, const TopFlags& asked, size_t count, std::chrono::microseconds over,
             config::CommandIo& io) {
  const bool json = asked.fleet.each.json;
  TopRates rates;
  const TopView wanted{asked.by, asked.rule, std::clamp(count, listed_min, listed_max)};
  Seen seen;
  if (over.count() > 0) {
    const auto first = see(fleet, wanted, seen);
    if (!first.is_done()) return report_none(fleet, first, seen, json, io);
    rates.add(seen.answer, Clock::now());
    std::this_thread::sleep_for(over);
  }
  const std::vector<std::optional<Look>> before = std::move(seen.looks);
  const auto reply = see(fleet, wanted, seen);
  if (!reply.is_done()) return report_none(fleet, reply, seen, json, io);
  rates.add(seen.answer, Clock::now());
  Json answer = first_items(seen.answer, count);
  add_refusing(fleet, answer, refusing_max);
  if (json) {
    const int status = report_unanswered(fleet, seen.replies, io, &answer);
    io.out << to_text(answer) << std::flush;
    return status;
  }
  const auto servers = lines_about(fleet, before, seen);
  for (size_t i = 0; i < servers.size(); ++i) {
    if (!seen.looks[i]) continue;  // named on standard error
    const ServerLines& server = servers[i];
    if (fleet.is_one())
      io.out << server.name << '\n' << server.figures << '\n';
    else
      io.out << line_of(server) << '\n';
    for (const std::string& trouble : server.troubles)
      io.out << config::paint(trouble, config::red, io.out_colour) << '\n';
  }
  const Table table = table_of_top(answer);
  io.out << order_words(answer) << (table.rows() == 0 ? ": none\n" : "\n\n");
  if (table.rows() > 0) io.out << table.text(io);
  io.out.flush();
  return report_unanswered(fleet, seen.replies, io, nullptr);
}

void add_flags(Arguments& arguments, TopFlags& asked) {
  arguments.add_option("--by", asked.by,
                       "The order: denied, active or shadow_denied; default denied",
                       "denied|active|shadow_denied");
  arguments.add_flag("--shadow", asked.shadow,
                     "Whom rules with mode: shadow would deny, as --by shadow_denied");
  arguments.add_option("--rule", asked.rule, "Only counters of rules whose name or pattern has it",
                       "TEXT");
  arguments.add_option("--limit", asked.limit, "List so many at most, 1 to 1000; default 20", "N");
  add_over_flag(arguments, asked.over);
  add_fleet_flags(arguments, asked.fleet);
}

}  // namespace

int top(const Words& words, config::CommandIo& io) {
  Arguments arguments("sluice top [options]", about_top, footer_of_top());
  TopFlags asked;
  add_flags(arguments, asked);
  if (const auto ended = arguments.parse(words, io)) return *ended;
  if (const auto ended = arguments.refuse_words(io)) return *ended;
  if (asked.shadow) asked.by = "shadow_denied";
  if (asked.by != "denied" && asked.by != "active" && asked.by != "shadow_denied")
    return arguments.misused("--by must be denied, active or shadow_denied, not `" + asked.by + "`",
                             io);
  const auto count = base::parse_count(asked.limit);
  if (!count || *count < 1 || *count > listed_max)
    return arguments.misused("--limit must be 1 to 1000, not `" + asked.limit + "`", io);
  int ending = config::exit_ok;
  const auto over = over_of(asked.over, arguments, io, ending);
  if (!over) return ending;
  auto fleet = Fleet::open(asked.fleet, arguments, io, ending);
  if (!fleet) return ending;
  return show_top(*fleet, asked, *count, *over, io);
}

}  // namespace sluice::cli
