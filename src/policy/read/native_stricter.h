// Is one limit so strict that another beside it can never be the one that refuses? Answered from
// what the algorithms promise (the bounds in limit/*.h), so a yes is certain while the clock does
// not step back and nothing is put back; a no may mean that it cannot be decided. Pure.
#pragma once

#include "limit/limit.h"

namespace sluice::policy {

// Whenever `strict` grants, so does `loose`: both are charged by every request that `loose` sees,
// all or nothing and per the same actor. same_requests: `strict` sees no others.
bool never_refuses(const limit::Limit& loose, const limit::Limit& strict, bool same_requests);

}  // namespace sluice::policy
