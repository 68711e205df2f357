// What a protocol's own settings may be as well (protocol/settings.h): a judge of rules that do not
// fit them. Main thread, and the thread that reloads.
#pragma once

#include "base/diagnostic.h"
#include "policy/rule_set.h"

namespace sluice::protocol {

class RuleReview {
 public:
  virtual ~RuleReview() = default;
  // Appends warnings of rules that do not fit these settings. Called if a listener serves the
  // protocol.
  virtual void review(const policy::RuleSet& rules, base::Diagnostics& diagnostics) const = 0;
  // The same of rules that hold as they are written, but may not be what is meant; for who checks
  // a policy, not for the log of a server.
  virtual void advise(const policy::RuleSet& /*rules*/, base::Diagnostics& /*diagnostics*/) const {}

 protected:
  RuleReview() = default;
  RuleReview(const RuleReview&) = default;
  RuleReview& operator=(const RuleReview&) = default;
};

}  // namespace sluice::protocol
