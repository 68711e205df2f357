// Debt against naive models, which keep what was taken and count it again at each look, microsecond
// by microsecond: every short sequence of small limits, and long random ones. Takes, looks,
// charges, takes that count, puts, resets, and a clock that steps back.
#include "limit/debt.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "limit/opened.h"
#include "tests/support/dice.h"

namespace sluice::limit::debt_test {
namespace {

// What an algorithm counts at a time. `see`: something is written at that time, so that a state of
// the future becomes one of then. Looks before that are as if.
class Model {
 public:
  virtual ~Model() = default;
  virtual std::unique_ptr<Model> copy() const = 0;
  virtual void see(int64_t now) = 0;
  virtual int64_t remaining(int64_t now) const = 0;  // of a model that has seen `now`
  virtual bool is_fresh(int64_t now) const = 0;
  virtual void add(int64_t units, int64_t now) = 0;
  virtual void put(int64_t units, int64_t now) = 0;
};

template <class Own>
class ModelOf : public Model {
 public:
  std::unique_ptr<Model> copy() const override {
    return std::make_unique<Own>(static_cast<const Own&>(*this));
  }
};

int64_t floor_div(int64_t a, int64_t b) {
  return a / b - (a % b != 0 && (a < 0) != (b < 0) ? 1 : 0);
}
int64_t ceil_div(int64_t a, int64_t b) {
  return -floor_div(-a, b);
}

// Units, each with the time at which it stops to count.
class Windows final : public ModelOf<Windows> {
 public:
  explicit Windows(const Limit& limit) : limit_(limit) {}
  void see(int64_t now) override {
    std::erase_if(units_, [&](const auto& unit) { return unit <= now; });
    for (int64_t& end : units_) end = std::min(end, end_of(now));
  }
  int64_t remaining(int64_t) const override {
    return limit_.quota - static_cast<int64_t>(units_.size());
  }
  bool is_fresh(int64_t now) const override {
    return std::all_of(units_.begin(), units_.end(), [&](int64_t end) { return end <= now; });
  }
  void add(int64_t units, int64_t now) override {
    const bool opened = limit_.algorithm == Algorithm::fixed_window && !units_.empty();
    units_.insert(units_.end(), static_cast<size_t>(units), opened ? units_.front() : end_of(now));
  }
  void put(int64_t units, int64_t) override {
    std::sort(units_.begin(), units_.end());
    for (; units > 0 && !units_.empty(); --units) units_.pop_back();
  }

 private:
  int64_t end_of(int64_t now) const {
    const int64_t window = limit_.window.us;
    return limit_.algorithm == Algorithm::aligned_window ? (floor_div(now, window) + 1) * window
                                                         : now + window;
  }
  Limit limit_;
  std::vector<int64_t> units_;
};

// A bucket, refilled microsecond by microsecond.
class Bucket final : public ModelOf<Bucket> {
 public:
  explicit Bucket(const Limit& limit) : limit_(limit) {}
  void see(int64_t now) override {
    if (limit_.algorithm == Algorithm::fixed_bucket) return;
    for (; at_ < now; ++at_) missing_ = std::max<int64_t>(0, missing_ - limit_.quota);
    // What came back meanwhile is missing once more, down to empty; debt is as it was.
    for (; at_ > now; --at_)
      if (missing_ > 0 && missing_ < all()) missing_ = std::min(all(), missing_ + limit_.quota);
  }
  int64_t remaining(int64_t) const override { return floor_div(all() - missing_, unit()); }
  bool is_fresh(int64_t now) const override {
    Bucket then = *this;
    then.see(now);
    return then.missing_ == 0;
  }
  void add(int64_t units, int64_t) override { missing_ += units * unit(); }
  void put(int64_t units, int64_t) override {
    missing_ = std::max<int64_t>(0, missing_ - units * unit());
  }

