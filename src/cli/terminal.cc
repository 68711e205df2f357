#include "cli/terminal.h"

#include <poll.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "base/check.h"

namespace sluice::cli {
namespace {

constexpr std::string_view other_screen = "\x1b[?1049h", own_screen = "\x1b[?1049l";
constexpr std::string_view no_cursor = "\x1b[?25l", cursor = "\x1b[?25h";
// Turns off wrapping, so that a line that the terminal considers wider than we do is cut.
constexpr std::string_view no_wrap = "\x1b[?7l", wrap = "\x1b[?7h";
constexpr std::string_view home = "\x1b[H", rest_of_line = "\x1b[K", rest_of_screen = "\x1b[J";
constexpr size_t columns_max = 1000, rows_max = 1000;

// The size in bytes of the sequence at the front of `text` that a key without a character sends
// (ECMA-48: `ESC [ 1 ; 5 A`, `ESC O P`); 0: there is none.
size_t escape_bytes(std::string_view text) {
  if (!text.starts_with('\x1b')) return 0;
  size_t at = 1;
  if (text.substr(1).starts_with('['))
    for (++at; at < text.size() && (text[at] < 0x40 || text[at] > 0x7e);) ++at;
  else if (text.substr(1).starts_with('O'))
    ++at;
  return std::min(at + 1, text.size());
}

}  // namespace

Terminal::Terminal(int in, int out) : in_(in), out_(out) {
  ::sigemptyset(&held_);
  for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGTSTP, SIGCONT, SIGWINCH, SIGPIPE})
    ::sigaddset(&held_, number);
  SLUICE_CHECK(::pthread_sigmask(SIG_BLOCK, &held_, &mask_before_) == 0);
  signals_ = ::signalfd(-1, &held_, SFD_NONBLOCK | SFD_CLOEXEC);
  SLUICE_CHECK(signals_ >= 0);
  descriptors_[descriptor_count_++] = signals_;
  has_keys_ = ::isatty(in_) == 1 && ::tcgetattr(in_, &before_) == 0;
  if (has_keys_) descriptors_[descriptor_count_++] = in_;
}

Terminal::~Terminal() {
  leave();
  ::close(signals_);
  ::pthread_sigmask(SIG_SETMASK, &mask_before_, nullptr);
}

void Terminal::enter() {
  if (has_keys_) {
    termios now = before_;
    // Keys arrive at once and are not echoed; Ctrl-C and Ctrl-Z are still signals.
    now.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO);
    now.c_cc[VMIN] = 1;
    now.c_cc[VTIME] = 0;
    ::tcsetattr(in_, TCSANOW, &now);
  }
  entered_ = true;
  write(std::string(other_screen).append(no_cursor).append(no_wrap));
}

void Terminal::leave() {
  if (!entered_) return;
  entered_ = false;
  write(std::string(wrap).append(cursor).append(own_screen));
  if (has_keys_) ::tcsetattr(in_, TCSADRAIN, &before_);
}

Terminal::Size Terminal::size_of(int file) {
  winsize window{};
  if (::ioctl(file, TIOCGWINSZ, &window) != 0 || window.ws_col == 0 || window.ws_row == 0)
    return {80, 24};
  return {std::min<size_t>(window.ws_col, columns_max), std::min<size_t>(window.ws_row, rows_max)};
}

bool Terminal::draw(std::span<const std::string> lines) {
  std::string frame(home);
  // Each line is erased before it is written, because after a line that fills the window the cursor
  // is still on its last character.
  for (size_t i = 0; i < lines.size(); ++i)
    frame.append(i == 0 ? "" : "\r\n")
        .append(i + 1 == lines.size() ? rest_of_screen : rest_of_line)
        .append(lines[i]);
  return write(frame);
}

bool Terminal::write(std::string_view bytes) const {
  for (size_t written = 0; written < bytes.size();) {
    const std::string_view rest = bytes.substr(written);
    const ssize_t n = ::write(out_, rest.data(), rest.size());
    if (n > 0) {
      written += static_cast<size_t>(n);
    } else if (n < 0 && errno == EAGAIN) {
      pollfd wanted{out_, POLLOUT, 0};
      ::poll(&wanted, 1, 1000);
    } else if (n == 0 || errno != EINTR) {
      return false;
    }
  }
  return true;
}

Terminal::Event Terminal::next(std::chrono::steady_clock::time_point until) {
  std::array<pollfd, 2> wanted{};
  for (size_t i = 0; i < descriptor_count_; ++i) wanted[i] = {descriptors_[i], POLLIN, 0};
  for (;;) {
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(until - std::chrono::steady_clock::now());
    const auto ms = std::clamp<std::chrono::milliseconds::rep>(left.count(), 0, 60'000);
    const int ready = ::poll(wanted.data(), descriptor_count_, static_cast<int>(ms));
    if (ready < 0 && errno != EINTR) return {Event::Kind::end};
    if (ready == 0 && left.count() <= 60'000) return {};
    if (ready <= 0) continue;
    Event event;
    if (wanted[0].revents != 0) event = take_signal();
    if (event.kind == Event::Kind::none && wanted[1].revents != 0) event = take_keys();
    if (event.kind != Event::Kind::none) return event;
  }
}

Terminal::Event Terminal::take_signal() {
  signalfd_siginfo info{};
  if (::read(signals_, &info, sizeof info) != sizeof info) return {};
  switch (info.ssi_signo) {
    case SIGWINCH:
      return {Event::Kind::redraw};
    case SIGTSTP:
      leave();
      ::kill(::getpid(), SIGSTOP);
      return {};  // the next event is SIGCONT
    case SIGCONT:
      enter();
      return {Event::Kind::redraw};
    case SIGPIPE:
      return {};  // the next write reports it
    default:
      return {Event::Kind::end};
  }
}

Terminal::Event Terminal::take_keys() {
  char bytes[64];
  const ssize_t n = ::read(in_, bytes, sizeof bytes);
  if (n <= 0)
    return {n < 0 && (errno == EINTR || errno == EAGAIN) ? Event::Kind::none : Event::Kind::end};
  // If several keys have arrived the last one counts, unless one of them ends the program. Arrow
  // keys and similar ones send an escape sequence.
  Event event;
  for (std::string_view text(bytes, static_cast<size_t>(n)); !text.empty();) {
    if (const size_t skipped = escape_bytes(text); skipped > 0) {
      text.remove_prefix(skipped);
      continue;
    }
    if (event.key != 'q') event = {Event::Kind::key, text.front()};
    text.remove_prefix(1);
  }
  return event;
}

}  // namespace sluice::cli
