// What stands in place of a rule's limits for one actor, or for actors that a pattern fits, until a
// time. Set while the server runs: any number of workers look up without a lock while one thread
// changes, and a change is seen by the next lookup. A lookup allocates nothing, and what it costs
// does not depend on how many overrides there are. Owned by the registry of overrides, which keeps
// their texts; what is here is only what decisions need.
//
//   rule         is called by a number (Rule::id), that its dialect, its name and the keys of its
//                actor make: so overrides stay in force across reloads, and one whose rule is gone
//                does nothing until it is back.
//   actor        a value for each entry of the rule's actor; none where it has none. `*` in it is
//                any run of characters. Without a star it is exact.
//   limits       those that hold: where an override replaces only some of its rule's, the others
//                are among them. Its owner sets it again when the rule's have changed.
//
//   precedence   exact ones before patterns; of patterns that fit, the one with the most characters
//                that are not stars (bytes, in all values together), then the one that was set
//                last, then the greater id. Those whose time has passed are as if they were not.
//   patterns     are filed under the text that every key they fit begins with, cut to one of a few
//                lengths; a lookup tries those lengths that the rule's patterns have. Of patterns
//                that are a beginning of such a length and a star (`10.0.*`) there may be any
//                number. What of the others is filed alike is gone through, so its number is
//                bounded (bounds::overrides_alike_max). A key that takes too many steps to compare
//                with them (MatchSteps) has `too_costly` limits, which deny, so that it does not
//                escape an override.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/epoch_reclaimer.h"
#include "limit/limit.h"
#include "policy/match_steps.h"
#include "policy/override_merge.h"
#include "request/charge.h"

namespace sluice::policy {

// A rule's actor by the values of its entries, and as the key of a counter (policy/key_text.h).
std::string key_text(std::span<const std::string> values);
// Nothing: there are not that many values in it.
std::optional<std::vector<std::string>> key_values(std::string_view key, size_t count);

struct Override {
  // What decisions are made by. What it points to is known as long as the override is here, and to
  // who found it as long as it holds the policy that was live before (request/space.h).
  struct Terms {
    uint64_t id = 0;  // not 0
    limit::Time until{INT64_MAX};
    const request::Space* space = nullptr;   // null: the rule's
    std::span<const limit::Limit> limits{};  // request::Spaces::limits(limits_id)
    uint32_t limits_id = 0;
    OwnLimits own = 0;  // of `limits`, for people alone: a decision is made by all of them
  };
  uint64_t rule = 0;
  std::vector<std::string> actor;
  limit::Time set{};
  Terms terms;
};

class Overrides {
 public:
  Overrides();
  ~Overrides();
  Overrides(const Overrides&) = delete;
  Overrides& operator=(const Overrides&) = delete;

  // Changes, one thread at a time. What is set replaces what the same rule and actor had. False:
  // too many patterns of the rule begin alike.
  bool set(const Override& one);
  bool remove(uint64_t rule, std::span<const std::string> actor);
  // The text under which a pattern is filed that shares its place with others, and how many of its
  // rule are there. Nothing: it is exact, or a pattern with a place of its own.
  static std::optional<std::string> filed_under(std::span<const std::string> actor);
  size_t alike(uint64_t rule, std::string_view filed_under) const;
  // Those that overrides have in place of their rules', each once. `version` is another one when
  // they are others. Any thread but a reader that must not wait.
  std::vector<const request::Space*> spaces(uint64_t& version) const;

  // Frees what no reader can be looking at any more; a change does so too. Any thread but a reader
  // that must not wait.
  void reclaim();
  // What is not freed yet; any thread but such a reader.
  size_t retired() const;

  size_t size() const { return size_.load(std::memory_order_relaxed); }
  // One more with each change, before its effect is over; any thread.
  uint64_t changes() const { return changes_.load(std::memory_order_acquire); }

  // A thread that looks up registers, and says now and then that it holds nothing
  // (EpochReclaimer::Reader).
  class Reader {
   public:
    explicit Reader(const Overrides& overrides) : reader_(overrides.reclaimer_) {}
    void quiesce() { reader_.quiesce(); }

   private:
    base::EpochReclaimer::Reader reader_;
  };
  // Who does not register looks up while it holds this; changes wait meanwhile.
  std::unique_lock<std::mutex> hold() const { return std::unique_lock(mutex_); }

  // Worth it where several must be found at once, and there are many: has the processor fetch
  // what `find` will look at first, and then, for all of them, what it will look at next.
  bool prefetches() const { return size() > prefetched_from; }
  void prefetch_slots(uint64_t rule, std::string_view key) const { prefetch(rule, key, false); }
  void prefetch_nodes(uint64_t rule, std::string_view key) const { prefetch(rule, key, true); }

  // The one that applies to a key of the rule's counters. False: none does. `steps` are those of
  // one request; once they are over its keys have the limits `too_costly`, of no override's id.
  bool find(uint64_t rule, std::string_view key, limit::Time now, Override::Terms& terms,
            MatchSteps& steps) const {
    const uint8_t flags = flags_[rule % flags_.size()].load(std::memory_order_relaxed);
    return flags != 0 && look_up(flags, rule, key, now, terms, steps);
  }
  bool find(uint64_t rule, std::string_view key, limit::Time now, Override::Terms& terms) const {
    MatchSteps steps;
    return find(rule, key, now, terms, steps);
  }

  // How often that was found; any thread.
  uint64_t too_costly() const { return too_costly_count_.load(std::memory_order_relaxed); }

 private:
  struct Tables;
  static constexpr size_t prefetched_from = 4096;
  static constexpr uint8_t exact_flag = 1, pattern_flag = 2;

  bool look_up(uint8_t flags, uint64_t rule, std::string_view key, limit::Time now,
               Override::Terms& terms, MatchSteps& steps) const;
  void prefetch(uint64_t rule, std::string_view key, bool nodes) const;
  // `old`: the terms' space that was there.
  bool set_listed(const Override& one, const std::string& text, bool& replaces,
                  const request::Space*& old);
  bool remove_listed(uint64_t rule, std::span<const std::string> actor, const std::string& text,
                     const request::Space*& old);
  void count_space(const request::Space* space, int change);
  void count_lengths(uint64_t rule, size_t length, bool listed, int change);
  void count(uint64_t rule, uint8_t flag, int change);

  mutable base::EpochReclaimer reclaimer_;
  mutable std::mutex mutex_;  // of changes
  std::unique_ptr<Tables> tables_;
  std::unordered_map<const request::Space*, size_t>
      spaces_;                   // overrides of each; guarded by mutex_
  uint64_t spaces_version_ = 0;  // as is this
  std::atomic<size_t> size_{0};
  std::atomic<uint64_t> changes_{0};
  Override::Terms too_costly_;
  mutable std::atomic<uint64_t> too_costly_count_{0};
  // What kinds of overrides the rules have whose numbers share a place.
  std::array<std::atomic<uint8_t>, 4096> flags_{};
};

}  // namespace sluice::policy
