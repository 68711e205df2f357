#include "net/signals.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <system_error>
#include <utility>

#include "base/check.h"

namespace sluice::net {

namespace {

std::atomic<int> to_loop{-1};
static_assert(std::atomic<int>::is_always_lock_free, "used by a signal handler");

extern "C" void sluice_note_signal(int number) {
  const int error = errno;
  const auto byte = static_cast<unsigned char>(number);
  // Past what a pipe holds the signal is lost: its kind has come thousands of times.
  [[maybe_unused]] const ssize_t written = ::write(to_loop, &byte, 1);
  errno = error;
}

void set_action(int number, void (*what)(int)) {
  struct sigaction action {};
  action.sa_handler = what;
  action.sa_flags = SA_RESTART;
  ::sigfillset(&action.sa_mask);
  ::sigaction(number, &action, nullptr);
}

}  // namespace

Signals::Signals(EventLoop& loop, std::vector<int> numbers, std::function<void(int)> on_signal)
    : loop_(loop), numbers_(std::move(numbers)), on_signal_(std::move(on_signal)) {
  SLUICE_CHECK(to_loop == -1);
  if (::pipe2(pipe_, O_CLOEXEC | O_NONBLOCK) != 0)
    throw std::system_error(errno, std::generic_category(), "pipe2");
  if (!loop_.watch(pipe_[0], *this)) {
    const int error = errno;
    for (const int end : pipe_) ::close(end);
    throw std::system_error(error, std::generic_category(), "epoll_ctl");
  }
  to_loop = pipe_[1];
  for (const int number : numbers_) set_action(number, sluice_note_signal);
}

Signals::~Signals() {
  for (const int number : numbers_) set_action(number, SIG_DFL);
  to_loop = -1;
  loop_.unwatch(*this);
  for (const int end : pipe_) ::close(end);
}

void Signals::on_ready(bool /*readable*/, bool /*writable*/, bool /*ended*/) {
  std::array<unsigned char, 64> numbers{};
  for (;;) {
    const ssize_t count = ::read(pipe_[0], numbers.data(), numbers.size());
    if (count <= 0) return;
    for (ssize_t i = 0; i < count; ++i) on_signal_(numbers[static_cast<size_t>(i)]);
  }
}

}  // namespace sluice::net
