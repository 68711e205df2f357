// Reads limitd's protobuf messages (docs/limitd-protocol.md) from the bodies of frames, and writes
// whole frames; requests and replies. Functions without state; views point into the bytes that were
// read. Zeros are written, because clients of the proto2 generation require them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "base/buffer.h"
#include "request/session.h"

namespace sluice::limitd {

// ---- Frames ----

enum class LimitdFrame : uint8_t { whole, unfinished, bad };

// Finds the body of the frame at the front of `in`, and the frame's size in bytes; 0: not known
// yet. `bad`: the body is longer than `body_bytes_max`, or its length is not a valid varint.
inline LimitdFrame find_limitd_frame(std::string_view in, size_t body_bytes_max,
                                     std::string_view& body, size_t& bytes) {
  constexpr size_t prefix_bytes_max = 5;
  uint64_t size = 0;
  bytes = 0;
  for (size_t i = 0; i < prefix_bytes_max; ++i) {
    if (i == in.size()) return LimitdFrame::unfinished;
    const auto byte = static_cast<uint8_t>(in[i]);
    size |= uint64_t{byte & 0x7Fu} << (7 * i);
    if (byte >= 0x80) continue;
    if (size > body_bytes_max) return LimitdFrame::bad;
    bytes = i + 1 + size;
    if (in.size() < bytes) return LimitdFrame::unfinished;
    body = in.substr(i + 1, size);
    return LimitdFrame::whole;
  }
  return LimitdFrame::bad;
}

// ---- Requests ----

// The values are those of the protocol.
enum class LimitdMethod : uint8_t { take, wait, put, status, ping, get };

// The id that matches a reply to its request; echoed byte for byte.
struct LimitdId {
  std::string_view bytes;  // the text of field 1, or the bytes of the varint of field 20
  bool numeric = false;    // it is field 20
};

struct LimitdRequest {
  LimitdId id;
  std::string_view type, key;  // any bytes
  LimitdMethod method = LimitdMethod::take;
  int64_t count = 1;
  bool has_count = false;  // the field is present; otherwise `count` is its default
  bool all = false;
  bool silent = false;
};

// False: the body is not a message, or has no method; then `request` must not be used.
bool read_limitd_request(std::string_view body, LimitdRequest& request);

void append_limitd_request(const LimitdRequest& request, base::Buffer& out);

// ---- Replies ----

// The state of a bucket. Numbers beyond the protocol's int32 are written as its ends.
struct LimitdLevel {
  int64_t remaining = 0;
  uint64_t reset = 0;  // UNIX seconds
  int64_t limit = 0;
};

struct LimitdReply {
  enum class Kind : uint8_t { error, take, put, status, pong, get };  // in the order of the fields
  struct Item {
    std::string_view key;
    LimitdLevel level;
  };
  LimitdId id;
  Kind kind = Kind::error;
  bool conformant = false, delayed = false;  // take
  LimitdLevel level;                         // take, put and get
  std::vector<Item> items;                   // status
};

// False: the body is not a reply, and `reply` must not be used.
bool read_limitd_reply(std::string_view body, LimitdReply& reply);

// The Unix time, in seconds, at which `after` has passed since `now`; 0: never.
uint64_t limitd_reset(base::Duration after, base::Time now);

void append_limitd_unknown_type(const LimitdId& id, base::Buffer& out);
void append_limitd_pong(const LimitdId& id, base::Buffer& out);
void append_limitd_take(const LimitdId& id, bool conformant, bool delayed, const LimitdLevel& level,
                        base::Buffer& out);
void append_limitd_put(const LimitdId& id, const LimitdLevel& level, base::Buffer& out);
void append_limitd_get(const LimitdId& id, const LimitdLevel& level, base::Buffer& out);
void append_limitd_status(const LimitdId& id, std::span<const request::Listed> listed,
                          base::Time now, base::Buffer& out);

}  // namespace sluice::limitd
