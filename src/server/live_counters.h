// Of one policy: whose counter a stored name is, and which rule holds for it. Built by a thread
// that may take its time, then read by any. It does not keep the policy, which has to be there when
// it is asked: a reload waits until nobody holds the old one.
#pragma once

#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "limit/space_index.h"
#include "policy/rule_set.h"

namespace sluice::server {

// What requests and answers of the admin port call a rule: its name, else its pattern; of limitd
// the bucket type.
std::string rule_text(const policy::Rule& rule, std::string_view dialect);

// Any bytes as they may stand in a path, and survive clients that tidy paths up.
std::string path_text(std::string_view bytes);

class LiveCounters {
 public:
  explicit LiveCounters(const policy::RuleSet& rules);

  // Of rules that have counters and are not switched off. As long as this lives.
  const limit::SpaceIndex& spaces() const { return spaces_; }

  struct Owner {
    const policy::Rule* rule = nullptr;  // null: no such counter
    std::string_view dialect;
    std::string_view key;  // in the rule's space; a view of what was asked
  };
  // Where rules share their counters (limitd's type and its overrides), the first that would apply
  // to the key.
  Owner find(std::string_view stored, base::Time now) const;

 private:
  struct Member {
    const policy::Rule* rule;
    std::string_view dialect;
  };
  limit::SpaceIndex spaces_;
  std::unordered_map<uint32_t, std::vector<Member>> members_;  // by the space's id, in order
};

}  // namespace sluice::server
