// The session of a connection to Envoy's rate limit service: gRPC if the connection begins like
// HTTP/2, otherwise HTTP/1.1, so each listener serves both. One for each connection, used by its
// thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "access/identity.h"
#include "access/users.h"
#include "base/time.h"
#include "otlp/spans.h"
#include "protocol/envoy/call.h"
#include "protocol/envoy/json.h"
#include "protocol/envoy/options.h"
#include "protocol/envoy/worker_state.h"
#include "protocol/http_versions.h"
#include "request/peer.h"
#include "request/session.h"
#include "wire/grpc_server.h"
#include "wire/http_session.h"

namespace sluice::envoy {

// What the service answers: its methods of gRPC, and its paths of HTTP/1.1. Constant.

enum class Service : uint8_t { rate_limit, kuadrant, health, reflection };
struct ServedMethod {
  std::string_view path;
  Service service;
  std::optional<Method> counted;       // as which it is counted; empty: it streams
  std::optional<access::Right> right;  // that a user needs; empty: no user is asked for

  bool is_streamed() const { return !counted; }
};
std::span<const ServedMethod> served_methods();

enum class Page : uint8_t { json, health, debug_index, limits };
struct ServedPage {
  std::string_view path;
  Page page;
  bool is_debug;  // on the port of the original's debug pages alone
  std::optional<access::Right> right;
};
std::span<const ServedPage> served_pages();

// The session of the rate limit service over gRPC (HTTP/2 with prior knowledge): ShouldRateLimit,
// Kuadrant's service, gRPC's health service and, on request, server reflection. The calls of a
// connection are decided at the same time, and answered in any order. One for each connection, used
// by its thread.
//
//   Watch      The status is sent at once, within about two seconds after a change, and when the
//              server stops.
//   deadline   If a call's grpc-timeout passes before it is decided, nothing is charged.
//   cancelled  If a call's stream is reset while the store is asked, the call is decided and
//              counted, and not answered.
//   age        At EnvoyOptions::connection_age (plus or minus a tenth) GOAWAY announces the end.
//              Calls that were sent before are answered. After connection_grace the connection is
//              closed.

class GrpcSession final : public request::Session {
 public:
  // The arguments, and what the peer names, outlive the session. Without a clock the time is always
  // 1970.
  GrpcSession(EnvoyWorker& worker, const EnvoyOptions& options, const request::Peer& peer);

  request::Received receive(std::string_view in, bool end, request::Requests& requests,
                            base::Buffer& out) override;
  void plan(const request::Request& request, policy::Planning& planning) override {
    slots_[Call::number_of(request)].call->plan(request, planning);
  }
  bool reply(const request::Request& request, const request::Verdict& verdict, base::Time now,
             base::Buffer& out) override;
  request::SessionState state() const override;
  std::optional<size_t> give_up(request::Overdue what, base::Buffer& out) override;
  request::Fault fault() const override;
  void end(request::Ending ending, std::string_view why, base::Buffer& out) override;

 private:
  // A call at the engine. Requests have the slot's number, because HTTP/2's number may belong to
  // another call when their verdicts arrive.
  struct Slot {
    std::unique_ptr<Call> call;  // null: the slot is free
    uint32_t number = 0;         // HTTP/2's number, of a unary call
    Method method{};             // of a unary call
    bool is_watch = false;       // the common call of all watching streams
    otlp::OpenSpan span{};       // of a unary call that is traced
  };
  // A streaming call.
  struct Stream {
    enum class Kind : uint8_t { watch, reflection };
    uint32_t number;
    Kind kind;
    bool watches = false;  // it watches a known service
    HealthStatus told = HealthStatus::unknown;
  };

  void on_event(const wire::Http2Event& event, base::Time now, request::Requests& requests);
  void begin_stream(uint32_t number);
  void read_stream(Stream& stream, request::Requests& requests);
  void take_message(Stream& stream, std::string_view message, request::Requests& requests);
  void ask_health(request::Requests& requests);
  bool is_watched() const;
  void send_health(uint32_t number, HealthStatus status);
  void end_streams();
  Stream* find_stream(uint32_t number);
  void forget_stream(uint32_t number);
  void begin(uint32_t number, base::Time now, request::Requests& requests);
  void begin_health(uint32_t number, std::string_view message, base::Time now,
                    request::Requests& requests);
  std::string_view why_no_holds() const;
  static void count_begin(Method method, base::Time now, Call& call);
  void count_end(Method method, const Call& call) const;
  bool may_ask(uint32_t number, const RateLimitRequest& message);
  base::Time deadline_of(base::Duration timeout);
  wire::GrpcStatus refusal_status() const;
  void report(std::string_view example, std::string_view code = request::malformed_code) const;
  void refuse_message(uint32_t number, ReadProblem problem);
  void refuse_method(uint32_t number, std::string_view path);
  uint32_t open(uint32_t number, Method method = {});
  void close(uint32_t slot);
  void begin_span(uint32_t number, std::string_view name, Slot& slot);
  void end_span(Slot& slot, wire::GrpcStatus status);
  void answer(Slot& slot);
  void notify_watches(HealthStatus status);
  void watch_again(base::Time now, request::Requests& requests);
  void grow_old(base::Time now);

