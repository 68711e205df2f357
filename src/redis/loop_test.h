// An event loop in place of a worker's, which the test turns. For one thread.
#pragma once

#include <sys/epoll.h>
#include <unistd.h>

#include <set>
#include <utility>

#include "net/loop.h"

namespace sluice::redis {

// Edge-triggered, like the workers' loop.
class FakeLoop final : public net::Loop {
 public:
  ~FakeLoop() { ::close(epoll_); }
  bool watch(int fd, net::Watcher& watcher) override {
    epoll_event event{};
    event.events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET;
    event.data.ptr = &watcher;
    watched_.insert(&watcher);
    return ::epoll_ctl(epoll_, EPOLL_CTL_ADD, fd, &event) == 0;
  }
  void unwatch(net::Watcher& watcher) override { watched_.erase(&watcher); }
  void at_turn_end(net::Watcher& watcher) override { ending_.insert(&watcher); }

  // Waits up to `wait_ms` for one event and reports it. False: none came.
  bool turn(int wait_ms = 0) {
    epoll_event event{};
    const bool told = ::epoll_wait(epoll_, &event, 1, wait_ms) > 0;
    auto* const watcher = static_cast<net::Watcher*>(event.data.ptr);
    if (told && watched_.contains(watcher))
      watcher->on_ready((event.events & (EPOLLIN | EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0,
                        (event.events & (EPOLLOUT | EPOLLHUP | EPOLLERR)) != 0,
                        (event.events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0);
    for (net::Watcher* const one : std::exchange(ending_, {})) one->on_turn_end();
    return told;
  }

 private:
  const int epoll_ = ::epoll_create1(EPOLL_CLOEXEC);
  std::set<net::Watcher*> watched_, ending_;
};

}  // namespace sluice::redis
