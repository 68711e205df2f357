// The most frequent keys (metrics/top.h) against exact counts: the promised bounds hold for every
// key of every stream.
#include "metrics/top.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "base/hash.h"
#include "tests/support/dice.h"

namespace sluice::metrics {
namespace {

using tests::Dice;

struct Decision {
  uint64_t key;
  bool denied;
};
using Stream = std::function<Decision(size_t at)>;

struct Exact {
  uint64_t allowed = 0, denied = 0;
};

std::string text_of(uint64_t key) {
  return "10.0." + std::to_string(key >> 8) + "." + std::to_string(key & 255);
}

// One stream of decisions over several workers and minutes, with its exact counts.
class World {
 public:
  World(size_t workers, size_t minutes) : workers_(workers), minutes_(minutes), tops_(workers) {}

  void run(const Stream& stream, size_t decisions, Dice& dice) {
    for (size_t i = 0; i < decisions; ++i) {
      const Decision d = stream(i);
      const auto minute = static_cast<int64_t>(i * minutes_ / decisions);
      const std::string key = text_of(d.key);
      tops_[dice(workers_)].count({(first_ + minute) * Top::period_us + 17}, hash_(1, key), nullptr,
                                  key, 7, d.denied);
      Exact& exact = exact_[key];
      ++(d.denied ? exact.denied : exact.allowed);
      denied_ += d.denied;
    }
    decisions_ += decisions;
  }

  void check(const std::string& what) const {
    TopMerge merge;
    for (const Top& top : tops_)
      for (int64_t minute = 0; minute < static_cast<int64_t>(minutes_); ++minute)
        if (const TopSketch* sketch = top.at(first_ + minute)) merge.add(*sketch);
    const auto check = [&](const std::vector<TopMerge::Item>& items, uint64_t total, bool denied) {
      std::map<std::string, bool> listed;
      uint64_t before = UINT64_MAX;
      for (const auto& item : items) {
        ASSERT_TRUE(listed.emplace(item.key, true).second) << what << ": twice " << item.key;
        const Exact& exact = exact_.at(item.key);
        const uint64_t is = denied ? exact.denied : exact.allowed + exact.denied;
        ASSERT_LE(is, item.count) << what << ": " << item.key;
        ASSERT_LE(item.count, is + item.error) << what << ": " << item.key;
        ASSERT_LE(item.seen_allowed, exact.allowed) << what << ": " << item.key;
        ASSERT_LE(item.seen_denied, exact.denied) << what << ": " << item.key;
        ASSERT_LE(item.count, before) << what << ": not in order";
        ASSERT_LE(item.error, total / TopSketch::tracked_max) << what << ": " << item.key;
        before = item.count;
      }
      for (const auto& [key, exact] : exact_) {
        const uint64_t is = denied ? exact.denied : exact.allowed + exact.denied;
        ASSERT_TRUE(is <= total / TopSketch::tracked_max || listed.contains(key))
            << what << ": " << key << " with " << is;
      }
    };
    check(merge.active(), decisions_, false);
    check(merge.denied(), denied_, true);
  }

