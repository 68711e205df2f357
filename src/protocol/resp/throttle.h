// CL.THROTTLE of redis-cell, THROTTLE of throttlecrab, GCRA and INCREX of Redis: reads their
// arguments as a limit and a cost, and writes a decision as their reply. docs/resp.md documents the
// differences from the originals and the reasons. Pure functions, any thread.
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
  int64_t cost = 1;   // negative: units are given back
  std::string error;  // the error reply, beginning with its code; empty: there is no error
};

// `words`: the whole command; fixed_window: INCREX. False: it has an error.
bool read_throttle(limit::Algorithm algorithm, std::span<const std::string_view> words,
                   Throttle& throttle);

// Appends five integers, with times in seconds, rounded up; an error if a number exceeds an
// int64_t.
void append_throttle_reply(limit::Algorithm algorithm, const limit::Decision& decision,
                           wire::RespWriter& out);

// The reply of INCREX: the value and what was added to it, 0 if the limit refused it.
void append_increx_reply(const limit::Decision& decision, int64_t cost, wire::RespWriter& out);

// Reads a 64-bit integer in decimal, which may have a sign and leading zeros. False: it is not one.
bool read_integer(std::string_view text, int64_t& value);

}  // namespace sluice::resp
