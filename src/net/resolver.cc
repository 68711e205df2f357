#include "net/resolver.h"

#include <netdb.h>
#include <sys/socket.h>

#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <thread>
#include <utility>

#include "base/look_up.h"

namespace sluice::net {

struct Resolver::State {
  State(std::vector<HostPort> its_nodes, Lookup its_lookup)
      : nodes(std::move(its_nodes)), lookup(std::move(its_lookup)), found(nodes.size()) {}

  const std::vector<HostPort> nodes;
  const Lookup lookup;
  std::mutex mutex;
  std::condition_variable done;
  std::vector<std::vector<Address>> found;  // by node; guarded by mutex, as the members below
  std::string problem;
  bool looking = false, settled = false;
};

namespace {

std::vector<Address> ask_system(const HostPort& node, int flags, int& error) {
  addrinfo hints{}, *all = nullptr;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV | flags;
  error = base::look_up(node.host, std::to_string(node.port), hints, &all);
  std::vector<Address> found;
  if (error != 0) return found;
  for (const addrinfo* one = all; one != nullptr; one = one->ai_next) {
    Address address;
    std::memcpy(&address.storage, one->ai_addr, one->ai_addrlen);
    address.size = one->ai_addrlen;
    found.push_back(address);
  }
  ::freeaddrinfo(all);
  return found;
}

bool is_number(const HostPort& node) {
  int error = 0;
  return !ask_system(node, AI_NUMERICHOST, error).empty();
}

}  // namespace

base::Result<std::vector<Address>> Resolver::by_system(const HostPort& node) {
  // Without AI_ADDRCONFIG, which would refuse `::1` on a machine without another IPv6 address.
  int error = 0;
  auto found = ask_system(node, AI_NUMERICHOST, error);
  if (found.empty()) found = ask_system(node, AI_ADDRCONFIG, error);
  if (found.empty()) return base::Problem{node.host + ": " + gai_strerror(error)};
  return found;
}

Resolver::Resolver(std::vector<HostPort> nodes, Lookup lookup)
    : state_(std::make_shared<State>(std::move(nodes), std::move(lookup))) {}

void Resolver::look() {
  {
    const std::lock_guard lock(state_->mutex);
    if (state_->looking || state_->settled) return;
    state_->looking = true;
  }
  std::thread([state = state_] { run(*state); }).detach();
}

void Resolver::run(State& state) {
  std::string problem;
  for (size_t i = 0; i < state.nodes.size(); ++i) {
    auto found = state.lookup(state.nodes[i]);
    if (!found) {
      problem = std::move(found).problem().text;
      continue;
    }
    for (Address& address : *found) address.node = i;
    const std::lock_guard lock(state.mutex);
    state.found[i] = *std::move(found);
  }
  const bool settled = std::all_of(state.nodes.begin(), state.nodes.end(), is_number);
  const std::lock_guard lock(state.mutex);
  state.looking = false;
  state.settled = settled && problem.empty();
  state.problem = std::move(problem);
  state.done.notify_all();
}

void Resolver::await(std::chrono::milliseconds patience) {
  std::unique_lock lock(state_->mutex);
  state_->done.wait_for(lock, patience, [this] { return !state_->looking; });
}

std::vector<Address> Resolver::addresses() const {
  const std::lock_guard lock(state_->mutex);
  std::vector<Address> all;
  for (const auto& found : state_->found) all.insert(all.end(), found.begin(), found.end());
  return all;
}

std::string Resolver::take_problem() {
  const std::lock_guard lock(state_->mutex);
  return std::exchange(state_->problem, std::string());
}

}  // namespace sluice::net
