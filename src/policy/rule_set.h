// The policy of a server, parsed and immutable: rules in order, each with conditions on the entries
// of a request, an actor, limits and a mode. Built once by another thread than the workers, which
// then all read it without a lock. Matching allocates nothing once a Plan has grown to the size of
// its batches.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/arena.h"
#include "limit/limit.h"
#include "policy/dialect.h"
#include "policy/pattern.h"
#include "policy/rule_index.h"
#include "request/charge.h"
#include "request/hold.h"
#include "request/request.h"
#include "request/space.h"

namespace sluice::policy {

class InlineLimits;
class Overrides;
struct Rule;

enum class Mode : uint8_t {
  enforce,  // decides
  shadow,   // is charged and counted, but never refuses or stops (Divvy's canary)
  off,      // has no effect; explain shows it
};

// How the search goes on after an enforced rule that applies.
enum class Then : uint8_t {
  stop,       // not at all: later rules do not apply
  continue_,  // later rules must allow it as well; all that apply settle together
};

// Where the numbers of a rule's limits come from. (The counters of a rule without limits keep those
// of requests: Space::windows.)
enum class LimitsFrom : uint8_t {
  rule,
  numbers,  // requests bring the numbers, for the algorithms of the rule's limits
  request,  // requests bring the limits (Matching::limits_id)
};

// One request while its session plans it (Session::plan): where the session looks, and the charge
// that it decides on, under a rule of its dialect. The charge settles with those of native rules
// or, under a rule in shadow, by itself.
struct Planning {
  std::span<const Rule> rules;  // of its dialect
  const OwnRules& own;          // what these belong to
  base::Arena& texts;           // for texts that live as long as the plan
  MatchSteps steps{};           // native rules use what is left of them
  struct {
    const Rule* rule = nullptr;  // null: none of the dialect's rules applies
    std::string_view key{};      // of the counter; as the next, from `texts` or as the entries
    std::string_view actor{};    // the text by which overrides go
  } charge{};
};

// A request on its way through the rules. The plan keeps views of its entries and limits.
struct Matching {
  std::span<const request::Entry> descriptor{};  // of entries with equal keys the last one counts
  const request::Request& request = request::one_take;  // its entries and limits are those here
  std::span<const limit::Limit> limits{};               // that the request brings
  uint32_t limits_id = 0;  // of limits that replace a rule's: their number (InlineLimits::find)
  // What its session planned, if rules of its dialect are planned so (RuleSet::planned). Null:
  // these are asked as for a request that comes alone (OwnRules::find), on behalf of people.
  Planning* planning = nullptr;
  limit::Time now{};  // for rules and overrides with an end
  // The overrides; null: there are none, or Plan::override_all is called afterwards. The matching
  // thread must be a registered reader.
  const Overrides* overrides = nullptr;
  // The name in the client's certificate; empty: it has shown none. Nothing: certificate_entry is
  // an entry like others.
  std::optional<std::string_view> certificate = std::nullopt;
};

// The entry by which native rules ask for the name in the certificate that the client has shown; it
// is empty without one. What a client itself sends by that name is not seen by them.
inline constexpr std::string_view certificate_entry = "tls.name";

// One pair of a rule's pattern: the entry `key` must fit `pattern`.
struct Condition {
  std::string key;
  Pattern pattern;
};

// Its name, which is also a label of metrics, is unique in its file.
struct Rule : request::RuleWords {
  std::string comment;  // for people: logs, explain
  std::string pattern;  // for people: the conditions as the file spells them, "method=GET ip=*";
                        // "default" if there are none
  std::string file;     // its name as the user gave it
  size_t line = 0;      // where the rule begins, from 1
  std::vector<Condition> conditions;  // all must hold
  // The keys whose values name the counter; none: all requests share one counter. An absent entry
  // counts as an empty value.
  std::vector<std::string> actor;
  Mode mode = Mode::enforce;
  Then then = Then::stop;
  // The answer if the store cannot decide.
  request::OnError on_store_error = request::OnError::error;
  limit::Time until{INT64_MAX};  // the rule applies before this time
  // Metrics count its decisions as those of a shadow rule. True for every shadow rule, and for
  // Divvy's default rule under policy canary, which decides nevertheless.
  bool counted_as_shadow = false;
  // The protocol brings the rule; no file has it.
  bool built_in = false;
  // The limits that count: a take that they refuse is charged to them all the same.
  limit::LimitMask counts = 0;
  request::HoldTerms reserve{};  // of reservations
  // Requests that wait are served in turn by their values of this entry; an absent one counts as
  // empty. Empty: in order of arrival.
  std::string fair_by;
  // The most debt of its limits. Null: none has an overdraft. Limits of an override keep it.
  std::shared_ptr<const limit::Overdrafts> overdrafts;
  // Sessions plan its charges (RuleSet::planned); the set assigns it.
  bool is_planned = false;
  // 1 to limit::slots_max limits of one counter; none if the counters keep the limits of requests.
  std::vector<limit::Limit> limits;
  LimitsFrom limits_from = LimitsFrom::rule;
  uint32_t limits_id = 0;  // request::Spaces::hold_limits(limits)
  uint32_t number = 0;     // index among all rules of its set; the set assigns it
  // Computed by the set from the dialect, the dialect's name for the rule, and the keys of the
  // actor, so that it is the same in every set and process.
  uint64_t id = 0;
  const request::Space* space = nullptr;
  // Keep the space and the list of limits known. A rule in a test may have none.
  request::LimitsRef limits_held;
  request::SpaceRef space_held;

