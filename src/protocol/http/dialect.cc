#include "protocol/http/dialect.h"

#include <optional>
#include <span>
#include <string>
#include <utility>

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
    .unmatched = "404 with the problem no-rule, or as `http.unmatched` says",
};

void add_inline_rule(request::Spaces& spaces, policy::RuleSet& rules, const HttpOptions& options) {
  policy::Rule rule;
  rule.name = inline_kind;
  rule.comment = "the limits that come with each request";
  rule.pattern = std::string(kind_entry) + "=" + std::string(inline_kind);
  rule.file = "http";
  rule.conditions = {
      {std::string(kind_entry), policy::Pattern::equal_to(std::string(inline_kind))}};
  rule.actor = {std::string(key_entry)};
  rule.limits = {{limit::Algorithm::unlimited}};
  rule.limits_from = policy::LimitsFrom::request;
  rule.on_store_error = options.on_store_error;
  rule.intern(spaces, spaces.hold(policy::inline_prefix, "", request::Space()));
  rules.add(dialect, std::move(rule));
}

}  // namespace sluice::http
