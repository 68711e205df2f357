// What tracking the top keys costs a worker for each decision; tests/timed/top_test.cc holds it to
// its bound.
#include <benchmark/benchmark.h>

#include <string>
#include <vector>

#include "base/hash.h"
#include "metrics/top.h"

namespace sluice::metrics {
namespace {

// Keys in turn, so that every one of them has been dropped when it comes again, once they are more
// than fit.
void count(benchmark::State& state) {
  const base::Hash hash(1);
  Top top;
  std::vector<std::string> keys;
  for (int64_t i = 0; i < state.range(0); ++i) keys.push_back("user-" + std::to_string(i));
  size_t at = 0;
  for (auto _ : state) {
    const std::string& key = keys[at];
    at = at + 1 == keys.size() ? 0 : at + 1;
    top.count({0}, hash(1, key), nullptr, key, 0, state.range(1) != 0);
  }
}
BENCHMARK(count)->ArgsProduct({{16, 512, 513, 1'000'000}, {0, 1}});

void copy(benchmark::State& state) {
  const base::Hash hash(1);
  Top top;
  for (int i = 0; i < 100'000; ++i) {
    const std::string key = "user-" + std::to_string(i);
    top.count({0}, hash(1, key), nullptr, key, 0, i % 2 == 0);
  }
  const std::unique_ptr<TopSketch> other(new TopSketch);
  for (auto _ : state) {
    top.at(0)->copy_to(*other);
    benchmark::ClobberMemory();
  }
}
BENCHMARK(copy);

}  // namespace
}  // namespace sluice::metrics
