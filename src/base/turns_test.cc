// Turns by key (base/turns.h), against a list that is searched for each question.
#include "base/turns.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "tests/support/dice.h"

namespace sluice::base::turns_test {
namespace {

using Order = Turns<uint64_t, int64_t>;

struct Naive {
  struct One {
    uint64_t key, number;
    int64_t weight;
  };
  std::vector<One> all;                // by number
  std::map<uint64_t, uint64_t> turns;  // of keys but 0

  const One* front(uint64_t key) const {
    const One* least = nullptr;
    for (const One& one : all)
      if (one.key == key && (least == nullptr || one.number < least->number)) least = &one;
    return least;
  }
  uint64_t turn(uint64_t key) const { return key == 0 ? front(0)->number : turns.at(key); }
  const One* first() const {
    const One* least = nullptr;
    for (const One& one : all) {
      if (front(one.key) != &one) continue;
      if (least == nullptr ||
          std::pair(turn(one.key), one.number) < std::pair(turn(least->key), least->number))
        least = &one;
    }
    return least;
  }
  void remove(uint64_t key, uint64_t number, uint64_t next) {
    std::erase_if(all, [&](const One& one) { return one.key == key && one.number == number; });
    if (front(key) == nullptr)
      turns.erase(key);
    else if (key != 0 && next != 0)
      turns[key] = next;
  }
};

TEST(Turns, MatchASearchedList) {
  for (uint32_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    tests::Dice dice(seed);
    Order order;
    Naive naive;
    uint64_t count = 0;
    const uint64_t keys = 1 + dice(uint64_t{6});
    for (int i = 0; i < 300; ++i) {
      const size_t what = dice(size_t{8});
      if (what < 4 || naive.all.empty()) {
        const Naive::One one{dice(keys), ++count, dice(int64_t{9})};
        if (one.key != 0 && naive.front(one.key) == nullptr) naive.turns[one.key] = one.number;
        ASSERT_TRUE(order.insert({one.key, one.number}, one.weight, one.number));
        ASSERT_FALSE(order.insert({one.key, one.number}, one.weight, one.number));
        naive.all.push_back(one);
      } else if (what < 6) {
        const Naive::One one = *naive.first();
        const uint64_t next = ++count;
        ASSERT_TRUE(order.serve(one.key, one.number, next));
        naive.remove(one.key, one.number, next);
      } else {
        const Naive::One one = naive.all[dice(naive.all.size())];
        const bool leads = naive.front(one.key)->number == one.number;
        const uint64_t turn = leads ? naive.turn(one.key) : 0;
        ASSERT_EQ(order.turn_of(one.key, one.number), turn);
        ASSERT_TRUE(order.erase(one.key, one.number));
        ASSERT_FALSE(order.erase(one.key, one.number));
        naive.remove(one.key, one.number, 0);
        if (what == 7) {
          // It comes back, perhaps under another key: where it had a turn that is its key's, if it
          // is the earlier one.
          const uint64_t key = dice(2) == 0 ? one.key : dice(keys);
          if (key != 0) {
            const uint64_t mine = turn != 0 ? turn : one.number;
            if (naive.front(key) == nullptr)
              naive.turns[key] = mine;
            else if (turn != 0)
              naive.turns[key] = std::min(naive.turns[key], turn);
          }
          ASSERT_TRUE(order.insert({key, one.number, turn}, one.weight, one.number));
          naive.all.push_back({key, one.number, one.weight});
        }
      }
      int64_t all = 0;
      for (const Naive::One& one : naive.all) all += one.weight;
      ASSERT_EQ(order.sum(), all);
      ASSERT_EQ(order.empty(), naive.all.empty());
      if (naive.all.empty()) continue;
      ASSERT_EQ(order.first_number(), naive.first()->number);
      ASSERT_EQ(order.first(), naive.first()->number);
      for (const Naive::One& one : naive.all) {
        int64_t before = 0;
        for (const Naive::One& other : naive.all)
          if (other.key != one.key || other.number < one.number) before += other.weight;
        const uint64_t turn = order.turn_of(one.key, one.number);
        ASSERT_EQ(order.ahead({one.key, one.number, turn}),
                  naive.first()->number == one.number ? 0 : before);
      }
    }
  }
}

TEST(Turns, AValueAtTheFrontOfItsKeyIsPassedByOneOfEachOtherKeyAtMost) {
  tests::Dice dice(7);
  Order order;
  std::map<uint64_t, uint64_t> key_of;
  std::map<uint64_t, std::vector<uint64_t>> served_since;  // by key that waits, at its front
  uint64_t count = 0;
  const auto add = [&](uint64_t key) {
    key_of[++count] = key;
    order.insert({key, count}, 1, count);
    served_since.try_emplace(key);
  };
  for (int i = 0; i < 20'000; ++i) {
    if (order.empty() || dice(5) < 3) add(1 + dice(uint64_t{9}));
    if (dice(5) < 2) continue;
    const uint64_t one = order.first(), key = key_of.at(one);
    for (auto& [other, since] : served_since) {
      if (other == key) continue;
      since.push_back(key);
      ASSERT_LE(std::count(since.begin(), since.end(), key), 1);
    }
    ASSERT_TRUE(order.serve(key, one, ++count));
    served_since.erase(key);
    for (const auto& [number, its] : key_of)
      if (its == key && number > one) served_since.try_emplace(key);
    key_of.erase(one);
  }
}

}  // namespace
}  // namespace sluice::base::turns_test
