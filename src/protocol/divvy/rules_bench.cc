#include <benchmark/benchmark.h>

#include <string>
#include <vector>

#include "policy/rule_set.h"
#include "protocol/divvy/rules.h"

namespace sluice::policy {
namespace {

struct Policy {
  request::Spaces spaces;
  RuleSet rules;
  base::Diagnostics diagnostics;

  explicit Policy(std::string_view text) {
    divvy::read_divvy(text, divvy::DivvyFormat::ini, divvy::DivvyMatching::code, "bench", spaces,
                      rules, diagnostics);
  }
};

void match(benchmark::State& state, const Policy& policy, std::span<const request::Entry> request) {
  Plan plan;
  for (auto _ : state) {
    plan.clear();
    policy.rules.match(&divvy::dialect, {request}, plan);
    benchmark::DoNotOptimize(plan.batch().charges.data());
  }
}

const request::Entry cookies[] = {
    {"method", "GET"}, {"path", "/pantry/cookies/oatmeal"}, {"ip", "192.168.100.17"}};

// What a plan costs by itself.
void default_rule(benchmark::State& state) {
  const Policy policy("[default]\ncreditLimit=9\nresetSeconds=9\nactorField=ip\n");
  match(state, policy, cookies);
}
BENCHMARK(default_rule);

// Three rules, three entries; the last rule decides.
void three_rules(benchmark::State& state) {
  const Policy policy(
      "[method=GET path=/status]\ncreditLimit=9\nresetSeconds=9\n"
      "[method=GET path=/pantry/*/special ip=*]\ncreditLimit=9\nresetSeconds=9\n"
      "[method=GET path=/pantry/cookies/* ip=*]\ncreditLimit=9\nresetSeconds=9\nactorField=ip\n"
      "[default]\ncreditLimit=0\n");
  match(state, policy, cookies);
}
BENCHMARK(three_rules);

// The last of many rules decides, by its own value or prefix.
void many_rules(benchmark::State& state) {
  std::string text;
  for (int64_t i = 0; i < state.range(0); ++i) {
    text += "[method=GET path=/pantry/" + std::to_string(i) + (i % 2 ? "/*" : "") +
            " ip=*]\ncreditLimit=9\nresetSeconds=9\nactorField=ip\n";
  }
  text +=
      "[method=GET path=/pantry/cookies/* "
      "ip=*]\ncreditLimit=9\nresetSeconds=9\nactorField=ip\n[default]\ncreditLimit=0\n";
  const Policy policy(text);
  match(state, policy, cookies);
}
BENCHMARK(many_rules)
    ->Arg(2)
    ->Arg(4)
    ->Arg(6)
    ->Arg(7)
    ->Arg(10)
    ->Arg(20)
    ->Arg(100)
    ->Arg(10'000)
    ->Arg(100'000);

void pattern(benchmark::State& state, const Pattern& pattern) {
  const std::string value = "/pantry/cookies/chocolate-chip-with-nuts/ingredients";
  for (auto _ : state) benchmark::DoNotOptimize(pattern.matches(value));
}
BENCHMARK_CAPTURE(pattern, prefix, Pattern::loose("/pantry/*"));
BENCHMARK_CAPTURE(pattern, search, Pattern::loose("/pantry/*/ingredients"));
BENCHMARK_CAPTURE(pattern, repeats, Pattern::loose("/pantry/*/in*gredients"));
BENCHMARK_CAPTURE(pattern, wildcard, Pattern::wildcard("/pantry/*/in*gredients"));

}  // namespace
}  // namespace sluice::policy
