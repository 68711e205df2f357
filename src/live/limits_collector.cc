#include "live/limits_collector.h"

namespace sluice::live {

void LimitsCollector::force_step() {
  switch (state_) {
    case State::idle:
      marks_ = spaces_.begin_round();
      renewed_ = std::make_shared<std::atomic<bool>>(false);
      state_ = State::passing;
      renew_([renewed = renewed_] { renewed->store(true); });
      break;
    case State::passing:
      if (!renewed_->load() || !live_.is_only_one()) break;
      state_ = State::marking;
      first_ = true;
      break;
    case State::marking:
      if (!store_.mark_named(marks_, std::exchange(first_, false))) break;
      spaces_.end_round(marks_);
      marks_ = {};
      state_ = State::idle;
      ++rounds_;
      break;
  }
}

}  // namespace sluice::live
