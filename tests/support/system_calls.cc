#include "tests/support/system_calls.h"

#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <filesystem>
#include <future>
#include <map>
#include <string>
#include <thread>

namespace sluice::tests {
namespace {

constexpr int call_stop = SIGTRAP | 0x80;  // PTRACE_O_TRACESYSGOOD

long ask(int request, pid_t thread, uintptr_t address = 0, uintptr_t data = 0) {
  return ::ptrace(static_cast<__ptrace_request>(request), thread, address, data);
}

// The thread that makes it must make all calls, as the kernel has it.
class Tracer {
  struct Calls {
    size_t all = 0, sends = 0;
  };

 public:
  // False: it is not allowed.
  bool begin(pid_t pid) {
    const std::filesystem::path tasks = "/proc/" + std::to_string(pid) + "/task";
    for (const auto& entry : std::filesystem::directory_iterator(tasks)) {
      const pid_t thread = std::stoi(entry.path().filename().string());
      if (ask(PTRACE_SEIZE, thread, 0, PTRACE_O_TRACESYSGOOD) != 0) return false;
      calls_[thread] = {};
      ask(PTRACE_INTERRUPT, thread);
    }
    // Each is stopped once, and counted from then on.
    for (size_t stopped = 0; stopped < calls_.size();) stopped += serve() ? 1u : 0u;
    return true;
  }

  // Lets a thread go on that has stopped. False: none has.
  bool serve() {
    int status = 0;
    const pid_t thread = next(status);
    if (thread <= 0) return false;
    if (!WIFSTOPPED(status)) return calls_.erase(thread) > 0;
    if (WSTOPSIG(status) == call_stop) count(thread);
    ask(PTRACE_SYSCALL, thread, 0, signal_of(status));
    return true;
  }

  void end() {
    std::map<pid_t, Calls> left = calls_;
    for (const auto& [thread, calls] : left) ask(PTRACE_INTERRUPT, thread);
    while (!left.empty()) {
      int status = 0;
      const pid_t thread = next(status);
      if (thread <= 0) continue;
      if (WIFSTOPPED(status)) ask(PTRACE_DETACH, thread, 0, signal_of(status));
      left.erase(thread);
    }
  }

  size_t of_sender() const {
    Calls sender;
    for (const auto& [thread, calls] : calls_)
      if (calls.sends >= sender.sends) sender = calls;
    return sender.all;
  }

 private:
  // Waits for a moment only: nothing wakes it when the work is done.
  static pid_t next(int& status) {
    const pid_t thread = ::waitpid(-1, &status, __WALL | __WNOTHREAD | WNOHANG);
    if (thread <= 0) std::this_thread::sleep_for(std::chrono::microseconds(20));
    return thread;
  }
  void count(pid_t thread) {
    __ptrace_syscall_info info{};
    if (ask(PTRACE_GET_SYSCALL_INFO, thread, sizeof info, reinterpret_cast<uintptr_t>(&info)) <=
            0 ||
        info.op != PTRACE_SYSCALL_INFO_ENTRY)
      return;
    ++calls_[thread].all;
    if (info.entry.nr == SYS_sendto) ++calls_[thread].sends;
  }
  // The signal that the thread was about to get, if it has stopped for one.
  static uintptr_t signal_of(int status) {
    const bool other = WSTOPSIG(status) == call_stop || status >> 16 == PTRACE_EVENT_STOP;
    return other ? 0 : static_cast<uintptr_t>(WSTOPSIG(status));
  }

  std::map<pid_t, Calls> calls_;  // by thread
};

}  // namespace

std::optional<size_t> count_system_calls(pid_t pid, const std::function<void()>& work) {
  std::promise<int> begun;
  std::atomic<bool> over{false};
  size_t calls = 0;
  std::thread tracing([&] {
    Tracer tracer;
    if (!tracer.begin(pid)) {
      const int error = errno;
      tracer.end();
      return begun.set_value(error);
    }
    begun.set_value(0);
    while (!over || tracer.serve()) tracer.serve();
    calls = tracer.of_sender();
    tracer.end();
  });
  const int error = begun.get_future().get();
  if (error == 0) work();
  over = true;
  tracing.join();
  errno = error;
  return error == 0 ? std::optional(calls) : std::nullopt;
}

}  // namespace sluice::tests
