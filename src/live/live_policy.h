// Which policy decides: one generation of the rule set, and the place where the live one stands.
// The server owns the place and puts a new generation there; each worker looks at its number once a
// batch and takes the new one when it has changed. Any thread.
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

#include "base/diagnostic.h"
#include "policy/rule_set.h"

namespace sluice::live {

struct LivePolicy {
  std::shared_ptr<const policy::RuleSet> rules;
  uint64_t hash = 0;        // of the texts it was read from
  uint64_t generation = 1;  // 1 at the start, one more with each reload
  // What metrics count each rule by, by Rule::number; null: all rules as one.
  std::shared_ptr<const std::vector<uint16_t>> names = {};
};

// Of all that somebody wrote: droplet's one rule is not among them.
size_t count_rules(const policy::RuleSet& rules);

// Calls `visit(rule, dialect)` for every rule in the order in which they are asked.
template <class Visit>
void each_rule(const policy::RuleSet& rules, Visit&& visit) {
  for (const auto& rule : rules.native_rules()) visit(rule, "native");
  for (const auto& rule : rules.rules(policy::Dialect::divvy)) visit(rule, "divvy");
  for (const auto& rule : rules.rules(policy::Dialect::limitd)) visit(rule, "limitd");
  for (const auto& rule : rules.rules(policy::Dialect::droplet)) visit(rule, "droplet");
}

// As 16 hexadecimal digits.
std::string hash_text(uint64_t hash);

// What came of reading the policy once more.
struct Loaded {
  std::shared_ptr<const policy::RuleSet> rules;  // null: refused, or the texts are the same
  std::optional<uint64_t> hash;                  // nothing: not all of it could be read
  std::shared_ptr<const std::vector<uint16_t>> names = {};  // as in LivePolicy
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
  base::Diagnostics diagnostics = {};     // what was told of the first
};

// Workers and the main thread ask for `current`; threads of low priority, which may lose their
// processor while they hold a lock, for `shown`, under a lock that no worker ever takes. Mutex: in
// tests, another one than std::mutex.
template <class Mutex>
class BasicLive {
 public:
  explicit BasicLive(LivePolicy first)
      : current_(std::make_shared<const LivePolicy>(std::move(first))),
        shown_(current_),
        generation_(current_->generation) {}

  // Of the policy that `current` gives, or of one before: so a reader who sees a number that it
  // does not hold asks for it.
  uint64_t generation() const { return generation_.load(std::memory_order_acquire); }

  std::shared_ptr<const LivePolicy> current() const {
    const std::lock_guard lock(mutex_);
    return current_;
  }

  // The same, or for a moment the one before.
  std::shared_ptr<const LivePolicy> shown() const {
    const std::lock_guard lock(shown_mutex_);
    return shown_;
  }

  // Puts `next` in the place and hands out the one before, which this holds no more. Not for a
  // thread of low priority: workers would wait until it gets on.
  std::shared_ptr<const LivePolicy> exchange(std::shared_ptr<const LivePolicy> next) {
    const uint64_t generation = next->generation;
    std::shared_ptr<const LivePolicy> shown = next;
    {
      const std::lock_guard lock(mutex_);
      current_.swap(next);
    }
    generation_.store(generation, std::memory_order_release);
    const std::lock_guard lock(shown_mutex_);
    shown_.swap(shown);
    return next;
  }

 private:
  mutable Mutex mutex_, shown_mutex_;  // of one pointer each
  std::shared_ptr<const LivePolicy> current_, shown_;
  std::atomic<uint64_t> generation_;
};

using Live = BasicLive<std::mutex>;

}  // namespace sluice::live
