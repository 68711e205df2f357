// What the journal costs, all of its threads together: processor time of the process, beside the
// time that passes. Databases lie in the folder that TMPDIR names.
#include <benchmark/benchmark.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "base/check.h"
#include "base/result_test.h"
#include "disk/folder_test.h"
#include "disk/journal.h"
#include "disk/record.h"

namespace sluice::disk {
namespace {

using std::chrono::steady_clock;

constexpr int64_t start_us = 1'700'000'000'000'000;

double processor_seconds() {
  rusage used{};
  ::getrusage(RUSAGE_SELF, &used);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) * 1e-6;
  };
  return seconds(used.ru_utime) + seconds(used.ru_stime);
}

double seconds_since(steady_clock::time_point then) {
  return std::chrono::duration<double>(steady_clock::now() - then).count();
}

struct World {
  Folder folder;
  request::Spaces spaces;
  const request::Space* space = spaces.intern("bench:", "");
  uint32_t limits_id = spaces.intern_limits(
      std::vector<limit::Limit>{{limit::Algorithm::token_bucket, 1000, base::seconds(60), 1000}});
  std::unique_ptr<Journal> journal;
  uint64_t random = 1;

  void open() {
    JournalOptions options;
    options.path = folder.path();
    options.now = [] { return base::Time{start_us}; };
    std::string problem;
    if (!succeeds(Journal::open(std::move(options), spaces), journal, problem) ||
        !succeeds(journal->read_blocks(), problem)) {
      std::fprintf(stderr, "%s\n", problem.c_str());
      std::abort();
    }
  }
  void commit() {
    std::string problem;
    if (!succeeds(journal->commit(), problem)) {
      std::fprintf(stderr, "%s\n", problem.c_str());
      std::abort();
    }
  }
  uint64_t roll() {
    random = random * 6'364'136'223'846'793'005u + 1'442'695'040'888'963'407u;
    return random >> 33;
  }
  // `number` in 16 bytes.
  static void name(uint64_t number, char (&key)[17]) {
    std::memcpy(key, "user:00000000000", 17);
    for (size_t at = 15; number > 0; number /= 10) key[at--] = static_cast<char>('0' + number % 10);
  }
  void add(uint64_t number, int64_t now_us) {
    char key[17];
    name(number, key);
    const limit::State cell{now_us + 3'000'000 + static_cast<int64_t>(roll() % 1'000'000),
                            static_cast<int64_t>(roll() % 1000)};
    journal->add({space, limits_id, {key, 16}, {&cell, 1}, cell.fresh_at_us});
  }
};

// One counter of 16 bytes and one cell into the block.
void add(benchmark::State& state) {
  World world;
  world.open();
  std::string problem;
  constexpr int64_t some = 100'000;
  std::vector<std::array<char, 17>> keys(some);
  for (size_t i = 0; i < keys.size(); ++i) {
    char key[17];
    World::name(i, key);
    std::copy(std::begin(key), std::end(key), keys[i].begin());
  }
  world.journal->start_folding();
  for (auto _ : state) {
    int64_t now_us = start_us;
    const auto began = steady_clock::now();
    for (const auto& key : keys) {
      const limit::State cell{now_us += 37, now_us & 1023};
      world.journal->add({world.space, world.limits_id, {key.data(), 16}, {&cell, 1}, now_us});
    }
    state.SetIterationTime(seconds_since(began));
    world.commit();
  }
  state.SetItemsProcessed(state.iterations() * some);
}
BENCHMARK(add)->UseManualTime()->Iterations(100);