 private:
  int64_t unit() const {
    return limit_.algorithm == Algorithm::fixed_bucket ? 1 : limit_.window.us;
  }
  int64_t all() const { return limit_.burst * unit(); }
  Limit limit_;
  int64_t missing_ = 0, at_ = 0;
};

// Units of a window of the clock, and of the one before.
class TwoWindows final : public ModelOf<TwoWindows> {
 public:
  explicit TwoWindows(const Limit& limit) : limit_(limit) {}
  void see(int64_t now) override {
    const int64_t number = floor_div(now, limit_.window.us);
    if (number > number_ + 1 || current_ == 0) {
      current_ = previous_ = 0;
      number_ = number;
    } else if (number <= number_) {
      number_ = number;  // of the future: counts as one of now
    }
  }
  int64_t remaining(int64_t now) const override {
    const int64_t window = limit_.window.us, number = floor_div(now, window);
    if (number > number_ + 1) return limit_.quota;
    const bool before = number > number_;
    const int64_t left = (number + 1) * window - now;
    return limit_.quota - (before ? 0 : current_) -
           ceil_div((before ? current_ : previous_) * left, window);
  }
  bool is_fresh(int64_t now) const override {
    return current_ == 0 || floor_div(now, limit_.window.us) > number_ + 1;
  }
  void add(int64_t units, int64_t now) override {
    if (units == 0) return;
    if (floor_div(now, limit_.window.us) > number_) {
      previous_ = current_;
      current_ = 0;
      ++number_;
    }
    current_ += units;
  }
  void put(int64_t units, int64_t now) override {
    if (floor_div(now, limit_.window.us) > number_) {
      current_ = std::max<int64_t>(0, current_ - units);
      return;
    }
    const int64_t of_previous = std::max<int64_t>(0, units - current_);
    if (units < current_) {
      current_ -= units;
      return;
    }
    current_ = std::max<int64_t>(0, previous_ - of_previous);
    previous_ = 0;
    --number_;
  }

