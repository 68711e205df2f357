#include "policy/override_merge.h"

#include <algorithm>

#include "base/units.h"

namespace sluice::policy {

using limit::Limit;

std::optional<MergedLimits> merge_limits(std::span<const Limit> of_rule, std::span<const Limit> own,
                                         size_t& wrong) {
  MergedLimits merged{{of_rule.begin(), of_rule.end()}, 0};
  for (wrong = 0; wrong < own.size(); ++wrong) {
    const Limit& one = own[wrong];
    size_t of_window = 0, of_both = 0, at = 0, at_both = 0;
    for (size_t i = 0; i < of_rule.size(); ++i) {
      if (!has_counter(of_rule[i].algorithm) || of_rule[i].window != one.window) continue;
      ++of_window;
      at = i;
      if (of_rule[i].algorithm != one.algorithm) continue;
      ++of_both;
      at_both = i;
    }
    if (of_window > 1) at = at_both;
    if (of_window == 0 || (of_window > 1 && of_both != 1)) return std::nullopt;
    const auto bit = static_cast<OwnLimits>(1u << at);
    if ((merged.own & bit) != 0) return std::nullopt;
    merged.own |= bit;
    merged.limits[at] = one;
  }
  return merged;
}

std::vector<Limit> own_limits(std::span<const Limit> limits, OwnLimits own) {
  std::vector<Limit> list;
  for (size_t i = 0; i < limits.size(); ++i)
    if ((own >> i & 1) != 0) list.push_back(limits[i]);
  return list;
}

std::string window_words(std::span<const Limit> limits) {
  std::string words;
  for (size_t i = 0; i < limits.size(); ++i) {
    if (i > 0) words += i + 1 < limits.size() ? ", " : " and ";
    const bool has_window = limits[i].window.us > 0;
    words += has_window ? base::spell_duration(limits[i].window) : "none";
    const bool shared = std::count_if(limits.begin(), limits.end(), [&](const Limit& other) {
                          return other.window == limits[i].window;
                        }) > 1;
    if (shared || !has_window)
      words += " (" + std::string(limit::name_of(limits[i].algorithm)) + ")";
  }
  return words;
}

}  // namespace sluice::policy
