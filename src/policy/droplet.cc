#include "policy/droplet.h"

#include <array>
#include <utility>

namespace sluice::policy {

std::span<const limit::Duration> droplet_windows() {
  using base::seconds;
  constexpr int64_t day = 86'400;
  static constexpr std::array<limit::Duration, 6> windows = {
      seconds(1), seconds(60), seconds(3'600), seconds(day), seconds(7 * day), seconds(30 * day)};
  return windows;
}

void add_droplet_rule(limit::Spaces& spaces, RuleSet& rules) {
  limit::Space like;
  like.windows = {droplet_windows().begin(), droplet_windows().end()};
  Rule rule;
  rule.name = "droplet";
  rule.comment = "the limits that come with each request";
  rule.pattern = "default";
  rule.file = "droplet";
  rule.actor = {"bucket"};
  rule.on_store_error = limit::OnError::local;  // its clients know no error
  rule.intern(spaces, spaces.hold("droplet:", "", like));
  rules.add(Dialect::droplet, std::move(rule));
}

}  // namespace sluice::policy
