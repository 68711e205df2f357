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

#include "limit/limit.h"
#include "request/charge.h"

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
