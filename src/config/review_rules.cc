#include "config/review_rules.h"

#include "config/across_slots.h"
#include "policy/read/native_review.h"
#include "protocol/protocol.h"
#include "protocol/rule_review.h"
#include "protocol/settings.h"

namespace sluice::config {

void review_rules(const Config& config, const policy::RuleSet& rules,
                  base::Diagnostics& diagnostics, bool advises) {
  for (const protocol::Protocol protocol : protocol::numbers()) {
    if (describe(protocol).settings == nullptr || !config.serves(protocol)) continue;
    const auto* const its =
        dynamic_cast<const protocol::RuleReview*>(&config.settings_of(protocol));
    if (its == nullptr) continue;
    if (advises) its->advise(rules, diagnostics);
    its->review(rules, diagnostics);
  }
  warn_of_shadow_across_slots(config.store, rules, diagnostics);
  policy::review(rules, diagnostics);
}

}  // namespace sluice::config
