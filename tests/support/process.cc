#include "tests/support/process.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <stdexcept>
#include <string_view>
#include <system_error>

#include "tests/support/fail.h"

namespace sluice::tests {
namespace {

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> all;
  for (auto& text : texts) all.push_back(text.data());
  all.push_back(nullptr);
  return all;
}

// A folder for the sockets of this process's servers.
const std::string& runtime_folder() {
  struct Made {
    std::string path = std::filesystem::temp_directory_path() / "sluice-tests-XXXXXX";
    Made() {
      if (::mkdtemp(path.data()) == nullptr) fail("mkdtemp");
    }
    ~Made() {
      std::error_code ignored;
      std::filesystem::remove_all(path, ignored);
    }
  };
  static const Made made;
  return made.path;
}

// LISTEN_PID has room for a number, which the child knows.
constexpr std::string_view listen_pid = "LISTEN_PID=";
constexpr int sockets_at = 3, sockets_meanwhile = 200;

// In the child: makes the sockets its descriptors from 3 on, and says whose they are.
void pass_on(const std::vector<int>& sockets, const std::vector<char*>& environment) {
  for (size_t i = 0; i < sockets.size(); ++i)
    ::dup2(sockets[i], sockets_meanwhile + static_cast<int>(i));
  for (size_t i = 0; i < sockets.size(); ++i) {
    ::dup2(sockets_meanwhile + static_cast<int>(i), sockets_at + static_cast<int>(i));
    ::close(sockets_meanwhile + static_cast<int>(i));
  }
  for (char* text : environment) {
    if (text == nullptr || !std::string_view(text).starts_with(listen_pid)) continue;
    char* const digits = text + listen_pid.size();
    *std::to_chars(digits, digits + 10, ::getpid()).ptr = '\0';
  }
}

std::vector<std::string> environment_of(const Process::Options& options) {
  std::map<std::string, std::string> all = options.environment;
  for (const char* name : {"PATH", "ASAN_OPTIONS", "UBSAN_OPTIONS", "TSAN_OPTIONS", "LSAN_OPTIONS"})
    if (const char* value = std::getenv(name)) all.try_emplace(name, value);
  // So that servers of other tests, and of this machine, are not found.
  all.try_emplace("XDG_RUNTIME_DIR", runtime_folder());
  if (!options.sockets.empty()) {
    all["LISTEN_FDS"] = std::to_string(options.sockets.size());
    all["LISTEN_PID"] = std::string(11, '0');
  }
  std::vector<std::string> texts;
  for (const auto& [name, value] : all) {
    texts.push_back(name);
    texts.back().append("=").append(value);
  }
  return texts;
}

}  // namespace

Process::Process(const Options& options, const std::string& program) {
  std::vector<std::string> arguments = options.arguments;
  arguments.insert(arguments.begin(), program);
  std::vector<std::string> environment = environment_of(options);
  const auto argv = pointers(arguments), envp = pointers(environment);
  int out[2], err[2];
  if (::pipe2(out, O_CLOEXEC) != 0 || ::pipe2(err, O_CLOEXEC) != 0) fail("pipe2");
  const pid_t parent = ::getpid();

  pid_ = ::fork();
  if (pid_ < 0) fail("fork");
  if (pid_ == 0) {  // only calls that are safe after a fork of a program with threads
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != parent) ::_exit(126);
    const int nothing = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
    ::dup2(nothing, STDIN_FILENO);
    ::dup2(out[1], STDOUT_FILENO);
    ::dup2(err[1], STDERR_FILENO);
    if (!options.sockets.empty()) pass_on(options.sockets, envp);
    if (!options.folder.empty() && ::chdir(options.folder.c_str()) != 0) ::_exit(126);
    if (options.open_files > 0) {
      const rlimit limit{options.open_files, options.open_files};
      if (::setrlimit(RLIMIT_NOFILE, &limit) != 0) ::_exit(126);
    }
    if (options.file_bytes) {
      rlimit limit{};
      ::getrlimit(RLIMIT_FSIZE, &limit);
      limit.rlim_cur = *options.file_bytes;
      if (::setrlimit(RLIMIT_FSIZE, &limit) != 0) ::_exit(126);
    }
    ::execve(argv[0], argv.data(), envp.data());
    ::_exit(127);
  }
  ::close(out[1]);
  ::close(err[1]);
  out_.fd = out[0];
  err_.fd = err[0];
  collector_ = std::thread([this, read_err = options.read_err] { collect(read_err); });
}

