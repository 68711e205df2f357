// The session of a connection of the HTTP protocol: HTTP/2 if it begins with that version's
// preface, otherwise HTTP/1.1. The version's session is made when the first bytes arrive. One for
// each connection, used by its thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>

#include "protocol/http/options.h"
#include "protocol/http/worker_state.h"
#include "request/peer.h"
#include "request/session.h"

namespace sluice::http {

class HttpSession final : public request::Session {
 public:
  // `peer.worker` must be an HttpWorker.
  explicit HttpSession(const request::Peer& peer);

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
  bool has_more() const override { return door_ != nullptr && door_->has_more(); }
  bool waits_for_units() const override { return door_ != nullptr && door_->waits_for_units(); }
  bool is_interrupted() const override { return door_ != nullptr && door_->is_interrupted(); }
  bool is_wait_interrupted(const request::Request& request) const override {
    return door_ != nullptr && door_->is_wait_interrupted(request);
  }
  size_t unfinished_bytes() const override {
    return door_ == nullptr ? 0 : door_->unfinished_bytes();
  }
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
  void on_parked(const request::Request& request) override { door_->on_parked(request); }
  std::string_view fault() const override {
    return door_ == nullptr ? std::string_view() : door_->fault();
  }
  std::string_view fault_text() const override {
    return door_ == nullptr ? std::string_view() : door_->fault_text();
  }
  void farewell(base::Buffer& out) override {
    if (door_ != nullptr) door_->farewell(out);
  }
  void refuse(std::string_view why, base::Buffer& out) override;
  bool answers_waits_itself() const override { return true; }
  void goodbye(base::Buffer& out) override {
    if (door_ != nullptr) door_->goodbye(out);
  }

 private:
  void open_http1();

  const request::Peer peer_;
  HttpWorker& worker_;
  const HttpOptions& options_;
  std::unique_ptr<request::Session> door_;  // null: not enough bytes have arrived to decide
};

}  // namespace sluice::http
