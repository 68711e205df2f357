// Is a limit so strict that another limit beside it never refuses? The answer follows from the
// bounds that the algorithms guarantee (limit/*.h). A yes is certain while the clock does not step
// back and no units are put back; a no may mean that it cannot be decided. Pure functions.
#pragma once

#include "limit/limit.h"

namespace sluice::policy {

// Does `loose` grant whenever `strict` grants? Every request that charges `loose` also charges
// `strict`, all or nothing and for the same actor. same_requests: no other requests charge
// `strict`.
bool never_refuses(const limit::Limit& loose, const limit::Limit& strict, bool same_requests);

}  // namespace sluice::policy
