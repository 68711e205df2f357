// Sends each verb as a request with a method, a path and a body (client_verb::command), not by the
// client library's own verbs: --json shows the server's whole answer, and the library has no
// `explain`.
#include "cli/ask.h"

#include <algorithm>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/bounds.h"
#include "base/units.h"
#include "base/utf8.h"
#include "cli/arguments.h"
#include "cli/asked_server.h"
#include "cli/inspect.h"
#include "client/limit_words.h"
#include "config/screen_text.h"
#include "protocol/http/commands.h"

namespace sluice::http {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* about_ask_http =
    "Asks a running server over its HTTP protocol, and says its answer in words.\n"
    "  take     N units now, or none\n"
    "  charge   N units that were used, past the limit too; exit code 1 if a limit is in debt\n"
    "  peek     would `take` be allowed? Takes nothing\n"
    "  put      N units back\n"
    "  reset    makes the counters as fresh\n"
    "  wait     N units, waiting for them for at most --wait seconds\n"
    "  reserve  N units for --ttl seconds, or none: an estimate, which `commit` settles\n"
    "  acquire  N places for --ttl seconds (default: the rule's lease), or none\n"
    "  extend   N units more for the reservation --id, or none\n"
    "  renew    the end of the reservation or places --id, --ttl seconds from now\n"
    "  commit   the reservation --id came to N units (with KEY=VALUE they are charged if it is\n"
    "           unknown)\n"
    "  release  all units or places of --id back\n"
    "  explain  which limits apply, and how they stand (needs the right `admin`)\n"
    "  health   is the server ready? (no KEY=VALUE)";

constexpr const char* footer_of_ask_http =
    "What decides are the rules of the policy that KEY=VALUE... meet, or with --key and --limit a\n"
    "counter with limits of its own.\n"
    "\n"
    "Examples:\n"
    "  sluice ask http take method=POST path=/login ip=10.0.0.1\n"
    "  sluice ask http take --key user:17 --limit 100/1m --limit 1000/1d:sliding_window\n"
    "\n";

// The longest wait that a server may be set to allow.
constexpr int wait_seconds_max = 3600;
constexpr std::string_view verbs[] = {"take",   "charge",  "peek",    "put",    "reset",
                                      "wait",   "reserve", "acquire", "extend", "renew",
                                      "commit", "release", "explain", "health"};

// 36600 days, the longest window that a limit may have.
constexpr double seconds_max = 36'600.0 * 86'400;

struct Asked {
  std::string verb, key, wait = "10", id, holder;
  std::optional<std::string> n, ttl;
  std::vector<std::string> limits, entries;

