// All overrides of a server, with what people know of them: set over the admin port, kept in the
// store where it keeps texts, and shared with the other servers that use it. A change is written
// there first, then live: the table in it is what workers look at, without a lock. Writers block on
// the store; readers never block. Owned by the server; any thread but a worker's.
//
// An override that replaces only some limits of its rule is merged with the others when it is set,
// and again by the housekeeping when the live policy has changed: a decision looks at the merged
// list alone. Where the rule no longer has the limit that an override replaces, the merged list
// stays as it was and replaces all. What is kept is the merged list, so that other servers and
// later ones know which was the last; it is written again after such a change.
#pragma once

#include <spdlog/logger.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "base/bounds.h"
#include "base/clock.h"
#include "base/time.h"
#include "live/change_log.h"
#include "live/live_policy.h"
#include "live/override_text.h"
#include "metrics/page.h"
#include "policy/overrides.h"
#include "request/space.h"
#include "store/metadata_store.h"
#include "wire/json.h"

namespace sluice::live {

class OverrideRegistry final : public metrics::Source {
 public:
  // All of it outlives this. metadata: null: overrides are forgotten at exit. `changed` is called,
  // on any thread, after each change of the table; it must not block.
  struct Deps {
    request::Spaces& spaces;
    const Live& live;
    base::Clock& clock;
    store::MetadataStore* metadata = nullptr;
    std::function<void()> changed = [] {};
    std::shared_ptr<spdlog::logger> log = {};
    size_t limits_max = base::bounds::override_limits_max;
    ChangeLog* changes = nullptr;  // receives each change; null: none does
  };
  explicit OverrideRegistry(Deps deps);
  ~OverrideRegistry() override;
  OverrideRegistry(const OverrideRegistry&) = delete;
  OverrideRegistry& operator=(const OverrideRegistry&) = delete;

  // What is kept becomes live, and what other servers write from now on. What is not understood is
  // reported and left as it is. Once, before the server serves; a text: what could not be read.
  std::optional<std::string> load();

  // From here on `changed` is not called for others any more. Any number of times.
  void end();

  // What workers look up in.
  const policy::Overrides& table() const { return table_; }
  bool is_persisted() const { return deps_.metadata != nullptr; }

  // Sets all of them or none; they are settled, and `created` is set, here. `fresh`: which of them
  // are new, not in another one's place.
  // `by`: as Change::by.
  OverrideProblem set(std::vector<OverrideRequest>& all, std::vector<bool>& fresh,
                      const std::string& by = {});
  // 404: there is none; else as it was.
  OverrideProblem remove(uint64_t id, StoredOverride& was, const std::string& by = {});
  std::optional<StoredOverride> find(uint64_t id) const;

  // Those that `wanted` says yes to, by rising id from behind `after` on (0: from the first), at
  // most `max`; and how many there are in all.
  struct Page {
    std::vector<StoredOverride> items;
    size_t total = 0;
    bool more = false;
  };
  Page list(uint64_t after, size_t max,
            const std::function<bool(const StoredOverride&)>& wanted) const;

  // Has the live policy a rule of that number?
  bool applies(const NamedRule& rule) const;
  request::Spaces& spaces() const { return deps_.spaces; }
  base::Time now() const { return deps_.clock.now(); }

  // Servers that share a metadata store may have clocks that differ by so much: no override is
  // forgotten before it has ended for all.
  static constexpr base::Duration clocks_differ = base::seconds(60);
  // Merges with the live policy, ends those whose time has passed and forgets them, some at a time;
  // one thread, now and then.
  void housekeep();

  void collect(metrics::Page& page) const override;

 private:
  bool put(StoredOverride one);
  bool erase(uint64_t id);
  OverrideProblem check_room(const std::vector<OverrideRequest>& all) const;
  void unlist(base::Time until, uint64_t id);
  bool end_some(base::Time now);
  void forget_some(base::Time now);
  bool follow(StoredOverride& one) const;
  bool follow_some();
  void write_some(base::Time now);
  store::MetadataStore::WriteResult persist(
      std::span<const store::MetadataStore::Change> changes) const;
  std::string text_of(const StoredOverride& one) const;
  Change change_of(const char* what, const std::string& by, const StoredOverride& one) const;
  wire::Json terms_of(const StoredOverride& one) const;
  void log_other(Change change, const std::optional<StoredOverride>& before,
                 const StoredOverride* after) const;
  void log_expired(const std::vector<StoredOverride>& some, size_t count);
  const std::unordered_map<uint64_t, uint32_t>& live_rules(const LivePolicy& policy) const;
  void take(std::span<const store::MetadataStore::Change> changes);
  bool take_one(const store::MetadataStore::Change& change, bool told);

  // What a metadata store calls, which outlives the registry. Every change is made with its `order`
  // held.
  struct Watching final : store::MetadataStore::Watcher {
    explicit Watching(OverrideRegistry* its) : registry(its) {}
    void changed(std::span<const store::MetadataStore::Change> changes) override {
      if (registry != nullptr) registry->take(changes);
    }
    OverrideRegistry* registry;  // null: it is gone
  };

  const Deps deps_;
  const std::shared_ptr<Watching> watching_;
  policy::Overrides table_;
  // Of all below, for moments; a change needs watching_->order as well.
  mutable std::mutex mutex_;
  std::map<uint64_t, StoredOverride> all_;
  // By their `until`: those that end, and those that have ended, which the table has no more.
  std::set<std::pair<int64_t, uint64_t>> ends_, ended_;
  struct Ruled {
    std::shared_ptr<const NamedRule> rule;
    size_t overrides = 0;
  };
  std::unordered_map<uint64_t, Ruled> rules_;
  size_t merged_ = 0;  // overrides that replace only some limits of their rules
  std::unordered_set<uint64_t> unwritten_;  // whose kept text has not the limits that hold
  std::atomic<bool> is_loaded_{false};      // what is kept is read: from here on all is a change
  uint64_t followed_ = 0;                   // generation that all are merged with, or are being
  std::optional<uint64_t> follow_after_;    // while they are: the last id that is
  // After a metadata store failed; housekeeping's.
  int64_t forget_again_us_ = 0, write_again_us_ = 0;
  mutable uint64_t live_generation_ = 0;
  // Of that generation: the limits' number of a rule whose overrides are merged, 0 of another.
  mutable std::unordered_map<uint64_t, uint32_t> live_rules_;
};

}  // namespace sluice::live
