// The whole policy of a server, parsed and immutable: rules in order, each a pattern over the
// entries of a request, an actor, limits and a mode. Built once off the workers, then read by all
// of them at once without a lock. Matching allocates nothing once a Plan has grown to the size of
// its batches.
#pragma once

#include <atomic>
#include <cstdint>
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
#include "policy/finder.h"
#include "policy/pattern.h"
#include "policy/rule_index.h"
#include "request/charge.h"
#include "request/space.h"

namespace sluice::policy {

class Overrides;

enum class Mode : uint8_t {
  enforce,  // decides about the request
  shadow,   // is charged and counted, then the search goes on (Divvy's canary)
  off,      // as if it were not there; explain shows it
};

// What follows an enforced rule that applies.
enum class Then : uint8_t {
  stop,       // the request is decided
  continue_,  // later rules must allow it too; all that apply settle together, all or nothing
};

// Where the numbers of a rule's limits come from. (A rule without limits keeps those of requests in
// its counters: Space::windows.)
enum class LimitsFrom : uint8_t {
  rule,
  numbers,  // a request brings the numbers along, for the algorithms of the rule's limits
  request,  // it brings limits along whole, and their space (Asked::inline_space)
};

// A request as rules see it.
struct Asked {
  std::span<const request::Entry> descriptor;  // a key may stand twice: the last one counts
  request::Verb verb = request::Verb::take;    // none: no rule is asked
  bool all = false;                            // as in request::Charge, as are the next three
  bool reset_first = false;
  bool as_written = false;
  bool strict = false;  // as in request::Request
  request::RuleScope scope = request::RuleScope::all;
  bool needs_store = false;  // as in request::Request, as are the next two
  bool sparing = false;
  bool needs_rule = false;
  int64_t cost = 1;
  std::span<const limit::Limit> limits{};  // that the request brings along
  // Of limits that hold in place of a rule's: their counters' space, and their number.
  const request::Space* inline_space = nullptr;
  uint32_t inline_limits_id = 0;
  // The descriptors of all requests that one message of the client makes, this one's among them,
  // for finders; empty where there is one.
  std::span<const std::span<const request::Entry>> siblings{};
  uint64_t message = 0;  // which message it is, of those of this thread; 0: there are no siblings
  limit::Time now{};     // for rules and overrides that end at a time
  // What stands in place of rules' limits; null: nothing does, or Plan::override_all follows. The
  // matching thread is one of its readers.
  const Overrides* overrides = nullptr;
};

// One pair of a rule's pattern: the entry `key` must fit `pattern`.
struct Condition {
  std::string key;
  Pattern pattern;
};

// More than twenty members: what people wrote of it, what it matches, what it charges.
struct Rule {
  std::string name;     // label of metrics; unique in its file; may be empty
  std::string comment;  // for people: logs, explain
  std::string pattern;  // the conditions as the file spells them, for people: "method=GET ip=*";
                        // "default" when empty
  std::string file;     // as the user named it
  size_t line = 0;      // where the rule begins, from 1
  std::vector<Condition> conditions;  // all must hold
  // The entries whose values partition the limits; none: one counter for all. An absent one counts
  // as empty.
  std::vector<std::string> actor;
  Mode mode = Mode::enforce;
  Then then = Then::stop;
  // What is answered where the store cannot decide.
  request::OnError on_store_error = request::OnError::error;
  limit::Time until{INT64_MAX};  // it applies before that time
  // Metrics count its decisions as a shadow rule's: every shadow rule, and Divvy's default rule
  // with policy canary, which decides all the same.
  bool counted_as_shadow = false;
  // It comes with the protocol, beside those that people wrote.
  bool built_in = false;
  // What a take is of its counter: take, or count, which charges what it refuses too.
  request::Verb taken_by = request::Verb::take;
  // The protocol's own, for the verdicts of its requests (request::Verdict::own); null: nothing.
  // Lives as long as the rule set.
  const request::RuleData* data = nullptr;
  // 1 to limit::slots_max, on one counter; none where the space keeps the limits of requests.
  std::vector<limit::Limit> limits;
  LimitsFrom limits_from = LimitsFrom::rule;
  uint32_t limits_id = 0;  // request::Spaces::hold_limits(limits)
  uint32_t number = 0;     // among all rules of its set, set by it
  // The same in every set and process for rules of one dialect, its name for them and actor; set
  // by the set.
  uint64_t id = 0;
  const request::Space* space = nullptr;
  // What keeps these known; a rule in a test may do without.
  request::LimitsRef limits_held;
  request::SpaceRef space_held;

