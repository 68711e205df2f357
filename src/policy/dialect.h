// What makes the rules of one protocol differ from those of another: how they are called, which
// limits may replace theirs, where their counters are. A protocol that has rules of its own has one
// constant of this type; its address is the dialect's identity. All here is constant; any thread.
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

// Why limits must not replace those of a rule.
struct LimitsProblem {
  std::string field;  // "limits", "limits[1].quota"
  std::string why;
};

// The rule's name, or its pattern where it has none.
std::string name_or_pattern(const Rule& rule);

struct Dialect {
  // In answers, persisted overrides and the ids of rules; never changes.
  std::string_view name;
  // What those call a rule who override its limits; part of its id, so it never changes either.
  std::string (*rule_name)(const Rule& rule) = name_or_pattern;
  // What metrics call it: never a key of which there may be one for each user.
  std::string (*metric_name)(const Rule& rule) = name_or_pattern;
  // Do people know the rule by that name as well? Null: they have one name for it.
  bool (*is_also_called)(const Rule& rule, std::string_view name) = nullptr;
  // False: its rules are made by the program and are not counted as rules of a policy.
  bool written = true;

  // An override may replace some limits of a rule and leave the others; else it replaces all.
  bool merges_overrides = false;
  // Of a limit in an override that names none; nothing: that of the rule's limits.
  std::optional<limit::Algorithm> override_algorithm{};
  // May these limits replace those of a rule? Nothing: yes. Null: any may that a counter can hold.
  std::optional<LimitsProblem> (*check_override)(std::span<const limit::Limit> limits) = nullptr;
  // Where the keys of counters hold the rule's limit: the space for counters of an override with
  // this limit, under the prefix of the rule's space; an empty reference where there are `most`
  // spaces. Null: an override counts in the rule's counters.
  request::SpaceRef (*override_space)(request::Spaces& spaces, std::string_view prefix,
                                      const limit::Limit& limit, size_t most) = nullptr;

  // Its requests bring limits along, each of at most this quota, one for each of some windows of
  // the rule's space; their costs may be below 0. 0: they bring none.
  int64_t request_quota_max = 0;
  // Puts a request that people wrote as key=value words, in their order, into the form in which its
  // sessions ask. Null: that is the same.
  void (*arrange)(std::vector<request::Entry>& written) = nullptr;
  // What its protocol answers to a request that no rule decides, as a sentence for people; may be
  // empty.
  std::string_view unmatched{};

  bool brings_limits() const { return request_quota_max > 0; }
};

// Of rules that see the requests of all protocols.
inline constexpr Dialect native_dialect{.name = "native", .merges_overrides = true};

}  // namespace sluice::policy
