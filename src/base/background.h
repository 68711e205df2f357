// Long work in short bursts, so that a thread which does it in the background is never run for a
// whole tick of the scheduler at the cost of one that serves requests. The work calls
// `yield_if_background` between its steps; on any thread but one with a Paced that is all but
// nothing.
#pragma once

namespace sluice::base {

// The calling thread rests a moment whenever it has worked for a fifth of a millisecond.
void yield_if_background();

// While it lives, `yield_if_background` means something on this thread. Not one in another.
class Paced {
 public:
  Paced();
  ~Paced();
  Paced(const Paced&) = delete;
  Paced& operator=(const Paced&) = delete;
};

}  // namespace sluice::base
