// Which policy decides: one generation of the rule set, and the place where the live one stands.
// The server owns the place and puts a new generation there; each worker looks at its number once a
// batch and takes the new one when it has changed. Any thread.
//
// An engine takes the live policy before it plans charges and holds it as long as they exist: it
// also keeps their limits and spaces known, those of overrides as well (request/space.h). So the
// same generation is published again, now and then, to learn when no earlier one is held.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "access/users.h"
#include "base/diagnostic.h"
#include "policy/fresh_starts.h"
#include "policy/rule_set.h"
#include "request/space.h"
#include "store/catalog.h"

namespace sluice::live {

struct LivePolicy {
  std::shared_ptr<const policy::RuleSet> rules;
  uint64_t hash = 0;        // of the texts it was read from
  uint64_t generation = 1;  // 1 at the start, one more with each reload
  // What metrics count each rule by, by Rule::number; null: all rules as one.
  std::shared_ptr<const std::vector<uint16_t>> names = {};
  std::shared_ptr<const access::Users> users = {};         // null: none
  std::shared_ptr<const base::Diagnostics> warnings = {};  // kept_warnings; null: none
  // The first of those of the reload that made it (policy/fresh_starts.h); null: none.
  std::shared_ptr<const std::vector<policy::FreshStart>> fresh = {};
  uint64_t epoch = 0;  // which one it is of those that were ever live; set by Live
};

// The warnings that are kept of a policy, for callers that look later: the first
// `kept_warnings_max`, and behind them how many more there are.
inline constexpr size_t kept_warnings_max = 100;
std::shared_ptr<const base::Diagnostics> kept_warnings(const base::Diagnostics& all);

// Calls `visit(rule, dialect)` for every rule in the order in which they are asked.
template <class Visit>
void each_rule(const policy::RuleSet& rules, Visit&& visit) {
  for (const auto& list : rules.lists())
    for (const policy::Rule& rule : list.rules()) visit(rule, list.dialect());
}

// As 16 hexadecimal digits.
std::string hash_text(uint64_t hash);

// What came of reading the policy once more.
struct Loaded {
  std::shared_ptr<const policy::RuleSet> rules;  // null: refused, or the texts are the same
  std::optional<uint64_t> hash;                  // nothing: not all of it could be read
  std::shared_ptr<const std::vector<uint16_t>> names = {};  // as in LivePolicy
  std::shared_ptr<const access::Users> users = {};          // as in LivePolicy
  std::vector<std::string> files;    // whatever a change of which matters, read or not
  std::vector<std::string> missing;  // those of them that are not there
  // Look at the files that often even if nothing tells of a change; 0: no need to.
  std::chrono::milliseconds interval{0};
  base::Diagnostics diagnostics;
};

// What a server serves, and how it gets to know what it is to serve next.
struct Policy {
  LivePolicy first;
  std::vector<std::string> files = {};  // it was read from; with none nothing is watched
  // Reads the policy again, for a thread of low priority; `hash` is the last one that was read, for
  // which no rules need be made. Empty: there is nothing to reload.
  std::function<Loaded(uint64_t hash)> load = {};
  std::chrono::milliseconds interval{0};  // as in Loaded
  base::Diagnostics diagnostics = {};     // what was reported of the first
};

// Workers and the main thread ask for `current`; threads of low priority, which may lose their
// processor while they hold a lock, for `shown`, under a lock that no worker ever takes. Mutex: in
// tests, another one than std::mutex.
template <class Mutex>
class BasicLive {
 public:
  explicit BasicLive(LivePolicy first)
      : current_(made(std::move(first))), shown_(current_), epoch_(current_->epoch) {}

  // Of the policy that `current` gives, or of one before: so a reader who sees a number that it
  // does not hold asks for it.
  uint64_t epoch() const { return epoch_.load(std::memory_order_acquire); }

  std::shared_ptr<const LivePolicy> current() const {
    const std::lock_guard lock(mutex_);
    return current_;
  }

