// One allocation fails, each in turn, in a series of calls of the limiter. Whatever it hits: no
// call throws, what a call says was not done was not done, and every wait has one answer.
#include <gtest/gtest.h>
#include <sluice/durable.h>
#include <sluice/limiter.h>
#include <sluice/sluice.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <memory>
#include <new>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "store/log/folder_test.h"

namespace {

constexpr int64_t none_fails = -1;
// Allocations of this thread until one fails.
thread_local int64_t until_failure = none_fails;

void* allocate(size_t bytes, size_t alignment) {
  if (until_failure != none_fails && until_failure-- == 0) return nullptr;
  return alignment <= __STDCPP_DEFAULT_NEW_ALIGNMENT__
             ? std::malloc(std::max<size_t>(bytes, 1))
             : std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
}

void* allocate_or_throw(size_t bytes, size_t alignment) {
  void* const made = allocate(bytes, alignment);
  if (made == nullptr) throw std::bad_alloc();
  return made;
}

}  // namespace

// All of them: those that are left out would be a sanitizer's own, which does not know these.
void* operator new(size_t bytes) {
  return allocate_or_throw(bytes, 1);
}
void* operator new[](size_t bytes) {
  return allocate_or_throw(bytes, 1);
}
void* operator new(size_t bytes, const std::nothrow_t&) noexcept {
  return allocate(bytes, 1);
}
void* operator new[](size_t bytes, const std::nothrow_t&) noexcept {
  return allocate(bytes, 1);
}
void* operator new(size_t bytes, std::align_val_t alignment) {
  return allocate_or_throw(bytes, static_cast<size_t>(alignment));
}
void* operator new[](size_t bytes, std::align_val_t alignment) {
  return allocate_or_throw(bytes, static_cast<size_t>(alignment));
}
void* operator new(size_t bytes, std::align_val_t alignment, const std::nothrow_t&) noexcept {
  return allocate(bytes, static_cast<size_t>(alignment));
}
void* operator new[](size_t bytes, std::align_val_t alignment, const std::nothrow_t&) noexcept {
  return allocate(bytes, static_cast<size_t>(alignment));
}
void operator delete(void* what) noexcept {
  std::free(what);
}
void operator delete[](void* what) noexcept {
  std::free(what);
}
void operator delete(void* what, size_t) noexcept {
  std::free(what);
}
void operator delete[](void* what, size_t) noexcept {
  std::free(what);
}
void operator delete(void* what, std::align_val_t) noexcept {
  std::free(what);
}
void operator delete[](void* what, std::align_val_t) noexcept {
  std::free(what);
}
void operator delete(void* what, size_t, std::align_val_t) noexcept {
  std::free(what);
}
void operator delete[](void* what, size_t, std::align_val_t) noexcept {
  std::free(what);
}

