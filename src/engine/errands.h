// Requests whose work is done by another thread: checking a password. Their verdicts come late,
// like those of requests that wait for units. Used by the worker's thread alone.
#pragma once

#include "engine/decider.h"
#include "engine/late_replies.h"

namespace sluice::engine {

class Errands {
 public:
  Errands(Decider& decider, LateReplies& late) : decider_(decider), late_(late) {}

  static bool is_one(request::Verb verb) { return verb == request::Verb::log_in; }
  // Starts the work; the batch's sink gets the verdict. False: it cannot be started now, and
  // `verdict` says why.
  bool begin(const Batch& batch, const request::Request& request, request::Verdict& verdict);

 private:
  bool check_password(const Batch& batch, const request::Request& request, request::Ticket ticket);

  Decider& decider_;
  LateReplies& late_;
};

}  // namespace sluice::engine
