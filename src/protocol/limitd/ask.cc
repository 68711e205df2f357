#include "cli/ask.h"

#include <algorithm>
#include <chrono>

#include "base/units.h"
#include "cli/admin_port.h"
#include "cli/arguments.h"
#include "cli/asked_server.h"
#include "cli/inspect.h"
#include "client/http_client.h"
#include "config/address.h"
#include "config/screen_text.h"
#include "protocol/limitd/commands.h"
#include "protocol/limitd/rules.h"

namespace sluice::limitd {
namespace {

constexpr const char* about_ask_limitd =
    "Asks a running server over limitd's protocol, and says its answer in words.\n"
    "  take    COUNT units now, or none\n"
    "  wait    the same, once they are there: for the time of --timeout\n"
    "  put     COUNT units back; without one all, which is also called reset\n"
    "  get     how a bucket stands, taking nothing\n"
    "  status  the buckets whose keys begin with KEY, at most 100\n"
    "  ping    does a server answer? (no TYPE, no KEY)";

constexpr const char* footer_of_ask_limitd =
    "Example:\n"
    "  sluice ask limitd take user 10.0.0.7\n"
    "  allowed: 9 of 10 left, all of them again within 1s\n";

constexpr std::string_view methods_known = "take, wait, put, reset, get, status or ping";

struct Question {
  client_verb verb = client_verb::take;
  std::string type, key;           // for a list: the prefix of the keys
  std::optional<int32_t> count{};  // empty: 1; for a put: all
};

std::optional<client_verb> verb_named(std::string_view name) {
  if (name == "take") return client_verb::take;
  if (name == "wait") return client_verb::wait;
  if (name == "put" || name == "reset") return client_verb::put;
  if (name == "get") return client_verb::peek;
  if (name == "status") return client_verb::list;
  if (name == "ping") return client_verb::ping;
  return std::nullopt;
}

// The state of a bucket. The protocol has a resolution of one second.
struct Level {
  int64_t remaining = 0, limit = 0;
  int64_t reset = 0;  // Unix seconds at which it is full again; 0: full, or only a put fills it
};

// `told`: an answer, or one counter of a list.
template <class T>
Level level_of(const T& told) {
  return {told.remaining.value_or(0), told.limit.value_or(0), told.reset_at.value_or(0)};
}

std::string words_for(const Level& level) {
  std::string text =
      std::to_string(level.remaining) + " of " + std::to_string(level.limit) + " left";
  if (level.reset == 0 || level.remaining >= level.limit) return text;
  const auto now = std::chrono::duration_cast<std::chrono::seconds>(
      std::chrono::system_clock::now().time_since_epoch());
  constexpr int64_t seconds_max = INT64_MAX / 1'000'000;
  const int64_t left = std::clamp<int64_t>(level.reset - now.count(), 1, seconds_max);
  return text + ", all of them again within " + base::format_duration(base::seconds(left));
}

bool decides(client_verb verb) {
  return verb == client_verb::take || verb == client_verb::wait;
}

// Was it refused for good, because it asks for more units than the bucket holds?
bool is_never(const Question& question, const client_result& answer) {
  return decides(question.verb) && !answer.allowed &&
         question.count.value_or(1) > level_of(answer).limit;
}

std::string to_words(const Question& question, const client_result& answer, bool coloured) {
  if (question.verb == client_verb::ping) return "pong\n";
  if (question.verb == client_verb::list) {
    std::string text;
    for (const client_level& one : answer.levels)
      text += config::on_screen(one.name) + ": " + words_for(level_of(one)) + "\n";
    return text.empty() ? "none\n" : text;
  }
  const Level level = level_of(answer);
  std::string text = words_for(level);
  if (is_never(question, answer))
    text += "; " + std::to_string(question.count.value_or(1)) + " are never there, as it holds " +
            std::to_string(level.limit) + " at most";
  text += "\n";
  if (!decides(question.verb)) return text;
  const std::string verdict = answer.allowed ? config::paint("allowed", config::green, coloured)
                                             : config::paint("denied", config::red, coloured);
  return verdict + (answer.delayed ? " after a wait: " : ": ") + text;
}

nlohmann::ordered_json json_of(const Level& level) {
  return {{"remaining", level.remaining}, {"reset", level.reset}, {"limit", level.limit}};
}

nlohmann::ordered_json json_of(const Question& question, const client_result& answer) {
  if (question.verb == client_verb::ping) return {{"pong", true}};
  if (question.verb == client_verb::list) {
    auto items = nlohmann::ordered_json::array();
    for (const client_level& one : answer.levels) {
      nlohmann::ordered_json json{{"key", one.name}};
      json.update(json_of(level_of(one)));
      items.push_back(std::move(json));
    }
    return {{"items", items}};
  }
  nlohmann::ordered_json json = nlohmann::ordered_json::object();
  if (decides(question.verb)) json = {{"allowed", answer.allowed}, {"delayed", answer.delayed}};
  if (is_never(question, answer)) json["never"] = true;
  json.update(json_of(level_of(answer)));
  return json;
}

// Parses the words after `limitd`.
base::Result<Question> read_question(const cli::Words& words) {
  const auto verb = words.empty() ? std::nullopt : verb_named(words[0]);
  if (!verb)
    return base::Problem{"behind `limitd` comes what to do: " + std::string(methods_known)};
  Question question;
  question.verb = *verb;
  const bool ping = *verb == client_verb::ping;
  const bool counts = !ping && *verb != client_verb::peek && *verb != client_verb::list;
  const size_t least = ping ? 1 : 3, most = least + (counts ? 1 : 0);
  if (words.size() < least || words.size() > most)
    return base::Problem{ping ? "`ping` has no more words"
                              : "`" + words[0] + "` is followed by TYPE KEY" +
                                    (counts ? " [COUNT]" : "")};
  if (ping) return question;
  question.type = words[1];
  question.key = words[2];
  if (words.size() == least) return question;
  const auto count = base::parse_count(words[3]);
  if (!count || *count < 1 || *count > INT32_MAX)
    return base::Problem{"COUNT must be 1 to 2147483647, not `" + words[3] + "`"};
  question.count = static_cast<int32_t>(*count);
  return question;
}

// A wait for more units than the bucket holds would only end with the deadline, so such a wait
// becomes a take. `get` shows how many units the bucket holds, but only a take shows whether it is
// unlimited.
client_result ask_server(cli::AskedServer& server, const Question& question) {
  client_request request;
  request.verb = question.verb;
  request.subject.type = question.type;
  request.subject.key = question.key;
  if (question.verb != client_verb::wait) {
    request.n = question.count;
    return server.call(request);
  }
  request.verb = client_verb::peek;
  client_result result = server.call(request);
  if (result.error != client_errc::none) return result;
  const bool is_never = question.count.value_or(1) > level_of(result).limit;
  request.verb = is_never ? client_verb::take : client_verb::wait;
  request.n = question.count;
  result = server.call(request);
  if (is_never) return result;
  if (result.error != client_errc::none) {
    result.text += "; nothing was taken, and --timeout MILLISECONDS waits longer";
  } else if (!result.allowed) {
    // Only a server that stops or has other limits by now ends a wait before its units are there.
    result.error = client_errc::unavailable;
    result.text =
        "the server ended the wait before the units were there: it may be stopping, or its policy "
        "has changed; nothing was taken, so ask again";
  }
  return result;
}

constexpr std::chrono::milliseconds types_timeout{500};

// The names of the bucket types of a server on this machine; empty: its admin port does not answer.
std::string known_types(const std::string& host, const config::CommandIo& io) {
  if (!config::is_loopback(host) || !io.environment) return "";
  const std::string admin = cli::admin_server_of(io).address;
  const auto address =
      config::parse_address(admin.empty() ? "127.0.0.1" : admin, config::admin_port);
  if (!address) return "";
  calls::HttpClient::Options options;
  options.host = address->host;
  options.port = address->port;
  options.timeout = types_timeout;
  options.token = io.environment("SLUICE_ADMIN_TOKEN").value_or("");
  calls::HttpClient client(std::move(options));
  const auto result = client.ask("GET", "/v1/rules?limit=1000");
  if (!result.answer || result.answer->status != 200) return "";
  const auto json = nlohmann::json::parse(result.answer->body, nullptr, false);
  if (!json.is_object() || !json.contains("rules") || !json["rules"].is_array()) return "";
  std::string names;
  for (const auto& rule : json["rules"]) {
    if (!rule.is_object() || rule.value("dialect", "") != dialect.name) continue;
    const std::string name = rule.value("name", "");
    if (!name.empty()) names += (names.empty() ? "`" : ", `") + name + "`";
  }
  return names;
}

std::string no_such_type(const std::string& type, const std::string& host,
                         const config::CommandIo& io) {
  const std::string known = known_types(host, io);
  return "there is no bucket type `" + type + "`; " +
         (known.empty() ? "`sluice rules` lists those that there are" : "there are " + known);
}

}  // namespace

int ask(const protocol::Words& words, config::CommandIo& io) {
  cli::Arguments arguments("sluice ask limitd [options] METHOD TYPE KEY [COUNT]", about_ask_limitd,
                           footer_of_ask_limitd, cli::exit_of_ask);
  cli::AskOptions options(description.port);
  cli::add_ask_options(arguments, options);
  arguments.set_words({"take", "wait", "put", "reset", "get", "status", "ping"});
  if (const auto status = arguments.parse(words, io)) return *status;
  const auto question = read_question(arguments.positional());
  if (!question) return arguments.misused(question.problem().text, io);
  const auto target = cli::target_of(options, description.port, {"limitd"});
  if (!target) return arguments.misused(target.problem().text, io);

  cli::AskedServer server("limitd", *target);
  const client_result answer = ask_server(server, *question);
  if (answer.error != client_errc::none)
    return cli::report_undecided(answer.error == client_errc::no_rule
                                     ? no_such_type(question->type, target->address.host, io)
                                     : answer.text,
                                 options.json, io);
  io.out << (options.json ? cli::to_text(json_of(*question, answer))
                          : to_words(*question, answer, io.out_colour))
         << std::flush;
  return decides(question->verb) && !answer.allowed ? cli::exit_denied : cli::exit_allowed;
}

}  // namespace sluice::limitd
