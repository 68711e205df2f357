// Decisions of the store, to count the instructions of (bench_decisions.py runs it under valgrind):
// batches of requests that each charge one counter with the limits that are named, which allow
// them.
//
//   decisions BATCHES [charge] ALGORITHM...    `charge`: in place of takes; an ALGORITHM may be
//                                              `calendar`
#include <algorithm>
#include <cstdlib>
#include <iostream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/hash.h"
#include "limit/calendar.h"
#include "request/space.h"
#include "store/embedded_store.h"

namespace sluice::tools {
namespace {

constexpr size_t batch_size = 16, actors = 1'000;
constexpr int64_t quota = 1'000'000, batch_us = 97;

int run(size_t batches, request::Verb verb, const std::vector<limit::Limit>& limits) {
  request::Spaces spaces;
  const request::Space* const space = spaces.intern("bench:", "");
  const uint32_t limits_id = spaces.intern_limits(limits);
  request::Spaces no_spaces;
  store::EmbeddedStore store(0, base::Hash(1), no_spaces);
  std::vector<std::string> keys;
  for (size_t i = 0; i < actors; ++i) keys.push_back("192.168." + std::to_string(1'000'000 + i));
  std::vector<request::Group> groups(batch_size);
  std::vector<request::Charge> charges(batch_size);
  std::vector<limit::Decision> decisions(batch_size * limits.size());
  limit::Time now{1'700'000'000'000'000};
  size_t allowed = 0;
  for (size_t done = 0, actor = 0; done < batches; ++done) {
    for (size_t i = 0; i < batch_size; ++i, actor = (actor + 1) % actors) {
      groups[i] = {.charge_first = static_cast<uint32_t>(i), .charge_count = 1};
      charges[i] = {.space = space,
                    .key = keys[actor],
                    .verb = verb,
                    .limits = limits,
                    .limits_id = limits_id,
                    .decision_first = static_cast<uint32_t>(i * limits.size())};
    }
    store.apply({groups, charges, decisions}, now);
    for (const request::Group& group : groups) allowed += group.allowed;
    now.us += batch_us;
  }
  if (allowed == batches * batch_size) return 0;
  std::cerr << "decisions: " << batches * batch_size - allowed << " were refused\n";
  return 1;
}

}  // namespace
}  // namespace sluice::tools

int main(int argc, char** argv) {
  using namespace sluice;
  using limit::Algorithm;
  constexpr std::pair<std::string_view, Algorithm> algorithms[] = {
      {"fixed_window", Algorithm::fixed_window},     {"aligned_window", Algorithm::aligned_window},
      {"token_bucket", Algorithm::token_bucket},     {"fixed_bucket", Algorithm::fixed_bucket},
      {"sliding_window", Algorithm::sliding_window}, {"sliding_log", Algorithm::sliding_log}};
  std::vector<limit::Limit> limits;
  auto verb = request::Verb::take;
  bool known = argc > 2;
  for (int i = 2; i < argc; ++i) {
    const std::string_view name = argv[i];
    if (name == "charge") {
      verb = request::Verb::charge;
      continue;
    }
    if (name == "calendar") {  // an aligned window of months
      limit::Calendar::Terms terms{.unit = limit::Calendar::Unit::month};
      terms.minutes = static_cast<int>(limits.size());
      limits.push_back({.algorithm = Algorithm::aligned_window,
                        .quota = tools::quota,
                        .window = limit::Calendar::nominal(terms.unit),
                        .calendar = limit::Calendar::of(terms).calendar});
      continue;
    }
    const auto found =
        std::ranges::find(algorithms, name, &std::pair<std::string_view, Algorithm>::first);
    known &= found != std::end(algorithms);
    if (!known) break;
    const auto n = static_cast<int64_t>(limits.size()) + 1;  // so that no two limits are alike
    const Algorithm algorithm = found->second;
    // A log keeps the time of each unit, so it has few, and small windows.
    if (algorithm == Algorithm::sliding_log)
      limits.push_back({algorithm, 20 * n, base::Duration{n}, 0});
    else
      limits.push_back({algorithm, tools::quota * n, base::seconds(10 * n),
                        limit::units_max({algorithm, 0, {}, 1}) == 1 ? tools::quota : 0});
  }
  if (!known || limits.empty()) {
    std::cerr << "usage: decisions BATCHES [charge] ALGORITHM...\n";
    return 2;
  }
  return tools::run(std::strtoul(argv[1], nullptr, 10), verb, limits);
}
