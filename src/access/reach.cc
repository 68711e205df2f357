#include "access/reach.h"

#include <algorithm>

namespace sluice::access {

bool is_reach_pattern(std::string_view text) {
  return !text.empty() && text.find('*') >= text.size() - 1;
}

bool fits(std::string_view pattern, std::string_view rule, std::string_view actor) {
  const bool is_prefix = pattern.ends_with('*');
  if (is_prefix) pattern.remove_suffix(1);
  const size_t shared = std::min(pattern.size(), rule.size());
  if (pattern.substr(0, shared) != rule.substr(0, shared)) return false;
  if (pattern.size() <= rule.size()) return is_prefix || pattern.size() == rule.size();
  if (pattern[rule.size()] != ':') return false;
  const std::string_view rest = pattern.substr(rule.size() + 1);
  return is_prefix ? actor.starts_with(rest) : actor == rest;
}

bool can_fit(std::string_view pattern, std::string_view rule, bool counts) {
  std::string_view actor;
  if (counts && pattern.size() > rule.size() + 1) {
    actor = pattern.substr(rule.size() + 1);
    if (actor.ends_with('*')) actor.remove_suffix(1);
  }
  return fits(pattern, rule, actor);
}

}  // namespace sluice::access
