// The C interface over the C++ one: values in, values out, and no exception past it.
#include <sluice/limiter.h>
#include <sluice/sluice.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <mutex>
#include <new>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/bounds.h"
#include "embed/c_values.h"
#include "embed/version.h"
#include "limit/calendar.h"

struct sluice_handle {
  sluice::handle its;
};

namespace {

using sluice::decision;
using sluice::duration;
using sluice::errc;
using sluice::embed::done;
using sluice::embed::fail;
using sluice::embed::guarded;
using sluice::embed::guarded_error;
using sluice::embed::guarded_pointer;
using sluice::embed::made;
using sluice::embed::missing;
using sluice::embed::options_of;
using sluice::embed::time_of;

bool is_text(const char* bytes, size_t count) {
  return bytes != nullptr || count == 0;
}

void tell(const decision& d, sluice_decision* out) noexcept {
  if (out == nullptr) return;
  *out = {d.allowed, d.matched,   static_cast<int32_t>(d.error), d.over,
          d.limit,   d.remaining, d.retry_after.count(),         d.reset_after.count()};
}

int32_t told(const decision& d, sluice_decision* out) noexcept {
  tell(d, out);
  return static_cast<int32_t>(d.error);
}

int32_t told(errc why, sluice_decision* out) noexcept {
  decision d;
  d.error = why;
  return told(d, out);
}

template <class Action>
int32_t guarded_decision(sluice_decision* out, Action&& action) noexcept {
  return guarded(action, [&](errc why, const char*) { return told(why, out); });
}

// Of a call for several charges: each has its error, where there is room for it.
int32_t told(errc why, sluice_decision* each, size_t count, sluice_decision* out) noexcept {
  for (size_t i = 0; each != nullptr && i < count; ++i) told(why, &each[i]);
  return told(why, out);
}

sluice_handle* refused(const sluice::error& why, sluice_error* error) {
  fail(why, error);
  return nullptr;
}

// What `make` makes of the options.
template <class Make>
sluice_limiter* create(const sluice_options* options, sluice_error* error, Make&& make) noexcept {
  return guarded_pointer<sluice_limiter>(error, [&] {
    auto how = options_of(options);
    if (!how) return made<sluice_limiter>(sluice::result<sluice::limiter>(how.why()), error);
    return made<sluice_limiter>(make(*std::move(how)), error);
  });
}

// The windows of the calendar that have numbers.
class Calendars {
 public:
  // Of a text in whatever form; 0: it is not one, or its zone is not known: `problem`.
  int32_t number(std::string_view text, std::string& problem) {
    const auto terms = sluice::limit::parse_calendar(text);
    if (!terms) {
      problem = "it is not like \"month@Europe/Berlin,month_day=9\"";
      return 0;
    }
    const auto its = sluice::limit::Calendar::of(*terms);
    if (!its.calendar) {
      const auto why = sluice::limit::problem_of(its.fault, *terms, true);
      problem = why.message + "; " + why.remedy;
      return 0;
    }
    const std::lock_guard lock(mutex_);
    const auto at = std::find(all_.begin(), all_.end(), its.calendar);
    const auto number = static_cast<int32_t>(at - all_.begin()) + 1;
    if (at != all_.end()) return number;
    if (all_.size() >= sluice::base::bounds::numbered_calendars_max) {
      problem = "there are " + std::to_string(all_.size()) +
                " different ones in this process already; use fewer";
      return 0;
    }
    all_.push_back(its.calendar);
    return number;
  }
  // Empty: none has that number.
  std::string text(int32_t number) {
    const std::lock_guard lock(mutex_);
    if (number < 1 || static_cast<size_t>(number) > all_.size()) return {};
    return all_[static_cast<size_t>(number) - 1].text();
  }