  // The overdraft of limit `i`; nothing: it has none.
  std::optional<int64_t> overdraft_of(size_t i) const {
    if (overdrafts == nullptr || overdrafts->most[i] == limit::Overdrafts::none)
      return std::nullopt;
    return overdrafts->most[i];
  }

  // The unit of limit `i`; empty: it does not say, or is of places.
  std::string_view unit_of(size_t i) const {
    return limits[i].algorithm == limit::Algorithm::concurrency ? std::string_view() : unit;
  }

  // Sets the space and the number of the limits, and keeps both known.
  void intern(request::Spaces& spaces, request::SpaceRef its_space) {
    space_held = std::move(its_space);
    space = space_held.get();
    if (limits.empty()) return;
    limits_held = spaces.hold_limits(limits);
    limits_id = limits_held.id();
  }
};

// Which of the limits that an override puts in place of the rule's count: those in place of a
// limit of the rule that does. That one has the same window or, if none of the rule's has it, is
// any of them, if all count.
limit::LimitMask counts_of(const Rule& rule, std::span<const limit::Limit> limits);

// For explain: why a rule does not apply to a request. The first condition that fails, and the
// request's value of its key.
struct Mismatch {
  const Condition* condition = nullptr;
  std::optional<std::string_view> value;  // empty: the request lacks the key
};

// The charges of a batch of requests: RuleSet::match fills it, a store settles it, and the verdicts
// are read from it. Reused by one worker.
class Plan {
 public:
  // A step: one rule that applies to a request, with its charge and the group that settles it. The
  // enforced rules of a request share a group, and each shadow rule has one of its own.
  struct RuleMatch {
    const Rule* rule;
    uint32_t group, charge;
    uint64_t override_id;    // of the override that replaces the rule's limits; 0: none does
    std::string_view actor;  // the text by which overrides go: the charge's key, or a session's
  };
  // A part of the plan: the steps of one request, shadow rules first. groups_end: the index after
  // the last group that it needs. error: a text for the client, as a rule cannot be evaluated; the
  // steps of shadow rules remain. joint: its enforced rules share their group with those of other
  // parts (match_together); their charges are the order_count numbers in joint_order_ from
  // order_first.
  struct RequestPlan {
    uint32_t step_first = 0, step_count = 0, groups_end = 0;
    uint32_t order_first = 0, order_count = 0;
    uint32_t view_first = 0, view_count = 0;  // of a joint part: those of its group
    bool enforced = false;                    // its last group is that of the enforced rules
    bool joint = false;
    std::string_view error{};
  };

