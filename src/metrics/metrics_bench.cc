// What counting costs a worker.
#include <benchmark/benchmark.h>

#include <array>

#include "metrics/cells.h"
#include "metrics/top.h"

namespace sluice::metrics {
namespace {

constexpr std::array<uint64_t, 19> bounds{
    1,     2,     5,      10,     20,     50,      100,     200,     500,      1'000,
    2'000, 5'000, 10'000, 20'000, 50'000, 100'000, 200'000, 500'000, 1'000'000};

void add(benchmark::State& state) {
  std::array<Cell, 64> cells;
  size_t i = 0;
  for (auto _ : state) cells[i++ & 63].add();
  benchmark::DoNotOptimize(cells);
}
BENCHMARK(add);

void observe(benchmark::State& state) {
  Histogram histogram(bounds);
  uint64_t value = 0;
  for (auto _ : state) histogram.observe(value++ & 0xffff);
  benchmark::DoNotOptimize(histogram);
}
BENCHMARK(observe);

void put(benchmark::State& state) {
  Ring<uint64_t> ring(1 << 16);
  uint64_t i = 0;
  for (auto _ : state) {
    ring.put(i);
    if ((++i & 1023) == 0) {
      ring.publish();
      ring.drain([](uint64_t n) { benchmark::DoNotOptimize(n); });
    }
  }
}
BENCHMARK(put);

}  // namespace
}  // namespace sluice::metrics
