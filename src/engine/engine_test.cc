// The engine (engine/engine.h) behind a session of Divvy, without sockets: batches, shadow rules,
// errors of rules and of the store, and what it logs.
#include "engine/engine.h"

#include <gtest/gtest.h>
#include <spdlog/sinks/ostream_sink.h>

#include <sstream>
#include <string>

#include "base/hash.h"
#include "protocol/divvy/rules.h"
#include "protocol/divvy/session.h"
#include "request/space.h"
#include "store/embedded_store.h"

namespace sluice::engine::engine_test {
namespace {

int64_t now_us = 1'000'000'000'000;

// The engine behind a Divvy session, without a socket.
struct Fixture {
  explicit Fixture(std::string_view policy) {
    auto set = std::make_shared<policy::RuleSet>();
    base::Diagnostics diagnostics;
    divvy::read_divvy(policy, divvy::DivvyFormat::ini, divvy::DivvyMatching::code, "test.ini",
                      spaces, *set, diagnostics);
    EXPECT_FALSE(base::has_errors(diagnostics));
    serve(std::move(set));
  }

  void serve(std::shared_ptr<const policy::RuleSet> rules) {
    live = std::make_unique<live::Live>(live::LivePolicy{std::move(rules)});
    engine =
        std::make_unique<Engine>(Engine::Deps{.store = store, .clock = clock, .live = *live}, log);
  }

  // The replies to a text, and false if the session was closed.
  std::pair<std::string, bool> ask(std::string_view text) {
    base::Buffer out;
    bool open = true;
    while (open && !text.empty()) {
      Batch& batch = engine->next_batch();
      const auto received = session.receive(text, false, batch.requests, out);
      text.remove_prefix(received.consumed);
      open = engine->serve(batch, protocol::find("divvy").value(), session, out) == Served::all;
    }
    return {std::string(out.view()), open};
  }

