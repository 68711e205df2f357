// Kuadrant's rate limit service (kuadrant.service.ratelimit.v1): its messages in protobuf's wire
// format, and what its methods ask of the counters of their descriptors. CheckRateLimit and Report
// have the messages of Envoy's service, Reserve and Commit their own. Functions without state; any
// thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/buffer.h"
#include "base/time.h"
#include "protocol/envoy/limit_metrics.h"
#include "protocol/envoy/messages.h"
#include "protocol/envoy/options.h"
#include "request/session.h"

namespace sluice::envoy {

struct CallError;  // protocol/envoy/call.h

// What a message of this service has beside its domain and descriptors, and the answer to it.
struct KuadrantCall {
  Method method = Method::check_rate_limit;
  int64_t amount = 0;       // of each descriptor: Reserve: the estimate; Commit: what was used
  base::Duration ttl{};     // Reserve: how long it is held; 0: as long as it may be
  std::string_view id{};    // Commit: of the reservation; empty: there is none
  std::string_view user{};  // whose reservations, set by the session; valid until the last verdict

  Code code = Code::unknown;  // not of Commit
  std::string made_id{};      // Reserve: of the reservation; empty: nothing is held
  bool released = false;      // Commit: the reservation was held until now

  bool is_about_hold() const { return method == Method::reserve || method == Method::commit; }
};

// Reads a message of `call.method` into both, as read_request does. Of hits, and whether they are
// given back, only Report has a use, with 0 as 1: for the other methods they are as if absent. A
// message without descriptors becomes one with a descriptor without entries.
ReadProblem read_kuadrant(std::string_view text, RateLimitRequest& message, KuadrantCall& call);

void append_kuadrant_response(const KuadrantCall& call, base::Buffer& out);

// Why the call, whose message was read, cannot be asked: kind `ok`: it can.
CallError check_kuadrant(const RateLimitRequest& message, const KuadrantCall& call);

// What the method asks of a descriptor's counters, without its message.
request::Request kuadrant_request(const Descriptor& descriptor, const KuadrantCall& call);
// What holds for all requests of the message. `deadline`: after it nothing may be charged, except
// by a Commit, which reports what has happened.
const request::Message* kuadrant_message(const RateLimitRequest& message, const KuadrantCall& call,
                                         const EnvoyOptions& options, base::Time deadline,
                                         request::Requests& requests);

// Sets the answer by what came of a hold. Not `ok`: the call ends with that error.
CallError take_kuadrant_hold(const request::HoldCall& hold, const EnvoyOptions& options,
                             KuadrantCall& call);

}  // namespace sluice::envoy
