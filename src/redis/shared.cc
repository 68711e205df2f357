#include "redis/shared.h"

#include <netdb.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <utility>

#include "base/printable.h"

namespace sluice::redis {

namespace {

constexpr size_t told_bytes_max = 512;

int64_t share(int64_t units, unsigned servers) {
  return units <= 0 ? units : std::max<int64_t>(1, units / servers);
}

}  // namespace

Shared::Shared(Options o, limit::Spaces& s, std::unique_ptr<store::EmbeddedStore> t,
               std::unique_ptr<TlsContext> its_tls, std::shared_ptr<spdlog::logger> log)
    : options(std::move(o)),
      spaces(s),
      table(std::move(t)),
      tls(std::move(its_tls)),
      log_(std::move(log)) {}

void Shared::resolve() {
  std::vector<Address> found;
  std::string problem;
  for (size_t i = 0; i < options.nodes.size(); ++i) {
    const Node& node = options.nodes[i];
    addrinfo hints{}, *all = nullptr;
    hints.ai_socktype = SOCK_STREAM;
    hints.ai_flags = AI_NUMERICSERV | AI_ADDRCONFIG;
    const int error =
        ::getaddrinfo(node.host.c_str(), std::to_string(node.port).c_str(), &hints, &all);
    if (error != 0) {
      problem = node.host + ": " + gai_strerror(error);
      continue;
    }
    for (const addrinfo* one = all; one != nullptr; one = one->ai_next) {
      Address address;
      std::memcpy(&address.storage, one->ai_addr, one->ai_addrlen);
      address.size = one->ai_addrlen;
      address.node = i;
      found.push_back(address);
    }
    ::freeaddrinfo(all);
  }
  if (!problem.empty()) tell(false, problem);
  const std::lock_guard lock(mutex_);
  if (!found.empty()) addresses_ = std::move(found);
}

std::vector<Address> Shared::addresses() {
  const std::lock_guard lock(mutex_);
  return addresses_;
}

void Shared::tell(bool good, const std::string& text) {
  {
    const std::lock_guard lock(mutex_);
    if (told_ == text) return;  // another worker has said so
    told_ = text;
  }
  if (!log_) return;
  if (good)
    log_->info("redis {}", text);
  else
    log_->warn("redis {}", text);
}

void Shared::tell_refusal(std::string_view text) {
  const int64_t second = std::chrono::duration_cast<std::chrono::seconds>(
                             std::chrono::steady_clock::now().time_since_epoch())
                             .count();
  uint64_t others;
  {
    const std::lock_guard lock(mutex_);
    ++refusals_;
    if (refusal_s_ == second) return;
    refusal_s_ = second;
    others = std::exchange(refusals_, 0) - 1;
  }
  if (log_)
    log_->warn("redis refuses a command{}: {}",
               others > 0 ? " and refused " + std::to_string(others) + " before" : "",
               base::printable(text, told_bytes_max));
}

std::span<const limit::Limit> Shared::divided(std::span<const limit::Limit> limits,
                                              uint32_t& limits_id) {
  const std::lock_guard lock(mutex_);
  uint32_t& id = divided_[limits_id];
  if (id == 0) {
    std::vector<limit::Limit> shares(limits.begin(), limits.end());
    for (limit::Limit& limit : shares) {
      limit.quota = share(limit.quota, options.servers);
      limit.burst = share(limit.burst, options.servers);
    }
    id = spaces.intern_limits(shares);
  }
  limits_id = id;
  return spaces.limits(id);
}

}  // namespace sluice::redis
