#include "protocol/droplet/rules.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <utility>

#include "protocol/droplet/message.h"

namespace sluice::droplet {

namespace {

constexpr int64_t quota_max = UINT32_MAX;

std::optional<policy::LimitsProblem> check_override(std::span<const limit::Limit> limits) {
  const auto wrong = [](std::string field, std::string why) {
    return policy::LimitsProblem{std::move(field), std::move(why)};
  };
  for (size_t i = 0; i < limits.size(); ++i) {
    const limit::Limit& l = limits[i];
    const std::string field = "limits[" + std::to_string(i) + "]";
    if (l.algorithm != limit::Algorithm::token_bucket || l.burst != l.quota)
      return wrong(field,
                   "a bucket of droplet's has limits of algorithm token_bucket without a "
                   "burst of their own");
    if (l.quota > quota_max)
      return wrong(field + ".quota", "droplet counts to " + std::to_string(quota_max));
    if (std::find(droplet_windows.begin(), droplet_windows.end(), l.window) ==
        droplet_windows.end())
      return wrong(field + ".window", "droplet has windows of 1s, 1m, 1h, 1d, 7d and 30d");
    for (size_t j = 0; j < i; ++j)
      if (limits[j].window == l.window)
        return wrong(field + ".window", "is also that of limits[" + std::to_string(j) + "]");
  }
  return std::nullopt;
}

}  // namespace

constinit const policy::Dialect dialect = {
    .name = "droplet",
    .written = false,
    .check_override = check_override,
    .request_quota_max = quota_max,
};

void add_droplet_rule(request::Spaces& spaces, policy::RuleSet& rules) {
  request::Space like;
  like.windows = {droplet_windows.begin(), droplet_windows.end()};
  policy::Rule rule;
  rule.name = "droplet";
  rule.comment = "the limits that come with each request";
  rule.pattern = "default";
  rule.file = "droplet";
  rule.actor = {"bucket"};
  rule.on_store_error = request::OnError::local;  // the protocol cannot express an error
  rule.intern(spaces, spaces.hold("droplet:", "", like));
  rules.add(dialect, std::move(rule));
}

}  // namespace sluice::droplet
