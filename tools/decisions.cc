// Decisions of the store, to count the instructions of (bench_decisions.py runs it under valgrind):
// batches of requests that each charge one counter with the limits that are named, which allow
// them.
//
//   decisions BATCHES ALGORITHM...
#include <cstdlib>
#include <iostream>
#include <string>
#include <string_view>
#include <vector>

#include "base/hash.h"
#include "request/space.h"
#include "store/embedded_store.h"

namespace sluice::tools {
namespace {

constexpr size_t batch_size = 16, actors = 1'000;
constexpr int64_t quota = 1'000'000, batch_us = 97;

int run(size_t batches, const std::vector<limit::Limit>& limits) {
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
  using sluice::limit::Algorithm;
  std::vector<sluice::limit::Limit> limits;
  for (int i = 2; i < argc; ++i) {
    const int64_t n = i - 1;  // so that no two limits are alike
    const std::string_view name = argv[i];
    if (name == "fixed_window")
      limits.push_back(
          {Algorithm::fixed_window, sluice::tools::quota * n, sluice::base::seconds(10 * n), 0});
    else if (name == "token_bucket")
      limits.push_back({Algorithm::token_bucket, sluice::tools::quota * n,
                        sluice::base::seconds(10 * n), sluice::tools::quota});
    else
      limits.clear(), i = argc;
  }
  if (limits.empty()) {
    std::cerr << "usage: decisions BATCHES fixed_window|token_bucket...\n";
    return 2;
  }
  return sluice::tools::run(std::strtoul(argv[1], nullptr, 10), limits);
}
