// The whole policy of a server, parsed and immutable: rules in order, each a pattern over the
// entries of a request, an actor, limits and a mode. Built once off the workers, then read by all
// of them at once without a lock. Matching allocates nothing once a Plan has grown to the size of
// its batches.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "limit/limit.h"
#include "policy/pattern.h"
#include "policy/rule_index.h"

namespace sluice::policy {

enum class Mode : uint8_t {
  enforce,  // decides the request
  shadow,   // is charged and counted, then the search goes on (Divvy's canary)
};

// Whose rules these are. A dialect's rules see only requests of its own protocol.
enum class Dialect : uint8_t { divvy };

// One pair of a rule's pattern: the entry `key` must fit `pattern`.
struct Condition {
  std::string key;
  Pattern pattern;
};

struct Rule {
  std::string name;     // label of metrics; unique in its file; may be empty
  std::string comment;  // for people: logs, explain
  std::string pattern;  // the conditions as the file spells them, for people: "method=GET ip=*";
                        // "default" when empty
  std::string file;     // as the user named it
  size_t line = 0;      // where the rule begins, from 1
  std::vector<Condition> conditions;  // all must hold
  std::string actor;  // the entry whose value partitions the limit; empty: one counter for all
  Mode mode = Mode::enforce;
  // Metrics count its decisions as a shadow rule's: every shadow rule, and Divvy's default rule
  // with policy canary, which decides all the same.
  bool counted_as_shadow = false;
  limit::Limit limit;
  const limit::Space* space = nullptr;
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
  // One matched rule of a request with its group. Groups of a request follow each other in rule
  // order.
  struct Step {
    const Rule* rule;
    uint32_t group;
  };
  // The steps of one request. error: a rule of it cannot be evaluated (text for the client); its
  // earlier steps stand.
  struct Part {
    uint32_t step_first = 0, step_count = 0;
    std::string_view error;
  };

  void clear();
  std::span<const Part> parts() const { return parts_; }
  std::span<const Step> steps(const Part& part) const {
    return std::span(steps_).subspan(part.step_first, part.step_count);
  }
  limit::Batch batch() { return {groups_, charges_, decisions_}; }
  const limit::Group& group(const Step& step) const { return groups_[step.group]; }
  // The decisions of a step's group, charge after charge, slot after slot.
  std::span<const limit::Decision> decisions(const Step& step) const;

 private:
  friend class RuleSet;
  std::vector<Part> parts_;
  std::vector<Step> steps_;
  std::vector<limit::Group> groups_;
  std::vector<limit::Charge> charges_;
  std::vector<limit::Decision> decisions_;
};

class RuleSet {
 public:
  // Adds at the end. Only while building, before any other thread sees the set.
  void add(Dialect dialect, Rule rule);

  std::span<const Rule> rules(Dialect dialect) const;

  // Appends one Part to `plan`: the rules that the request meets, in order, up to and with the
  // first enforced one. The descriptor may name a key more than once: the last one counts. Keys of
  // charges are views into the descriptor.
  void match(Dialect dialect, std::span<const limit::Entry> descriptor, int64_t cost,
             Plan& plan) const;

  // The rule that would decide such a request: the first enforced one that applies, or null.
  // `error` as in Plan::Part.
  const Rule* decider(Dialect dialect, std::span<const limit::Entry> descriptor,
                      std::string_view& error) const;

 private:
  // A list this short is gone through faster than looked up.
  static constexpr size_t unindexed_max = 6;

  template <class Visit>
  void candidates(std::span<const limit::Entry> descriptor, Visit&& visit) const;

  std::vector<Rule> divvy_;
  RuleIndex divvy_index_;
};

// Does the rule apply? Nothing: yes. Otherwise the first condition that fails. `error` as in
// Plan::Part.
std::optional<Mismatch> mismatch(const Rule& rule, std::span<const limit::Entry> descriptor,
                                 std::string_view& error);

}  // namespace sluice::policy
