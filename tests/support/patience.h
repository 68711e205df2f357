// How long tests wait for what has to happen: generously, and more so in a build that a sanitizer
// slows down. A deadline that passes is a failure; nothing sleeps in the hope that something is
// ready afterwards.
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

// For what takes milliseconds on an idle machine.
inline Deadline soon() {
  return within(std::chrono::seconds(60));
}

// Whether this is `make bench`, which runs one test at a time and sets SLUICE_TIMED. `make test`
// shares its processors with other work, so no test may fail there because something took long.
inline bool holds_times() {
  return std::getenv("SLUICE_TIMED") != nullptr;
}

// Begins a test that asserts nothing but times: it runs in `make bench` alone.
#define SLUICE_HOLDS_TIMES() \
  if (!sluice::tests::holds_times()) GTEST_SKIP() << "a matter of `make bench`"

// A bound on how long something takes that a test asserts beside other things: as it is promised in
// `make bench`; elsewhere only what hangs is a failure.
inline Milliseconds promised(Milliseconds time) {
  return (holds_times() ? time : Milliseconds(60'000)) * slowness;
}

// Milliseconds left until `deadline`, for poll(2); 0 when it has passed.
int left_ms(Deadline deadline);

}  // namespace sluice::tests