 private:
  Limit limit_;
  int64_t number_ = 0, current_ = 0, previous_ = 0;
};

std::unique_ptr<Model> model_of(const Limit& limit) {
  if (limit.algorithm == Algorithm::sliding_window) return std::make_unique<TwoWindows>(limit);
  if (limit.burst > 0) return std::make_unique<Bucket>(limit);
  return std::make_unique<Windows>(limit);
}

enum class Act : uint8_t { take, look, charge, count, put, reset };

struct Step {
  Act act;
  int64_t units = 0;
};

// The first wait after which `cost` would be granted; `never`.
Duration wait_of(const Model& model, const Limit& limit, int64_t cost, int64_t now) {
  if (cost > units_max(limit)) return base::never;
  const auto fits = [&](int64_t wait) {
    const auto then = model.copy();
    then->see(now + wait);
    return cost <= then->remaining(now + wait);
  };
  if (limit.algorithm == Algorithm::fixed_bucket) return fits(0) ? Duration{} : base::never;
  int64_t wait = 0;
  while (!fits(wait)) ++wait;
  return {wait};
}

Duration reset_of(const Model& model, const Limit& limit, int64_t now) {
  if (limit.algorithm == Algorithm::fixed_bucket) return base::never;
  int64_t wait = 0;
  while (!model.is_fresh(now + wait)) ++wait;
  return {wait};
}

// What the model answers, after doing it.
Decision expected(std::unique_ptr<Model>& model, const Limit& limit, const Step& step,
                  int64_t now) {
  Decision d{true, units_max(limit), 0, {}, {}};
  auto of_look = model->copy();
  Model& its = step.act == Act::look ? *of_look : *model;
  its.see(now);
  const int64_t left = its.remaining(now);
  if (step.act == Act::take || step.act == Act::count) {
    d.allowed = step.units <= left;
    if (d.allowed || step.act == Act::count) its.add(step.units, now);
    if (!d.allowed) d.retry_after = wait_of(its, limit, step.units, now);
  } else if (step.act == Act::charge) {
    its.add(step.units, now);
    d.retry_after = wait_of(its, limit, 1, now);
  } else if (step.act == Act::put) {
    its.put(step.units, now);
  } else if (step.act == Act::reset) {
    model = model_of(limit);
    model->see(now);
  }
  Model& after = step.act == Act::look ? *of_look : *model;
  d.remaining = after.remaining(now);
  d.reset_after = reset_of(after, limit, now);
  return d;
}

Decision done(State* whole, const Limit& limit, const Step& step, int64_t now) {
  int64_t charged = 0;
  switch (step.act) {
    case Act::take:
      return debt::decide(whole, limit, step.units, {now});
    case Act::look:
      return debt::peek(whole, limit, {now});
    case Act::charge: {
      const Decision d = debt::charge(whole, limit, step.units, {now}, charged);
      EXPECT_EQ(charged, step.units);
      return d;
    }
    case Act::count:
      return debt::count(whole, limit, step.units, {now});
    default:
      return debt::put(whole, limit, step.units, step.act == Act::reset, {now});
  }
}

std::string text(const Decision& d) {
  return std::string(d.allowed ? "allowed" : "refused") + " of " + std::to_string(d.limit) +
         " left " + std::to_string(d.remaining) + " reset " + std::to_string(d.reset_after.us) +
         " retry " + std::to_string(d.retry_after.us);
}

using Whole = std::array<State, limit_cells_max>;

// As a store keeps it: closed and opened again. Without debt it has no cell more.
void keep(Whole& whole, const Limit& limit, bool in_debt) {
  Opened counter({&limit, 1});
  std::copy_n(whole.begin(), debt::whole_cells(limit), counter.whole(0));
  State cells[counter_cells_max];
  const CellCount count = counter.close(cells);
  ASSERT_TRUE(left_out::fits({&limit, 1}, {cells, count.all}));
  if (!in_debt) {
    ASSERT_EQ(count.all, limit::cells(limit));
  }
  Opened again({cells, count.all}, {&limit, 1});
  ASSERT_TRUE(again.left_out().empty());
  ASSERT_TRUE(std::equal(whole.begin(),
                         whole.begin() + static_cast<ptrdiff_t>(debt::whole_cells(limit)),
                         again.whole(0)));
}

struct Sequences {
  const Limit limit;
  const std::vector<Step> steps;
  const std::vector<int64_t> moves;  // of the clock
  size_t length;
  size_t in_debt = 0, refused_looks = 0;
  std::string path{};

