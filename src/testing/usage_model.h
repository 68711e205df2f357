// What is used of a limit, counted naively: what was taken is kept and counted again at each look,
// microsecond by microsecond; with debt. For small numbers. The model for charges, for limits that
// count, and for all else that a limit is asked. For tests only.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <vector>

#include "limit/limit.h"

namespace sluice::limit::usage_model {

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

inline int64_t floor_div(int64_t a, int64_t b) {
  return a / b - (a % b != 0 && (a < 0) != (b < 0) ? 1 : 0);
}
inline int64_t ceil_div(int64_t a, int64_t b) {
  return -floor_div(-a, b);
}

// Units, each with the time at which it stops to count.
class Windows final : public ModelOf<Windows> {
 public:
  explicit Windows(const Limit& limit) : limit_(limit) {}
  void see(int64_t now) override {
    std::erase_if(units_, [&](const auto& unit) { return unit <= now; });
    if (limit_.algorithm == Algorithm::concurrency) return;  // an end stays where it is
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
    if (limit_.algorithm == Algorithm::concurrency) std::reverse(units_.begin(), units_.end());
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

inline std::unique_ptr<Model> model_of(const Limit& limit) {
  if (limit.algorithm == Algorithm::sliding_window) return std::make_unique<TwoWindows>(limit);
  if (is_bucket(limit)) return std::make_unique<Bucket>(limit);
  return std::make_unique<Windows>(limit);
}

enum class Act : uint8_t { take, look, charge, count, put, reset };

struct Step {
  Act act;
  int64_t units = 0;
};

// The part of `units` that a limit takes which has `left`, and may owe `most_debt` at most.
inline int64_t taken_of(int64_t units, int64_t left, int64_t most_debt) {
  return std::clamp<int64_t>(left + most_debt, 0, units);
}

// The first wait after which `cost` would be granted; `never`. The model has seen `now`.
inline Duration wait_of(const Model& model, const Limit& limit, int64_t cost, int64_t now) {
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

inline Duration reset_of(const Model& model, const Limit& limit, int64_t now) {
  if (limit.algorithm == Algorithm::fixed_bucket) return base::never;
  int64_t wait = 0;
  while (!model.is_fresh(now + wait)) ++wait;
  return {wait};
}

// What the model answers, after doing it. `charged`: what it took of a charge.
inline Decision expected(std::unique_ptr<Model>& model, const Limit& limit, const Step& step,
                         int64_t now, int64_t most_debt, int64_t& charged) {
  Decision d{true, units_max(limit), 0, {}, {}};
  auto of_look = model->copy();
  Model& its = step.act == Act::look ? *of_look : *model;
  its.see(now);
  const int64_t left = its.remaining(now);
  if (step.act == Act::take || step.act == Act::count) {
    d.allowed = step.units <= left;
    if (d.allowed || step.act == Act::count)
      its.add(d.allowed ? step.units : taken_of(step.units, left, most_debt), now);
    if (!d.allowed) d.retry_after = wait_of(its, limit, step.units, now);
  } else if (step.act == Act::charge) {
    charged = taken_of(step.units, left, most_debt);
    its.add(charged, now);
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

}  // namespace sluice::limit::usage_model