  EnvoyWorker& worker_;
  const EnvoyOptions& options_;
  base::Clock* const clock_;
  const request::ListenerView* const listener_;
  const request::ServerView* const server_;
  otlp::Spans* const spans_;   // null: calls are not traced
  const std::string address_;  // of the client; empty: it has none
  access::Identity identity_;  // of the call that is being begun
  wire::GrpcServerSession grpc_;
  std::vector<Slot> slots_;
  std::vector<uint32_t> free_slots_;
  std::vector<Stream> streams_;
  std::optional<base::Time> decided_at_;  // the time for the calls being read; empty: not read yet
  base::Time watched_at_{};    // when the health was asked for last, for watching streams
  bool health_asked_ = false;  // and the verdict has not arrived
  base::Time aged_at_{INT64_MAX}, over_at_{INT64_MAX};
  bool ending_ = false;  // GOAWAY was sent
};

// The session of the rate limit service over HTTP/1.1: `/json`, with the messages as JSON, and
// `/healthcheck`; or on the debug port `/rlconfig`, the limits that are loaded. One request at a
// time. One for each connection, used by its thread.

class HttpSession final : public request::Session {
 public:
  // The paths that are served: the service's, or those of the original's debug port.
  enum class Paths : uint8_t { service, debug };

  // As of GrpcSession.
  HttpSession(EnvoyWorker& worker, const EnvoyOptions& options, Paths paths,
              const request::Peer& peer)
      : worker_(worker),
        options_(options),
        paths_(paths),
        listener_(peer.listener),
        server_(peer.server),
        clock_(peer.clock),
        spans_(peer.spans),
        address_(peer.address),
        identity_(peer.access, peer.certificate),
        http_(message_bytes_max) {}

  request::Received receive(std::string_view in, bool end, request::Requests& requests,
                            base::Buffer& out) override;
  void plan(const request::Request& request, policy::Planning& planning) override {
    asked_->call.plan(request, planning);
  }
  bool reply(const request::Request& request, const request::Verdict& verdict, base::Time now,
             base::Buffer& out) override;
  request::SessionState state() const override {
    return {.holds_back = asked_ != nullptr, .unfinished_bytes = http_.unfinished_bytes()};
  }
  request::Fault fault() const override { return {fault_}; }
  // Appends the answer to a refusal; nothing else, as each answer says whether it is the last.
  void end(request::Ending ending, std::string_view why, base::Buffer& out) override;

 private:
  // A message and its texts.
  struct Asked {
    JsonRequest json;
    Call call;
  };

  bool answer_request(request::Requests& requests, base::Buffer& out);
  bool ask(request::Requests& requests, base::Buffer& out);
  void probe(request::Requests& requests);
  bool send(const wire::HttpResponse& response, base::Buffer& out);
  bool send_text(unsigned status, std::string_view text, base::Buffer& out);
  // Without a code it is not reported.
  bool send_error(unsigned status, std::string_view text, base::Buffer& out,
                  std::string_view code = request::malformed_code);
  void report(std::string_view example, std::string_view code = request::malformed_code) const;
  void begin_span();
  wire::HttpResponse response_of(const Call& call);

  EnvoyWorker& worker_;
  const EnvoyOptions& options_;
  const Paths paths_;
  const request::ListenerView* const listener_;
  const request::ServerView* const server_;
  base::Clock* const clock_;
  otlp::Spans* const spans_;   // null: requests are not traced
  const std::string address_;  // of the client; empty: it has none
  access::Identity identity_;  // of the request under way
  wire::HttpSession http_;
  std::unique_ptr<Asked> asked_;  // null: no request is under way
  otlp::OpenSpan span_;           // of it
  std::string_view fault_{};
};

class EnvoySession final : public protocol::HttpVersions {
 public:
  // `peer.worker` must be an EnvoyWorker.
  explicit EnvoySession(const request::Peer& peer);

 private:
  std::unique_ptr<request::Session> open(bool is_http2) override;

  const request::Peer peer_;
  EnvoyWorker& worker_;
  const EnvoyOptions& options_;
};

}  // namespace sluice::envoy
