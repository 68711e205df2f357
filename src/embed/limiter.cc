#include <sluice/limiter.h>

#include <algorithm>
#include <cstdio>

#include "base/bounds.h"
#include "embed/caught.h"
#include "embed/core.h"
#include "embed/reservations.h"
#include "embed/waits.h"

namespace sluice {

using detail::core;
using embed::caught;
using request::HoldAsk;
using request::Verb;

namespace {

// What `decide` decides; an error where it throws, or where the limiter was moved from.
template <class Decide>
[[gnu::always_inline]] inline decision guarded(core* its, Decide&& decide) noexcept {
  if (its == nullptr) [[unlikely]]
    return embed::failed(errc::invalid_argument);
  try {
    return decide(*its);
  } catch (...) {
    return embed::failed(caught().code);
  }
}

template <class Do>
auto guarded_result(Do&& action) noexcept -> decltype(action()) {
  try {
    return action();
  } catch (...) {
    return caught();
  }
}

error closed() {
  return {errc::invalid_argument, "the limiter was moved from"};
}

// A limiter with the rules that `load` loads into it.
template <class Load>
result<limiter> made_with(result<limiter> made, Load&& load) noexcept {
  return guarded_result([&]() -> result<limiter> {
    if (!made) return std::move(made);
    if (const auto read = load(*made); !read) return read.why();
    return std::move(made);
  });
}

}  // namespace

handle::handle(const handle& other) noexcept : terms_(other.terms_) {
  if (terms_ != nullptr) terms_->hold();
}

handle::~handle() {
  if (terms_ != nullptr) terms_->drop();
}

limiter::limiter(std::shared_ptr<detail::core> its_core) noexcept : core_(std::move(its_core)) {}
limiter::limiter(limiter&&) noexcept = default;
limiter& limiter::operator=(limiter&&) noexcept = default;
limiter::~limiter() = default;

result<limiter> limiter::create(options how) {
  return guarded_result([&]() -> result<limiter> {
    if (how.memory_bytes < base::bounds::table_bytes_min ||
        how.memory_bytes > base::bounds::table_bytes_max)
      return error{errc::invalid_argument, "options::memory_bytes must be " +
                                               std::to_string(base::bounds::table_bytes_min) +
                                               " to " +
                                               std::to_string(base::bounds::table_bytes_max)};
    if (how.holds_max > holds_most)
      return error{errc::invalid_argument,
                   "options::holds_max must be 0 to " + std::to_string(holds_most)};
    for (const duration length : {how.hold_ttl, how.hold_remember})
      if (length < duration(1) || length > hold_ttl_max)
        return error{errc::invalid_argument,
                     "options::hold_ttl and options::hold_remember must be 1 microsecond to a day"};
    auto made = std::make_shared<core>(std::move(how));
    made->start();
    return limiter(std::move(made));
  });
}

result<limiter> limiter::from_policy_text(std::string_view text, options how,
                                          std::string_view name) {
  return made_with(create(std::move(how)),
                   [&](limiter& its) { return its.reload_text(text, time_point(), name); });
}

result<limiter> limiter::from_policy_file(const std::string& path, options how) {
  return made_with(create(std::move(how)),
                   [&](limiter& its) { return its.reload_file(path, time_point()); });
}

result<handle> limiter::find(std::string_view rule) const noexcept {
  return guarded_result([&]() -> result<handle> {
    if (!core_) return closed();
    return core_->find(rule);
  });
}

result<handle> limiter::limits(std::string_view name, view<limit_spec> all) noexcept {
  return guarded_result([&]() -> result<handle> {
    if (!core_) return closed();
    return core_->limits(name, all);
  });
}

decision limiter::take(const handle& by, std::string_view key, int64_t cost,
                       time_point now) noexcept {
  return guarded(core_.get(),
                 [&](core& its) { return its.decide(by, key, cost, Verb::take, now); });
}

decision limiter::peek(const handle& by, std::string_view key, time_point now) noexcept {
  return guarded(core_.get(), [&](core& its) { return its.decide(by, key, 0, Verb::peek, now); });
}

decision limiter::would_take(const handle& by, std::string_view key, int64_t cost,
                             time_point now) noexcept {
  return guarded(core_.get(),
                 [&](core& its) { return its.decide(by, key, cost, Verb::would_take, now); });
}

decision limiter::put(const handle& by, std::string_view key, int64_t units,
                      time_point now) noexcept {
  return guarded(core_.get(),
                 [&](core& its) { return its.decide(by, key, units, Verb::put, now); });
}

decision limiter::reset(const handle& by, std::string_view key, time_point now) noexcept {
  return guarded(core_.get(), [&](core& its) { return its.decide(by, key, 0, Verb::reset, now); });
}

decision limiter::charge(const handle& by, std::string_view key, int64_t cost,
                         time_point now) noexcept {
  return guarded(core_.get(),
                 [&](core& its) { return its.decide(by, key, cost, Verb::charge, now); });
}

decision limiter::take_all(view<struct charge> charges, time_point now, decision* each) noexcept {
  return guarded(core_.get(),
                 [&](core& its) { return its.settle_all(charges, Verb::take, now, each); });
}

decision limiter::charge_all(view<struct charge> charges, time_point now, decision* each) noexcept {
  return guarded(core_.get(),
                 [&](core& its) { return its.settle_all(charges, Verb::charge, now, each); });
}

void limiter::take_many(view<struct charge> charges, decision* each, time_point now) noexcept {
  if (core_ != nullptr) return core_->take_many(charges, each, now);
  for (size_t i = 0; i < charges.size(); ++i) each[i] = embed::failed(errc::invalid_argument);
}

decision limiter::take(view<entry> descriptor, int64_t cost, time_point now) noexcept {
  return guarded(core_.get(),
                 [&](core& its) { return its.decide(descriptor, cost, Verb::take, now); });
}

decision limiter::peek(view<entry> descriptor, time_point now) noexcept {
  return guarded(core_.get(),
                 [&](core& its) { return its.decide(descriptor, 0, Verb::peek, now); });
}

decision limiter::would_take(view<entry> descriptor, int64_t cost, time_point now) noexcept {
  return guarded(core_.get(),
                 [&](core& its) { return its.decide(descriptor, cost, Verb::would_take, now); });
}

decision limiter::charge(view<entry> descriptor, int64_t cost, time_point now) noexcept {
  return guarded(core_.get(),
                 [&](core& its) { return its.decide(descriptor, cost, Verb::charge, now); });
}

decision limiter::put(view<entry> descriptor, int64_t units, time_point now) noexcept {
  return guarded(core_.get(),
                 [&](core& its) { return its.decide(descriptor, units, Verb::put, now); });
}

decision limiter::reset(view<entry> descriptor, time_point now) noexcept {
  return guarded(core_.get(),
                 [&](core& its) { return its.decide(descriptor, 0, Verb::reset, now); });
}

namespace {

using Kind = detail::reservations::Kind;

// What the reservations of the limiter answer, as `guarded` has it; `none`: there are none.
template <class Answer, class Ask>
Answer guarded_holds(core* its, errc none, Ask&& ask) noexcept {
  if (its == nullptr) return {embed::failed(errc::invalid_argument)};
  if (its->reservations() == nullptr) return {embed::failed(none)};
  try {
    return ask(*its->reservations());
  } catch (...) {
    return {embed::failed(caught().code)};
  }
}

}  // namespace

reservation limiter::reserve(view<struct charge> charges, duration ttl, time_point now,
                             int64_t* each) noexcept {
  if (each != nullptr) std::fill_n(each, charges.size(), 0);
  return guarded_holds<reservation>(core_.get(), errc::too_many_holds, [&](auto& all) {
    return all.reserve(Kind::reservation, charges, ttl, now, each);
  });
}

reservation limiter::reserve(view<entry> descriptor, int64_t cost, duration ttl,
                             time_point now) noexcept {
  return guarded_holds<reservation>(core_.get(), errc::too_many_holds, [&](auto& all) {
    return all.reserve(Kind::reservation, descriptor, cost, ttl, now);
  });
}

reservation limiter::acquire(view<struct charge> charges, duration lease, time_point now,
                             int64_t* each) noexcept {
  if (each != nullptr) std::fill_n(each, charges.size(), 0);
  return guarded_holds<reservation>(core_.get(), errc::too_many_holds, [&](auto& all) {
    return all.reserve(Kind::place, charges, lease, now, each);
  });
}

reservation limiter::acquire(view<entry> descriptor, int64_t n, duration lease,
                             time_point now) noexcept {
  return guarded_holds<reservation>(core_.get(), errc::too_many_holds, [&](auto& all) {
    return all.reserve(Kind::place, descriptor, n, lease, now);
  });
}

reservation limiter::extend(const hold& its, view<int64_t> more, duration ttl, time_point now,
                            int64_t* each) noexcept {
  if (each != nullptr) std::fill_n(each, more.size(), 0);
  return guarded_holds<reservation>(core_.get(), errc::no_such_hold, [&](auto& all) {
    return all.change(its, HoldAsk::extend, more, ttl, now, each);
  });
}

reservation limiter::renew(const hold& its, duration ttl, time_point now) noexcept {
  return guarded_holds<reservation>(core_.get(), errc::no_such_hold, [&](auto& all) {
    return all.change(its, HoldAsk::renew, {}, ttl, now, nullptr);
  });
}

settlement limiter::commit(const hold& its, view<int64_t> used, time_point now) noexcept {
  return guarded_holds<settlement>(core_.get(), errc::no_such_hold, [&](auto& all) {
    return all.settle(its, HoldAsk::commit, used, now);
  });
}

settlement limiter::release(const hold& its, time_point now) noexcept {
  return guarded_holds<settlement>(core_.get(), errc::no_such_hold, [&](auto& all) {
    return all.settle(its, HoldAsk::release, {}, now);
  });
}

namespace {

waiting guarded_wait(core& its, const detail::waits::Asked& asked, time_point deadline,
                     wait_callback&& callback, time_point now) noexcept {
  try {
    return its.waits().wait(asked, deadline, std::move(callback), now);
  } catch (...) {
    return {embed::failed(caught().code), 0};
  }
}

}  // namespace

waiting limiter::wait(const handle& by, std::string_view key, int64_t cost, time_point deadline,
                      wait_callback callback, time_point now) noexcept {
  const struct charge one { &by, key, cost };
  return wait_all({&one, 1}, deadline, std::move(callback), now);
}

waiting limiter::wait_all(view<struct charge> charges, time_point deadline, wait_callback callback,
                          time_point now) noexcept {
  if (!core_ || charges.size() > charges_max || !embed::is_sound(now))
    return {embed::failed(errc::invalid_argument), 0};
  return guarded_wait(*core_, {.charges = charges, .descriptor = {}}, deadline, std::move(callback),
                      now);
}

waiting limiter::wait(view<entry> descriptor, int64_t cost, time_point deadline,
                      wait_callback callback, time_point now) noexcept {
  if (!core_ || cost < 0 || descriptor.size() > base::bounds::descriptor_entries_max ||
      !embed::is_sound(now))
    return {embed::failed(errc::invalid_argument), 0};
  return guarded_wait(*core_,
                      {.charges = {}, .descriptor = descriptor, .by_policy = true, .cost = cost},
                      deadline, std::move(callback), now);
}

namespace {

reserving guarded_reserve(core* its, Kind kind, detail::waits::Asked&& asked, duration ttl,
                          time_point deadline, reserve_callback&& callback,
                          time_point now) noexcept {
  reserving told;
  told.now = guarded_holds<reservation>(its, errc::too_many_holds, [&](auto& all) -> reservation {
    if (deadline <= now) {
      reservation at_once = asked.by_policy
                                ? all.reserve(kind, asked.descriptor, asked.cost, ttl, now)
                                : all.reserve(kind, asked.charges, ttl, now, nullptr);
      if (!at_once.now.allowed && at_once.now.error == errc::ok)
        at_once.now.error = errc::timed_out;
      return at_once;
    }
    const auto pending = std::make_shared<detail::reservations::Pending>();
    pending->kind = kind;
    pending->ttl = ttl;
    asked.pending = pending;
    const waiting waits = its->waits().wait(
        asked, deadline,
        [pending, callback = std::move(callback)](wait_id id, const decision& answer) {
          reservation at_last = pending->answer;
          at_last.now = answer;
          if (callback) callback(id, at_last);
        },
        now);
    told.id = waits.id;
    reservation answer = told.id == 0 ? pending->answer : reservation{};
    answer.now = waits.now;
    if (answer.id) its->waits().note_end(answer.until);
    return answer;
  });
  return told;
}

}  // namespace

reserving limiter::wait_reserve(view<struct charge> charges, duration ttl, time_point deadline,
                                reserve_callback callback, time_point now) noexcept {
  return guarded_reserve(core_.get(), Kind::reservation, {.charges = charges, .descriptor = {}},
                         ttl, deadline, std::move(callback), now);
}

reserving limiter::wait_reserve(view<entry> descriptor, int64_t cost, duration ttl,
                                time_point deadline, reserve_callback callback,
                                time_point now) noexcept {
  return guarded_reserve(core_.get(), Kind::reservation,
                         {.charges = {}, .descriptor = descriptor, .by_policy = true, .cost = cost},
                         ttl, deadline, std::move(callback), now);
}

reserving limiter::wait_acquire(view<struct charge> charges, duration lease, time_point deadline,
                                reserve_callback callback, time_point now) noexcept {
  return guarded_reserve(core_.get(), Kind::place, {.charges = charges, .descriptor = {}}, lease,
                         deadline, std::move(callback), now);
}

reserving limiter::wait_acquire(view<entry> descriptor, int64_t n, duration lease,
                                time_point deadline, reserve_callback callback,
                                time_point now) noexcept {
  return guarded_reserve(core_.get(), Kind::place,
                         {.charges = {}, .descriptor = descriptor, .by_policy = true, .cost = n},
                         lease, deadline, std::move(callback), now);
}

bool limiter::cancel(wait_id id, time_point now) noexcept {
  try {
    return core_ && embed::is_sound(now) && core_->waits().cancel(id, now);
  } catch (...) {
    return false;
  }
}

due limiter::run_due(time_point now) noexcept {
  if (!core_) return {};
  try {
    // A callback may destroy this limiter.
    const std::shared_ptr<core> its = core_;
    return its->run_due(now);
  } catch (...) {
    return {0, now};
  }
}

result<policy_report> limiter::reload_text(std::string_view text, time_point now,
                                           std::string_view name) noexcept {
  return guarded_result([&]() -> result<policy_report> {
    if (!core_) return closed();
    return core_->reload(text, name, now);
  });
}

namespace {

// The text of a file, or what is wrong with it.
result<std::string> read_file(const std::string& path) {
  const auto close = [](std::FILE* file) { std::fclose(file); };
  const std::unique_ptr<std::FILE, decltype(close)> file(std::fopen(path.c_str(), "rbe"), close);
  if (file == nullptr) return error{errc::policy, path + ": cannot be opened"};
  std::string text;
  char room[16 << 10];
  for (;;) {
    const size_t count = std::fread(room, 1, sizeof room, file.get());
    text.append(room, count);
    if (count < sizeof room) break;
    if (text.size() > base::bounds::config_bytes_max)
      return error{errc::policy, path + ": is longer than " +
                                     std::to_string(base::bounds::config_bytes_max) + " bytes"};
  }
  if (std::ferror(file.get()) != 0) return error{errc::policy, path + ": cannot be read"};
  return text;
}

}  // namespace

result<policy_report> limiter::reload_file(const std::string& path, time_point now) noexcept {
  return guarded_result([&]() -> result<policy_report> {
    if (!core_) return closed();
    const result<std::string> text = read_file(path);
    if (!text) return text.why();
    return core_->reload(*text, path, now);
  });
}

result<void> limiter::set_override(const override_spec& one, time_point now) noexcept {
  return guarded_result([&]() -> result<void> {
    if (!core_) return closed();
    return core_->set_override(one, now);
  });
}

result<void> limiter::remove_override(std::string_view rule, const std::vector<std::string>& actor,
                                      time_point now) noexcept {
  return guarded_result([&]() -> result<void> {
    if (!core_) return closed();
    return core_->remove_override(rule, actor, now);
  });
}

result<std::vector<override_spec>> limiter::overrides(time_point now) const noexcept {
  return guarded_result([&]() -> result<std::vector<override_spec>> {
    if (!core_) return closed();
    return core_->overrides(now);
  });
}

void limiter::sweep(std::size_t steps, time_point now) noexcept {
  if (!core_) return;
  try {
    core_->sweep(steps, now);
  } catch (...) {  // no memory: a later call goes on
  }
}

limiter_stats limiter::stats() const noexcept {
  return core_ ? core_->stats() : limiter_stats();
}

time_point limiter::now() const noexcept {
  return core_ ? core_->now() : time_point();
}

std::string limiter::key_of(view<std::string_view> values) {
  std::vector<std::string> all;
  for (const std::string_view value : values) all.emplace_back(value);
  return policy::key_text(all);
}

}  // namespace sluice
