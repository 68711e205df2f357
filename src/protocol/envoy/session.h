// The session of a connection to Envoy's rate limit service: gRPC if the connection begins like
// HTTP/2, otherwise HTTP/1.1, so each listener serves both. One for each connection, used by its
// thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>

#include "protocol/envoy/options.h"
#include "protocol/envoy/worker_state.h"
#include "request/peer.h"
#include "request/session.h"

namespace sluice::envoy {

class EnvoySession final : public request::Session {
 public:
  // `peer.worker` must be an EnvoyWorker.
  explicit EnvoySession(const request::Peer& peer);

  request::Received receive(std::string_view in, bool end, request::Requests& requests,
                            base::Buffer& out) override;
  bool reply(const request::Request& request, const request::Verdict& verdict, base::Time now,
             base::Buffer& out) override {
    return door_->reply(request, verdict, now, out);
  }
  bool takes_several_batches() const override {
    return door_ != nullptr && door_->takes_several_batches();
  }
  bool holds_back() const override { return door_ != nullptr && door_->holds_back(); }
  size_t unfinished_bytes() const override {
    return door_ == nullptr ? 0 : door_->unfinished_bytes();
  }
  bool has_more() const override { return door_ != nullptr && door_->has_more(); }
  uint64_t oldest_unfinished() const override {
    return door_ == nullptr ? 0 : door_->oldest_unfinished();
  }
  bool end_oldest_unfinished(base::Buffer& out) override {
    return door_ != nullptr && door_->end_oldest_unfinished(out);
  }
  request::Kept kept() const override { return door_ == nullptr ? request::Kept{} : door_->kept(); }
  std::optional<size_t> end_withheld(base::Buffer& out) override {
    return door_ == nullptr ? 0 : door_->end_withheld(out);
  }
  base::Time wakes_at() const override {
    return door_ == nullptr ? base::Time{INT64_MAX} : door_->wakes_at();
  }
  std::string_view fault() const override {
    return door_ == nullptr ? std::string_view() : door_->fault();
  }
  std::string_view fault_text() const override {
    return door_ == nullptr ? std::string_view() : door_->fault_text();
  }
  void farewell(base::Buffer& out) override {
    if (door_ != nullptr) door_->farewell(out);
  }
  void refuse(std::string_view why, base::Buffer& out) override {
    if (door_ != nullptr) door_->refuse(why, out);
  }
  void goodbye(base::Buffer& out) override {
    if (door_ != nullptr) door_->goodbye(out);
  }

 private:
  EnvoyWorker& worker_;
  const EnvoyOptions& options_;
  base::Clock* const clock_;
  const request::ListenerView* const listener_;
  const access::Access* const access_;
  const bool is_debug_;
  std::unique_ptr<request::Session> door_;  // null: not enough bytes have arrived to decide
};

}  // namespace sluice::envoy
