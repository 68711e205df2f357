// The event loop that tests of Redis have in place of a worker's: of one socket at a time, whose
// turns the test takes. For one thread.
#pragma once

#include <sys/epoll.h>
#include <unistd.h>

#include <utility>

#include "net/loop.h"

namespace sluice::redis {

// Edge by edge, as the workers' own.
class FakeLoop final : public net::Loop {
 public:
  ~FakeLoop() { ::close(epoll_); }
  bool watch(int fd, net::Watcher& watcher) override {
    epoll_event event{};
    event.events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET;
    event.data.ptr = watched_ = &watcher;
    return ::epoll_ctl(epoll_, EPOLL_CTL_ADD, fd, &event) == 0;
  }
  void unwatch(net::Watcher&) override { watched_ = nullptr; }
  void at_turn_end(net::Watcher& watcher) override { ending_ = &watcher; }

  // Tells what is new, if there is something within a moment.
  bool turn(int wait_ms = 0) {
    epoll_event event{};
    const bool told = ::epoll_wait(epoll_, &event, 1, wait_ms) > 0;
    if (told && event.data.ptr == watched_ && watched_ != nullptr)
      watched_->on_ready((event.events & (EPOLLIN | EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0,
                         (event.events & (EPOLLOUT | EPOLLHUP | EPOLLERR)) != 0,
                         (event.events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0);
    if (auto* const one = std::exchange(ending_, nullptr)) one->on_turn_end();
    return told;
  }

 private:
  const int epoll_ = ::epoll_create1(EPOLL_CLOEXEC);
  net::Watcher* watched_ = nullptr;
  net::Watcher* ending_ = nullptr;
};

}  // namespace sluice::redis
