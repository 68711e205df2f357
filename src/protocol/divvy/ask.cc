#include "cli/ask.h"

#include "base/bounds.h"
#include "base/units.h"
#include "cli/inspect.h"
#include "protocol/divvy/client.h"
#include "protocol/divvy/commands.h"
#include "protocol/divvy/line.h"

namespace sluice::divvy {
namespace {

constexpr const char* about_ask_divvy =
    "Asks a running server whether something may happen now, and says its decision in words.\n"
    "This takes one unit, as any client's request does.";

constexpr const char* footer_of_ask_divvy =
    "A request is words key=value, cut at the first `=` and otherwise taken literally.\n"
    "\n"
    "Example:\n"
    "  sluice ask divvy method=GET path=/pantry/cookies ip=10.0.0.7\n"
    "  allowed: 2 left, all of them again in 1h\n"
    "\n"
    "  sluice ask divvy job=report user=7 >/dev/null && make-report\n";

std::string words_for(const DivvyReply& answer, bool coloured) {
  // Of a limit so large some would be taken.
  if (answer.allowed && answer.remaining == base::bounds::quota_max)
    return config::paint("allowed", config::green, coloured) + ": unlimited\n";
  const int64_t seconds = answer.reset_seconds;
  constexpr int64_t seconds_max = INT64_MAX / 1'000'000;
  const std::string when =
      seconds <= 0 ? "in less than a second"
                   : "in " + base::format_duration(base::seconds(std::min(seconds, seconds_max)));
  std::string text = answer.allowed
                         ? config::paint("allowed", config::green, coloured) + ": " +
                               std::to_string(answer.remaining) + " left"
                         : config::paint("denied", config::red, coloured) + ": none left";
  // The protocol has the same words for both.
  if (seconds < 0)
    return text + ", and waiting does not help: a rule denies for good, or no rule applies\n";
  return text + (answer.allowed ? ", all of them again " : ", there are more ") + when + "\n";
}

}  // namespace

int ask(const protocol::Words& words, config::CommandIo& io) {
  cli::Arguments arguments("sluice ask divvy [options] key=value...", about_ask_divvy,
                           footer_of_ask_divvy, cli::exit_of_ask);
  cli::AskOptions options(description.port);
  cli::add_ask_options(arguments.app(), options);
  if (const auto status = arguments.parse(words, io)) return *status;
  std::string problem;
  const auto pairs = cli::pairs_of(arguments.positional(), problem);
  if (!pairs) return arguments.misused(problem, io);
  if (!divvy_request(*pairs, problem)) {
    cli::report_undecided(problem, options.json, io);
    return config::exit_usage;
  }
  const auto target = cli::target_of(options, description.port, problem);
  if (!target) return arguments.misused(problem, io);

  const auto& [address, timeout] = *target;
  const DivvyClient client(address.host, address.port, timeout);
  const DivvyResult result = client.hit(*pairs);
  if (!result.answer) return cli::report_undecided(result.error, options.json, io);
  const DivvyReply& answer = *result.answer;
  if (options.json)
    io.out << cli::to_text({{"allowed", answer.allowed},
                            {"remaining", answer.remaining},
                            {"reset_seconds", answer.reset_seconds}});
  else
    io.out << words_for(answer, io.out_colour);
  io.out.flush();
  return answer.allowed ? cli::exit_allowed : cli::exit_denied;
}

}  // namespace sluice::divvy
