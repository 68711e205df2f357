#include "policy/inline_limits.h"

#include <algorithm>
#include <tuple>

#include "base/bounds.h"

namespace sluice::policy {

std::string algorithms_text(std::span<const limit::Limit> limits) {
  std::string text;
  for (const limit::Limit& limit : limits) {
    if (!text.empty()) text += ',';
    text += name_of(limit.algorithm);
  }
  return text;
}

InlineLimits::InlineLimits(request::Spaces& spaces, size_t lists_max)
    : spaces_(spaces), lists_max_(lists_max) {}

bool InlineLimits::Less::operator()(const std::vector<limit::Limit>& a,
                                    const std::vector<limit::Limit>& b) const {
  const auto key = [](const limit::Limit& limit) {
    return std::tuple(limit.quota, limit.window.us, limit.burst, limit.algorithm);
  };
  return std::lexicographical_compare(
      a.begin(), a.end(), b.begin(), b.end(),
      [&](const limit::Limit& x, const limit::Limit& y) { return key(x) < key(y); });
}

const InlineLimits::Found* InlineLimits::find(std::span<const limit::Limit> limits) {
  asked_.assign(limits.begin(), limits.end());
  if (const auto known = known_.find(asked_); known != known_.end()) return &known->second;
  // All at once: what is still asked comes back at the price of a look into the registry.
  if (known_.size() >= base::bounds::inline_limits_kept_max) known_.clear();
  Found found{spaces_.hold(inline_prefix, ":" + algorithms_text(limits), {}, lists_max_),
              spaces_.hold_limits(limits, lists_max_)};
  if (!found.space || !found.limits) {
    spaces_.want_round();
    return nullptr;
  }
  return &known_.emplace(asked_, std::move(found)).first->second;
}

}  // namespace sluice::policy
