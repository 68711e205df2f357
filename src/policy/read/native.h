// Reads native policy: the rules under `rules:` of a sluice.yaml, which can express everything that
// the engine can do. Not called by workers. docs/policy.md describes every key.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/diagnostic.h"
#include "limit/limit.h"
#include "policy/read/yaml_tree.h"
#include "policy/read/yaml_tree_reader.h"
#include "policy/rule_set.h"
#include "request/space.h"

namespace sluice::policy {

// Reads one limit of a native rule from its YAML. Internal to the reader of native policy.

// What a limit of a rule has beside itself.
struct OfRule {
  bool counts = false;                          // `over: count`
  int64_t overdraft = limit::Overdrafts::none;  // units
  YamlNode unit{};                              // of the units; absent: it does not say
};

// Reads `{ quota, window, burst, algorithm, over, overdraft, unit }`. `of_rule`: null: such a limit
// has none of the last three. After an error, which is reported, the limit must not be used.
limit::Limit read_limit(YamlNode node, YamlReader& reader, OfRule* of_rule = nullptr);

// Reads the top-level key `rules` of a YAML text and appends its rules, in order, to the native
// rules of `rules`; without the key, or without a rule under it, that is an error. Other readers
// read the other top-level keys; one that is nearly `rules` is an error.
// Errors and warnings are appended to `diagnostics`; after an error `rules` must not be used.
// `file` is the file's name as the user gave it, for messages only.
void read_native(std::string_view text, std::string_view file, request::Spaces& spaces,
                 RuleSet& rules, base::Diagnostics& diagnostics);

// The same for a text that was parsed already.
void read_native(const YamlDocument& document, std::string_view file, request::Spaces& spaces,
                 RuleSet& rules, base::Diagnostics& diagnostics);

// May a rule have that name?
bool sound_rule_name(std::string_view name);

// Finds native rules that settle together although their actors differ. Where counters of different
// actors are in different places (slots of a Redis Cluster), they cannot settle in one step. Not
// called by workers.

// Rules that apply to one request and settle in one group, in their order; at least two of them
// charge counters of different actors. They live as long as the set.
using RulesApart = std::vector<const Rule*>;

// Each finding is proved by a request: one is made up from the conditions of two rules and matched
// as usual, as if no rule's `until` had passed. Not found are rules that apply together only to
// values of a regular expression, or of a text with stars and a network; rules after one that stops
// the request that was made up; and everything beyond base::bounds::review_steps_max comparisons or
// a hundred findings. Shadow::as_enforced: as if rules in `mode: shadow` decided.
enum class Shadow : uint8_t { left_out, as_enforced };
std::vector<RulesApart> rules_apart(const RuleSet& rules, Shadow shadow = Shadow::left_out);

// "rule a (line 3), rule b (line 9)".
std::string names_of(const RulesApart& apart);

// Reports each finding as an error at the last of its rules, for a store that cannot settle them.
// `at_start`: the rules are those of a reload, which does not change the store.
enum class StoreIsRead : uint8_t { with_the_rules, at_start };
void refuse_apart(const std::vector<RulesApart>& all, StoreIsRead read,
                  base::Diagnostics& diagnostics);

// Warns of rules in `mode: shadow` that `refuse_apart` would report if they decided.
void warn_of_shadow_apart(const RuleSet& rules, base::Diagnostics& diagnostics);

}  // namespace sluice::policy
