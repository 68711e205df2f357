#include "redis/window_text.h"

#include <algorithm>
#include <charconv>

#include "limit/aligned_window.h"
#include "limit/decide.h"
#include "limit/wide.h"

namespace sluice::redis::window_text {

using limit::Decision;
using limit::Limit;
using limit::State;
using request::Charge;
using request::Verb;

namespace {

constexpr int64_t second_us = 1'000'000;

int64_t window_s(const Charge& charge) {
  return charge.limits.front().window.us / second_us;
}

bool changes(const Charge& charge) {
  const bool charges = charge.verb == Verb::take || request::may_bring_debt(charge.verb);
  return charge.verb == Verb::put || (charges && (charge.cost > 0 || charge.reset_first));
}

}  // namespace

bool holds(const Charge& charge) {
  if (charge.space->encoding != request::KeyEncoding::window_text || charge.limits.size() != 1)
    return false;
  const Limit& limit = charge.limits.front();
  return limit.algorithm == limit::Algorithm::aligned_window && !limit.calendar &&
         limit.window.us % second_us == 0;
}

void append_name(std::string& out, const Charge& charge, limit::Time now) {
  const int64_t window_us = charge.limits.front().window.us;
  int64_t number = now.us / window_us;
  if (now.us % window_us < 0) --number;
  out.append(charge.space->prefix, charge.space->private_bytes).append(charge.key);
  out += '_';
  char digits[24];
  const auto end = std::to_chars(digits, digits + sizeof digits, number * window_s(charge)).ptr;
  out.append(digits, end);
}

int64_t life_s(const Charge& charge, uint64_t chance) {
  const uint32_t jitter = charge.space->life_jitter;
  return window_s(charge) + (jitter == 0 ? 0 : static_cast<int64_t>(chance % jitter));
}

char letter_of(const Charge& charge) {
  if (!changes(charge)) return charge.follows ? 'q' : 'p';
  if (charge.verb == Verb::put) return charge.all ? 'a' : 'g';
  const char letter = charge.verb == Verb::take ? 't' : charge.follows ? 'f' : 'c';
  return charge.reset_first ? static_cast<char>(letter - 'a' + 'A') : letter;
}

Room room_for(const Charge& charge) {
  if (charge.verb == Verb::put || charge.verb == Verb::peek || charge.verb == Verb::charge)
    return {};
  const limit::Wide costs = limit::Wide{charge.cost} * (1 + charge.before);
  const limit::Wide units = charge.limits.front().quota - costs;
  // A value below 0 makes room only for charges that count.
  if (units < 0 && charge.verb != Verb::count) return {Room::What::nothing};
  return {Room::What::at_most, static_cast<int64_t>(units)};
}

std::optional<int64_t> value_of(std::string_view text) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  // Without leading zeros, and without a sign for 0.
  const std::string_view digits = text.substr(text.front() == '-' ? 1 : 0);
  if (digits.front() == '0' && text != "0") return std::nullopt;
  return value;
}

Decision decide(const Charge& charge, std::optional<int64_t> value, bool all, bool spared,
                limit::Time now) {
  namespace window = limit::aligned_window;
  const Limit& limit = charge.limits.front();
  const int64_t units = charge.reset_first ? 0 : value.value_or(0);
  const auto holding = [&](int64_t used) {
    return used > 0 ? State{window::window_end_us(limit.window.us, now), used} : State{};
  };
  State state = holding(units), unused;
  const auto what_there_is = [&] { return window::decide(state, limit, 0, now).decision; };
  switch (charge.verb) {
    case Verb::peek:
      return limit::peek(&state, limit, now);
    case Verb::put:
      if (!all) return what_there_is();
      return limit::put(&state, limit, charge.cost, charge.all, now, &unused);
    case Verb::charge:
    case Verb::count: {
      int64_t cost = spared ? 0 : charge.cost;
      if (units < 0) cost = std::max<int64_t>(0, units + cost);
      const limit::Outcome counted = window::count(state, limit, cost, now, INT64_MAX);
      Decision decision = counted.decision;
      if (charge.verb == Verb::count) return decision;
      decision.allowed = true;
      decision.retry_after = window::decide(counted.next, limit, 1, now).decision.retry_after;
      return decision;
    }
    case Verb::would_take:
      if (charge.cost > 0 && state.units < limit.quota)
        state = holding(state.units +
                        charge.cost * std::min<int64_t>(charge.before,
                                                        (limit.quota - state.units) / charge.cost));
      break;
    default:
      break;
  }
  const Decision taken = window::decide(state, limit, charge.cost, now).decision;
  if (!taken.allowed) return taken;
  if (!all) return what_there_is();
  if (units >= 0) return taken;
  return window::decide(state, limit, std::max<int64_t>(0, units + charge.cost), now).decision;
}

}  // namespace sluice::redis::window_text
