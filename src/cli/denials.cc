#include <algorithm>
#include <map>

#include "base/units.h"
#include "cli/admin_words.h"
#include "cli/fleet.h"
#include "cli/inspect.h"
#include "cli/terminal.h"
#include "config/screen_text.h"
#include "wire/http_session.h"

namespace sluice::cli {
namespace {

constexpr const char* about_denials =
    "Lists what a running server has refused, for a day: which actor by which limit of which rule, "
    "how\n"
    "often, and when first and last. The last refusal comes first. Refusals by rules in shadow "
    "are\n"
    "marked.";

std::string footer_of_denials() {
  return admin_footer(
      "A server keeps a bounded number of notes: where many actors are refused, those that are "
      "refused\n"
      "least are left out, and a note says how many refusals that were.\n"
      "\n"
      "Examples:\n"
      "  sluice denials --actor acme --since 2h\n"
      "  sluice denials --rule login --json\n"
      "  sluice denials --admin 10.0.0.1:8380 --admin 10.0.0.2:8380",
      "listed, or there is none", "the server refuses it");
}

constexpr size_t listed_max = 1000;
constexpr base::Duration since_max = base::seconds(86'400);

struct DenialsFlags {
  FleetFlags fleet;
  std::optional<std::string> actor, rule;
  std::string since = "1h", limit = "100";
};

// Puts a server's item together with that of another server.
void join(Json& item, const Json& other) {
  item["denied"] = integer_field(item, "denied") + integer_field(other, "denied");
  item["first"] = std::min(text_field(item, "first"), text_field(other, "first"));
  item["last"] = std::max(text_field(item, "last"), text_field(other, "last"));
}

// The answers of several servers as one. Their moments are in one form, so texts are compared.
Json joined(const std::vector<AdminPort::Reply>& replies, size_t most) {
  Json all{{"since", ""}, {"until", ""}, {"started", ""}, {"items", Json::array()},
           {"more", 0},   {"dropped", 0}};
  std::map<std::string, Json> items;
  for (const auto& reply : replies) {
    if (!reply.is_done()) continue;
    for (const char* moment : {"since", "until", "started"})
      all[moment] = std::max(text_field(all, moment), text_field(reply.json, moment));
    for (const char* count : {"more", "dropped"})
      all[count] = integer_field(all, count) + integer_field(reply.json, count);
    for (const Json& item : list_field(reply.json, "items")) {
      Json key = Json::array();
      for (const char* name : {"rule", "actor", "cut", "counter", "limit", "shadow"})
        key.push_back(field(item, name));
      const auto [at, is_new] =
          items.try_emplace(key.dump(-1, ' ', false, Json::error_handler_t::replace), item);
      if (!is_new) join(at->second, item);
    }
  }
  std::vector<Json> list;
  for (auto& [key, item] : items) list.push_back(std::move(item));
  std::stable_sort(list.begin(), list.end(), [](const Json& a, const Json& b) {
    return text_field(a, "last") > text_field(b, "last");
  });
  for (Json& item : list) {
    if (all["items"].size() < most)
      all["items"].push_back(std::move(item));
    else
      all["more"] = integer_field(all, "more") + 1;
  }
  return all;
}

std::string actor_of(const Json& item) {
  const std::string actor = actor_words(field(item, "actor"));
  if (true_field(item, "cut")) return actor + "\u2026";
  return actor.empty() ? "(all)" : actor;
}

void print(const Json& answer, const DenialsFlags& asked, config::CommandIo& io) {
  const Json& items = list_field(answer, "items");
  if (items.empty())
    note("nothing " + (asked.actor ? "of the actor `" + *asked.actor + "` " : std::string()) +
             "was refused since " + text_field(answer, "since"),
         io);
  Table table({{"LAST"},
               {"FIRST"},
               {"DENIED", true},
               {"WHO", false, true},
               {"RULE", false, true},
               {"LIMIT", false, true}});
  for (const Json& item : items)
    table.add(
        {text_field(item, "last"), text_field(item, "first"),
         base::grouped(static_cast<uint64_t>(std::max<int64_t>(integer_field(item, "denied"), 0))),
         actor_of(item), text_field(item, "rule") + (true_field(item, "shadow") ? " (shadow)" : ""),
         limits_words(Json::array({field(item, "limit")}))});
  if (!items.empty()) io.out << table.text(io) << std::flush;
  if (const int64_t more = integer_field(answer, "more"); more > 0)
    note(std::to_string(more) + " more are not shown; --limit N shows more of them", io);
  if (const int64_t dropped = integer_field(answer, "dropped"); dropped > 0)
    note(std::to_string(dropped) +
             " refusals are not listed: too many actors were refused at that time",
         io);
  if (text_field(answer, "since") == text_field(answer, "started"))
    note("what was refused before the server started, at " + text_field(answer, "started") +
             ", is not known",
         io);
}

}  // namespace

int denials(const Words& words, config::CommandIo& io) {
  Arguments arguments("sluice denials [options]", about_denials, footer_of_denials());
  DenialsFlags asked;
  arguments.add_option("--actor", asked.actor, "Only of this actor, as `sluice top` shows it",
                       "NAME");
  arguments.add_option("--rule", asked.rule, "Only of rules whose name or pattern has it", "TEXT");
  arguments.add_option("--since", asked.since, "How far back, up to 1d; default " + asked.since,
                       "DURATION");
  arguments.add_option("--limit", asked.limit,
                       "List so many at most, 1 to 1000; default " + asked.limit, "N");
  add_fleet_flags(arguments, asked.fleet);
  if (const auto ended = arguments.parse(words, io)) return *ended;
  if (const auto ended = arguments.refuse_words(io)) return *ended;
  const auto since = base::parse_duration(asked.since);
  if (!since || since->us <= 0 || *since > since_max)
    return arguments.misused(
        "--since must be a length of time up to 1d, as 2h, not `" + asked.since + "`", io);
  const auto count = base::parse_count(asked.limit);
  if (!count || *count < 1 || *count > listed_max)
    return arguments.misused("--limit must be 1 to 1000, not `" + asked.limit + "`", io);
  int status = config::exit_ok;
  auto fleet = Fleet::open(asked.fleet, arguments, io, status);
  if (!fleet) return status;

  std::string target =
      "/v1/denials?since=" + wire::percent_encoded(asked.since) + "&limit=" + asked.limit;
  if (asked.actor) target += "&actor=" + wire::percent_encoded(*asked.actor);
  if (asked.rule) target += "&rule=" + wire::percent_encoded(*asked.rule);
  const auto replies = fleet->ask([&](AdminPort& port) { return port.get(target); });
  const bool json = asked.fleet.each.json;
  if (const auto* failed = failure_of(replies); failed != nullptr && fleet->is_one())
    return report_failure(*failed, json, io);
  Json answer = fleet->is_one() ? replies.front().json : joined(replies, *count);
  if (json) {
    status = report_unanswered(*fleet, replies, io, &answer);
    io.out << to_text(answer) << std::flush;
    return status;
  }
  if (failure_of(replies) == nullptr) print(answer, asked, io);
  return report_unanswered(*fleet, replies, io, nullptr);
}

}  // namespace sluice::cli