 private:
  std::mutex mutex_;
  std::vector<sluice::limit::Calendar> all_;
};

Calendars& calendars() {
  static Calendars its;
  return its;
}

sluice::result<std::vector<sluice::limit_spec>> limits_of(const sluice_limit* limits,
                                                          size_t count) {
  std::vector<sluice::limit_spec> all;
  for (size_t i = 0; i < count; ++i) {
    std::string calendar = calendars().text(limits[i].calendar);
    if (limits[i].calendar != 0 && calendar.empty())
      return sluice::error{
          errc::invalid_argument,
          "limits[" + std::to_string(i) + "].calendar must be 0 or a number of sluice_calendar()"};
    // What does not fit into its type must not come out as another one.
    const int32_t number = limits[i].algorithm;
    const auto algorithm =
        static_cast<sluice::algorithm>(number < 0 || number > 255 ? 255 : number);
    all.push_back({limits[i].quota, duration(limits[i].window_us), algorithm, limits[i].burst,
                   std::move(calendar)});
  }
  return all;
}

std::vector<std::string> texts_of(const char* const* texts, size_t count) {
  std::vector<std::string> all;
  for (size_t i = 0; i < count; ++i) all.emplace_back(texts[i]);
  return all;
}

// Texts that end with a zero byte.
bool are_texts(const char* const* texts, size_t count) {
  return (texts != nullptr || count == 0) &&
         std::none_of(texts, texts + count, [](const char* one) { return one == nullptr; });
}

bool is_sound(const void* limiter, const void* items, size_t count) {
  return limiter != nullptr && (items != nullptr || count == 0);
}

// Room on the stack for what is usual.
constexpr size_t usual = 16;

template <class Use>
int32_t with_charges(const sluice_charge* charges, size_t count, Use&& use) {
  // Without a handle the limiter refuses it: so it does where the key is null.
  const auto one = [](const sluice_charge& its) -> sluice::charge {
    if (its.by == nullptr || !is_text(its.key, its.key_bytes)) return {};
    return {&its.by->its, {its.key, its.key_bytes}, its.cost};
  };
  if (count <= usual) {
    std::array<sluice::charge, usual> all;
    std::transform(charges, charges + count, all.begin(), one);
    return use(sluice::view<sluice::charge>(all.data(), count));
  }
  std::vector<sluice::charge> all(count);
  std::transform(charges, charges + count, all.begin(), one);
  return use(sluice::view<sluice::charge>(all.data(), count));
}

bool are_entries(const sluice_entry* entries, size_t count) {
  return (entries != nullptr || count == 0) &&
         std::all_of(entries, entries + count, [](const sluice_entry& one) {
           return is_text(one.key, one.key_bytes) && is_text(one.value, one.value_bytes);
         });
}

template <class Use>
int32_t with_entries(const sluice_entry* entries, size_t count, Use&& use) {
  const auto one = [](const sluice_entry& its) -> sluice::entry {
    return {{its.key, its.key_bytes}, {its.value, its.value_bytes}};
  };
  if (count <= usual) {
    std::array<sluice::entry, usual> all;
    std::transform(entries, entries + count, all.begin(), one);
    return use(sluice::view<sluice::entry>(all.data(), count));
  }
  std::vector<sluice::entry> all(count);
  std::transform(entries, entries + count, all.begin(), one);
  return use(sluice::view<sluice::entry>(all.data(), count));
}

sluice::wait_callback callback_of(sluice_wait_callback callback, void* data) {
  return [callback, data](sluice::wait_id id, const decision& answer) {
    sluice_decision out;
    tell(answer, &out);
    callback(data, id, &out);
  };
}

int32_t waits(const sluice::waiting& waiting, sluice_decision* out, uint64_t* id) {
  *id = waiting.id;
  return told(waiting.now, out);
}

sluice::hold hold_of(const sluice_hold& its) {
  return {its.high, its.low};
}

int32_t told(const sluice::reservation& its, int64_t* until, sluice_decision* out,
             sluice_hold* hold) noexcept {
  if (until != nullptr) *until = its.until.time_since_epoch().count();
  if (hold != nullptr) *hold = {its.id.high, its.id.low};
  return told(its.now, out);
}

int32_t told(const sluice::settlement& its, sluice_settlement* settlement,
             sluice_decision* out) noexcept {
  if (settlement != nullptr)
    *settlement = {its.used, its.returned, its.charged, its.late, its.repeated};
  return told(its.now, out);
}

// By a handle, whatever is asked.
template <class Ask>
int32_t by_handle(sluice_limiter* limiter, const sluice_handle* by, const char* key,
                  size_t key_bytes, sluice_decision* out, Ask&& ask) {
  if (limiter == nullptr || by == nullptr || !is_text(key, key_bytes))
    return told(errc::invalid_argument, out);
  return told(ask(limiter->its, by->its, std::string_view(key, key_bytes)), out);
}

// Charges that settle together; `decide(all, its)` decides them, with room for a decision each
// unless it is null.
template <class Decide>
int32_t together(sluice_limiter* limiter, const sluice_charge* charges, size_t count,
                 sluice_decision* each, sluice_decision* out, Decide&& decide) {
  if (!is_sound(limiter, charges, count) || count > sluice::charges_max)
    return told(errc::invalid_argument, each, count, out);
  return guarded(
      [&] {
        return with_charges(charges, count, [&](auto all) {
          std::array<sluice::decision, sluice::charges_max> its;
          const auto taken = decide(all, each == nullptr ? nullptr : its.data());
          for (size_t i = 0; each != nullptr && i < count; ++i) tell(its[i], &each[i]);
          return told(taken, out);
        });
      },
      [&](errc why, const char*) { return told(why, each, count, out); });
}

// Charges that are held together, as a reservation or as places: `ask(limiter, all)`.
template <class Ask>
int32_t held(sluice_limiter* limiter, const sluice_charge* charges, size_t count, int64_t* reserved,
             int64_t* until, sluice_decision* out, sluice_hold* hold, Ask&& ask) {
  if (until != nullptr) *until = 0;
  if (hold != nullptr) *hold = {};
  if (reserved != nullptr) std::fill_n(reserved, count, 0);
  if (hold == nullptr || !is_sound(limiter, charges, count) || count > sluice::charges_max)
    return told(errc::invalid_argument, out);
  return guarded_decision(out, [&] {
    return with_charges(charges, count,
                        [&](auto all) { return told(ask(limiter->its, all), until, out, hold); });
  });
}

// The same by the policy: `ask(limiter, descriptor)`.
template <class Ask>
int32_t held_matching(sluice_limiter* limiter, const sluice_entry* entries, size_t count,
                      int64_t* reserved, int64_t* until, sluice_decision* out, sluice_hold* hold,
                      Ask&& ask) {
  if (until != nullptr) *until = 0;
  if (hold != nullptr) *hold = {};
  if (reserved != nullptr) *reserved = 0;
  if (hold == nullptr || limiter == nullptr || !are_entries(entries, count))
    return told(errc::invalid_argument, out);
  return guarded_decision(out, [&] {
    return with_entries(entries, count, [&](auto descriptor) {
      const auto its = ask(limiter->its, descriptor);
      if (reserved != nullptr) *reserved = its.reserved;
      return told(its, until, out, hold);
    });
  });
}

sluice::reserve_callback callback_of(sluice_reserve_callback callback, void* data) {
  return [callback, data](sluice::wait_id id, const sluice::reservation& answer) {
    sluice_decision out;
    sluice_hold hold;
    int64_t until = 0;
    told(answer, &until, &out, &hold);
    callback(data, id, &out, &hold, answer.reserved, until);
  };
}

// May what is asked wait? Sets what comes of it to nothing.
bool may_wait(sluice_reserve_callback callback, int64_t* reserved, uint64_t* id) {
  if (id != nullptr) *id = 0;
  if (reserved != nullptr) *reserved = 0;
  return callback != nullptr && id != nullptr;
}

sluice::reservation at_once(const sluice::reserving& its, int64_t* reserved, uint64_t* id) {
  *id = its.id;
  if (reserved != nullptr) *reserved = its.now.reserved;
  return its.now;
}

// By the policy, whatever is asked.
template <class Ask>
int32_t matching(sluice_limiter* limiter, const sluice_entry* entries, size_t count,
                 sluice_decision* out, Ask&& ask) {
  if (limiter == nullptr || !are_entries(entries, count)) return told(errc::invalid_argument, out);
  return guarded_decision(out, [&] {
    return with_entries(entries, count,
                        [&](auto descriptor) { return told(ask(limiter->its, descriptor), out); });
  });
}

}  // namespace

