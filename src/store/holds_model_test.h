// Naive models of holds, for each store that keeps some: a list of what each hold reserved and came
// to, from which every counter and every answer is computed again; and a list of what was granted
// while the limits of a counter change.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/hash.h"
#include "base/time.h"
#include "limit/limit.h"
#include "request/charge.h"
#include "request/hold.h"
#include "request/space.h"
#include "store/embedded_store.h"
#include "store/hold_book.h"
#include "store/holds.h"
#include "tests/support/dice.h"

namespace sluice::store::holds_test {

using request::HoldAsk;
using request::HoldCall;
using request::HoldOutcome;
using request::HoldTerms;
using request::Verb;

constexpr int64_t second = 1'000'000, noon = 1'800'000'000'000'000;
constexpr int64_t quota = 100;
inline const std::string first_id = "0123456789abcdef", second_id = "fedcba9876543210";

// What the model knows of an id.
struct Known {
  enum State { held, committed, released, kept } state = held;
  std::array<int64_t, 2> reserved{}, used{};
  int64_t end = 0, ttl = 0;
};

// Random histories: each answer and each counter is as the model has it. A World has two subjects,
// each with a counter of its own, and one that both share.
template <class World>
void equal_the_model(int rounds) {
  sluice::tests::Dice dice(20261130);
  std::map<HoldOutcome, size_t> seen;
  for (int round = 0; round < rounds; ++round) {
    const bool keeps = dice(2) == 0, ignores = dice(2) == 0;
    constexpr int64_t remember = 20 * second;
    World world({.remember = {remember}}, {.keeps = keeps, .ignores_late = ignores});
    std::map<std::string, Known> model;
    std::array<int64_t, 2> taken{};
    const auto used_of = [&](size_t subject) {
      int64_t sum = taken[subject];
      for (const auto& [id, its] : model)
        sum += its.state == Known::held || its.state == Known::kept ? its.reserved[subject]
               : its.state == Known::committed                      ? its.used[subject]
                                                                    : 0;
      return sum;
    };
    const auto pass = [&] {
      for (auto at = model.begin(); at != model.end();) {
        Known& its = at->second;
        if (its.state == Known::held && its.end <= world.now) {
          its.state = keeps ? Known::kept : Known::released;
          its.end = world.now + remember;
        }
        if (its.state != Known::held && its.end <= world.now) {
          for (size_t s = 0; s < 2; ++s)
            taken[s] += its.state == Known::kept        ? its.reserved[s]
                        : its.state == Known::committed ? its.used[s]
                                                        : 0;
          at = model.erase(at);
        } else {
          ++at;
        }
      }
      world.holds.end_due({world.now});
    };
    for (int step = 0; step < 60; ++step) {
      world.now += dice(3) == 0 ? dice(int64_t{8}) * second : 0;
      pass();
      const std::string id = dice(2) == 0 ? first_id : second_id;
      const std::array<int64_t, 2> units{dice(int64_t{30}), dice(int64_t{30})};
      const auto its = model.find(id);
      Known* const known = its == model.end() ? nullptr : &its->second;
      const auto fits = [&] {
        return used_of(0) + units[0] <= quota && used_of(1) + units[1] <= quota &&
               used_of(0) + used_of(1) + units[0] + units[1] <= quota;
      };
      const auto what = static_cast<HoldAsk>(dice(5));
      HoldOutcome expected = HoldOutcome::done;
      HoldCall call;
      const auto gone = [&] {
        return known->state == Known::committed ? HoldOutcome::settled : HoldOutcome::ended;
      };
      if (what == HoldAsk::reserve) {
        const uint64_t content = dice(uint64_t{2});
        const base::Duration ttl{(1 + dice(int64_t{10})) * second};
        call = world.reserve(id, units, ttl, content);
        if (known == nullptr) {
          expected = fits() ? HoldOutcome::done : HoldOutcome::refused;
          if (expected == HoldOutcome::done) {
            model[id] = {.reserved = units, .end = world.now + ttl.us, .ttl = ttl.us};
            model[id].used[0] = static_cast<int64_t>(content);  // while it is held
          }
        } else if (known->state != Known::held) {
          expected = gone();
        } else if (known->used[0] != static_cast<int64_t>(content)) {
          expected = HoldOutcome::in_use;
        } else {
          EXPECT_EQ(call.ends_in.us, known->end - world.now);
          EXPECT_TRUE(call.repeated);
        }
      } else if (what == HoldAsk::extend || what == HoldAsk::renew) {
        const bool extends = what == HoldAsk::extend;
        call =
            world.ask(what, id, extends ? std::vector{units[0], units[1]} : std::vector<int64_t>());
        if (known == nullptr) {
          expected = HoldOutcome::unknown;
        } else if (known->state != Known::held) {
          expected = gone();
        } else if (extends && !fits()) {
          expected = HoldOutcome::refused;
        } else {
          for (size_t s = 0; s < 2 && extends; ++s) known->reserved[s] += units[s];
          known->end = world.now + known->ttl;
          EXPECT_EQ(call.ends_in.us, known->ttl);
        }
      } else if (what == HoldAsk::commit) {
        call = world.ask(what, id, {units[0], units[1]});
        if (known == nullptr) {
          expected = HoldOutcome::unknown;
        } else if (known->state == Known::committed) {
          expected = known->used == units ? HoldOutcome::done : HoldOutcome::settled;
          EXPECT_EQ(call.repeated, known->used == units);
        } else if (known->state == Known::released && ignores) {
          expected = HoldOutcome::ended;
        } else {
          EXPECT_EQ(call.late, known->state != Known::held);
          known->state = Known::committed;
          known->used = units;
          known->end = world.now + remember;
        }
      } else {
        call = world.ask(what, id);
        if (known == nullptr) {
          expected = HoldOutcome::unknown;
        } else if (known->state == Known::committed) {
          expected = HoldOutcome::settled;
        } else if (known->state != Known::released) {
          EXPECT_EQ(call.returned, known->reserved[0] + known->reserved[1]);
          known->state = Known::released;
          known->end = world.now + remember;
        } else {
          EXPECT_EQ(call.returned, 0);
        }
      }
      ++seen[expected];
      ASSERT_EQ(call.outcome, expected)
          << "round " << round << " step " << step << " ask " << static_cast<int>(what);
      ASSERT_EQ(world.used("a"), used_of(0)) << "round " << round << " step " << step;
      ASSERT_EQ(world.used("b"), used_of(1)) << "round " << round << " step " << step;
      ASSERT_EQ(world.used("both"), used_of(0) + used_of(1))
          << "round " << round << " step " << step;
    }
  }
  for (const HoldOutcome outcome : {HoldOutcome::done, HoldOutcome::refused, HoldOutcome::unknown,
                                    HoldOutcome::in_use, HoldOutcome::settled, HoldOutcome::ended})
    EXPECT_GT(seen[outcome], static_cast<size_t>(rounds / 4)) << static_cast<int>(outcome);
}

// Where holds and other requests are settled, at times that the test tells.
class HoldsHere {
 public:
  virtual ~HoldsHere() = default;
  virtual HoldBook& book() = 0;
  // Settles one group. False: it is refused.
  virtual bool settle(std::vector<request::Charge>& charges,
                      std::vector<limit::Decision>& decisions, int64_t now) = 0;
  request::Spaces spaces;
};

class HoldsInMemory final : public HoldsHere {
 public:
  explicit HoldsInMemory(const HoldBook::Options& options) : holds_(table_, spaces, options) {}
  HoldBook& book() override { return holds_; }
  bool settle(std::vector<request::Charge>& charges, std::vector<limit::Decision>& decisions,
              int64_t now) override {
    request::Group group{.charge_count = static_cast<uint32_t>(charges.size())};
    table_.apply({{&group, 1}, charges, decisions}, {now});
    return group.allowed;
  }

