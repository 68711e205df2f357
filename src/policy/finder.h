// How the one rule of a dialect is found that a request meets, where that is not a search through
// rules in their order but by a structure of the protocol's own. Part of a rule set: immutable once
// that is built; any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/arena.h"
#include "policy/match_steps.h"
#include "request/charge.h"

namespace sluice::policy {

struct Asked;

class Finder {
 public:
  // The texts are in `keys`, or live as long as what was asked.
  struct Found {
    uint32_t rule;           // its place among the dialect's rules
    std::string_view key;    // of its counter
    std::string_view actor;  // the text of the values of Rule::actor (key_text.h): for overrides
  };

  virtual ~Finder() = default;
  // Nothing: no rule applies, or the steps did not suffice. Allocates nothing but from `keys`.
  virtual std::optional<Found> find(const Asked& asked, MatchSteps& steps,
                                    base::Arena& keys) const = 0;

  // For people: which part of the request leads to no rule, and what would. Empty: there is nothing
  // to say. Not for the hot path.
  virtual std::string why_none(const Asked& asked) const = 0;

  // Whose counter is it that has this key in this space of the dialect's rules? As far as the key
  // tells; nothing: no known owner. Not for the hot path.
  virtual std::optional<Found> owner(const request::Space& space, std::string_view key,
                                     base::Arena& keys) const = 0;
};

}  // namespace sluice::policy
