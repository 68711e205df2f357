#include "protocol/envoy/dialect.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>

#include "protocol/envoy/rules.h"

namespace sluice::envoy {
namespace {

// An override has a single limit, because a response shows one for each descriptor. With a counter
// it must have an aligned window, because only windows count refused hits.
std::optional<policy::LimitsProblem> check_override(std::span<const limit::Limit> limits) {
  if (limits.size() != 1)
    return policy::LimitsProblem{"limits", "a limit of Envoy's is replaced by one limit"};
  const limit::Limit& limit = limits.front();
  if (!limit::has_counter(limit.algorithm)) return std::nullopt;
  if (limit.algorithm != limit::Algorithm::aligned_window)
    return policy::LimitsProblem{
        "limits[0].algorithm",
        "a limit of Envoy's is replaced by one of algorithm aligned_window, unlimited or deny"};
  if (limit.calendar)
    return policy::LimitsProblem{
        "limits[0].window",
        "is one of the calendar, and a limit of Envoy's is replaced by one with a length of time; "
        "write `30d` for a month's length, or the window of the calendar into the limit's file"};
  if (limit.window.us % 1'000'000 != 0)
    return policy::LimitsProblem{"limits[0].window", "a limit of Envoy's has whole seconds"};
  if (limit.quota > UINT32_MAX)
    return policy::LimitsProblem{"limits[0].quota", "Envoy counts to 4294967295"};
  return std::nullopt;
}

// Puts the entries into the order that rules.h describes; `domain` may be at any place.
void arrange(std::vector<request::Entry>& written) {
  const auto is_domain = [](const request::Entry& entry) { return entry.key == domain_entry; };
  request::Entry domain{domain_entry, {}};
  if (const auto at = std::find_if(written.begin(), written.end(), is_domain);
      at != written.end()) {
    domain = *at;
    written.erase(at);
  }
  std::reverse(written.begin(), written.end());
  written.push_back(domain);
}

}  // namespace

constinit const policy::Dialect dialect = {
    .name = "envoy",
    .override_algorithm = limit::Algorithm::aligned_window,
    .check_override = check_override,
    .arrange = arrange,
    .unmatched = "Envoy's protocol answers OK.",
};

}  // namespace sluice::envoy
