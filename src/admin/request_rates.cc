#include "admin/request_rates.h"

#include <algorithm>

namespace sluice::admin {

void RequestRates::add(const ProtocolTotals& totals, Clock::time_point at) {
  const std::lock_guard lock(mutex_);
  if (at - samples_[(first_ + count_ - 1) % samples_max].at < period) return;
  // The oldest one that is still wanted is `window` old, or the last one before.
  while (count_ > 1 && at - samples_[(first_ + 1) % samples_max].at >= window) {
    first_ = (first_ + 1) % samples_max;
    --count_;
  }
  samples_[(first_ + count_) % samples_max] = {at, totals};
  ++count_;
}

RequestRates::Rates RequestRates::rates(const ProtocolTotals& totals, Clock::time_point at) const {
  const std::lock_guard lock(mutex_);
  // The last sample that is at least `window` old, else the first.
  size_t place = first_;
  for (size_t i = 1; i < count_; ++i) {
    const size_t next = (first_ + i) % samples_max;
    if (at - samples_[next].at < window) break;
    place = next;
  }
  const Sample& since = samples_[place];
  Rates rates;
  rates.over_seconds = std::max(std::chrono::duration<double>(at - since.at).count(), 1e-3);
  for (size_t p = 0; p < totals.size(); ++p)
    for (size_t i = 0; i < totals[p].size(); ++i)
      if (totals[p][i] > since.totals[p][i])
        rates.per_second[p][i] =
            static_cast<double>(totals[p][i] - since.totals[p][i]) / rates.over_seconds;
  return rates;
}

}  // namespace sluice::admin
