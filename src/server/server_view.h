// The facts about the server that sessions of one protocol may tell their clients. Any thread.
#pragma once

#include <spdlog/logger.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "admin/server_stats.h"
#include "limit/limit.h"
#include "policy/inline_limits.h"
#include "protocol/protocol.h"
#include "request/peer.h"
#include "store/catalog.h"

namespace sluice::server {

class ServerView final : public request::ServerView {
 public:
  // The arguments outlive this object.
  ServerView(std::string_view version, const admin::ServerStats& stats, const store::Catalog& store,
             protocol::Protocol protocol, const policy::InlineLists& inline_lists,
             std::shared_ptr<spdlog::logger> log)
      : version_(version),
        stats_(stats),
        store_(store),
        protocol_(protocol),
        inline_lists_(inline_lists),
        log_(std::move(log)) {}

  std::string_view version() const override { return version_; }
  request::ServerFigures figures() const override;
  std::span<const std::vector<limit::Limit>> inline_lists() const override {
    return inline_lists_.all();
  }
  void warn(std::string_view line) const override;

 private:
  const std::string version_;
  const admin::ServerStats& stats_;
  const store::Catalog& store_;
  const protocol::Protocol protocol_;
  const policy::InlineLists& inline_lists_;
  const std::shared_ptr<spdlog::logger> log_;
  mutable std::atomic<int64_t> warned_at_{-1};  // second of the monotonic clock
  mutable std::atomic<uint64_t> passed_over_{0};
  const std::chrono::steady_clock::time_point started_ = std::chrono::steady_clock::now();
};

}  // namespace sluice::server