  bool is(std::initializer_list<std::string_view> some) const {
    return std::find(some.begin(), some.end(), verb) != some.end();
  }
};

// Nothing: the text is no length of time.
std::optional<Json> seconds_of(const std::string& text) {
  Json seconds = Json::parse(text, nullptr, false);
  if (seconds.is_number()) return seconds;
  const auto length = base::parse_duration(text);
  if (!length) return std::nullopt;
  return static_cast<double>(length->us) / 1e6;
}

// The JSON of the limit QUOTA/WINDOW[:ALGORITHM[:BURST]], or QUOTA/month@ZONE; nothing: the text
// has no slash.
std::optional<Json> limit_of(const std::string& text) {
  const size_t slash = text.find('/');
  if (slash == std::string::npos) return std::nullopt;
  const size_t colon = std::min(text.find(':', slash), text.size());
  Json limit = {{"quota", text.substr(0, slash)}};
  if (calls::each_calendar_word(std::string_view(text).substr(slash + 1),
                                [&limit](std::string_view name, std::string_view value) {
                                  limit[std::string(name)] = value;
                                }))
    return limit;
  if (colon > slash + 1) limit["window"] = text.substr(slash + 1, colon - slash - 1);
  if (colon == text.size()) return limit;
  const size_t second = std::min(text.find(':', colon + 1), text.size());
  limit["algorithm"] = text.substr(colon + 1, second - colon - 1);
  if (limit["algorithm"] == "concurrency" && limit.contains("window")) {
    limit["lease"] = std::move(limit["window"]);
    limit.erase("window");
  }
  if (second < text.size()) limit["burst"] = text.substr(second + 1);
  return limit;
}

// The members beside the subject.
base::Done put_members(const Asked& asked, Json& body) {
  const bool settles = asked.is({"extend", "renew", "commit", "release"});
  if (settles && asked.id.empty())
    return base::Problem{"give --id, the id of the reservation that `" + asked.verb + "` is about"};
  if (!asked.id.empty()) {
    if (!settles && !asked.is({"charge", "reserve", "acquire"}))
      return base::Problem{"--id is for `charge`, for reservations and for places"};
    body["id"] = asked.id;
  }
  if (!asked.n && asked.is({"extend", "commit"}))
    return base::Problem{asked.verb == "commit" ? "give --n, the units that were used"
                                                : "give --n, how many units more"};
  const auto n = base::parse_count(asked.n.value_or("1"));
  if (!n) return base::Problem{"--n takes a whole number, not `" + *asked.n + "`"};
  if (!asked.is({"reset", "renew", "release"})) body["n"] = *n;
  if (asked.ttl) {
    if (!asked.is({"reserve", "acquire", "extend", "renew"}))
      return base::Problem{"--ttl is for `reserve`, `acquire`, `extend` and `renew`"};
    const auto seconds = seconds_of(*asked.ttl);
    if (!seconds)
      return base::Problem{"--ttl takes seconds, as `60` or `1m`, not `" + *asked.ttl + "`"};
    body["ttl"] = *seconds;
  }
  if (asked.holder.empty()) return {};
  if (!asked.is({"reserve", "acquire"}))
    return base::Problem{"--holder is for `reserve` and `acquire`"};
  body["holder"] = asked.holder;
  return {};
}

// The body of the request that the arguments describe.
base::Result<Json> body_of(const Asked& asked) {
  Json body = Json::object();
  std::vector<std::string> texts = asked.entries;
  texts.insert(texts.end(), asked.limits.begin(), asked.limits.end());
  texts.push_back(asked.key);
  texts.push_back(asked.holder);
  const auto bad = std::find_if_not(texts.begin(), texts.end(), base::utf8::is_valid);
  if (bad != texts.end())
    return base::Problem{"`" + config::on_screen(*bad) +
                         "` is not UTF-8, which a body of JSON must be"};
  if (base::Done put = put_members(asked, body); !put) return std::move(put).problem();
  if (asked.key.empty() != asked.limits.empty())
    return base::Problem{"--key and --limit go together"};
  const bool has_subject = !asked.key.empty() || !asked.entries.empty();
  if (has_subject && asked.is({"extend", "renew", "release"}))
    return base::Problem{"--id names the reservation: take KEY=VALUE..., --key and --limit out"};
  if (!has_subject && asked.is({"extend", "renew", "commit", "release"})) return body;
  if (asked.key.empty() == asked.entries.empty())
    return base::Problem{"give either KEY=VALUE... or --key and --limit"};
  for (const std::string& entry : asked.entries) {
    const size_t cut = entry.find('=');
    if (cut == std::string::npos || cut == 0)
      return base::Problem{"`" + entry + "` is not KEY=VALUE"};
    body["entries"][entry.substr(0, cut)] = entry.substr(cut + 1);
  }
  if (!asked.key.empty()) {
    body["key"] = asked.key;
    body["limits"] = Json::array();
  }
  for (const std::string& text : asked.limits) {
    const auto limit = limit_of(text);
    if (!limit) return base::Problem{"`" + text + "` is not QUOTA/WINDOW, as in 100/1m"};
    body["limits"].push_back(*limit);
  }
  if (asked.verb != "wait") return body;
  const auto seconds = seconds_of(asked.wait);
  if (!seconds || !(*seconds >= 0 && *seconds <= wait_seconds_max))
    return base::Problem{"--wait takes 0 to 3600 seconds, as `10` or `10s`, not `" + asked.wait +
                         "`"};
  body["timeout"] = *seconds;
  return body;
}

std::string seconds_text(const Json& seconds) {
  if (!seconds.is_number()) return "never";
  // The server's number may be out of range.
  const double bounded = std::clamp(seconds.get<double>(), 0.0, seconds_max);
  return base::format_duration({static_cast<int64_t>(bounded * 1000 + 0.5) * 1000});
}

// The member with that name; JSON's null if there is none.
const Json& member_of(const Json& answer, const char* name) {
  static const Json none;
  const auto at = answer.find(name);
  return at == answer.end() ? none : *at;
}
std::string text_of(const Json& answer, const char* name) {
  const Json& text = member_of(answer, name);
  return text.is_string() ? text.get<std::string>() : std::string();
}

// "97 of 100 left"
std::string balance_text(const Json& answer) {
  const Json& limit = member_of(answer, "limit");
  if (limit.is_number_integer() && limit >= base::bounds::quota_max) return "unlimited";
  return member_of(answer, "remaining").dump() + " of " + limit.dump() + " left";
}

// " (rule tokens)"; empty: there is no rule.
std::string rule_words(const Json& answer) {
  const std::string rule = text_of(answer, "rule");
  return rule.empty() ? "" : " (rule " + config::on_screen(rule) + ")";
}

// "over: 15 beyond 100, one unit again in 9s (rule tokens)"
std::string words_of_charge(const Json& answer, bool coloured) {
  const bool over = answer["over"] == true;
  std::string words = over ? config::paint("over", config::red, coloured)
                           : config::paint("within", config::green, coloured);
  if (answer.contains("remaining"))
    words += ": " + (over ? member_of(answer, "debt").dump() + " beyond " +
                                member_of(answer, "limit").dump()
                          : balance_text(answer));
  const Json& retry = member_of(answer, "retry_after");
  if (over && answer.contains("retry_after"))
    words += retry.is_null() ? ", and waiting does not help"
                             : ", one unit again in " + seconds_text(retry);
  if (answer.contains("repeated")) words += ", charged before";
  return words + rule_words(answer) + "\n";
}

// "held: 500 for 1m, 8300 of 10000 left (rule tokens), id ID"
std::string words_of_hold(const Json& answer, bool coloured) {
  const bool is_held = !member_of(answer, "id").is_null();
  std::string words = config::paint(is_held ? "held" : "allowed", config::green, coloured);
  words += is_held ? ": " + member_of(answer, "reserved").dump() + " for " +
                         seconds_text(member_of(answer, "ttl"))
                   : ", but nothing is held: charge what is used";
  if (answer.contains("remaining")) words += ", " + balance_text(answer);
  words += rule_words(answer);
  if (is_held) words += ", id " + config::on_screen(text_of(answer, "id"));
  return words + "\n";
}

// "committed: 1200 used, 3300 went back, 8800 of 10000 left (rule tokens)"
std::string words_of_settled(const Json& answer, bool coloured) {
  const std::string state = config::on_screen(text_of(answer, "state"));
  std::string words = config::paint(state, config::green, coloured) + ": ";
  if (answer.contains("n")) words += answer["n"].dump() + " used, ";
  words += member_of(answer, "returned").dump() + " went back";
  if (const Json& charged = member_of(answer, "charged"); charged.is_number() && charged != 0)
    words += ", " + charged.dump() + " charged";
  if (answer.contains("remaining")) {
    const Json& debt = member_of(answer, "debt");
    words += ", " + (debt.is_number() && debt != 0
                         ? debt.dump() + " beyond " + member_of(answer, "limit").dump()
                         : balance_text(answer));
  }
  if (member_of(answer, "late") == true) words += ", late";
  if (member_of(answer, "repeated") == true) words += ", committed before";
  return words + rule_words(answer) + "\n";
}

// "allowed: 97 of 100 left, all of them again within 2s (rule login)"
std::string words_of(const Json& answer, bool coloured) {
  if (answer.contains("reset"))
    return answer["reset"].dump() +
           (answer["reset"] == 1 ? " counter reset\n" : " counters reset\n");
  if (answer.contains("over")) return words_of_charge(answer, coloured);
  if (answer.contains("state")) return words_of_settled(answer, coloured);
  if (answer.contains("id") && !answer.contains("allowed"))
    return "renewed: ends in " + seconds_text(member_of(answer, "ttl")) + "\n";
  if (answer.contains("id")) return words_of_hold(answer, coloured);
  std::string words;
  const bool decides = answer.contains("allowed");
  const bool allowed = decides && answer["allowed"] == true;
  if (decides)
    words = allowed ? config::paint("allowed", config::green, coloured)
                    : config::paint("denied", config::red, coloured);
  if (answer.contains("remaining")) words += (decides ? ": " : "") + balance_text(answer);
  if (decides && !allowed && answer.contains("retry_after"))
    words += answer["retry_after"].is_null()
                 ? ", and waiting does not help"
                 : ", try again in " + seconds_text(answer["retry_after"]);
  if (allowed && answer.contains("reset_after") && answer["reset_after"].is_number() &&
      answer["reset_after"] != 0)
    words += ", all of them again within " + seconds_text(answer["reset_after"]);
  words += rule_words(answer) + "\n";
  const Json& limits = member_of(answer, "limits");
  if (!limits.is_array()) return words;
  for (const Json& limit : limits)
    if (limit.is_object())
      words += "  " + config::on_screen(text_of(limit, "name")) + ": " + balance_text(limit) +
               ", " + config::on_screen(text_of(limit, "algorithm")) + "\n";
  return words;
}

int tell(const Asked& asked, const client_result& answer, bool json, config::CommandIo& io) {
  const Json parsed = Json::parse(answer.reply, nullptr, false);
  const bool decided = answer.status == 200 || answer.status == 429;
  if (parsed.is_discarded() || !parsed.is_object())
    return cli::report_undecided(
        "the server's answer is not sluice's: HTTP status " + std::to_string(answer.status), json,
        io);
  if (!decided) {
    std::string why = text_of(parsed, "detail");
    if (why.empty()) why = text_of(parsed, "title");
    return cli::report_undecided("the server refused (" + std::to_string(answer.status) + ")" +
                                     (why.empty() ? "" : ": " + why),
                                 json, io);
  }
  if (json)
    io.out << cli::to_text(parsed) << std::flush;
  else if (asked.verb == "health")
    io.out << "the server is ready\n" << std::flush;
  else
    io.out << words_of(parsed, io.out_colour) << std::flush;
  const bool denied = (parsed.contains("allowed") && parsed["allowed"] == false) ||
                      (parsed.contains("over") && parsed["over"] == true);
  return denied ? cli::exit_denied : cli::exit_allowed;
}

}  // namespace

