// Between the public values and those of the rooms below: decisions, limits, times. Inline, as each
// decision goes through it.
#pragma once

#include <sluice/limiter.h>

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/bounds.h"
#include "base/time.h"
#include "limit/limit.h"
#include "request/charge.h"

namespace sluice::embed {

static_assert(charges_max == base::bounds::group_charges_max);
static_assert(limits_per_counter_max == limit::slots_max);
static_assert(quota_max == base::bounds::quota_max);
static_assert(window_max.count() == base::bounds::window_us_max);
static_assert(never.count() == base::never.us);

inline base::Time internal(time_point time) {
  return {time.time_since_epoch().count()};
}
inline time_point external(base::Time time) {
  return time.us < latest_time.time_since_epoch().count() ? time_point(duration(time.us))
                                                          : latest_time;
}
inline bool is_sound(time_point time) {
  return time >= time_point() && time <= latest_time;
}

inline decision failed(errc why) {
  decision none;
  none.error = why;
  return none;
}

// No rule applies.
inline decision unmatched() {
  decision free;
  free.allowed = true;
  return free;
}

inline errc error_of(request::Error error) {
  switch (error) {
    case request::Error::none:
      return errc::ok;
    case request::Error::memory:
      return errc::no_memory;
    default:
      return errc::storage;
  }
}

// Of several decisions the tightest is shown: the refusal with the longest wait, else the least
// left, and of those the one that takes longest to be as fresh; of a charge the one that takes
// longest until it grants one unit.
class Shown {
 public:
  explicit Shown(request::Verb verb) : charges_(verb == request::Verb::charge) {}
  void add(std::span<const limit::Decision> decisions) {
    for (const limit::Decision& one : decisions) {
      over_ |= one.remaining < 0;
      if (tightest_ == nullptr || is_tighter(one)) tightest_ = &one;
    }
  }
  decision of(bool allowed) const {
    decision d;
    d.allowed = allowed || charges_;
    if (tightest_ == nullptr) return d;
    d.matched = true;
    d.over = charges_ && over_;
    d.limit = tightest_->limit;
    d.remaining = tightest_->remaining;
    d.retry_after = duration(allowed && !charges_ ? 0 : tightest_->retry_after.us);
    d.reset_after = duration(tightest_->reset_after.us);
    return d;
  }

 private:
  bool is_tighter(const limit::Decision& d) const {
    const limit::Decision& t = *tightest_;
    if (charges_ && d.retry_after != t.retry_after) return d.retry_after > t.retry_after;
    if (charges_) return d.remaining < t.remaining;
    if (d.allowed != t.allowed) return !d.allowed;
    if (!d.allowed) return d.retry_after > t.retry_after;
    if (d.remaining != t.remaining) return d.remaining < t.remaining;
    return d.reset_after > t.reset_after;
  }

  const bool charges_;
  bool over_ = false;
  const limit::Decision* tightest_ = nullptr;
};

// Room for decisions on the stack. Not zeroed: mostly one is used, and a store writes before
// anything is read.
template <size_t count>
class DecisionRoom {
 public:
  std::span<limit::Decision> first(size_t n) {
    return {reinterpret_cast<limit::Decision*>(bytes_), n};
  }

 private:
  alignas(limit::Decision) std::byte bytes_[count * sizeof(limit::Decision)];
};

}  // namespace sluice::embed
