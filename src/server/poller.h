// Tells when sockets can be read or written, edge by edge: an epoll instance of the worker's own
// inside asio's loop. Asio's own reading tries each socket once more after each request, in vain,
// and keeps an operation, a lock and a handler for it: together a tenth of what a request costs
// (docs/performance.md). Belongs to a worker and its thread.
#pragma once

#include <sys/epoll.h>

#include <array>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/basic_stream_descriptor.hpp>
#include <cstddef>
#include <vector>

#include "store/loop.h"

namespace sluice::server {

class Poller final : public store::Loop {
 public:
  using Client = store::Watcher;

  // Throws boost::system::system_error where the system has no descriptors left.
  explicit Poller(boost::asio::io_context& io);
  Poller(const Poller&) = delete;
  Poller& operator=(const Poller&) = delete;

  // False: the system refuses it (errno).
  bool add(int fd, Client& client);
  // The client is not called any more. Its socket leaves by being closed.
  void remove(Client& client);
  bool watch(int fd, store::Watcher& watcher) override { return add(fd, watcher); }
  void unwatch(store::Watcher& watcher) override;
  void at_turn_end(store::Watcher& watcher) override;
  // Calls the client as readable once more, after the others have had their turn.
  void again(Client& client);
  // Lets the loop end.
  void stop();

 private:
  void wait();
  void turn();

  // Sockets that one turn serves.
  static constexpr size_t events_max = 256;

  boost::asio::posix::basic_stream_descriptor<boost::asio::io_context::executor_type> epoll_;
  std::array<epoll_event, events_max> events_;
  size_t at_ = 0, count_ = 0;         // of events_: those that are to be told
  std::vector<Client*> again_, now_;  // now_: while they are told
  bool posted_ = false;
  std::vector<Client*> at_end_, ending_;  // ending_: while they are told
};

}  // namespace sluice::server
