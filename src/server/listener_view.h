// One listener as its sessions see it: counts the requests that it refuses, and logs them and takes
// that no rule matches, each kind with one example at most once a minute. Owned by the server; any
// thread.
#pragma once

#include <spdlog/logger.h>

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include "metrics/page.h"
#include "request/peer.h"
#include "request/unmatched.h"

namespace sluice::server {

class ListenerView final : public request::ListenerView, public metrics::Source {
 public:
  // `name`: of its protocol. `address`: as "127.0.0.1:8390"; empty: not bound yet. `unmatched`: the
  // answer to takes that no rule matches; if it is `allow` or `deny`, the operator expects them,
  // and they are not logged.
  ListenerView(std::string_view name, request::Unmatched unmatched,
               std::shared_ptr<spdlog::logger> log);

  // Before the first connection is accepted.
  void set_address(std::string address);

  bool is_loopback() const override { return is_loopback_; }
  void refused(std::string_view code, std::string_view example) const override;
  void collect(metrics::Page& page) const override;

 private:
  using Clock = std::chrono::steady_clock;
  struct Refusals {
    uint64_t count = 0, told = 0;
    Clock::time_point next_line{};
  };

  void log_unmatched(std::string_view example) const override;

  const std::string name_;
  const request::Unmatched unmatched_;
  const std::shared_ptr<spdlog::logger> log_;
  std::string address_;
  bool is_loopback_ = false;
  mutable std::mutex mutex_;
  mutable std::map<std::string_view, Refusals> refusals_;  // by code; guarded by mutex_
};

}  // namespace sluice::server
