#include "policy/droplet.h"

#include <utility>

namespace sluice::policy {

void add_droplet_rule(limit::Spaces& spaces, RuleSet& rules) {
  using base::seconds;
  constexpr int64_t day = 86'400;
  limit::Space like;
  like.windows = {seconds(1),   seconds(60),      seconds(3'600),
                  seconds(day), seconds(7 * day), seconds(30 * day)};
  Rule rule;
  rule.name = "droplet";
  rule.comment = "the limits that come with each request";
  rule.pattern = "default";
  rule.file = "droplet";
  rule.actor = {"bucket"};
  rule.on_store_error = limit::OnError::local;  // its clients know no error
  rule.space = spaces.intern("droplet:", "", std::move(like));
  rules.add(Dialect::droplet, std::move(rule));
}

}  // namespace sluice::policy
