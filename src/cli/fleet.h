// The servers that a command asks together, where --admin is given several times: each is asked on
// a thread of its own, so that one that does not answer costs its timeout once. The answers of the
// others are put together; those that did not answer are named, and the exit status says so. Main
// thread.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "cli/admin_port.h"

namespace sluice::cli {

struct FleetFlags {
  AdminFlags each;  // all but --admin
  Words admins;
};
// As add_admin_flags, but that --admin may be given several times.
void add_fleet_flags(Arguments& arguments, FleetFlags& flags);

class Fleet {
 public:
  // As AdminPort::open. Without --admin it is the one server that a command asks.
  static std::optional<Fleet> open(const FleetFlags& flags, const Arguments& arguments,
                                   config::CommandIo& io, int& status);

  // Calls `ask` for each server; the replies in the order of --admin.
  std::vector<AdminPort::Reply> ask(const std::function<AdminPort::Reply(AdminPort&)>& ask);

  bool is_one() const { return ports_.size() == 1; }
  size_t size() const { return ports_.size(); }
  AdminPort& port(size_t at) { return ports_[at]; }

 private:
  std::vector<AdminPort> ports_;
};

// The reply that ends the command, as report_failure reports it: that of the only server if it is
// not done, or the first if none is. Null: there is an answer.
const AdminPort::Reply* failure_of(const std::vector<AdminPort::Reply>& replies);
// "10.0.0.2:8380: the server ..." of a server without an answer.
std::string unanswered_words(const AdminPort& port, const AdminPort::Reply& reply);
// Names the servers without an answer: on standard error, or as `unanswered` of `json`, which gets
// `servers` as well. Only of several servers. Returns the exit status.
int report_unanswered(Fleet& fleet, const std::vector<AdminPort::Reply>& replies,
                      config::CommandIo& io, nlohmann::ordered_json* json);

}  // namespace sluice::cli
