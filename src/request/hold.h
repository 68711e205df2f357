// Holds: units that are taken for a while, and settled with what they came to (a reservation). What
// a message asks of them, and what came of it. Plain values; store/holds.h keeps the holds.
//
//   state       event                                                next
//   held        extend, renew: more units, another end               held
//               commit: what is not used goes back, what is missing  committed
//               is charged
//               release: all goes back                               released
//               its end                                              released or, if its rules say
//                                                                    `keep`, kept
//   kept        the estimate counts as used; commit and release      committed, released
//               correct it
//   released    a commit charges all of what was used                committed
//   committed   the same commit again is answered as the first
//
// What is settled or ended is remembered for a while, then it is unknown. Every event that has no
// line here changes nothing: HoldOutcome says why.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/time.h"
#include "limit/limit.h"
#include "request/charge.h"

namespace sluice::request {

enum class HoldAsk : uint8_t { reserve, extend, renew, commit, release };

enum class HoldOutcome : uint8_t {
  done,
  // A reserve or extend does not fit: nothing was taken, and the verdict says which limit refuses.
  refused,
  // A reserve that the rules' on_store_error allows although the store cannot decide: nothing is
  // held, and there is no id. Settle it by a charge.
  not_held,
  failed,        // the store cannot decide: the verdict has its error
  unknown,       // there is no such hold; a commit with subjects was charged nevertheless: `done`
  in_use,        // a reserve: the id names another reservation
  settled,       // it is committed, with other units than these
  ended,         // it is released or its end has passed
  wrong_number,  // `units` has not one number for each subject
  waiting,       // a reserve that may wait does, for units
  full,          // there are as many holds as the server keeps
};

// What the rules of a reservation say of it.
struct HoldTerms {
  static constexpr int64_t whole = 1'000'000;
  base::Duration ttl_max = base::seconds(600);
  int64_t fraction = whole;   // of each limit, the most that is reserved, in millionths
  bool keeps = false;         // at its end the estimate counts as used (`on_expiry: keep`)
  bool ignores_late = false;  // a commit after a release is refused (`late_commit: ignore`)

  // The most units that may be reserved of so many.
  int64_t most_of(int64_t units) const {
    return fraction >= whole ? INT64_MAX
                             : units / whole * fraction + units % whole * fraction / whole;
  }
  // The strictest of both.
  void join(const HoldTerms& other) {
    ttl_max = std::min(ttl_max, other.ttl_max);
    fraction = std::min(fraction, other.fraction);
    keeps |= other.keeps;
    ignores_late &= other.ignores_late;
  }
  friend bool operator==(const HoldTerms&, const HoldTerms&) = default;
};

// The most bytes of a holder's text.
inline constexpr size_t holder_bytes_max = 255;

// One message about a hold: what is asked, and what came of it. Lives for the batch.
struct HoldCall {
  // Set by the session. Views live for the batch.
  HoldAsk ask = HoldAsk::reserve;
  std::string_view user{};  // whose ids; empty: there are no users
  std::string_view id{};    // request::is_charge_id; reserve: empty: the server makes one
  uint64_t content = 0;     // reserve with an id: of what it reserves (ChargeContent::digest)
  base::Duration ttl{};     // 0: reserve: the server's own; else the one that the hold has
  std::string_view holder{};
  // reserve: it waits for units, for Message::wait_at_most. A reply that comes late has a copy of
  // this (Verdict::hold); where the wait is over the verdict is `expired`, and nothing is held.
  bool waits = false;
  // commit: what was used; extend: how many more; one number for each subject of the reserve.
  std::vector<int64_t> units{};

  // Set by the core before the replies.
  HoldOutcome outcome = HoldOutcome::failed;
  Error error = Error::none;        // failed: the store's reason
  std::string made_id{};            // the hold's id
  base::Duration ends_in{};         // of a hold
  std::vector<int64_t> reserved{};  // of a hold: the units of each subject, all together
  std::vector<int64_t> used{};      // of a committed one: of each subject
  // What went back, and what was charged beyond the reservation, over all subjects.
  int64_t returned = 0, charged = 0;
  bool late = false;      // the commit came after the end
  bool repeated = false;  // it was done before: this is the answer again
  // Of commit, extend, renew and release the verdict has no charges: the counter that is nearest
  // its limit. Without a counter `has_decision` is false.
  bool has_decision = false;
  limit::Decision decision{};
  limit::Limit limit{};
  std::string rule{};
};

// Units of a hold that one take took from one counter.
struct HeldPart {
  base::Time taken{};
  int64_t units = 0;                                   // of each limit
  limit::Given given{};                                // of the counter, then
  std::span<const limit::Limit> then{};                // the limits that it was taken from
  std::array<limit::State, limit::slots_max> marks{};  // of these (limit/held.h)
};

// What a charge of a hold needs beside its cost, and what comes of it. Outlives the settling.
struct HeldCharge {
  // Decide by the limits that the counter is under, if it exists, and not by the charge's: the
  // charge gets those. It needs room for slots_max decisions.
  bool adopts = false;
  // settle: how many units of which parts go back; `cost` of the charge is what was used beyond.
  std::span<const HeldPart> parts{};
  std::span<const int64_t> back{};  // of each part
  bool ends = false;                // the parts are not settled again

  // These are set by the store. reserve, if it is allowed: what was taken, under the charge's
  // limits.
  HeldPart part{};
  bool is_taken = false;
  int64_t returned = 0;     // settle: units that went back, the most of all limits
  limit::Given given{};     // of the counter, before
  bool is_decided = false;  // there is a limit with a counter: the tightest is
  limit::Limit limit{};
  limit::Decision decision{};
};

// A text by name that a store which outlives the process keeps beside its counters
// (store/notes.h): what a hold is. Shared by its maker and the store until it is committed; any
// thread.
class HoldNote : public std::enable_shared_from_this<HoldNote> {
 public:
  explicit HoldNote(std::string name) : name_(std::move(name)) {}
  const std::string& name() const { return name_; }
  // Says the text; nothing: there is none any more. Once, and before the maker does anything that
  // may take long, as the commit waits for it.
  void fill(std::optional<std::string> text) {
    text_ = std::move(text);
    filled_.store(true, std::memory_order_release);
    filled_.notify_all();
  }
  bool is_filled() const { return filled_.load(std::memory_order_acquire); }
  // There is no text of the name any more.
  bool is_gone() const { return is_filled() && !text_; }
  // There was none before.
  bool is_first() const { return first_.load(std::memory_order_relaxed); }
  void set_first() { first_.store(true, std::memory_order_relaxed); }
  // Waits until it is filled.
  const std::optional<std::string>& text() const {
    filled_.wait(false, std::memory_order_acquire);
    return text_;
  }

 private:
  const std::string name_;
  std::optional<std::string> text_;
  std::atomic<bool> filled_{false}, first_{false};
};

}  // namespace sluice::request
