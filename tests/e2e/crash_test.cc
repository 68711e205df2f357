// What a crash may lose. Kills the real server at random moments under load, starts it again on its
// store, and compares its counters with every answer that its clients have received.
// SLUICE_CRASHES: the number of crashes (10 by default). SLUICE_CRASH_SEED: repeats the random
// choices of a run, but not its timing.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <ostream>
#include <random>
#include <string>
#include <thread>

#include "tests/e2e/recorded_load.h"
#include "tests/support/environment.h"

namespace sluice::tests::crash_test {
namespace {

using std::chrono::steady_clock;
using namespace std::chrono_literals;

int crashes() {
  return number_from_environment("SLUICE_CRASHES", 10);
}

uint32_t new_seed() {
  return number_from_environment<uint32_t>("SLUICE_CRASH_SEED", std::random_device()());
}

const std::map<Spoken, uint32_t> counters{{Spoken::divvy, sanitized ? 5'000 : 100'000},
                                          {Spoken::limitd, sanitized ? 1'000 : 10'000},
                                          {Spoken::droplet, sanitized ? 500 : 5'000}};

struct Promise {
  const char* name;
  std::string store;
  Milliseconds window;  // only decisions of this last time may be forgotten
  int rounds;
};

void PrintTo(const Promise& promise, std::ostream* out) {
  *out << promise.store;
}

class Crash : public testing::TestWithParam<Promise> {
 protected:
  // Kills the server before it listens, often before it has read its whole store.
  void kill_at_start() {
    Process process(RecordedServer::options(folder_, GetParam().store, {}));
    std::this_thread::sleep_for(std::chrono::microseconds(dice_(60'000)));
    process.signal(SIGKILL);
    EXPECT_EQ(process.wait(within(patience)), 128 + SIGKILL);
    ++starts_;
  }

  // One life of the server. `early`: its counters are not compared first, and it is killed while it
  // still loads them. `clean`: it is stopped, not killed.
  void live(bool early, bool clean) {
    RecordedServer server(folder_, GetParam().store);
    if (!early) {
      std::string told;
      const uint64_t wrong = record_.compare(server, told);
      ASSERT_EQ(wrong, 0u) << told;
    }
    Load load(server, {.counters = counters}, dice_(1u << 30));
    std::this_thread::sleep_for(
        std::chrono::microseconds(early ? dice_(200'000) : 20'000 + dice_(980'000)));
    const Instant end = steady_clock::now();
    if (clean) {
      EXPECT_EQ(server.stop(), 0);
    } else {
      EXPECT_EQ(server.kill(), 128 + SIGKILL);
    }
    load.stop();
    // Decisions of the window after the last commit may be answered; later ones wait for the next
    // commit. So all that was answered a window before the last answered request was sent is
    // committed, however late the kill and the commit were.
    std::map<Spoken, Instant> forgets_from;
    const Instant last = std::max(load.last_answered(), record_.last_looked());
    if (!clean && GetParam().window > 0ms)
      for (const Spoken spoken : all_spoken) forgets_from[spoken] = last - GetParam().window;
    record_.add(load, forgets_from, end);
  }

  const uint32_t seed_ = new_seed();
  Dice dice_{seed_};
  Folder folder_;
  Record record_{counters};
  int starts_ = 0;
};

TEST_P(Crash, ForgetsNoMoreThanPromised) {
  const Promise& promise = GetParam();
  std::printf("crash: %s: %d rounds, seed %u\n", promise.name, promise.rounds, seed_);
  int killed = 0, early = 0, clean = 0;
  // If nothing was forgotten, this test would not notice if too much were.
  const auto most = [&] {
    return promise.rounds + (promise.window > 0ms && record_.forgotten == 0 ? 20 : 0);
  };
  for (int round = 0; round < most() && !HasFailure(); ++round) {
    SCOPED_TRACE("round " + std::to_string(round) + ", seed " + std::to_string(seed_));
    if (dice_(4) == 0) kill_at_start();
    const bool is_early = dice_(3) == 0;
    live(is_early, false);
    early += is_early;
    ++killed;
    // Every fifth round has a clean stop, which must forget nothing.
    if (round % 5 == 4 && !HasFailure()) {
      live(false, true);
      ++clean;
    }
  }
  if (HasFailure()) return;
  RecordedServer server(folder_, promise.store);
  std::string told;
  EXPECT_EQ(record_.compare(server, told), 0u) << told;
  EXPECT_GT(record_.granted, 0u);
  if (promise.window > 0ms) {
    EXPECT_GT(record_.forgotten, 0u);
  }
  std::printf(
      "crash: %s: killed %d times under load (%d of them as it started) and %d times before it "
      "listened, stopped %d times; %llu answers, %llu granted, %llu forgotten, the oldest %lld ms "
      "before the kill; %llu counters compared\n",
      promise.name, killed, early, starts_, clean,
      static_cast<unsigned long long>(record_.answered),
      static_cast<unsigned long long>(record_.granted),
      static_cast<unsigned long long>(record_.forgotten),
      static_cast<long long>(record_.oldest_forgotten.count()),
      static_cast<unsigned long long>(record_.compared));
}

INSTANTIATE_TEST_SUITE_P(
    Store, Crash,
    testing::Values(Promise{"always", "durability: always", 0ms, crashes()},
                    Promise{"interval", "durability: interval", 200ms, crashes()},
                    Promise{"always_fsync", "durability: always, fsync: true", 0ms,
                            std::max(3, crashes() / 10)},
                    Promise{"interval_fsync", "durability: interval, interval_ms: 300, fsync: true",
                            600ms, std::max(3, crashes() / 10)}),
    [](const auto& promise) { return promise.param.name; });

}  // namespace
}  // namespace sluice::tests::crash_test