namespace sluice::one_allocation_test {

using namespace std::chrono_literals;

constexpr time_point start{duration(1'700'000'000'000'000)};
constexpr int keys = 3, families = 3;
constexpr int64_t quota = 6;

std::string rules(int64_t of_rule) {
  return "rules: [{ name: r, match: { k: \"*\" }, actor: k, limit: { quota: " +
         std::to_string(of_rule) + ", window: 1h, algorithm: fixed_window } }]";
}

// A series of calls, and what they must have come to.
class Series {
 public:
  // The allocation of that number fails, counted over all calls of the library.
  Series(uint32_t seed, int64_t failing) : dice_(seed), left_(failing) {
    for (size_t i = 0; i < key_texts_.size(); ++i)
      key_texts_[i] = "a key that no string has room for within itself " + std::to_string(i);
  }

  bool has_failed() const { return left_ == none_fails; }

  void begin(limiter& its) {
    limiter_ = &its;
    ASSERT_TRUE(its.reload_text(rules(quota), now_));
    handles_[0] = *its.limits("places", {{quota, 0us, algorithm::fixed_bucket}});
    handles_[1] = *its.limits("windows", {{quota, 1h, algorithm::fixed_window}});
    handles_[2] = *its.find("r");
  }

  void step() {
    using Step = void (Series::*)();
    static constexpr Step steps[] = {
        &Series::take,    &Series::take,    &Series::take_some,    &Series::charge,
        &Series::put,     &Series::put,     &Series::wait,         &Series::wait,
        &Series::wait,    &Series::wait,    &Series::wait_by_rule, &Series::wait_by_rule,
        &Series::cancel,  &Series::reload,  &Series::set_override, &Series::remove_override,
        &Series::run_due, &Series::run_due, &Series::list,         &Series::make_handle,
        &Series::sweep,
    };
    now_ += duration(dice_() % 3);
    (this->*steps[dice_() % std::size(steps)])();
  }

  // Nothing fails any more: each wait gets its answer, and the counters are as they must be.
  void end() {
    paused_ = std::exchange(left_, none_fails);
    expect_rules();
    now_ += 1s;
    for (int i = 0; i < 20; ++i) run_due();
    for (const Wait& one : waits_) EXPECT_EQ(one.answers, one.is_pending ? 1 : 0);
    EXPECT_EQ(limiter_->stats().waiting, 0u);
    expect_counters(*limiter_, handles_);
  }

  void expect_counters(limiter& its, const std::array<handle, families>& handles) const {
    for (size_t f = 0; f < families; ++f)
      for (size_t k = 0; k < keys; ++k) {
        const decision d = its.peek(handles[f], key_texts_[k], now_);
        EXPECT_EQ(d.limit - d.remaining, used_[f][k]) << "family " << f << ", key " << k;
      }
  }

  // After the end: what has not failed may again.
  void rearm() { left_ = paused_; }
  int64_t rule_quota() const { return rule_quota_; }

  // Allocations of the library are counted, and one fails.
  template <class Call>
  auto call(Call&& its) {
    until_failure = std::exchange(left_, none_fails);
    auto result = its();
    left_ = std::exchange(until_failure, none_fails);
    return result;
  }

 private:
  struct Part {
    size_t family = 0, key = 0;
    int64_t cost = 1;
  };
  struct Wait {
    std::vector<Part> parts;
    wait_id id = 0;
    bool is_pending = false;  // it was told that its callback will be called
    int answers = 0;
  };

  static bool is_memory(errc why) { return why == errc::no_memory; }
  size_t any(size_t count) { return dice_() % count; }
  Part any_part() { return {any(families), any(keys), static_cast<int64_t>(1 + any(3))}; }
  int64_t& used(const Part& one) { return used_[one.family][one.key]; }
  struct charge charge_of(const Part& one) const {
    return {&handles_[one.family], key_texts_[one.key], one.cost};
  }
  void use(const std::vector<Part>& parts) {
    for (const Part& one : parts) used(one) += one.cost;
  }
  std::vector<Part> any_parts(size_t least) {
    std::vector<Part> parts;
    for (size_t i = least + any(2); i > 0; --i) parts.push_back(any_part());
    return parts;
  }
  std::vector<struct charge> charges_of(const std::vector<Part>& parts) const {
    std::vector<struct charge> charges;
    for (const Part& one : parts) charges.push_back(charge_of(one));
    return charges;
  }
  static void expect_sound(const decision& d) {
    EXPECT_TRUE(d.error == errc::ok || is_memory(d.error)) << static_cast<int>(d.error);
    EXPECT_FALSE(d.allowed && d.error != errc::ok);
  }

  void take() {
    const Part one = any_part();
    const decision d = call(
        [&] { return limiter_->take(handles_[one.family], key_texts_[one.key], one.cost, now_); });
    expect_sound(d);
    if (d.allowed) use({one});
  }
  void take_some() {
    const std::vector<Part> parts = any_parts(2);
    const auto charges = charges_of(parts);
    if (any(2) == 0) {
      const decision d = call([&] { return limiter_->take_all(charges, now_); });
      expect_sound(d);
      if (d.allowed) use(parts);
      return;
    }
    std::vector<decision> each(parts.size());
    call([&] {
      limiter_->take_many(charges, each.data(), now_);
      return 0;
    });
    for (size_t i = 0; i < parts.size(); ++i) {
      expect_sound(each[i]);
      if (each[i].allowed) use({parts[i]});
    }
  }
  void charge() {
    const Part one = any_part();
    const decision d = call([&] {
      return limiter_->charge(handles_[one.family], key_texts_[one.key], one.cost, now_);
    });
    expect_sound(d);
    if (d.error == errc::ok) use({one});
  }
  void put() {
    Part one = any_part();
    one.cost = used(one);  // no more than is in use
    const decision d = call(
        [&] { return limiter_->put(handles_[one.family], key_texts_[one.key], one.cost, now_); });
    expect_sound(d);
    if (d.error == errc::ok) used(one) -= one.cost;
  }

  // The callback allocates nothing.
  wait_callback callback_of(size_t index) {
    return [this, index](wait_id, const decision& d) {
      Wait& one = waits_[index];
      ++one.answers;
      if (d.allowed) {
        for (const Part& part : one.parts) used(part) += part.cost;
        return;
      }
      EXPECT_TRUE(d.error == errc::timed_out || is_memory(d.error)) << static_cast<int>(d.error);
    };
  }
  template <class Ask>
  void wait_for(std::vector<Part> parts, Ask&& ask) {
    waits_.reserve(waits_max);
    if (waits_.size() == waits_max) return;
    waits_.push_back({std::move(parts)});
    const size_t index = waits_.size() - 1;
    wait_callback callback = callback_of(index);
    const waiting w = call([&] { return ask(std::move(callback)); });
    expect_sound(w.now);
    Wait& one = waits_[index];
    one.id = w.id;
    one.is_pending = w.id != 0;
    if (w.id == 0 && w.now.allowed) use(one.parts);
  }
  void wait() {
    std::vector<Part> parts = any_parts(1);
    const auto charges = charges_of(parts);
    wait_for(std::move(parts), [&](wait_callback callback) {
      return limiter_->wait_all(charges, any_deadline(), std::move(callback), now_);
    });
  }
  void wait_by_rule() {
    Part one = any_part();
    one.family = 2;
    const entry descriptor{"k", key_texts_[one.key]};
    wait_for({one}, [&](wait_callback callback) {
      return limiter_->wait({&descriptor, 1}, one.cost, any_deadline(), std::move(callback), now_);
    });
  }
  time_point any_deadline() { return now_ + duration(1 + any(40)); }
  void cancel() {
    if (waits_.empty()) return;
    Wait& one = waits_[any(waits_.size())];
    if (!one.is_pending || one.answers > 0) return;
    if (call([&] { return limiter_->cancel(one.id, now_); })) one.is_pending = false;
  }
  void run_due() {
    call([&] { return limiter_->run_due(now_); });
  }
  void reload() {
    const int64_t next = quota + static_cast<int64_t>(any(3));
    const std::string text = rules(next);
    const auto read = call([&] { return limiter_->reload_text(text, now_); });
    if (read)
      rule_quota_ = next;
    else
      EXPECT_TRUE(is_memory(read.why().code)) << read.why().message;
    expect_rules();
  }
  void set_override() {
    const size_t key = any(keys + 1);  // the last one stands for a pattern
    override_spec one{"r",
                      {key < keys ? key_texts_[key] : "a pattern that no key fits *"},
                      {{quota + 2 + static_cast<int64_t>(any(3)), 1h, algorithm::fixed_window}},
                      now_ + duration(1'000'000 + any(2))};
    const auto set = call([&] { return limiter_->set_override(one, now_); });
    if (set)
      overrides_[one.actor.front()] = one.limits.front().quota;
    else
      EXPECT_TRUE(is_memory(set.why().code)) << set.why().message;
    expect_rules();
  }
  void remove_override() {
    if (overrides_.empty()) return;
    const auto at = std::next(overrides_.begin(), static_cast<ptrdiff_t>(any(overrides_.size())));
    const std::vector<std::string> actor{at->first};
    const auto removed = call([&] { return limiter_->remove_override("r", actor, now_); });
    if (removed)
      overrides_.erase(at);
    else
      EXPECT_TRUE(is_memory(removed.why().code)) << removed.why().message;
    expect_rules();
  }
  void list() {
    const auto all = call([&] { return limiter_->overrides(now_); });
    if (all)
      EXPECT_EQ(all->size(), overrides_.size());
    else
      EXPECT_TRUE(is_memory(all.why().code));
  }
  void make_handle() {
    const auto made = call([&] {
      return limiter_->limits("another family of counters", {{quota, 1h, algorithm::fixed_window}});
    });
    EXPECT_TRUE(made || is_memory(made.why().code));
    const auto found = call([&] { return limiter_->find("r"); });
    EXPECT_TRUE(found || is_memory(found.why().code));
  }
  void sweep() {
    call([&] {
      limiter_->sweep(64, now_);
      return 0;
    });
  }

  // What is in force is what was told.
  void expect_rules() {
    const int64_t left = std::exchange(left_, none_fails);
    for (const std::string& key : key_texts_) {
      const auto at = overrides_.find(key);
      EXPECT_EQ(limiter_->peek(handles_[2], key, now_).limit,
                at == overrides_.end() ? rule_quota_ : at->second);
    }
    const auto all = limiter_->overrides(now_);
    ASSERT_TRUE(all);
    EXPECT_EQ(all->size(), overrides_.size());
    left_ = left;
  }

  static constexpr size_t waits_max = 64;

  std::mt19937 dice_;
  int64_t left_, paused_ = none_fails;
  time_point now_ = start;
  limiter* limiter_ = nullptr;
  std::array<handle, families> handles_;
  std::array<std::string, keys> key_texts_;
  std::array<std::array<int64_t, keys>, families> used_{};
  std::vector<Wait> waits_;
  int64_t rule_quota_ = quota;
  std::map<std::string, int64_t> overrides_;  // by actor, their quota
};

constexpr int steps = 40;

options small() {
  options how;
  how.memory_bytes = size_t{16} << 20;
  how.clock = [] { return start; };
  return how;
}

TEST(OneAllocation, InALimiterLosesNothing) {
  int64_t series = 0;
  for (uint32_t seed = 0; seed < 12 && !testing::Test::HasFailure(); ++seed) {
    bool has_failed = true;
    for (int64_t failing = 0; has_failed && !testing::Test::HasFailure(); ++failing, ++series) {
      SCOPED_TRACE("seed " + std::to_string(seed) + ", allocation " + std::to_string(failing));
      limiter its = *limiter::create(small());
      Series one(seed, failing);
      one.begin(its);
      for (int i = 0; i < steps && !testing::Test::HasFailure(); ++i) one.step();
      has_failed = one.has_failed();
      one.end();
    }
  }
  EXPECT_GT(series, 1'000);
}

// In a directory also what a commit and the end come to: what is found there is what was decided.
TEST(OneAllocation, InADirectoryLosesNothing) {
  const disk::Folder folder;
  constexpr int calls = 16;
  int64_t failing = 0;
  for (bool has_failed = true; has_failed && !testing::Test::HasFailure(); ++failing) {
    SCOPED_TRACE("allocation " + std::to_string(failing));
    durable_options where;
    where.directory = folder / std::to_string(failing);
    Series one(100, failing);
    {
      auto kept = std::make_unique<durable>(*durable::open(where, small()));
      one.begin(**kept);
      for (int i = 0; i < calls && !testing::Test::HasFailure(); ++i) {
        one.step();
        if (i % 8 != 7) continue;
        const auto done = one.call([&] { return kept->commit(); });
        EXPECT_TRUE(done || done.why().code == errc::no_memory) << done.why().message;
      }
      one.end();
      one.rearm();
      one.call([&] {
        kept.reset();
        return 0;
      });
    }
    has_failed = one.has_failed();
    auto again = durable::open(where, small());
    ASSERT_TRUE(again) << again.why().message;
    ASSERT_TRUE((*again)->reload_text(rules(one.rule_quota()), start));
    one.expect_counters(**again,
                        {*(*again)->limits("places", {{quota, 0us, algorithm::fixed_bucket}}),
                         *(*again)->limits("windows", {{quota, 1h, algorithm::fixed_window}}),
                         *(*again)->find("r")});
    std::filesystem::remove_all(where.directory);
  }
  EXPECT_GT(failing, 60);
}

TEST(OneAllocation, InCOverridesAreVisitedAllOrNone) {
  const std::string text = rules(quota);
  sluice_limiter* const its =
      sluice_create_from_text(text.data(), text.size(), nullptr, nullptr, nullptr);
  ASSERT_NE(its, nullptr);
  const sluice_limit limit{9, 3'600'000'000, 0, SLUICE_FIXED_WINDOW, 0};
  for (const char* const actor : {"a text that no string has room for within itself", "b"})
    ASSERT_EQ(sluice_set_override(its, "r", &actor, 1, &limit, 1, 10, 1, nullptr), SLUICE_OK);
  const auto count = [](void* visited, const char*, const char* const*, const size_t*, size_t,
                        const sluice_limit*, size_t, int64_t) { ++*static_cast<size_t*>(visited); };
  int failures = 0;
  for (bool has_failed = true; has_failed; ++failures) {
    size_t visited = 0;
    until_failure = failures;
    const size_t told = sluice_overrides(its, 1, count, &visited);
    has_failed = std::exchange(until_failure, none_fails) == none_fails;
    EXPECT_EQ(told, has_failed ? SIZE_MAX : 2);
    EXPECT_EQ(visited, has_failed ? 0u : 2u);
  }
  EXPECT_GT(failures, 4);
  sluice_destroy(its);
}

}  // namespace sluice::one_allocation_test
