// Reports, edge-triggered, when sockets can be read or written: an epoll instance of the worker's
// own within asio's loop. Asio's own sockets would read once more without effect after each
// request, and use an operation, a lock and a handler for that: together a tenth of the cost of a
// request (docs/performance.md). Belongs to a worker and its thread.
#pragma once

#include <sys/epoll.h>

#include <array>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/basic_stream_descriptor.hpp>
#include <cstddef>
#include <deque>
#include <functional>
#include <vector>

#include "net/loop.h"

namespace sluice::net {

class Poller final : public Loop {
 public:
  // The owner of a socket that may ask for turns.
  class SocketOwner : public Watcher {
   public:
    // The turn for which `again` asked.
    virtual void on_turn() = 0;

   private:
    friend class Poller;
    bool queued_ = false;
  };

  // `turn_ended` is called after each turn of sockets or clients. Throws
  // boost::system::system_error if the system has no descriptor left.
  Poller(boost::asio::io_context& io, std::function<void()> turn_ended);
  Poller(const Poller&) = delete;
  Poller& operator=(const Poller&) = delete;

  // False: the system refuses it (errno).
  bool add(int fd, Watcher& client);
  // Ends the calls to the client. Its socket stays registered until it is closed.
  void remove(SocketOwner& client);
  bool watch(int fd, Watcher& watcher) override { return add(fd, watcher); }
  void unwatch(Watcher& watcher) override;
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
  // Ends the wait for sockets, so that the loop can end.
  void stop();

 private:
  class Turn;

  void wait();
  void turns();
  size_t turn();
  void take_turns();
  void take_slow_turn();
  void take_turns_later();
  void forget_events(const Watcher& watcher);

  // The most sockets that one turn serves.
  static constexpr size_t events_max = 256;
  // The most turns of clients before the loop's other handlers run (timers, posts of other
  // threads).
  static constexpr size_t turns_max = 16;
  // While a turn serves at least crowd_min sockets, the next follows at once, at most so often.
  static constexpr size_t crowd_min = 4;
  static constexpr size_t crowded_turns_max = 8;
  // With so many rounds in which others always wait, one that waits after them has its turn.
  static constexpr size_t busy_rounds_max = 16;
  // The number of requests decided in turns of clients before sockets are polled again.
  static constexpr size_t work_max = 64;

  boost::asio::posix::basic_stream_descriptor<boost::asio::io_context::executor_type> epoll_;
  std::array<epoll_event, events_max> events_;
  size_t at_ = 0, count_ = 0;       // events_[at_, count_) are not served yet
  std::deque<SocketOwner*> again_;  // in the order of their turns; null: it was removed
  std::deque<SocketOwner*> slow_;   // the same of those after all others
  size_t busy_rounds_ = 0;          // without a turn of these
  size_t work_ = 0;                 // requests since sockets were polled
  bool posted_ = false, in_turn_ = false;
  const std::function<void()> turn_ended_;
  std::vector<Watcher*> at_end_, ending_;  // ending_: those being notified
};

}  // namespace sluice::net
