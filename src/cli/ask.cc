#include "cli/ask.h"

#include "base/units.h"
#include "cli/inspect.h"
#include "config/screen_text.h"

namespace sluice::cli {
namespace {

constexpr const char* about =
    "Asks a running server, in the words of a protocol, whether something may happen now.";

constexpr const char* footer =
    "Protocols, each with a --help of its own, and the ports they are asked on:\n"
    "  8321  sluice ask divvy key=value...\n"
    "  9231  sluice ask limitd take|wait|put|reset|get|status TYPE KEY [COUNT], or ping\n"
    "  3000  sluice ask droplet take|query BUCKET\n"
    "\n"
    "Example:\n"
    "  sluice ask divvy method=GET path=/pantry/cookies ip=10.0.0.7\n"
    "  allowed: 2 left, all of them again in 1h\n"
    "\n"
    "Exit status: 0 allowed, 1 denied, 2 no decision (no server, no reply in time, wrong usage).";

constexpr uint64_t timeout_ms_max = 3'600'000;

// The first word that is neither an option nor the value of one.
size_t protocol_at(const Words& words) {
  size_t at = 0;
  while (at < words.size() && words[at].starts_with('-') && words[at] != "--")
    at += words[at] == "--server" || words[at] == "--timeout" ? 2u : 1u;
  return at;
}

}  // namespace

void add_ask_options(CLI::App& app, AskOptions& options, const char* server_default) {
  app.add_option("--server", options.server,
                 "Where the server listens; default " +
                     (server_default != nullptr ? server_default : options.server))
      ->type_name("HOST:PORT");
  app.add_option("--timeout", options.timeout, "Milliseconds until giving up; default 1000")
      ->type_name("MS");
  app.add_flag("--json", options.json, "Print the decision as JSON");
}

std::optional<AskTarget> target_of(const AskOptions& options, uint16_t port, std::string& problem) {
  const auto address = parse_address(options.server, port, problem);
  if (!address) {
    problem = "--server: " + problem;
    return std::nullopt;
  }
  const auto ms = base::parse_count(options.timeout);
  if (!ms || *ms < 1 || *ms > timeout_ms_max) {
    problem = "--timeout is to be 1 to 3600000 milliseconds, not `" + options.timeout + "`";
    return std::nullopt;
  }
  return AskTarget{*address, std::chrono::milliseconds(*ms)};
}

int tell_undecided(const std::string& error, bool json, Outside& outside) {
  if (json)
    outside.out << to_text({{"error", error}}) << std::flush;
  else
    outside.err << paint("error:", red, outside.err_colour) << ' ' << on_screen(error) << std::endl;
  return exit_undecided;
}

int ask(const Words& words, Outside& outside) {
  const size_t at = protocol_at(words);
  const std::string protocol = at < words.size() ? words[at] : "";
  Words rest = words;
  if (at < words.size()) rest.erase(rest.begin() + static_cast<ptrdiff_t>(at));
  if (protocol == "divvy") return ask_divvy(rest, outside);
  if (protocol == "limitd") return ask_limitd(rest, outside);
  if (protocol == "droplet") return ask_droplet(rest, outside);

  Arguments arguments("sluice ask PROTOCOL [options] WORD...", about, footer);
  AskOptions options(divvy_port);
  add_ask_options(arguments.app(), options, "localhost, on the protocol's port");
  if (const auto status = arguments.parse(words, outside)) return *status;
  return arguments.misused("the first word is to be the protocol: `divvy`, `limitd` or `droplet`",
                           outside);
}

}  // namespace sluice::cli
