// The service of Kuadrant beside Envoy's and a naive model of plain `unit` limits, which counts all
// units that were ever taken again at each look: random histories of all methods, with ends of
// holds and of windows between them.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "protocol/envoy/kuadrant_world_test.h"
#include "tests/support/dice.h"

namespace sluice::envoy::kuadrant_model_test {
namespace {

using namespace kuadrant_world;

constexpr const char* limits = R"(
domain: d
descriptors:
  - { key: m, rate_limit: { unit: minute, requests_per_unit: 11 } }
  - { key: h, rate_limit: { unit: hour, requests_per_unit: 40 } }
)";
constexpr int64_t s = 1'000'000, held_us_max = 60 * s, remembered_us = 600 * s;

struct Counter {
  struct Taken {
    int64_t at, units;
  };
  int64_t window, quota;
  std::vector<Taken> taken{};

  int64_t used(int64_t now) const {
    int64_t sum = 0;
    for (const Taken& one : taken)
      if (one.at / window == now / window) sum += one.units;
    return sum;
  }
};

// One user's holds, by ids; the counters by the number of their descriptor.
struct Model {
  struct Hold {
    enum class State { held, released, committed } state = State::held;
    int64_t end = 0;  // or until when it is remembered
    std::vector<size_t> counters{};
    std::vector<size_t> places{};  // in Counter::taken, of each
    int64_t amount = 0;            // that was committed
  };
  std::vector<Counter> counters{{60 * s, 11}, {3'600 * s, 40}};
  std::map<std::string, Hold> holds{};

  // What ends by itself until now.
  void pass(int64_t now) {
    for (auto it = holds.begin(); it != holds.end();) {
      Hold& hold = it->second;
      if (hold.end > now) {
        ++it;
      } else if (hold.state != Hold::State::held) {
        it = holds.erase(it);
      } else {
        settle(hold, 0, now);
        hold.state = Hold::State::released;
        hold.end = now + remembered_us;
        ++it;
      }
    }
  }
  bool fits(const std::vector<size_t>& which, int64_t now) const {
    return std::ranges::all_of(
        which, [&](size_t i) { return counters[i].used(now) + 1 <= counters[i].quota; });
  }
  void charge(const std::vector<size_t>& which, int64_t units, int64_t now) {
    for (const size_t i : which) counters[i].taken.push_back({now, units});
  }
  // The new hold; nothing: refused.
  std::optional<Hold> reserve(const std::vector<size_t>& which, int64_t amount, int64_t ttl,
                              int64_t now) {
    const auto held = [&](size_t i) { return std::min(amount, counters[i].quota / 2); };
    Hold hold{.end = now + std::min(ttl, held_us_max), .counters = which};
    for (const size_t i : which)
      if (counters[i].used(now) + held(i) > counters[i].quota) return std::nullopt;
    for (const size_t i : which) {
      hold.places.push_back(counters[i].taken.size());
      counters[i].taken.push_back({now, held(i)});
    }
    return hold;
  }
  std::string commit(const std::string& id, const std::vector<size_t>& which, int64_t amount,
                     int64_t now) {
    using State = Hold::State;
    const auto known = holds.find(id);
    if (known == holds.end()) {
      charge(which, amount, now);
      if (!id.empty()) holds[id] = {State::committed, now + remembered_us, {}, {}, amount};
      return "charged";
    }
    Hold& hold = known->second;
    if (hold.state == State::committed) return hold.amount == amount ? "charged" : "refused";
    const bool was_held = hold.state == State::held;
    if (was_held)
      settle(hold, amount, now);
    else
      charge(hold.counters, amount, now);
    hold.state = State::committed;
    hold.amount = amount;
    hold.end = now + remembered_us;
    return was_held ? "released" : "charged";
  }

 private:
  // Up to the estimate it counts where it was taken, what goes beyond counts now.
  void settle(const Hold& hold, int64_t amount, int64_t now) {
    for (size_t n = 0; n < hold.counters.size(); ++n) {
      Counter& counter = counters[hold.counters[n]];
      int64_t& units = counter.taken[hold.places[n]].units;
      const int64_t beyond = std::max<int64_t>(amount - units, 0);
      units = std::min(units, amount);
      if (beyond > 0) counter.taken.push_back({now, beyond});
    }
  }
};

class History {
 public:
  explicit History(uint32_t seed) : dice_(seed) {
    EXPECT_TRUE(world_.load({{"limits.yaml", limits}}));
  }

  void run(int steps) {
    for (int i = 0; i < steps && !testing::Test::HasFailure(); ++i) {
      const int64_t wait = dice_(4) == 0 ? dice_(int64_t{200} * s) : dice_(int64_t{8} * s);
      world_.sleep_us(wait + 1);
      model_.pass(now_us);
      step();
      for (size_t c = 0; c < model_.counters.size(); ++c)
        EXPECT_EQ(gateway_.check(wishes({c})), model_.fits({c}, now_us) ? "OK" : "OVER_LIMIT");
    }
  }

 private:
  static std::vector<Wish> wishes(const std::vector<size_t>& which, int64_t hits = 1) {
    std::vector<Wish> all;
    for (const size_t i : which) all.push_back({{{i == 0 ? "m" : "h", "x"}}, hits});
    return all;
  }
  std::vector<size_t> some() {
    constexpr size_t first = 0, second = 1;
    const int n = dice_(3);
    return n == 0 ? std::vector{first} : n == 1 ? std::vector{second} : std::vector{first, second};
  }
  std::string some_id() {
    if (!ids_.empty() && dice_(10) > 0)
      return ids_[ids_.size() - 1 - dice_(std::min<size_t>(ids_.size(), 6))];
    return dice_(2) == 0 ? "" : "some-unknown-id-" + std::to_string(dice_(4));
  }

  void step() {
    const std::vector<size_t> which = some();
    const int64_t amount = dice_(3) == 0 ? dice_(int64_t{40}) : dice_(int64_t{6});
    switch (dice_(6)) {
      case 0:
        EXPECT_EQ(gateway_.report(wishes(which, amount)), "OK");
        return model_.charge(which, std::max<int64_t>(amount, 1), now_us);
      case 1: {
        // Envoy's own method charges each, also past its limit.
        model_.charge(which, amount, now_us);
        const bool is_over = std::ranges::any_of(which, [&](size_t i) {
          return model_.counters[i].used(now_us) > model_.counters[i].quota;
        });
        const std::string answer = gateway_.should_rate_limit(wishes(which, amount));
        EXPECT_EQ(answer.substr(0, answer.find(':')), is_over ? "OVER_LIMIT" : "OK");
        return;
      }
      case 2:
      case 3: {
        const int64_t ttl_ms = dice_(3) == 0 ? 0 : 1 + dice_(int64_t{90'000});
        const auto hold =
            model_.reserve(which, amount, ttl_ms == 0 ? held_us_max : ttl_ms * 1'000, now_us);
        EXPECT_EQ(gateway_.reserve(wishes(which), static_cast<uint64_t>(amount), ttl_ms),
                  hold ? "OK" : "OVER_LIMIT");
        EXPECT_EQ(gateway_.id.empty(), !hold);
        if (!hold) return;
        ids_.push_back(gateway_.id);
        model_.holds[gateway_.id] = *hold;
        return;
      }
      default: {
        const std::string id = some_id();
        const auto known = model_.holds.find(id);
        const std::vector<size_t> its =
            known != model_.holds.end() && !known->second.counters.empty() ? known->second.counters
                                                                           : std::vector<size_t>{0};
        const std::string expected = model_.commit(id, its, amount, now_us);
        const std::string answer = gateway_.commit(wishes(its), id, static_cast<uint64_t>(amount));
        EXPECT_EQ(answer.starts_with("9 ") ? "refused" : answer, expected) << id;
      }
    }
  }

  tests::Dice dice_;
  World world_;
  Gateway gateway_{world_};
  Model model_;
  std::vector<std::string> ids_;
};

TEST(KuadrantModel, RandomHistoriesAreAsIfAllUnitsWereCountedAgain) {
  for (uint32_t seed = 1; seed <= 25 && !testing::Test::HasFailure(); ++seed) {
    SCOPED_TRACE(seed);
    History(seed).run(200);
  }
}

}  // namespace
}  // namespace sluice::envoy::kuadrant_model_test
