#include "client/sockets.h"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <memory>
#include <system_error>
#include <utility>

#include "base/look_up.h"

namespace sluice::calls {
namespace {

constexpr size_t read_bytes = 64 << 10;
constexpr uint32_t readable = EPOLLIN, writable = EPOLLOUT;

std::string error_text(int error) {
  return std::generic_category().message(error);
}

int checked(int fd) {
  if (fd < 0) throw std::system_error(errno, std::generic_category(), "sluice::client");
  return fd;
}

}  // namespace

base::Result<std::vector<SocketAddress>> look_up(const Target& target) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const std::string service = std::to_string(target.port);
  if (const int bad = base::look_up(target.host, service, hints, &found))
    return base::Problem{"cannot find the host `" + target.host + "`: " + ::gai_strerror(bad)};
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> all(found, &::freeaddrinfo);
  std::vector<SocketAddress> addresses;
  for (const addrinfo* a = all.get(); a != nullptr; a = a->ai_next) {
    SocketAddress& address = addresses.emplace_back();
    address.size = std::min<socklen_t>(a->ai_addrlen, sizeof address.storage);
    std::memcpy(&address.storage, a->ai_addr, address.size);
  }
  return addresses;
}

Sockets::Sockets(std::optional<net::TlsClient> tls) : tls_(std::move(tls)) {
  try {
    epoll_ = checked(::epoll_create1(EPOLL_CLOEXEC));
    event_ = checked(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    timer_ = checked(::timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK));
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.u64 = wake_mark;
    checked(::epoll_ctl(epoll_, EPOLL_CTL_ADD, event_, &event));
    event.data.u64 = timer_mark;
    checked(::epoll_ctl(epoll_, EPOLL_CTL_ADD, timer_, &event));
  } catch (...) {
    for (const int fd : {epoll_, event_, timer_})
      if (fd >= 0) ::close(fd);
    throw;
  }
}

Sockets::~Sockets() {
  for (uint32_t link = 0; link < sockets_.size(); ++link) close(link);
  for (const int fd : {epoll_, event_, timer_}) ::close(fd);
}

base::Result<std::unique_ptr<net::TlsContext>> Sockets::read_tls() const {
  if (!tls_) return std::unique_ptr<net::TlsContext>();
  return net::TlsContext::open(*tls_);
}

void Sockets::connect(uint32_t link, std::vector<SocketAddress> addresses,
                      std::unique_ptr<net::TlsContext> tls, Core& core, base::Time now) {
  if (sockets_.size() <= link) sockets_.resize(link + 1);
  close(link);
  std::reverse(addresses.begin(), addresses.end());
  sockets_[link].addresses = std::move(addresses);
  sockets_[link].tls = std::move(tls);
  try_next(link, core, "the host has no address", now);
}

void Sockets::try_next(uint32_t link, Core& core, std::string problem, base::Time now) {
  Socket& socket = sockets_[link];
  const Target& target = core.target(link);
  while (!socket.addresses.empty()) {
    close(link);
    const SocketAddress address = socket.addresses.back();
    socket.addresses.pop_back();
    const int fd =
        ::socket(address.storage.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0) {
      problem = error_text(errno);
      continue;
    }
    socket.stream = net::Stream::connecting(fd, socket.tls.get(), target.host);
    const int on = 1;
    ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    ::setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
    const int result =
        ::connect(fd, reinterpret_cast<const sockaddr*>(&address.storage), address.size);
    if (result == 0 || errno == EINPROGRESS || errno == EINTR) {
      socket.phase = Phase::connecting;
      watch(link, readable | writable);
      return;
    }
    problem = error_text(errno);
  }
  close(link);
  core.on_failed(
      link,
      "cannot connect to " + target.host + " port " + std::to_string(target.port) + ": " + problem,
      now);
}

void Sockets::watch(uint32_t link, uint32_t events) {
  Socket& socket = sockets_[link];
  if (socket.awaited == events) return;
  epoll_event event{};
  event.events = events;
  event.data.u64 = link;
  ::epoll_ctl(epoll_, socket.awaited == 0 ? EPOLL_CTL_ADD : EPOLL_CTL_MOD, socket.stream.fd(),
              &event);
  socket.awaited = events;
}

void Sockets::close(uint32_t link) {
  if (link >= sockets_.size()) return;
  Socket& socket = sockets_[link];
  if (socket.stream.is_open()) socket.stream.notify_end();
  socket.stream.close();
  socket.awaited = 0;
  // What was found of it belongs to no socket any more.
  for (int i = 0; i < found_; ++i)
    if (events_[static_cast<size_t>(i)].data.u64 == link)
      events_[static_cast<size_t>(i)].events = 0;
}

