// Counters that are shared with other programs and have a key for each window, whose value is the
// count as a plain decimal (request::KeyEncoding::window_text): the key's name, the script's
// arguments, and the decision that a value means. A value below 0 counts as 0; counting stops at
// 2^63 - 1. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "limit/limit.h"
#include "request/charge.h"

namespace sluice::redis::window_text {

// Is the charge's counter written in this form? If limits of another kind replace its rule's, the
// counter is written as those of other spaces are.
bool holds(const request::Charge& charge);

// Appends the name of the counter for the window of `now`.
void append_name(std::string& out, const request::Charge& charge, limit::Time now);

// How long a key that is made now lives, in seconds; `chance`: any number, which varies the time.
int64_t life_s(const request::Charge& charge, uint64_t chance);

// Its verb as the script's letter: c count, f count after an earlier charge on the same counter, t
// take, g put, a put all, p look, q look after an earlier charge; in capitals: forget it first.
char letter_of(const request::Charge& charge);

// The largest value of the counter with which the charge is allowed; none: it is allowed with any,
// or never.
struct Room {
  enum class What : uint8_t { anything, at_most, nothing } what = What::anything;
  int64_t units = 0;
};
Room room_for(const request::Charge& charge);

// Reads a value as Redis stores it. Nothing: Redis could not add to it.
std::optional<int64_t> value_of(std::string_view text);

// The charge's decision. `value`: what the counter held before the charge; nothing: there was none.
// `all`: the group was allowed. `spared`: the charge counts, and was not taken
// (request::Group::sparing).
limit::Decision decide(const request::Charge& charge, std::optional<int64_t> value, bool all,
                       bool spared, limit::Time now);

}  // namespace sluice::redis::window_text
