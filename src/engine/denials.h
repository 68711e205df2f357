// What a worker has refused since it was last asked: for each actor, rule and limit how often, and
// when first and last. One bounded table, written by the worker's thread alone and handed on whole,
// so that a refusal costs a lookup and allocates nothing, and an allowed request nothing.
//
// Past its bound (bounds::denials_noted_max) one of eight notes makes room that a new one may take
// the place of: of the rule that has most of them, the one that was refused least; and of sixteen
// new ones of a rule that has the place already, one gets it, as a flood would cost too much
// otherwise. So a flood of actors of one rule pushes out no actor of another rule, and none of its
// own that is refused again and again. What was refused of others is counted.
#pragma once

#include <spdlog/logger.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>
#include <utility>

#include "base/bounds.h"
#include "base/time.h"
#include "limit/limit.h"
#include "policy/rule_set.h"

namespace sluice::base::bounds {
inline constexpr size_t denials_noted_max = 1024;
inline constexpr size_t denials_kept_max = 512;
}  // namespace sluice::base::bounds

namespace sluice::engine {

// The actor that was refused, and the limit of the rule that refused it. The view lives for the
// call.
struct Refusal {
  uint64_t hash = 0;             // of the space and the key, with a secret
  const void* family = nullptr;  // TopKeys::family_of the space
  std::string_view key;
  std::string_view actor{};  // without an address: the key
  uint64_t rule_id = 0;      // policy::Rule::id
  uint16_t rule = 0;         // the rule's number in metrics
  bool shadow = false;
  limit::Limit limit;

  // Tells it from the refusals of other actors, rules and limits, as long as the process runs.
  uint64_t tag() const;
};

// All refusals with one tag. Without initial values: a table's notes are not touched before they
// are needed.
struct Denial {
  static constexpr size_t key_bytes_max = base::bounds::top_key_bytes_max;

  uint64_t hash, count, rule_id;
  base::Time first, last;
  const void* family;
  limit::Limit limit;
  uint16_t rule;
  bool shadow, has_actor;  // has_actor: false: the actor is the key
  bool cut;                // only the beginning of the key, or of the actor, is here
  uint8_t key_bytes, actor_bytes;
  std::array<char, key_bytes_max> key_text, actor_text;

  std::string_view key() const { return {key_text.data(), key_bytes}; }
  std::string_view actor() const {
    return has_actor ? std::string_view(actor_text.data(), actor_bytes) : key();
  }
  Refusal refusal() const;
  void begin(const Refusal& refusal, base::Time now);
};

class DenialTable {
 public:
  static constexpr size_t ways = 8, size = base::bounds::denials_noted_max, sets = size / ways;
  static_assert((sets & (sets - 1)) == 0 && Denial::key_bytes_max <= UINT8_MAX);

  DenialTable() { clear(); }

  void clear() {
    marks_.fill(0);
    used_ = 0;
    dropped_ = 0;
  }
  // Counts a refusal. `mark`: what tells it from others while this table is filled, with a secret;
  // `kind`: of a rule and mode; `make` returns the refusal, if it needs a note.
  template <class Make>
  void add(uint64_t mark, uint32_t kind, base::Time now, Make&& make) {
    mark |= 1;  // 0: the place is free
    size_t at = home_of(mark);
    if (marks_[at] != mark) [[unlikely]] {
      bool is_new = false;
      at = find(mark, kind, is_new);
      if (at == size) return;
      if (is_new) return notes_[at].begin(make(), now);
    }
    ++counts_[at];
    // The clock may have been set back.
    notes_[at].first = std::min(notes_[at].first, now);
    notes_[at].last = std::max(notes_[at].last, now);
  }
  static uint32_t kind_of(uint16_t rule, bool shadow) {
    return uint32_t{rule} << 1 | (shadow ? 1u : 0u);
  }