  std::ostringstream told;
  std::shared_ptr<spdlog::logger> log = std::make_shared<spdlog::logger>(
      "test", std::make_shared<spdlog::sinks::ostream_sink_mt>(told));
  request::Spaces spaces;
  base::Clock clock{{[] { return now_us; }, [] { return now_us; }}};
  store::EmbeddedStore store{0, base::Hash(1), spaces};
  divvy::DivvySession session;
  std::unique_ptr<live::Live> live;
  std::unique_ptr<Engine> engine;
};

TEST(Engine, AShadowRuleIsChargedAndDecidesNothing) {
  Fixture f(
      "[a=1]\ncreditLimit = 1\nresetSeconds = 60\nmatchPolicy = canary\n"
      "[default]\ncreditLimit = 3\nresetSeconds = 60\n");
  EXPECT_EQ(f.ask("HIT a=1\nHIT a=1\nHIT a=1\n").first,
            "OK true 2 60\nOK true 1 60\nOK true 0 60\n");
  EXPECT_EQ(f.store.stats().counters, 2u);
}

TEST(Engine, ChargesShadowGroupsThoughTheEnforcedOneRefuses) {
  Fixture f(
      "[a=1 who=*]\ncreditLimit = 10\nresetSeconds = 60\nmatchPolicy = canary\nactorField = who\n"
      "[a=1]\ncreditLimit = 1\nresetSeconds = 60\n"
      "[default]\ncreditLimit = 0\n");
  EXPECT_EQ(f.ask("HIT a=1 who=x\nHIT a=1 who=x\nHIT a=1 who=y\n").first,
            "OK true 0 60\nOK false 0 60\nOK false 0 60\n");
  EXPECT_EQ(f.store.stats().counters, 3u);  // the canary counted x and y nevertheless
}

TEST(Engine, RequestsOfOneBatchAreDecidedInOrder) {
  Fixture f("[default]\ncreditLimit = 2\nresetSeconds = 60\nactorField = ip\n");
  EXPECT_EQ(f.ask("HIT ip=1\nHIT ip=2\nHIT ip=1\nHIT ip=1\nHIT ip=2\n").first,
            "OK true 1 60\nOK true 1 60\nOK true 0 60\nOK false 0 60\nOK true 0 60\n");
}

TEST(Engine, AnUnevaluableRuleEndsTheSessionAndChargesNothingMore) {
  Fixture f(
      "[bad=1 p=**]\ncreditLimit = 5\nresetSeconds = 60\n"
      "[default]\ncreditLimit = 5\nresetSeconds = 60\n");
  const auto [text, open] = f.ask("HIT\nHIT bad=1 p=x\nHIT\nHIT\n");
  EXPECT_EQ(text.substr(0, 36), "OK true 4 60\nERR Internal Error: Inv");
  EXPECT_FALSE(open);
  EXPECT_EQ(f.ask("HIT\n").first, "OK true 3 60\n");
}

// The native rule comes before Divvy's.
TEST(Engine, ResetIsTheRetryTimeOfARefusalAndTheFreshTimeOfAGrant) {
  auto set = std::make_shared<policy::RuleSet>();
  Fixture f("[default]\ncreditLimit = 0\n");
  policy::Rule rule;
  rule.pattern = "any";
  rule.limits = {{limit::Algorithm::fixed_window, 2, base::seconds(5)},
                 {limit::Algorithm::fixed_window, 1'000, base::seconds(86'400)},
                 {limit::Algorithm::token_bucket, 60, base::seconds(3'600), 3}};
  rule.space = f.spaces.intern("native:r:", "");
  set->add(policy::native_dialect, rule);
  f.serve(set);
  EXPECT_EQ(f.ask("HIT\nHIT\nHIT\n").first, "OK true 1 5\nOK true 0 5\nOK false 0 5\n");
  now_us += 5'000'000;
  EXPECT_EQ(f.ask("HIT\nHIT\n").first, "OK true 0 175\nOK false 0 55\n");
}

TEST(Engine, WithoutMemoryNewCountersFailAndNothingMoreIsCharged) {
  Fixture f(
      "[t=1 k=*]\ncreditLimit = 5\nresetSeconds = 60\nactorField = k\n"
      "[default]\ncreditLimit = 5\nresetSeconds = 60\n");
  EXPECT_EQ(f.ask("HIT t=1 k=old\nHIT t=1 k=other\n").second, true);
  const std::string actor(60'000, 'x');
  for (int i = 0; f.ask("HIT t=1 k=" + actor + std::to_string(i) + "\n").second; ++i)
    ASSERT_LT(i, 1'000);
  const auto [text, open] = f.ask("HIT t=1 k=old\nHIT t=1 k=" + actor + "\nHIT t=1 k=other\n");
  EXPECT_EQ(text.substr(0, text.find(';')),
            "OK true 3 60\nERR Internal Error: the counter memory is full");
  EXPECT_FALSE(open);
  EXPECT_EQ(f.ask("HIT t=1 k=other\n").first, "OK true 3 60\n");
}

TEST(Engine, LogsEachRuleWithItsCommentAtDebugLevel) {
  Fixture f(
      "[a=1]\ncreditLimit = 1\nresetSeconds = 60\nmatchPolicy = canary\ncomment = one for all\n"
      "[default]\ncreditLimit = 3\nresetSeconds = 60\n");
  f.ask("HIT a=1\n");
  EXPECT_EQ(f.told.str(), "");
  f.log->set_level(spdlog::level::debug);
  f.ask("HIT a=1\n");
  EXPECT_NE(
      f.told.str().find("a=1 | rule [a=1] test.ini:1 # one for all | shadow denied, 0 of 1 left"),
      std::string::npos)
      << f.told.str();
  EXPECT_NE(f.told.str().find("rule [default] test.ini:6 | decides allowed, 1 of 3 left"),
            std::string::npos)
      << f.told.str();
}

// Of the rules of one group only the one that refused is logged as having refused.
TEST(Engine, LogsEachRuleOfAGroupByNameAtDebugLevel) {
  Fixture f("[default]\ncreditLimit = 9\nresetSeconds = 60\n");
  auto set = std::make_shared<policy::RuleSet>();
  for (const auto& [name, quota] : {std::pair("wide", 9), std::pair("tight", 1)}) {
    policy::Rule rule;
    rule.name = name;
    rule.pattern = "any";
    rule.file = "test.yaml";
    rule.then = policy::Then::continue_;
    rule.limits = {{limit::Algorithm::fixed_window, quota, base::seconds(60)}};
    rule.space = f.spaces.intern(std::string("native:") + name + ":", "");
    set->add(policy::native_dialect, rule);
  }
  f.serve(set);
  f.log->set_level(spdlog::level::debug);
  EXPECT_EQ(f.ask("HIT\nHIT\n").first, "OK true 0 60\nOK false 0 60\n");
  const auto lines = [&f](std::string_view wanted) {
    size_t n = 0;
    const std::string text = f.told.str();
    for (size_t at = text.find(wanted); at != text.npos; at = text.find(wanted, at + 1)) ++n;
    return n;
  };
  EXPECT_EQ(lines("rule wide [any] test.yaml:0 | decides allowed, 8 of 9 left"), 1u);
  EXPECT_EQ(lines("rule tight [any] test.yaml:0 | decides allowed, 0 of 1 left"), 1u);
  EXPECT_EQ(lines("rule wide [any] test.yaml:0 | decides would allow, denied by another rule"), 1u)
      << f.told.str();
  EXPECT_EQ(lines("rule tight [any] test.yaml:0 | decides denied, 0 of 1 left"), 1u);
}

}  // namespace
}  // namespace sluice::engine::engine_test
