#include "cli/ask.h"

#include <algorithm>

#include "base/printable.h"
#include "base/units.h"
#include "cli/address.h"
#include "cli/arguments.h"
#include "cli/inspect.h"
#include "client/divvy_client.h"

namespace sluice::cli {
namespace {

constexpr const char* about =
    "Asks a running server whether something may happen now, and says its decision in words.\n"
    "This takes one unit, as any client's request does.\n"
    "`sluice ask limitd --help` has limitd's methods.";

constexpr const char* footer =
    "A request is words key=value, cut at the first `=` and otherwise taken literally.\n"
    "\n"
    "Example:\n"
    "  sluice ask divvy method=GET path=/pantry/cookies ip=10.0.0.7\n"
    "  allowed: 2 left, all of them again in 1h\n"
    "\n"
    "  sluice ask divvy job=report user=7 >/dev/null && make-report\n"
    "\n"
    "Exit status: 0 allowed, 1 denied, 2 no decision (no server, no reply in time, wrong usage).";

std::string words_for(const client::DivvyAnswer& answer, bool coloured) {
  const int64_t seconds = answer.reset_seconds;
  constexpr int64_t seconds_max = INT64_MAX / 1'000'000;
  const std::string when =
      seconds <= 0 ? "in less than a second"
                   : "in " + base::format_duration(base::seconds(std::min(seconds, seconds_max)));
  std::string text = answer.allowed ? paint("allowed", green, coloured) + ": " +
                                          std::to_string(answer.remaining) + " left"
                                    : paint("denied", red, coloured) + ": none left";
  if (seconds < 0) return text + ", and waiting does not help\n";
  return text + (answer.allowed ? ", all of them again " : ", there are more ") + when + "\n";
}

}  // namespace

int tell_undecided(const std::string& error, bool json, Outside& outside) {
  if (json)
    outside.out << to_text({{"error", error}}) << std::flush;
  else
    outside.err << paint("error:", red, outside.err_colour) << ' ' << base::printable(error)
                << std::endl;
  return exit_undecided;
}

int ask(const Words& words, Outside& outside) {
  // The protocol stands before its words, so the first of the two that comes is it.
  const auto protocol = std::find_if(words.begin(), words.end(), [](const std::string& word) {
    return word == "limitd" || word == "divvy" || word == "--";
  });
  if (protocol != words.end() && *protocol == "limitd") return ask_limitd(words, outside);
  Arguments arguments("sluice ask divvy [options] key=value...", about, footer);
  std::string server = "localhost:8321", timeout = "1000";
  bool json = false;
  arguments.app()
      .add_option("--server", server, "Where the server listens; default localhost:8321")
      ->type_name("HOST:PORT");
  arguments.app()
      .add_option("--timeout", timeout, "Milliseconds until giving up; default 1000")
      ->type_name("MS");
  arguments.app().add_flag("--json", json, "Print the decision as JSON");
  if (const auto status = arguments.parse(words, outside)) return *status;
  const Words& positional = arguments.positional();
  if (positional.empty() || positional.front() != "divvy")
    return arguments.misused("the first word is to be the protocol, `divvy` or `limitd`", outside);
  std::string problem;
  const auto pairs = pairs_of(std::span(positional).subspan(1), problem);
  if (!pairs) return arguments.misused(problem, outside);
  const auto address = parse_address(server, divvy_port, problem);
  if (!address) return arguments.misused("--server: " + problem, outside);
  const auto ms = base::parse_count(timeout);
  if (!ms || *ms < 1 || *ms > timeout_ms_max)
    return arguments.misused("--timeout is to be 1 to 3600000 milliseconds, not `" + timeout + "`",
                             outside);

  const client::DivvyClient client(address->host, address->port, std::chrono::milliseconds(*ms));
  const client::DivvyResult result = client.hit(*pairs);
  if (!result.answer) return tell_undecided(result.error, json, outside);
  const client::DivvyAnswer& answer = *result.answer;
  if (json)
    outside.out << to_text({{"allowed", answer.allowed},
                            {"remaining", answer.remaining},
                            {"reset_seconds", answer.reset_seconds}});
  else
    outside.out << words_for(answer, outside.out_colour);
  outside.out.flush();
  return answer.allowed ? exit_allowed : exit_denied;
}

}  // namespace sluice::cli
