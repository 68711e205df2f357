// What a finder may be as well (policy/finder.h): one that tells the actor from a counter's key,
// and the key from an actor. For people who name a counter or an actor; not called by workers.
// Immutable; any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "base/arena.h"

namespace sluice::policy {

class CounterNames {
 public:
  virtual ~CounterNames() = default;
  // The actor (the text of its values, key_text.h) of the counter with this key, if it is one of
  // that rule; `rule` as in Finder::Found. Empty: it is none.
  virtual std::optional<std::string_view> actor_in(uint32_t rule, std::string_view key,
                                                   base::Arena& keys) const = 0;
  // The key of the rule's counter for that actor; empty: the rule has no such actor, or the rule
  // and the actor do not tell the key.
  virtual std::optional<std::string_view> key_of(uint32_t rule, std::string_view actor,
                                                 base::Arena& keys) const = 0;

 protected:
  CounterNames() = default;
  CounterNames(const CounterNames&) = default;
  CounterNames& operator=(const CounterNames&) = default;
};

}  // namespace sluice::policy
