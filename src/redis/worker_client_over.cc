// Counters of windows that are known to have exceeded their quota (OverCache): they refuse without
// Redis.
#include <string>

#include "limit/aligned_window.h"
#include "redis/window_text.h"
#include "redis/worker_client.h"

namespace sluice::redis {

using request::Batch;
using request::Charge;
using request::Group;
using request::Verb;

namespace {

std::string_view window_name(const Charge& charge, base::Time now) {
  thread_local std::string name;
  name.clear();
  window_text::append_name(name, charge, now);
  return name;
}

}  // namespace

// Marks the group's charges whose counters are known to have exceeded their quota (OverCache).
// True: there are some.
bool WorkerClient::refuse_remembered(const Batch& batch, const Group& group, base::Time now) {
  if (group.may_wait) return false;  // a waiting group must be decided by its counter
  bool any = false;
  for (Charge& charge : batch.charges.subspan(group.charge_first, group.charge_count)) {
    if (charge.verb == Verb::put || charge.verb == Verb::charge || charge.reset_first ||
        !window_text::holds(charge))
      continue;
    const limit::Limit& limit = charge.limits.front();
    charge.from_cache = shared_.over_cache->is_over(window_name(charge, now), limit.quota, now);
    if (!charge.from_cache) continue;
    any = true;
    const base::Duration to_end{limit::aligned_window::window_end_us(limit.window.us, now) -
                                now.us};
    batch.decisions[charge.decision_first] = {false, limit.quota, -1, to_end,
                                              charge.cost > limit.quota ? base::never : to_end};
  }
  return any;
}

// Updates the OverCache from the group's answer.
void WorkerClient::remember(const Batch& batch, const Group& group, base::Time asked) {
  for (const Charge& charge : batch.charges.subspan(group.charge_first, group.charge_count)) {
    if (!window_text::holds(charge) || charge.from_cache) continue;
    const limit::Limit& limit = charge.limits.front();
    if (charge.verb == Verb::put || charge.reset_first)
      shared_.over_cache->forget(window_name(charge, asked));
    else if (charge.verb == Verb::count && !batch.decisions[charge.decision_first].allowed)
      shared_.over_cache->remember(window_name(charge, asked), limit.quota,
                                   {limit::aligned_window::window_end_us(limit.window.us, asked)},
                                   asked);
  }
}

}  // namespace sluice::redis
