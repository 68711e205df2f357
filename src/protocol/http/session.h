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
#include "protocol/http_versions.h"
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
  request::SessionState state() const override {
    return {.holds_back = waiting_ > 0,
            .waits_for_units = waiting_ > 0,
            .has_more = closing_,
            .unfinished_bytes = reader_.unfinished_bytes()};
  }
  request::Fault fault() const override { return {fault_, reader_.problem()}; }
  // Appends the answer to a breach or a refusal; nothing else, as the last answer says that it is.
  void end(request::Ending ending, std::string_view why, base::Buffer& out) override;

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
  request::SessionState state() const override;
  void on_parked(const request::Request& request) override { http2_.let_go(request.note); }
  bool has_ended_wait(const request::Request& request) const override {
    return request.note < open_.size() && open_[request.note].is_interrupted;
  }
  std::optional<size_t> give_up(request::Overdue what, base::Buffer& out) override;
  request::Fault fault() const override;
  void end(request::Ending ending, std::string_view why, base::Buffer& out) override;

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

class HttpSession final : public protocol::HttpVersions {
 public:
  // `peer.worker` must be an HttpWorker.
  explicit HttpSession(const request::Peer& peer);

  // A client that has sent nothing yet is most likely to understand HTTP/1.1.
  void end(request::Ending ending, std::string_view why, base::Buffer& out) override;

 private:
  std::unique_ptr<request::Session> open(bool is_http2) override;

  const request::Peer peer_;
  HttpWorker& worker_;
  const HttpOptions& options_;
};

}  // namespace sluice::http
