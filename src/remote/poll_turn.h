// Which thread polls. One has the turn; others wait for it in the order in which they came, and go
// on without it when what they wait for has happened meanwhile: the thread that has the turn
// notifies them after each round in which handlers were called.
#pragma once

#include <sluice/client.h>

#include <chrono>
#include <condition_variable>
#include <deque>
#include <future>
#include <mutex>
#include <utility>

namespace sluice::calls {

class PollTurn {
 public:
  using Clock = std::chrono::steady_clock;
  using Future = std::future<client_result>;
  static constexpr Clock::time_point for_ever = Clock::time_point::max();

  // Waits for the turn. False: the future is ready; the caller has no turn.
  bool take_unless_ready(const Future& future) { return take(for_ever, Until::ready, &future); }
  // False: `until` has passed, or another thread has called handlers.
  bool take_unless_delivered(Clock::time_point until) {
    return take(until, Until::delivered, nullptr);
  }
  void take() { take(for_ever, Until::turn, nullptr); }
  // False: another thread has it.
  bool try_take() {
    const std::lock_guard lock(mutex_);
    return !std::exchange(taken_, true);
  }

  // By the thread that has the turn, after it has called handlers.
  void notify_delivered() {
    const std::lock_guard lock(mutex_);
    std::erase_if(waiters_, [](Waiter* waiter) {
      if (!waiter->is_satisfied()) return false;
      waiter->fate = Fate::satisfied;
      waiter->changed.notify_one();
      return true;
    });
  }
  // Ends the caller's turn. It passes to the thread that has waited longest.
  void give() {
    const std::lock_guard lock(mutex_);
    if (waiters_.empty()) {
      taken_ = false;
      return;
    }
    Waiter& next = *waiters_.front();
    waiters_.pop_front();
    next.fate = Fate::has_turn;
    next.changed.notify_one();
  }

 private:
  enum class Until : unsigned char { turn, ready, delivered };
  enum class Fate : unsigned char { waits, has_turn, satisfied };
  struct Waiter {
    Until until;
    const Future* future;
    Fate fate = Fate::waits;
    std::condition_variable changed{};

    bool is_satisfied() const {
      return until == Until::delivered || (until == Until::ready && is_ready(*future));
    }
  };

  static bool is_ready(const Future& future) {
    return future.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
  }

  bool take(Clock::time_point time, Until until, const Future* future) {
    std::unique_lock lock(mutex_);
    // Under the lock, so that no later delivery is missed.
    if (future != nullptr && is_ready(*future)) return false;
    if (!taken_) return taken_ = true;
    Waiter self{until, future};
    waiters_.push_back(&self);
    const auto has_ended = [&self] { return self.fate != Fate::waits; };
    if (time == for_ever)
      self.changed.wait(lock, has_ended);
    else if (!self.changed.wait_until(lock, time, has_ended))
      std::erase(waiters_, &self);
    return self.fate == Fate::has_turn;
  }

  std::mutex mutex_;
  bool taken_ = false;
  std::deque<Waiter*> waiters_;
};

}  // namespace sluice::calls
