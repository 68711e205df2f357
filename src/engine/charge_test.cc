// Charges and limits that count, from the request to its verdict: native rules, shadow rules,
// overrides, and the warning of rules that forget what they refuse.
#include <gtest/gtest.h>
#include <spdlog/sinks/ostream_sink.h>

#include <sstream>
#include <string>
#include <vector>

#include "base/hash.h"
#include "engine/engine.h"
#include "policy/read/native.h"
#include "request/space.h"
#include "store/embedded_store.h"

namespace sluice::engine::charge_test {
namespace {

using request::Verb;

int64_t now_us = 1'800'000'000'000'000;

struct Client final : request::Session {
  request::Received receive(std::string_view, bool, request::Requests&, base::Buffer&) override {
    return {};
  }
  bool reply(const request::Request&, const request::Verdict& verdict, base::Time,
             base::Buffer&) override {
    verdicts.push_back(verdict);
    tightest.push_back(verdict.tightest != nullptr ? *verdict.tightest : limit::Decision{});
    rules.emplace_back(verdict.rule);
    return true;
  }
  request::Fault fault() const override { return {}; }
  void end(request::Ending, std::string_view, base::Buffer&) override {}

  std::vector<request::Verdict> verdicts;  // their views are void
  std::vector<limit::Decision> tightest;
  std::vector<std::string> rules;
};

struct Fixture {
  explicit Fixture(std::string_view rules) {
    auto set = std::make_shared<policy::RuleSet>();
    base::Diagnostics diagnostics;
    policy::read_native(rules, "f", spaces, *set, diagnostics);
    EXPECT_FALSE(base::has_errors(diagnostics));
    live = std::make_unique<live::Live>(live::LivePolicy{std::move(set)});
    engine =
        std::make_unique<Engine>(Engine::Deps{.store = store, .clock = clock, .live = *live}, log);
  }

  void ask(Verb verb, int64_t cost, std::string_view key = "k", bool joins = false) {
    Batch& batch = engine->next_batch();
    const request::Message* const message =
        batch.requests.hold(request::Message{.together = joins});
    for (int i = 0; i < (joins ? 2 : 1); ++i) {
      batch.requests.open();
      batch.requests.add(request::Entry{key, "1"});
      request::Request request;
      request.verb = verb;
      request.cost = cost + i;
      request.message = message;
      batch.requests.commit(request);
    }
    base::Buffer out;
    ASSERT_EQ(engine->serve(batch, protocol::find("http").value(), client, out), Served::all);
  }
  const request::Verdict& last() const { return client.verdicts.back(); }
  const limit::Decision& shown() const { return client.tightest.back(); }
  size_t warnings() const {
    size_t n = 0;
    const std::string text = told.str();
    for (size_t at = text.find("refuses reports"); at != text.npos;
         at = text.find("refuses reports", at + 1))
      ++n;
    return n;
  }

