#include <sluice/durable.h>

#include <exception>
#include <new>
#include <utility>

#include "base/bounds.h"
#include "embed/core.h"
#include "keep/kept_core.h"

namespace sluice {

namespace {

// The error of the exception that is being handled.
error thrown() noexcept {
  try {
    throw;
  } catch (const std::bad_alloc&) {
    return {errc::no_memory, {}};  // no text: that takes memory
  } catch (const std::exception& its) {
    try {
      return {errc::internal, its.what()};
    } catch (...) {
      return {errc::internal, {}};
    }
  } catch (...) {
    return {errc::internal, {}};
  }
}

}  // namespace

durable::durable(std::unique_ptr<detail::kept_core> its) noexcept : its_(std::move(its)) {}
durable::durable(durable&&) noexcept = default;
durable& durable::operator=(durable&&) noexcept = default;
durable::~durable() = default;

result<durable> durable::open(durable_options where, options how) noexcept {
  try {
    if (where.directory.empty())
      return error{errc::invalid_argument, "durable_options::directory is empty"};
    if (where.commit_every < duration(0) ||
        (where.commit_every > duration(0) && where.commit_every < duration(1'000)) ||
        where.commit_every > window_max)
      return error{errc::invalid_argument,
                   "durable_options::commit_every must be 0, or 1 ms to 36,600 days"};
    // Nothing sweeps before all is loaded.
    const bool sweeps = std::exchange(how.sweep_thread, false);
    result<limiter> made = limiter::create(std::move(how));
    if (!made) return made.why();
    const std::shared_ptr<detail::core> its_core = made->core_;
    auto its = std::make_unique<detail::kept_core>(std::move(where), its_core, *std::move(made));
    if (auto opened = its->open(); !opened) return opened.why();
    if (sweeps) its_core->start_sweeping();
    return durable(std::move(its));
  } catch (...) {
    return thrown();
  }
}

result<void> durable::commit() noexcept {
  if (its_ == nullptr) return error{errc::invalid_argument, "it was moved from"};
  try {
    return its_->commit();
  } catch (...) {
    return thrown();
  }
}

limiter& durable::operator*() noexcept {
  return its_->its_limiter();
}

limiter* durable::operator->() noexcept {
  return &its_->its_limiter();
}

}  // namespace sluice
