#include "protocol/divvy/dialect.h"

#include "policy/rule_set.h"
#include "request/space.h"

namespace sluice::divvy {

namespace {

using limit::Algorithm;
using limit::Limit;

// The suffix is needed because a canary may have the same pattern as the rule after it.
std::string rule_name(const policy::Rule& rule) {
  return rule.pattern + (rule.mode == policy::Mode::shadow ? " (canary)" : "");
}

// A rule is also known by its label, and a canary by its pattern without the suffix.
bool is_also_called(const policy::Rule& rule, std::string_view name) {
  return rule.name == name || rule.pattern == name;
}

std::optional<policy::LimitsProblem> check_override(std::span<const Limit> limits) {
  if (limits.size() == 1 && limits[0].algorithm == Algorithm::fixed_window &&
      limits[0].window.us % 1'000'000 == 0)
    return std::nullopt;
  return policy::LimitsProblem{
      "limits",
      "a rule of Divvy's has one limit of algorithm fixed_window, with a window of "
      "whole seconds: its counters are Divvy's own"};
}

// Divvy's key contains the limit's numbers, so another limit needs another space; the value is the
// number of units that remain.
request::SpaceRef override_space(request::Spaces& spaces, std::string_view prefix,
                                 const Limit& limit, size_t most) {
  request::Space like;
  like.encoding = request::KeyEncoding::remaining_text;
  return spaces.hold(
      prefix, ":" + std::to_string(limit.quota) + ":" + std::to_string(limit.window.us / 1'000'000),
      like, most);
}

}  // namespace

constinit const policy::Dialect dialect = {
    .name = "divvy",
    .rule_name = rule_name,
    .is_also_called = is_also_called,
    .override_algorithm = Algorithm::fixed_window,
    .check_override = check_override,
    .override_space = override_space,
    .unmatched = "Divvy's protocol answers `OK false 0 -1`.",
};

}  // namespace sluice::divvy
