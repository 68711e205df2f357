#include "redis/send_window.h"

#include <algorithm>
#include <utility>

namespace sluice::redis {

namespace {

// The first window is no smaller: the rate of a connection that sends little to a Redis that others
// saturate says nothing of what Redis can do.
constexpr size_t first_least = 16;
// A smaller window does not grow by one: of a Redis that answers only a few commands in a deadline,
// the last one would be late.
constexpr size_t small = 4;
constexpr int64_t kept_deadlines = 20;

}  // namespace

void SendWindow::written(int64_t at_us) {
  if (answered_ == sent_ || (!turns_.empty() && turns_[turns_.size() - 1].until == sent_)) return;
  turns_.push({sent_, at_us});
  if (first_guess_ > 0 && at_us - heard_us_ >= deadline_us_ / 16)
    begin(std::exchange(first_guess_, 0), at_us);
}

void SendWindow::answered(uint64_t count, int64_t at_us) {
  const uint64_t first = answered_ + 1;
  answered_ += count;
  const int64_t oldest_us = turns_.empty() ? at_us : turns_[0].at_us;
  while (!turns_.empty() && turns_[0].until < answered_) turns_.pop();
  const int64_t newest_us = turns_.empty() ? at_us : turns_[0].at_us;
  if (!turns_.empty() && turns_[0].until == answered_) turns_.pop();

  least_us_ = std::min(least_us_, at_us - newest_us);
  // A process that has not run for a while then answers, or reads, all that has come meanwhile.
  // Where commands queue, there is an old one among those without an answer.
  const bool queued = !turns_.empty() && at_us - turns_[0].at_us - least_us_ >= deadline_us_ / 16;
  estimate(queued, oldest_us, count, at_us);
  if (!is_known() || first <= from_) return;
  longest_us_ = std::max(longest_us_, at_us - oldest_us);
  if (until_ == 0) until_ = sent_;
  if (answered_ >= until_) adjust(at_us);
}

// `queued`: commands queue at Redis. The first answers of which that is true begin a span, so that
// a pause of Redis before them is not taken for its rate.
void SendWindow::estimate(bool queued, int64_t from_us, uint64_t count, int64_t at_us) {
  const int64_t took_us = at_us - std::max(heard_us_, from_us);
  first_guess_ = 0;
  if (queued && queued_) {
    span_us_ += took_us;
    span_answers_ += count;
  } else {
    span_us_ = 0;
    span_answers_ = 0;
    if (queued && !is_known()) first_guess_ = answered_in_time(count, took_us);
  }
  queued_ = queued;
  heard_us_ = at_us;
  if (span_us_ < std::max<int64_t>(deadline_us_ / 8, 1)) return;
  begin(answered_in_time(span_answers_, span_us_), at_us);
  span_us_ = 0;
  span_answers_ = 0;
}

// What Redis answers in seven eighths of the deadline, if it has answered so many in that time.
size_t SendWindow::answered_in_time(uint64_t count, int64_t took_us) const {
  const int64_t can = static_cast<int64_t>(count) * most_us() / std::max<int64_t>(took_us, 1);
  return std::max(static_cast<size_t>(can), first_least);
}

// Not of a connection with little under way.
void SendWindow::begin(size_t can, int64_t at_us) {
  if (window_ / 2 > can && sent_ - answered_ > can / 2) set(can, at_us);
}

void SendWindow::adjust(int64_t at_us) {
  if (longest_us_ >= deadline_us_) careful_until_us_ = at_us + kept_deadlines * deadline_us_;
  const int64_t aim_us = deadline_us_ * (at_us < careful_until_us_ ? 3 : 5) / 8;
  // The window whose longest delay is that one, if the delay is proportional to it.
  const auto sized_for = [this](int64_t delay_us) {
    const int64_t longest_us = std::max<int64_t>(longest_us_, 1);
    return static_cast<size_t>((static_cast<int64_t>(window_) * delay_us + longest_us / 2) /
                               longest_us);
  };
  if (reached_) {
    // It grows by a part of what is lacking: as answers come in batches, delays are short by
    // chance.
    const size_t sized = std::max<size_t>(sized_for(aim_us), 1);
    const size_t next =
        sized <= window_ ? sized : window_ + std::min((sized - window_ + 3) / 4, window_);
    set(next + (next >= small ? 1 : 0), at_us);
  } else if (longest_us_ > most_us()) {
    set(std::max<size_t>(sized_for(aim_us), 1), at_us);
  } else if (at_us - used_us_ >= kept_deadlines * deadline_us_) {
    window_ = none;
  } else {
    measure();
  }
}

void SendWindow::set(size_t window, int64_t at_us) {
  window_ = std::min(window, none);
  used_us_ = at_us;
  reached_ = false;
  measure();
}

}  // namespace sluice::redis
