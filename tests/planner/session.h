// The smallest protocol that plans its own charges. A line `take TIER WHO` is answered `yes N` or
// `no N`, where N is the number of remaining units, or `error WHY`; `wait TIER WHO` is answered
// once there is a unit. TIER is `small` or `large`, rules that the protocol brings, with a counter
// for each WHO; another TIER is under none of them. Native rules apply to the entries `tier` and
// `who`.
#pragma once

#include <string_view>

#include "policy/dialect.h"
#include "policy/rule_set.h"
#include "request/session.h"
#include "request/space.h"

namespace sluice::planner {

inline constexpr policy::Dialect dialect = {.name = "planner", .written = false};

void add_rules(request::Spaces& spaces, policy::RuleSet& rules);

class PlannerSession final : public request::Session {
 public:
  request::Received receive(std::string_view in, bool end, request::Requests& requests,
                            base::Buffer& out) override;
  void plan(const request::Request& request, policy::Planning& planning) override;
  bool reply(const request::Request& request, const request::Verdict& verdict, base::Time now,
             base::Buffer& out) override;
  request::Fault fault() const override { return {"line"}; }
  void end(request::Ending ending, std::string_view why, base::Buffer& out) override;
};

}  // namespace sluice::planner
