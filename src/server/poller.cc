#include "server/poller.h"

#include <sys/epoll.h>

#include <algorithm>
#include <boost/asio/post.hpp>
#include <cerrno>

namespace sluice::server {

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

Poller::Poller(asio::io_context& io) : epoll_(io, make_epoll()) {
  wait();
}

bool Poller::add(int fd, Client& client) {
  epoll_event event{};
  event.events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET;
  event.data.ptr = &client;
  return ::epoll_ctl(epoll_.native_handle(), EPOLL_CTL_ADD, fd, &event) == 0;
}

void Poller::remove(Client& client) {
  for (size_t i = at_; i < count_; ++i) {
    if (events_[i].data.ptr == &client) events_[i].data.ptr = nullptr;
  }
  std::erase(again_, &client);
  std::replace(now_.begin(), now_.end(), &client, static_cast<Client*>(nullptr));
}

void Poller::again(Client& client) {
  if (std::find(again_.begin(), again_.end(), &client) != again_.end()) return;
  again_.push_back(&client);
  if (posted_) return;
  posted_ = true;
  asio::post(epoll_.get_executor(), [this] {
    posted_ = false;
    now_.swap(again_);
    for (size_t i = 0; i < now_.size(); ++i) {
      if (Client* const next = now_[i]) next->on_ready(true, false, false);
    }
    now_.clear();
  });
}

void Poller::unwatch(Client& client) {
  remove(client);
  std::erase(at_end_, &client);
  std::replace(ending_.begin(), ending_.end(), &client, static_cast<Client*>(nullptr));
}

// All of a turn is one handler, and so is a wake of the engine: what is posted comes behind it.
void Poller::at_turn_end(Client& client) {
  if (std::find(at_end_.begin(), at_end_.end(), &client) != at_end_.end()) return;
  at_end_.push_back(&client);
  if (at_end_.size() > 1) return;
  asio::post(epoll_.get_executor(), [this] {
    ending_.swap(at_end_);
    for (size_t i = 0; i < ending_.size(); ++i) {
      if (Client* const next = ending_[i]) next->on_turn_end();
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
    turn();
    if (epoll_.is_open()) wait();
  });
}

void Poller::turn() {
  const int count = ::epoll_wait(epoll_.native_handle(), events_.data(), events_max, 0);
  count_ = count > 0 ? static_cast<size_t>(count) : 0;
  for (at_ = 0; at_ < count_;) {
    const epoll_event& event = events_[at_++];
    auto* const client = static_cast<Client*>(event.data.ptr);
    if (client == nullptr) continue;
    const auto events = event.events;
    client->on_ready((events & (EPOLLIN | EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0,
                     (events & (EPOLLOUT | EPOLLHUP | EPOLLERR)) != 0,
                     (events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0);
  }
  at_ = count_ = 0;
}

}  // namespace sluice::server
