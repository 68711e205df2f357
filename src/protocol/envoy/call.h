// One message of Envoy's on its way through the engine: what is asked of the rules for each of its
// descriptors, what their verdicts make of it, and the response. Knows nothing of gRPC and HTTP.
// Used by one thread; a call is used again for later messages, so that a settled worker allocates
// nothing for it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/arena.h"
#include "base/time.h"
#include "protocol/envoy/limit_metrics.h"
#include "protocol/envoy/messages.h"
#include "protocol/envoy/options.h"
#include "protocol/envoy/response.h"
#include "protocol/envoy/rules.h"
#include "request/session.h"

namespace sluice::envoy {

// Why there is no response.
struct CallError {
  enum class Kind : uint8_t {
    ok,
    request,  // the client did something wrong
    rules,    // there are none, or they cannot be evaluated
    store,    // it could not decide
    late,     // it did not in time
    expired,  // the caller's own deadline had passed
  };
  Kind kind = Kind::ok;
  wire::GrpcStatus status = wire::GrpcStatus::ok;
  std::string text{};
};

class Call {
 public:
  // What the message is.
  RateLimitRequest message;
  // Counts what becomes of it; null: not counted. Outlives the call.
  WorkerMetrics* metrics = nullptr;
  base::Time began{};  // as who counts wants it

  // Asks what the message wants, or finds that it is not a request: then nothing is asked, and
  // `error` tells why. `number`: below 2^21, the caller's own, back by number_of. `deadline`: past
  // it nothing may be charged. The message's texts live until the last verdict.
  void ask(uint32_t number, const EnvoyOptions& options, base::Time deadline,
           request::Requests& requests);
  // Asks whether the service is healthy.
  void ask_health(uint32_t number, const EnvoyOptions& options, request::Requests& requests);
  static uint32_t number_of(const request::Request& request) { return request.note >> index_bits; }
  static bool is_health(const request::Request& request) {
    return (request.note & index_mask) >= health_index;
  }

  // One of the verdicts. True: it was the last.
  bool take(const request::Request& request, const request::Verdict& verdict, base::Time now,
            const EnvoyOptions& options);

  // Keeps nothing of the policy: it is not to be used for a while.
  void forget() {
    rules_.clear();
    limits_ = nullptr;
  }

  // Once all verdicts have been taken.
  const CallError& error() const { return error_; }
  bool is_healthy() const { return healthy_; }
  // What the rules have found is_healthy by, for as long as the verdict is there; null: there are
  // no limits.
  const LimitRules* limits() const { return limits_.get(); }
  // Makes `response`, whose views live as long as the call is not used again.
  void respond(const EnvoyOptions& options, RateLimitResponse& response) const;

 private:
  static constexpr uint32_t index_bits = 11, index_mask = (1u << index_bits) - 1;
  // In place of a descriptor's.
  static constexpr uint32_t probe_index = request_descriptors_max, health_index = probe_index + 1,
                            store_index = health_index + 1;
  static_assert(store_index <= index_mask);

  void begin(size_t descriptors);
  void ask_all(const EnvoyOptions& options, base::Time deadline, request::Requests& requests);
  void ask_one(size_t index, const request::Request& request, request::Requests& requests);
  void probe(uint32_t index, request::Requests& requests);
  void take_failed(const FoundRule& rule, const EnvoyOptions& options);
  void take_probe(const request::Verdict& verdict);
  void take_health(uint32_t index, const request::Verdict& verdict, const EnvoyOptions& options);
  void take_own(const FoundRule& rule, const request::Verdict& verdict, base::Time now,
                const Descriptor& descriptor, DescriptorResult& result);
  void take_native(const request::Verdict& verdict, DescriptorResult& result);
  void count(const FoundRule& rule, const request::Verdict& verdict, const Descriptor& descriptor,
             bool sparing);
  void fail(CallError::Kind kind, wire::GrpcStatus status, std::string_view text);

  uint32_t number_ = 0;
  size_t open_ = 0;  // verdicts that have not come
  std::vector<DescriptorResult> results_;
  CallError error_;
  bool healthy_ = false;
  std::shared_ptr<const LimitRules> limits_;
  // Of the results; a policy may go while others are still to come.
  std::vector<std::shared_ptr<const LimitRules>> rules_;
  base::Arena names_;
};

}  // namespace sluice::envoy
