#include "engine/verdict.h"

#include "base/bounds.h"
#include "limit/decide.h"

namespace sluice::engine {

void answer_unmatched(request::Unmatched unmatched, request::Verdict& verdict) {
  using limit::Algorithm;
  using request::Unmatched;
  // As the native rules `unlimited: true` and `deny: true` have them.
  static const limit::Limit always{Algorithm::unlimited, base::bounds::quota_max, {}};
  static const limit::Limit never{Algorithm::deny, 0, {}};
  static const limit::Decision allowed = limit::decide(nullptr, always, 1, {}, nullptr);
  static const limit::Decision denied = limit::decide(nullptr, never, 1, {}, nullptr);
  if (unmatched == Unmatched::as_protocol) return;
  if (unmatched == Unmatched::error) {
    verdict.error = request::no_rule_applies;
    return;
  }
  const bool allows = unmatched == Unmatched::allow;
  verdict.matched = true;
  verdict.allowed = allows;
  verdict.tightest = allows ? &allowed : &denied;
  verdict.limit = allows ? &always : &never;
  verdict.counted = false;
  verdict.more_after = allows ? allowed.reset_after : denied.retry_after;
}

}  // namespace sluice::engine
