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
#include <utility>

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

inline int32_t fail(const error& why, sluice_error* out) noexcept {
  const bool has_none = why.message.empty() && why.code == errc::no_memory;  // that takes memory
  return fail(why.code, has_none ? "no memory" : std::string_view(why.message), out);
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

// A struct that begins with its size, in the version of it that is known here: what an earlier one
// does not have is 0, and what a later one has beyond it must be 0. `name` is its type's.
template <class Struct>
result<Struct> known_of(const Struct& given, const std::string& name) {
  constexpr size_t size_max = 4096;  // past it the size was not set
  const auto wrong = [&](const std::string& what) {
    return error{errc::invalid_argument, name + what};
  };
  if (given.size < sizeof given.size || given.size > size_max)
    return wrong("::size must be sizeof(" + name + ")");
  Struct all{};
  std::memcpy(&all, &given, std::min(given.size, sizeof all));
  const auto* const bytes = reinterpret_cast<const unsigned char*>(&given);
  for (size_t i = sizeof all; i < given.size; ++i)
    if (bytes[i] != 0) return wrong(" asks for what this version of the library does not have");
  if (all.reserved != 0) return wrong("::reserved must be 0");
  return all;
}

inline result<sluice::options> options_of(const sluice_options* given) {
  sluice::options how;
  if (given == nullptr) return how;
  const auto known = known_of(*given, "sluice_options");
  if (!known) return known.why();
  const sluice_options& all = *known;
  if (all.memory_bytes > 0) how.memory_bytes = all.memory_bytes;
  if (all.waiting_max > 0) how.waiting_max = all.waiting_max;
  if (all.limits_max > 0) how.limits_max = all.limits_max;
  if (all.clock != nullptr)
    how.clock = [clock = all.clock, data = all.clock_data] { return time_of(clock(data)); };
  if (all.wake != nullptr) how.wake = [wake = all.wake, data = all.wake_data] { wake(data); };
  how.sweep_thread = all.sweep_thread != 0;
  how.holds_max = all.holds_max;
  if (all.hold_ttl_us != 0) how.hold_ttl = duration(all.hold_ttl_us);
  if (all.hold_remember_us != 0) how.hold_remember = duration(all.hold_remember_us);
  return how;
}

inline error missing(const char* what) {
  return {errc::invalid_argument, std::string(what) + " must not be null"};
}

// The value in the struct that the C interface has for it; null where there is an error.
template <class Holder, class T>
Holder* made(result<T> its, sluice_error* out) {
  if (!its) {
    fail(its.why(), out);
    return nullptr;
  }
  auto* const holder = new Holder{std::move(its).value()};
  done(out);
  return holder;
}

}  // namespace sluice::embed
