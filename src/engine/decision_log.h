// Lines of the log about decisions: each request at level debug, denials that are sampled, and late
// replies. Texts of clients are made printable and cut.
#pragma once

#include <spdlog/logger.h>

#include <cstdint>
#include <span>

#include "base/time.h"
#include "engine/batch.h"
#include "engine/denial_sampler.h"
#include "engine/pending_replies.h"
#include "policy/rule_set.h"
#include "request/session.h"

namespace sluice::engine {

// At level debug: what the rules of one part of the batch's plan said.
void log_decision(spdlog::logger& log, const Batch& batch, const request::Request& request,
                  const policy::Plan::RequestPlan& part);

// If the request was denied, and this denial is among those that are logged: the rule that refused
// it for the longest; and likewise the shadow rule that would refuse it. `every`:
// DenialSampler::every, more than 0.
void log_denied(spdlog::logger& log, DenialSampler& denials, uint64_t every, const Batch& batch,
                request::Verb verb, const policy::Plan::RequestPlan& part,
                const request::Verdict& verdict);

// At level debug: a reply that came later than its batch.
void log_late(spdlog::logger& log, const PendingReply& pending, const request::Verdict& verdict,
              base::Time now);

}  // namespace sluice::engine
