#include "cli/ask.h"

#include "base/bounds.h"
#include "base/units.h"
#include "cli/asked_server.h"
#include "cli/inspect.h"
#include "protocol/divvy/commands.h"
#include "protocol/divvy/line.h"

namespace sluice::divvy {
namespace {

constexpr const char* about_ask_divvy =
    "Asks a running server whether something may happen now, and says its decision in words.\n"
    "This takes one unit, as any client's request does.";

constexpr const char* footer_of_ask_divvy =
    "A request is words key=value, cut at the first `=` and otherwise taken literally.\n"
    "Divvy's protocol has no answer of its own for a request that no rule applies to:\n"
    "it is `OK false 0 -1`, as of a rule that denies for good, or with\n"
    "`unmatched: allow` that of a rule without a limit. `sluice explain` says which.\n"
    "\n"
    "Example:\n"
    "  sluice ask divvy method=GET path=/pantry/cookies ip=10.0.0.7\n"
    "  allowed: 2 left, all of them again in 1h\n"
    "\n"
    "  sluice ask divvy job=report user=7 >/dev/null && make-report\n";

// Seconds until the counter is fresh again; -1: never.
int64_t reset_seconds_of(const client_result& answer) {
  const auto reset = answer.reset_after.value_or(client_never);
  return reset == client_never ? -1 : reset / std::chrono::seconds(1);
}

std::string words_for(const client_result& answer, bool coloured) {
  const int64_t remaining = answer.remaining.value_or(0);
  // An unlimited rule answers quota_max. A real limit of that size would have less left after a
  // take.
  if (answer.allowed && remaining == base::bounds::quota_max)
    return config::paint("allowed", config::green, coloured) + ": unlimited\n";
  const int64_t seconds = reset_seconds_of(answer);
  const std::string when = seconds <= 0 ? "in less than a second"
                                        : "in " + base::format_duration(base::seconds(seconds));
  std::string text = answer.allowed
                         ? config::paint("allowed", config::green, coloured) + ": " +
                               std::to_string(remaining) + " left"
                         : config::paint("denied", config::red, coloured) + ": none left";
  if (seconds < 0)
    return text +
           ", and waiting does not help: a rule denies for good, or no rule applies (the protocol "
           "answers both alike; `sluice explain` says which)\n";
  return text + (answer.allowed ? ", all of them again " : ", try again ") + when + "\n";
}

}  // namespace

int ask(const protocol::Words& words, config::CommandIo& io) {
  cli::Arguments arguments("sluice ask divvy [options] key=value...", about_ask_divvy,
                           footer_of_ask_divvy, cli::exit_of_ask);
  cli::AskOptions options(description.port);
  cli::add_ask_options(arguments, options);
  if (const auto status = arguments.parse(words, io)) return *status;
  const auto pairs = cli::pairs_of(arguments.positional());
  if (!pairs) return arguments.misused(pairs.problem().text, io);
  if (const auto line = divvy_request(*pairs); !line) {
    cli::report_undecided(line.problem().text, options.json, io);
    return config::exit_usage;
  }
  const auto target = cli::target_of(options, description.port, {"divvy"});
  if (!target) return arguments.misused(target.problem().text, io);

  client_request request;
  for (const auto& [key, value] : *pairs) request.subject.entries.push_back({key, value});
  const client_result answer = cli::AskedServer("divvy", *target).call(request);
  if (answer.error != client_errc::none)
    return cli::report_undecided(
        (answer.text.starts_with("ERR") ? "the server refused: " : "") + answer.text, options.json,
        io);
  if (options.json)
    io.out << cli::to_text({{"allowed", answer.allowed},
                            {"remaining", answer.remaining.value_or(0)},
                            {"reset_seconds", reset_seconds_of(answer)}});
  else
    io.out << words_for(answer, io.out_colour);
  io.out.flush();
  return answer.allowed ? cli::exit_allowed : cli::exit_denied;
}

}  // namespace sluice::divvy
