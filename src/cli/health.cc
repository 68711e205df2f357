#include "cli/admin_words.h"
#include "cli/inspect.h"
#include "config/screen_text.h"

namespace sluice::cli {
namespace {

constexpr const char* about_health =
    "Says whether the server of this machine or container serves, within two seconds and without "
    "a\n"
    "setting or a token: for the health checks of containers and supervisors.";

std::string footer_of_health() {
  return "Examples:\n"
         "  sluice health\n"
         "  sluice health --live && echo running\n"
         "\n" +
         exit_help(ExitStatus{"it serves; with --live: it runs",
                              "it does not, it is not ready, it does not answer in time, or "
                              "several servers run here"});
}

// With what finding the server takes, within the two seconds.
constexpr const char* timeout_ms = "1400";

int say(const AdminPort::Reply& reply, bool json, config::CommandIo& io) {
  const std::string state = reply.is_done() ? text_field(reply.json, "status") : "unhealthy";
  std::string reasons;
  for (const Json& reason : list_field(reply.json, "reasons"))
    if (reason.is_string()) reasons += (reasons.empty() ? "" : "; ") + reason.get<std::string>();
  if (!reply.is_done()) reasons = reply.problem;
  if (json) {
    Json told{{"status", state}};
    if (!reasons.empty()) told["reason"] = reasons;
    io.out << to_text(told) << std::flush;
  } else {
    io.out << state << (reasons.empty() ? "" : ": ") << config::on_screen(reasons) << std::endl;
  }
  return reply.is_done() ? config::exit_ok : config::exit_failure;
}

}  // namespace

int health(const Words& words, config::CommandIo& io) {
  Arguments arguments("sluice health [--live]", about_health, footer_of_health());
  AdminFlags flags;
  flags.timeout = timeout_ms;
  bool live = false;
  arguments.add_flag("--live", live,
                     "Whether it runs, be it ready or not: what a restart could mend");
  arguments.add_option("--admin", flags.admin,
                       "Where its admin port is, if it is not where every command looks: an "
                       "address, or\nthe path of a socket",
                       "ADDRESS");
  arguments.add_flag("--json", flags.json, "Print the result as JSON");
  if (const auto ended = arguments.parse(words, io)) return *ended;
  if (const auto ended = arguments.refuse_words(io)) return *ended;
  // A container's check has the variables of its server, so there SLUICE_ADMIN is the right place.
  if (const AdminServer named = admin_server_of(io); !flags.admin && !named.address.empty())
    flags.admin = named.address;
  int ending = config::exit_ok;
  auto port = AdminPort::open(flags, arguments, io, ending);
  if (!port) return ending == exit_no_server ? config::exit_failure : ending;
  return say(port->get(live ? "/health/live" : "/health/ready"), flags.json, io);
}

}  // namespace sluice::cli