extern "C" {

const char* sluice_version(void) {
  return sluice::embed::version;
}

const char* sluice_error_name(int32_t code) {
  static constexpr const char* names[] = {"ok",
                                          "invalid_argument",
                                          "unknown_rule",
                                          "policy",
                                          "no_memory",
                                          "too_many_limits",
                                          "too_many_waiting",
                                          "conflicting_limits",
                                          "timed_out",
                                          "cannot_match",
                                          "storage",
                                          "internal",
                                          "too_many_overrides",
                                          "not_found",
                                          "no_such_hold",
                                          "already_settled",
                                          "hold_ended",
                                          "too_many_holds",
                                          "no_places"};
  return code >= 0 && static_cast<size_t>(code) < std::size(names) ? names[code] : "unknown";
}

sluice_limiter* sluice_create(const sluice_options* options, sluice_error* error) {
  return create(options, error, [](auto&& how) { return sluice::limiter::create(std::move(how)); });
}

sluice_limiter* sluice_create_from_text(const char* text, size_t text_bytes, const char* name,
                                        const sluice_options* options, sluice_error* error) {
  return create(options, error, [&](auto&& how) -> sluice::result<sluice::limiter> {
    if (text == nullptr) return missing("text");
    return sluice::limiter::from_policy_text({text, text_bytes}, std::move(how),
                                             name == nullptr ? "policy" : name);
  });
}

sluice_limiter* sluice_create_from_file(const char* path, const sluice_options* options,
                                        sluice_error* error) {
  return create(options, error, [&](auto&& how) -> sluice::result<sluice::limiter> {
    if (path == nullptr) return missing("path");
    return sluice::limiter::from_policy_file(path, std::move(how));
  });
}

void sluice_destroy(sluice_limiter* limiter) {
  delete limiter;
}

sluice_handle* sluice_find(sluice_limiter* limiter, const char* rule, sluice_error* error) {
  return guarded_pointer<sluice_handle>(error, [&] {
    if (limiter == nullptr || rule == nullptr) return refused(missing("limiter and rule"), error);
    return made<sluice_handle>(limiter->its.find(rule), error);
  });
}

int32_t sluice_calendar(const char* text, sluice_error* error) {
  return guarded(
      [&]() -> int32_t {
        if (text == nullptr) return fail(missing("text"), error), 0;
        std::string problem;
        const int32_t number = calendars().number(text, problem);
        if (number == 0) return fail(errc::invalid_argument, problem, error), 0;
        done(error);
        return number;
      },
      [&](errc why, const char* what) -> int32_t { return fail(why, what, error), 0; });
}

size_t sluice_calendar_text(int32_t calendar, char* text, size_t size) {
  return guarded(
      [&]() -> size_t {
        const std::string its = calendars().text(calendar);
        if (text == nullptr || size == 0) return its.size();
        const size_t bytes = std::min(its.size(), size - 1);
        std::copy_n(its.begin(), bytes, text);
        text[bytes] = 0;
        return its.size();
      },
      [](errc, const char*) -> size_t { return 0; });
}

sluice_handle* sluice_limits(sluice_limiter* limiter, const char* name, const sluice_limit* limits,
                             size_t count, sluice_error* error) {
  return guarded_pointer<sluice_handle>(error, [&] {
    if (!is_sound(limiter, limits, count) || name == nullptr)
      return refused(missing("limiter, name and limits"), error);
    const auto all = limits_of(limits, count);
    if (!all) return refused(all.why(), error);
    return made<sluice_handle>(limiter->its.limits(name, *all), error);
  });
}

sluice_handle* sluice_limits_with_overdraft(sluice_limiter* limiter, const char* name,
                                            const sluice_limit* limits, const int64_t* overdrafts,
                                            size_t count, sluice_error* error) {
  return guarded_pointer<sluice_handle>(error, [&] {
    if (!is_sound(limiter, limits, count) || name == nullptr ||
        (overdrafts == nullptr && count > 0))
      return refused(missing("limiter, name, limits and overdrafts"), error);
    auto all = limits_of(limits, count);
    if (!all) return refused(all.why(), error);
    for (size_t i = 0; i < count; ++i) (*all)[i].overdraft = overdrafts[i];
    return made<sluice_handle>(limiter->its.limits(name, *all), error);
  });
}

void sluice_handle_destroy(sluice_handle* handle) {
  delete handle;
}

int32_t sluice_take(sluice_limiter* limiter, const sluice_handle* by, const char* key,
                    size_t key_bytes, int64_t cost, int64_t now, sluice_decision* decision) {
  return by_handle(limiter, by, key, key_bytes, decision, [&](auto& its, auto& handle, auto text) {
    return its.take(handle, text, cost, time_of(now));
  });
}

int32_t sluice_peek(sluice_limiter* limiter, const sluice_handle* by, const char* key,
                    size_t key_bytes, int64_t now, sluice_decision* decision) {
  return by_handle(limiter, by, key, key_bytes, decision, [&](auto& its, auto& handle, auto text) {
    return its.peek(handle, text, time_of(now));
  });
}

int32_t sluice_would_take(sluice_limiter* limiter, const sluice_handle* by, const char* key,
                          size_t key_bytes, int64_t cost, int64_t now, sluice_decision* decision) {
  return by_handle(limiter, by, key, key_bytes, decision, [&](auto& its, auto& handle, auto text) {
    return its.would_take(handle, text, cost, time_of(now));
  });
}

int32_t sluice_put(sluice_limiter* limiter, const sluice_handle* by, const char* key,
                   size_t key_bytes, int64_t units, int64_t now, sluice_decision* decision) {
  return by_handle(limiter, by, key, key_bytes, decision, [&](auto& its, auto& handle, auto text) {
    return its.put(handle, text, units, time_of(now));
  });
}

int32_t sluice_reset(sluice_limiter* limiter, const sluice_handle* by, const char* key,
                     size_t key_bytes, int64_t now, sluice_decision* decision) {
  return by_handle(limiter, by, key, key_bytes, decision, [&](auto& its, auto& handle, auto text) {
    return its.reset(handle, text, time_of(now));
  });
}

int32_t sluice_take_all(sluice_limiter* limiter, const sluice_charge* charges, size_t count,
                        int64_t now, sluice_decision* each, sluice_decision* decision) {
  return together(limiter, charges, count, each, decision, [&](auto all, auto* its) {
    return limiter->its.take_all(all, time_of(now), its);
  });
}

int32_t sluice_charge_key(sluice_limiter* limiter, const sluice_handle* by, const char* key,
                          size_t key_bytes, int64_t cost, int64_t now, sluice_decision* decision) {
  return by_handle(limiter, by, key, key_bytes, decision, [&](auto& its, auto& handle, auto text) {
    return its.charge(handle, text, cost, time_of(now));
  });
}

int32_t sluice_charge_all(sluice_limiter* limiter, const sluice_charge* charges, size_t count,
                          int64_t now, sluice_decision* each, sluice_decision* decision) {
  return together(limiter, charges, count, each, decision, [&](auto all, auto* its) {
    return limiter->its.charge_all(all, time_of(now), its);
  });
}

int32_t sluice_charge_all_counted(sluice_limiter* limiter, const sluice_charge* charges,
                                  size_t count, int64_t now, int64_t* charged,
                                  sluice_decision* each, sluice_decision* decision) {
  if (charged == nullptr && count > 0) return told(errc::invalid_argument, each, count, decision);
  std::fill_n(charged, count, 0);
  return together(limiter, charges, count, each, decision, [&](auto all, auto* its) {
    std::array<sluice::decision, sluice::charges_max> own;
    auto* const room = its != nullptr ? its : own.data();
    const auto taken = limiter->its.charge_all(all, time_of(now), room);
    for (size_t i = 0; i < count; ++i) charged[i] = room[i].charged;
    return taken;
  });
}

int32_t sluice_charge_matching(sluice_limiter* limiter, const sluice_entry* entries, size_t count,
                               int64_t cost, int64_t now, sluice_decision* decision) {
  return matching(limiter, entries, count, decision, [&](auto& its, auto descriptor) {
    return its.charge(descriptor, cost, time_of(now));
  });
}

int32_t sluice_charge_matching_counted(sluice_limiter* limiter, const sluice_entry* entries,
                                       size_t count, int64_t cost, int64_t now, int64_t* charged,
                                       sluice_decision* decision) {
  if (charged == nullptr) return told(errc::invalid_argument, decision);
  *charged = 0;
  return matching(limiter, entries, count, decision, [&](auto& its, auto descriptor) {
    const auto taken = its.charge(descriptor, cost, time_of(now));
    *charged = taken.charged;
    return taken;
  });
}

int32_t sluice_take_many(sluice_limiter* limiter, const sluice_charge* charges, size_t count,
                         int64_t now, sluice_decision* each) {
  if (!is_sound(limiter, charges, count) || (each == nullptr && count > 0))
    return told(errc::invalid_argument, each, count, nullptr);
  for (size_t first = 0; first < count; first += usual) {
    const size_t some = std::min(usual, count - first);
    with_charges(charges + first, some, [&](auto all) {
      std::array<sluice::decision, usual> its;
      limiter->its.take_many(all, its.data(), time_of(now));
      for (size_t i = 0; i < some; ++i) tell(its[i], &each[first + i]);
      return 0;
    });
  }
  return 0;
}

int32_t sluice_take_matching(sluice_limiter* limiter, const sluice_entry* entries, size_t count,
                             int64_t cost, int64_t now, sluice_decision* decision) {
  return matching(limiter, entries, count, decision, [&](auto& its, auto descriptor) {
    return its.take(descriptor, cost, time_of(now));
  });
}

int32_t sluice_peek_matching(sluice_limiter* limiter, const sluice_entry* entries, size_t count,
                             int64_t now, sluice_decision* decision) {
  return matching(limiter, entries, count, decision,
                  [&](auto& its, auto descriptor) { return its.peek(descriptor, time_of(now)); });
}

int32_t sluice_would_take_matching(sluice_limiter* limiter, const sluice_entry* entries,
                                   size_t count, int64_t cost, int64_t now,
                                   sluice_decision* decision) {
  return matching(limiter, entries, count, decision, [&](auto& its, auto descriptor) {
    return its.would_take(descriptor, cost, time_of(now));
  });
}

int32_t sluice_put_matching(sluice_limiter* limiter, const sluice_entry* entries, size_t count,
                            int64_t units, int64_t now, sluice_decision* decision) {
  return matching(limiter, entries, count, decision, [&](auto& its, auto descriptor) {
    return its.put(descriptor, units, time_of(now));
  });
}

int32_t sluice_reset_matching(sluice_limiter* limiter, const sluice_entry* entries, size_t count,
                              int64_t now, sluice_decision* decision) {
  return matching(limiter, entries, count, decision,
                  [&](auto& its, auto descriptor) { return its.reset(descriptor, time_of(now)); });
}

int32_t sluice_wait(sluice_limiter* limiter, const sluice_charge* charges, size_t count,
                    int64_t deadline, sluice_wait_callback callback, void* data, int64_t now,
                    sluice_decision* decision, uint64_t* id) {
  if (id != nullptr) *id = 0;
  if (!is_sound(limiter, charges, count) || count > sluice::charges_max || callback == nullptr ||
      id == nullptr)
    return told(errc::invalid_argument, decision);
  return guarded_decision(decision, [&] {
    return with_charges(charges, count, [&](auto all) {
      return waits(
          limiter->its.wait_all(all, time_of(deadline), callback_of(callback, data), time_of(now)),
          decision, id);
    });
  });
}

int32_t sluice_wait_matching(sluice_limiter* limiter, const sluice_entry* entries, size_t count,
                             int64_t cost, int64_t deadline, sluice_wait_callback callback,
                             void* data, int64_t now, sluice_decision* decision, uint64_t* id) {
  if (id != nullptr) *id = 0;
  if (limiter == nullptr || !are_entries(entries, count) || callback == nullptr || id == nullptr)
    return told(errc::invalid_argument, decision);
  return guarded_decision(decision, [&] {
    return with_entries(entries, count, [&](auto descriptor) {
      return waits(limiter->its.wait(descriptor, cost, time_of(deadline),
                                     callback_of(callback, data), time_of(now)),
                   decision, id);
    });
  });
}

int32_t sluice_cancel(sluice_limiter* limiter, uint64_t id, int64_t now) {
  return limiter != nullptr && limiter->its.cancel(id, time_of(now));
}

size_t sluice_run_due(sluice_limiter* limiter, int64_t now, int64_t* next) {
  if (next != nullptr) *next = SLUICE_LATEST_TIME;
  if (limiter == nullptr) return 0;
  const sluice::due due = limiter->its.run_due(time_of(now));
  if (next != nullptr) *next = due.next.time_since_epoch().count();
  return due.called;
}

int32_t sluice_reload_text(sluice_limiter* limiter, const char* text, size_t text_bytes,
                           const char* name, int64_t now, sluice_error* error) {
  return guarded_error(error, [&] {
    if (!is_sound(limiter, text, text_bytes)) return fail(missing("limiter and text"), error);
    const auto read = limiter->its.reload_text({text, text_bytes}, time_of(now),
                                               name == nullptr ? "policy" : name);
    return read ? done(error) : fail(read.why(), error);
  });
}

int32_t sluice_reload_file(sluice_limiter* limiter, const char* path, int64_t now,
                           sluice_error* error) {
  return guarded_error(error, [&] {
    if (limiter == nullptr || path == nullptr) return fail(missing("limiter and path"), error);
    const auto read = limiter->its.reload_file(path, time_of(now));
    return read ? done(error) : fail(read.why(), error);
  });
}

int32_t sluice_set_override(sluice_limiter* limiter, const char* rule, const char* const* actor,
                            size_t actor_count, const sluice_limit* limits, size_t limit_count,
                            int64_t until, int64_t now, sluice_error* error) {
  return guarded_error(error, [&] {
    if (limiter == nullptr || !are_texts(actor, actor_count) ||
        !is_sound(rule, limits, limit_count))
      return fail(missing("limiter, rule, actor and limits"), error);
    auto all = limits_of(limits, limit_count);
    if (!all) return fail(all.why(), error);
    const auto set = limiter->its.set_override(
        {rule, texts_of(actor, actor_count), *std::move(all), time_of(until)}, time_of(now));
    return set ? done(error) : fail(set.why(), error);
  });
}

int32_t sluice_remove_override(sluice_limiter* limiter, const char* rule, const char* const* actor,
                               size_t actor_count, int64_t now, sluice_error* error) {
  return guarded_error(error, [&] {
    if (limiter == nullptr || !are_texts(actor, actor_count) || rule == nullptr)
      return fail(missing("limiter, rule and actor"), error);
    const auto removed =
        limiter->its.remove_override(rule, texts_of(actor, actor_count), time_of(now));
    return removed ? done(error) : fail(removed.why(), error);
  });
}

size_t sluice_overrides(sluice_limiter* limiter, int64_t now, sluice_override_visitor visit,
                        void* data) {
  if (limiter == nullptr || visit == nullptr) return 0;
  return guarded(
      [&] {
        const auto listed = limiter->its.overrides(time_of(now));
        if (!listed) return SIZE_MAX;
        const std::vector<sluice::override_spec>& all = *listed;
        size_t values_max = 0;
        for (const sluice::override_spec& one : all)
          values_max = std::max(values_max, one.actor.size());
        // All or none are visited.
        std::vector<const char*> actor(values_max);
        std::vector<size_t> bytes(values_max);
        std::array<sluice_limit, sluice::limits_per_counter_max> limits;
        for (const sluice::override_spec& one : all) {
          for (size_t i = 0; i < one.actor.size(); ++i) {
            actor[i] = one.actor[i].c_str();
            bytes[i] = one.actor[i].size();
          }
          for (size_t i = 0; i < one.limits.size(); ++i) {
            const sluice::limit_spec& its = one.limits[i];
            std::string problem;
            limits[i] = {its.quota, its.window.count(), its.burst,
                         static_cast<int32_t>(its.algorithm),
                         its.calendar.empty() ? 0 : calendars().number(its.calendar, problem)};
          }
          visit(data, one.rule.c_str(), actor.data(), bytes.data(), one.actor.size(), limits.data(),
                one.limits.size(), one.until.time_since_epoch().count());
        }
        return all.size();
      },
      [](errc, const char*) { return SIZE_MAX; });
}

void sluice_sweep(sluice_limiter* limiter, size_t steps, int64_t now) {
  if (limiter != nullptr) limiter->its.sweep(steps, time_of(now));
}

int32_t sluice_get_stats(const sluice_limiter* limiter, sluice_stats* stats) {
  if (limiter == nullptr || stats == nullptr || stats->size < sizeof stats->size)
    return static_cast<int32_t>(errc::invalid_argument);
  const sluice::limiter_stats its = limiter->its.stats();
  const size_t size = std::min(stats->size, sizeof *stats);
  const sluice_stats all{size,      its.counters, its.memory_bytes, its.memory_bytes_max,
                         its.swept, its.refused,  its.waiting,      its.limits,
                         its.holds};
  std::memcpy(stats, &all, size);
  return 0;
}

int64_t sluice_now(const sluice_limiter* limiter) {
  return limiter == nullptr ? 0 : limiter->its.now().time_since_epoch().count();
}

int32_t sluice_reserve(sluice_limiter* limiter, const sluice_charge* charges, size_t count,
                       int64_t ttl_us, int64_t now, int64_t* reserved, int64_t* until,
                       sluice_decision* decision, sluice_hold* hold) {
  return held(limiter, charges, count, reserved, until, decision, hold, [&](auto& its, auto all) {
    return its.reserve(all, duration(ttl_us), time_of(now), reserved);
  });
}

int32_t sluice_reserve_matching(sluice_limiter* limiter, const sluice_entry* entries, size_t count,
                                int64_t cost, int64_t ttl_us, int64_t now, int64_t* reserved,
                                int64_t* until, sluice_decision* decision, sluice_hold* hold) {
  return held_matching(limiter, entries, count, reserved, until, decision, hold,
                       [&](auto& its, auto descriptor) {
                         return its.reserve(descriptor, cost, duration(ttl_us), time_of(now));
                       });
}

int32_t sluice_acquire(sluice_limiter* limiter, const sluice_charge* charges, size_t count,
                       int64_t lease_us, int64_t now, int64_t* reserved, int64_t* until,
                       sluice_decision* decision, sluice_hold* hold) {
  return held(limiter, charges, count, reserved, until, decision, hold, [&](auto& its, auto all) {
    return its.acquire(all, duration(lease_us), time_of(now), reserved);
  });
}

int32_t sluice_acquire_matching(sluice_limiter* limiter, const sluice_entry* entries, size_t count,
                                int64_t n, int64_t lease_us, int64_t now, int64_t* reserved,
                                int64_t* until, sluice_decision* decision, sluice_hold* hold) {
  return held_matching(limiter, entries, count, reserved, until, decision, hold,
                       [&](auto& its, auto descriptor) {
                         return its.acquire(descriptor, n, duration(lease_us), time_of(now));
                       });
}

int32_t sluice_wait_reserve(sluice_limiter* limiter, const sluice_charge* charges, size_t count,
                            int64_t ttl_us, int64_t deadline, sluice_reserve_callback callback,
                            void* data, int64_t now, int64_t* reserved, int64_t* until,
                            sluice_decision* decision, sluice_hold* hold, uint64_t* id) {
  if (!may_wait(callback, reserved, id)) return told(errc::invalid_argument, decision);
  return held(limiter, charges, count, nullptr, until, decision, hold, [&](auto& its, auto all) {
    return at_once(its.wait_reserve(all, duration(ttl_us), time_of(deadline),
                                    callback_of(callback, data), time_of(now)),
                   reserved, id);
  });
}

int32_t sluice_wait_reserve_matching(sluice_limiter* limiter, const sluice_entry* entries,
                                     size_t count, int64_t cost, int64_t ttl_us, int64_t deadline,
                                     sluice_reserve_callback callback, void* data, int64_t now,
                                     int64_t* reserved, int64_t* until, sluice_decision* decision,
                                     sluice_hold* hold, uint64_t* id) {
  if (!may_wait(callback, reserved, id)) return told(errc::invalid_argument, decision);
  return held_matching(
      limiter, entries, count, nullptr, until, decision, hold, [&](auto& its, auto descriptor) {
        return at_once(its.wait_reserve(descriptor, cost, duration(ttl_us), time_of(deadline),
                                        callback_of(callback, data), time_of(now)),
                       reserved, id);
      });
}

int32_t sluice_wait_acquire(sluice_limiter* limiter, const sluice_charge* charges, size_t count,
                            int64_t lease_us, int64_t deadline, sluice_reserve_callback callback,
                            void* data, int64_t now, int64_t* reserved, int64_t* until,
                            sluice_decision* decision, sluice_hold* hold, uint64_t* id) {
  if (!may_wait(callback, reserved, id)) return told(errc::invalid_argument, decision);
  return held(limiter, charges, count, nullptr, until, decision, hold, [&](auto& its, auto all) {
    return at_once(its.wait_acquire(all, duration(lease_us), time_of(deadline),
                                    callback_of(callback, data), time_of(now)),
                   reserved, id);
  });
}

int32_t sluice_wait_acquire_matching(sluice_limiter* limiter, const sluice_entry* entries,
                                     size_t count, int64_t n, int64_t lease_us, int64_t deadline,
                                     sluice_reserve_callback callback, void* data, int64_t now,
                                     int64_t* reserved, int64_t* until, sluice_decision* decision,
                                     sluice_hold* hold, uint64_t* id) {
  if (!may_wait(callback, reserved, id)) return told(errc::invalid_argument, decision);
  return held_matching(
      limiter, entries, count, nullptr, until, decision, hold, [&](auto& its, auto descriptor) {
        return at_once(its.wait_acquire(descriptor, n, duration(lease_us), time_of(deadline),
                                        callback_of(callback, data), time_of(now)),
                       reserved, id);
      });
}

int32_t sluice_extend(sluice_limiter* limiter, const sluice_hold* hold, const int64_t* more,
                      size_t count, int64_t ttl_us, int64_t now, int64_t* reserved, int64_t* until,
                      sluice_decision* decision) {
  if (until != nullptr) *until = 0;
  if (reserved != nullptr) std::fill_n(reserved, count, 0);
  if (hold == nullptr || !is_sound(limiter, more, count))
    return told(errc::invalid_argument, decision);
  return told(
      limiter->its.extend(hold_of(*hold), {more, count}, duration(ttl_us), time_of(now), reserved),
      until, decision, nullptr);
}

int32_t sluice_renew(sluice_limiter* limiter, const sluice_hold* hold, int64_t ttl_us, int64_t now,
                     int64_t* until) {
  if (until != nullptr) *until = 0;
  if (hold == nullptr || limiter == nullptr) return static_cast<int32_t>(errc::invalid_argument);
  return told(limiter->its.renew(hold_of(*hold), duration(ttl_us), time_of(now)), until, nullptr,
              nullptr);
}

int32_t sluice_commit(sluice_limiter* limiter, const sluice_hold* hold, const int64_t* used,
                      size_t count, int64_t now, sluice_settlement* settlement,
                      sluice_decision* decision) {
  if (settlement != nullptr) *settlement = {};
  if (hold == nullptr || !is_sound(limiter, used, count))
    return told(errc::invalid_argument, decision);
  return told(limiter->its.commit(hold_of(*hold), {used, count}, time_of(now)), settlement,
              decision);
}

int32_t sluice_release(sluice_limiter* limiter, const sluice_hold* hold, int64_t now,
                       sluice_settlement* settlement, sluice_decision* decision) {
  if (settlement != nullptr) *settlement = {};
  if (hold == nullptr || limiter == nullptr) return told(errc::invalid_argument, decision);
  return told(limiter->its.release(hold_of(*hold), time_of(now)), settlement, decision);
}

}  // extern "C"
