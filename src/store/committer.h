// What a reply waits for, of a store that commits what it decided before that may be answered:
// numbers of decisions, which rise. A server in front of a store without one tells what it decides
// at once.
#pragma once

#include <cstdint>

#include "store/completion_queue.h"

namespace sluice::store {

class Committer {
 public:
  virtual ~Committer() = default;

  // Must a grant be committed before it is answered, always?
  virtual bool commits_first() const = 0;
  // What is sent now has to wait until `durable_seq` has reached this. 0: it need not wait. Any
  // thread.
  // While it cannot be committed only what `needs_commit` waits: a grant that must not be answered
  // then.
  virtual uint64_t commit_seq(bool needs_commit = false) const = 0;
  virtual uint64_t durable_seq() const = 0;
  // Up to this it could not be committed in time, and nothing is to wait for that any more.
  virtual uint64_t failed_seq() const = 0;
  // Wakes the completion queue when more has been committed than there is now, once. False: all
  // that was decided has been committed by now. The completion queue's owner's thread.
  virtual bool await_commit(CompletionQueue& completions) = 0;
};

}  // namespace sluice::store
