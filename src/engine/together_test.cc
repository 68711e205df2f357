// Requests that settle together, all or nothing, against a map of what is left.
#include <gtest/gtest.h>
#include <spdlog/sinks/null_sink.h>

#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/hash.h"
#include "engine/engine.h"
#include "policy/read/native.h"
#include "request/space.h"
#include "store/embedded_store.h"

namespace sluice::engine::together_test {
namespace {

constexpr int64_t now_us = 1'800'000'000'000'000;

// What the session receives for each request, in order.
struct Told {
  bool allowed = false, matched = false;
  int64_t remaining = -1;
  std::string error;
  std::set<std::string> counters{};  // charged by its enforced rules
};

struct Ear final : request::Session {
  request::Received receive(std::string_view, bool, request::Requests&, base::Buffer&) override {
    return {};
  }
  bool reply(const request::Request&, const request::Verdict& verdict, base::Time,
             base::Buffer&) override {
    told.push_back({verdict.allowed, verdict.matched,
                    verdict.tightest != nullptr ? verdict.tightest->remaining : -1,
                    std::string(verdict.error)});
    bool has_tightest = verdict.tightest == nullptr;
    for (const request::Charge& charge : verdict.charges) {
      told.back().counters.insert(charge.space->prefix + std::string(charge.key));
      const limit::Decision* const first = verdict.decisions + charge.decision_first;
      has_tightest |= verdict.tightest >= first && verdict.tightest < first + charge.limits.size();
    }
    EXPECT_TRUE(has_tightest || verdict.charges.empty());
    return true;
  }
  request::Fault fault() const override { return {}; }
  void end(request::Ending, std::string_view, base::Buffer&) override {}

  std::vector<Told> told;
};

// One request: an entry `key` with that value.
struct Wish {
  std::string key, value;
  int64_t cost = 1;
  int64_t quota = 0;  // a limit per second that the request brings; 0: none
};

struct World {
  World() {
    auto rules = std::make_shared<policy::RuleSet>();
    base::Diagnostics diagnostics;
    policy::read_native(
        "rules:\n"
        "- { name: user, match: { user: '*' }, actor: user, limit: { quota: 7, window: 1h, "
        "algorithm: fixed_window } }\n"
        "- { name: seen, match: { path: '*' }, actor: path, mode: shadow, limit: { quota: 2, "
        "window: 1h, algorithm: fixed_window } }\n"
        "- { name: shared, match: { more: '*' }, then: continue, limit: { quota: 1000, window: 1h, "
        "algorithm: fixed_window } }\n"
        "- { name: more, match: { more: '*' }, actor: more, limit: { quota: 7, window: 1h, "
        "algorithm: fixed_window } }\n"
        "- { name: path, match: { path: '*' }, actor: path, limit: { quota: 11, window: 1h, "
        "algorithm: fixed_window } }\n",
        "test.yaml", spaces, *rules, diagnostics);
    EXPECT_FALSE(base::has_errors(diagnostics));
    request::Space like;
    like.windows = {base::seconds(1)};
    policy::Rule kept;
    kept.name = "kept";
    kept.conditions = {{"kept", policy::Pattern::wildcard("*")}};
    kept.actor = {"kept"};
    kept.intern(spaces, spaces.hold("kept:", "", like));
    rules->add(policy::native_dialect, std::move(kept));
    live = std::make_unique<live::Live>(live::LivePolicy{std::move(rules)});
    engine = std::make_unique<Engine>(
        Engine::Deps{.store = store, .clock = clock, .live = *live},
        std::make_shared<spdlog::logger>("test", std::make_shared<spdlog::sinks::null_sink_mt>()));
  }

  // Adds requests that settle together; a batch may have several such groups.
  void add(request::Requests& requests, const std::vector<Wish>& wishes) const {
    const request::Message* const message =
        requests.hold(request::Message{.together = true, .needs_rule = need_rules});
    for (size_t i = 0; i < wishes.size(); ++i) {
      requests.open();
      requests.add(request::Entry{wishes[i].key, wishes[i].value});
      if (const int64_t quota = wishes[i].quota; quota > 0)
        requests.add(limit::Limit{limit::Algorithm::token_bucket, quota, base::seconds(1), quota});
      requests.commit({.message = message, .cost = wishes[i].cost, .tag = {}});
    }
  }
  std::vector<Told> take(const std::vector<std::vector<Wish>>& all) {
    Batch& batch = engine->next_batch();
    for (const auto& wishes : all) add(batch.requests, wishes);
    Ear ear;
    base::Buffer out;
    EXPECT_EQ(engine->serve(batch, protocol::Protocol{}, ear, out), Served::all);
    return ear.told;
  }

