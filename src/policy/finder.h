// How the one rule of a dialect is found that a request meets, where that is not a search through
// rules in their order but by a structure of the protocol's own. Part of a rule set: immutable once
// that is built; any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "base/arena.h"
#include "policy/match_steps.h"

namespace sluice::policy {

struct Asked;

class Finder {
 public:
  struct Found {
    uint32_t rule;         // its place among the dialect's rules
    std::string_view key;  // of its counter: in `keys`, or as long-lived as the descriptor
  };

  virtual ~Finder() = default;
  // Nothing: no rule applies, or the steps did not suffice. Allocates nothing but from `keys`.
  virtual std::optional<Found> find(const Asked& asked, MatchSteps& steps,
                                    base::Arena& keys) const = 0;
};

}  // namespace sluice::policy
