// The live policy (live/live_policy.h): its locks, and what readers see when it is exchanged.
#include "live/live_policy.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

namespace sluice::live {
namespace {

// A mutex that notes which mutexes its thread locked.
struct NotingMutex {
  void lock() {
    locked.push_back(this);
    mutex.lock();
  }
  void unlock() { mutex.unlock(); }

  static std::vector<const void*> take() {
    std::vector<const void*> all = std::exchange(locked, {});
    std::sort(all.begin(), all.end());
    return all;
  }

  static thread_local std::vector<const void*> locked;
  std::mutex mutex;
};
thread_local std::vector<const void*> NotingMutex::locked;

LivePolicy generation(uint64_t number) {
  return {.rules = nullptr, .generation = number};
}

TEST(Live, ALowPriorityThreadHoldsNoLockThatWorkersTake) {
  BasicLive<NotingMutex> live(generation(1));
  EXPECT_EQ(live.current()->generation, 1u);
  const auto of_workers = NotingMutex::take();
  EXPECT_EQ(live.shown()->generation, 1u);
  const auto of_others = NotingMutex::take();
  std::vector<const void*> both;
  std::set_intersection(of_workers.begin(), of_workers.end(), of_others.begin(), of_others.end(),
                        std::back_inserter(both));
  EXPECT_TRUE(both.empty());
  EXPECT_EQ(of_workers.size(), 1u);
  EXPECT_EQ(of_others.size(), 1u);
}

TEST(Live, AReplacedPolicyIsHeldOnlyByItsReaders) {
  Live live(generation(1));
  const std::weak_ptr<const LivePolicy> first = live.current();
  EXPECT_EQ(live.exchange(std::make_shared<const LivePolicy>(generation(2)))->generation, 1u);
  EXPECT_TRUE(first.expired());
  EXPECT_EQ(live.current()->generation, 2u);
  EXPECT_EQ(live.shown()->generation, 2u);
}

// No reader sees an older policy after a newer one, whichever function it calls.
TEST(Live, GenerationsOnlyRise) {
  Live live(generation(1));
  constexpr uint64_t last = 5'000;
  std::vector<std::thread> readers;
  for (const bool worker : {true, false}) {
    readers.emplace_back([&live, worker] {
      for (uint64_t before = 0; before < last;) {
        const uint64_t now = (worker ? live.current() : live.shown())->generation;
        ASSERT_GE(now, before);
        before = now;
      }
    });
  }
  for (uint64_t next = 2; next <= last; ++next)
    live.exchange(std::make_shared<const LivePolicy>(generation(next)));
  for (auto& reader : readers) reader.join();
}

}  // namespace
}  // namespace sluice::live
