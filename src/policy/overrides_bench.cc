// What a lookup in the table of overrides costs, and a change of one, by how many there are: exact
// ones, and patterns that are a beginning and a star. The names are looked up in a random order, so
// with a million of them each is read from memory. `bytes`: of memory for each override.
//
// Instructions: valgrind --tool=callgrind --toggle-collect='*timed_*' with one benchmark.
#include <benchmark/benchmark.h>

#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "policy/overrides.h"
#include "tests/support/dice.h"

namespace sluice::policy {
namespace {

constexpr size_t actors = 1'000'000, batch = 64;
constexpr uint64_t rule = 7;

// A name of ten digits; each `i` has another.
std::string user(size_t i) {
  const std::string digits = std::to_string(i * 2'654'435'761u % 10'000'000'019u % 10'000'000'000u);
  return std::string(10 - digits.size(), '0') + digits;
}

Override one(size_t i, bool pattern) {
  Override made;
  made.rule = rule;
  made.actor = {pattern ? user(i).substr(0, 9 + i % 2) + "*" : user(i)};
  made.terms.id = i + 1;
  return made;
}

size_t resident_bytes() {
  std::ifstream file("/proc/self/statm");
  size_t size = 0, resident = 0;
  file >> size >> resident;
  return resident * 4096;
}

struct Table {
  Overrides overrides;
  size_t count = SIZE_MAX, bytes = 0;
  bool pattern = false;
};

// The table of the benchmark before, where it is the same: a million take a while.
Table& table_of(size_t count, bool pattern) {
  static std::unique_ptr<Table> table;
  if (table != nullptr && table->count == count && table->pattern == pattern) return *table;
  table.reset();
  table = std::make_unique<Table>();
  table->count = count;
  table->pattern = pattern;
  const size_t before = resident_bytes();
  for (size_t i = 0; i < count; ++i) table->overrides.set(one(i, pattern));
  table->bytes = resident_bytes() - before;
  return *table;
}

// `hits`: of those that there are; else of as many others.
std::vector<std::string> names_of(size_t count, bool hits) {
  tests::Dice dice(1);
  std::vector<std::string> names;
  for (size_t i = 0; i < 65'536; ++i)
    names.push_back(hits ? user(dice(count)) : "x" + user(dice(actors)).substr(1));
  return names;
}

[[gnu::noinline]] size_t timed_lookups(const Overrides& overrides, const std::string* names,
                                       size_t count) {
  size_t found = 0;
  for (size_t i = 0; i < count; ++i) {
    Override::Terms terms;
    found += overrides.find(rule, names[i], {0}, terms);
  }
  return found;
}

[[gnu::noinline]] size_t timed_batch(const Overrides& overrides, const std::string* names,
                                     size_t count) {
  if (overrides.prefetches()) {
    for (size_t i = 0; i < count; ++i) overrides.prefetch_slots(rule, names[i]);
    for (size_t i = 0; i < count; ++i) overrides.prefetch_nodes(rule, names[i]);
  }
  return timed_lookups(overrides, names, count);
}

// Arguments: how many there are, hit, pattern, in batches.
void lookup(benchmark::State& state) {
  const auto count = static_cast<size_t>(state.range(0));
  const bool hits = state.range(1) != 0, in_batches = state.range(3) != 0;
  const Table& table = table_of(count, state.range(2) != 0);
  const auto names = names_of(count, hits);
  size_t found = 0, looked = 0;
  for (auto _ : state) {
    const std::string* const from = &names[looked % names.size()];
    found += in_batches ? timed_batch(table.overrides, from, batch)
                        : timed_lookups(table.overrides, from, batch);
    looked += batch;
  }
  if (found != (hits ? looked : 0)) state.SkipWithError("the wrong number was found");
  state.SetItemsProcessed(static_cast<int64_t>(looked));
  if (count >= 1000)
    state.counters["bytes"] = static_cast<double>(table.bytes) / static_cast<double>(count);
}
void each_lookup(benchmark::internal::Benchmark* its) {
  for (const int pattern : {0, 1})
    for (const int count : {0, 1, 1000, 1'000'000})
      for (const int hit : {0, 1})
        for (const int in_batches : {0, 1})
          if (count > 0 || hit == 0) its->Args({count, hit, pattern, in_batches});
}
BENCHMARK(lookup)
    ->ArgNames({"count", "hit", "pattern", "batch"})
    ->Apply(each_lookup)
    ->Iterations(16'384);

[[gnu::noinline]] bool timed_set(Overrides& overrides, const Override& next) {
  return overrides.set(next);
}

void set_one(benchmark::State& state) {
  const auto count = static_cast<size_t>(state.range(0));
  const bool pattern = state.range(1) != 0;
  Table& table = table_of(count, pattern);
  tests::Dice dice(2);
  for (auto _ : state) timed_set(table.overrides, one(dice(count), pattern));
  state.SetItemsProcessed(static_cast<int64_t>(state.iterations()));
}
BENCHMARK(set_one)
    ->ArgNames({"count", "pattern"})
    ->ArgsProduct({{1000, 1'000'000}, {0, 1}})
    ->Iterations(100'000);

// From nothing to that many: what a start does.
void fill(benchmark::State& state) {
  const auto count = static_cast<size_t>(state.range(0));
  std::vector<Override> all;
  for (size_t i = 0; i < count; ++i) all.push_back(one(i, false));
  for (auto _ : state) {
    Overrides overrides;
    for (const Override& next : all) timed_set(overrides, next);
  }
  state.SetItemsProcessed(state.iterations() * static_cast<int64_t>(count));
}
BENCHMARK(fill)->ArgName("count")->Arg(1'000'000)->Iterations(2);

}  // namespace
}  // namespace sluice::policy