  // Gives it its space and the number of its limits, and keeps both known.
  void intern(request::Spaces& spaces, request::SpaceRef its_space) {
    space_held = std::move(its_space);
    space = space_held.get();
    if (limits.empty()) return;
    limits_held = spaces.hold_limits(limits);
    limits_id = limits_held.id();
  }
};

// Why a rule does not apply to a request, for explain: the first condition that fails, and what the
// request has there.
struct Mismatch {
  const Condition* condition = nullptr;
  std::optional<std::string_view> value;  // nothing: the request lacks the key
};

// What a batch of requests is charged: filled by RuleSet::match, settled by a store, read back for
// the verdicts. Kept and reused by one worker.
class Plan {
 public:
  // One matched rule of a request with its charge and the group that settles it. Enforced rules of
  // a request share one group, each shadow rule has its own.
  struct RuleMatch {
    const Rule* rule;
    uint32_t group, charge;
    uint64_t override_id;    // of what stands in place of the rule's limits; 0: nothing does
    std::string_view actor;  // what overrides go by: the charge's key, or what a finder says
  };
  // The steps of one request, shadow rules first. groups_end: behind the last group it needs.
  // error: a rule of it cannot be evaluated (text for the client); its shadow steps stand.
  // joint: its enforced rules share their group with those of other parts (match_together), and
  // their charges are those of the order_count numbers from order_first on in joint_order_.
  struct RequestPlan {
    uint32_t step_first = 0, step_count = 0, groups_end = 0;
    uint32_t order_first = 0, order_count = 0;
    bool enforced = false;  // its last group is of enforced rules
    bool joint = false;
    std::string_view error{};
  };

  void clear();
  // One more part, of a request that is not asked about.
  void skip();
  // The same, and why it cannot be decided: a literal.
  void refuse(std::string_view why) {
    skip();
    parts_.back().error = why;
  }
  // One more part: a counter of a rule's by itself, in a group that may fail; no descriptor is
  // looked at. `key` and `actor` live as long as the part. The charge may be changed until the next
  // one is added. `actor` is that of overrides.
  request::Charge& ask(const Rule& rule, std::string_view key, std::string_view actor,
                       const Asked& asked);
  // Of the last part: is it settled by a group that may wait, and let it.
  bool may_wait() const {
    const RequestPlan& part = parts_.back();
    return part.error.empty() && part.enforced && !part.joint;
  }
  void let_wait(request::Ticket ticket, uint64_t arrival);
  // Of the parts from `part` on: their groups must be answered before that time.
  void answer_by(size_t part, base::Time time);
  // Puts the terms of overrides in place of the rules' for all that was matched without: for many
  // requests at once that is cheaper than one by one. Before any of it is settled.
  void override_all(const Overrides& overrides, limit::Time now) {
    override_from(0, overrides, now);
  }
  std::span<const RequestPlan> parts() const { return parts_; }
  std::span<const RuleMatch> steps(const RequestPlan& part) const {
    return std::span(steps_).subspan(part.step_first, part.step_count);
  }
  request::Batch batch() { return {groups_, charges_, decisions_}; }
  const request::Group& group(const RuleMatch& step) const { return groups_[step.group]; }
  const request::Charge& charge(const RuleMatch& step) const { return charges_[step.charge]; }
  // Of the enforced rules of a joint part.
  request::ChargeList joint_charges(const RequestPlan& part) const {
    return {charges_.data(), std::span(joint_order_).subspan(part.order_first, part.order_count)};
  }
  // The decisions of a step's charge, limit after limit or window after window.
  std::span<const limit::Decision> decisions(const RuleMatch& step) const;

 private:
  friend class RuleSet;
  void open_group(bool may_fail);
  void add_step(const Rule& rule, std::string_view key, std::string_view actor, const Asked& asked);
  void add_charge(const Rule& rule, std::string_view key, const Asked& asked);
  void drop_last_group();
  bool add_joint_charge(const Rule& rule, std::string_view key, const Asked& asked,
                        uint32_t& charge);
  bool follows(const request::Charge& other, const Rule& rule, const Asked& asked) const;
  static size_t room_of(const request::Charge& charge);
  void override_from(size_t step, const Overrides& overrides, limit::Time now);

  std::vector<RequestPlan> parts_;
  std::vector<RuleMatch> steps_;
  std::vector<request::Group> groups_;
  std::vector<request::Charge> charges_;
  std::vector<limit::Decision> decisions_;
  base::Arena keys_;  // joined actors
  struct Enforced {
    const Rule* rule;
    std::string_view key, actor;
  };
  std::vector<Enforced> enforced_;  // of the requests that are being matched
  struct JointStep {
    RuleMatch step;
    size_t part;  // of these requests
  };
  std::vector<JointStep> joint_;  // of requests that are being matched together
  std::vector<uint32_t> joint_order_;
};

// Rules by their dialects. A dialect's rules see only requests of its own protocol, native rules
// see all.
class RuleSet {
 public:
  // The rules of one dialect, in order, with an index.
  class List {
   public:
    explicit List(const Dialect& its_dialect) : dialect_(&its_dialect) {}
    List(List&&) = default;
    List& operator=(List&&) = default;
    ~List();  // rule by rule: there may be many

