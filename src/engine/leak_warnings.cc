#include "engine/leak_warnings.h"

#include <algorithm>
#include <atomic>
#include <string>

#include "base/printable.h"

namespace sluice::engine {

namespace {

// When any worker warned last.
std::atomic<int64_t> warned_us{INT64_MIN};

constexpr size_t shown_bytes_max = 256;

bool is_due(base::Time now) {
  int64_t last = warned_us.load(std::memory_order_relaxed);
  // The clock may have been set back since.
  const bool due = last == INT64_MIN || now.us < last || now.us - last >= LeakWarnings::pause.us;
  return due && warned_us.compare_exchange_strong(last, now.us, std::memory_order_relaxed);
}

}  // namespace

void LeakWarnings::looked(const policy::Plan& plan, const policy::Plan::RequestPlan& part,
                          base::Time now) {
  for (const auto& step : plan.steps(part)) {
    const policy::Rule& rule = *step.rule;
    if (rule.mode != policy::Mode::enforce || plan.charge(step).keeps_limits ||
        rule.counts == limit::all_of(rule.limits))
      continue;
    const auto known = std::ranges::find(looks_, rule.id, &Look::rule);
    Look& look = known != looks_.end() ? *known : looks_[next_++ % looks_.size()];
    look = {rule.id, now};
    any_ = true;
  }
}

// A refusal leaks where something is left: a look passes still.
void LeakWarnings::warn(spdlog::logger& log, const policy::Plan& plan,
                        const policy::Plan::RequestPlan& part, base::Time now) {
  for (const auto& step : plan.steps(part)) {
    const policy::Rule& rule = *step.rule;
    const request::Charge& charge = plan.charge(step);
    if (rule.mode != policy::Mode::enforce || charge.keeps_limits ||
        plan.group(step).error != request::Error::none)
      continue;
    const auto look = std::ranges::find(looks_, rule.id, &Look::rule);
    if (look == looks_.end() || now.us - look->when.us >= pause.us) continue;
    const auto decisions = plan.decisions(step);
    const auto counts = [&](size_t i) {
      return charge.verb == request::Verb::count && limit::has(charge.counts, i);
    };
    // A limit that counted what it refused refuses the next look.
    bool refuses_looks = false;
    for (size_t i = 0; i < decisions.size(); ++i)
      refuses_looks |= counts(i) && decisions[i].remaining < 0;
    if (refuses_looks) continue;
    for (size_t i = 0; i < decisions.size(); ++i) {
      const limit::Decision& d = decisions[i];
      if (d.allowed || counts(i) || d.remaining <= 0) continue;
      if (!is_due(now)) return;
      log.warn(
          "rule [{}] is asked with 0 hits, and refuses reports: {} units of actor {} did not fit "
          "into the {} that are left and are not counted, so the next look passes again; give the "
          "limit `over: count`, or have the clients charge (docs/policy.md)",
          base::printable(rule.name.empty() ? rule.pattern : rule.name, shown_bytes_max),
          charge.cost, base::printable(charge.key, shown_bytes_max), d.remaining);
      return;
    }
  }
}

}  // namespace sluice::engine
