#include "protocol/limitd/dialect.h"

#include "policy/rule_set.h"

namespace sluice::limitd {

namespace {

// The rule of an override in limitd's own file has no name; its first condition names the type.
std::string rule_name(const policy::Rule& rule) {
  if (rule.conditions.empty()) return policy::name_or_pattern(rule);
  return std::string(rule.conditions.front().pattern.text());
}

std::string metric_name(const policy::Rule& rule) {
  if (!rule.name.empty() || rule.conditions.empty()) return policy::name_or_pattern(rule);
  return rule_name(rule) + " (overrides)";
}

}  // namespace

constinit const policy::Dialect dialect = {
    .name = "limitd",
    .rule_name = rule_name,
    .metric_name = metric_name,
    .unmatched = "limitd's protocol answers UNKNOWN_BUCKET_TYPE.",
};

}  // namespace sluice::limitd
