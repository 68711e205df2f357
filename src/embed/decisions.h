// Between the public values and those of the rooms below: decisions, limits, times. Inline, as each
// decision goes through it.
#pragma once

#include <sluice/limiter.h>

#include <algorithm>
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

// What a charge of `cost` came to, which may share its counter with others. 0: it has none.
inline int64_t charged_of(const request::Charge& its, int64_t cost) {
  return limit::is_counted(its.limits) ? std::max<int64_t>(0, cost - its.dropped) : 0;
}

// Of several decisions the tightest is shown (request/charge.h).
class Shown {
 public:
  explicit Shown(request::Verb verb) : charges_(verb == request::Verb::charge) {}
  void add(std::span<const limit::Decision> decisions) {
    for (const limit::Decision& one : decisions) {
      over_ |= one.remaining < 0;
      if (tightest_ == nullptr || (charges_ ? request::is_tighter_of_charge(one, *tightest_)
                                            : request::is_tighter(one, *tightest_)))
        tightest_ = &one;
    }
  }
  // Of a charge: what all its counters took of the cost.
  void charged(const request::Charge& its, int64_t cost) {
    if (!limit::is_counted(its.limits)) return;
    const int64_t units = charged_of(its, cost);
    units_ = is_counted_ ? std::min(units_, units) : units;
    is_counted_ = true;
  }
  decision of(bool allowed) const {
    decision d;
    d.allowed = allowed || charges_;
    if (tightest_ == nullptr) return d;
    d.matched = true;
    d.over = charges_ && over_;
    d.charged = units_;
    d.limit = tightest_->limit;
    d.remaining = tightest_->remaining;
    d.retry_after = duration(allowed && !charges_ ? 0 : tightest_->retry_after.us);
    d.reset_after = duration(tightest_->reset_after.us);
    return d;
  }

 private:
  const bool charges_;
  bool over_ = false, is_counted_ = false;
  int64_t units_ = 0;
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
