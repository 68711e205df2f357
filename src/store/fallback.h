// What is answered when a store cannot decide: by what the rules of the group say of that
// (request::OnError). Pure but for the batch that it writes to; any thread.
#pragma once

#include "base/time.h"
#include "request/charge.h"

namespace sluice::store {

// When a refusal for want of a store says to try again.
inline constexpr base::Duration try_again_after = base::seconds(1);

// Answers a group of the batch: with `error`; or refused; or allowed as by fresh counters, with
// nothing taken. `local` is for who has a table of its own, before this is called: here it is an
// error.
void fall_back(request::Group& group, const request::Batch& batch, request::Error error,
               base::Time now);

}  // namespace sluice::store
