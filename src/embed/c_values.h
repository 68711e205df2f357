// What the C interfaces share: their limiter, their options, and how a failure becomes a value.
#pragma once

#include <sluice/limiter.h>
#include <sluice/sluice.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <new>
#include <string>
#include <string_view>

struct sluice_limiter {
  sluice::limiter its;
};

namespace sluice::embed {

inline time_point time_of(int64_t us) {
  return time_point(duration(us));
}

inline int32_t fail(errc code, std::string_view message, sluice_error* out) noexcept {
  if (out != nullptr) {
    out->code = static_cast<int32_t>(code);
    const size_t size = std::min(message.size(), sizeof out->message - 1);
    std::copy_n(message.begin(), size, out->message);
    out->message[size] = 0;
  }
  return static_cast<int32_t>(code);
}

inline int32_t done(sluice_error* out) noexcept {
  return fail(errc::ok, {}, out);
}

// What `action` returns; where memory runs out, `otherwise(errc, text)`.
template <class Action, class Otherwise>
auto guarded(Action&& action, Otherwise&& otherwise) noexcept -> decltype(action()) {
  try {
    return action();
  } catch (const std::bad_alloc&) {
    return otherwise(errc::no_memory, "no memory");
  } catch (...) {
    return otherwise(errc::internal, "an exception that is not known");
  }
}

template <class Action>
int32_t guarded_error(sluice_error* out, Action&& action) noexcept {
  return guarded(action, [&](errc why, const char* text) { return fail(why, text, out); });
}

template <class T, class Action>
T* guarded_pointer(sluice_error* out, Action&& action) noexcept {
  return guarded(action, [&](errc why, const char* text) -> T* {
    fail(why, text, out);
    return nullptr;
  });
}

// Of options of this or an earlier version: what is not there is as by default.
inline sluice::options options_of(const sluice_options* given) {
  sluice_options all{};
  if (given != nullptr) std::memcpy(&all, given, std::min(given->size, sizeof all));
  sluice::options how;
  if (all.memory_bytes > 0) how.memory_bytes = all.memory_bytes;
  if (all.waiting_max > 0) how.waiting_max = all.waiting_max;
  if (all.limits_max > 0) how.limits_max = all.limits_max;
  if (all.clock != nullptr)
    how.clock = [clock = all.clock, data = all.clock_data] { return time_of(clock(data)); };
  if (all.wake != nullptr) how.wake = [wake = all.wake, data = all.wake_data] { wake(data); };
  how.sweep_thread = all.sweep_thread != 0;
  return how;
}

template <class T>
T* missing(const char* what, sluice_error* error) {
  fail(errc::invalid_argument, std::string(what) + " must not be null", error);
  return nullptr;
}

}  // namespace sluice::embed
