// What sessions of one protocol may tell their clients of the server. Any thread.
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "admin/server_stats.h"
#include "protocol/protocol.h"
#include "request/peer.h"
#include "request/space.h"
#include "store/catalog.h"

namespace sluice::server {

class ServerView final : public request::ServerView {
 public:
  // All of it outlives this.
  ServerView(std::string_view version, const admin::ServerStats& stats, const store::Catalog& store,
             protocol::Protocol protocol, request::Spaces* spaces, std::function<void()> interrupt)
      : version_(version),
        stats_(stats),
        store_(store),
        protocol_(protocol),
        spaces_(spaces),
        interrupt_(std::move(interrupt)) {}

  std::string_view version() const override { return version_; }
  request::ServerFigures figures() const override;
  std::vector<std::string> suffixes(std::string_view prefix, size_t max) const override;
  void interrupt() const override { interrupt_(); }

 private:
  const std::string version_;
  const admin::ServerStats& stats_;
  const store::Catalog& store_;
  const protocol::Protocol protocol_;
  request::Spaces* const spaces_;  // null: there are none that counters are found by
  const std::function<void()> interrupt_;
  const std::chrono::steady_clock::time_point started_ = std::chrono::steady_clock::now();
};

}  // namespace sluice::server
