#include "protocol/droplet/rules.h"

#include <array>
#include <utility>

#include "protocol/droplet/dialect.h"
#include "protocol/droplet/message.h"

namespace sluice::droplet {

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
