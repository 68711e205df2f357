#include "policy/inline_limits.h"

#include <algorithm>
#include <cstddef>
#include <iterator>
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

std::vector<limit::Limit> limits_named(std::string_view algorithms) {
  using limit::Algorithm;
  constexpr Algorithm known[] = {Algorithm::fixed_window, Algorithm::aligned_window,
                                 Algorithm::token_bucket, Algorithm::sliding_window,
                                 Algorithm::sliding_log,  Algorithm::fixed_bucket};
  std::vector<limit::Limit> limits;
  for (size_t at = 0; at <= algorithms.size();) {
    const size_t end = std::min(algorithms.find(',', at), algorithms.size());
    const auto* const named = std::find_if(std::begin(known), std::end(known), [&](auto algorithm) {
      return name_of(algorithm) == algorithms.substr(at, end - at);
    });
    if (named == std::end(known) || limits.size() == limit::slots_max) return {};
    const base::Duration window{*named == Algorithm::fixed_bucket ? 0 : 1'000'000};
    limits.push_back({.algorithm = *named, .quota = 1, .window = window, .burst = 1});
    at = end + 1;
  }
  return limits;
}

void InlineLists::add_known(request::Spaces& spaces) {
  std::vector<request::SpaceRef> known = spaces.hold_all(inline_prefix);
  std::sort(known.begin(), known.end(),
            [](const auto& a, const auto& b) { return a.get()->id < b.get()->id; });
  for (const request::SpaceRef& space : known) {
    const std::string_view suffix = space.get()->suffix;
    if (suffix.empty()) continue;  // the space of the rule itself
    if (const auto limits = limits_named(suffix.substr(1)); !limits.empty()) add(limits);
  }
}

void InlineLists::add(std::span<const limit::Limit> limits) {
  const std::lock_guard lock(mutex_);
  const size_t count = count_.load(std::memory_order_relaxed);
  const auto is_it = [&](const std::vector<limit::Limit>& list) {
    return std::equal(list.begin(), list.end(), limits.begin(), limits.end(),
                      [](const auto& a, const auto& b) { return a.algorithm == b.algorithm; });
  };
  if (count == lists_.size() ||
      std::any_of(lists_.begin(), lists_.begin() + static_cast<ptrdiff_t>(count), is_it))
    return;
  lists_[count] = limits_named(algorithms_text(limits));
  count_.store(count + 1, std::memory_order_release);
}

InlineLimits::InlineLimits(request::Spaces& spaces, size_t lists_max, InlineLists* charged)
    : spaces_(spaces), lists_max_(lists_max), charged_(charged) {}

bool InlineLimits::Less::operator()(const std::vector<limit::Limit>& a,
                                    const std::vector<limit::Limit>& b) const {
  const auto key = [](const limit::Limit& limit) {
    return std::tuple(limit.quota, limit.window.us, limit.burst, limit.algorithm);
  };
  return std::lexicographical_compare(
      a.begin(), a.end(), b.begin(), b.end(),
      [&](const limit::Limit& x, const limit::Limit& y) { return key(x) < key(y); });
}

const InlineLimits::Found* InlineLimits::find(std::span<const limit::Limit> limits, bool charges) {
  Found* const found = find_known(limits);
  if (found != nullptr && charges && charged_ != nullptr && !found->is_charged) {
    charged_->add(limits);
    found->is_charged = true;
  }
  return found;
}

InlineLimits::Found* InlineLimits::find_known(std::span<const limit::Limit> limits) {
  asked_.assign(limits.begin(), limits.end());
  if (const auto known = known_.find(asked_); known != known_.end()) return &known->second;
  // Forgets all lists at once. One that is still in use comes back with a lookup in the registry.
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
