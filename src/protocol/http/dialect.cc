#include "protocol/http/dialect.h"

#include <optional>
#include <span>
#include <string>
#include <utility>

#include "limit/gcra.h"
#include "policy/inline_limits.h"

namespace sluice::http {
namespace {

std::optional<policy::LimitsProblem> check_inline_override(std::span<const limit::Limit> limits) {
  for (size_t i = 0; i < limits.size(); ++i)
    if (limit::has_counter(limits[i].algorithm))
      return policy::LimitsProblem{
          "limits[" + std::to_string(i) + "]",
          "the limits of this rule come with each request; only `unlimited` and `deny` can "
          "replace them, or a rule of the policy for `http` and `key`"};
  return std::nullopt;
}

}  // namespace

constinit const policy::Dialect dialect = {
    .name = "http",
    .written = false,
    .check_override = check_inline_override,
    .unmatched = "404 with the problem no-rule, or as `http.unmatched` says.",
};

void add_request_rules(request::Spaces& spaces, policy::RuleSet& rules,
                       const HttpOptions& options) {
  const auto make_rule = [&](std::string_view kind) {
    policy::Rule rule;
    rule.name = kind;
    rule.pattern = std::string(kind_entry) + "=" + std::string(kind);
    rule.file = "http";
    rule.conditions = {{std::string(kind_entry), policy::Pattern::equal_to(std::string(kind))}};
    rule.on_store_error = options.on_store_error;
    return rule;
  };
  policy::Rule rule = make_rule(inline_kind);
  rule.comment = "the limits that come with each request";
  rule.actor = {std::string(key_entry)};
  rule.limits = {{limit::Algorithm::unlimited}};
  rule.limits_from = policy::LimitsFrom::request;
  rule.intern(spaces, policy::inline_space(spaces));
  rules.add(dialect, std::move(rule));
  rule = make_rule(throttle_kind);
  rule.comment = "the limit that comes with each POST /throttle";
  rule.actor = {std::string(database_entry), std::string(key_entry)};
  rule.limits = {limit::gcra::without_numbers(limit::Algorithm::gcra_crab)};
  rule.limits_from = policy::LimitsFrom::numbers;
  rule.intern(spaces, spaces.hold("crab:", "", request::Space()));
  rules.add(dialect, std::move(rule));
}

}  // namespace sluice::http
