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
  // Appends advice about rules that fit these settings, but may differ from what their author
  // means. For a person who checks a policy; a server does not log it.
  virtual void advise(const policy::RuleSet& /*rules*/, base::Diagnostics& /*diagnostics*/) const {}

 protected:
  RuleReview() = default;
  RuleReview(const RuleReview&) = default;
  RuleReview& operator=(const RuleReview&) = default;
};

}  // namespace sluice::protocol
