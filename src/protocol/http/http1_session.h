// The session of a connection with HTTP/1.1 or 1.0: requests one after the other, answers in their
// order. One for each connection, used by its thread.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "access/identity.h"
#include "protocol/http/auth_request.h"
#include "protocol/http/exchange.h"
#include "protocol/http/guard.h"
#include "protocol/http/worker_state.h"
#include "request/session.h"
#include "wire/http1_reader.h"

namespace sluice::http {

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
  void goodbye(base::Buffer& out) override;

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

}  // namespace sluice::http
