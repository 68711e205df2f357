// Loaded before a program's libraries (LD_PRELOAD): its wall clock is ahead of the system's by as
// many microseconds as the file says that SLUICE_TEST_CLOCK names, at each reading. No other clock
// changes.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstdlib>

namespace {

// Null: there is no such file.
const std::atomic<int64_t>* ahead() {
  static const std::atomic<int64_t>* const its = []() -> const std::atomic<int64_t>* {
    const char* const path = std::getenv("SLUICE_TEST_CLOCK");
    const int file = path == nullptr ? -1 : ::open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0) return nullptr;
    void* const at = ::mmap(nullptr, sizeof(int64_t), PROT_READ, MAP_SHARED, file, 0);
    ::close(file);
    return at == MAP_FAILED ? nullptr : static_cast<const std::atomic<int64_t>*>(at);
  }();
  return its;
}

}  // namespace

extern "C" int clock_gettime(clockid_t id, timespec* time) noexcept {
  const auto failed = static_cast<int>(::syscall(SYS_clock_gettime, id, time));
  if (failed != 0 || id != CLOCK_REALTIME || ahead() == nullptr) return failed;
  const int64_t all = time->tv_sec * int64_t{1'000'000} + time->tv_nsec / 1'000 + *ahead();
  time->tv_sec = all / 1'000'000;
  time->tv_nsec = all % 1'000'000 * 1'000 + time->tv_nsec % 1'000;
  return 0;
}