 private:
  EmbeddedStore table_{16 << 20, base::Hash(1), spaces};
  Holds holds_;
};

// A counter whose list of limits changes (a reload, an override), with holds on it: what is granted
// never exceeds a limit under which it was taken, when each settled hold counts as what it used.
class Changing {
 public:
  explicit Changing(HoldsHere& here) : here_(here) {
    for (size_t i = 0; i < lists_.size(); ++i) ids_[i] = here.spaces.hold_limits(lists_[i]);
    space_ = here.spaces.hold("test:", "", {});
  }

  void pass(int64_t us) {
    now_ += us;
    here_.book().end_due({now_});
    for (Batch& one : batches_)
      if (one.id != 0 && one.end <= now_) one = {};  // its end gave all back
  }
  void use_list(size_t list) { list_ = list; }
  void take(int64_t units) {
    if (settle_charge(charge(Verb::take, units))) add({.units = units});
  }
  void put(int64_t units) {
    settle_charge(charge(Verb::put, units));
    // The latest first, of each window; so it is not followed: what was before is not looked at.
    forgotten_before_ = now_;
  }
  void reserve(int64_t units, int64_t ttl) {
    request::Charge one = charge(Verb::reserve, units);
    limit::Decision decisions[2];
    request::Group group{.charge_count = 1};
    const HoldBook::Share share{1, "changing"};
    HoldCall call{.ttl = {ttl}};
    EXPECT_TRUE(here_.book().reserve(call, {}, {{&group, 1}, {&one, 1}, decisions}, {&share, 1},
                                     {&units, 1}, {now_}, {}));
    written_ = list_;
    if (call.outcome != HoldOutcome::done) return;
    names_.push_back(call.made_id);
    add({.units = units, .id = names_.size(), .end = now_ + ttl});
  }
  // `part` of 4 of what is held.
  void commit(size_t id, int64_t part) {
    std::vector<Batch*> its;
    int64_t held = 0;
    for (Batch& one : batches_)
      if (one.id == id) {
        its.push_back(&one);
        held += one.units;
      }
    if (its.empty()) return;
    int64_t used = held * part / 4;
    HoldCall call{.ask = HoldAsk::commit, .id = names_[id - 1], .units = {used}};
    EXPECT_TRUE(here_.book().settle(call, {now_}, {}));
    ASSERT_EQ(call.outcome, HoldOutcome::done);
    for (Batch* one : its) {  // the earliest first
      const int64_t filled = std::min(one->units, used);
      used -= filled;
      one->units = filled;
      one->id = 0;
    }
    ++settled_;
  }
  void extend(size_t id, int64_t units) {
    Batch* first = nullptr;
    for (Batch& one : batches_)
      if (one.id == id && first == nullptr) first = &one;
    if (first == nullptr) return;
    HoldCall call{.ask = HoldAsk::extend, .id = names_[id - 1], .units = {units}};
    EXPECT_TRUE(here_.book().settle(call, {now_}, {}));
    if (call.outcome != HoldOutcome::done) return;
    const int64_t end = now_ + call.ends_in.us;
    for (Batch& one : batches_)
      if (one.id == id) one.end = end;
    add({.units = units, .id = id, .list = written_, .end = end}, false);
  }
  size_t ids() const { return names_.size(); }
  size_t settled() const { return settled_; }

