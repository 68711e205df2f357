// The session of a connection of the HTTP protocol: HTTP/2 if it begins with that version's
// preface, otherwise HTTP/1.1. The version's session is made when the first bytes arrive. One for
// each connection, used by its thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "access/identity.h"
#include "base/buffer.h"
#include "protocol/http/answer.h"
#include "protocol/http/auth_request.h"
#include "protocol/http/exchange.h"
#include "protocol/http/guard.h"
#include "protocol/http/options.h"
#include "protocol/http/worker_state.h"
#include "request/peer.h"
#include "request/session.h"
#include "wire/http1_reader.h"
#include "wire/http2_session.h"

namespace sluice::http {

// An answer in the form of HTTP/1.1 (RFC 9112). Appends; pure.

struct Http1Form {
  bool is_head = false;    // no body is sent
  bool is_http10 = false;  // the request is HTTP/1.0
  bool is_last = false;    // the connection ends after it
};

// `date_line`: the whole field Date with its line end.
void append_http1_answer(const Answer& answer, const Http1Form& form, std::string_view date_line,
                         base::Buffer& out);

// The session of a connection with HTTP/1.1 or 1.0: requests one after the other, answers in their
// order. One for each connection, used by its thread.

class Http1Session final : public request::Session {
 public:
  // The arguments outlive the session.
  Http1Session(HttpWorker& worker, const HttpOptions& options, const request::Peer& peer);
  ~Http1Session() override;

  request::Received receive(std::string_view in, bool end, request::Requests& requests,
                            base::Buffer& out) override;
  // Always returns true.
  bool reply(const request::Request& request, const request::Verdict& verdict, base::Time now,
             base::Buffer& out) override;
  bool holds_back() const override { return waiting_ > 0; }
  bool waits_for_units() const override { return waiting_ > 0; }
  bool has_more() const override { return closing_; }
  size_t unfinished_bytes() const override { return reader_.unfinished_bytes(); }
  std::string_view fault() const override { return fault_; }
  std::string_view fault_text() const override { return reader_.problem(); }
  void farewell(base::Buffer& out) override;
  void refuse(std::string_view why, base::Buffer& out) override;

 private:
  // A request whose answer was not written, and the form that its head requires.
  struct Open {
    std::unique_ptr<Exchange> exchange;
    bool is_http10 = false, is_last = false;
  };

  void begin(std::string_view in, request::Requests& requests, bool without_body);
  void refuse_body(request::Requests& requests);
  void open(std::unique_ptr<Exchange> exchange, request::Requests& requests);
  void answer(Open open, base::Buffer& out);
  void write_problem(const ProblemKind& kind, std::string_view detail, base::Buffer& out);
  ConnectionContext around() {
    return {worker_, options_, peer_, identity_, auth_peer_, host_, waiting_};
  }

  HttpWorker& worker_;
  const HttpOptions& options_;
  const request::Peer& peer_;
  wire::Http1Reader reader_;
  access::Identity identity_;
  const AuthPeer auth_peer_;
  AllowedHost host_;
  std::vector<Open> open_;  // in the order of the requests; those before first_ have ended
  size_t first_ = 0;
  size_t waiting_ = 0;
  bool owes_go_ahead_ = false;
  bool closing_ = false;
  base::Time now_{};  // of the answer being written
  std::string_view fault_{};
};

// The session of a connection with HTTP/2 (prior knowledge): requests at the same time, answers in
// any order. A wait ends with its stream. One for each connection, used by its thread.

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

class HttpSession final : public request::Session {
 public:
  // `peer.worker` must be an HttpWorker.
  explicit HttpSession(const request::Peer& peer);

  void on_certificate(std::string_view name) override { peer_.certificate = name; }
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
  void goodbye(base::Buffer& out) override {
    if (door_ != nullptr) door_->goodbye(out);
  }

 private:
  void open_http1();

  request::Peer peer_;
  HttpWorker& worker_;
  const HttpOptions& options_;
  std::unique_ptr<request::Session> door_;  // null: not enough bytes have arrived to decide
};

}  // namespace sluice::http
