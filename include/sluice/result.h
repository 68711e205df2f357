/// @file
/// Errors as values: what went wrong, and a result that is a value or an error. Nothing of sluice's
/// libraries throws across its interface or ends the process. Plain values, without behaviour of
/// their own; any thread may use its own copy. C++17.
#ifndef SLUICE_RESULT_H
#define SLUICE_RESULT_H

#include <string>
#include <utility>
#include <variant>

namespace sluice {

/// What went wrong. The numbers are part of the ABI and are the same as `sluice_errc` of sluice.h.
enum class errc : int {
  ok = 0,                   ///< nothing did
  invalid_argument = 1,     ///< a value is outside the range that its function names
  unknown_rule = 2,         ///< no rule has that name, or not any more
  policy = 3,               ///< the policy has errors; the one before stays in force
  no_memory = 4,            ///< the bound of memory for counters is reached, or the system has none
  too_many_limits = 5,      ///< more different limits are known than options::limits_max
  too_many_waiting = 6,     ///< options::waiting_max are waiting already
  conflicting_limits = 7,   ///< one counter is charged under two different lists of limits at once
  timed_out = 8,            ///< the deadline of a wait has passed; nothing was taken
  cannot_match = 9,         ///< a rule's pattern cannot be evaluated for this descriptor
  storage = 10,             ///< the directory of counters cannot be read or written
  internal = 11,            ///< a defect of sluice: its message says where; please report it
  too_many_overrides = 12,  ///< more overrides than the table holds
  not_found = 13,           ///< what would be removed or cancelled does not exist
  no_such_hold = 14,        ///< no reservation has that name, or it is forgotten
  already_settled = 15,     ///< the reservation is committed, with other units
  hold_ended = 16,          ///< the reservation was released, or its end has passed
  too_many_holds = 17,      ///< options::holds_max reservations are held, or it is 0
  no_places = 18,           ///< of acquire(): no limit that applies is of algorithm::concurrency
};

/// An error and a text for people: what is wrong, where, and what to do.
struct error {
  /// which error it is
  errc code = errc::ok;
  /// what is wrong, where, and what to do
  std::string message;
};

/// A value, or why there is none. Asking for the other one is a mistake of the caller, and throws
/// std::bad_variant_access.
template <class T>
class result {
 public:
  /// Of a value, or of the reason why there is none.
  result(T value) : held_(std::in_place_index<0>, std::move(value)) {}
  /// Of a value, or of the reason why there is none.
  result(error why) : held_(std::in_place_index<1>, std::move(why)) {}

  /// Is there a value?
  bool has_value() const noexcept { return held_.index() == 0; }
  /// Is it allowed, there, or done?
  explicit operator bool() const noexcept { return has_value(); }

  /// the value
  T& value() & { return std::get<0>(held_); }
  /// the value
  const T& value() const& { return std::get<0>(held_); }
  /// the value
  T&& value() && { return std::get<0>(std::move(held_)); }
  /// The value.
  T& operator*() & { return value(); }
  /// The value.
  const T& operator*() const& { return value(); }
  /// The value.
  T&& operator*() && { return std::move(*this).value(); }
  /// The value.
  T* operator->() { return &value(); }
  /// The value.
  const T* operator->() const { return &value(); }

  /// Why there is no value.
  const sluice::error& why() const { return std::get<1>(held_); }

 private:
  std::variant<T, sluice::error> held_;
};

/// Done, or why not.
template <>
class result<void> {
 public:
  result() = default;
  /// Of a value, or of the reason why there is none.
  result(error why) : why_(std::move(why)) {}

  /// Was it done?
  bool has_value() const noexcept { return why_.code == errc::ok; }
  /// Is it allowed, there, or done?
  explicit operator bool() const noexcept { return has_value(); }
  /// Why it was not; errc::ok: it was.
  const sluice::error& why() const { return why_; }

 private:
  sluice::error why_;
};

}  // namespace sluice

#endif
