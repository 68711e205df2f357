// How the rules of one protocol's files differ from those of another: their names, the limits that
// may replace theirs, and where their counters are. A protocol with rules of its own has one
// constant of this type, whose address identifies the dialect. Everything is constant; any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/arena.h"
#include "limit/limit.h"
#include "policy/match_steps.h"
#include "request/charge.h"
#include "request/request.h"

namespace sluice::policy {

// The rules of a dialect whose sessions look their rule up in a structure of their own and plan its
// charge (Session::plan), instead of having them searched in order. This is what people see of that
// structure, who name a request, a counter or an actor; workers do not call it. Part of a rule set:
// immutable after that is built; any thread.
class OwnRules {
 public:
  // The texts are in `keys`, or live as long as the entries.
  struct Found {
    uint32_t rule;           // index among the dialect's rules
    std::string_view key;    // of the rule's counter, within its space
    std::string_view actor;  // the text of the actor's values (key_text), by which overrides go
  };

  virtual ~OwnRules() = default;
  // The rule that a session plans for a request with these entries which comes alone. Empty: it
  // plans none, or the steps did not suffice.
  virtual std::optional<Found> find(std::span<const request::Entry> entries, MatchSteps& steps,
                                    base::Arena& keys) const = 0;
  // Which of these entries leads to no rule, and what would lead to one. May be empty.
  virtual std::string why_none(std::span<const request::Entry> entries) const = 0;

  // The rule and actor of the counter that has this key in this space of the dialect's rules, as
  // far as the key tells; empty: not known.
  virtual std::optional<Found> owner(const request::Space& space, std::string_view key,
                                     base::Arena& keys) const = 0;
  // The actor (the text of its values, key_text) of the counter with this key, if it is one of
  // that rule. Empty: it is none.
  virtual std::optional<std::string_view> actor_in(uint32_t rule, std::string_view key,
                                                   base::Arena& keys) const = 0;
  // The key of the rule's counter for that actor; empty: the rule has no such actor, or the rule
  // and the actor do not tell the key.
  virtual std::optional<std::string_view> key_of(uint32_t rule, std::string_view actor,
                                                 base::Arena& keys) const = 0;
};

}  // namespace sluice::policy

namespace sluice::request {
class SpaceRef;
class Spaces;
}  // namespace sluice::request

namespace sluice::policy {

struct Rule;

// Why some limits must not replace those of a rule.
struct LimitsProblem {
  std::string field;  // "limits", "limits[1].quota"
  std::string why;
};

// The rule's name, or its pattern where it has none.
std::string name_or_pattern(const Rule& rule);

struct Dialect {
  // The dialect's name in answers, stored overrides and the ids of rules. It must never change.
  std::string_view name;
  // The name of a rule in requests to override its limits. Part of the rule's id, so it must never
  // change either.
  std::string (*rule_name)(const Rule& rule) = name_or_pattern;
  // The rule's name in metrics; must not contain keys of which there may be one for each user.
  std::string (*metric_name)(const Rule& rule) = name_or_pattern;
  // Is that another name of the rule? Null: rules have one name.
  bool (*is_also_called)(const Rule& rule, std::string_view name) = nullptr;
  // False: the program itself makes the rules, and they do not count as rules of a policy.
  bool written = true;

  // True: an override may replace some limits of a rule; false: it replaces all of them.
  bool merges_overrides = false;
  // The algorithm of a limit in an override that names none; empty: that of the rule's limits.
  std::optional<limit::Algorithm> override_algorithm{};
  // Why these limits must not replace those of a rule; empty: they may. Null: all limits may that a
  // counter can hold.
  std::optional<LimitsProblem> (*check_override)(std::span<const limit::Limit> limits) = nullptr;
  // For a dialect whose counters' names contain the limit: the space for the counters of an
  // override with this limit, under the prefix of the rule's space; an empty reference if there are
  // `most` spaces already. Null: an override uses the rule's counters.
  request::SpaceRef (*override_space)(request::Spaces& spaces, std::string_view prefix,
                                      const limit::Limit& limit, size_t most) = nullptr;

  // The largest quota of the limits that requests bring, one for each of some windows of the rule's
  // space; the costs of such requests may be negative. 0: requests bring no limits.
  int64_t request_quota_max = 0;
  // Changes the entries that a person wrote as key=value words to the form that the protocol's
  // sessions use. Null: they are the same.
  void (*arrange)(std::vector<request::Entry>& written) = nullptr;
  // A sentence for people: the protocol's answer to a request that no rule decides. May be empty.
  std::string_view unmatched{};

  bool brings_limits() const { return request_quota_max > 0; }
};

// The dialect of native rules, which apply to the requests of all protocols.
inline constexpr Dialect native_dialect{.name = "native", .merges_overrides = true};

}  // namespace sluice::policy
