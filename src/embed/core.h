// What is behind a limiter: the table of counters, the rules and overrides in force, and what
// waits. Throws where the rooms below do (no memory, a failed check); the public functions make
// errors of that. Any thread.
//
// Locks, in the order in which they are taken: change_, then that of Waits, then the gate, then
// those of reservations, then those of the store. `keep_house_` is taken before the gate, and never
// with the first two.
#pragma once

#include <sluice/limiter.h>

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/bounds.h"
#include "base/clock.h"
#include "base/result.h"
#include "embed/decisions.h"
#include "embed/gate.h"
#include "embed/scratch.h"
#include "limit/limit.h"
#include "policy/overrides.h"
#include "policy/rule_set.h"
#include "request/charge.h"
#include "request/request.h"
#include "request/space.h"
#include "store/embedded_store.h"

namespace sluice::detail {

// What a handle names: the space of its counters and the limits that hold there. Those of limits in
// code never change; those of a rule are exchanged by a reload, with the gate closed. Shared by its
// handles, counted.

class terms {
 public:
  // Where decisions are made by.
  struct Now {
    const request::Space* space = nullptr;  // null: the rule is gone
    std::span<const limit::Limit> limits{};
    uint32_t limits_id = 0;
    const policy::Rule* rule = nullptr;                     // null: of limits in code
    std::shared_ptr<const limit::Overdrafts> overdrafts{};  // null: no limit has one
    request::SpaceRef space_held{};
    request::LimitsRef limits_held{};
  };

  // The spaces live as long as anything that names them.
  terms(std::shared_ptr<request::Spaces> spaces, std::string name, bool is_rule)
      : spaces_(std::move(spaces)), name_(std::move(name)), is_rule_(is_rule) {}

  bool is_of(const std::shared_ptr<request::Spaces>& spaces) const { return spaces_ == spaces; }
  bool is_rule() const { return is_rule_; }
  const std::string& name() const { return name_; }

  void hold() { refs_.fetch_add(1, std::memory_order_relaxed); }
  void drop() {
    if (refs_.fetch_sub(1, std::memory_order_acq_rel) == 1) delete this;
  }
  // Is there no handle but one?
  bool is_last() const { return refs_.load(std::memory_order_acquire) == 1; }

 private:
  const std::shared_ptr<request::Spaces> spaces_;
  const std::string name_;
  const bool is_rule_;
  std::atomic<uint32_t> refs_{1};

 public:
  Now now;  // goes before `spaces_`
};

class reservations;
class waits;

class core {
 public:
  // A policy in force: its rules, and each by its name.
  struct Policy {
    policy::RuleSet rules;
    std::unordered_map<std::string, const policy::Rule*> by_name;
  };

  explicit core(options how);
  ~core();
  core(const core&) = delete;
  core& operator=(const core&) = delete;

  // Begins what options::sweep_thread asks for.
  void start() {
    if (how_.sweep_thread) start_sweeping();
  }
  void start_sweeping();

  time_point now();

  // By a handle.
  decision decide(const handle& by, std::string_view key, int64_t cost, request::Verb verb,
                  time_point now);
  // A take, a wait that is decided now, or a charge of all of them.
  decision settle_all(view<charge> charges, request::Verb verb, time_point now, decision* each);
  void take_many(view<charge> charges, decision* each, time_point now) noexcept;
  // By the policy.
  decision decide(view<entry> descriptor, int64_t cost, request::Verb verb, time_point now);

  result<handle> find(std::string_view rule);
  result<handle> limits(std::string_view name, view<limit_spec> all);
  result<policy_report> reload(std::string_view text, std::string_view name, time_point now);
  result<void> set_override(const override_spec& one, time_point now);
  result<void> remove_override(std::string_view rule, const std::vector<std::string>& actor,
                               time_point now);
  std::vector<override_spec> overrides(time_point now);

  void sweep(std::size_t steps, time_point now);
  limiter_stats stats() const;
  // Throws nothing that a callback throws.
  due run_due(time_point now);
  detail::waits& waits() { return *waits_; }
  // Null: there are none.
  detail::reservations* reservations() { return reservations_.get(); }
  // They are kept by that store, which settles in this one and outlives all calls. Those of the
  // last start go on, also where options::holds_max is 0. Returns how many could not be read.
  // Before any other call.
  base::Result<size_t> keep_holds(store::Store& store);
  // Ends reservations that are due, so that the decisions that follow see their units. Not inside
  // the gate.
  void end_holds(base::Time now);
  // When it has to be called next.
  time_point next_hold_end() const;

