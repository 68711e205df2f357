#include "tests/support/pty.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>

#include "tests/support/fail.h"

namespace sluice::tests {

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
  // Held open here as well, so that what was printed can be read behind the end of the program.
  slave_ = ::open(name, O_RDWR | O_NOCTTY | O_CLOEXEC);
  if (slave_ < 0) fail("open the terminal");
  const winsize window{size.rows, size.columns, 0, 0};
  if (::ioctl(master_, TIOCSWINSZ, &window) != 0) fail("resize");
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

// False: nothing arrived within 20 ms.
bool Pty::read_some() {
  pollfd wanted{master_, POLLIN, 0};
  if (::poll(&wanted, 1, 20) <= 0) return false;
  char bytes[8192];
  const ssize_t n = ::read(master_, bytes, sizeof bytes);
  if (n <= 0) return false;
  output_.append(bytes, static_cast<size_t>(n));
  return true;
}

bool Pty::has_ended() {
  int status = 0;
  if (!status_ && ::waitpid(pid_, &status, WNOHANG) == pid_)
    status_ = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return status_.has_value();
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
