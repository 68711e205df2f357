// The interface by which a protocol finds the one rule of its dialect that applies to a request,
// when it has a structure of its own for that and does not search rules in order. Part of a rule
// set: immutable after that is built; any thread.
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
  // The texts are in `keys`, or live as long as the request.
  struct Found {
    uint32_t rule;           // index among the dialect's rules
    std::string_view key;    // of the rule's counter, within its space
    std::string_view actor;  // the text of the actor's values (key_text.h), by which overrides go
  };

  virtual ~Finder() = default;
  // Empty: no rule applies, or the steps did not suffice. Allocates only from `keys`.
  virtual std::optional<Found> find(const Asked& asked, MatchSteps& steps,
                                    base::Arena& keys) const = 0;

  // A text for people: which part of the request leads to no rule, and what would lead to one. May
  // be empty. Not for the hot path.
  virtual std::string why_none(const Asked& asked) const = 0;

  // The rule and actor of the counter that has this key in this space of the dialect's rules, as
  // far as the key tells; empty: not known. Not for the hot path.
  virtual std::optional<Found> owner(const request::Space& space, std::string_view key,
                                     base::Arena& keys) const = 0;
};

}  // namespace sluice::policy
