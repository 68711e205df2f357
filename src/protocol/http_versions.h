// A session that speaks HTTP/2 if its client begins so (with prior knowledge), otherwise HTTP/1.1.
// The version's own session is made when enough bytes have arrived to decide. One for each
// connection, used by its thread.
#pragma once

#include <memory>
#include <optional>
#include <string_view>

#include "request/session.h"

namespace sluice::protocol {

class HttpVersions : public request::Session {
 public:
  request::Received receive(std::string_view in, bool end, request::Requests& requests,
                            base::Buffer& out) final {
    // The start of an HTTP/2 connection (RFC 9113, 3.4). No request of HTTP/1.1 starts with it,
    // because PRI is not a method of HTTP/1.1.
    constexpr std::string_view http2_begin = "PRI ";
    if (door_ == nullptr) {
      const std::string_view begin = in.substr(0, http2_begin.size());
      if (begin != http2_begin && http2_begin.starts_with(begin)) return {0, false};
      door_ = open(begin == http2_begin);
    }
    return door_->receive(in, end, requests, out);
  }
  void plan(const request::Request& request, policy::Planning& planning) final {
    door_->plan(request, planning);
  }
  bool reply(const request::Request& request, const request::Verdict& verdict, base::Time now,
             base::Buffer& out) final {
    return door_->reply(request, verdict, now, out);
  }
  request::SessionState state() const final {
    return door_ == nullptr ? request::SessionState{} : door_->state();
  }
  void on_parked(const request::Request& request) final { door_->on_parked(request); }
  bool has_ended_wait(const request::Request& request) const final {
    return door_->has_ended_wait(request);
  }
  std::optional<size_t> give_up(request::Overdue what, base::Buffer& out) final {
    return door_ == nullptr ? std::nullopt : door_->give_up(what, out);
  }
  request::Fault fault() const final {
    return door_ == nullptr ? request::Fault{} : door_->fault();
  }
  void end(request::Ending ending, std::string_view why, base::Buffer& out) override {
    if (door_ != nullptr) door_->end(ending, why, out);
  }

 protected:
  // Makes the session of the version.
  virtual std::unique_ptr<request::Session> open(bool is_http2) = 0;

  std::unique_ptr<request::Session> door_;  // null: not enough bytes have arrived to decide
};

}  // namespace sluice::protocol