void Sockets::finish_connect(uint32_t link, Core& core, base::Time now) {
  Socket& socket = sockets_[link];
  int bad = 0;
  socklen_t size = sizeof bad;
  if (::getsockopt(socket.stream.fd(), SOL_SOCKET, SO_ERROR, &bad, &size) != 0) bad = errno;
  if (bad != 0) {
    try_next(link, core, error_text(bad), now);
    return;
  }
  socket.phase = Phase::shaking_hands;
  shake_hands(link, core, now);
}

void Sockets::shake_hands(uint32_t link, Core& core, base::Time now) {
  Socket& socket = sockets_[link];
  if (socket.stream.shake_hands() < 0) {
    if (errno == EAGAIN)
      watch(link, socket.stream.write_wants_read() ? readable : writable);
    else
      try_next(link, core, socket.stream.problem(errno), now);
    return;
  }
  socket.phase = Phase::open;
  socket.addresses.clear();
  watch(link, readable);
  core.on_connected(link, now);
}

void Sockets::write(uint32_t link, Core& core, base::Time now) {
  const std::string_view all = core.output(link);
  if (link >= sockets_.size()) return;
  Socket& socket = sockets_[link];
  if (!socket.stream.is_open() || socket.phase != Phase::open) return;
  size_t written = 0;
  bool blocked = false;
  while (written < all.size() && !blocked) {
    const ssize_t n = socket.stream.write(all.substr(written));
    if (n >= 0) {
      written += static_cast<size_t>(n);
    } else {
      blocked = true;
      // Of a connection that the server has ended, reading tells the end, and what the server has
      // said before it.
      if (errno != EAGAIN && errno != EPIPE && errno != ECONNRESET) {
        core.on_failed(link, "the connection was lost: " + socket.stream.problem(errno), now);
        return;
      }
    }
  }
  core.on_written(link, written, now);
  const bool for_write = blocked && !socket.stream.write_wants_read();
  watch(link, for_write ? readable | writable : readable);
}

void Sockets::read(uint32_t link, Core& core, base::Time now) {
  Socket& socket = sockets_[link];
  ssize_t got = 0;
  do {
    got = socket.stream.read(core.read_room(link, read_bytes), read_bytes);
    if (got > 0)
      core.on_read(link, static_cast<size_t>(got), now);
    else if (got == 0)
      core.on_failed(link, "the server closed the connection", now);
    else if (errno != EAGAIN)
      core.on_failed(link, "the connection was lost: " + socket.stream.problem(errno), now);
    // What has left the socket makes it readable no more. The link may have ended meanwhile.
  } while (got > 0 && core.phase(link) >= Link::Phase::opening && socket.stream.has_pending());
}

void Sockets::wait(int milliseconds) {
  found_ = std::max(
      0, ::epoll_wait(epoll_, events_.data(), static_cast<int>(events_.size()), milliseconds));
}

void Sockets::handle(Core& core, base::Time now) {
  for (int i = 0; i < found_; ++i) {
    const epoll_event event = events_[static_cast<size_t>(i)];
    if (event.data.u64 == wake_mark) continue;  // of settle
    if (event.data.u64 == timer_mark) {
      uint64_t count = 0;
      [[maybe_unused]] const ssize_t got = ::read(timer_, &count, sizeof count);
      timer_time_ = no_time;
      continue;
    }
    if (event.events == 0) continue;
    const auto link = static_cast<uint32_t>(event.data.u64);
    const Socket& socket = sockets_[link];
    if (socket.phase != Phase::open) {
      socket.phase == Phase::connecting ? finish_connect(link, core, now)
                                        : shake_hands(link, core, now);
      continue;
    }
    // Whether a read or a write of TLS can go on may be told by the other event.
    const bool can_write = (event.events & writable) != 0 || socket.stream.write_wants_read();
    if ((event.events & ~writable) != 0 || socket.stream.read_wants_write()) read(link, core, now);
    // The link may have ended meanwhile, and its socket waits to be closed.
    if (can_write && core.phase(link) >= Link::Phase::opening) write(link, core, now);
  }
  found_ = 0;
}

void Sockets::wake() {
  if (woken_.exchange(true)) return;
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t done = ::write(event_, &one, sizeof one);
}

void Sockets::clear_wake() {
  if (!woken_.load(std::memory_order_relaxed)) return;
  uint64_t count = 0;
  [[maybe_unused]] const ssize_t got = ::read(event_, &count, sizeof count);
  woken_ = false;
}

void Sockets::set_timer(base::Time time) {
  if (time >= timer_time_) return;
  timer_time_ = time;
  itimerspec spec{};
  const int64_t us = std::max<int64_t>(1, time.us);
  spec.it_value.tv_sec = us / 1'000'000;
  spec.it_value.tv_nsec = us % 1'000'000 * 1'000;
  ::timerfd_settime(timer_, TFD_TIMER_ABSTIME, &spec, nullptr);
}

}  // namespace sluice::calls
