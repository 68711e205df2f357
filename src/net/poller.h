// Tells when sockets can be read or written, edge by edge: an epoll instance of the worker's own
// inside asio's loop. Asio's own reading tries each socket once more after each request, for
// nothing, and keeps an operation, a lock and a handler for it: together a tenth of what a request
// costs (docs/performance.md). Belongs to a worker and its thread.
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
  // Who has a socket, and asks for turns.
  class Client : public Watcher {
   public:
    // The turn that `again` asked for.
    virtual void on_turn() = 0;

   private:
    friend class Poller;
    bool queued_ = false;
  };

  // `turn_ended` is called behind each turn, of sockets or of clients. Throws
  // boost::system::system_error where the system has no descriptors left.
  Poller(boost::asio::io_context& io, std::function<void()> turn_ended);
  Poller(const Poller&) = delete;
  Poller& operator=(const Poller&) = delete;

  // False: the system refuses it (errno).
  bool add(int fd, Watcher& client);
  // The client is not called any more. Its socket leaves by being closed.
  void remove(Client& client);
  bool watch(int fd, Watcher& watcher) override { return add(fd, watcher); }
  void unwatch(Watcher& watcher) override;
  void at_turn_end(Watcher& watcher) override;
  // Calls on_turn once, after the others that wait for a turn, and after the sockets that have
  // become ready by then. So a request that is alone waits for one turn of another client, and not
  // for a turn of each.
  void again(Client& client);
  // Is a turn being served, behind which turn_ended is called?
  bool is_in_turn() const { return in_turn_; }
  // Does anybody else wait for a turn?
  bool has_others() const { return at_ < count_ || !again_.empty(); }
  // A client has had that many requests decided.
  void add_work(size_t requests) { work_ += requests; }
  // Lets the loop end.
  void stop();

 private:
  class Turn;

  void wait();
  void turns();
  size_t turn();
  void take_turns();
  void take_turns_later();
  void forget_events(const Watcher& watcher);

  // Sockets that one turn serves.
  static constexpr size_t events_max = 256;
  // Turns of clients before others of the loop (timers, what other threads post) have theirs.
  static constexpr size_t turns_max = 16;
  // While a turn serves so many sockets at least, the next one follows at once, up to so often.
  static constexpr size_t crowd_min = 4;
  static constexpr size_t crowded_turns_max = 8;
  // Requests that are decided in turns before sockets are looked at again.
  static constexpr size_t work_max = 64;

  boost::asio::posix::basic_stream_descriptor<boost::asio::io_context::executor_type> epoll_;
  std::array<epoll_event, events_max> events_;
  size_t at_ = 0, count_ = 0;  // of events_: those that have not been told
  std::deque<Client*> again_;  // by turns; null: it has gone
  size_t work_ = 0;            // requests since sockets were looked at
  bool posted_ = false, in_turn_ = false;
  const std::function<void()> turn_ended_;
  std::vector<Watcher*> at_end_, ending_;  // ending_: while they are notified
};

}  // namespace sluice::net
