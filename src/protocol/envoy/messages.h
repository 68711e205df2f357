// Reads requests and writes responses of Envoy's rate limit service (envoy.service.ratelimit.v3)
// and of gRPC's health service, in protobuf's wire format. Plain values and functions without
// state; any thread. Views of a request point into the bytes from which it was read; views of a
// response into the texts from which it was made.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/bounds.h"
#include "base/buffer.h"
#include "protocol/envoy/metadata_value.h"
#include "request/request.h"

namespace sluice::envoy {

// The bounds of a request. Beyond any of them: ReadProblem::too_large.
inline constexpr size_t message_bytes_max = size_t{4} << 20;
inline constexpr size_t request_descriptors_max = 1'024;  // of a request
// The most entries of a descriptor: with the domain and a mark (rules.h) it reaches the engine's
// bound.
inline constexpr size_t descriptor_entries_max = base::bounds::descriptor_entries_max - 2;
inline constexpr size_t request_entries_max = 64 * descriptor_entries_max;  // of all of them
// The most levels of nested unknown groups; a message with more is malformed.
inline constexpr int groups_deep_max = 100;

// envoy.type.v3.RateLimitUnit, and RateLimit.Unit of a response, which has `week` besides.
// Other numbers are possible, and are kept.
enum class WireUnit : int32_t {
  unknown = 0,
  second = 1,
  minute = 2,
  hour = 3,
  day = 4,
  month = 5,
  year = 6,
  week = 7
};
// "MINUTE"; empty for a number without a name.
std::string_view unit_name(WireUnit unit);

enum class Code : int32_t { unknown = 0, ok = 1, over_limit = 2 };
// "OVER_LIMIT"; empty for a number without a name.
std::string_view code_name(Code code);

// ---- Requests ----

using request::Entry;

// A limit that comes with a request.
struct LimitOverride {
  uint32_t requests_per_unit = 0;
  WireUnit unit = WireUnit::unknown;
  std::optional<uint32_t> unit_multiplier;  // 0 for an empty wrapper
};

struct Descriptor {
  uint32_t first_entry = 0, entry_count = 0;  // in RateLimitRequest::entries
  std::optional<LimitOverride> limit;
  std::optional<uint64_t> hits_addend;  // 0 for an empty wrapper
  bool is_negative_hits = false;
};

// Reading into the same object again allocates nothing once its lists are long enough.
struct RateLimitRequest {
  std::string_view domain;
  uint32_t hits_addend = 0;
  std::vector<Descriptor> descriptors;
  std::vector<Entry> entries;  // of all descriptors, in order

  std::span<const Entry> entries_of(const Descriptor& descriptor) const {
    return {entries.data() + descriptor.first_entry, descriptor.entry_count};
  }
  void clear() {
    domain = {};
    hits_addend = 0;
    descriptors.clear();
    entries.clear();
  }
};

enum class ReadProblem : uint8_t {
  none,
  malformed,  // not a message
  not_utf8,   // a string field is not UTF-8
  too_large   // past a bound
};

// The number of gRPC's status for a problem, 0 for none; and its text.
uint32_t grpc_code(ReadProblem problem);
std::string_view message_for(ReadProblem problem);

// After a problem `request` must not be used. Unknown fields, and known ones with another wire
// type, are skipped.
ReadProblem read_request(std::string_view message, RateLimitRequest& request);

// ---- Responses ----

struct CurrentLimit {
  uint32_t requests_per_unit = 0;
  WireUnit unit = WireUnit::unknown;
  std::string_view name;
  uint32_t unit_multiplier = 0;  // 0: absent
};

struct DescriptorStatus {
  Code code = Code::unknown;
  std::optional<CurrentLimit> current_limit;
  uint32_t limit_remaining = 0;
  std::optional<int64_t> seconds_until_reset;  // duration_until_reset, which has no fraction
};

struct HeaderValue {
  std::string_view key;
  std::string value;
};

struct RateLimitResponse {
  Code overall_code = Code::unknown;
  std::vector<DescriptorStatus> statuses;
  std::vector<HeaderValue> response_headers_to_add;
  std::optional<MetadataMap> dynamic_metadata;

  void clear() {
    overall_code = Code::unknown;
    statuses.clear();
    response_headers_to_add.clear();
    dynamic_metadata.reset();
  }
};

// Appends the response, without fields that have their default values. Allocates only for the
// buffer's growth, unless the response has dynamic_metadata.
void append_response(const RateLimitResponse& response, base::Buffer& out);

// ---- grpc.health.v1 ----

enum class HealthStatus : int32_t {
  unknown = 0,
  serving = 1,
  not_serving = 2,
  service_unknown = 3
};

ReadProblem read_health_request(std::string_view message, std::string_view& service);
void append_health_response(HealthStatus status, base::Buffer& out);

}  // namespace sluice::envoy
