#include "cli/ask.h"

#include <array>

#include "base/printable.h"
#include "base/units.h"
#include "cli/inspect.h"
#include "protocol/droplet/client.h"
#include "protocol/droplet/commands.h"

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

// "9 left per second, 99 per minute"; of a refusal only what refuses: "3 too many per month".
std::string words_for(const DropletResponse& answer, bool denied) {
  std::string text;
  for (size_t i = 0; i < droplet_periods.size(); ++i) {
    if (!answer.left[i] || (denied && *answer.left[i] >= 0)) continue;
    const int64_t n = *answer.left[i];
    const std::string number = std::to_string(denied ? -n : n);
    const char* const what = denied ? " too many" : " left";
    text += (text.empty() ? number + what : ", " + number) + " per " + period_words[i];
  }
  if (!text.empty()) return text;
  return denied ? "the server could not decide" : "no limit applies";
}

nlohmann::ordered_json left_of(const DropletResponse& answer) {
  auto left = nlohmann::ordered_json::object();
  for (size_t i = 0; i < droplet_periods.size(); ++i)
    if (answer.left[i]) left[std::string(droplet_periods[i])] = *answer.left[i];
  return left;
}

// An int32 with a sign.
std::optional<int32_t> parse_signed(std::string_view text) {
  const bool negative = text.starts_with('-');
  const auto n = base::parse_count(text.substr(negative ? 1 : 0));
  if (!n || *n > (negative ? uint64_t{1} << 31 : INT32_MAX)) return std::nullopt;
  const auto value = static_cast<int64_t>(*n);
  return static_cast<int32_t>(negative ? -value : value);
}

int say_query(const DropletResponse& answer, bool json, config::CommandIo& io) {
  const auto left = left_of(answer);
  if (json)
    io.out << cli::to_text({{"left", left}});
  else
    io.out << (left.empty() ? "no limits are known of it" : words_for(answer, false)) << '\n';
  io.out.flush();
  return cli::exit_allowed;
}

int say_take(const DropletResponse& answer, bool json, config::CommandIo& io) {
  const bool allowed = answer.accept;
  if (json)
    io.out << cli::to_text({{"allowed", allowed}, {"left", left_of(answer)}});
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
  cli::add_ask_options(arguments.app(), options);
  std::array<std::optional<std::string>, droplet_periods.size()> limits;
  std::optional<std::string> count;
  DropletRequest take;
  for (size_t i = 0; i < limits.size(); ++i)
    arguments.app()
        .add_option("--" + std::string(droplet_periods[i]), limits[i],
                    std::string("Limit per ") + period_words[i])
        ->type_name("N");
  arguments.app()
      .add_option("--count", count, "Units to take, default 1; below 0 they are added")
      ->type_name("N");
  arguments.app().add_flag("--reset", take.reset, "Forget the bucket first");
  if (const auto status = arguments.parse(words, io)) return *status;

  const cli::Words& positional = arguments.positional();
  if (positional.empty() || (positional[0] != "take" && positional[0] != "query"))
    return arguments.misused("behind `droplet` comes `take` or `query`", io);
  const bool query = positional[0] == "query";
  if (positional.size() != 2)
    return arguments.misused("`" + positional[0] + "` wants one bucket", io);
  take.bucket = positional[1];
  bool has_limits = false;
  for (size_t i = 0; i < limits.size(); ++i) {
    if (!limits[i]) continue;
    const auto n = base::parse_count(*limits[i]);
    if (!n || *n > UINT32_MAX)
      return arguments.misused("--" + std::string(droplet_periods[i]) +
                                   " must be 0 to 4294967295, not `" + *limits[i] + "`",
                               io);
    take.limits[i] = static_cast<uint32_t>(*n);
    has_limits = true;
  }
  if (count) {
    const auto n = parse_signed(*count);
    if (!n)
      return arguments.misused("--count must be -2147483648 to 2147483647, not `" + *count + "`",
                               io);
    take.count = *n;
  }
  if (query && (has_limits || count || take.reset))
    return arguments.misused("a query has no limits, no --count and no --reset", io);
  std::string problem;
  const auto target = cli::target_of(options, description.port, problem);
  if (!target) return arguments.misused(problem, io);

  const auto& [address, timeout] = *target;
  const DropletClient client(address.host, address.port, timeout);
  if (query) take.type = query_type;
  const auto result = client.ask(take);
  if (!result.answer) return cli::report_undecided(result.error, options.json, io);
  return query ? say_query(*result.answer, options.json, io)
               : say_take(*result.answer, options.json, io);
}

}  // namespace sluice::droplet
