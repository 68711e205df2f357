// What sessions of one protocol may tell their clients of the server. Any thread.
#pragma once

#include <chrono>
#include <string>
#include <string_view>

#include "admin/server_stats.h"
#include "protocol/protocol.h"
#include "request/peer.h"
#include "store/catalog.h"

namespace sluice::server {

class ServerView final : public request::ServerView {
 public:
  // All of it outlives this.
  ServerView(std::string_view version, const admin::ServerStats& stats, const store::Catalog& store,
             protocol::Protocol protocol)
      : version_(version), stats_(stats), store_(store), protocol_(protocol) {}

  std::string_view version() const override { return version_; }
  request::ServerFigures figures() const override;

 private:
  const std::string version_;
  const admin::ServerStats& stats_;
  const store::Catalog& store_;
  const protocol::Protocol protocol_;
  const std::chrono::steady_clock::time_point started_ = std::chrono::steady_clock::now();
};

}  // namespace sluice::server