// A steady load for some seconds: `range(0)` records a second over `range(1)` counters, a commit
// each `range(2)` microseconds.
void steady(benchmark::State& state) {
  const double per_second = static_cast<double>(state.range(0));
  const auto counters = static_cast<uint64_t>(state.range(1));
  const auto interval = std::chrono::microseconds(state.range(2));
  constexpr double length_s = 15;
  for (auto _ : state) {
    World world;
    world.open();
    world.journal->start_folding();
    std::vector<double> latencies_ms;
    uint64_t records = 0;
    size_t most_unfolded = 0;
    double committing = 0, adding = 0;
    const auto began = steady_clock::now();
    const double used = processor_seconds();
    for (auto next = began + interval;; next += interval) {
      std::this_thread::sleep_until(next);
      const double passed = seconds_since(began);
      if (passed > length_s) break;
      const auto now_us = start_us + static_cast<int64_t>(passed * 1e6);
      const auto first = steady_clock::now();
      for (; static_cast<double>(records) < passed * per_second; ++records)
        world.add(world.roll() % counters, now_us);
      const auto second = steady_clock::now();
      world.commit();
      latencies_ms.push_back(seconds_since(second) * 1e3);
      adding += std::chrono::duration<double>(second - first).count();
      committing += latencies_ms.back() * 1e-3;
      most_unfolded = std::max<size_t>(most_unfolded, world.journal->stats().unfolded_bytes);
    }
    const double passed = seconds_since(began);
    state.SetIterationTime(passed);
    state.counters["cores"] = (processor_seconds() - used) / passed;
    std::sort(latencies_ms.begin(), latencies_ms.end());
    const auto at = [&](double part) {
      return latencies_ms[static_cast<size_t>(static_cast<double>(latencies_ms.size() - 1) * part)];
    };
    const JournalStats stats = world.journal->stats();
    state.counters["commit_p50_ms"] = at(0.5);
    state.counters["commit_p99.9_ms"] = at(0.999);
    state.counters["commit_max_ms"] = at(1);
    state.counters["adding_cores"] = adding / passed;
    state.counters["committing_cores"] = committing / passed;
    state.counters["MB_per_s"] = static_cast<double>(stats.bytes) / passed * 1e-6;
    state.counters["records_per_s"] = static_cast<double>(stats.counters) / passed;
    state.counters["folds"] = static_cast<double>(stats.folds);
    state.counters["unfolded_MiB"] = static_cast<double>(most_unfolded) / (1 << 20);
  }
}
BENCHMARK(steady)
    ->Args({860'000, 100'000, 100'000})
    ->Args({860'000, 100'000, 1'000})
    ->UseManualTime()
    ->Iterations(1)
    ->Unit(benchmark::kSecond);

// A store of `range(0)` folded counters and nearly base::bounds::unfolded_bytes_max of blocks, as a
// killed process leaves it: opened, and replayed.
void opening(benchmark::State& state) {
  const auto counters = static_cast<uint64_t>(state.range(0));
  World world;
  world.open();
  world.journal->start_folding();
  for (uint64_t i = 0; i < counters; ++i) {
    world.add(i, start_us);
    if (world.journal->pending() >= 100'000) world.commit();
  }
  world.commit();
  // Those that are not folded; the copy is what a kill would leave.
  const Folder killed;
  const uint64_t folds = world.journal->stats().folds;
  while (world.journal->stats().unfolded_bytes > 31u << 20 && world.journal->stats().folds == folds)
    ::usleep(1000);
  world.journal.reset();
  for (auto _ : state) {
    {
      // Without a folding thread nothing is folded, and nothing waits.
      World more;
      JournalOptions options;
      options.path = world.folder.path();
      options.now = [] { return base::Time{start_us}; };
      std::string problem;
      uint64_t there = 0;
      SLUICE_CHECK(succeeds(Journal::open(std::move(options), more.spaces), more.journal, problem));
      SLUICE_CHECK(more.journal->read_blocks());
      SLUICE_CHECK(more.journal->replay([&](const Record&) { ++there; }));
      for (uint64_t i = 0; more.journal->stats().unfolded_bytes < (62u << 20); ++i) {
        more.add(more.roll() % counters, start_us);
        if (more.journal->pending() >= 1000) more.commit();
      }
      std::filesystem::remove_all(killed / "copy");
      std::filesystem::copy(world.folder.path(), killed / "copy",
                            std::filesystem::copy_options::recursive);
    }
    World again;
    JournalOptions options;
    options.path = killed / "copy";
    options.now = [] { return base::Time{start_us}; };
    std::string problem;
    const auto began = steady_clock::now();
    SLUICE_CHECK(succeeds(Journal::open(std::move(options), again.spaces), again.journal, problem));
    const double opened = seconds_since(began);
    uint64_t replayed = 0;
    SLUICE_CHECK(succeeds(again.journal->read_blocks(), problem));
    SLUICE_CHECK(again.journal->replay([&](const Record&) { ++replayed; }));
    state.SetIterationTime(seconds_since(began));
    state.counters["open_s"] = opened;
    state.counters["replayed"] = static_cast<double>(replayed);
    state.counters["unfolded_MiB"] =
        static_cast<double>(again.journal->stats().unfolded_bytes) / (1 << 20);
    const auto asked = steady_clock::now();
    int found = 0;
    constexpr int some = 2000;
    for (int i = 0; i < some; ++i) {
      char key[17];
      World::name(again.roll() % counters, key);
      again.space = again.spaces.intern("bench:", "");
      if (again.journal->find(*again.space, {key, 16}, [](const Record&) {}) == Journal::Found::yes)
        ++found;
    }
    state.counters["find_us"] = seconds_since(asked) / some * 1e6;
    state.counters["found"] = static_cast<double>(found) / some;
  }
}
BENCHMARK(opening)
    ->Arg(1'000'000)
    ->Arg(10'000'000)
    ->UseManualTime()
    ->Iterations(1)
    ->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace sluice::disk
