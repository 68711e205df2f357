#include "metrics/statsd.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <utility>

#include "base/look_up.h"

namespace sluice::metrics {
namespace {

// A name may move.
constexpr auto resolve_period = std::chrono::seconds(60);

using Addresses = std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)>;

Addresses look_up(const std::string& host, uint16_t port, int family, int type) {
  addrinfo hints{};
  hints.ai_family = family;
  hints.ai_socktype = type;
  addrinfo* found = nullptr;
  if (base::look_up(host, std::to_string(port), hints, &found) != 0) found = nullptr;
  return {found, &::freeaddrinfo};
}

}  // namespace

bool StatsdBatch::add(std::string_view line) {
  if (lines_ > 0 && text_.size() + 1 + line.size() > bytes_max) return false;
  if (lines_++ > 0) text_ += '\n';
  text_ += line;
  return true;
}

void StatsdBatch::clear() {
  text_.clear();
  lines_ = 0;
}

StatsdSender::StatsdSender(Options options, Feed feed)
    : options_(std::move(options)),
      feed_(std::move(feed)),
      wake_fd_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

StatsdSender::~StatsdSender() {
  stopping_ = true;
  woken_ = false;
  wake();
  if (thread_.joinable()) thread_.join();
  disconnect();
  if (wake_fd_ >= 0) ::close(wake_fd_);
}

void StatsdSender::start() {
  thread_ = std::thread([this] { run(); });
}

void StatsdSender::wake() {
  if (woken_.exchange(true, std::memory_order_relaxed)) return;
  const uint64_t one = 1;
  [[maybe_unused]] const auto n = ::write(wake_fd_, &one, sizeof one);
}

void StatsdSender::run() {
  const Put put = [this](std::string_view line) { take(line); };
  const bool is_periodic = options_.period.count() > 0;
  const std::chrono::milliseconds look = is_periodic ? options_.period : look_period;
  const std::chrono::milliseconds collected = is_periodic ? options_.period.zero() : flush_period;
  for (bool last = false; !last;) {
    last = stopping_;
    pollfd waker{wake_fd_, POLLIN, 0};
    if (!last) ::poll(&waker, 1, static_cast<int>(look.count()));
    uint64_t count = 0;
    [[maybe_unused]] const auto n = ::read(wake_fd_, &count, sizeof count);
    woken_.store(false, std::memory_order_relaxed);
    feed_(put);
    const auto now = Clock::now();
    if (!batch_.empty() && (last || now - first_line_ >= collected)) flush();
    if (options_.tcp && socket_ >= 0 && now - used_ >= idle_max) disconnect();
  }
}

void StatsdSender::take(std::string_view line) {
  if (!batch_.add(line)) {
    flush();
    batch_.add(line);
  }
  if (batch_.lines() == 1) first_line_ = Clock::now();
}

void StatsdSender::flush() {
  const bool sent = options_.tcp ? send_stream() : send_datagram();
  (sent ? sent_ : lost_).fetch_add(batch_.lines(), std::memory_order_relaxed);
  batch_.clear();
}

// Names are looked up now and then; while there is no address lines are lost.
bool StatsdSender::resolve() {
  const auto now = Clock::now();
  if (now < resolve_again_) return resolved_;
  const auto found = look_up(options_.host, options_.port, AF_INET, SOCK_DGRAM);
  if (found) {
    sockaddr_in address{};
    std::copy_n(reinterpret_cast<const char*>(found->ai_addr), sizeof address,
                reinterpret_cast<char*>(&address));
    address_ = address.sin_addr.s_addr;
    resolved_ = true;
  }
  resolve_again_ = Clock::now() + (found ? Clock::duration(resolve_period) : patience);
  return resolved_;
}

// Not a connected socket: that one would receive the error of a port where no process listens, and
// not send.
bool StatsdSender::send_datagram() {
  if (!resolve()) return false;
  if (socket_ < 0) socket_ = ::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (socket_ < 0) return false;
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(options_.port);
  address.sin_addr.s_addr = address_;
  return ::sendto(socket_, batch_.text().data(), batch_.text().size(), MSG_DONTWAIT,
                  reinterpret_cast<const sockaddr*>(&address), sizeof address) >= 0;
}

bool StatsdSender::send_stream() {
  if (socket_ < 0 && !connect()) return false;
  const std::string text = batch_.text() + "\n";
  for (size_t done = 0; done < text.size();) {
    const ssize_t n = ::send(socket_, text.data() + done, text.size() - done, MSG_NOSIGNAL);
    if (n >= 0) {
      done += static_cast<size_t>(n);
    } else if (errno != EINTR) {
      disconnect();
      return false;
    }
  }
  used_ = Clock::now();
  return true;
}

bool StatsdSender::connect() {
  if (Clock::now() < try_again_) return false;
  const auto found = look_up(options_.host, options_.port, AF_UNSPEC, SOCK_STREAM);
  for (const addrinfo* a = found.get(); a != nullptr; a = a->ai_next) {
    socket_ = ::socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (socket_ < 0) continue;
    // Linux bounds connect(2) by it as well.
    const timeval limit{.tv_sec = std::chrono::seconds(1).count(), .tv_usec = 0};
    ::setsockopt(socket_, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
    if (::connect(socket_, a->ai_addr, a->ai_addrlen) == 0) return true;
    disconnect();
  }
  try_again_ = Clock::now() + patience;
  return false;
}

void StatsdSender::disconnect() {
  if (socket_ >= 0) ::close(std::exchange(socket_, -1));
}

void StatsdSender::collect(Page& page) const {
  page.counter("sluice_statsd_lines_total", "Lines for statsd, by what became of them.",
               static_cast<double>(sent_.load(std::memory_order_relaxed)), {{"outcome", "sent"}});
  page.counter("sluice_statsd_lines_total", "", static_cast<double>(lost_.load()),
               {{"outcome", "lost"}});
}

}  // namespace sluice::metrics
