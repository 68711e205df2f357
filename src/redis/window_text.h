// Counters that other programs share and that have a key for each window, with what was counted in
// it as a plain decimal (request::KeyEncoding::window_text): how one is called, what it is asked,
// and what its value means for a decision. Below 0 it counts as 0; it stops at 2^63 - 1. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "limit/limit.h"
#include "request/charge.h"

namespace sluice::redis::window_text {

// Is the charge's counter written so? Where limits of another kind stand in place of its rule's it
// is written as any other of the space's would be.
bool holds(const request::Charge& charge);

// Appends the name of the counter for the window of `now`.
void append_name(std::string& out, const request::Charge& charge, limit::Time now);

// How long a key that is made now is kept, in seconds; `chance`: any number.
int64_t life_s(const request::Charge& charge, uint64_t chance);

// What it is to the script: c count, f count behind an earlier charge on the same counter, t take,
// g put, a put all, p look, q look behind an earlier charge; in capitals: forget it first.
char letter_of(const request::Charge& charge);

// The most that the counter may hold for the charge to be allowed; none: it may hold anything, or
// the charge never fits.
struct Room {
  enum class What : uint8_t { anything, at_most, nothing } what = What::anything;
  int64_t units = 0;
};
Room room_for(const request::Charge& charge);

// A value as Redis keeps it. Nothing: it is none that it could add to.
std::optional<int64_t> value_of(std::string_view text);

// The charge's answer; `value`: what its counter held before it, nothing if there was none. `all`:
// the group was allowed. `spared`: the charge counts, and was not taken (request::Group::sparing).
limit::Decision decide(const request::Charge& charge, std::optional<int64_t> value, bool all,
                       bool spared, limit::Time now);

}  // namespace sluice::redis::window_text