  bool is_empty() const { return used_ == 0; }
  // Refusals that are in no note.
  uint64_t dropped() const { return dropped_; }
  template <class Visit>
  void each(Visit&& visit) const {
    for (size_t i = 0; i < size; ++i) {
      if (marks_[i] == 0) continue;
      Denial note = notes_[i];
      note.count = counts_[i];
      visit(note);
    }
  }

 private:
  static size_t set_of(uint64_t mark) { return (mark >> 32 & (sets - 1)) * ways; }
  static size_t home_of(uint64_t mark) { return set_of(mark) + (mark >> 48 & (ways - 1)); }
  size_t find(uint64_t mark, uint32_t kind, bool& is_new);
  size_t least_of(size_t set, uint32_t kind) const;

  // What a search reads is apart from the rest of the notes.
  std::array<uint64_t, size> marks_, counts_;
  std::array<uint32_t, size> kinds_;
  size_t used_;
  uint64_t dropped_;
  std::array<Denial, size> notes_;
};

// The table of one worker. Its thread alone.
class Denials {
 public:
  DenialTable& table() { return *table_; }
  void add(const Refusal& refusal, base::Time now) {
    table_->add(refusal.tag(), DenialTable::kind_of(refusal.rule, refusal.shadow), now,
                [&] { return refusal; });
  }
  // Puts an empty table in place of the one that is filled, which is returned; the empty one, if
  // nothing was refused.
  std::unique_ptr<DenialTable> take(std::unique_ptr<DenialTable> empty) {
    if (table_->is_empty()) return empty;
    return std::exchange(table_, std::move(empty));
  }

 private:
  std::unique_ptr<DenialTable> table_{new DenialTable};  // not zeroed
};

// Picks the denials that are logged: every Nth, and at most a fixed number in a second. Those above
// that number are counted, and their count is logged. Off until an operator turns it on. Owned by
// the server; any thread.

class DenialSampler {
 public:
  static constexpr uint64_t lines_per_second_max = 10;
  static constexpr uint64_t every_max = 1'000'000'000;

  // 0: no denial is logged. Workers read it once a batch.
  uint64_t every() const { return every_.load(std::memory_order_relaxed); }
  // Sets N and restarts the count.
  void set_every(uint64_t every) {
    seen_.store(0, std::memory_order_relaxed);
    every_.store(every, std::memory_order_relaxed);
  }

  // Counts one denial. True: it must be logged. `every` is more than 0.
  bool wants(uint64_t every, base::Time now);
  // Returns how many were not logged for being too many since the last call.
  uint64_t take_passed_over() { return passed_over_.exchange(0, std::memory_order_relaxed); }

 private:
  std::atomic<uint64_t> every_{0}, seen_{0}, passed_over_{0};
  // The current second times 256, plus the number of lines that were logged in it.
  std::atomic<uint64_t> second_{0};
};

// Warns of rules that clients ask "is anything left?" before their work, and whose limits refuse
// what the work came to without counting it: the next look passes again, for ever. Such a limit
// wants `over: count`, or its clients want to charge. One line a minute at most, of all workers.
// Owned by one worker.

class LeakWarnings {
 public:
  static constexpr base::Duration pause = base::seconds(60);

  // A peek or a take of cost 0 was allowed.
  void looked(const policy::Plan& plan, const policy::Plan::RequestPlan& part, base::Time now);
  // A take was refused.
  void refused(spdlog::logger& log, const policy::Plan& plan, const policy::Plan::RequestPlan& part,
               base::Time now) {
    if (any_) [[unlikely]]
      warn(log, plan, part, now);
  }

 private:
  void warn(spdlog::logger& log, const policy::Plan& plan, const policy::Plan::RequestPlan& part,
            base::Time now);

  // The rules that were looked at last, by Rule::id, and when.
  struct Look {
    uint64_t rule = 0;
    base::Time when{};
  };
  std::array<Look, 16> looks_{};
  size_t next_ = 0;
  bool any_ = false;
};

}  // namespace sluice::engine
