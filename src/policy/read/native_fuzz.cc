// Any text as native policy: it is read or refused with one line for each reason. What is read has
// sound limits, is written and read again as the same, and survives its review and its own
// requests.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string_view>
#include <vector>

#include "base/bounds.h"
#include "limit/decide.h"
#include "policy/read/native.h"
#include "policy/read/native_review.h"
#include "policy/read/native_write.h"
#include "testing/dialects.h"

namespace sluice::policy {
namespace {

void require(bool holds) {
  if (!holds) std::abort();
}

void check_limits(const Rule& rule) {
  require(!rule.limits.empty() && rule.limits.size() <= limit::slots_max);
  require(limit::cells(rule.limits) <= limit::cells_max);
  for (const limit::Limit& limit : rule.limits) {
    if (!limit::has_counter(limit.algorithm)) continue;
    require(limit.quota >= 1 && limit.quota <= base::bounds::quota_max);
    if (limit.algorithm == limit::Algorithm::fixed_bucket) {
      require(limit.window.us == 0 && limit.burst == limit.quota);
      continue;
    }
    require(limit.window.us >= 1 && limit.window.us <= base::bounds::window_us_max);
    const bool bucket = limit.algorithm == limit::Algorithm::token_bucket;
    if (limit.algorithm == limit::Algorithm::concurrency)
      require(limit.burst >= limit.window.us && limit.burst <= base::bounds::window_us_max);
    else
      require(bucket ? limit.burst >= 1 && limit.burst <= base::bounds::quota_max
                     : limit.burst == 0);
  }
}

void read_one(std::string_view text) {
  request::Spaces spaces;
  RuleSet rules;
  base::Diagnostics diagnostics;
  read_native(text, "fuzz", spaces, rules, diagnostics);
  for (const base::Diagnostic& d : diagnostics)
    require(to_string(d).find('\n') == std::string::npos);
  if (has_errors(diagnostics)) return;

  const std::span<const Rule> all = rules.native_rules();
  review(rules, diagnostics);
  Plan plan;
  std::vector<request::Entry> request;
  std::vector<std::string> values;
  for (const Rule& rule : all) {
    check_limits(rule);
    request.clear();
    values.clear();
    for (const Condition& condition : rule.conditions) values.push_back(condition.pattern.sample());
    for (size_t i = 0; i < values.size(); ++i)
      request.push_back({rule.conditions[i].key, values[i]});
    std::string_view error;
    // No value is known that an expression fits.
    const bool has_sample = std::ranges::none_of(
        rule.conditions, [](const Condition& c) { return c.pattern.regex() != nullptr; });
    require(error.empty() && (!has_sample || !mismatch(rule, request, error)));
    plan.clear();
    rules.match(&first_dialect, {request}, plan);
  }
  if (all.empty()) return;

  RuleSet again;
  diagnostics.clear();
  read_native("rules:\n" + native_text(all), "fuzz", spaces, again, diagnostics);
  require(!has_errors(diagnostics) && again.native_rules().size() == all.size());
  for (size_t i = 0; i < all.size(); ++i) require(same_rule(all[i], again.native_rules()[i]));
}

}  // namespace
}  // namespace sluice::policy

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  sluice::policy::read_one({reinterpret_cast<const char*>(data), size});
  return 0;
}
