// gRPC's framing over HTTP/2: status codes, the prefix of messages, deadlines, content types, and
// how texts of statuses are escaped. Pure functions; what methods there are is not its matter.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/time.h"

namespace sluice::wire {

// The largest message, unpacked. Past it: RESOURCE_EXHAUSTED.
inline constexpr size_t grpc_message_bytes_max = 4'194'304;
// A text of a status, unescaped. Past it: cut.
inline constexpr size_t grpc_text_bytes_max = 4'096;
inline constexpr size_t grpc_prefix_bytes = 5;

enum class GrpcStatus : uint8_t {
  ok = 0,
  cancelled = 1,
  unknown = 2,
  invalid_argument = 3,
  deadline_exceeded = 4,
  not_found = 5,
  already_exists = 6,
  permission_denied = 7,
  resource_exhausted = 8,
  failed_precondition = 9,
  aborted = 10,
  out_of_range = 11,
  unimplemented = 12,
  internal = 13,
  unavailable = 14,
  data_loss = 15,
  unauthenticated = 16,
};

// In front of each message: is it compressed, and its length.
struct GrpcPrefix {
  uint8_t flags = 0;  // 1: compressed; others are not known
  uint32_t bytes = 0;

  // Of at least grpc_prefix_bytes.
  static GrpcPrefix read(std::string_view at);
  void write(char* to) const;
};

// `20m` as 20 ms: up to 8 digits and one of H M S m u n. Parts of a microsecond count as one, and
// what does not fit as base::never. Nothing: it is ill-formed.
std::optional<base::Duration> read_grpc_timeout(std::string_view text);

// `application/grpc`, alone or with something behind `+` or `;`, in any case.
enum class GrpcContent : uint8_t {
  none,   // another one
  plain,  // to be answered as `application/grpc`
  proto,  // as `application/grpc+proto`
};
GrpcContent read_grpc_content_type(std::string_view text);

// A status' text for `grpc-message`: what is not printable ASCII, and `%`, as `%0A`. Appends.
void append_grpc_text(std::string_view text, std::string& out);

// `0` to `16`.
std::string_view grpc_status_text(GrpcStatus status);

}  // namespace sluice::wire
