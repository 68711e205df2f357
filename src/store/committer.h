// The commits that replies wait for, in a store that commits decisions before they may be answered.
// Commits have rising numbers. With a store that has no committer replies are sent at once.
#pragma once

#include <cstdint>

#include "store/completion_queue.h"

namespace sluice::store {

class Committer {
 public:
  virtual ~Committer() = default;

  // Must every grant be committed before it is answered?
  virtual bool commits_first() const = 0;
  // A reply that is about to be sent has to wait until `durable_seq` has reached this number. 0: it
  // need not wait. While commits fail only a reply with `needs_commit` waits, a grant that must not
  // be answered then. Any thread.
  virtual uint64_t commit_seq(bool needs_commit = false) const = 0;
  virtual uint64_t durable_seq() const = 0;
  // Up to this number commits failed; replies must not wait for them any longer.
  virtual uint64_t failed_seq() const = 0;
  // Has the next commit wake the completion queue, once. False: all decisions are committed
  // already, so no wake comes. On the thread of the queue's owner.
  virtual bool await_commit(CompletionQueue& completions) = 0;
};

}  // namespace sluice::store
