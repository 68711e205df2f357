// The rate limit service over gRPC (HTTP/2 with prior knowledge): ShouldRateLimit, gRPC's health
// service and, where it is needed, server reflection. Calls of one connection are decided side by
// side and answered in any order. One per connection, used by its thread.
//
//   Watch      The status is sent at once, within some two seconds of a change, and when the server
//              stops.
//   deadline   A call whose grpc-timeout has passed before it is decided is charged nothing.
//   cancelled  A call whose stream is reset while the store is asked is decided once, counts, and
//              is not answered.
//   age        From EnvoyOptions::connection_age on (a tenth more or less) GOAWAY announces the
//              end: calls that were sent before are answered. connection_grace later it is over.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

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
  // All of it outlives the session. `clock` may be null: it is always 1970 then.
  GrpcSession(EnvoyWorker& worker, const EnvoyOptions& options, base::Clock* clock);

  request::Received receive(std::string_view in, bool end, request::Requests& requests,
                            base::Buffer& out) override;
  bool reply(const request::Request& request, const request::Verdict& verdict, base::Time now,
             base::Buffer& out) override;
  bool takes_several_batches() const override { return true; }
  size_t unfinished_bytes() const override;
  base::Time wakes_at() const override;
  std::string_view fault() const override;
  void farewell(base::Buffer& out) override;
  void refuse(std::string_view why, base::Buffer& out) override;
  void goodbye(base::Buffer& out) override;

 private:
  // A call of the engine's: requests have the slot's number, as HTTP/2's may be another call's by
  // the time that their verdicts come.
  struct Slot {
    std::unique_ptr<Call> call;  // null: not in use
    uint32_t number = 0;         // HTTP/2's, of a unary call
    bool is_watch = false;       // of all that watch together
  };
  // A call that streams.
  struct Stream {
    enum class Kind : uint8_t { watch, reflection };
    uint32_t number;
    Kind kind;
    bool watches = false;  // a service that is known
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
  base::Time deadline_of(base::Duration timeout);
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
  wire::GrpcServerSession grpc_;
  std::vector<Slot> slots_;
  std::vector<uint32_t> free_slots_;
  std::vector<Stream> streams_;
  std::optional<base::Time> decided_at_;  // of the calls that are being read; unread: nothing
  base::Time watched_at_{};    // when the health was asked for last, for those that watch
  bool health_asked_ = false;  // for them, and the verdict has not come
  base::Time aged_at_{INT64_MAX}, over_at_{INT64_MAX};
  bool ending_ = false;  // GOAWAY has been sent
};

}  // namespace sluice::envoy
