#include <algorithm>
#include <chrono>
#include <string_view>

#include "cli/admin_words.h"
#include "cli/inspect.h"
#include "client/socket.h"
#include "config/address.h"
#include "config/screen_text.h"

namespace sluice::cli {
namespace {

constexpr const char* about_health =
    "Says whether the server of this machine or container serves, within two seconds and without "
    "a\n"
    "setting or a token: for the health checks of containers and supervisors.";

std::string footer_of_health() {
  return "Environment:\n"
         "  SLUICE_ADMIN_SERVER   as --admin; without it SLUICE_ADMIN\n"
         "  SLUICE_ADMIN_CA   authorities of the server's certificate: a PEM file\n"
         "\n"
         "Examples:\n"
         "  sluice health\n"
         "  sluice health --live && echo running\n"
         "\n" +
         exit_help(ExitStatus{"it serves; with --live: it runs",
                              "it does not, it is not ready, it does not answer in time, or "
                              "several servers run here"});
}

using Clock = std::chrono::steady_clock;

// For everything: to find the server, and to ask it. The rest of the two seconds is the process's.
constexpr std::chrono::milliseconds timeout{1700}, usual_timeout{300};

int say(bool well, const std::string& state, const std::string& reason, bool json,
        config::CommandIo& io) {
  if (json) {
    Json told{{"status", state}};
    if (!reason.empty()) told["reason"] = reason;
    io.out << to_text(told) << std::flush;
  } else {
    io.out << state << (reason.empty() ? "" : ": ") << config::on_screen(reason) << std::endl;
  }
  return well ? config::exit_ok : config::exit_failure;
}

int say(const AdminPort::Reply& reply, bool json, config::CommandIo& io) {
  if (!reply.is_done()) return say(false, "unhealthy", reply.problem, json, io);
  std::string reasons;
  for (const Json& reason : list_field(reply.json, "reasons"))
    if (reason.is_string()) reasons += (reasons.empty() ? "" : "; ") + reason.get<std::string>();
  return say(true, text_field(reply.json, "status"), reasons, json, io);
}

}  // namespace

int health(const Words& words, config::CommandIo& io) {
  Arguments arguments("sluice health [options]", about_health, footer_of_health());
  const Clock::time_point deadline = Clock::now() + timeout;
  AdminFlags flags;
  bool live = false, as_json = false;
  arguments.add_flag("--live", live,
                     "Whether it runs, be it ready or not: what a restart could mend");
  arguments.add_option("--admin", flags.admin,
                       "Where its admin port is, if it is not where every command looks: an "
                       "address, or\nthe path of a socket",
                       "ADDRESS");
  arguments.add_flag("--json", as_json, "Print the result as JSON");
  if (const auto ended = arguments.parse(words, io)) return *ended;
  if (const auto ended = arguments.refuse_words(io)) return *ended;
  // A container's check has the variables of its server, so there SLUICE_ADMIN is the right place.
  if (const AdminServer named = admin_server_of(io); !flags.admin && !named.address.empty())
    flags.admin = named.address;
  // The paths of health need no token, and a wrong one must not keep the check from them.
  config::CommandIo without_token{
      io.out, io.err, io.out_colour, io.err_colour, [&io](const char* name) {
        const bool hidden = std::string_view(name).starts_with("SLUICE_ADMIN_TOKEN");
        return hidden || !io.environment ? std::nullopt : io.environment(name);
      }};
  AdminPort::Unusable why;
  auto port = AdminPort::find(flags, without_token, why);
  // Of several the one at the usual address: another beside it, as for a trial, must not fail its
  // check.
  if (!port && !flags.admin &&
      calls::Socket::connect("127.0.0.1", config::admin_port, usual_timeout)) {
    flags.admin = "127.0.0.1:" + std::to_string(config::admin_port);
    port = AdminPort::find(flags, without_token, why);
  }
  if (!port && why.is_misuse) return arguments.misused(why.problem, io);
  if (!port) return say(false, "unhealthy", why.problem, as_json, io);
  const auto left = std::chrono::floor<std::chrono::milliseconds>(deadline - Clock::now());
  port->wait_at_most(std::max(left, std::chrono::milliseconds(1)));
  return say(port->get(live ? "/health/live" : "/health/ready"), as_json, io);
}

}  // namespace sluice::cli
