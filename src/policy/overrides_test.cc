// Overrides (policy/overrides.h) against a scan of all of them, which states the rules of
// precedence.
#include "policy/overrides.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <map>
#include <memory>
#include <set>
#include <thread>
#include <tuple>

#include "base/bounds.h"
#include "policy/rule_set.h"
#include "request/space.h"
#include "testing/dialects.h"
#include "tests/support/dice.h"

namespace sluice::policy::overrides_test {
namespace {

using limit::Time;
using tests::Dice;
using Values = std::vector<std::string>;

// Does `pattern` match, with `*` as any run of characters? By trying everything.
bool fits(std::string_view pattern, std::string_view text) {
  if (pattern.empty()) return text.empty();
  if (pattern.front() == '*')
    return fits(pattern.substr(1), text) || (!text.empty() && fits(pattern, text.substr(1)));
  return !text.empty() && text.front() == pattern.front() &&
         fits(pattern.substr(1), text.substr(1));
}

class Naive {
 public:
  void set(const Override& one) { all_[{one.rule, one.actor}] = one; }
  bool remove(uint64_t rule, const Values& actor) { return all_.erase({rule, actor}) > 0; }
  size_t size() const { return all_.size(); }

  // The id of the override that applies; 0: none does.
  uint64_t find(uint64_t rule, const Values& values, Time now) const {
    const Override* best = nullptr;
    for (const auto& [key, one] : all_) {
      if (one.rule != rule || now >= one.terms.until || one.actor.size() != values.size()) continue;
      bool all = true;
      for (size_t i = 0; i < values.size(); ++i) all &= fits(one.actor[i], values[i]);
      if (all && (best == nullptr || rank(one) > rank(*best))) best = &one;
    }
    return best == nullptr ? 0 : best->terms.id;
  }

  const std::map<std::pair<uint64_t, Values>, Override>& all() const { return all_; }

 private:
  static std::tuple<bool, size_t, Time, uint64_t> rank(const Override& one) {
    size_t stars = 0, bytes = 0;
    for (const std::string& value : one.actor) {
      bytes += value.size();
      stars += static_cast<size_t>(std::count(value.begin(), value.end(), '*'));
    }
    return {stars == 0, bytes - stars, one.set, one.terms.id};
  }

