// For tests: what counters under windows of the calendar have given out, by a list of all grants
// that is counted again at each look. The starts of windows are recorded ones
// (tests/conformance/calendar_starts.json), so the model shares nothing with what it judges.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "limit/calendar.h"
#include "limit/limit.h"
#include "tests/support/dice.h"
#include "tests/support/paths.h"

namespace sluice::tests {

// In microseconds.
struct ModelWindow {
  int64_t start = 0, end = 0;
};

// Windows of one kind: recorded ones, or of one length by the clock.
class ModelWindows {
 public:
  explicit ModelWindows(int64_t length) : length_(length) {}
  explicit ModelWindows(std::vector<int64_t> starts) : starts_(std::move(starts)) {}

  ModelWindow of(int64_t now) const {
    if (length_ > 0) return {now - now % length_, now - now % length_ + length_};
    const auto next = std::upper_bound(starts_.begin(), starts_.end(), now);
    EXPECT_TRUE(next != starts_.begin() && next != starts_.end()) << "not recorded: " << now;
    return {*(next - 1), *next};
  }
  bool is_calendar() const { return length_ == 0; }

 private:
  int64_t length_ = 0;
  std::vector<int64_t> starts_;
};

// By what a limit says: "month@Europe/Berlin,month_day=9", as limit::parse_calendar reads it, or
// "30d".
using ModelKinds = std::map<std::string, ModelWindows>;

inline ModelKinds recorded_kinds() {
  constexpr int64_t second = 1'000'000;
  std::ifstream file(source_path("tests/conformance/calendar_starts.json"));
  ModelKinds kinds;
  const auto all = nlohmann::json::parse(file);
  for (const auto& [text, runs] : all.at("calendars").items()) {
    std::vector<int64_t> starts;
    for (const auto& run : runs)
      for (int64_t i = 0; i < run.at(2).get<int64_t>(); ++i)
        starts.push_back((run.at(0).get<int64_t>() + i * run.at(1).get<int64_t>()) * second);
    kinds.emplace(text, ModelWindows(std::move(starts)));
  }
  EXPECT_EQ(kinds.size(), 8u);
  for (const int64_t days : {1, 30})
    kinds.emplace(std::to_string(days) + "d", ModelWindows(days * 86'400 * second));
  return kinds;
}

struct ModelLimit {
  std::string kind;
  int64_t quota = 1;
};

inline std::vector<limit::Limit> limits_of(const std::vector<ModelLimit>& list) {
  std::vector<limit::Limit> all;
  for (const ModelLimit& one : list) {
    limit::Limit limit{limit::Algorithm::aligned_window, one.quota};
    if (const auto terms = limit::parse_calendar(one.kind)) {
      limit.window = limit::Calendar::nominal(terms->unit);
      limit.calendar = limit::Calendar::of(*terms).calendar;
      EXPECT_TRUE(limit.calendar) << one.kind;
    } else {
      limit.window = base::seconds(std::stoll(one.kind) * 86'400);
    }
    all.push_back(limit);
  }
  return all;
}

// One or two limits of different kinds.
inline std::vector<ModelLimit> random_model_limits(Dice& dice, const ModelKinds& kinds) {
  std::vector<ModelLimit> list;
  const size_t count = 1 + dice(size_t{2});
  while (list.size() < count) {
    const auto at = std::next(kinds.begin(), static_cast<std::ptrdiff_t>(dice(kinds.size())));
    if (!list.empty() && list.front().kind == at->first) continue;
    list.push_back({at->first, 3 + dice(int64_t{20})});
  }
  return list;
}

// A time from which on something may be another way: just before, at or behind an end of a window
// of the list, or anywhere. It is the same time where what is recorded would end soon.
inline int64_t random_later(Dice& dice, const ModelKinds& kinds,
                            const std::vector<ModelLimit>& list, int64_t now) {
  constexpr int64_t day = 86'400'000'000, last = 1'890'000'000'000'000;
  ModelWindow window = kinds.at(list[dice(list.size())].kind).of(now);
  // Seldom to the end of a year.
  if (window.end - now > 40 * day && dice(6) > 0) window.end = now + 10 * day;
  const int kind = dice(6);
  const int64_t later = kind == 0   ? window.end - 1
                        : kind == 1 ? window.end
                        : kind == 2 ? window.end + dice(int64_t{7'200'000'000})
                                    : now + dice(window.end - now);
  return later < now || later > last ? now : later;
}

// A counter. Each kind has its own grants, whichever limits are in force.
class CalendarCounter {
 public:
  using List = std::vector<ModelLimit>;

  explicit CalendarCounter(const ModelKinds& kinds) : kinds_(&kinds) {}

  int64_t used(const std::string& kind, int64_t now) const {
    const auto at = grants_.find(kind);
    if (at == grants_.end()) return 0;
    int64_t sum = 0;
    for (const Grant& one : at->second)
      if (one.end > kinds_->at(kind).of(now).start) sum += one.units;
    return sum;
  }
  bool allows(const List& list, int64_t cost, int64_t now) const {
    return std::all_of(list.begin(), list.end(), [&](const ModelLimit& one) {
      return cost <= one.quota - used(one.kind, now);
    });
  }
  bool take(const List& list, int64_t cost, int64_t now) {
    if (!allows(list, cost, now)) return false;
    charge(list, cost, now);
    return true;
  }
  void charge(const List& list, int64_t cost, int64_t now) {
    for (const ModelLimit& one : list) {
      see(one.kind, now);
      if (cost > 0) grants_[one.kind].push_back({kinds_->at(one.kind).of(now).end, cost});
    }
  }
  // Gives units back, the latest first.
  void put(const List& list, int64_t units, int64_t now) {
    for (const ModelLimit& one : list) {
      see(one.kind, now);
      auto& its = grants_[one.kind];
      for (int64_t left = units; left > 0 && !its.empty();) {
        const int64_t back = std::min(left, its.back().units);
        left -= back;
        its.back().units -= back;
        if (its.back().units == 0) its.pop_back();
      }
    }
  }
  void reset() { grants_.clear(); }
  // What is left out of this list and over by then is dropped with the next write.
  void drop_left_out(const List& list, int64_t now) {
    for (auto& [kind, its] : grants_) {
      const bool in_force =
          std::any_of(list.begin(), list.end(),
                      [&, kind = kind](const ModelLimit& one) { return one.kind == kind; });
      if (!in_force) std::erase_if(its, [&](const Grant& one) { return one.end <= now; });
    }
  }

 private:
  struct Grant {
    int64_t end, units;
  };
  // What is over goes, and what was granted while the clock was ahead counts in the present window.
  void see(const std::string& kind, int64_t now) {
    const ModelWindow window = kinds_->at(kind).of(now);
    auto& its = grants_[kind];
    std::erase_if(its, [&](const Grant& one) { return one.end <= window.start; });
    for (Grant& one : its) one.end = std::min(one.end, window.end);
  }

  const ModelKinds* kinds_;
  std::map<std::string, std::vector<Grant>> grants_;
};

}  // namespace sluice::tests
