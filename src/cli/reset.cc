#include <algorithm>
#include <map>
#include <set>

#include "cli/admin_words.h"
#include "cli/fleet.h"
#include "cli/inspect.h"
#include "cli/terminal.h"
#include "config/screen_text.h"
#include "protocol/policy_files.h"
#include "protocol/protocol.h"
#include "wire/http_session.h"
#include "wire/shown_name.h"

namespace sluice::cli {
namespace {

// An example of a counter's whole name.
std::string example_counter() {
  for (const protocol::Description* protocol : protocol::all())
    if (protocol->policy != nullptr && !protocol->policy->counter.empty())
      return std::string(protocol->policy->counter);
  return "KEY";
}

constexpr const char* about_reset =
    "Makes one counter of a running server a fresh one, as if nothing had been taken, and says "
    "how\n"
    "it is then. KEY is the counter's whole name, as `sluice counters` and `sluice explain` print "
    "it.";

std::string footer_of_reset() {
  return admin_footer(
      "Examples:\n"
      "  sluice reset '" +
          example_counter() + "'\n  sluice reset --encoded " +
          wire::percent_encoded(example_counter()),
      "done", "no rule has such a counter, or the store cannot do it now");
}

constexpr const char* about_counters =
    "Lists counters of a running server and how they stand, in the order of their names; with "
    "PREFIX,\n"
    "those whose names begin so.";

std::string footer_of_counters() {
  return admin_footer(
      "That there is none is not a failure: no unit of it is taken, or all are back.\n"
      "\n"
      "Examples:\n"
      "  sluice counters\n"
      "  sluice counters '" +
          example_counter().substr(0, example_counter().find(' ')) +
          "' --limit 20\n"
          "  sluice counters --actor alice\n"
          "  sluice counters --json",
      "listed, or there is none", "the server refuses it");
}

// A page of many keys in Redis may have to wait for others; the server itself gives up after 30 s.
constexpr std::chrono::seconds reset_timeout_min{35};

// The counter's name for people. A name that is not UTF-8 is only in its path; a long name is cut.
std::string name_of(const Json& counter) {
  const std::string name = text_field(counter, "counter");
  if (name.empty()) return text_field(counter, "path");
  const auto bytes = counter.find("bytes");
  if (bytes == counter.end() || !bytes->is_number_unsigned()) return name;
  return name + "... (" + std::to_string(bytes->get<uint64_t>()) + " bytes)";
}

std::string levels_of(const Json& counter) {
  std::string text = text_field(counter, "problem");  // if it is not a counter
  for (const Json& limit : list_field(counter, "limits"))
    text += (text.empty() ? "" : "; ") + level_words(limit);
  if (const auto id = text_field(counter, "override"); !id.empty())
    text += " (override " + id + ")";
  return text;
}

// Is the text a percent-encoded path? A name that the shell has split would name another counter. A
// long name is cut, and followed by its length and digest.
bool is_encoded(std::string_view text) {
  if (const size_t cut = text.find('?'); cut != text.npos) {
    bool ill_formed = false;
    if (!wire::mark_of(text.substr(cut + 1), ill_formed)) return false;
    text = text.substr(0, cut);
  }
  for (size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    if (byte <= ' ' || byte >= 0x7f || text[i] == '?' || text[i] == '#') return false;
  }
  return !text.empty();
}

// Which counters to reset: those of one actor, or those whose names begin with `prefix`; at most so
// many.
struct CountersWanted {
  std::optional<std::string> actor;
  std::string prefix;
  size_t most;
};

AdminPort::Reply read_counters(AdminPort& port, const CountersWanted& wanted) {
  Json list = Json::array();
  auto last = wanted.actor
                  ? read_pages(port, "/v1/counters?actor=" + wire::percent_encoded(*wanted.actor),
                               "counters", SIZE_MAX, list)
                  : read_pages(port, "/v1/counters?prefix=" + wire::percent_encoded(wanted.prefix),
                               "counters", wanted.most, list);
  if (!last.is_done()) return last;
  Json json{{"counters", std::move(list)}};
  if (auto next = text_field(last.json, "next"); !next.empty()) json["next"] = std::move(next);
  if (true_field(last.json, "cut")) json["cut"] = true;
  last.json = std::move(json);
  return last;
}

// The same of one server of several, with where it has its counters, as `store`.
AdminPort::Reply read_counters_of_one(AdminPort& port, const CountersWanted& wanted) {
  auto reply = read_counters(port, wanted);
  if (!reply.is_done()) return reply;
  auto status = port.get("/v1/status");
  if (!status.is_done()) return status;
  reply.json["store"] = text_field(field(status.json, "store"), "kind");
  return reply;
}

// A limit of a counter as a sum of several servers has it: what is taken and left of it together,
// and on how many of them it refuses.
Json limit_of_fleet(const Json& limit) {
  Json sum;
  for (const char* key : {"algorithm", "quota", "window", "window_ms", "burst", "lease", "lease_ms",
                          "max_lease", "of_rule"})
    if (const auto at = limit.find(key); at != limit.end()) sum[key] = *at;
  const std::string algorithm = text_field(limit, "algorithm");
  const bool bucket = algorithm.ends_with("_bucket");
  sum["taken"] =
      integer_field(limit, bucket ? "burst" : "quota") - integer_field(limit, "remaining");
  sum["remaining"] = integer_field(limit, "remaining");
  sum["held"] = integer_field(limit, "held");
  sum["refusing"] = true_field(limit, "allowed") ? 0 : 1;
  return sum;
}

bool is_same_limit(const Json& a, const Json& b) {
  for (const char* key : {"algorithm", "quota", "window_ms", "burst", "lease", "max_lease"})
    if (field(a, key) != field(b, key)) return false;
  return true;
}

void add_counter(Json& sum, const Json& counter) {
  sum["servers"] = integer_field(sum, "servers") + 1;
  for (const Json& limit : list_field(counter, "limits")) {
    const Json more = limit_of_fleet(limit);
    Json& limits = sum["limits"];
    const auto same = std::find_if(limits.begin(), limits.end(),
                                   [&](const Json& one) { return is_same_limit(one, more); });
    if (same == limits.end()) {
      limits.push_back(more);
      continue;
    }
    for (const char* key : {"taken", "remaining", "held", "refusing"})
      (*same)[key] = integer_field(*same, key) + integer_field(more, key);
  }
}

// The counters of several servers by their names, with sums. Counters in Redis are the same for all
// servers, and so are taken from the first.
Json joined(const std::vector<AdminPort::Reply>& replies, size_t most) {
  std::map<std::string, Json> sums;
  std::set<std::string> shared;
  bool more = false, cut = false;
  for (const auto& reply : replies) {
    if (!reply.is_done()) continue;
    more = more || !text_field(reply.json, "next").empty();
    cut = cut || true_field(reply.json, "cut");
    const bool is_shared = text_field(reply.json, "store") == "redis";
    for (const Json& counter : list_field(reply.json, "counters")) {
      const std::string path = text_field(counter, "path");
      if (is_shared && !shared.insert(path).second) continue;
      Json& sum = sums[path];
      if (sum.is_null()) {
        sum = counter;
        sum["servers"] = 0;
        sum["limits"] = Json::array();
      }
      add_counter(sum, counter);
    }
  }
  Json all{{"counters", Json::array()}};
  for (auto& [path, sum] : sums) {
    if (all["counters"].size() < most)
      all["counters"].push_back(std::move(sum));
    else
      more = true;
  }
  all["more"] = more;
  if (cut) all["cut"] = true;
  return all;
}

// "163 taken on 2 servers, of 100 per 1m each; 1 refuses"
std::string sums_of(const Json& counter) {
  std::string text = text_field(counter, "problem");
  const int64_t servers = integer_field(counter, "servers");
  for (const Json& limit : list_field(counter, "limits")) {
    text += (text.empty() ? "" : "; ") + std::to_string(integer_field(limit, "taken")) +
            " taken on " + std::to_string(servers) +
            (servers == 1 ? " server, of " : " servers, of ") + limits_words(Json::array({limit})) +
            (servers == 1 ? "" : " each");
    if (const int64_t held = integer_field(limit, "held"); held > 0)
      text += " (" + std::to_string(held) + " held)";
    if (const int64_t refusing = integer_field(limit, "refusing"); refusing > 0)
      text += ", refused by " + std::to_string(refusing);
  }
  return text;
}

int show_counters(Fleet& fleet, const AdminFlags& flags, const CountersWanted& wanted,
                  config::CommandIo& io) {
  const auto& [actor, prefix, most] = wanted;
  const bool is_one = fleet.is_one();
  const auto replies = fleet.ask([&](AdminPort& port) {
    return is_one ? read_counters(port, wanted) : read_counters_of_one(port, wanted);
  });
  const auto* const failed = failure_of(replies);
  if (failed != nullptr && is_one) return report_failure(*failed, flags.json, io);
  Json answer = is_one ? replies.front().json : joined(replies, actor ? SIZE_MAX : most);
  const bool cut = true_field(answer, "cut");
  if (cut && !flags.json)
    warn(actor ? "the list is not complete: there are more rules than are looked at"
               : "the list is not complete: Redis has more keys than are looked at at a time",
         io);
  if (flags.json) {
    const int status = report_unanswered(fleet, replies, io, &answer);
    io.out << to_text(answer) << std::flush;
    return status;
  }
  const Json& list = list_field(answer, "counters");
  if (failed == nullptr && list.empty()) {
    note(actor ? "no rule has a counter of `" + *actor + "` that anything is taken of"
         : prefix.empty()
             ? "no live rule has a counter; those of keys with limits of their own are "
               "not listed"
             : "no counter's name begins with `" + prefix + "`",
         io);
  }
  if (!list.empty()) {
    Table table({{"COUNTER", false, true}, {"HOW IT STANDS", false, true}});
    for (const Json& counter : list)
      table.add({name_of(counter), is_one ? levels_of(counter) : sums_of(counter)});
    io.out << table.text(io) << std::flush;
  }
  if (!text_field(answer, "next").empty() || true_field(answer, "more"))
    note("there are more; --limit N lists more of them", io);
  return report_unanswered(fleet, replies, io, nullptr);
}

}  // namespace

int reset(const Words& words, config::CommandIo& io) {
  Arguments arguments("sluice reset [options] KEY", about_reset, footer_of_reset());
  AdminFlags flags;
  bool encoded = false;
  add_admin_flags(arguments, flags);
  arguments.add_flag("--encoded", encoded,
                     "KEY is percent-encoded, as `path` in JSON: for long or non-UTF-8 names");
  if (const auto ended = arguments.parse(words, io)) return *ended;
  if (arguments.positional().size() != 1 || arguments.positional().front().empty())
    return arguments.misused("one KEY is required; put it in quotes if it has blanks or stars", io);
  const std::string& key = arguments.positional().front();
  if (encoded && !is_encoded(key))
    return arguments.misused("`" + config::on_screen(key) + "` is not percent-encoded", io);
  int ending = config::exit_ok;
  auto port = AdminPort::open(flags, arguments, io, ending);
  if (!port) return ending;
  const auto reply =
      port->ask("DELETE", "/v1/counters/" + (encoded ? key : wire::path_of_name(key)), nullptr);
  if (const auto ended = end_without_words(reply, flags.json, io)) return *ended;
  io.out << config::on_screen(name_of(reply.json)) << ": "
         << config::on_screen(levels_of(reply.json)) << std::endl;
  return config::exit_ok;
}

int counters(const Words& words, config::CommandIo& io) {
  Arguments arguments("sluice counters [options] [PREFIX]", about_counters, footer_of_counters());
  FleetFlags flags;
  std::string limit_text = "100";
  std::optional<std::string> actor;
  add_fleet_flags(arguments, flags);
  arguments.add_option("--actor", actor,
                       "In place of PREFIX: what this actor has taken of any rule, as `top` shows\n"
                       "it; of a rule with several entries their values joined by `|`",
                       "NAME");
  arguments.add_option("--limit", limit_text, "List so many at most; default " + limit_text, "N");
  if (const auto ended = arguments.parse(words, io)) return *ended;
  if (arguments.positional().size() > 1)
    return arguments.misused("one PREFIX is enough; has it blanks or stars, put it in quotes", io);
  if (actor && (!arguments.positional().empty() || arguments.is_given("--limit")))
    return arguments.misused("--actor excludes PREFIX and --limit", io);
  int ending = config::exit_ok;
  const auto limit = listed_of(limit_text, arguments, io, ending);
  if (!limit) return ending;
  auto fleet = Fleet::open(flags, arguments, io, ending);
  if (!fleet) return ending;

  for (size_t i = 0; i < fleet->size(); ++i) fleet->port(i).wait_at_least(reset_timeout_min);
  const CountersWanted wanted{
      actor, arguments.positional().empty() ? "" : arguments.positional().front(), *limit};
  return show_counters(*fleet, flags.each, wanted, io);
}

}  // namespace sluice::cli
