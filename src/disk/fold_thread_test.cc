// No thread waits for the idle thread that folds: the test stops that thread at any place, as a
// busy machine does, and commits must go on. It is not stopped inside the C library and its loader:
// there it may hold a lock that every thread needs, such as the allocator's, though only for
// microseconds.
#include <gtest/gtest.h>
#include <pthread.h>
#include <signal.h>
#include <sys/syscall.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <future>
#include <ios>
#include <map>
#include <sstream>
#include <string>
#include <string_view>
#include <thread>

#include "disk/folder_test.h"
#include "disk/layout.h"
#include "disk/rocks_journal.h"
#include "tests/support/dice.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SLUICE_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SLUICE_SANITIZED 1
#endif
#endif

namespace sluice::disk {
namespace {

using std::chrono::steady_clock;
using namespace std::chrono_literals;

std::atomic<bool> hold{false}, held{false};
std::atomic<int> asked{0};

struct Range {
  uintptr_t begin = 0, end = 0;

  bool contains(uintptr_t at) const { return at >= begin && at < end; }
};
// The code of the C library and of its loader in this process. Set before the first signal.
Range c_library, loader;

void find_c_library() {
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    if (line.find("r-xp") == line.npos) continue;
    const bool is_library = line.find("/libc.so") != line.npos;
    if (!is_library && line.find("/ld-linux") == line.npos) continue;
    Range& found = is_library ? c_library : loader;
    char dash = 0;
    std::istringstream(line) >> std::hex >> found.begin >> dash >> found.end;
  }
}

uintptr_t position_in(const ucontext_t& context) {
#if defined(__x86_64__)
  return static_cast<uintptr_t>(context.uc_mcontext.gregs[REG_RIP]);
#elif defined(__aarch64__)
  return static_cast<uintptr_t>(context.uc_mcontext.pc);
#else
#error "where this processor's signal frame holds the program counter is not known here"
#endif
}

void stand_still(int, siginfo_t*, void* context) {
  const uintptr_t at = position_in(*static_cast<const ucontext_t*>(context));
  const bool in_c_library = c_library.contains(at) || loader.contains(at);
  held = !in_c_library;
  asked.fetch_add(1);
  if (in_c_library) return;
  while (hold) {
    const timespec moment{0, 200'000};
    ::nanosleep(&moment, nullptr);
  }
  held = false;
}

// Returns 0 if no thread has this name.
pid_t thread_named(const std::string& wanted) {
  for (const auto& at : std::filesystem::directory_iterator("/proc/self/task")) {
    std::string name;
    std::getline(std::ifstream(at.path() / "comm"), name);
    if (name == wanted) return static_cast<pid_t>(std::stol(at.path().filename().string()));
  }
  return 0;
}

template <class Condition>
bool eventually(Condition&& condition) {
  for (const auto end = steady_clock::now() + std::chrono::seconds(60); !condition();
       std::this_thread::sleep_for(100us))
    if (steady_clock::now() > end) return false;
  return true;
}

// A journal under `folder` that folds every block at once, and a model of what was committed to it.
struct Committed {
  explicit Committed(const Folder& folder)
      : space(spaces.intern("fold:", "")),
        limits_id(spaces.intern_limits(
            std::vector<limit::Limit>{{limit::Algorithm::fixed_window, 10, base::seconds(1), 0}})),
        journal(options_in(folder), spaces, {1, 1, 256 << 10, most_unfolded, 64 << 10}) {}

  static constexpr size_t most_unfolded = 512 << 10;  // bytes
  static JournalOptions options_in(const Folder& folder) {
    JournalOptions options;
    options.path = folder / "data";
    options.now = [] { return base::Time{0}; };
    return options;
  }

  void start() {
    std::string problem;
    ASSERT_TRUE(succeeds(journal.open(), problem)) << problem;
    ASSERT_TRUE(succeeds(journal.read_blocks(), problem)) << problem;
    journal.start_folding();
  }
  void commit(int times) {
    for (int i = 0; i < times; ++i) commit();
  }
  void commit() {
    ++n;
    for (int i = 0; i < 200; ++i) {
      const std::string key = "counter " + std::to_string(dice(20'000));
      const limit::State cell{1, n};
      journal.add({space, limits_id, key, {&cell, 1}, INT64_MAX});
      model[key] = n;
    }
    std::string why;
    EXPECT_TRUE(succeeds(journal.commit(), why)) << why;
  }

  tests::Dice dice{23};
  std::map<std::string, int64_t> model;
  int64_t n = 0;
  request::Spaces spaces;
  const request::Space* space;
  uint32_t limits_id;
  RocksJournal journal;
};

// Commits until the signal has stopped `thread` outside the C library.
void stop_while_committing(pid_t thread, Committed& committed) {
  hold = true;
  ASSERT_TRUE(eventually([&] {
    committed.commit(committed.dice(20) + 1);
    std::this_thread::sleep_for(std::chrono::microseconds(committed.dice(3'000)));
    const int before = asked;
    return ::syscall(SYS_tgkill, ::getpid(), thread, SIGUSR2) == 0 &&
           eventually([&] { return asked != before; }) && held;
  }));
}

// Opens a second journal on `folder` and compares its counters with `model`.
void expect_on_disk(const Folder& folder, const std::map<std::string, int64_t>& model) {
  request::Spaces spaces;
  const auto* const space = spaces.intern("fold:", "");
  RocksJournal again(Committed::options_in(folder), spaces);
  std::string problem;
  ASSERT_TRUE(succeeds(again.open(), problem)) << problem;
  KeptByKey all;
  ASSERT_TRUE(succeeds(read_all(again, all), problem)) << problem;
  ASSERT_EQ(all.size(), model.size());
  for (const auto& [key, units] : model)
    ASSERT_EQ(all.at({space, key}).cells[0].units, units) << key;
}

TEST(FoldThread, CommitsContinueWhereverTheThreadIsPaused) {
#ifdef SLUICE_SANITIZED
  GTEST_SKIP() << "it would hold locks of the sanitizer's own";
#endif
  find_c_library();
  ASSERT_TRUE(c_library.end != 0 && loader.end != 0);
  struct sigaction action {};
  action.sa_sigaction = stand_still;
  action.sa_flags = SA_SIGINFO;
  ASSERT_EQ(::sigaction(SIGUSR2, &action, nullptr), 0);
  const Folder folder;
  std::map<std::string, int64_t> model;
  {
    Committed committed(folder);
    ASSERT_NO_FATAL_FAILURE(committed.start());
    pid_t idle = 0;
    ASSERT_TRUE(eventually([&] { return (idle = thread_named("sluice-fold")) != 0; }));
    for (int round = 0; round < 8 && !testing::Test::HasFailure(); ++round) {
      SCOPED_TRACE(round);
      ASSERT_NO_FATAL_FAILURE(stop_while_committing(idle, committed));
      // More bytes than `most_unfolded`: without folds the commits would have to wait.
      auto done = std::async(std::launch::async, [&] { committed.commit(130); });
      EXPECT_EQ(done.wait_for(300s), std::future_status::ready);
      hold = false;
      done.wait();
      ASSERT_TRUE(eventually([] { return !held; }));
    }
    EXPECT_GT(committed.journal.stats().folds, 8u);
    model = std::move(committed.model);
  }
  expect_on_disk(folder, model);
}

// Where RocksDB's compactions make no progress, as beside busy processors, folds and so commits go
// on, and no failure of the disk is reported.
TEST(FoldThread, CommitsContinueWhileMergingLagsFarBehind) {
  const Folder folder;
  std::atomic<bool> stands_still{true}, stood{false};
  const auto now = [&] {
    char name[16] = {};
    ::pthread_getname_np(::pthread_self(), name, sizeof name);
    // A compaction asks for the time to find counters that are past it; here it waits.
    while (stands_still && std::string_view(name).starts_with("rocksdb:")) {
      stood = true;
      std::this_thread::sleep_for(100us);
    }
    return base::Time{0};
  };
  const auto tables = [&] {
    size_t count = 0;
    for (const auto& at : std::filesystem::directory_iterator(counters_of(folder / "data")))
      count += at.path().extension() == ".sst" ? 1u : 0u;
    return count;
  };
  constexpr int64_t commits = 80;
  std::string problem;
  {
    request::Spaces spaces;
    const auto* const space = spaces.intern("fold:", "");
    const uint32_t limits_id = spaces.intern_limits(
        std::vector<limit::Limit>{{limit::Algorithm::fixed_window, 10, base::seconds(1), 0}});
    JournalOptions options;
    options.path = folder / "data";
    options.now = now;
    // Each commit waits until the block of the commit before is folded.
    RocksJournal journal(std::move(options), spaces, {1, 1, 1, 1});
    ASSERT_TRUE(succeeds(journal.open(), problem)) << problem;
    ASSERT_TRUE(succeeds(journal.read_blocks(), problem)) << problem;
    journal.start_folding();
    for (int64_t n = 1; n <= commits; ++n) {
      const limit::State cell{1, n};
      journal.add({space, limits_id, std::to_string(n), {&cell, 1}, 1});
      EXPECT_TRUE(succeeds(journal.commit(), problem)) << n << ": " << problem;
    }
    const auto all_folded = [&] { return journal.stats().folds >= commits; };
    EXPECT_TRUE(HasFailure() || eventually(all_folded));
    EXPECT_EQ(journal.stats().failures, 0u);
    EXPECT_TRUE(stood);
    EXPECT_GE(tables(), static_cast<size_t>(commits));
    stands_still = false;
  }
  request::Spaces spaces;
  JournalOptions options;
  options.path = folder / "data";
  options.now = now;
  RocksJournal again(std::move(options), spaces);
  ASSERT_TRUE(succeeds(again.open(), problem)) << problem;
  KeptByKey all;
  ASSERT_TRUE(succeeds(read_all(again, all), problem)) << problem;
  EXPECT_EQ(all.size(), static_cast<size_t>(commits));
}

}  // namespace
}  // namespace sluice::disk