  void clear();
  // Memory for texts that live until `clear`.
  base::Arena& texts() { return keys_; }
  // Adds a part for a request that concerns no rule.
  void skip();
  // The same, with the reason why the request cannot be decided: a literal.
  void refuse(std::string_view why) {
    skip();
    parts_.back().error = why;
  }
  // Adds a part with a single counter of a rule, in a group that may fail; there is no descriptor.
  // `key` and `actor`, the text by which overrides go, must live as long as the part. The caller
  // may change the charge until it adds the next one.
  request::Charge& ask(const Rule& rule, std::string_view key, std::string_view actor,
                       const Matching& asked);
  // Does a group that may wait settle the last part? `let_wait` makes it wait.
  bool may_wait() const {
    const RequestPlan& part = parts_.back();
    return part.error.empty() && part.enforced && !part.joint;
  }
  void let_wait(request::Ticket ticket, uint64_t arrival);
  // Sets the time before which the groups of the parts from `part` on must be answered.
  void answer_by(size_t part, base::Time time);
  // Gives the charges of the last part their id (request::Group::id).
  void charge_id(size_t part, const request::ChargeId* id) {
    const uint32_t first = part == 0 ? 0 : parts_[part - 1].groups_end;
    for (request::Group& group : std::span(groups_).subspan(first)) group.id = id;
  }
  // Applies the overrides to all steps that were matched without them: for many requests that is
  // cheaper than one by one. Must be called before anything is settled.
  void override_all(const Overrides& overrides, limit::Time now) {
    override_from(0, overrides, now);
  }
  std::span<const RequestPlan> parts() const { return parts_; }
  std::span<const RuleMatch> steps(const RequestPlan& part) const {
    return std::span(steps_).subspan(part.step_first, part.step_count);
  }
  request::Batch batch() { return {groups_, charges_, decisions_}; }
  // Those of all charges: of one from its decision_first on.
  const limit::Decision* all_decisions() const { return decisions_.data(); }
  const request::Group& group(const RuleMatch& step) const { return groups_[step.group]; }
  const request::Charge& charge(const RuleMatch& step) const { return charges_[step.charge]; }
  // The charges of the enforced rules of a joint part.
  request::ChargeList joint_charges(const RequestPlan& part) const {
    return {charges_.data(), std::span(joint_order_).subspan(part.order_first, part.order_count)};
  }
  // The decisions of a step's charge, in the order of its limits or windows.
  std::span<const limit::Decision> decisions(const RuleMatch& step) const;
  // To be called before the charges of a joint part are read: the store has settled them.
  void settled(const RequestPlan& part) {
    if (part.view_count > 0) copy_views(part);
  }

 private:
  friend class RuleSet;
  void open_group(bool may_fail);
  void add_step(const Rule& rule, std::string_view key, std::string_view actor,
                const Matching& asked);
  void add_charge(const Rule& rule, std::string_view key, const Matching& asked);
  void set_fair_value(const Rule& rule, const Matching& asked);
  void drop_last_group();
  std::string_view add_joint_charge(const Rule& rule, std::string_view key, const Matching& asked,
                                    uint32_t& charge, uint32_t& view);
  std::string_view join_list(uint32_t charge, const Matching& asked, uint32_t& view);
  bool close_lists(size_t first_view, size_t first_step, InlineLimits* lists);
  struct View;
  void sort_list(uint32_t charge, std::span<View> views);
  void copy_views(const RequestPlan& part);
  uint32_t joined_charge(const RequestPlan& part, uint32_t charge) const;
  bool follows(const request::Charge& other, const Rule& rule, const Matching& asked) const;
  static size_t room_of(const request::Charge& charge);
  void override_from(size_t step, const Overrides& overrides, limit::Time now);
  void show_overridden();

