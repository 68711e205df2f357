// A naive model of holds: a list of what each hold reserved and came to, from which every counter
// and every answer is computed again.
#pragma once

#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/time.h"
#include "request/hold.h"
#include "tests/support/dice.h"

namespace sluice::store::holds_test {

using request::HoldAsk;
using request::HoldCall;
using request::HoldOutcome;
using request::HoldTerms;

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
  tests::Dice dice(20261130);
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

}  // namespace sluice::store::holds_test