Process::~Process() {
  if (!status_) {
    ::kill(pid_, SIGTERM);
    if (!wait(soon())) {
      ADD_FAILURE() << "process " << pid_ << " did not end on SIGTERM";
      ::kill(pid_, SIGKILL);
      wait();
    }
  }
  collector_.join();
  ::close(out_.fd);
  ::close(err_.fd);
  if (testing::Test::HasFailure() && !err_.text.empty())
    GTEST_LOG_(INFO) << "standard error of process " << pid_ << ":\n" << err_.text;
}

void Process::collect(bool read_err) {
  pollfd watched[] = {{out_.fd, POLLIN, 0}, {read_err ? err_.fd : -1, POLLIN, 0}};
  Pipe* const pipes[] = {&out_, &err_};
  char bytes[8192];
  while (watched[0].fd >= 0 || watched[1].fd >= 0) {
    if (::poll(watched, 2, -1) < 0) continue;
    for (size_t i = 0; i < 2; ++i) {
      if (watched[i].fd < 0 || watched[i].revents == 0) continue;
      const ssize_t n = ::read(watched[i].fd, bytes, sizeof bytes);
      if (n < 0 && errno == EINTR) continue;
      const std::lock_guard lock(mutex_);
      if (n > 0)
        pipes[i]->text.append(bytes, static_cast<size_t>(n));
      else
        watched[i].fd = -1;
      changed_.notify_all();
    }
  }
  const std::lock_guard lock(mutex_);
  ended_ = true;
  changed_.notify_all();
}

void Process::signal(int number) const {
  if (status_ || ::kill(pid_, number) != 0) fail("kill");
}

std::optional<std::string> Process::read_line(Deadline deadline) {
  std::unique_lock lock(mutex_);
  size_t end = std::string::npos;
  const auto ready = [&] {
    end = out_.text.find('\n');
    return end != std::string::npos || ended_;
  };
  if (!changed_.wait_until(lock, deadline, ready))
    throw std::runtime_error("no line on standard output in time; so far: " + out_.text +
                             "\nstandard error: " + err_.text);
  if (end == std::string::npos) return std::nullopt;
  std::string line = out_.text.substr(0, end);
  out_.text.erase(0, end + 1);
  return line;
}

bool Process::says(const std::string& text, Deadline deadline) {
  std::unique_lock lock(mutex_);
  const auto said = [&] { return err_.text.find(text) != std::string::npos; };
  changed_.wait_until(lock, deadline, [&] { return ended_ || said(); });
  return said();
}

std::string Process::out() const {
  const std::lock_guard lock(mutex_);
  return out_.text;
}

std::string Process::err() const {
  const std::lock_guard lock(mutex_);
  return err_.text;
}

// The child's pipes close when it ends; it has no child that could keep them open.
std::optional<int> Process::wait(Deadline deadline) {
  if (status_) return status_;
  {
    std::unique_lock lock(mutex_);
    if (!changed_.wait_until(lock, deadline, [&] { return ended_; })) return std::nullopt;
  }
  int status = 0;
  while (::waitpid(pid_, &status, 0) < 0)
    if (errno != EINTR) fail("waitpid");
  status_ = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return status_;
}

Finished run(const Process::Options& options) {
  Process process(options);
  const auto status = process.wait();
  if (!status) throw std::runtime_error("a command did not end in time: " + process.err());
  return {*status, process.out(), process.err()};
}

}  // namespace sluice::tests
