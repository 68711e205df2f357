// What a call gave: a value, or the problem that kept it from one. Plain values; a problem is for
// people and says what is wrong, where, and what to do about it. A call whose caller must tell
// kinds of failure apart returns an enumeration of its own instead.
//
//   Result<Config> read_config(const std::string& path);
//
//   Result<Config> config = read_config(path);
//   if (!config) return std::move(config).problem();   // in a function that returns a Result
//   use(config->workers);
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <variant>

#include "base/check.h"

namespace sluice::base {

// One line for people, without an end.
struct Problem {
  std::string text;

  // The same, and before it what failed for it: "CONTEXT: TEXT".
  Problem within(const std::string& context) && {
    text.insert(0, context + ": ");
    return std::move(*this);
  }
};

template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : its_(std::in_place_index<0>, std::move(value)) {}
  Result(Problem problem) : its_(std::in_place_index<1>, std::move(problem)) {}

  explicit operator bool() const { return its_.index() == 0; }

  // Only where there is a value.
  T& operator*() & { return value(its_); }
  const T& operator*() const& { return value(its_); }
  T&& operator*() && { return std::move(value(its_)); }
  T* operator->() { return &value(its_); }
  const T* operator->() const { return &value(its_); }

  // Only where there is none.
  const Problem& problem() const& { return failure(its_); }
  Problem&& problem() && { return std::move(failure(its_)); }

 private:
  template <class Variant>
  static auto& value(Variant& of) {
    auto* const found = std::get_if<0>(&of);
    SLUICE_CHECK(found != nullptr);
    return *found;
  }
  template <class Variant>
  static auto& failure(Variant& of) {
    auto* const found = std::get_if<1>(&of);
    SLUICE_CHECK(found != nullptr);
    return *found;
  }

  std::variant<T, Problem> its_;
};

// Whether something was done.
template <>
class [[nodiscard]] Result<void> {
 public:
  Result() = default;
  Result(Problem problem) : problem_(std::move(problem)) {}

  explicit operator bool() const { return !problem_; }

  // Only where there is one.
  const Problem& problem() const& {
    SLUICE_CHECK(problem_);
    return *problem_;
  }
  Problem&& problem() && {
    SLUICE_CHECK(problem_);
    return std::move(*problem_);
  }

 private:
  std::optional<Problem> problem_;
};

using Done = Result<void>;

}  // namespace sluice::base
