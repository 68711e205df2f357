// Of one policy: whose counter a stored name is, and which rule holds for it. Built by a thread
// that may take its time, then read by any. It does not keep the policy, which has to be there when
// it is asked: a reload waits until no thread holds the old one.
#pragma once

#include <span>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "policy/overrides.h"
#include "policy/rule_set.h"
#include "request/space_index.h"

namespace sluice::admin {

class LiveCounters {
 public:
  // `others`: Overrides::spaces.
  LiveCounters(const policy::RuleSet& rules, std::span<const request::Space* const> others);

  // Of rules that have counters and are not switched off, and of overrides of such. They outlive
  // this.
  const request::SpaceIndex& spaces() const { return spaces_; }

  struct Owner {
    const policy::Rule* rule = nullptr;  // null: no such counter
    const policy::Dialect* dialect = nullptr;
    const request::Space* space = nullptr;
    std::string_view key;     // in that; a view of what was asked
    std::string actor{};      // by which overrides know it
    bool overridden = false;  // the counter is one of an override, or its limits are
  };
  // Where rules share their counters (limitd's type and its overrides), the first that would apply
  // to the key. overrides: held (Overrides::hold), or null: there are none.
  Owner find(std::string_view stored, base::Time now, const policy::Overrides* overrides) const;

 private:
  struct Member {
    const policy::Rule* rule;
    const policy::Dialect* dialect;
  };
  Owner found_owner(const request::Space& space, std::string_view key,
                    const policy::RuleSet::List& list) const;

  request::SpaceIndex spaces_;
  // Of whose dialect's rules a finder tells.
  std::unordered_map<uint32_t, const policy::RuleSet::List*> with_finder_;
  // In order: by their space's id; and those whose overrides have other spaces, by its prefix.
  std::unordered_map<uint32_t, std::vector<Member>> members_;
  std::unordered_map<std::string_view, std::vector<Member>> by_prefix_;
};

}  // namespace sluice::admin
