// Sends each verb as a request with a method, a path and a body (client_verb::command), not by the
// client library's own verbs: --json shows the server's whole answer, and the library has no
// `explain`.
#include "cli/ask.h"

#include <algorithm>
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
#include "client/calendar_words.h"
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
constexpr std::string_view verbs[] = {"take",  "charge", "peek",    "put",
                                      "reset", "wait",   "explain", "health"};

// 36600 days, the longest window that a limit may have.
constexpr double seconds_max = 36'600.0 * 86'400;

struct Asked {
  std::string verb, key, n = "1", wait = "10", id;
  std::vector<std::string> limits, entries;
};

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
  if (second < text.size()) limit["burst"] = text.substr(second + 1);
  return limit;
}

// The body of the request that the arguments describe.
base::Result<Json> body_of(const Asked& asked) {
  Json body = Json::object();
  std::vector<std::string> texts = asked.entries;
  texts.insert(texts.end(), asked.limits.begin(), asked.limits.end());
  texts.push_back(asked.key);
  const auto bad = std::find_if_not(texts.begin(), texts.end(), base::utf8::is_valid);
  if (bad != texts.end())
    return base::Problem{"`" + config::on_screen(*bad) +
                         "` is not UTF-8, which a body of JSON must be"};
  if (asked.key.empty() != asked.limits.empty())
    return base::Problem{"--key and --limit go together"};
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
  const auto n = base::parse_count(asked.n);
  if (!n) return base::Problem{"--n takes a whole number, not `" + asked.n + "`"};
  if (asked.verb != "reset") body["n"] = *n;
  if (!asked.id.empty()) {
    if (asked.verb != "charge") return base::Problem{"--id is for `charge`"};
    body["id"] = asked.id;
  }
  if (asked.verb != "wait") return body;
  Json seconds = Json::parse(asked.wait, nullptr, false);
  if (const auto length = base::parse_duration(asked.wait); length && !seconds.is_number())
    seconds = static_cast<double>(length->us) / 1e6;
  if (!seconds.is_number() || !(seconds >= 0 && seconds <= wait_seconds_max))
    return base::Problem{"--wait takes 0 to 3600 seconds, as `10` or `10s`, not `" + asked.wait +
                         "`"};
  body["timeout"] = seconds;
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
  if (const std::string rule = text_of(answer, "rule"); !rule.empty())
    words += " (rule " + config::on_screen(rule) + ")";
  return words + "\n";
}

// "allowed: 97 of 100 left, all of them again within 2s (rule login)"
std::string words_of(const Json& answer, bool coloured) {
  if (answer.contains("reset"))
    return answer["reset"].dump() +
           (answer["reset"] == 1 ? " counter reset\n" : " counters reset\n");
  if (answer.contains("over")) return words_of_charge(answer, coloured);
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
  if (const std::string rule = text_of(answer, "rule"); !rule.empty())
    words += " (rule " + config::on_screen(rule) + ")";
  words += "\n";
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
  arguments.add_option("--n", asked.n, "Units, default 1; 0 looks", "N");
  arguments.add_option("--key", asked.key, "A counter by its key, with limits of its own", "KEY");
  arguments.add_option("--limit", asked.limits,
                       "QUOTA/WINDOW[:ALGORITHM[:BURST]] of --key; repeatable, up to 8", "LIMIT");
  arguments.add_option("--wait", asked.wait, "How long `wait` waits, as 10 or 10s; default 10",
                       "N");
  arguments.add_option("--id", asked.id,
                       "Of `charge`: sent again with its id within 10 minutes it is counted once",
                       "ID");
  cli::AskedUser user;
  cli::add_user_option(arguments, user);
  arguments.set_words({std::begin(verbs), std::end(verbs)});
  if (const auto status = arguments.parse(words, io)) return *status;
  asked.entries = arguments.positional();
  if (asked.entries.empty() ||
      std::find(std::begin(verbs), std::end(verbs), asked.entries.front()) == std::end(verbs))
    return arguments.misused(
        "behind `http` comes take, charge, peek, put, reset, wait, explain or health", io);
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
