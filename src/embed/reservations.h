// The reservations of a limiter: what a call takes from which counters, in a store::Holds. There is
// one only where options::holds_max asks for it. Any thread.
//
// Its calls enter the gate, and take the lock of Waits when they have left it (embed/core.h).
#pragma once

#include <sluice/limiter.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "base/result.h"
#include "base/time.h"
#include "request/hold.h"
#include "store/hold_book.h"
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
  // One that may wait, and what came of asking for it last. Under the lock of Waits, which tells
  // when it ends.
  struct Pending {
    Kind kind = Kind::reservation;
    duration ttl{};
    store::HoldBook::Asker asker{};  // who parks it
    request::HoldCall call{};
    std::unique_ptr<store::HoldBook::Wait> wait{};  // not null: it is parked
    uint64_t arrival = 0;                           // as Group::arrival
    bool answered = false;                          // its answer is on its way
    bool fits = true;                               // false: it can never be granted
    reservation answer{};                           // as it was refused, or granted
  };
  reservation reserve(Kind kind, view<charge> charges, duration ttl, time_point now, int64_t* each,
                      Pending* pending = nullptr);
  reservation reserve(Kind kind, view<entry> descriptor, int64_t cost, duration ttl, time_point now,
                      Pending* pending = nullptr);
  // Its group was granted then.
  void grant(Pending& its, const decision& answer, time_point at);
  // Its request does not wait any more. is_granted: its group was granted.
  void drop(Pending& its, bool is_granted, time_point now);
  // Extends or renews.
  reservation change(const hold& its, request::HoldAsk ask, view<int64_t> more, duration ttl,
                     time_point now, int64_t* each);
  // Commits or releases.
  settlement settle(const hold& its, request::HoldAsk ask, view<int64_t> used, time_point now);

 private:
  void end(base::Time now);
  void hold_all(request::HoldCall& call, const std::optional<request::HoldTerms>& terms,
                request::Batch batch, std::span<const store::HoldBook::Share> shares,
                std::span<const int64_t> units, base::Time now, Pending* pending);
  void settle(const hold& its, request::HoldCall& call, base::Time now);
  static reservation told(const request::HoldCall& call, const decision& answer, time_point now,
                          int64_t* each);
  reservation noted(reservation its);

  core& core_;
  store::Holds holds_;
};

}  // namespace sluice::detail
