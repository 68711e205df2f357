// CL.THROTTLE of redis-cell, THROTTLE of throttlecrab and GCRA of Redis: their words as a limit and
// a cost, and a decision as their reply. What differs from the originals, and why, is in
// docs/resp.md. Pure functions, any thread.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "limit/gcra.h"
#include "limit/limit.h"
#include "wire/resp.h"

namespace sluice::resp {

struct Throttle {
  std::string_view key;
  limit::Limit limit;
  int64_t cost = 1;   // below 0: units are given back
  std::string error;  // the reply in place of a decision, with its first word; empty: there is none
};

// `words`: the whole command, of the algorithm's name. False: there is an error.
bool read_throttle(limit::Algorithm algorithm, std::span<const std::string_view> words,
                   Throttle& throttle);

// Five integers; times in seconds, rounded up. Of a decision that no int64_t can tell: an error.
void append_throttle_reply(limit::Algorithm algorithm, const limit::Decision& decision,
                           wire::RespWriter& out);

// A whole number of 64 bits in decimal; a sign and zeros in front are allowed. False: it is none.
bool read_integer(std::string_view text, int64_t& value);

}  // namespace sluice::resp