  // For Waits and reservations.

  // The rules of the policy that a descriptor meets. The gate is entered as long as it lives.
  class Matched {
   public:
    Matched(core& its, view<entry> descriptor, int64_t cost, request::Verb verb, time_point now);
    errc why() const { return why_; }  // not ok: there is no plan
    policy::Plan& plan() const { return (*scratch_)->plan; }

   private:
    alignas(request::Entry)
        std::byte room_[base::bounds::descriptor_entries_max * sizeof(request::Entry)];
    std::optional<embed::Gate::Inside> inside_;
    std::optional<embed::Scratches::Taken> scratch_;
    errc why_ = errc::invalid_argument;
  };

  // The charges of a list, those of one counter in one sum. With the gate entered.
  errc plan(view<charge> charges, request::Verb verb, base::Time now, embed::Charges& together);
  // With the gate entered.
  const std::shared_ptr<const Policy>& policy() const { return policy_; }
  const policy::Overrides* overrides_table() const {
    return overrides_.size() > 0 ? &overrides_ : nullptr;
  }
  store::EmbeddedStore& store() { return *store_; }
  request::Spaces& spaces() { return *spaces_; }
  embed::Gate& gate() { return gate_; }
  embed::Scratches& scratches() { return scratches_; }
  const options& how() const { return how_; }

  // Of a handle of this limiter.
  bool owns(const handle& by) const { return by.terms_ != nullptr && by.terms_->is_of(spaces_); }
  static bool is_rule(const handle& by) { return by.terms_->is_rule(); }
  static const std::string& name_of(const handle& by) { return by.terms_->name(); }
  // With the gate entered. Null: it is of limits in code, or the rule is gone.
  static const policy::Rule* rule_of(const handle& by) { return by.terms_->now.rule; }

 private:
  // An override that is set; guarded by change_.
  struct Override {
    override_spec as_set;
    std::vector<std::string> actor;  // policy::ActorValue::name of each value
    uint64_t rule = 0;
    request::LimitsRef limits;
  };
  using OverrideKey = std::pair<std::string, std::string>;  // rule, actor

  bool terms_of(const handle& by, std::string_view key, request::Verb verb, base::Time now,
                request::Charge& charge);
  decision decide_rule(const handle& by, std::string_view key, int64_t cost, request::Verb verb,
                       base::Time now);
  decision settle_one(request::Charge& charge, base::Time now);
  void take_batch(view<charge> charges, decision* each, base::Time now);
  void put_in_force(const policy::Rule* rule, terms& its);
  request::LimitsRef hold_limits(std::span<const limit::Limit> limits);
  void end_overrides(time_point now);
  void collect();
  void mark_all(request::Marks& marks);
  void keep_house();

  const options how_;
  base::Clock clock_;
  const std::shared_ptr<request::Spaces> spaces_;
  std::unique_ptr<store::EmbeddedStore> store_;
  embed::Gate gate_;
  embed::Scratches scratches_;

  std::mutex change_;  // of who changes rules and overrides
  std::shared_ptr<const Policy> policy_;
  std::map<std::string, handle, std::less<>> rules_;  // that have a handle; guarded by change_
  policy::Overrides overrides_;
  std::map<OverrideKey, Override> overrides_set_;  // guarded by change_
  std::set<time_point> override_ends_;             // guarded by change_
  uint64_t last_override_ = 0;                     // guarded by change_

  std::unique_ptr<detail::waits> waits_;
  std::unique_ptr<detail::reservations> reservations_;  // goes before the store and the spaces

  std::mutex keep_house_;
  struct Thread {
    std::mutex mutex;
    std::condition_variable ends;
    bool ending = false;
    std::thread thread;
  };
  std::unique_ptr<Thread> thread_;
  int process_ = 0;  // whose the thread is
};

// Limits that hold in a counter, or why not.
result<std::vector<limit::Limit>> limits_of(view<limit_spec> all);

}  // namespace sluice::detail
