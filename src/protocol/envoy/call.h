// One message of Envoy's service on its way through the engine: the requests for its descriptors,
// their verdicts, and the response. Independent of gRPC and HTTP. Used by one thread; the object is
// reused for later messages, so that a worker with steady load allocates nothing for it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "access/identity.h"
#include "base/arena.h"
#include "base/time.h"
#include "otlp/spans.h"
#include "protocol/envoy/kuadrant.h"
#include "protocol/envoy/limit_metrics.h"
#include "protocol/envoy/messages.h"
#include "protocol/envoy/options.h"
#include "protocol/envoy/response.h"
#include "protocol/envoy/rules.h"
#include "request/session.h"

namespace sluice::envoy {

// Finds errors in requests that are valid messages of Envoy's; the service refuses such requests
// before it charges anything. Pure functions.

struct RequestError {
  uint32_t grpc_code = 0;
  std::string message;
  friend bool operator==(const RequestError&, const RequestError&) = default;
};

// Does not check overrides, because they matter only in a known domain.
std::optional<RequestError> check_request(const RateLimitRequest& request);

// For a request whose domain is known: reports the first override whose unit is unknown, or whose
// window is 0 or too long.
std::optional<RequestError> check_overrides(const RateLimitRequest& request);

// The window of an override. Nothing: check_overrides refuses it.
std::optional<base::Duration> override_window(const LimitOverride& limit);

// Why there is no response.
struct CallError {
  enum class Kind : uint8_t {
    ok,
    request,  // the client's request is wrong
    rules,    // there are no rules, or they cannot be evaluated
    store,    // the store could not decide
    late,     // the store did not decide in time
    expired,  // the caller's own deadline had passed
    refused,  // the user's right does not reach a counter
  };
  Kind kind = Kind::ok;
  wire::GrpcStatus status = wire::GrpcStatus::ok;
  std::string text{};
};

// Why a message of the client with this authorization is not decided; empty: it is. Where there are
// users, to take needs the right `take`, and to give hits back `put` as well.
std::string_view why_refused(std::string_view authorization, const RateLimitRequest& message,
                             access::Identity& identity);

class Call {
 public:
  // The message.
  RateLimitRequest message;
  // What it asks beside, and the answer, if it is of Kuadrant's service. Empty: it is of Envoy's.
  std::optional<KuadrantCall> kuadrant;
  // Counts the results; null: they are not counted. Outlives the call.
  WorkerMetrics* metrics = nullptr;
  base::Time began{};          // for the response times in the metrics
  otlp::Span* span = nullptr;  // takes the verdicts; null: the call is not traced

  // Adds the requests for the message. None is added if `is_answered` is true then: the message is
  // not a valid request, and `error` has the reason, or it asks nothing. `number`: the caller's
  // number for the call, below 2^21; number_of returns it. `deadline`: after it nothing may be
  // charged. The message's texts must be valid until the last verdict.
  void ask(uint32_t number, const EnvoyOptions& options, base::Time deadline,
           request::Requests& requests);
  // If rights of the client are limited, has the requests that `ask` added, those from `first` on,
  // judged by them.
  static void guard(size_t first, const access::Identity& identity, request::Requests& requests);
  // Adds a request that asks whether the service is healthy.
  void ask_health(uint32_t number, const EnvoyOptions& options, request::Requests& requests);
  // Plans the charge of one of these requests, by the limits of the rule set.
  void plan(const request::Request& request, policy::Planning& planning);
  static uint32_t number_of(const request::Request& request) { return request.note >> index_bits; }
  static bool is_health(const request::Request& request) {
    return (request.note & index_mask) >= health_index;
  }

  // Takes one of the verdicts. True: it was the last.
  bool take(const request::Request& request, const request::Verdict& verdict, base::Time now,
            const EnvoyOptions& options);

  // Releases the policy, when the call will not be used for a while.
  void forget() {
    rules_.clear();
    limits_ = nullptr;
    span = nullptr;
    kuadrant.reset();
  }

  // Have all verdicts been taken? What follows is valid then.
  bool is_answered() const { return open_ == 0; }
  const CallError& error() const { return error_; }
  bool is_healthy() const { return healthy_; }
  // The limits by which is_healthy decides, valid during the verdict; null: there are no limits.
  const LimitRules* limits() const { return limits_.get(); }
  // Makes `response`; its views are valid until the call is used again.
  void respond(const EnvoyOptions& options, RateLimitResponse& response) const;
  // The same for Kuadrant's service: completes the answer in `kuadrant`. `response` is overwritten.
  void respond_kuadrant(const EnvoyOptions& options, RateLimitResponse& response);

 private:
  static constexpr uint32_t index_bits = 11, index_mask = (1u << index_bits) - 1;
  // Numbers in place of a descriptor's index.
  static constexpr uint32_t probe_index = request_descriptors_max, health_index = probe_index + 1,
                            store_index = health_index + 1;
  static_assert(store_index <= index_mask);

  void begin(size_t descriptors);
  void ask_all(const EnvoyOptions& options, base::Time deadline, request::Requests& requests);
  void ask_kuadrant(const EnvoyOptions& options, base::Time deadline, request::Requests& requests);
  void ask_one(size_t index, const request::Request& request, request::Requests& requests);
  void probe(uint32_t index, request::Requests& requests);
  const FoundRule* plan_descriptor(size_t index, const LimitRules& rules,
                                   policy::Planning& planning);
  bool is_replaced(uint32_t limit, uint32_t domain, const LimitRules& rules,
                   policy::MatchSteps& steps);
  void take_failed(const FoundRule& rule, const EnvoyOptions& options);
  wire::GrpcStatus store_status(const EnvoyOptions& options) const;
  void take_probe(const FoundRule* own);
  void take_health(uint32_t index, const FoundRule* own, const request::Verdict& verdict,
                   const EnvoyOptions& options);
  void take_own(const FoundRule& rule, const request::Verdict& verdict, base::Time now,
                const Descriptor& descriptor, DescriptorResult& result);
  void take_native(const request::Verdict& verdict, request::Verb verb, base::Time now,
                   DescriptorResult& result);
  void count(const FoundRule& rule, const request::Verdict& verdict, const Descriptor& descriptor,
             bool sparing);
  void fail(CallError::Kind kind, wire::GrpcStatus status, std::string_view text);
  void fail(CallError error);

  uint32_t number_ = 0;
  size_t open_ = 0;  // verdicts that are missing
  std::vector<DescriptorResult> results_;
  // What was planned, by descriptor, and of the question about the domain or health. Null: nothing.
  // Of the rule set by which it was planned.
  std::vector<const FoundRule*> planned_;
  const FoundRule* planned_question_ = nullptr;
  // The names of limits, ascending, that the limits of this message replace, by those rules; 0: not
  // collected yet.
  std::vector<uint32_t> replaced_;
  uint64_t replaced_by_ = 0;
  CallError error_;
  bool healthy_ = false;
  std::shared_ptr<const LimitRules> limits_;
  // The rules of the results; a policy may be replaced before the last verdict.
  std::vector<std::shared_ptr<const LimitRules>> rules_;
  base::Arena names_;
};

}  // namespace sluice::envoy