  bool need_rules = false;  // request::Message::needs_rule
  request::Spaces spaces;
  base::Clock clock{{[] { return now_us; }, [] { return now_us; }}};
  store::EmbeddedStore store{0, base::Hash(1), spaces};
  std::unique_ptr<live::Live> live;
  std::unique_ptr<Engine> engine;
};

TEST(Together, AllOrNothingIsTaken) {
  World world;
  EXPECT_TRUE(world.take({{{"user", "a", 6}}})[0].matched);
  // The second would fit alone; the first does not fit.
  const auto refused = world.take({{{"user", "a", 2}, {"path", "/x", 1}}});
  ASSERT_EQ(refused.size(), 2u);
  EXPECT_FALSE(refused[0].allowed || refused[1].allowed);
  const auto taken = world.take({{{"user", "a", 1}, {"path", "/x", 11}}});
  EXPECT_TRUE(taken[0].allowed && taken[1].allowed) << "nothing was taken before";
  EXPECT_EQ(taken[0].remaining, 0);
  EXPECT_EQ(taken[1].remaining, 0);
}

TEST(Together, ARequestWithoutARuleDoesNotAffectOthers) {
  World world;
  const auto told = world.take({{{"none", "a"}, {"user", "a"}, {"none", "b"}}});
  ASSERT_EQ(told.size(), 3u);
  EXPECT_FALSE(told[0].matched || told[2].matched);
  EXPECT_TRUE(told[1].matched && told[1].allowed);
}

TEST(Together, ARequiredRuleThatIsMissingFailsAllAndTakesNothing) {
  World world;
  world.need_rules = true;
  for (const auto& wishes : {std::vector<Wish>{{"none", "a"}, {"user", "a", 2}},
                             std::vector<Wish>{{"user", "a", 2}, {"none", "a"}}})
    for (const Told& told : world.take({wishes})) {
      EXPECT_EQ(told.error, request::no_rule_applies);
      EXPECT_FALSE(told.allowed);
    }
  const auto told = world.take({{{"user", "a"}, {"path", "/x"}}});
  EXPECT_TRUE(told[0].allowed && told[1].allowed) << told[0].error;
  EXPECT_EQ(told[0].remaining, 6) << "the ones before took nothing";
}

TEST(Together, TakesTheSumFromASharedCounter) {
  World world;
  const auto told = world.take({{{"user", "a", 3}, {"user", "a", 3}}});
  EXPECT_TRUE(told[0].allowed && told[1].allowed);
  EXPECT_EQ(told[0].remaining, 1);
  EXPECT_EQ(told[1].remaining, 1);
  EXPECT_FALSE(world.take({{{"user", "a", 1}, {"user", "a", 1}}})[0].allowed);
  EXPECT_TRUE(world.take({{{"user", "a", 1}}})[0].allowed);
  EXPECT_FALSE(world.take({{{"user", "b", INT64_MAX}, {"user", "b", INT64_MAX}}})[0].allowed);
}

TEST(Together, AllowsTheMostRequestsThatMaySettleTogether) {
  World world;
  std::vector<Wish> wishes;
  for (size_t i = 0; i < base::bounds::together_max; ++i)
    wishes.push_back({"user", std::to_string(i)});
  for (const Told& told : world.take({wishes})) EXPECT_TRUE(told.error.empty() && told.allowed);
  EXPECT_EQ(world.take({{{"user", "0", 0}}})[0].remaining, 6);
}

// A counter that several requests of a group charge counts as one charge.
TEST(Together, CountsChargesNotMatchesAgainstTheBound) {
  World world;
  std::vector<Wish> wishes;
  for (size_t i = 0; i + 1 < base::bounds::group_charges_max; ++i)
    wishes.push_back({"more", std::to_string(i)});
  for (const Told& told : world.take({wishes})) EXPECT_TRUE(told.error.empty() && told.allowed);
}

TEST(Together, TooManyChargesFailAllAndTakeNothing) {
  World world;
  std::vector<Wish> wishes;
  for (size_t i = 0; i < base::bounds::group_charges_max; ++i)
    wishes.push_back({"more", std::to_string(i)});
  ASSERT_LE(wishes.size(), base::bounds::together_max);
  const auto all = world.take({wishes});
  ASSERT_EQ(all.size(), wishes.size());
  for (const Told& told : all) {
    EXPECT_NE(told.error.find("more rules apply to this request"), std::string::npos);
    EXPECT_FALSE(told.allowed);
  }
  EXPECT_EQ(world.take({{{"more", "0", 0}}})[0].remaining, 7);
}

// Each request gets its own counters, also one that another request of the group charges, too.
TEST(Together, EachVerdictNamesItsOwnCounters) {
  World world;
  using Counters = std::set<std::string>;
  const auto told = world.take({{{"more", "a"}, {"user", "u"}, {"more", "b"}, {"path", "/x"}},
                                {{"user", "u"}, {"user", "u"}}});
  ASSERT_EQ(told.size(), 6u);
  EXPECT_EQ(told[0].counters, (Counters{"native:shared:", "native:more:a"}));
  EXPECT_EQ(told[1].counters, Counters{"native:user:u"});
  EXPECT_EQ(told[2].counters, (Counters{"native:shared:", "native:more:b"}));
  EXPECT_EQ(told[3].counters, Counters{"native:path:/x"}) << "a shadow rule's is not among them";
  EXPECT_EQ(told[4].counters, Counters{"native:user:u"});
  EXPECT_EQ(told[5].counters, told[4].counters);
}

// Two requests bring different limits for the same counter: neither would be right.
TEST(Together, DifferentInlineLimitsOfOneCounterFailAllAndTakeNothing) {
  World world;
  const auto apart = world.take({{{"kept", "a", 1, 5}, {"kept", "b", 1, 9}, {"user", "a", 1}}});
  for (const Told& told : apart) EXPECT_TRUE(told.error.empty() && told.allowed) << told.error;
  const auto twice = world.take({{{"user", "a", 2}, {"kept", "a", 1, 5}, {"kept", "a", 1, 5}}});
  ASSERT_EQ(twice.size(), 3u);
  for (const Told& told : twice) {
    EXPECT_NE(told.error.find("limits along for the same counter"), std::string::npos);
    EXPECT_FALSE(told.allowed);
  }
  EXPECT_EQ(world.take({{{"user", "a", 0}}})[0].remaining, 6);
  EXPECT_EQ(world.take({{{"kept", "a", 0, 5}}})[0].remaining, 4);
}

// Batches of several groups, against a map of what is left.
TEST(Together, MatchesTheNaiveModel) {
  std::mt19937 random(7);
  const auto dice = [&](size_t n) {
    return std::uniform_int_distribution<size_t>(0, n - 1)(random);
  };
  for (int round = 0; round < 300; ++round) {
    World world;
    std::map<std::string, int64_t> used;
    for (int step = 0; step < 12; ++step) {
      std::vector<std::vector<Wish>> all(1 + dice(3));
      for (auto& wishes : all) {
        wishes.resize(1 + dice(4));
        for (Wish& wish : wishes) {
          static constexpr const char* keys[] = {"user", "path", "none"};
          wish = {keys[dice(3)], std::string(1, static_cast<char>('a' + dice(2))),
                  static_cast<int64_t>(dice(4))};
        }
      }
      const std::vector<Told> told = world.take(all);
      size_t at = 0;
      for (const auto& wishes : all) {
        std::map<std::string, int64_t> sums;
        for (const Wish& wish : wishes)
          if (wish.key != "none") sums[wish.key + wish.value] += wish.cost;
        bool fits = true;
        for (const auto& [counter, sum] : sums)
          fits &= used[counter] + sum <= (counter.starts_with("user") ? 7 : 11);
        for (const auto& [counter, sum] : sums) used[counter] += fits ? sum : 0;
        for (const Wish& wish : wishes) {
          const Told& its = told.at(at++);
          ASSERT_EQ(its.error, "");
          ASSERT_EQ(its.matched, wish.key != "none");
          ASSERT_EQ(its.counters,
                    its.matched ? std::set<std::string>{"native:" + wish.key + ":" + wish.value}
                                : std::set<std::string>());
          if (!its.matched) continue;
          ASSERT_EQ(its.allowed, fits) << "round " << round << " step " << step;
          if (fits) {
            ASSERT_EQ(its.remaining, (wish.key == "user" ? 7 : 11) - used[wish.key + wish.value]);
          }
        }
      }
      ASSERT_EQ(at, told.size());
    }
  }
}

}  // namespace
}  // namespace sluice::engine::together_test
