// What a request would be answered now, and by which rules; nothing is charged. Made by a thread
// that may wait; its answer is there once AdminQueries::ask is back.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "admin/counters.h"
#include "engine/admin_query.h"

namespace sluice::admin {

struct ExplainedRequest {
  const policy::Dialect* dialect = nullptr;  // as RuleSet::match
  std::vector<std::pair<std::string, std::string>> descriptor;
  int64_t cost = 1;
  std::vector<limit::Limit> limits;  // that come along
};

// Of a rule that applies: what its limits would answer.
struct ExplainedStep {
  const policy::Rule* rule = nullptr;
  std::string counter;       // its stored name; empty: it has none
  std::string actor;         // policy::actor_name
  uint64_t override_id = 0;  // of what stands in place of the rule's limits; 0: nothing does
  std::string error;         // not empty: its store cannot decide; there are no decisions
  std::vector<CounterLimit> decisions;
};

struct ExplainedVerdict {
  bool allowed = false, matched = false;
  std::string error;  // not empty: it could not be decided
  int64_t remaining = 0;
  base::Duration retry_after = base::never, reset_after = base::never;
};

class ExplainQuery final : public engine::AdminQuery {
 public:
  ExplainQuery(std::shared_ptr<const live::LivePolicy> policy, ExplainedRequest request);

  // As rules see it, overrides aside; valid as long as this.
  policy::Matching matching() const;
  const std::vector<ExplainedStep>& steps() const { return steps_; }
  const ExplainedVerdict& verdict() const { return verdict_; }

 protected:
  bool next(policy::Plan& plan, const engine::QueryContext& asking) override;

 private:
  void plan(policy::Plan& plan, const policy::Overrides* overrides);
  void read(const policy::Plan& plan, const store::Store& store);

  const ExplainedRequest request_;
  std::vector<request::Entry> entries_;  // views into it
  request::Request looked_at_;
  base::Time now_{};  // when it was asked
  bool asked_ = false;
  std::vector<policy::OwnLimits> own_;  // of the step's override, where it has one
  std::vector<ExplainedStep> steps_;
  ExplainedVerdict verdict_;
};

}  // namespace sluice::admin
