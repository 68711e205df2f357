// What a plan says of the reserve that it is for: its terms, the units of each subject, and which
// subjects each charge is for. Lives as long as the plan is unchanged.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "policy/rule_set.h"
#include "request/hold.h"
#include "request/request.h"
#include "store/hold_book.h"

namespace sluice::engine {

struct HoldPlan {
  // `requests`: those of the plan's parts; door: HoldCall::terms.
  HoldPlan(policy::Plan& plan, std::span<const request::Request> requests,
           const std::optional<request::HoldTerms>& door);
  // What it says of the places of an acquire.
  void lease_places(request::HoldCall& call);
  // Sets what each charge costs.
  void set_costs(const request::Batch& batch) const;

  request::HoldTerms terms{};
  std::vector<store::HoldBook::Share> shares;  // of each charge
  std::vector<int64_t> units;                  // of each subject
  bool any = false;                            // an enforced rule decides, or the door has terms
  // An enforced limit has places: the shortest lease, and the longest that all of them allow.
  bool has_places = false;
  base::Duration lease = base::never, lease_max = base::never;
  // Lists of limits that differ came for one counter: sessions refuse them.
  bool is_mixed = false;
};

}  // namespace sluice::engine
