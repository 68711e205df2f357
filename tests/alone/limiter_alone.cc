// The limiter in a program that links no other part of sluice. After a first run has created
// counters and buffers, no decision may allocate. Exits with 0 if none did.
#include <sluice/limiter.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <string>

#include "tests/timed/allocations.h"

namespace {

using namespace std::chrono_literals;

constexpr sluice::time_point start{sluice::duration(1'700'000'000'000'000)};
constexpr auto policy =
    "rules: [{ name: r, match: { ip: \"*\", path: \"/a*\" }, actor: [ip, path], limit: "
    "{ quota: 1000000, window: 1h } }]";

size_t ask(sluice::limiter& limiter, const sluice::handle& by, const sluice::handle& rule) {
  size_t allowed = 0;
  for (int i = 0; i < 100; ++i) {
    char key[] = "key-00";
    key[5] = static_cast<char>('0' + i % 10);
    const std::array charges = {sluice::charge{&by, key, 1}, sluice::charge{&rule, key, 1},
                                sluice::charge{&by, key, 2}};
    std::array<sluice::decision, 3> each;
    allowed += limiter.take(by, key, 1, start).allowed;
    allowed += limiter.peek(by, key, start).allowed;
    allowed += limiter.would_take(rule, key, 1, start).allowed;
    allowed += limiter.put(by, key, 1, start).allowed;
    allowed += limiter.take_all({charges.data(), charges.size()}, start, each.data()).allowed;
    limiter.take_many({charges.data(), charges.size()}, each.data(), start);
    allowed += each[2].allowed;
    allowed += limiter.take({{"ip", key}, {"path", "/abc"}}, 1, start).allowed;
  }
  return allowed;
}

}  // namespace

int main() {
  auto limiter = sluice::limiter::from_policy_text(policy);
  if (!limiter) return 1;
  const auto by = limiter->limits("x", {{1'000'000, 1h}, {2'000'000, 24h}});
  const auto rule = limiter->find("r");
  if (!by || !rule || ask(*limiter, *by, *rule) != 700) return 2;
  const sluice::tests::Allocations counted;
  if (ask(*limiter, *by, *rule) != 700) return 3;
  if (counted.count() > 0) std::printf("%zu allocations\n", counted.count());
  return counted.count() == 0 ? 0 : 4;
}
