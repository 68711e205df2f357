#include "policy/inline_limits.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "base/bounds.h"

namespace sluice::policy {

request::SpaceRef inline_space(request::Spaces& spaces) {
  request::Space like;
  like.carry = limit::CarryOver::apart;
  return spaces.hold(inline_prefix, "", like);
}

bool InlineLimits::Less::operator()(std::span<const limit::Limit> a,
                                    std::span<const limit::Limit> b) const {
  const auto key = [](const limit::Limit& limit) {
    return std::tuple(limit.quota, limit.window.us, limit.burst, limit.algorithm,
                      limit.calendar.code());
  };
  return std::lexicographical_compare(
      a.begin(), a.end(), b.begin(), b.end(),
      [&](const limit::Limit& x, const limit::Limit& y) { return key(x) < key(y); });
}

uint32_t InlineLimits::find(std::span<const limit::Limit> limits) {
  const auto known = known_.find(limits);
  if (known != known_.end() && spaces_.use_brought(known->second.id(), now_))
    return known->second.id();
  request::LimitsRef held = spaces_.hold_brought(limits, owner_, now_, shares_);
  if (!held || known != known_.end()) return held.id();
  // Forgets all lists at once. One that is still in use comes back with a lookup in the registry.
  if (known_.size() >= base::bounds::inline_limits_kept_max) known_.clear();
  return known_.emplace(std::vector(limits.begin(), limits.end()), std::move(held))
      .first->second.id();
}

void InlineLimits::release_given_way() {
  std::erase_if(known_, [this](const auto& one) { return !spaces_.is_owned(one.second.id()); });
}

}  // namespace sluice::policy
