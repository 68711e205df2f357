#include "cli/ask.h"

#include <array>

#include "base/printable.h"
#include "base/units.h"
#include "cli/asked_server.h"
#include "cli/inspect.h"
#include "protocol/droplet/commands.h"
#include "protocol/droplet/message.h"

namespace sluice::droplet {
namespace {

constexpr const char* about_ask_droplet =
    "Asks a running server in droplet's words. `take` takes units from a bucket if each limit "
    "that\n"
    "is given allows it, and sets these limits; `query` shows what is left and takes nothing.";

constexpr const char* footer_of_ask_droplet =
    "Limits: units per second, minute, hour, day, 7 days and 30 days. One that a bucket has and "
    "that\n"
    "is not given stays, and is debited without being asked. A limit of the server's own rules is\n"
    "told under the shortest of these that is not shorter than its window.\n"
    "\n"
    "Example:\n"
    "  sluice ask droplet take jar --lm 100 --lo 1000\n"
    "  allowed: 99 left per minute, 999 per month\n"
    "\n"
    "  sluice ask droplet query jar\n"
    "  99 left per minute, 999 per month\n";

constexpr std::array<const char*, droplet_periods.size()> period_words{"second", "minute", "hour",
                                                                       "day",    "week",   "month"};

// The units left of a period's limit; nothing: the bucket has no limit for that period.
std::optional<int64_t> left_of(const client_result& answer, size_t period) {
  for (const client_level& level : answer.levels)
    if (level.name == droplet_periods[period]) return level.remaining;
  return std::nullopt;
}

// "9 left per second, 99 per minute"; after a refusal only the limits that refuse, as in "3 too
// many per month".
std::string words_for(const client_result& answer, bool denied) {
  std::string text;
  for (size_t i = 0; i < droplet_periods.size(); ++i) {
    const auto left = left_of(answer, i);
    if (!left || (denied && *left >= 0)) continue;
    const int64_t n = *left;
    const std::string number = std::to_string(denied ? -n : n);
    const char* const what = denied ? " too many" : " left";
    text += (text.empty() ? number + what : ", " + number) + " per " + period_words[i];
  }
  if (!text.empty()) return text;
  return denied ? "the server could not decide" : "no limit applies";
}

nlohmann::ordered_json json_of_left(const client_result& answer) {
  auto left = nlohmann::ordered_json::object();
  for (const client_level& level : answer.levels) left[level.name] = level.remaining.value_or(0);
  return left;
}

// Parses an int32, which may be negative.
std::optional<int32_t> parse_signed(std::string_view text) {
  const bool negative = text.starts_with('-');
  const auto n = base::parse_count(text.substr(negative ? 1 : 0));
  if (!n || *n > (negative ? uint64_t{1} << 31 : INT32_MAX)) return std::nullopt;
  const auto value = static_cast<int64_t>(*n);
  return static_cast<int32_t>(negative ? -value : value);
}

int say_query(const client_result& answer, bool json, config::CommandIo& io) {
  const auto left = json_of_left(answer);
  if (json)
    io.out << cli::to_text({{"left", left}});
  else
    io.out << (left.empty() ? "no limits are known of it" : words_for(answer, false)) << '\n';
  io.out.flush();
  return cli::exit_allowed;
}

int say_take(const client_result& answer, bool json, config::CommandIo& io) {
  const bool allowed = answer.allowed;
  if (json)
    io.out << cli::to_text({{"allowed", allowed}, {"left", json_of_left(answer)}});
  else
    io.out << (allowed ? config::paint("allowed", config::green, io.out_colour)
                       : config::paint("denied", config::red, io.out_colour))
           << ": " << words_for(answer, !allowed) << '\n';
  io.out.flush();
  return allowed ? cli::exit_allowed : cli::exit_denied;
}

}  // namespace

int ask(const protocol::Words& words, config::CommandIo& io) {
  cli::Arguments arguments("sluice ask droplet [options] take|query BUCKET", about_ask_droplet,
                           footer_of_ask_droplet, cli::exit_of_ask);
  cli::AskOptions options(description.port);
  cli::add_ask_options(arguments, options);
  std::array<std::optional<std::string>, droplet_periods.size()> limits;
  std::optional<std::string> count;
  client_request request;
  for (size_t i = 0; i < limits.size(); ++i)
    arguments.add_option("--" + std::string(droplet_periods[i]), limits[i],
                         std::string("Limit per ") + period_words[i], "N");
  arguments.add_option("--count", count, "Units to take, default 1; below 0 they are added", "N");
  arguments.add_flag("--reset", request.reset_first, "Forget the bucket first");
  arguments.set_words({"take", "query"});
  if (const auto status = arguments.parse(words, io)) return *status;

  const cli::Words& positional = arguments.positional();
  if (positional.empty() || (positional[0] != "take" && positional[0] != "query"))
    return arguments.misused("behind `droplet` comes `take` or `query`", io);
  const bool query = positional[0] == "query";
  if (positional.size() != 2)
    return arguments.misused("`" + positional[0] + "` wants one bucket", io);
  request.subject.key = positional[1];
  bool has_limits = false;
  for (size_t i = 0; i < limits.size(); ++i) {
    if (!limits[i]) continue;
    const auto n = base::parse_count(*limits[i]);
    if (!n || *n > UINT32_MAX)
      return arguments.misused("--" + std::string(droplet_periods[i]) +
                                   " must be 0 to 4294967295, not `" + *limits[i] + "`",
                               io);
    // The protocol's limit 0 means that the request has no limit; the bucket keeps its own.
    if (*n > 0)
      request.subject.limits.push_back(
          {static_cast<int64_t>(*n), std::chrono::microseconds(droplet_windows[i].us)});
    has_limits = true;
  }
  if (count) {
    const auto n = parse_signed(*count);
    if (!n)
      return arguments.misused("--count must be -2147483648 to 2147483647, not `" + *count + "`",
                               io);
    request.n = *n;
  }
  if (query && (has_limits || count || request.reset_first))
    return arguments.misused("a query has no limits, no --count and no --reset", io);
  const auto target = cli::target_of(options, description.port, {"ws"});
  if (!target) return arguments.misused(target.problem().text, io);

  if (query) request.verb = client_verb::peek;
  const client_result answer = cli::AskedServer("ws", *target).call(request);
  if (answer.error != client_errc::none)
    return cli::report_undecided(answer.text, options.json, io);
  return query ? say_query(answer, options.json, io) : say_take(answer, options.json, io);
}

}  // namespace sluice::droplet
