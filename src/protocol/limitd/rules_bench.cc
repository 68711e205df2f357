#include <benchmark/benchmark.h>

#include <string>

#include "protocol/limitd/rules.h"

namespace sluice::limitd {
namespace {

struct Config {
  request::Spaces spaces;
  policy::RuleSet rules;
  LimitdConfig config;
  base::Diagnostics diagnostics;

  explicit Config(const std::string& text) {
    const NamedText file{"bench", text};
    read_limitd({&file, 1}, {}, spaces, rules, config, diagnostics);
  }
};

std::string with_overrides(int64_t count, int64_t expressions) {
  std::string text = "db: /db\nbuckets:\n  ip:\n    size: 10\n    per_second: 5\n    override:\n";
  for (int64_t i = 0; i < expressions; ++i)
    text += "      rx" + std::to_string(i) + ": { match: !!js/regexp /^192\\.168\\." +
            std::to_string(i) + "\\./i, size: 7 }\n";
  for (int64_t i = 0; i < count; ++i)
    text += "      10.1." + std::to_string(i / 256) + "." + std::to_string(i % 256) +
            ":\n        size: 20\n";
  return text;
}

void request(benchmark::State& state, const Config& config, std::string_view key) {
  const request::Entry descriptor[] = {{"type", "ip"}, {"key", key}};
  policy::Plan plan;
  for (auto _ : state) {
    plan.clear();
    config.rules.match(&dialect, {descriptor}, plan);
    benchmark::DoNotOptimize(plan.batch().charges.data());
  }
}

// The last of many exact overrides, and a key that has none.
void exact_override(benchmark::State& state) {
  const int64_t last = state.range(0) - 1;
  const Config config(with_overrides(state.range(0), 0));
  request(state, config, "10.1." + std::to_string(last / 256) + "." + std::to_string(last % 256));
}
BENCHMARK(exact_override)->Arg(10)->Arg(1000)->Arg(100'000);

void no_override(benchmark::State& state) {
  request(state, Config(with_overrides(state.range(0), 0)), "203.0.113.7");
}
BENCHMARK(no_override)->Arg(10)->Arg(1000)->Arg(100'000);

// A key that no expression finds.
void expressions(benchmark::State& state) {
  request(state, Config(with_overrides(0, state.range(0))), "203.0.113.7");
}
BENCHMARK(expressions)->Arg(1)->Arg(10);

void load(benchmark::State& state) {
  const std::string text = with_overrides(state.range(0), 0);
  for (auto _ : state) {
    const Config config(text);
    benchmark::DoNotOptimize(config.rules.rules(&dialect).data());
  }
}
BENCHMARK(load)->Arg(100'000)->Unit(benchmark::kMillisecond);

void expression(benchmark::State& state, std::string_view source, std::string_view text) {
  const auto regex = *policy::Regex::javascript(source, "i");
  for (auto _ : state) benchmark::DoNotOptimize(regex->matches(text));
}
BENCHMARK_CAPTURE(expression, at_front, "^127\\.", "127.0.0.1");
BENCHMARK_CAPTURE(expression, anywhere, "admin", "somebody@example.org");
BENCHMARK_CAPTURE(expression, hostile, "(a+)+$", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa?");

}  // namespace
}  // namespace sluice::limitd
