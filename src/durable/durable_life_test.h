// A durable store on a test's own disk, which outlives the store. For the test's thread.
#pragma once

#include <gtest/gtest.h>
#include <spdlog/sinks/ostream_sink.h>

#include <array>
#include <atomic>
#include <chrono>
#include <memory>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/result_test.h"
#include "durable/durable_store.h"
#include "store/asking_test.h"
#include "testing/memory_journal_test.h"

namespace sluice::durable::tests {

using namespace store::tests;

inline constexpr int64_t second = 1'000'000;
inline constexpr base::Time start{1'000 * second};

// Waits for the work of another thread; fails after 120 s.
template <class Condition>
void eventually(Condition&& condition) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(120);
  while (!condition()) {
    ASSERT_LT(std::chrono::steady_clock::now(), end);
    std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
}

// One run of a server: a durable store on a disk that outlives it.
struct Life {
  Life(Disk& disk, Durability durability, base::Time now = start, size_t memory_bytes = 0,
       base::Duration interval = base::milliseconds(1))
      : log(std::make_shared<spdlog::logger>(
            "test", std::make_shared<spdlog::sinks::ostream_sink_mt>(told))),
        world(0) {
    request::Space kept;
    kept.windows = {base::seconds(1), base::seconds(60)};
    request::Space lingering;
    lingering.keep_fresh_for = base::seconds(30);
    const MemoryJournal::Like like{{"t/", {}}, {"kept/", kept}, {"lingering/", lingering}};
    spaces = {world.space, world.spaces.intern("kept/", "", kept),
              world.spaces.intern("lingering/", "", lingering)};
    auto table = std::make_unique<store::EmbeddedStore>(memory_bytes, base::Hash(1), world.spaces);
    auto journal = std::make_unique<MemoryJournal>(disk, world.spaces, like, now);
    store = std::make_unique<DurableStore>(
        DurableOptions{.path = "DIR", .durability = durability, .interval = interval},
        std::move(table), std::move(journal), world.spaces, log);
    std::string problem;
    EXPECT_TRUE(succeeds(store->start(), problem)) << problem;
  }
  ~Life() { store->attach(completions, nullptr); }

  store::Applied apply(Asked& asked, base::Time now, request::Ticket ticket = {0, 0}) {
    return store->apply({{&asked.group, 1}, asked.charges, asked.decisions}, now, &completions, {},
                        ticket);
  }
  bool named(request::Ticket ticket) {
    completions.drain_batches(ready);
    return std::erase(ready, ticket) > 0;
  }
  // Applies until the group is settled, however long that takes.
  void settle(Asked& asked, base::Time now) {
    while (apply(asked, now).later) eventually([&] { return named({0, 0}); });
  }
  Asked ask(const std::vector<Part>& parts, base::Time now = start,
            request::Verb verb = request::Verb::take) {
    Asked asked = world.prepare(parts, verb);
    settle(asked, now);
    return asked;
  }
  void put_all(const Part& part, base::Time now = start) {
    Asked asked = world.prepare({part}, request::Verb::put);
    asked.charges[0].all = true;
    settle(asked, now);
  }
  void until_loaded() {
    eventually([this] { return !store->stats().loading; });
  }
  void until_committed() {
    eventually([this] { return store->commit_seq() == 0; });
  }

  std::ostringstream told;
  std::shared_ptr<spdlog::logger> log;
  World world;  // its spaces, and its prepare()
  std::array<const request::Space*, 3> spaces;
  std::unique_ptr<DurableStore> store;
  std::atomic<int> wakes{0};
  store::CompletionQueue completions{[this] { ++wakes; }};
  std::vector<request::Ticket> ready;
};

inline const Part one{"k", 1, {window(10, 1'000 * second)}};

}  // namespace sluice::durable::tests
