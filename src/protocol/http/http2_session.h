// The session of a connection with HTTP/2 (prior knowledge): requests at the same time, answers in
// any order. A wait ends with its stream. One for each connection, used by its thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "access/identity.h"
#include "protocol/http/auth_request.h"
#include "protocol/http/exchange.h"
#include "protocol/http/guard.h"
#include "protocol/http/worker_state.h"
#include "request/session.h"
#include "wire/http2_session.h"

namespace sluice::http {

class Http2Session final : public request::Session {
 public:
  // The arguments outlive the session.
  Http2Session(HttpWorker& worker, const HttpOptions& options, const request::Peer& peer);
  ~Http2Session() override;

  request::Received receive(std::string_view in, bool end, request::Requests& requests,
                            base::Buffer& out) override;
  bool reply(const request::Request& request, const request::Verdict& verdict, base::Time now,
             base::Buffer& out) override;
  bool takes_several_batches() const override { return true; }
  bool waits_for_units() const override { return waiting_ > 0; }
  bool is_interrupted() const override { return interrupted_ > 0; }
  bool is_wait_interrupted(const request::Request& request) const override {
    return request.note < open_.size() && open_[request.note].is_interrupted;
  }
  size_t unfinished_bytes() const override { return http2_.unfinished_bytes(); }
  uint64_t oldest_unfinished() const override { return http2_.oldest_unfinished(); }
  bool end_oldest_unfinished(base::Buffer& out) override;
  request::Kept kept() const override { return {http2_.kept_bytes(), http2_.withholds()}; }
  std::optional<size_t> end_withheld(base::Buffer& out) override;
  void on_parked(const request::Request& request) override { http2_.let_go(request.note); }
  std::string_view fault() const override;
  void farewell(base::Buffer& out) override;
  void refuse(std::string_view why, base::Buffer& out) override;
  void goodbye(base::Buffer& out) override;

 private:
  struct Open {
    std::unique_ptr<Exchange> exchange;  // null: the number is not in use
    bool is_interrupted = false;         // its stream was reset while it waited
  };

  void begin(uint32_t number, request::Requests& requests);
  void refuse_body(const Question& question, Exchange& exchange);
  void interrupt(uint32_t number);
  void answer(uint32_t number, Exchange& exchange, base::Time now);
  void close(uint32_t number);
  ConnectionContext around() {
    return {worker_, options_, peer_, identity_, auth_peer_, host_, waiting_};
  }

  HttpWorker& worker_;
  const HttpOptions& options_;
  const request::Peer& peer_;
  wire::Http2Session http2_;
  access::Identity identity_;
  const AuthPeer auth_peer_;
  AllowedHost host_;
  std::vector<Open> open_;  // by HTTP/2's number
  size_t waiting_ = 0, interrupted_ = 0;
};

}  // namespace sluice::http
