#include "cli/fleet.h"

#include <algorithm>
#include <future>
#include <utility>

#include "cli/inspect.h"
#include "cli/terminal.h"
#include "config/screen_text.h"

namespace sluice::cli {

void add_fleet_flags(Arguments& arguments, FleetFlags& flags) {
  arguments.add_option("--admin", flags.admins,
                       "Where the server's admin port is: an address, or the path of a socket;\n"
                       "default 127.0.0.1:8380, or the socket of the one server that has one;\n"
                       "given several times: the sums of all these servers",
                       "ADDRESS");
  add_common_admin_flags(arguments, flags.each);
}

std::optional<Fleet> Fleet::open(const FleetFlags& flags, const Arguments& arguments,
                                 config::CommandIo& io, int& status) {
  Fleet fleet;
  std::vector<std::optional<std::string>> admins(flags.admins.begin(), flags.admins.end());
  if (admins.empty()) admins.emplace_back();
  for (const auto& admin : admins) {
    AdminFlags each = flags.each;
    each.admin = admin;
    auto port = AdminPort::open(each, arguments, io, status);
    if (!port) return std::nullopt;
    const auto is_same = [&](const AdminPort& other) { return other.name() == port->name(); };
    if (std::any_of(fleet.ports_.begin(), fleet.ports_.end(), is_same)) {
      status = arguments.misused("--admin names " + port->name() + " twice", io);
      return std::nullopt;
    }
    fleet.ports_.push_back(*std::move(port));
  }
  return fleet;
}

std::vector<AdminPort::Reply> Fleet::ask(const std::function<AdminPort::Reply(AdminPort&)>& ask) {
  std::vector<AdminPort::Reply> replies;
  if (is_one()) {
    replies.push_back(ask(ports_.front()));
    return replies;
  }
  std::vector<std::future<AdminPort::Reply>> asked;
  for (AdminPort& port : ports_)
    asked.push_back(std::async(std::launch::async, [&] { return ask(port); }));
  for (auto& one : asked) replies.push_back(one.get());
  return replies;
}

const AdminPort::Reply* failure_of(const std::vector<AdminPort::Reply>& replies) {
  const bool any = std::any_of(replies.begin(), replies.end(),
                               [](const AdminPort::Reply& reply) { return reply.is_done(); });
  return any ? nullptr : &replies.front();
}

std::string unanswered_words(const AdminPort& port, const AdminPort::Reply& reply) {
  return reply.problem.find(port.name()) == std::string::npos ? port.name() + ": " + reply.problem
                                                              : reply.problem;
}

int report_unanswered(Fleet& fleet, const std::vector<AdminPort::Reply>& replies,
                      config::CommandIo& io, Json* json) {
  if (fleet.is_one()) return config::exit_ok;
  int status = config::exit_ok;
  Json servers = Json::array(), unanswered = Json::array();
  for (size_t i = 0; i < replies.size(); ++i) {
    const std::string& name = fleet.port(i).name();
    if (replies[i].is_done()) {
      servers.push_back(name);
      continue;
    }
    status = exit_no_server;
    unanswered.push_back({{"admin", name}, {"error", replies[i].problem}});
    if (json == nullptr) fail(unanswered_words(fleet.port(i), replies[i]), io);
  }
  if (json == nullptr) return status;
  (*json)["servers"] = std::move(servers);
  (*json)["unanswered"] = std::move(unanswered);
  return status;
}

}  // namespace sluice::cli
