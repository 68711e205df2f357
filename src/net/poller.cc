#include "net/poller.h"

#include <sys/epoll.h>

#include <algorithm>
#include <boost/asio/post.hpp>
#include <cerrno>
#include <utility>

namespace sluice::net {

namespace asio = boost::asio;
using boost::system::error_code;

namespace {

int make_epoll() {
  const int fd = ::epoll_create1(EPOLL_CLOEXEC);
  if (fd < 0)
    throw boost::system::system_error(errno, boost::system::system_category(), "epoll_create1");
  return fd;
}

}  // namespace

// Marks one turn. A turn of sockets may be within a turn of clients.
class Poller::Turn {
 public:
  explicit Turn(Poller& poller) : poller_(poller), outer_(std::exchange(poller.in_turn_, true)) {}
  ~Turn() {
    poller_.turn_ended_();
    poller_.in_turn_ = outer_;
  }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;

 private:
  Poller& poller_;
  const bool outer_;
};

Poller::Poller(asio::io_context& io, std::function<void()> turn_ended)
    : epoll_(io, make_epoll()), turn_ended_(std::move(turn_ended)) {
  wait();
}

bool Poller::add(int fd, Watcher& client) {
  epoll_event event{};
  event.events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET;
  event.data.ptr = &client;
  return ::epoll_ctl(epoll_.native_handle(), EPOLL_CTL_ADD, fd, &event) == 0;
}

void Poller::forget_events(const Watcher& watcher) {
  for (size_t i = at_; i < count_; ++i) {
    if (events_[i].data.ptr == &watcher) events_[i].data.ptr = nullptr;
  }
}

void Poller::remove(SocketOwner& client) {
  forget_events(client);
  if (!std::exchange(client.queued_, false)) return;
  for (auto* const queue : {&again_, &slow_})
    std::replace(queue->begin(), queue->end(), &client, static_cast<SocketOwner*>(nullptr));
}

void Poller::again(SocketOwner& client) {
  if (std::exchange(client.queued_, true)) return;
  again_.push_back(&client);
  take_turns_later();
}

void Poller::after_others(SocketOwner& client) {
  if (std::exchange(client.queued_, true)) return;
  slow_.push_back(&client);
  take_turns_later();
}

void Poller::take_turns_later() {
  if ((again_.empty() && slow_.empty()) || std::exchange(posted_, true)) return;
  asio::post(epoll_.get_executor(), [this] {
    posted_ = false;
    take_turns();
    take_turns_later();
  });
}

void Poller::take_turns() {
  const Turn its(*this);
  for (size_t turns = 0; turns < turns_max && !again_.empty(); ++turns) {
    SocketOwner* const next = again_.front();
    again_.pop_front();
    if (next == nullptr) continue;
    next->queued_ = false;
    next->on_turn();
    if (work_ >= work_max && epoll_.is_open()) turn();
  }
  take_slow_turn();
}

// One a round, behind the sockets that are ready.
void Poller::take_slow_turn() {
  if (slow_.empty()) return;
  if (epoll_.is_open()) turn();  // what has become ready since the last one
  if (slow_.empty() || (!again_.empty() && ++busy_rounds_ < busy_rounds_max)) return;
  busy_rounds_ = 0;
  SocketOwner* const next = slow_.front();
  slow_.pop_front();
  if (next == nullptr) return;
  next->queued_ = false;
  next->on_turn();
}

void Poller::unwatch(Watcher& watcher) {
  forget_events(watcher);
  std::erase(at_end_, &watcher);
  std::replace(ending_.begin(), ending_.end(), &watcher, static_cast<Watcher*>(nullptr));
}

// A whole turn is one handler of the loop, as is a wake of the engine, so a posted handler runs
// after it.
void Poller::at_turn_end(Watcher& client) {
  if (std::find(at_end_.begin(), at_end_.end(), &client) != at_end_.end()) return;
  at_end_.push_back(&client);
  if (at_end_.size() > 1) return;
  asio::post(epoll_.get_executor(), [this] {
    ending_.swap(at_end_);
    for (size_t i = 0; i < ending_.size(); ++i) {
      if (Watcher* const next = ending_[i]) next->on_turn_end();
    }
    ending_.clear();
  });
}

void Poller::stop() {
  error_code ignored;
  epoll_.close(ignored);
}

void Poller::wait() {
  epoll_.async_wait(asio::posix::descriptor_base::wait_read, [this](error_code ec) {
    if (ec) return;
    turns();
    if (epoll_.is_open()) wait();
  });
}

// After a turn with many sockets, more are likely to be ready. Polling again at once costs one
// system call; returning to the loop costs two and a handler. It stops when a client waits for the
// end of the turn, or for a turn of its own.
void Poller::turns() {
  for (size_t turns = 1; turn() >= crowd_min && turns < crowded_turns_max; ++turns) {
    if (!epoll_.is_open() || !at_end_.empty() || !again_.empty()) return;
  }
}

// Returns the number of sockets that were served.
size_t Poller::turn() {
  const Turn its(*this);
  work_ = 0;
  const int count = ::epoll_wait(epoll_.native_handle(), events_.data(), events_max, 0);
  count_ = count > 0 ? static_cast<size_t>(count) : 0;
  for (at_ = 0; at_ < count_;) {
    const epoll_event& event = events_[at_++];
    auto* const client = static_cast<Watcher*>(event.data.ptr);
    if (client == nullptr) continue;
    const auto events = event.events;
    client->on_ready((events & (EPOLLIN | EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0,
                     (events & (EPOLLOUT | EPOLLHUP | EPOLLERR)) != 0,
                     (events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0);
  }
  at_ = 0;
  return std::exchange(count_, 0);
}

}  // namespace sluice::net