  std::ostringstream told;
  std::shared_ptr<spdlog::logger> log = std::make_shared<spdlog::logger>(
      "test", std::make_shared<spdlog::sinks::ostream_sink_mt>(told));
  request::Spaces spaces;
  base::Clock clock{{[] { return now_us; }, [] { return now_us; }}};
  store::EmbeddedStore store{0, base::Hash(1), spaces};
  Client client;
  std::unique_ptr<live::Live> live;
  std::unique_ptr<Engine> engine;
};

constexpr const char* rules =
    "rules:\n"
    "- { name: shadow, mode: shadow, match: { k: '*' }, limit: { quota: 5, window: 1h } }\n"
    "- { name: all_free, match: { k: '*' }, unlimited: true, then: continue }\n"
    "- name: tokens\n"
    "  match: { k: '*' }\n"
    "  limits:\n"
    "  - { quota: 100, window: 1h, algorithm: fixed_window, over: count }\n"
    "  - { quota: 50, window: 1m, algorithm: fixed_window }\n"
    "- { name: free, match: { u: '*' }, unlimited: true }\n"
    "- { name: never, match: { d: '*' }, deny: true }\n"
    "- { name: forgets, match: { f: '*' }, limit: { quota: 10, window: 1h } }\n";

TEST(ChargeRequests, AreChargedPastTheLimitAndNeverRefused) {
  Fixture f(rules);
  f.ask(Verb::charge, 40);
  EXPECT_TRUE(f.last().allowed && f.last().matched);
  EXPECT_FALSE(f.last().charged.over);
  EXPECT_EQ(f.last().charged.units, 40);
  EXPECT_EQ(f.client.rules.back(), "tokens");
  EXPECT_EQ(f.shown().remaining, 10);
  EXPECT_EQ(f.shown().retry_after, base::Duration{});
  f.ask(Verb::charge, 25);
  EXPECT_TRUE(f.last().allowed);
  EXPECT_TRUE(f.last().charged.over);
  EXPECT_EQ(f.last().charged.units, 25);
  EXPECT_EQ(f.shown().remaining, -15);
  EXPECT_EQ(f.shown().retry_after, base::seconds(60));
  EXPECT_EQ(f.last().limit->quota, 50);
  // The limit that takes longest until it grants one unit is shown.
  f.ask(Verb::charge, 50);
  EXPECT_EQ(f.last().limit->quota, 100);
  EXPECT_EQ(f.shown().remaining, -15);
  // A look before work is refused, a put pays the debt back.
  f.ask(Verb::take, 0);
  EXPECT_FALSE(f.last().allowed);
  f.ask(Verb::put, 100);
  f.ask(Verb::take, 0);
  EXPECT_TRUE(f.last().allowed);
}

constexpr const char* bounded =
    "rules:\n"
    "- name: bounded\n"
    "  match: { k: '*' }\n"
    "  limits:\n"
    "  - { quota: 100, window: 1h, algorithm: fixed_window, over: count, overdraft: 20 }\n"
    "  - { quota: 50, window: 1m, algorithm: fixed_window, overdraft: 0 }\n"
    "- { name: drains, match: { d: '*' }, limit: { quota: 10, window: 1h, over: count, overdraft: "
    "0, algorithm: fixed_window } }\n";

// Each limit drops by its own room, and what all of them took is told.
TEST(ChargeRequests, OweNoMoreThanTheOverdraft) {
  Fixture f(bounded);
  f.ask(Verb::charge, 130);
  EXPECT_EQ(f.last().charged.units, 50);
  EXPECT_TRUE(f.last().charged.over);
  EXPECT_EQ(f.last().limit->quota, 100);
  EXPECT_EQ(f.shown().remaining, -20);
  f.ask(Verb::charge, 5);
  EXPECT_EQ(f.last().charged.units, 0);
  EXPECT_EQ(f.shown().remaining, -20);
  // Those that settle together have one charge, which drops once.
  Fixture joined(bounded);
  joined.ask(Verb::charge, 30, "k", true);
  EXPECT_EQ(joined.client.verdicts[0].charged.units, 19);
  EXPECT_EQ(joined.client.verdicts[1].charged.units, 20);
}

TEST(LimitsThatCount, TakeWhatIsLeftWithAnOverdraftOf0) {
  Fixture f(bounded);
  f.ask(Verb::take, 4, "d");
  f.ask(Verb::take, 25, "d");
  EXPECT_FALSE(f.last().allowed);
  EXPECT_EQ(f.shown().remaining, 0);
  f.ask(Verb::take, 0, "d");
  EXPECT_TRUE(f.last().allowed);
  f.ask(Verb::take, 1, "d");
  EXPECT_FALSE(f.last().allowed);
  f.ask(Verb::put, 3, "d");
  f.ask(Verb::take, 3, "d");
  EXPECT_TRUE(f.last().allowed);
}

TEST(ChargeRequests, UnderRulesWithoutACounterChargeNothing) {
  Fixture f(rules);
  for (const char* key : {"u", "d"}) {
    f.ask(Verb::charge, 7, key);
    EXPECT_TRUE(f.last().allowed && f.last().matched) << key;
    EXPECT_FALSE(f.last().charged.over) << key;
    EXPECT_FALSE(f.last().charged.units.has_value()) << key;
    EXPECT_FALSE(f.last().is_counted()) << key;
  }
  EXPECT_EQ(f.shown().retry_after, base::never);  // deny
  f.ask(Verb::charge, 7, "none");
  EXPECT_FALSE(f.last().matched);
  EXPECT_EQ(f.store.stats().counters, 0u);
}

TEST(ChargeRequests, AreChargedTogetherIfTheyJoin) {
  Fixture f(rules);
  f.ask(Verb::charge, 30, "k", true);
  EXPECT_EQ(f.client.verdicts.size(), 2u);
  EXPECT_EQ(f.client.verdicts[0].charged.units, 30);
  EXPECT_EQ(f.client.verdicts[1].charged.units, 31);
  EXPECT_EQ(f.shown().remaining, -11);
  EXPECT_TRUE(f.last().charged.over);
}

// Of a rule's limits only those with `over: count` are charged by what they refuse.
TEST(LimitsThatCount, ChargeARefusedTakeAndTheOthersDoNot) {
  Fixture f(rules);
  f.ask(Verb::take, 60);
  EXPECT_FALSE(f.last().allowed);
  f.ask(Verb::take, 45);
  EXPECT_FALSE(f.last().allowed);  // 60 are counted by the hour, none by the minute
  EXPECT_EQ(f.last().limit->quota, 100);
  EXPECT_EQ(f.shown().remaining, -5);
  f.ask(Verb::take, 0);
  EXPECT_FALSE(f.last().allowed);
  f.ask(Verb::put, 5);
  f.ask(Verb::take, 0);
  EXPECT_TRUE(f.last().allowed);  // exactly none left is not debt
  EXPECT_EQ(f.shown().remaining, 0);
}

TEST(LimitsThatCount, AWaitIsNotChargedBeforeItIsGranted) {
  Fixture f(rules);
  f.ask(Verb::wait, 60);
  EXPECT_FALSE(f.last().allowed);
  f.ask(Verb::take, 50);
  EXPECT_TRUE(f.last().allowed);
  EXPECT_EQ(f.shown().remaining, 0);
}

TEST(LeakWarnings, SayOnceAMinuteThatRefusedReportsAreForgotten) {
  Fixture f(rules);
  const auto look_and_report = [&] {
    f.ask(Verb::take, 0, "f");
    f.ask(Verb::take, 25, "f");
    EXPECT_FALSE(f.last().allowed);
  };
  f.ask(Verb::take, 25, "f");  // no client has looked
  EXPECT_EQ(f.warnings(), 0u);
  look_and_report();
  EXPECT_EQ(f.warnings(), 1u) << f.told.str();
  EXPECT_NE(f.told.str().find("rule [forgets] is asked with 0 hits, and refuses reports: 25 units"),
            std::string::npos)
      << f.told.str();
  now_us += 59'999'999;
  look_and_report();
  EXPECT_EQ(f.warnings(), 1u);
  now_us += 1;
  look_and_report();
  EXPECT_EQ(f.warnings(), 2u);
  // Not of a limit that counts, and not where nothing is left, so that looks are refused.
  now_us += 61'000'000;
  f.ask(Verb::take, 0);
  f.ask(Verb::take, 1'000);
  f.ask(Verb::take, 10, "f");
  f.ask(Verb::take, 0, "f");
  f.ask(Verb::take, 1, "f");
  EXPECT_EQ(f.warnings(), 2u) << f.told.str();
}

}  // namespace
}  // namespace sluice::engine::charge_test
