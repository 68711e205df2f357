// The session of the rate limit service over gRPC (HTTP/2 with prior knowledge): ShouldRateLimit,
// gRPC's health service and, on request, server reflection. The calls of a connection are decided
// at the same time, and answered in any order. One for each connection, used by its thread.
//
//   Watch      The status is sent at once, within about two seconds after a change, and when the
//              server stops.
//   deadline   If a call's grpc-timeout passes before it is decided, nothing is charged.
//   cancelled  If a call's stream is reset while the store is asked, the call is decided and
//              counted, and not answered.
//   age        At EnvoyOptions::connection_age (plus or minus a tenth) GOAWAY announces the end.
//              Calls that were sent before are answered. After connection_grace the connection is
//              closed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "access/identity.h"
#include "base/time.h"
#include "protocol/envoy/call.h"
#include "protocol/envoy/options.h"
#include "protocol/envoy/worker_state.h"
#include "request/peer.h"
#include "request/session.h"
#include "wire/grpc_server.h"

namespace sluice::envoy {

class GrpcSession final : public request::Session {
 public:
  // The arguments outlive the session. If `clock` is null the time is always 1970. `listener` may
  // be null, and so may `access`: then there are no users.
  GrpcSession(EnvoyWorker& worker, const EnvoyOptions& options, base::Clock* clock,
              const request::ListenerView* listener, const access::Access* access);

  request::Received receive(std::string_view in, bool end, request::Requests& requests,
                            base::Buffer& out) override;
  bool reply(const request::Request& request, const request::Verdict& verdict, base::Time now,
             base::Buffer& out) override;
  bool takes_several_batches() const override { return true; }
  bool has_more() const override { return grpc_.has_more(); }
  // For a client that has paused within a message; between messages it may pause.
  size_t unfinished_bytes() const override { return grpc_.http().unfinished_bytes(); }
  uint64_t oldest_unfinished() const override { return grpc_.http().oldest_unfinished(); }
  bool end_oldest_unfinished(base::Buffer& out) override;
  request::Kept kept() const override {
    return {grpc_.http().kept_bytes(), grpc_.http().withholds()};
  }
  std::optional<size_t> end_withheld(base::Buffer& out) override;
  base::Time wakes_at() const override;
  std::string_view fault() const override;
  void farewell(base::Buffer& out) override;
  void refuse(std::string_view why, base::Buffer& out) override;
  void goodbye(base::Buffer& out) override;

 private:
  // A call at the engine. Requests have the slot's number, because HTTP/2's number may belong to
  // another call when their verdicts arrive.
  struct Slot {
    std::unique_ptr<Call> call;  // null: the slot is free
    uint32_t number = 0;         // HTTP/2's number, of a unary call
    bool is_watch = false;       // the common call of all watching streams
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
  static void count_begin(Method method, base::Time now, Call& call);
  void count_end(Method method, const Call& call) const;
  bool may_ask(uint32_t number, const RateLimitRequest& message);
  base::Time deadline_of(base::Duration timeout);
  void report(std::string_view example, std::string_view code = request::malformed_code) const;
  void refuse_message(uint32_t number, ReadProblem problem);
  void refuse_method(uint32_t number, std::string_view path);
  uint32_t open(uint32_t number);
  void close(uint32_t slot);
  void answer(uint32_t number, const Call& call, bool is_health);
  void notify_watches(HealthStatus status);
  void watch_again(base::Time now, request::Requests& requests);
  void grow_old(base::Time now);

  EnvoyWorker& worker_;
  const EnvoyOptions& options_;
  base::Clock* const clock_;
  const request::ListenerView* const listener_;
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

}  // namespace sluice::envoy
