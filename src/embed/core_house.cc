// Work that no call asks for: forgetting counters, limits and overrides; the thread that does so,
// if it is asked for; and what is due.
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <chrono>

#include "embed/core.h"
#include "embed/waits.h"

namespace sluice::detail {

using embed::internal;

core::~core() {
  if (thread_ == nullptr) return;
  // A child after fork() has no such thread.
  if (process_ != getpid()) {
    static_cast<void>(thread_.release());
    return;
  }
  {
    const std::lock_guard lock(thread_->mutex);
    thread_->ending = true;
  }
  thread_->ends.notify_all();
  thread_->thread.join();
}

void core::start_sweeping() {
  thread_ = std::make_unique<Thread>();
  process_ = getpid();
  // Signals are for the threads of the program.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  try {
    thread_->thread = std::thread([this] { keep_house(); });
  } catch (...) {
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    thread_.reset();
    throw;
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

void core::keep_house() {
  const auto period = std::chrono::microseconds(store::Catalog::housekeeping_period.us);
  std::unique_lock lock(thread_->mutex);
  while (!thread_->ends.wait_for(lock, period, [this] { return thread_->ending; })) {
    lock.unlock();
    try {
      // What a step of the clock may still take back is not over.
      const time_point now =
          how_.clock ? how_.clock() : time_point(duration(clock_.earliest_now().us));
      sweep(store_->chains() / 100 + 1, now);
    } catch (...) {  // no memory: later
    }
    lock.lock();
  }
}

void core::sweep(std::size_t steps, time_point now) {
  if (!embed::is_sound(now)) return;
  {
    const std::lock_guard lock(change_);
    end_overrides(now);
  }
  const std::unique_lock lock(keep_house_, std::try_to_lock);
  if (!lock) return;  // another thread does
  store_->sweep(internal(now), steps);
  if (!spaces_->wants_round()) return;
  request::Marks marks = spaces_->begin_round();
  { const embed::Gate::Closed all_have_left(gate_); }
  for (bool first = true; !store_->mark_named(marks, first); first = false) {
  }
  spaces_->end_round(marks);
}

// Forgets limits and spaces that nothing names. Not with change_ or in the gate.
void core::collect() {
  const std::lock_guard lock(keep_house_);
  request::Marks marks = spaces_->begin_round();
  { const embed::Gate::Closed all_have_left(gate_); }
  for (bool first = true; !store_->mark_named(marks, first); first = false) {
  }
  spaces_->end_round(marks);
}

limiter_stats core::stats() const {
  const store::Stats its = store_->stats();
  return {.counters = its.counters,
          .memory_bytes = its.memory_bytes,
          .memory_bytes_max = its.memory_bytes_max,
          .swept = its.swept,
          .refused = its.refused,
          .waiting = its.waiting,
          .limits = spaces_->known()};
}

due core::run_due(time_point now) {
  if (!embed::is_sound(now)) return {0, latest_time};
  std::vector<waits::Done> done;
  due ran;
  {
    const std::lock_guard lock(change_);
    ran.next = waits_->run(now, override_ends_, done);
  }
  // Nothing of this is touched from here on: a callback may destroy the limiter.
  for (waits::Done& one : done) {
    try {
      if (one.callback) one.callback(one.id, one.answer);
    } catch (...) {  // it is the callback's own
    }
  }
  ran.called = done.size();
  return ran;
}

}  // namespace sluice::detail
