#include "protocol/envoy/kuadrant.h"

#include <algorithm>
#include <optional>

#include "base/bounds.h"
#include "base/utf8.h"
#include "limit/limit.h"
#include "protocol/envoy/call.h"
#include "request/charge_ids.h"
#include "wire/protobuf.h"

namespace sluice::envoy {
namespace {

using request::HoldAsk;
using request::HoldCall;
using request::HoldOutcome;
using request::Verb;
using wire::bytes;
using wire::GrpcStatus;
using wire::protobuf_key;
using wire::varint;
using Reader = wire::ProtobufReader<uint64_t, wire::ProtobufKeys::valid>;

constexpr std::string_view too_many_held =
    "a reservation has at most 64 descriptors, as they are held all or nothing";
static_assert(base::bounds::together_max == 64);

// Calls `read_field` with each key of `message`. False: it is malformed.
template <class ReadField>
bool each_key(std::string_view message, ReadField read_field) {
  for (Reader in(message); !in.at_end();) {
    uint32_t key;
    if (!in.read_key(key) || !read_field(in, key)) return false;
  }
  return true;
}

// Merges a google.protobuf.Duration into its seconds and nanoseconds.
struct WireDuration {
  int64_t seconds = 0;
  int32_t nanos = 0;

  bool read(std::string_view message) {
    return each_key(message, [&](Reader& in, uint32_t key) {
      uint64_t number;
      if (key != protobuf_key(1, varint) && key != protobuf_key(2, varint))
        return in.skip(key, groups_deep_max);
      if (!in.read_number(number)) return false;
      if (key == protobuf_key(1, varint))
        seconds = static_cast<int64_t>(number);
      else
        nanos = static_cast<int32_t>(static_cast<uint32_t>(number));
      return true;
    });
  }
  // 0: it is not above 0.
  base::Duration length() const {
    constexpr int64_t seconds_max = INT64_MAX / 2'000'000;
    const int64_t us = std::clamp(seconds, -seconds_max, seconds_max) * 1'000'000 + nanos / 1'000;
    return {std::max<int64_t>(us, 0)};
  }
};

// The fields 3 and 4 of a Reserve and a Commit.
ReadProblem read_rest(std::string_view text, KuadrantCall& call) {
  const bool reserves = call.method == Method::reserve;
  const uint32_t amount_key = protobuf_key(reserves ? 3 : 4, varint),
                 text_key = protobuf_key(reserves ? 4 : 3, bytes);
  WireDuration ttl;
  const bool is_read = each_key(text, [&](Reader& in, uint32_t key) {
    uint64_t number;
    std::string_view body;
    if (key == amount_key) {
      if (!in.read_number(number)) return false;
      call.amount = static_cast<int64_t>(std::min(number, static_cast<uint64_t>(limit::used_max)));
      return true;
    }
    if (key != text_key) return in.skip(key, groups_deep_max);
    if (!in.read_text(body)) return false;
    if (reserves) return ttl.read(body);
    call.id = body;
    return true;
  });
  if (!is_read) return ReadProblem::malformed;
  call.ttl = ttl.length();
  return base::utf8::is_valid(call.id) ? ReadProblem::none : ReadProblem::not_utf8;
}

// Do two descriptors bring different limits for one counter?
bool has_two_limits(const RateLimitRequest& message) {
  const auto same = [](const Entry& a, const Entry& b) {
    return a.key == b.key && a.value == b.value;
  };
  for (const Descriptor& a : message.descriptors)
    for (const Descriptor& b : message.descriptors)
      if (a.limit && b.limit && a.limit->requests_per_unit < b.limit->requests_per_unit &&
          override_window(*a.limit) == override_window(*b.limit) &&
          std::ranges::equal(message.entries_of(a), message.entries_of(b), same))
        return true;
  return false;
}

CallError wrong_message(std::string_view text) {
  return {CallError::Kind::request, GrpcStatus::invalid_argument, std::string(text)};
}

CallError not_now(std::string_view text) {
  return {CallError::Kind::store, GrpcStatus::unavailable, std::string(text)};
}

}  // namespace

ReadProblem read_kuadrant(std::string_view text, RateLimitRequest& message, KuadrantCall& call) {
  // The domain and the descriptors have the same numbers in all messages.
  ReadProblem problem = read_request(text, message);
  if (problem == ReadProblem::none && call.is_about_hold()) problem = read_rest(text, call);
  if (problem != ReadProblem::none) return problem;
  if (call.method != Method::report) message.hits_addend = 0;
  for (Descriptor& descriptor : message.descriptors) {
    if (call.method == Method::report) {
      if (descriptor.hits_addend)
        descriptor.hits_addend = std::max<uint64_t>(*descriptor.hits_addend, 1);
    } else {
      descriptor.hits_addend.reset();
      descriptor.is_negative_hits = false;
    }
  }
  if (message.descriptors.empty()) message.descriptors.emplace_back();
  return problem;
}

void append_kuadrant_response(const KuadrantCall& call, base::Buffer& out) {
  const uint64_t first =
      call.method == Method::commit ? uint64_t{call.released} : static_cast<uint64_t>(call.code);
  size_t size = first == 0 ? 0 : wire::number_bytes(1, first);
  if (!call.made_id.empty()) size += wire::text_bytes(2, call.made_id.size());
  wire::ProtobufWriter to(out.prepare(size));
  if (first != 0) to.number(1, first);
  if (!call.made_id.empty()) to.text(2, call.made_id);
  out.commit(size);
}

CallError check_kuadrant(const RateLimitRequest& message, const KuadrantCall& call) {
  if (const auto problem = check_overrides(message))
    return {CallError::Kind::request, static_cast<GrpcStatus>(problem->grpc_code),
            problem->message};
  if (!call.is_about_hold()) return {};
  if (message.descriptors.size() > base::bounds::together_max) return wrong_message(too_many_held);
  if (has_two_limits(message))
    return wrong_message("two descriptors bring different limits for one counter");
  return {};
}

request::Request kuadrant_request(const Descriptor& descriptor, const KuadrantCall& call) {
  request::Request request{.tag = {}};
  switch (call.method) {
    case Method::report:
      request.verb = descriptor.is_negative_hits ? Verb::put : Verb::charge;
      break;
    case Method::reserve:
      request.verb = Verb::reserve;
      break;
    case Method::commit:
      request.verb = Verb::charge;
      break;
    default:
      request.verb = Verb::would_take;
  }
  if (call.is_about_hold()) request.cost = call.amount;
  return request;
}

const request::Message* kuadrant_message(const RateLimitRequest& message, const KuadrantCall& call,
                                         const EnvoyOptions& options, base::Time deadline,
                                         request::Requests& requests) {
  if (!call.is_about_hold()) return requests.hold(request::Message{.answer_by = deadline});
  const size_t subjects = message.descriptors.size();
  request::Message its{.together = subjects > 1};
  if (call.method == Method::reserve) {
    const base::Duration most = options.holds.terms.ttl_max;
    const int64_t ttl_us = call.ttl.us == 0 ? most.us : std::min(call.ttl.us, most.us);
    its.answer_by = deadline;
    its.hold = requests.hold(HoldCall{
        .ask = HoldAsk::reserve, .user = call.user, .ttl = {ttl_us}, .terms = options.holds.terms});
  } else if (request::is_charge_id(call.id)) {
    // Another text is the id of no reservation: the descriptors are charged.
    its.hold = requests.hold(HoldCall{
        .ask = HoldAsk::commit,
        .user = call.user,
        .id = call.id,
        .units = std::vector<int64_t>(subjects, call.amount),
    });
  }
  return requests.hold(its);
}

CallError take_kuadrant_hold(const HoldCall& hold, const EnvoyOptions& options,
                             KuadrantCall& call) {
  switch (hold.outcome) {
    case HoldOutcome::done:
      call.made_id = call.method == Method::reserve ? hold.made_id : std::string();
      call.released = call.method == Method::commit && !hold.late && !hold.repeated;
      call.code = Code::ok;
      return {};
    case HoldOutcome::refused:
      call.code = options.response.shadow ? Code::ok : Code::over_limit;
      return {};
    case HoldOutcome::not_held:
    case HoldOutcome::unknown:  // and no limit applies
    case HoldOutcome::ended:    // and its rules ignore what comes late
      call.code = Code::ok;
      return {};
    case HoldOutcome::settled:
    case HoldOutcome::in_use:
      return {CallError::Kind::request, GrpcStatus::failed_precondition,
              "the reservation is committed with another amount; nothing was charged"};
    case HoldOutcome::wrong_number:
      return wrong_message("the reservation has " + std::to_string(hold.reserved.size()) +
                           " descriptors; commit it with as many");
    case HoldOutcome::full:
      return not_now("there are as many reservations as the server keeps; try again later");
    case HoldOutcome::no_places:
      return {
          CallError::Kind::request, GrpcStatus::failed_precondition,
          "a limit that applies has places, which this server can hold by plain calls alone, as "
          "its counters are in Redis"};
    case HoldOutcome::waiting:  // no Reserve does
    case HoldOutcome::failed:
      break;
  }
  return not_now("the store cannot decide it; send it again");
}

}  // namespace sluice::envoy
