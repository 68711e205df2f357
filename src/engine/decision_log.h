// Lines of the log about decisions: each request at level debug, denials that are sampled, and late
// replies. Texts that come from clients are made printable and cut to a bound.
#pragma once

#include <spdlog/logger.h>

#include <cstdint>
#include <span>
#include <string>

#include "base/time.h"
#include "engine/batch.h"
#include "engine/denials.h"
#include "engine/late_replies.h"
#include "policy/rule_set.h"
#include "request/session.h"

namespace sluice::engine {

// Logs at level debug how each rule of one part of the batch's plan decided.
void log_decision(spdlog::logger& log, const Batch& batch, const request::Request& request,
                  const policy::Plan::RequestPlan& part);

// Logs a denial if the sampler picks it: the rule that refused the request, or, of several, the one
// with the longest wait. Does the same for a shadow rule that would have refused it. `every`:
// DenialSampler::every, more than 0.
void log_denied(spdlog::logger& log, DenialSampler& denials, uint64_t every, const Batch& batch,
                request::Verb verb, const policy::Plan::RequestPlan& part,
                const request::Verdict& verdict);

// The entries of a request as an example for the log: bounded, and without values that may be
// secrets (of `header.x-api-key`, `session`, `query` and similar keys), for which `...` stands.
std::string example_of(std::span<const request::Entry> descriptor);

// At level debug: a reply that came later than its batch.
void log_late(spdlog::logger& log, const PendingReply& pending, const request::Verdict& verdict,
              base::Time now);

}  // namespace sluice::engine