  void go_on(const Whole& whole, const Model& model, int64_t now, size_t depth) {
    if (depth == length || testing::Test::HasFatalFailure()) return;
    for (const int64_t move : moves) {
      for (const Step& step : steps) {
        const int64_t then = now + move;
        const size_t before = path.size();
        path += " " + std::to_string(static_cast<int>(step.act)) + ":" +
                std::to_string(step.units) + "@" + std::to_string(then);
        Whole next = whole;
        auto its = model.copy();
        const Decision d = done(next.data(), limit, step, then);
        const Decision e = expected(its, limit, step, then);
        ASSERT_EQ(text(d), text(e)) << name_of(limit.algorithm) << " " << limit.quota << "/"
                                    << limit.window.us << "/" << limit.burst << path;
        ASSERT_NO_FATAL_FAILURE(keep(next, limit, step.act == Act::look || d.remaining < 0))
            << path;
        in_debt += d.remaining < 0 ? 1 : 0;
        refused_looks += step.act == Act::take && step.units == 0 && !d.allowed ? 1 : 0;
        go_on(next, *its, then, depth + 1);
        if (testing::Test::HasFatalFailure()) return;
        path.resize(before);
      }
    }
  }
};

std::vector<Limit> small_limits() {
  std::vector<Limit> limits;
  for (const int64_t window : {1, 2, 5}) {
    for (const int64_t quota : {1, 3}) {
      limits.push_back({Algorithm::fixed_window, quota, {window}});
      limits.push_back({Algorithm::aligned_window, quota, {window}});
      limits.push_back({Algorithm::sliding_window, quota, {window}});
      limits.push_back({Algorithm::sliding_log, quota, {window}});
      limits.push_back({Algorithm::token_bucket, quota, {window}, 2});
    }
  }
  limits.push_back({Algorithm::aligned_window, 0, {3}});
  limits.push_back({Algorithm::fixed_bucket, 2, {}, 2});
  return limits;
}

TEST(Debt, EverySequenceOfThreeMatchesTheModels) {
  size_t in_debt = 0, refused_looks = 0;
  for (const Limit& limit : small_limits()) {
    Sequences all{limit,
                  {{Act::take, 0},
                   {Act::take, 1},
                   {Act::take, 2},
                   {Act::look},
                   {Act::charge, 0},
                   {Act::charge, 1},
                   {Act::charge, 4},
                   {Act::count, 2},
                   {Act::put, 1},
                   {Act::reset}},
                  {-2, 0, 1, 3},
                  3};
    ASSERT_NO_FATAL_FAILURE(all.go_on(Whole{}, *model_of(limit), 0, 0));
    in_debt += all.in_debt;
    refused_looks += all.refused_looks;
  }
  EXPECT_GT(in_debt, 100'000u);
  EXPECT_GT(refused_looks, 10'000u);
}

TEST(Debt, EverySequenceOfFiveActsMatchesTheModels) {
  for (const Limit& limit : small_limits()) {
    Sequences all{
        limit, {{Act::take, 1}, {Act::charge, 3}, {Act::count, 2}, {Act::put, 2}}, {-1, 1, 2}, 5};
    if (limit.window.us == 1) continue;
    ASSERT_NO_FATAL_FAILURE(all.go_on(Whole{}, *model_of(limit), 4, 0));
  }
}

TEST(Debt, LongRandomSequencesMatchTheModels) {
  tests::Dice dice(20261128);
  size_t in_debt = 0, paid = 0;
  for (int round = 0; round < 3'000; ++round) {
    const auto algorithm =
        static_cast<Algorithm>(static_cast<int>(Algorithm::fixed_window) + dice(6));
    const bool bucket =
        algorithm == Algorithm::token_bucket || algorithm == Algorithm::fixed_bucket;
    const int64_t quota = 1 + dice(int64_t{20}), window = 1 + dice(int64_t{28});
    const Limit limit = algorithm == Algorithm::fixed_bucket
                            ? Limit{algorithm, quota, {}, quota}
                            : Limit{algorithm, quota, {window}, bucket ? 1 + dice(int64_t{20}) : 0};
    auto model = model_of(limit);
    Whole whole{};
    int64_t now = dice(int64_t{100});
    bool was_in_debt = false;
    for (int i = 0; i < 60; ++i) {
      now += dice(8) == 0 ? -dice(int64_t{10}) : dice(int64_t{5});
      Step step{static_cast<Act>(dice(12) == 0 ? 5 : dice(5)), dice(int64_t{7})};
      if (step.act == Act::charge && dice(3) == 0) step.units += dice(int64_t{30});
      const Decision d = done(whole.data(), limit, step, now);
      const Decision e = expected(model, limit, step, now);
      ASSERT_EQ(text(d), text(e)) << name_of(limit.algorithm) << " " << limit.quota << "/"
                                  << limit.window.us << "/" << limit.burst << " round " << round
                                  << " step " << i << " act " << static_cast<int>(step.act) << ":"
                                  << step.units << "@" << now;
      ASSERT_NO_FATAL_FAILURE(keep(whole, limit, step.act == Act::look || d.remaining < 0));
      in_debt += d.remaining < 0 ? 1 : 0;
      paid += was_in_debt && d.remaining >= 0 ? 1 : 0;
      was_in_debt = d.remaining < 0;
    }
  }
  EXPECT_GT(in_debt, 30'000u);
  EXPECT_GT(paid, 5'000u);
}

}  // namespace
}  // namespace sluice::limit::debt_test