  std::vector<RequestPlan> parts_;
  std::vector<RuleMatch> steps_;
  std::vector<request::Group> groups_;
  std::vector<request::Charge> charges_;  // those of the groups, and views_
  std::vector<limit::Decision> decisions_;
  base::Arena keys_;  // the texts of actors with several values
  struct Enforced {
    const Rule* rule;
    std::string_view key, actor;
  };
  std::vector<Enforced> enforced_;  // the enforced rules of the requests that are being matched
  // The entries of the request that is being matched, with certificate_entry as native rules see
  // it.
  std::span<const request::Entry> certified(const Matching& asked) {
    certified_.clear();
    for (const request::Entry& entry : asked.descriptor)
      if (entry.key != certificate_entry) certified_.push_back(entry);
    certified_.push_back({certificate_entry, *asked.certificate});
    return certified_;
  }
  std::vector<request::Entry> certified_;
  static constexpr uint32_t no_view = UINT32_MAX;
  struct JointStep {
    RuleMatch step;
    size_t part;              // index among these requests
    uint32_t view = no_view;  // index in views_: its charge is that one's
  };
  // The limits of all requests that brought different lists for one counter, and the units for
  // each: what a joined charge points to.
  struct JoinedList {
    std::array<limit::Limit, limit::slots_max> limits;
    std::array<int64_t, limit::slots_max> costs;
    limit::Overdrafts overdrafts;
    size_t count;
  };
  // One of those lists. Those who brought it see a charge with its limits alone, which is in no
  // group; its decisions are copied from the joined one, limit i from limit at[i].
  struct View {
    uint32_t joined = 0, charge = 0;  // indexes of charges
    size_t list = 0;                  // index in lists_
    request::Charge its{};
    std::array<uint8_t, limit::slots_max> at{};
  };
  std::vector<View> views_;
  std::vector<std::unique_ptr<JoinedList>> lists_;  // kept for later batches
  size_t list_count_ = 0;
  std::vector<JointStep> joint_;  // of the requests that are being matched together
  std::vector<uint32_t> joint_order_;
};

// The rules, by dialect. The rules of a dialect apply only to requests of its protocol, native
// rules to all requests.
class RuleSet {
 public:
  // The rules of one dialect, in order, with an index.
  class DialectRules {
   public:
    explicit DialectRules(const Dialect& its_dialect) : dialect_(&its_dialect) {}
    DialectRules(DialectRules&&) = default;
    DialectRules& operator=(DialectRules&&) = default;
    ~DialectRules();  // frees rule by rule, because there may be many

    const Dialect& dialect() const { return *dialect_; }
    std::span<const Rule> rules() const { return rules_; }
    // Null: the rules are searched in their order.
    const OwnRules* own() const { return own_.get(); }
    // The number of rules that people wrote (Dialect::written).
    size_t written() const { return dialect_->written ? rules_.size() - built_in_ : 0; }

   private:
    friend class RuleSet;
    void add(Rule rule);
    // Calls `visit(rule)`, in order, for the rules that may apply, until it returns false; then
    // returns false as well.
    template <class Visit>
    bool candidates(std::span<const request::Entry> descriptor, Visit&& visit) const;

    const Dialect* dialect_;
    std::vector<Rule> rules_;
    RuleIndex index_;
    std::unique_ptr<const OwnRules> own_;
    size_t built_in_ = 0;
  };

  // `dialects` in the order of `lists`.
  explicit RuleSet(std::span<const Dialect* const> dialects = {});

  // Adds a rule at the end of the dialect's; a new dialect comes after the others. Only while the
  // set is built, before another thread uses it.
  void add(const Dialect& dialect, Rule rule);

  // The dialect's rules, which are here, are not searched: its sessions plan their charges. They
  // must have no conditions and must not be off. Only while the set is built.
  void set_own_rules(const Dialect& dialect, std::unique_ptr<const OwnRules> own);