int ask(const protocol::Words& words, config::CommandIo& io) {
  cli::Arguments arguments("sluice ask http [options] VERB KEY=VALUE...", about_ask_http,
                           std::string(footer_of_ask_http) + cli::about_users, cli::exit_of_ask);
  cli::AskOptions options(description.port);
  cli::add_ask_options(arguments, options);
  Asked asked;
  arguments.add_option("--n", asked.n, "Units, default 1; 0 looks. `extend` and `commit` need it",
                       "N");
  arguments.add_option("--key", asked.key, "A counter by its key, with limits of its own", "KEY");
  arguments.add_option("--limit", asked.limits,
                       "QUOTA/WINDOW[:ALGORITHM[:BURST]] of --key; repeatable, up to 8", "LIMIT");
  arguments.add_option("--wait", asked.wait, "How long `wait` waits, as 10 or 10s; default 10",
                       "N");
  arguments.add_option(
      "--id", asked.id,
      "Of `charge`, `reserve` and `acquire`: sent again with its id within 10 minutes it is "
      "counted once; of a reservation: which",
      "ID");
  arguments.add_option("--ttl", asked.ttl,
                       "How long the units are held, as 60 or 1m; default: the server's, of places "
                       "their lease",
                       "N");
  arguments.add_option("--holder", asked.holder,
                       "Of `reserve` and `acquire`: whose it is, for people", "TEXT");
  cli::AskedUser user;
  cli::add_user_option(arguments, user);
  arguments.set_words({std::begin(verbs), std::end(verbs)});
  if (const auto status = arguments.parse(words, io)) return *status;
  asked.entries = arguments.positional();
  if (asked.entries.empty() ||
      std::find(std::begin(verbs), std::end(verbs), asked.entries.front()) == std::end(verbs))
    return arguments.misused(
        "behind `http` comes take, charge, peek, put, reset, wait, reserve, acquire, extend, "
        "renew, commit, release, explain or health",
        io);
  asked.verb = asked.entries.front();
  asked.entries.erase(asked.entries.begin());
  auto target = cli::target_of(options, description.port, {"http"});
  if (!target) return arguments.misused(target.problem().text, io);
  if (const base::Done read = cli::read_token(user, io); !read)
    return arguments.misused(read.problem().text, io);

  std::string text;
  if (asked.verb != "health") {
    const auto body = body_of(asked);
    if (!body) return arguments.misused(body.problem().text, io);
    text = body->dump();
    if (body->contains("timeout"))
      target->timeout +=
          std::chrono::milliseconds(static_cast<int64_t>((*body)["timeout"].get<double>() * 1000));
  }
  const std::string path = "/v1/" + asked.verb;
  client_request request;
  request.verb = client_verb::command;
  request.words = {asked.verb == "health" ? "GET" : "POST", path, text};
  const client_result result = cli::AskedServer("http", *target, user).call(request);
  if (result.error != client_errc::none)
    return cli::report_undecided(result.text, options.json, io);
  return tell(asked, result, options.json, io);
}

}  // namespace sluice::http
