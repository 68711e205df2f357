// Forgets spaces and lists of limits that nothing names any more (request/space.h), in rounds:
//
//   1. what no rule and no override names is noted
//   2. the live policy is put in its place again, so that every worker takes it and matches again
//      what waits; then it waits until no thread holds one from before
//   3. the store tells what its counters name
//   4. what was noted, and is still not named, is forgotten
//
// One step at a time, by the thread that keeps house.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>

#include "live/live_policy.h"
#include "request/space.h"
#include "store/catalog.h"

namespace sluice::live {

class LimitsCollector {
 public:
  // Has some thread, now or later, renew the live policy, tell the workers, and call `done`.
  using Renew = std::function<void(std::function<void()> done)>;

  // All of it outlives this, but for what `renew` keeps.
  LimitsCollector(request::Spaces& spaces, const Live& live, store::Catalog& store, Renew renew)
      : spaces_(spaces), live_(live), store_(store), renew_(std::move(renew)) {}

  // Begins a round if it is worth its time, or goes on with the one that is under way.
  void step() {
    if (state_ == State::idle && !spaces_.wants_round()) return;
    force_step();
  }
  // The same, worth its time or not.
  void force_step();

  uint64_t rounds() const { return rounds_; }

 private:
  enum class State : uint8_t { idle, passing, marking };

  request::Spaces& spaces_;
  const Live& live_;
  store::Catalog& store_;
  const Renew renew_;
  State state_ = State::idle;
  std::shared_ptr<std::atomic<bool>> renewed_;  // in this round
  request::Marks marks_;
  bool first_ = false;  // the store has not been asked in this round
  uint64_t rounds_ = 0;
};

}  // namespace sluice::live
