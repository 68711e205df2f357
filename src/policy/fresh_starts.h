// What a new policy does not go on with of the one before: rules and limits whose counters begin
// fresh under it, and why. For `sluice check --against`, the log of a reload and explain.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "policy/rule_set.h"

namespace sluice::policy {

struct FreshStart {
  const Rule* rule = nullptr;  // of the new set
  // The limit's index in the rule; SIZE_MAX: all of its counters begin fresh.
  size_t limit = SIZE_MAX;
  std::string why;  // a clause: "its name was `login`"
};

// Of rules that are in both sets, in their order, at most `most`; `more`: how many others there
// are. A rule that is new is not among them. The sets must be interned in one request::Spaces.
// Takes a time linear in the sets, and gives way on a thread of low priority.
std::vector<FreshStart> fresh_starts(const RuleSet& was, const RuleSet& is, size_t most,
                                     size_t& more);

// Has no dialect rules in both sets, so that nothing of one goes on in the other?
bool have_nothing_in_common(const RuleSet& was, const RuleSet& is);

// "rule `login`, 100 per 1m: its counters begin fresh: its name was `signin`".
std::string to_text(const FreshStart& one);

}  // namespace sluice::policy
