// Reads and writes the lines of Divvy's protocol (docs/divvy-protocol.md), requests and replies.
// Pure functions; sessions and clients frame the lines and own their bytes.
#pragma once

#include <charconv>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "base/buffer.h"
#include "base/result.h"
#include "request/session.h"

namespace sluice::divvy {

// Reads `line`, which must be well-formed UTF-8 without its line end, and adds one request to
// `requests`. Its entries are views into `line`, in the order of the line; repeated keys are kept.
// False: the line has an error; `requests` is unchanged, and `error` is the ERR line to send,
// without LF. `strict`: two equal keys, and a quote inside an unquoted string, are errors as well.
// `error` is an output parameter instead of a base::Result so that its memory is reused: every
// request is read here.
bool parse_divvy_line(std::string_view line, request::Requests& requests, std::string& error,
                      bool strict = false);

using DivvyEntry = std::pair<std::string_view, std::string_view>;

// Appends the line of a request, with LF, as Divvy's client writes it: sorted by key, with all
// strings quoted. Sorts `descriptor` in place. A problem: the protocol cannot express the request,
// and nothing is appended.
base::Done append_divvy_request(std::span<DivvyEntry> descriptor, base::Buffer& out);

// Returns the same line as a string.
base::Result<std::string> divvy_request(
    std::span<const std::pair<std::string, std::string>> descriptor);

struct DivvyReply {
  bool allowed = false;
  int64_t remaining = 0;
  int64_t reset_seconds = 0;  // until the counter is fresh; negative: never
};

// Appends `OK true 2 3600` and LF. Inlined: each reply goes through it.
inline void append_divvy_reply(const DivvyReply& reply, base::Buffer& out) {
  constexpr size_t reply_bytes_max = sizeof "OK false -9223372036854775808 -9223372036854775808\n";
  char* const begin = out.prepare(reply_bytes_max);
  char* const limit = begin + reply_bytes_max;
  // Both texts have the same size, so no branch depends on the decision.
  static constexpr char heads[2][16] = {"OK false ", "OK true "};
  std::memcpy(begin, heads[reply.allowed], sizeof heads[0]);
  char* at = begin + (reply.allowed ? 8 : 9);
  at = std::to_chars(at, limit, reply.remaining).ptr;
  *at++ = ' ';
  at = std::to_chars(at, limit, reply.reset_seconds).ptr;
  *at++ = '\n';
  out.commit(static_cast<size_t>(at - begin));
}

// Reads a reply without its line end. A number beyond 64 bits is read as the nearest one. False:
// the line is not a reply; it may be an ERR line.
bool read_divvy_reply(std::string_view line, DivvyReply& reply);

// Appends `ERR Internal Error: <text>` and LF: the answer of a server that cannot decide.
void append_divvy_internal_error(std::string_view text, base::Buffer& out);

// `ERR unknown "<reason>"`, without LF: the answer to a malformed line.
std::string divvy_error(std::string_view reason);

}  // namespace sluice::divvy
