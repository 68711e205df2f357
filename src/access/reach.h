// The counters that a user's right is limited to, as patterns. A counter is compared by one text,
// RULE:ACTOR: the rule's name and the actor as `sluice counters` shows them (`explain` may write
// exact(ACTOR)), whatever protocol the request came by. Values; any thread.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace sluice::access {

// The most patterns of one right, with each of which a request is compared, and their most bytes.
// Past it: refused, naming the bound.
inline constexpr size_t reach_patterns_max = 64;
inline constexpr size_t reach_pattern_bytes_max = 512;

// Is it a pattern: not empty, and without a `*` but at its end?
bool is_reach_pattern(std::string_view text);

// A pattern that ends with `*` fits the texts that begin with what is before it. Another one fits
// the text that it is, and all counters of the rule that it names.
bool fits(std::string_view pattern, std::string_view rule, std::string_view actor);

// Can the pattern fit a counter of that rule? `counts`: the rule counts by an actor, else the actor
// is always empty.
bool can_fit(std::string_view pattern, std::string_view rule, bool counts);

class Reach {
 public:
  Reach() = default;  // not limited
  explicit Reach(std::vector<std::string> patterns) : patterns_(std::move(patterns)) {}

  bool is_limited() const { return !patterns_.empty(); }
  bool allows(std::string_view rule, std::string_view actor) const {
    for (const std::string& pattern : patterns_)
      if (fits(pattern, rule, actor)) return true;
    return patterns_.empty();
  }
  std::span<const std::string> patterns() const { return patterns_; }
  friend bool operator==(const Reach&, const Reach&) = default;

 private:
  std::vector<std::string> patterns_;
};

}  // namespace sluice::access