  std::map<std::pair<uint64_t, Values>, Override> all_;
};

uint64_t found(const Overrides& overrides, uint64_t rule, const Values& values, Time now) {
  Override::Terms terms;
  return overrides.find(rule, key_text(values), now, terms) ? terms.id : 0;
}

Override make(uint64_t rule, Values actor, uint64_t id, int64_t set_us = 0,
              int64_t until_us = INT64_MAX) {
  Override one;
  one.rule = rule;
  one.actor = std::move(actor);
  one.set = {set_us};
  one.terms.id = id;
  one.terms.until = {until_us};
  return one;
}

TEST(KeyText, JoinsAndSplits) {
  EXPECT_EQ(key_text(Values{}), "");
  EXPECT_EQ(key_text(Values{"a|b\\c"}), "a|b\\c");
  EXPECT_EQ(key_text(Values{"a|b", "c\\", ""}), "a\\|b|c\\\\|");
  EXPECT_EQ(key_values("a\\|b|c\\\\|", 3), (Values{"a|b", "c\\", ""}));
  EXPECT_EQ(key_values("a|b", 1), (Values{"a|b"}));
  EXPECT_EQ(key_values("", 0), Values{});
  for (const char* text : {"a", "a|b|c", "a|b\\", "a\\x|b"}) EXPECT_FALSE(key_values(text, 2));
  EXPECT_FALSE(key_values("a", 0));
  Dice dice(1);
  for (int i = 0; i < 20'000; ++i) {
    Values values(2 + dice(size_t{3}));
    for (std::string& value : values)
      for (size_t n = dice(size_t{4}); n > 0; --n) value += "|\\a*"[dice(4)];
    EXPECT_EQ(key_values(key_text(values), values.size()), values);
  }
}

TEST(Overrides, ExactOnesComeBeforePatternsAndMoreCharactersBeforeFewer) {
  Overrides o;
  const auto set = [&](const char* actor, uint64_t id, int64_t at) {
    EXPECT_TRUE(o.set(make(1, {actor}, id, at)));
  };
  set("*", 1, 9);
  set("10.*", 2, 1);
  set("*.7", 3, 2);
  set("*.*7", 4, 3);
  set("10.0.0.7", 5, 1);
  EXPECT_EQ(found(o, 1, {"10.0.0.7"}, {0}), 5u);
  EXPECT_EQ(found(o, 1, {"10.0.0.8"}, {0}), 2u);
  EXPECT_EQ(found(o, 1, {"11.0.0.7"}, {0}), 4u);  // as many characters as `*.7`, set later
  EXPECT_EQ(found(o, 1, {"x"}, {0}), 1u);
  EXPECT_EQ(found(o, 2, {"10.0.0.7"}, {0}), 0u);
  EXPECT_EQ(o.size(), 5u);
  EXPECT_TRUE(o.remove(1, Values{"*.*7"}));
  EXPECT_FALSE(o.remove(1, Values{"*.*7"}));
  EXPECT_EQ(found(o, 1, {"11.0.0.7"}, {0}), 3u);
}

TEST(Overrides, IgnoresAnExpiredOverride) {
  Overrides o;
  o.set(make(1, {"a"}, 1, 0, 100));
  o.set(make(1, {"a*"}, 2, 0, 200));
  o.set(make(1, {"*"}, 3));
  EXPECT_EQ(found(o, 1, {"a"}, {99}), 1u);
  EXPECT_EQ(found(o, 1, {"a"}, {100}), 2u);
  EXPECT_EQ(found(o, 1, {"a"}, {200}), 3u);
}

TEST(Overrides, BoundsPatternsWithTheSamePrefix) {
  Overrides o;
  constexpr size_t max = base::bounds::overrides_alike_max;
  const auto actor = [](size_t i) { return Values{"*" + std::to_string(i)}; };
  for (size_t i = 0; i < max; ++i) EXPECT_TRUE(o.set(make(1, actor(i), i + 1)));
  EXPECT_FALSE(o.set(make(1, actor(max), max + 1)));
  EXPECT_TRUE(o.set(make(1, actor(0), 99)));  // replaces an override, so it is allowed
  EXPECT_TRUE(o.set(make(1, {"x*"}, 1000)));
  EXPECT_TRUE(o.set(make(2, actor(0), 1)));
  EXPECT_EQ(o.alike(1, ""), max);
  EXPECT_TRUE(o.remove(1, actor(3)));
  EXPECT_TRUE(o.set(make(1, actor(max), max + 1)));
}

// Every set of three patterns of at most three letters and stars, on every key.
TEST(Overrides, FindsWhatAScanFindsExhaustively) {
  std::vector<std::string> texts = {""};
  for (size_t i = 0; texts[i].size() < 3; ++i)
    for (const char c : {'a', 'b', '*'}) texts.push_back(texts[i] + c);
  std::vector<std::string> keys;
  for (const std::string& text : texts)
    if (text.find('*') == text.npos) keys.push_back(text);
  size_t checks = 0;
  for (size_t i = 0; i < texts.size(); ++i) {
    for (size_t j = 0; j < texts.size(); ++j) {
      Overrides o;
      Naive naive;
      uint64_t id = 0;
      for (const std::string& text : {texts[i], texts[j], texts[(i * 7 + j * 3) % texts.size()]}) {
        ++id;
        const Override one = make(1, {text}, id, static_cast<int64_t>(j % 2 * id));
        ASSERT_TRUE(o.set(one));
        naive.set(one);
      }
      for (const std::string& key : keys) {
        ASSERT_EQ(found(o, 1, {key}, {0}), naive.find(1, {key}, {0}))
            << texts[i] << ' ' << texts[j];
        ++checks;
      }
    }
  }
  EXPECT_GT(checks, 20'000u);
}

TEST(Overrides, FindsWhatAScanFindsHoweverTheyChange) {
  for (uint32_t seed = 1; seed <= 30; ++seed) {
    Dice dice(seed);
    Overrides o;
    Naive naive;
    const size_t entries = dice(size_t{4});  // how many values each actor has
    const auto value = [&](bool pattern) {
      std::string text;
      // Long common beginnings too: patterns are filed by a bounded part of theirs.
      if (dice(4) == 0) text.assign(dice(size_t{70}), 'p');
      for (size_t n = dice(size_t{4}); n > 0; --n)
        text += (pattern ? "ab|\\**" : "ab|\\ab")[dice(6)];
      return text;
    };
    const auto values = [&](bool pattern) {
      Values all(entries);
      for (std::string& one : all) one = value(pattern);
      return all;
    };
    uint64_t id = 0;
    int64_t now_us = 0;
    for (int step = 0; step < 400; ++step) {
      now_us += dice(int64_t{3});
      const uint64_t rule = 1 + 4096 * dice(uint64_t{2}) + dice(uint64_t{2});  // some share a flag
      if (dice(3) > 0) {
        Override one = make(rule, values(dice(2) == 0), ++id, dice(int64_t{5}),
                            dice(3) == 0 ? now_us + dice(int64_t{50}) : INT64_MAX);
        if (o.set(one)) {
          naive.set(one);
        } else {
          const auto filed = Overrides::filed_under(one.actor);
          ASSERT_TRUE(filed);
          ASSERT_EQ(o.alike(rule, *filed), base::bounds::overrides_alike_max);
        }
      } else if (dice(2) == 0 && naive.size() > 0) {
        auto at = naive.all().begin();
        std::advance(at, static_cast<std::ptrdiff_t>(dice(naive.size())));
        const auto [its_rule, actor] = at->first;
        ASSERT_TRUE(o.remove(its_rule, actor));
        ASSERT_TRUE(naive.remove(its_rule, actor));
      } else {
        const Values actor = values(true);
        ASSERT_EQ(o.remove(rule, actor), naive.remove(rule, actor));
      }
      ASSERT_EQ(o.size(), naive.size());
      for (int i = 0; i < 20; ++i) {
        const Values key = values(false);
        ASSERT_EQ(found(o, rule, key, {now_us}), naive.find(rule, key, {now_us}))
            << "seed " << seed << " step " << step << " key " << key_text(key);
      }
    }
    while (naive.size() > 0) {
      const auto [rule, actor] = naive.all().begin()->first;
      ASSERT_TRUE(o.remove(rule, actor));
      naive.remove(rule, actor);
    }
    EXPECT_EQ(o.size(), 0u);
    EXPECT_EQ(found(o, 1, values(false), {0}), 0u);
  }
}

// Removed overrides are freed without a further change.
TEST(Overrides, FreesRemovedOverridesWithoutAFurtherChange) {
  Overrides o;
  Overrides::Reader reader(o);
  EXPECT_TRUE(o.set(make(1, {"a"}, 1)));
  EXPECT_TRUE(o.remove(1, Values{"a"}));
  o.reclaim();
  EXPECT_GT(o.retired(), 0u);  // the reader may still use it
  reader.quiesce();
  o.reclaim();
  EXPECT_EQ(o.retired(), 0u);
}

TEST(Overrides, FreesReplacedOverridesAtOnceWithoutReaders) {
  Overrides o;
  for (uint64_t id = 1; id <= 2000; ++id) {
    EXPECT_TRUE(o.set(make(1, {"a" + std::to_string(id % 1000)}, id)));
    EXPECT_EQ(o.retired(), 0u);
  }
}

TEST(Overrides, FreesWhatIsReplacedWhenEveryReaderWasQuiescent) {
  Overrides o;
  const auto replace = [&](uint64_t id) { EXPECT_TRUE(o.set(make(1, {"a"}, id))); };
  const auto retired = [&] {
    o.reclaim();
    return o.retired();
  };
  replace(1);
  auto a = std::make_unique<Overrides::Reader>(o);
  replace(2);
  auto b = std::make_unique<Overrides::Reader>(o);
  EXPECT_EQ(retired(), 1u);
  a->quiesce();
  EXPECT_EQ(retired(), 0u);  // the later reader cannot hold it
  replace(3);
  EXPECT_EQ(retired(), 1u);
  a->quiesce();
  EXPECT_EQ(retired(), 1u);
  b->quiesce();
  replace(4);
  EXPECT_EQ(retired(), 1u);  // that of the change before is freed
  a->quiesce();
  b.reset();  // a reader that has left delays nothing
  EXPECT_EQ(retired(), 0u);
}

// The steps of a lookup are bounded; a key that needs more is denied, so that it cannot evade an
// override.
TEST(Overrides, AKeyThatTakesTooManyStepsIsDenied) {
  Overrides o;
  for (uint64_t i = 0; i < 60; ++i) o.set(make(7, {"*x" + std::to_string(i)}, i + 1, 0, INT64_MAX));
  Override::Terms terms;
  EXPECT_FALSE(o.find(7, std::string(1000, 'a'), {0}, terms));
  EXPECT_FALSE(o.find(7, std::string(60'000, 'a'), {0}, terms));
  EXPECT_EQ(o.too_costly(), 0u);
  ASSERT_TRUE(o.find(7, std::string(1'000'000, 'a'), {0}, terms));
  EXPECT_EQ(terms.id, 0u);
  ASSERT_EQ(terms.limits.size(), 1u);
  EXPECT_EQ(terms.limits[0].algorithm, limit::Algorithm::deny);
  EXPECT_EQ(o.too_costly(), 1u);
  // An override of exactly this actor applies before all patterns, for a key of any length.
  o.set(make(7, {std::string(1'000'000, 'a')}, 99, 0, INT64_MAX));
  ASSERT_TRUE(o.find(7, std::string(1'000'000, 'a'), {0}, terms));
  EXPECT_EQ(terms.id, 99u);
}

// As in a plan: each request of a batch has steps of its own.
TEST(Overrides, EachRequestOfABatchHasItsOwnSteps) {
  request::Spaces spaces;
  RuleSet rules;
  Rule rule;
  rule.name = "r";
  rule.actor = {"k"};
  rule.conditions.push_back({"k", Pattern::wildcard("*")});
  rule.limits = {{limit::Algorithm::unlimited, base::bounds::quota_max, {}, 0}};
  rule.limits_id = spaces.intern_limits(rule.limits);
  rule.space = spaces.intern("a", "b");
  rules.add(native_dialect, std::move(rule));
  Overrides o;
  for (uint64_t i = 0; i < 60; ++i)
    o.set(make(rules.native_rules()[0].id, {"*x" + std::to_string(i)}, i + 1, 0, INT64_MAX));
  Plan plan;
  const std::string ordinary(50'000, 'a'), hostile(1'000'000, 'a');
  for (const std::string* key : {&ordinary, &ordinary, &hostile, &ordinary}) {
    const request::Entry entry{"k", *key};
    rules.match(&first_dialect, {.descriptor = {&entry, 1}}, plan);
    plan.skip();
  }
  plan.override_all(o, {0});
  std::string algorithms;
  for (const auto& part : plan.parts())
    for (const auto& step : plan.steps(part))
      algorithms += limit::name_of(plan.charge(step).limits[0].algorithm)[0];
  EXPECT_EQ(algorithms, "uudu");
}

// One thread changes overrides while others read. A reader finds an override as it was or as it
// becomes: overrides that do not change are always found, and terms are never mixed.
TEST(Overrides, AreReadWhileTheyChange) {
  Overrides o;
  constexpr uint64_t rule = 7, kept = 1000;
  for (uint64_t i = 0; i < kept; ++i) {
    o.set(make(rule, {"kept" + std::to_string(i)}, i + 1, 0, static_cast<int64_t>(i + 1) * 1000));
    if (i < 50) o.set(make(rule, {"p" + std::to_string(i) + "*"}, i + 1, 0, INT64_MAX));
  }
  std::atomic<bool> stop{false};
  std::atomic<uint64_t> looks{0};
  std::vector<std::thread> readers;
  for (uint32_t r = 0; r < 3; ++r) {
    readers.emplace_back([&, r] {
      Overrides::Reader reader(o);
      Dice dice(r);
      while (!stop) {
        reader.quiesce();
        for (int i = 0; i < 50; ++i) {
          Override::Terms terms;
          const uint64_t n = dice(kept);
          const std::string key = "kept" + std::to_string(n);
          ASSERT_TRUE(o.find(rule, key, {0}, terms));
          ASSERT_EQ(terms.id, n + 1);
          ASSERT_EQ(terms.until.us, static_cast<int64_t>(n + 1) * 1000);
          ASSERT_TRUE(o.find(rule, "p" + std::to_string(n % 50) + "-x", {0}, terms));
          // An override that is added, removed and replaced all the time.
          if (o.find(rule, "goes" + std::to_string(dice(64)), {0}, terms)) {
            ASSERT_EQ(static_cast<int64_t>(terms.id), terms.until.us);
          }
          ++looks;
        }
      }
    });
  }
  Dice dice(9);
  const auto begin = std::chrono::steady_clock::now();
  const auto is_within = [&](std::chrono::milliseconds time) {
    return std::chrono::steady_clock::now() < begin + time;
  };
  uint64_t changes = 0;
  // A busy machine may not run the readers at first.
  while (is_within(std::chrono::milliseconds(700)) ||
         ((changes <= 100 || looks <= 1000) && is_within(std::chrono::seconds(60)))) {
    const std::string actor = "goes" + std::to_string(dice(64));
    const uint64_t n = 1 + dice(uint64_t{1'000'000});
    if (dice(3) == 0)
      o.remove(rule, Values{actor});
    else
      o.set(make(rule, {actor + (dice(4) == 0 ? "*" : "")}, n, 0, static_cast<int64_t>(n)));
    ++changes;
  }
  stop = true;
  for (auto& thread : readers) thread.join();
  EXPECT_GT(changes, 100u);
  EXPECT_GT(looks, 1000u);
}

}  // namespace
}  // namespace sluice::policy::overrides_test
