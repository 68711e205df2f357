// The reservations of a limiter: what a call takes from which counters, in a store::Holds. There is
// one only where options::holds_max asks for it. Any thread.
//
// Its calls enter the gate, and take the lock of Waits when they have left it (embed/core.h).
#pragma once

#include <sluice/limiter.h>

#include <cstdint>
#include <optional>
#include <span>

#include "base/result.h"
#include "base/time.h"
#include "request/hold.h"
#include "store/holds.h"
#include "store/store.h"

namespace sluice::detail {

class core;

class reservations {
 public:
  // They settle in that store, which outlives it.
  reservations(core& its_core, store::Store& store);

  // See store::Holds.
  base::Result<size_t> restore(base::Time now) { return holds_.restore(now); }

  // Ends those that are due, a bounded number of them. Not inside the gate.
  void end_due(base::Time now) {
    if (holds_.next_due() <= now) [[unlikely]]
      end(now);
  }
  // When `end_due` has to be called next.
  base::Time next_due() const { return holds_.next_due(); }
  size_t size() const { return holds_.figures().holds; }

  // Reserves, or acquires places.
  enum class Kind : uint8_t { reservation, place };
  reservation reserve(Kind kind, view<charge> charges, duration ttl, time_point now, int64_t* each);
  reservation reserve(Kind kind, view<entry> descriptor, int64_t cost, duration ttl,
                      time_point now);
  // Extends or renews.
  reservation change(const hold& its, request::HoldAsk ask, view<int64_t> more, duration ttl,
                     time_point now, int64_t* each);
  // Commits or releases.
  settlement settle(const hold& its, request::HoldAsk ask, view<int64_t> used, time_point now);

 private:
  void end(base::Time now);
  void hold_all(request::HoldCall& call, const std::optional<request::HoldTerms>& terms,
                request::Batch batch, std::span<const store::HoldBook::Share> shares,
                std::span<const int64_t> units, base::Time now);
  void settle(const hold& its, request::HoldCall& call, base::Time now);
  reservation told(const request::HoldCall& call, const decision& answer, time_point now,
                   int64_t* each);

  core& core_;
  store::Holds holds_;
};

}  // namespace sluice::detail