    const Dialect& dialect() const { return *dialect_; }
    std::span<const Rule> rules() const { return rules_; }
    // Null: they are searched in their order.
    const Finder* finder() const { return finder_.get(); }
    // Of all that people wrote (Dialect::written).
    size_t written() const { return dialect_->written ? rules_.size() - built_in_ : 0; }

   private:
    friend class RuleSet;
    void add(Rule rule);
    // Calls `visit(rule)` in order for the rules that may apply, until it returns false. False: it
    // did.
    template <class Visit>
    bool candidates(std::span<const request::Entry> descriptor, Visit&& visit) const;

    const Dialect* dialect_;
    std::vector<Rule> rules_;
    RuleIndex index_;
    std::unique_ptr<const Finder> finder_;
    size_t built_in_ = 0;
  };

  // `dialects`: in the order in which `lists` has them.
  explicit RuleSet(std::span<const Dialect* const> dialects = {});

  // Adds at the end of the dialect's rules; a dialect that is new goes behind the others. Only
  // while building, before any other thread sees the set.
  void add(const Dialect& dialect, Rule rule);

  // Of a dialect that has rules here. Its rules must have no conditions and not be off. While
  // building, as `add`.
  void set_finder(const Dialect& dialect, std::unique_ptr<const Finder> finder);

  // The native list first; all of them in this order wherever rules are listed.
  std::span<const List> lists() const { return lists_; }
  // Of a dialect that is not here, and of null: none.
  std::span<const Rule> rules(const Dialect* dialect) const;
  // The structure of the protocol's own by which that dialect's rules are found; null: none.
  const Finder* finder(const Dialect* dialect) const;
  std::span<const Rule> native_rules() const { return lists_.front().rules(); }
  size_t size() const { return size_; }
  // Of all that people wrote (Dialect::written).
  size_t written() const;

  // Appends one RequestPlan to `plan`: the rules that the request meets, native ones first, then
  // those of its protocol's dialect (null: it has none), up to and with the first enforced one that
  // stops; of these the ones in its scope. The rule that a finder finds applies besides, also
  // behind a native one that stops. Keys of charges are views into the descriptor or into the plan.
  // One that takes too many steps (MatchSteps) cannot be evaluated, as it must not pass by a rule
  // that might limit it.
  void match(const Dialect* dialect, const Asked& asked, Plan& plan) const;
  // The same for several requests of one verb, a part for each: the enforced rules of all of them
  // settle in one group, all or nothing. What several of them charge to one counter is charged to
  // it in one sum. Each part's `groups_end` is behind that group. If one of them cannot be
  // evaluated, none of them is charged, and all have its error. None of them may wait.
  void match_together(const Dialect* dialect, std::span<const Asked> requests, Plan& plan) const;

  // How often regular expressions of its rules gave up on a value; see Regex::given_up.
  uint64_t regexes_given_up() const;
  // How many requests took more steps to match than base::bounds::match_steps_max.
  uint64_t too_costly() const { return too_costly_->load(std::memory_order_relaxed); }

  // The dialect's rule at which the search for such a request would end: the first enforced one
  // that applies and stops, or null. Native rules aside. `error` as in Plan::RequestPlan.
  const Rule* decider(const Dialect* dialect, std::span<const request::Entry> descriptor,
                      std::string_view& error) const;

 private:
  // A list this short is gone through faster than looked up.
  static constexpr size_t unindexed_max = 6;

  const List* find(const Dialect* dialect) const;
  template <class Shadow>
  void find_rules(const Dialect* dialect, const Asked& asked, Plan& plan, Shadow&& shadow) const;

  std::vector<List> lists_;
  std::vector<Pattern> regexes_;  // of all rules
  uint32_t size_ = 0;
  bool has_finder_ = false;
  std::unique_ptr<std::atomic<uint64_t>> too_costly_ = std::make_unique<std::atomic<uint64_t>>();
};

// Rule::id of a rule that the dialect of that name calls so.
uint64_t rule_id(std::string_view dialect, std::string_view name,
                 std::span<const std::string> actor);

// Does the rule apply? Nothing: yes. Otherwise the first condition that fails. `error` as in
// Plan::RequestPlan.
std::optional<Mismatch> mismatch(const Rule& rule, std::span<const request::Entry> descriptor,
                                 std::string_view& error);

}  // namespace sluice::policy
