// Answers a group that a store cannot decide, as its rules say (request::OnError). Writes only to
// the batch; any thread.
#pragma once

#include "base/time.h"
#include "request/charge.h"

namespace sluice::store {

// The time after which a client that is refused as there is no store should try again.
inline constexpr base::Duration try_again_after = base::seconds(1);

// Answers a group of the batch with `error`, as refused, or as allowed by fresh counters with
// nothing taken; a group past its `answer_by` with Error::deadline, whatever its rules say.
// OnError::local must be handled before, by a store with a table of its own; here it is answered
// with `error`.
void fall_back(request::Group& group, const request::Batch& batch, request::Error error,
               base::Time now);

}  // namespace sluice::store
