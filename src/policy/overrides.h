// The table of overrides: limits in place of a rule's for one actor, or for the actors that a
// pattern matches, until a time. It changes while the server runs: any number of workers look up
// without a lock while one thread changes it, and the next lookup sees a change. A lookup allocates
// nothing, and its cost does not depend on the number of overrides. Owned by the registry of
// overrides, which keeps their texts; the table has only what decisions need.
//
//   rule         named by its number (Rule::id), which is computed from its dialect, its name and
//   the
//                keys of its actor. So overrides stay in force across reloads, and one whose rule
//                was removed has no effect until the rule is back.
//   actor        a value for each key of the rule's actor, as people write it
//   (policy/actor_name.h):
//                a text, a text with stars, a network, a list; none if the rule has none. An actor
//                of texts alone is exact; any other is a pattern.
//   limits       all limits that are in force: where an override replaces only some of the rule's,
//                the list has the others as well. The registry sets the override again when the
//                rule's limits have changed.
//
//   precedence   exact overrides before patterns; among the patterns that match, the one with the
//                most bytes that are not stars in all values together (ActorValue::literal_bytes;
//                lists of texts alone go before all others), then the one that was set last, then
//                the one with the greater id. Overrides whose time has passed do not count.
//   patterns     A pattern is filed under the text with which every key begins that it matches, cut
//                to one of a few lengths. A lookup tries the lengths that the rule's patterns have.
//                Patterns that consist of a text of such a length and a star (`10.0.*`) have a
//                place of their own, and there may be any number of them. Other patterns under the
//                same text are compared one after the other, so their number is bounded
//                (bounds::overrides_alike_max). A key for which that takes too many steps
//                (MatchSteps) gets the limits `too_costly`, which deny, so that it does not escape
//                an override.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "limit/limit.h"
#include "policy/match_steps.h"
#include "request/charge.h"

namespace sluice::policy {

// The text of an actor with these values, which is also the key of its counter.
std::string key_text(std::span<const std::string> values);
// The values of such a text; empty: it does not have `count` values.
std::optional<std::vector<std::string>> key_values(std::string_view key, size_t count);

// Bit i is set: limit i of a list is the override's own; the other limits are the rule's. 0: all
// limits are the override's own, and it replaces all limits of its rule.
using OwnLimits = uint8_t;
static_assert(limit::slots_max <= 8);

struct Override {
  // What a decision needs. The space and limits are known while the override is in the table; after
  // a lookup also as long as the caller holds the policy that was live before it
  // (request/space.h).
  struct Terms {
    uint64_t id = 0;  // not 0
    limit::Time until{INT64_MAX};
    const request::Space* space = nullptr;   // null: the rule's
    std::span<const limit::Limit> limits{};  // request::Spaces::limits(limits_id)
    uint32_t limits_id = 0;
    OwnLimits own = 0;  // of `limits`; for people only, as all limits decide
  };
  uint64_t rule = 0;
  std::vector<std::string> actor;  // ActorValue::name of each value
  limit::Time set{};
  Terms terms;
};

class Overrides {
 public:
  Overrides();
  ~Overrides();
  Overrides(const Overrides&) = delete;
  Overrides& operator=(const Overrides&) = delete;

  // Changes; one thread at a time. `set` replaces the override of the same rule and actor. False:
  // too many patterns of the rule are filed under the same text. Where memory runs out they throw
  // std::bad_alloc, and nothing has changed.
  bool set(const Override& one);
  bool remove(uint64_t rule, std::span<const std::string> actor);
  // The text under which a pattern is filed together with others, and how many patterns of its rule
  // are filed there. Empty: the actor is exact, or a pattern with a place of its own.
  static std::optional<std::string> filed_under(std::span<const std::string> actor);
  size_t alike(uint64_t rule, std::string_view filed_under) const;
  // The spaces that overrides have in place of their rules', each once. `version` changes with the
  // list. Takes a lock, so not for a reader that must not wait.
  std::vector<const request::Space*> spaces(uint64_t& version) const;

  // Frees what was replaced and no reader can still use; changes do so as well. Takes a lock, so
  // not for a reader that must not wait.
  void reclaim();
  // How much was replaced and is not freed yet. Takes a lock.
  size_t retired() const;

