// limitd's protobuf messages as bytes (docs/limitd-protocol.md), both ways: requests and replies
// are read from the bodies of their frames, and written as whole frames. Functions without state;
// views point into what was read. Zeros are written out, as clients of the proto2 generation
// demand.
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

// Finds the body of the frame that opens `in`, and how many bytes the frame has: 0 as long as that
// is unknown. `bad`: its body is longer than `body_bytes_max`, or its length has no end.
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

// As the wire numbers them.
enum class LimitdMethod : uint8_t { take, wait, put, status, ping, get };

// What a reply is matched by, echoed in the spelling that it came in.
struct LimitdId {
  std::string_view bytes;  // the text of field 1, or the varint of field 20 as it came
  bool numeric = false;    // field 20
};

struct LimitdRequest {
  LimitdId id;
  std::string_view type, key;  // bytes, of whatever encoding
  LimitdMethod method = LimitdMethod::take;
  int64_t count = 1;
  bool has_count = false;  // the field is there; else `count` is what that means
  bool all = false;
  bool silent = false;
};

// False: no message, or one that asks for nothing; what is in `request` then means nothing.
bool read_limitd_request(std::string_view body, LimitdRequest& request);

void append_limitd_request(const LimitdRequest& request, base::Buffer& out);

// ---- Replies ----

// How a bucket stands. The wire's int32 numbers are written as the nearest that it can hold.
struct LimitdLevel {
  int64_t remaining = 0;
  uint64_t reset = 0;  // UNIX seconds
  int64_t limit = 0;
};

struct LimitdReply {
  enum class Kind : uint8_t { error, take, put, status, pong, get };  // as the wire orders them
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

// False: no reply; what is in `reply` then means nothing.
bool read_limitd_reply(std::string_view body, LimitdReply& reply);

// The second in which `after` from `now` has passed; 0: it never will.
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
