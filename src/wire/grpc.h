// gRPC's framing over HTTP/2: status codes, the prefix of messages, deadlines, content types, and
// the escaping of texts of statuses. Knows no methods. Pure functions; any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/time.h"

namespace sluice::wire {

// The largest message, decompressed. Beyond it: RESOURCE_EXHAUSTED.
inline constexpr size_t grpc_message_bytes_max = 4'194'304;
// The longest text of a status, not escaped. Longer ones are cut.
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

// The prefix of each message.
struct GrpcPrefix {
  uint8_t flags = 0;   // 1: the message is compressed; no other flag is known
  uint32_t bytes = 0;  // the size of the message

  // `at` must have at least grpc_prefix_bytes bytes, as must `to`.
  static GrpcPrefix read(std::string_view at);
  void write(char* to) const;
};

// Reads a deadline such as `20m` (20 ms): up to 8 digits and one of H M S m u n. It is rounded up
// to microseconds; base::never if it does not fit. Empty: the text is ill-formed.
std::optional<base::Duration> read_grpc_timeout(std::string_view text);

// A content type: `application/grpc`, alone or followed by `+` or `;` and more, in any case.
enum class GrpcContent : uint8_t {
  none,   // another content type
  plain,  // the answer has `application/grpc`
  proto,  // the answer has `application/grpc+proto`
};
GrpcContent read_grpc_content_type(std::string_view text);

// Appends a status's text for `grpc-message`: `%` and bytes that are not printable ASCII are
// written as `%0A`.
void append_grpc_text(std::string_view text, std::string& out);

// The status's number: `0` to `16`.
std::string_view grpc_status_text(GrpcStatus status);

}  // namespace sluice::wire