  size_t size() const { return size_.load(std::memory_order_relaxed); }
  // The number of changes, each counted when it has its effect. Any thread.
  uint64_t changes() const { return changes_.load(std::memory_order_acquire); }

  // A thread that looks up, as long as this lives; made on any thread. It never waits, and no
  // thread waits for it.
  class Reader {
   public:
    explicit Reader(const Overrides& overrides);
    ~Reader();
    Reader(const Reader&) = delete;
    Reader& operator=(const Reader&) = delete;
    // It holds nothing that it found until now. To be called regularly: what is replaced in
    // between is not freed.
    void quiesce() {
      const uint64_t change = overrides_.changes();
      if (change != seen_.load(std::memory_order_relaxed))
        seen_.store(change, std::memory_order_release);
    }

   private:
    friend class Overrides;
    const Overrides& overrides_;
    std::atomic<uint64_t> seen_{0};
  };
  // A thread that is not registered may look up while it holds this lock, which delays changes.
  std::unique_lock<std::mutex> hold() const { return std::unique_lock(mutex_); }

  // For several lookups in a large table: `prefetch_slots` for all of them loads the memory that
  // `find` reads first, and `prefetch_nodes` after that the memory that it reads next.
  bool prefetches() const { return size() > prefetched_from; }
  void prefetch_slots(uint64_t rule, std::string_view key) const { prefetch(rule, key, false); }
  void prefetch_nodes(uint64_t rule, std::string_view key) const { prefetch(rule, key, true); }

  // Finds the override that applies to a key of the rule's counters. False: none does. `steps` are
  // those of one request; when they are used up, its keys get the limits `too_costly`, which have
  // no override's id.
  bool find(uint64_t rule, std::string_view key, limit::Time now, Override::Terms& terms,
            MatchSteps& steps) const {
    const uint64_t flags = flags_[rule % flags_.size()].load(std::memory_order_relaxed);
    if (flags == 0) return false;
    if ((flags & exact_flag) != 0 && find_exact(rule, key, now, terms)) return true;
    return (flags & ~exact_flag) != 0 && find_pattern(flags, rule, key, now, terms, steps);
  }
  bool find(uint64_t rule, std::string_view key, limit::Time now, Override::Terms& terms) const {
    MatchSteps steps;
    return find(rule, key, now, terms, steps);
  }

  // How often `find` gave those limits. Any thread.
  uint64_t too_costly() const { return too_costly_count_.load(std::memory_order_relaxed); }

 private:
  enum class Kind : uint8_t {
    exact,   // the override of the actor with this key
    prefix,  // that of all keys that begin with the text
    list,    // other patterns, all of whose keys begin with it
  };
  struct Node;
  class Table;
  struct NodeParts;
  struct Change;
  static constexpr size_t prefetched_from = 4096;
  static constexpr uint64_t exact_flag = uint64_t{1} << 63;

  bool find_exact(uint64_t rule, std::string_view key, limit::Time now,
                  Override::Terms& terms) const;
  bool find_pattern(uint64_t flags, uint64_t rule, std::string_view key, limit::Time now,
                    Override::Terms& terms, MatchSteps& steps) const;
  void prefetch(uint64_t rule, std::string_view key, bool nodes) const;
  template <class Look>
  static void each_filed(uint64_t flags, uint64_t rule, std::string_view key, Look&& look);
  void exchange(const Change& change, std::optional<NodeParts> next);
  void free_retired();

  // The kinds of overrides that rules have, by Rule::id modulo the size; rules may share a place.
  // Bit i: there is one of a beginning of that length; behind these: a list of that length;
  // exact_flag: an exact one.
  std::array<std::atomic<uint64_t>, 4096> flags_{};
  std::atomic<size_t> size_{0};
  std::atomic<uint64_t> changes_{0};
  Override::Terms too_costly_;
  mutable std::atomic<uint64_t> too_costly_count_{0};

  mutable std::mutex mutex_;  // held by changes; of all below
  mutable std::vector<const Reader*> readers_;
  const std::unique_ptr<Table> table_;
  // How many nodes set each bit of flags_, by its place.
  std::unordered_map<size_t, std::array<uint32_t, 64>> counts_;
  // With the number of overrides of each.
  std::unordered_map<const request::Space*, size_t> spaces_;
  uint64_t spaces_version_ = 0;
};

}  // namespace sluice::policy