 private:
  const size_t workers_, minutes_;
  const int64_t first_ = 28'333'333;
  const base::Hash hash_{1};
  std::vector<Top> tops_;
  std::map<std::string, Exact> exact_;
  uint64_t decisions_ = 0, denied_ = 0;
};

// Keys by rank: the n-th is 1/n^s times as frequent as the first.
Stream zipf(Dice& dice, size_t keys, double s, size_t denied_of_100) {
  std::vector<double> sums;
  double sum = 0;
  for (size_t i = 1; i <= keys; ++i) sums.push_back(sum += 1 / std::pow(static_cast<double>(i), s));
  return [&dice, sums, denied_of_100](size_t) {
    const double at = static_cast<double>(dice(uint64_t{1} << 53)) /
                      static_cast<double>(uint64_t{1} << 53) * sums.back();
    const auto key =
        static_cast<uint64_t>(std::lower_bound(sums.begin(), sums.end(), at) - sums.begin());
    return Decision{key, dice(size_t{100}) < denied_of_100};
  };
}

TEST(Top, ZipfStreamsKeepTheirBounds) {
  for (uint32_t seed = 1; seed <= 24; ++seed) {
    Dice dice(seed);
    const size_t workers = 1 + dice(size_t{4}), minutes = 1 + dice(size_t{6});
    const size_t keys = 10 + dice(size_t{20'000});
    const double s = static_cast<double>(dice(160)) / 100;
    const size_t denied = dice(3) == 0 ? 100 : dice(size_t{100});
    World world(workers, minutes);
    world.run(zipf(dice, keys, s, denied), 60'000, dice);
    world.check("seed " + std::to_string(seed));
  }
}

// Streams that are hard for such a sketch and this table: keys that return just after they were
// dropped, counts that all differ, and keys whose orders by all and by denied requests are
// opposite.
TEST(Top, AdversarialStreamsKeepTheirBounds) {
  constexpr size_t size = TopSketch::tracked_max, decisions = 40'000;
  const std::map<std::string, Stream> streams{
      {"every key once",
       [](size_t i) {
         return Decision{i, true};
       }},
      {"one key too many, in turn",
       [](size_t i) {
         return Decision{i % (size + 1), i % 3 == 0};
       }},
      {"as many keys as fit",
       [](size_t i) {
         return Decision{i % size, i % 2 == 0};
       }},
      {"a heavy key between new ones",
       [](size_t i) {
         return i % 200 == 0 ? Decision{1, false} : Decision{1000 + i, true};
       }},
      {"heavy first, then all new",
       [](size_t i) {
         return i < 4000 ? Decision{i % 7, true} : Decision{1000 + i, i % 2 == 0};
       }},
      {"all new, then heavy",
       [](size_t i) {
         return i < 36'000 ? Decision{1000 + i, true} : Decision{i % 7, true};
       }},
      {"counts that all differ",
       [](size_t i) {
         const auto row = static_cast<uint64_t>(std::sqrt(2.0 * static_cast<double>(i)));
         return Decision{i - row * row / 2, i % 5 == 0};
       }},
      {"allowed ones of one kind, denied ones of another",
       [](size_t i) {
         return i % 2 == 0 ? Decision{i % (3 * size), false} : Decision{100'000 + i % size, true};
       }},
      {"one that is denied, then never again",
       [](size_t i) {
         return i < size ? Decision{i, true} : Decision{i % 9000, false};
       }},
  };
  for (const auto& [name, stream] : streams) {
    for (const size_t workers : {size_t{1}, size_t{3}}) {
      Dice dice(1);
      World world(workers, workers == 1 ? 1 : 4);
      world.run(stream, decisions, dice);
      world.check(name);
    }
  }
}

// Few enough keys that all counts must be exact.
TEST(Top, CountsExactlyWhileAllKeysFit) {
  Top top;
  const base::Hash hash(1);
  const base::Time now{Top::period_us * 10};
  TopMerge merge;
  for (uint64_t key = 0; key < TopSketch::tracked_max; ++key) {
    const std::string text = text_of(key);
    for (uint64_t i = 0; i <= key; ++i) top.count(now, hash(3, text), &merge, text, 9, i % 4 == 0);
  }
  merge.add(*top.at(10));
  const auto items = merge.active();
  ASSERT_EQ(items.size(), TopSketch::tracked_max);
  EXPECT_EQ(items[0].key, text_of(511));
  EXPECT_EQ(items[0].count, 512u);
  EXPECT_EQ(items[0].error, 0u);
  EXPECT_EQ(items[0].seen_denied, 128u);
  EXPECT_EQ(items[0].seen_allowed, 384u);
  EXPECT_EQ(items[0].family, &merge);
  EXPECT_EQ(items[0].name, 9u);
  EXPECT_FALSE(items[0].cut);
  EXPECT_EQ(merge.denied()[0].count, 128u);
}

TEST(Top, ShortensLongKeysAndDistinguishesThem) {
  Top top;
  const base::Hash hash(1);
  const std::string most(TopSketch::key_bytes_max, 'x');
  for (const std::string& key : {most, most + "a", most + "a", most + "b"})
    top.count({0}, hash(1, key), nullptr, key, 0, false);
  TopMerge merge;
  merge.add(*top.at(0));
  const auto items = merge.active();
  ASSERT_EQ(items.size(), 3u);
  for (const auto& item : items) EXPECT_EQ(item.key, most);
  EXPECT_EQ(items[0].count, 2u);
  EXPECT_TRUE(items[0].cut);
  EXPECT_EQ(items[1].cut + items[2].cut, 1);
}

// Two keys with the same hash, at different workers.
TEST(Top, KeysOfOneHashStayApart) {
  const int families[2] = {};
  const auto sketch = [](const void* family, std::string_view key, int count, bool denied) {
    const std::unique_ptr<TopSketch> one(new TopSketch);
    one->clear();
    for (int i = 0; i < count; ++i) one->count(42, family, key, 7, denied);
    auto copy = std::unique_ptr<TopSketch>(new TopSketch);
    one->copy_to(*copy);
    return copy;
  };
  TopMerge merge;
  merge.add(*sketch(&families[0], "a", 3, false));
  merge.add(*sketch(&families[0], "b", 2, true));
  merge.add(*sketch(&families[1], "a", 1, false));
  merge.add(*sketch(&families[0], "a", 4, true));
  const auto active = merge.active(), denied = merge.denied();
  ASSERT_EQ(active.size(), 3u);
  EXPECT_EQ(active[0].key, "a");
  EXPECT_EQ(active[0].family, &families[0]);
  EXPECT_EQ(active[0].count, 7u);
  EXPECT_EQ(active[1].key, "b");
  EXPECT_EQ(active[1].count, 2u);
  EXPECT_EQ(active[2].key, "a");
  EXPECT_EQ(active[2].family, &families[1]);
  EXPECT_EQ(active[2].count, 1u);
  ASSERT_EQ(denied.size(), 2u);
  EXPECT_EQ(denied[0].count, 4u);
  EXPECT_EQ(denied[0].seen_allowed, 3u);
  EXPECT_EQ(denied[1].key, "b");
}

TEST(Top, MinutesSlide) {
  Top top;
  const base::Hash hash(1);
  const auto count = [&](int64_t minute, const std::string& key) {
    top.count({minute * Top::period_us}, hash(1, key), nullptr, key, 0, false);
  };
  EXPECT_EQ(top.at(0), nullptr);
  for (int64_t minute = 100; minute < 120; ++minute) {
    if (minute == 110) continue;  // a minute without requests
    count(minute, "at " + std::to_string(minute));
    for (int64_t before = 0; before <= Top::periods_before + 1; ++before) {
      const TopSketch* const sketch = top.at(minute - before);
      if (minute - before < 100 || minute - before == 110) {
        EXPECT_EQ(sketch, nullptr) << minute << " " << before;
        continue;
      }
      ASSERT_NE(sketch, nullptr) << minute << " " << before;
      const auto tracked = sketch->tracked();
      ASSERT_EQ(tracked.size(), 1u);
      EXPECT_EQ(tracked[0].key, "at " + std::to_string(minute - before));
    }
    EXPECT_EQ(top.at(minute - Top::periods_before - 2), nullptr);
  }
}

// What is counted while the clock is ahead belongs to that minute. After the step back the earlier
// minutes are there again, except one whose place was used, and the minute that had begun goes on.
TEST(Top, MinutesWhereTheClockGoesBack) {
  const base::Hash hash(1);
  const std::string key = "k";
  for (const int64_t ahead : {1, 2, 6, 7, 8, 14, 60, 1'440, 1'441, 1'442, 1'443, 1'444, 1'446}) {
    Top top;
    const auto count = [&](int64_t minute, int times) {
      for (int i = 0; i < times; ++i)
        top.count({minute * Top::period_us + 17}, hash(1, key), nullptr, key, 0, false);
    };
    const auto counted = [&](int64_t minute) -> uint64_t {
      const TopSketch* const sketch = top.at(minute);
      return sketch == nullptr ? 0 : sketch->tracked().at(0).active.count;
    };
    const bool in_its_place = ahead % (Top::periods_before + 2) == 0;
    for (int64_t minute = 95; minute <= 100; ++minute) count(minute, 3);
    count(100 + ahead, 5);
    EXPECT_EQ(counted(100 + ahead), 5u) << ahead;
    EXPECT_EQ(counted(100), in_its_place ? 0 : 3) << ahead;
    for (int round = 0; round < 2; ++round) {
      count(100, 2);
      EXPECT_EQ(counted(100), (in_its_place ? 2u : 5u) + 2u * static_cast<unsigned>(round))
          << ahead;
    }
    count(101, 1);
    EXPECT_EQ(counted(101), ahead == 1 ? 6u : 1u) << ahead;
  }
}

TEST(Top, ACopyEqualsTheSketch) {
  Dice dice(5);
  const base::Hash hash(1);
  const auto sketch = std::make_unique<TopSketch>(), copy = std::make_unique<TopSketch>();
  const auto text = [](const TopSketch& of) {
    std::string all;
    for (const Tracked& t : of.tracked())
      all += t.key + " " + std::to_string(t.active.count) + " " + std::to_string(t.denied.count) +
             " " + std::to_string(t.seen_allowed) + " " + std::to_string(t.seen_denied) + "\n";
    return all + std::to_string(of.active_untracked_max()) + " " +
           std::to_string(of.denied_untracked_max());
  };
  sketch->clear();
  const Stream stream = zipf(dice, 3000, 0.8, 40);
  for (int round = 0; round < 20; ++round) {
    const auto count = [&](TopSketch& into, size_t i) {
      const Decision d = stream(i);
      const std::string key = text_of(d.key);
      into.count(hash(1, key), nullptr, key, 0, d.denied);
    };
    for (size_t i = 0; i < 500; ++i) count(*sketch, i);
    sketch->copy_to(*copy);
    const std::string before = text(*sketch);
    ASSERT_EQ(text(*copy), before);
    for (size_t i = 0; i < 100; ++i) count(*copy, i);  // the original must not change
    ASSERT_EQ(text(*sketch), before);
  }
}

}  // namespace
}  // namespace sluice::metrics