  // The native list is the first. Everything that lists rules has this order.
  std::span<const DialectRules> lists() const { return lists_; }
  // The dialect's rules; none for null or a dialect without a list here.
  std::span<const Rule> rules(const Dialect* dialect) const;
  // The dialect's rules, if its sessions plan their charges; null: they are searched in their
  // order.
  const DialectRules* planned(const Dialect* dialect) const {
    if (!has_own_) [[likely]]
      return nullptr;
    const DialectRules* const list = find(dialect);
    return list == nullptr || list->own() == nullptr ? nullptr : list;
  }
  // What set_own_rules set for the dialect; null: nothing.
  const OwnRules* own_rules(const Dialect* dialect) const {
    const DialectRules* const list = planned(dialect);
    return list == nullptr ? nullptr : list->own();
  }
  std::span<const Rule> native_rules() const { return lists_.front().rules(); }
  // RuleWords::unit of the native rule with this name.
  std::string_view unit_named(std::string_view name) const {
    const auto at = units_.find(name);
    return at == units_.end() ? std::string_view() : std::string_view(at->second);
  }
  // Does a native rule ask for the name in the client's certificate?
  bool asks_certificate() const { return asks_certificate_; }
  size_t size() const { return size_; }
  // The number of all rules that people wrote (Dialect::written).
  size_t written() const;

  // Appends a part to `plan`: the rules in the request's scope that apply, native ones first, then
  // those of its protocol's dialect (null: it has none), up to and including the first enforced
  // rule that stops. A rule that a session planned applies in any case, even after a native one
  // that stops. Keys of charges are views into the descriptor or into the plan. If matching takes
  // too many steps (MatchSteps), the part gets an error, because a rule that was not reached might
  // limit the request.
  void match(const Dialect* dialect, const Matching& asked, Plan& plan) const;
  // The same for several requests of one verb, with a part for each. The enforced rules of all of
  // them settle in one group, all or nothing; the costs of several requests to one counter are
  // added to one charge. Each part's `groups_end` is after that group. If one request cannot be
  // evaluated, none is charged, and all get its error. None of them may wait. Lists of limits that
  // differ and come for one counter are joined: each request is charged to the limits that it
  // brought. `lists` numbers the joined ones; null: they are refused.
  void match_together(const Dialect* dialect, std::span<const Matching> requests, Plan& plan,
                      InlineLimits* lists = nullptr) const;

  // How often regular expressions of the rules gave up on a value (Regex::given_up).
  uint64_t regexes_given_up() const;
  // The number of requests that took more than base::bounds::match_steps_max steps to match.
  uint64_t too_costly() const { return too_costly_->load(std::memory_order_relaxed); }

  // The first enforced rule of the dialect that applies to such a request and stops; null: there is
  // none. Native rules do not count. `error` as in Plan::RequestPlan.
  const Rule* decider(const Dialect* dialect, std::span<const request::Entry> descriptor,
                      std::string_view& error) const;

 private:
  // The most rules of a list without an index: a search of so few is faster than a lookup.
  static constexpr size_t unindexed_max = 6;

  // There are few lists. The native list is compared last, because requests find it in another way.
  const DialectRules* find(const Dialect* dialect) const {
    for (auto list = lists_.begin() + 1; list != lists_.end(); ++list)
      if (list->dialect_ == dialect) return &*list;
    return dialect == &native_dialect ? &lists_.front() : nullptr;
  }
  void match_for_people(const DialectRules& list, const Matching& asked, Plan& plan) const;
  template <class Shadow>
  void find_rules(const Dialect* dialect, const Matching& asked, Plan& plan, Shadow&& shadow) const;

  std::vector<DialectRules> lists_;
  std::vector<Pattern> regexes_;                           // the regular expressions of all rules
  std::map<std::string, std::string, std::less<>> units_;  // of native rules, by their names
  uint32_t size_ = 0;
  bool has_own_ = false, asks_certificate_ = false;
  std::unique_ptr<std::atomic<uint64_t>> too_costly_ = std::make_unique<std::atomic<uint64_t>>();
};

// Rule::id of the rule with that name in the dialect with that name.
uint64_t rule_id(std::string_view dialect, std::string_view name,
                 std::span<const std::string> actor);

// The first condition that fails; empty: the rule applies. `error` as in Plan::RequestPlan.
std::optional<Mismatch> mismatch(const Rule& rule, std::span<const request::Entry> descriptor,
                                 std::string_view& error);

}  // namespace sluice::policy