  // The same, or for a moment the one before.
  std::shared_ptr<const LivePolicy> shown() const {
    const std::lock_guard lock(shown_mutex_);
    return shown_;
  }

  // Puts a copy of `other` in the place and hands out the one before, which this holds no more. One
  // thread at a time, and not one of low priority: workers would wait until it gets on.
  std::shared_ptr<const LivePolicy> exchange(const std::shared_ptr<const LivePolicy>& other) {
    std::shared_ptr<const LivePolicy> next = made(*other), shown = next;
    const uint64_t epoch = next->epoch;
    {
      const std::lock_guard lock(mutex_);
      current_.swap(next);
    }
    epoch_.store(epoch, std::memory_order_release);
    const std::lock_guard lock(shown_mutex_);
    shown_.swap(shown);
    return next;
  }
  // The same with what is live: another one of the same generation.
  std::shared_ptr<const LivePolicy> renew() { return exchange(current()); }

  // Does no thread hold one that was live before the current one? Any thread.
  bool is_only_one() const {
    const uint64_t gone = counts_->gone.load(std::memory_order_acquire);
    return gone + 1 == counts_->made.load(std::memory_order_acquire);
  }

 private:
  struct Counts {
    std::atomic<uint64_t> made{0}, gone{0};
  };
  struct Counted {
    Counted(LivePolicy its_policy, std::shared_ptr<Counts> its_counts)
        : policy(std::move(its_policy)), counts(std::move(its_counts)) {
      policy.epoch = counts->made.fetch_add(1) + 1;
    }
    Counted(const Counted&) = delete;
    Counted& operator=(const Counted&) = delete;
    ~Counted() { counts->gone.fetch_add(1, std::memory_order_release); }

    LivePolicy policy;
    const std::shared_ptr<Counts> counts;
  };
  std::shared_ptr<const LivePolicy> made(LivePolicy policy) {
    const auto counted = std::make_shared<const Counted>(std::move(policy), counts_);
    return {counted, &counted->policy};
  }

  const std::shared_ptr<Counts> counts_ = std::make_shared<Counts>();
  mutable Mutex mutex_, shown_mutex_;  // of one pointer each
  std::shared_ptr<const LivePolicy> current_, shown_;
  std::atomic<uint64_t> epoch_;
};

using Live = BasicLive<std::mutex>;

// Forgets spaces and lists of limits that nothing names any more (request/space.h), in rounds:
//
//   1. what no rule and no override names is noted
//   2. the live policy is put in its place again, so that every worker takes it and matches again
//      what waits; then it waits until no thread holds one from before
//   3. the store tells what its counters name
//   4. what was noted, and is still not named, is forgotten
//
// One step at a time, by the thread that keeps house.

class LimitsCollector {
 public:
  // Has some thread, now or later, renew the live policy, tell the workers, and call `done`.
  using Renew = std::function<void(std::function<void()> done)>;

  // All of it outlives this, but for what `renew` keeps.
  LimitsCollector(request::Spaces& spaces, const Live& live, store::Catalog& store, Renew renew)
      : spaces_(spaces), live_(live), store_(store), renew_(std::move(renew)) {}

  // Begins a round if it is worth its time, or goes on with the one that is under way.
  void step() {
    if (state_ == State::idle && !spaces_.wants_round()) return;
    force_step();
  }
  // The same, worth its time or not.
  void force_step();

  uint64_t rounds() const { return rounds_; }

 private:
  enum class State : uint8_t { idle, passing, marking };

  request::Spaces& spaces_;
  const Live& live_;
  store::Catalog& store_;
  const Renew renew_;
  State state_ = State::idle;
  std::shared_ptr<std::atomic<bool>> renewed_;  // in this round
  request::Marks marks_;
  bool first_ = false;  // the store has not been asked in this round
  uint64_t rounds_ = 0;
};

}  // namespace sluice::live
