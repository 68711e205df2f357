// How long tests wait for an expected event: long, and longer in a build with a sanitizer. A
// deadline that passes is a failure. No test sleeps and then assumes that something is ready.
#pragma once

#include <chrono>
#include <cstdlib>

namespace sluice::tests {

#if defined(__has_feature)
#define SLUICE_HAS_FEATURE(feature) __has_feature(feature)
#else
#define SLUICE_HAS_FEATURE(feature) 0
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || \
    SLUICE_HAS_FEATURE(address_sanitizer) || SLUICE_HAS_FEATURE(thread_sanitizer)
inline constexpr bool sanitized = true;
#else
inline constexpr bool sanitized = false;
#endif
#undef SLUICE_HAS_FEATURE

inline constexpr int slowness = sanitized ? 4 : 1;

using Milliseconds = std::chrono::milliseconds;
using Deadline = std::chrono::steady_clock::time_point;

inline Deadline within(Milliseconds time) {
  return std::chrono::steady_clock::now() + time * slowness;
}

// A minute, for what takes milliseconds on an idle machine.
inline Deadline soon() {
  return within(std::chrono::seconds(60));
}

// Whether `make bench` runs this: it runs one test at a time and sets SLUICE_TIMED. `make test`
// shares its processors with other work, so no test may fail there because something took long.
inline bool holds_times() {
  return std::getenv("SLUICE_TIMED") != nullptr;
}

// The first line of a test that asserts only times: it is skipped except in `make bench`.
#define SLUICE_HOLDS_TIMES() \
  if (!sluice::tests::holds_times()) GTEST_SKIP() << "runs in `make bench` only"

// A bound on a duration, for a test that asserts other things as well: `time` in `make bench`;
// elsewhere a minute, so that only a hang fails.
inline Milliseconds promised(Milliseconds time) {
  return (holds_times() ? time : Milliseconds(60'000)) * slowness;
}

// Milliseconds left until `deadline`, for poll(2); 0 when it has passed.
int left_ms(Deadline deadline);

}  // namespace sluice::tests