  void check(const std::string& told) const {
    for (const Batch& first : batches_) {
      int64_t in_window = 0, in_log = 0;
      for (const Batch& one : batches_) {
        if (one.at < forgotten_before_ || first.at < forgotten_before_) continue;
        if (has_window(one.list) && one.at / window_us == first.at / window_us)
          in_window += one.units;
        if (has_log(one.list) && one.at >= first.at && one.at < first.at + log_us)
          in_log += one.units;
      }
      ASSERT_LE(in_window, 20) << told;
      ASSERT_LE(in_log, 12) << told;
    }
  }

 private:
  static constexpr int64_t window_us = 10, log_us = 4;
  struct Batch {
    int64_t units = 0;
    size_t id = 0;  // of the hold that has it; 0: none
    size_t list = 0;
    int64_t at = 0, end = 0;
  };
  static bool has_window(size_t list) { return list != 2; }
  static bool has_log(size_t list) { return list != 0; }

  void add(Batch batch, bool by_list = true) {
    batch.at = now_;
    if (by_list) batch.list = list_;
    batches_.push_back(batch);
  }
  request::Charge charge(Verb verb, int64_t units) const {
    return {.space = space_.get(),
            .key = "k",
            .verb = verb,
            .cost = units,
            .limits = lists_[list_],
            .limits_id = ids_[list_].id()};
  }
  bool settle_charge(const request::Charge& one) {
    std::vector<request::Charge> charges{one};
    std::vector<limit::Decision> decisions(2);
    const bool allowed = here_.settle(charges, decisions, now_);
    written_ = list_;
    return allowed;
  }

  const limit::Limit window_{limit::Algorithm::aligned_window, 20, {window_us}};
  const limit::Limit log_{limit::Algorithm::sliding_log, 12, {log_us}};
  const std::array<std::vector<limit::Limit>, 3> lists_{{{window_}, {window_, log_}, {log_}}};
  HoldsHere& here_;
  std::array<request::LimitsRef, 3> ids_;
  request::SpaceRef space_;
  size_t list_ = 0, written_ = 0;  // in force, and that of the counter
  int64_t now_ = noon;
  int64_t forgotten_before_ = 0;
  std::vector<std::string> names_;
  std::vector<Batch> batches_;
  size_t settled_ = 0;
};

// Random histories of such a counter.
template <class Make>
void nothing_exceeds(Make&& make, int rounds) {
  sluice::tests::Dice dice(20261202);
  size_t settled = 0;
  for (int round = 0; round < rounds; ++round) {
    const std::unique_ptr<HoldsHere> here = make();
    Changing counter(*here);
    std::string told = "round " + std::to_string(round);
    for (int step = 0; step < 50; ++step) {
      const int what = dice(9);
      const int64_t n = 1 + dice(int64_t{6});
      told += " " + std::to_string(what) + ":" + std::to_string(n);
      const size_t id = counter.ids() == 0 ? 0 : 1 + dice(counter.ids());
      if (what <= 1) counter.pass(dice(int64_t{4}));
      if (what == 2) counter.use_list(dice(size_t{3}));
      if (what == 3) counter.take(n);
      if (what == 4 || what == 5) counter.reserve(n, 1 + dice(int64_t{20}));
      if (what == 6 && id > 0) counter.extend(id, n);
      if (what >= 7 && id > 0) counter.commit(id, dice(int64_t{5}));
      ASSERT_NO_FATAL_FAILURE(counter.check(told));
    }
    settled += counter.settled();
  }
  EXPECT_GT(settled, static_cast<size_t>(2 * rounds));
}

}  // namespace sluice::store::holds_test
