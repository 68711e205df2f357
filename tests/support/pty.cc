#include "tests/support/pty.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>

#include "tests/support/fail.h"

namespace sluice::tests {
void Screen::feed(std::string_view bytes) {
  for (const char c : bytes) {
    if (pending_.empty() && c != '\x1b') {
      put(c);
      continue;
    }
    pending_ += c;
    // A sequence ends with a letter.
    const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    if (pending_.size() > 1 && pending_[1] != '[')
      ++unknown_;
    else if (!letter)
      continue;
    else if (!obey(std::string_view(pending_).substr(2)))
      ++unknown_;
    pending_.clear();
  }
}

void Screen::put(char c) {
  if (c == '\r') {
    column_ = 0;
  } else if (c == '\n') {
    if (++row_ == lines_.size()) lines_.emplace_back();
  } else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
    ++unknown_;
  } else {
    Line& line = lines_[row_];
    const bool continues = (static_cast<unsigned char>(c) & 0xc0) == 0x80;
    if (continues && column_ > 0) {
      line[std::min(column_, columns_) - 1] += c;
      return;
    }
    // After the last column the cursor stays on it, and the next character replaces that one.
    const size_t at = std::min(column_, columns_ - 1);
    if (line.size() <= at) line.resize(at + 1, " ");
    line[at] = c;
    column_ = at + 1;
  }
}

bool Screen::obey(std::string_view sequence) {
  const bool on = sequence.ends_with('h');
  if (sequence == "?1049h" || sequence == "?1049l") {
    other_ = on;
    lines_.assign(1, {});
    row_ = column_ = 0;
  } else if (sequence == "?25h" || sequence == "?25l") {
    cursor_ = on;
  } else if (sequence == "?7h" || sequence == "?7l") {
    wraps_ = on;
  } else if (sequence == "H") {
    row_ = column_ = 0;
  } else if (sequence == "K") {
    lines_[row_].resize(std::min({lines_[row_].size(), column_, columns_ - 1}));
  } else if (sequence == "J") {
    lines_[row_].resize(std::min({lines_[row_].size(), column_, columns_ - 1}));
    lines_.resize(row_ + 1);
  } else if (!sequence.ends_with('m')) {
    return false;
  }
  return true;
}

std::vector<std::string> Screen::lines() const {
  std::vector<std::string> all;
  for (const Line& line : lines_) {
    std::string& text = all.emplace_back();
    for (const std::string& character : line) text += character;
  }
  return all;
}

std::string Screen::text() const {
  std::string text;
  for (const std::string& line : lines()) text += line + "\n";
  return text;
}

Pty::Pty(std::vector<std::string> arguments, std::map<std::string, std::string> environment,
         Size size, const std::string& program) {
  environment.try_emplace("TERM", "xterm-256color");
  for (const char* name : {"PATH", "ASAN_OPTIONS", "UBSAN_OPTIONS", "TSAN_OPTIONS", "LSAN_OPTIONS"})
    if (const char* value = std::getenv(name)) environment.try_emplace(name, value);
  std::vector<std::string> variables;
  for (const auto& [name, value] : environment) variables.push_back(name + "=" + value);
  arguments.insert(arguments.begin(), program);
  std::vector<char*> argv, envp;
  for (auto& text : arguments) argv.push_back(text.data());
  for (auto& text : variables) envp.push_back(text.data());
  argv.push_back(nullptr);
  envp.push_back(nullptr);

  master_ = ::posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
  if (master_ < 0 || ::grantpt(master_) != 0 || ::unlockpt(master_) != 0) fail("posix_openpt");
  char name[128];
  if (::ptsname_r(master_, name, sizeof name) != 0) fail("ptsname");
  // Held open here as well, so that `mode` can read how the program left the terminal.
  slave_ = ::open(name, O_RDWR | O_NOCTTY | O_CLOEXEC);
  if (slave_ < 0) fail("open the terminal");
  resize(size);
  pid_ = ::fork();
  if (pid_ < 0) fail("fork");
  if (pid_ == 0) {  // only what is safe after a fork of a program with threads
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::setsid() < 0 || ::ioctl(slave_, TIOCSCTTY, 0) != 0) ::_exit(126);
    for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) ::dup2(slave_, fd);
    ::execve(argv[0], argv.data(), envp.data());
    ::_exit(127);
  }
}

Pty::~Pty() {
  if (!has_ended()) {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  ::close(slave_);
  ::close(master_);
}

void Pty::type(std::string_view keys) const {
  if (::write(master_, keys.data(), keys.size()) != static_cast<ssize_t>(keys.size())) fail("type");
}

void Pty::resize(Size size) {
  screen_.resize(size.columns);
  const winsize window{size.rows, size.columns, 0, 0};
  if (::ioctl(master_, TIOCSWINSZ, &window) != 0) fail("resize");
}

void Pty::signal(int number) const {
  if (status_ || ::kill(pid_, number) != 0) fail("kill");
}

termios Pty::mode() const {
  termios mode{};
  if (::tcgetattr(slave_, &mode) != 0) fail("tcgetattr");
  return mode;
}

// False: nothing arrived within 20 ms.
bool Pty::read_some() {
  pollfd wanted{master_, POLLIN, 0};
  if (::poll(&wanted, 1, 20) <= 0) return false;
  char bytes[8192];
  const ssize_t n = ::read(master_, bytes, sizeof bytes);
  if (n <= 0) return false;
  output_.append(bytes, static_cast<size_t>(n));
  screen_.feed({bytes, static_cast<size_t>(n)});
  return true;
}

bool Pty::has_ended() {
  int status = 0;
  if (!status_ && ::waitpid(pid_, &status, WNOHANG) == pid_)
    status_ = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return status_.has_value();
}

bool Pty::await(const std::function<bool(const Screen&)>& so, Deadline deadline) {
  while (!so(screen_)) {
    if (read_some()) continue;
    if (has_ended() && !read_some()) return so(screen_);
    if (std::chrono::steady_clock::now() > deadline) return false;
  }
  return true;
}

bool Pty::shows(std::string_view text, Deadline deadline) {
  return await([&](const Screen& s) { return s.text().find(text) != std::string::npos; }, deadline);
}

bool Pty::await_stop(Deadline deadline) {
  while (std::chrono::steady_clock::now() < deadline) {
    read_some();
    int status = 0;
    if (::waitpid(pid_, &status, WNOHANG | WUNTRACED) == pid_ && WIFSTOPPED(status)) {
      while (read_some()) continue;
      return true;
    }
  }
  return false;
}

std::optional<int> Pty::wait(Deadline deadline) {
  while (!has_ended()) {
    if (std::chrono::steady_clock::now() > deadline) return std::nullopt;
    read_some();
  }
  while (read_some()) continue;
  return status_;
}

}  // namespace sluice::tests
