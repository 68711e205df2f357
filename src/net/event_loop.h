// The event loop of a thread: one epoll instance for its sockets, its timers and the tasks that
// other threads post. Sockets are watched edge-triggered for both directions from the start, so
// that a request changes nothing of what is watched: one that comes alone costs a wait, a read and
// a write. Made on any thread; belongs to the one that runs it, which may be another. `post` and
// `stop` may be called from any thread, all other functions on the loop's own thread, or while no
// thread runs it.
//
// A round serves, in this order: sockets that are ready, timers that are due, tasks, clients that
// asked for a turn, and those that wait for the end of the turn. Each of the five is bounded, and
// what is left has the next round, which does not sleep then.
#pragma once

#include <sys/epoll.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <utility>
#include <vector>

#include "net/loop.h"

namespace sluice::net {

class Timer;

class EventLoop final : public Loop {
 public:
  using Task = std::function<void()>;

  // The owner of a socket that may ask for turns.
  class SocketOwner : public Watcher {
   public:
    // The turn for which `again` asked.
    virtual void on_turn() = 0;

   private:
    friend class EventLoop;
    bool queued_ = false;
  };

  // `turn_ended` is called after each turn of sockets or clients. Opens three descriptors; throws
  // std::system_error if the system has none left.
  explicit EventLoop(std::function<void()> turn_ended = {});
  ~EventLoop() override;
  EventLoop(const EventLoop&) = delete;
  EventLoop& operator=(const EventLoop&) = delete;

  // Serves until `stop`.
  void run();
  // Serves a round without waiting for anything.
  void run_ready() { round(false); }
  // Has `run` return: after what is being served now, nothing more is. Tasks that have not run are
  // destroyed with the loop.
  void stop();
  // Has the loop run the task, after those that were posted before it. Never from within: a task
  // that is posted by one has the next round. Without bound: who posts has one.
  void post(Task task);

  bool watch(int fd, Watcher& watcher) override;
  void unwatch(Watcher& watcher) override;
  // As unwatch, and ends the turns for which the client asked.
  void remove(SocketOwner& client);
  // Before the close of a watched socket that others hold as well: it would stay registered.
  void unregister(int fd);
  void at_turn_end(Watcher& watcher) override;
  // Has on_turn called once, after the clients that wait for a turn already, and after the sockets
  // that are ready by then. So a client with a single request waits for one turn of another client,
  // not for a turn of each.
  void again(SocketOwner& client);
  // The same, but after all that wait for a turn, and one a round: for work that takes long, as a
  // handshake of TLS.
  void after_others(SocketOwner& client);
  // Is a turn under way, after which turn_ended is called?
  bool is_in_turn() const { return in_turn_; }
  // Do other sockets or clients wait to be served?
  bool has_others() const { return at_ < count_ || !again_.empty(); }
  // Counts requests that a client had decided in its turn.
  void add_work(size_t requests) { work_ += requests; }

 private:
  friend class Timer;
  class Turn;

  // A descriptor of the loop's own.
  class Descriptor {
   public:
    Descriptor(int fd, const char* maker);
    ~Descriptor();
    Descriptor(const Descriptor&) = delete;
    Descriptor& operator=(const Descriptor&) = delete;
    operator int() const { return fd_; }

   private:
    const int fd_;
  };

  void round(bool may_sleep);
  void turn(bool may_sleep);
  bool begins_sleep();
  void wake();
  void run_tasks();
  void take_turns();
  void take_slow_turn();
  void end_turn();
  void forget_events(const Watcher& watcher);
  void add_own(int fd, void* mark);
  void put(Timer& timer);
  void take_out(Timer& timer);
  void sift(Timer& timer, size_t place);
  void arm();
  void run_timers();

  // The most sockets that one turn serves.
  static constexpr size_t events_max = 256;
  // The most turns of clients in a round.
  static constexpr size_t turns_max = 16;
  // With so many rounds in which others always wait, one that waits after them has its turn.
  static constexpr size_t busy_rounds_max = 16;
  // The number of requests decided in turns of clients before sockets are polled again.
  static constexpr size_t work_max = 64;

  const Descriptor epoll_, wakes_, alarm_;
  std::array<epoll_event, events_max> events_;
  size_t at_ = 0, count_ = 0;       // events_[at_, count_) are not served yet
  std::deque<SocketOwner*> again_;  // in the order of their turns
  std::deque<SocketOwner*> slow_;   // the same of those after all others
  size_t busy_rounds_ = 0;          // without a turn of these
  size_t work_ = 0;                 // requests since sockets were polled
  bool in_turn_ = false;
  const std::function<void()> turn_ended_;
  // ending_: those being notified; null: it was, or is gone
  std::vector<Watcher*> at_end_, ending_;
  std::vector<Timer*> timers_;  // a heap, the earliest first
  // When alarm_ rings; never later than the first timer while the loop sleeps.
  std::chrono::steady_clock::time_point rings_at_ = std::chrono::steady_clock::time_point::max();
  bool rang_ = false;
  std::mutex mutex_;
  std::vector<Task> tasks_;  // guarded by mutex_
  std::vector<Task> running_;
  std::atomic<bool> has_tasks_{false}, sleeps_{false}, stops_{false};
};

// Calls a function on its loop's thread at a time. Used on that thread; outlived by its loop.
class Timer {
 public:
  using Time = std::chrono::steady_clock::time_point;

  // `on_due` may destroy the timer, as its last action: what it captured goes with it.
  Timer(EventLoop& loop, std::function<void()> on_due) : loop_(loop), on_due_(std::move(on_due)) {}
  ~Timer() { cancel(); }
  Timer(const Timer&) = delete;
  Timer& operator=(const Timer&) = delete;

  // Has the function called once at that time or soon after it, from the loop, also if the time is
  // over. In place of a time that was set before.
  void set(Time at);
  void set_after(std::chrono::steady_clock::duration span) {
    set(std::chrono::steady_clock::now() + span);
  }
  // It is not called any more.
  void cancel();
  bool is_set() const { return place_ != nowhere; }
  // The time for which it is set.
  Time due() const { return at_; }

 private:
  friend class EventLoop;
  static constexpr size_t nowhere = SIZE_MAX;

  EventLoop& loop_;
  const std::function<void()> on_due_;
  Time at_{};
  size_t place_ = nowhere;  // in the loop's timers_
};

}  // namespace sluice::net
