// A defect of the library must not end the process that uses it. If a check fails inside a call of
// the limiter, even while a lock of its table is held, the call must return errc::internal, and the
// limiter must continue to work. The linker (--wrap) calls the functions of this file in place of
// the library's. Exits with 0 if all of that holds; otherwise prints the line that does not hold,
// and exits with 1.
#include <sluice/limiter.h>
#include <sluice/sluice.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string_view>
#include <thread>

#include "base/check.h"
#include "store/embedded_store.h"
#include "store/stripe.h"

namespace {

std::atomic<bool> fails{false};
std::atomic<int> failed{0}, passed{0};

void check() {
  if (!fails) {
    ++passed;
    return;
  }
  ++failed;
  SLUICE_CHECK(!"a defect");
}

void expect(bool holds, int line) {
  if (holds) return;
  std::printf("line %d: it does not hold\n", line);
  std::exit(1);
}
#define EXPECT(condition) expect((condition), __LINE__)

}  // namespace

// The linker's names of the functions: the library calls `__wrap_...`, which is here, and
// `__real_...` is the library's own function.
namespace sluice::store {
extern "C" {
// Called with a stripe locked.
Entry*
real_insert(Stripe*, Region&, const base::Hash&, uint64_t, uint32_t, std::string_view, size_t) __asm__(
    "__real__ZN6sluice5store6Stripe6insertERNS0_6RegionERKNS_4base4HashEmjSt17basic_string_"
    "viewIcSt11char_traitsIcEEm");
Entry*
wrap_insert(Stripe*, Region&, const base::Hash&, uint64_t, uint32_t, std::string_view, size_t) __asm__(
    "__wrap__ZN6sluice5store6Stripe6insertERNS0_6RegionERKNS_4base4HashEmjSt17basic_string_"
    "viewIcSt11char_traitsIcEEm");
size_t real_sweep(Stripe*, Region&, const Sweep&, uint32_t, uint32_t) __asm__(
    "__real__ZN6sluice5store6Stripe5sweepERNS0_6RegionERKNS0_5SweepEjj");
size_t wrap_sweep(Stripe*, Region&, const Sweep&, uint32_t, uint32_t) __asm__(
    "__wrap__ZN6sluice5store6Stripe5sweepERNS0_6RegionERKNS0_5SweepEjj");
}

Entry* wrap_insert(Stripe* its, Region& region, const base::Hash& hash_of, uint64_t hash,
                   uint32_t space, std::string_view key, size_t cells) {
  check();
  return real_insert(its, region, hash_of, hash, space, key, cells);
}

size_t wrap_sweep(Stripe* its, Region& region, const Sweep& sweep, uint32_t first, uint32_t count) {
  check();
  return real_sweep(its, region, sweep, first, count);
}
}  // namespace sluice::store

namespace {

using namespace std::chrono_literals;
constexpr sluice::time_point start{sluice::duration(1'700'000'000'000'000)};
constexpr auto policy =
    "rules: [{ name: r, match: { ip: \"*\" }, actor: ip, limit: { quota: 2, window: 1h } }]";

void decisions() {
  auto limiter = sluice::limiter::from_policy_text(policy);
  EXPECT(limiter.has_value());
  const auto by = limiter->limits("x", {{2, 1h}});
  EXPECT(by.has_value() && limiter->take(*by, "old", 1, start).allowed);
  const auto ask = [&](auto&& decide) {
    const int before = failed;
    fails = true;
    const sluice::decision d = decide();
    fails = false;
    EXPECT(failed > before && d.error == sluice::errc::internal && !d.allowed);
  };
  const sluice::charge both[] = {{&*by, "old", 1}, {&*by, "new", 1}};
  ask([&] { return limiter->take(*by, "new", 1, start); });
  ask([&] { return limiter->take({{"ip", "new"}}, 1, start); });
  ask([&] { return limiter->take_all({both, 2}, start); });
  ask([&] {
    return limiter
        ->wait_all(
            {both, 2}, start + 1s, [](sluice::wait_id, const auto&) {}, start)
        .now;
  });
  ask([&] {
    sluice::decision each[2];
    limiter->take_many({both, 2}, each, start);
    return each[1];
  });
  // No lock is still held, and counters work: `new` has both units, `old` at most the one that was
  // left.
  EXPECT(limiter->take(*by, "new", 2, start).allowed);
  EXPECT(limiter->take({{"ip", "new"}}, 2, start).allowed);
  EXPECT(limiter->peek(*by, "old", start).remaining <= 1);
  fails = true;
  limiter->sweep(1'000'000, start);
  fails = false;
  limiter->sweep(1'000'000, start + 10h);
  EXPECT(limiter->stats().counters == 0 && limiter->stats().waiting == 0);
}

void in_c() {
  sluice_error error;
  sluice_limiter* limiter = sluice_create(nullptr, &error);
  EXPECT(limiter != nullptr);
  const sluice_limit two{2, 1'000'000, 0, SLUICE_TOKEN_BUCKET, 0};
  sluice_handle* by = sluice_limits(limiter, "x", &two, 1, &error);
  EXPECT(by != nullptr);
  sluice_decision d;
  fails = true;
  EXPECT(sluice_take(limiter, by, "k", 1, 1, 1'000'000, &d) == SLUICE_INTERNAL);
  fails = false;
  EXPECT(d.error == SLUICE_INTERNAL && d.allowed == 0);
  EXPECT(sluice_take(limiter, by, "k", 1, 2, 1'000'000, &d) == SLUICE_OK && d.allowed == 1);
  sluice_handle_destroy(by);
  sluice_destroy(limiter);
}

// The sweeping thread meets the defect more than once, and continues afterwards.
void in_the_thread_that_sweeps() {
  sluice::options how;
  how.sweep_thread = true;
  how.clock = [] { return start + 10h; };
  auto limiter = sluice::limiter::create(std::move(how));
  EXPECT(limiter.has_value());
  failed = 0;
  fails = true;
  while (failed < 2) std::this_thread::sleep_for(1ms);
  fails = false;
  passed = 0;
  while (passed < 2) std::this_thread::sleep_for(1ms);
}

}  // namespace

int main() {
  decisions();
  in_c();
  in_the_thread_that_sweeps();
  return 0;
}
