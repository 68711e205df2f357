// limitd's protobuf messages as bytes (docs/limitd-protocol.md): a request read from the body of
// its frame, a reply written as a whole frame. Functions without state; views point into what was
// read. Zeros are written out, as clients of the proto2 generation demand.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "base/buffer.h"
#include "request/session.h"

namespace sluice::limitd {

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
  bool all = false;
  bool silent = false;
};

// False: no message, or one that asks for nothing; what is in `request` then means nothing.
bool read_limitd_request(std::string_view body, LimitdRequest& request);

// How a bucket stands. The wire's int32 numbers are written as the nearest that it can hold.
struct LimitdLevel {
  int64_t remaining = 0;
  uint64_t reset = 0;  // UNIX seconds
  int64_t limit = 0;
};

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
