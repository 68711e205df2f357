// What overrides change: decisions by rules of every dialect, and requests that wait.
#include <gtest/gtest.h>
#include <spdlog/sinks/null_sink.h>

#include <deque>
#include <functional>
#include <string>

#include "base/hash.h"
#include "engine/engine.h"
#include "live/override_registry.h"
#include "policy/read/native.h"
#include "protocol/divvy/rules.h"
#include "protocol/droplet/rules.h"
#include "protocol/limitd/rules.h"
#include "request/space.h"
#include "store/embedded_store.h"

namespace sluice::engine::engine_overrides_test {
namespace {

using Entries = std::vector<std::pair<std::string, std::string>>;

int64_t now_us = 1'800'000'000'000'000;

struct Reply {
  bool allowed = false, matched = false, delayed = false;
  int64_t limit = -1, remaining = -1;
  std::vector<limit::Decision> slots;
  std::string error;
};

Reply read(const request::Verdict& verdict) {
  Reply reply;
  reply.allowed = verdict.allowed;
  reply.matched = verdict.matched;
  reply.delayed = verdict.allowed && verdict.waited.has_value();
  reply.error = verdict.error;
  if (verdict.tightest != nullptr) {
    reply.limit = verdict.tightest->limit;
    reply.remaining = verdict.tightest->remaining;
  }
  for (const request::Charge& charge : verdict.charges) {
    if (!charge.keeps_limits) continue;
    const auto slots = verdict.decisions_of(charge);
    reply.slots = {slots.begin(), slots.end()};
  }
  return reply;
}

// Records the replies, early and late ones, in the order in which they arrive.
struct Client final : request::Session, ReplySink {
  request::Received receive(std::string_view, bool, request::Requests&, base::Buffer&) override {
    return {};
  }
  bool reply(const request::Request&, const request::Verdict& verdict, base::Time,
             base::Buffer&) override {
    replies.push_back(read(verdict));
    return true;
  }
  request::Fault fault() const override { return {}; }
  void end(request::Ending, std::string_view, base::Buffer&) override {}
  void reply_late(const request::Request&, const request::Verdict& verdict, base::Time) override {
    replies.push_back(read(verdict));
  }
  void flush_late(bool) override {}
  void resume(Batch&) override {}

  std::deque<Reply> replies;
};

struct Fixture {
  Fixture() {
    auto set = std::make_shared<policy::RuleSet>();
    base::Diagnostics diagnostics;
    policy::read_native(
        "rules:\n"
        "- { name: api, match: { tenant: '*', api: '*' }, actor: [tenant, api], limit: { quota: 3, "
        "window: 1h, algorithm: fixed_window } }\n"
        "- { name: bucket, match: { b: '*' }, actor: b, limit: { quota: 3, window: 1h } }\n"
        "- { name: first, match: { u: '*' }, actor: u, then: continue, limit: { quota: 2, window: "
        "1h } }\n"
        "- { name: second, match: { u: '*' }, actor: u, limit: { quota: 5, window: 1h } }\n"
        "- { name: seen, match: { s: '*' }, actor: s, mode: shadow, limit: { quota: 1, window: 1h "
        "} }\n"
        "- { name: shut, match: { s: '*' }, actor: s, deny: true }\n"
        "- { name: counted, match: { c: '*' }, actor: c, limit: { quota: 3, window: 1h, algorithm: "
        "fixed_window, over: count } }\n",
        "test.yaml", spaces, *set, diagnostics);
    divvy::read_divvy(
        "[ip=* method=GET]\ncreditLimit = 1\nresetSeconds = 60\nactorField = ip\n"
        "matchPolicy = canary\nlabel = trial\n"
        "[method=GET ip=*]\ncreditLimit = 2\nresetSeconds = 60\nactorField = ip\nlabel = get\n"
        "[default]\ncreditLimit = 1\nresetSeconds = 60\n",
        divvy::DivvyFormat::ini, divvy::DivvyMatching::code, "test.ini", spaces, *set, diagnostics);
    const std::string types =
        "db: { inMemory: true }\nbuckets:\n  ip:\n    size: 2\n    override: { vip: { size: 5 } "
        "}\n";
    const std::array files = {limitd::NamedText{"limitd.yaml", types}};
    limitd::LimitdConfig config;
    limitd::read_limitd(files, {}, spaces, *set, config, diagnostics);
    droplet::add_droplet_rule(spaces, *set);
    EXPECT_FALSE(base::has_errors(diagnostics));
    live.exchange(std::make_shared<live::LivePolicy>(live::LivePolicy{std::move(set), 0, 2}));
    registry = std::make_unique<live::OverrideRegistry>(
        live::OverrideRegistry::Deps{.spaces = spaces, .live = live, .clock = clock, .log = log});
    engine = std::make_unique<Engine>(
        Engine::Deps{.store = store,
                     .clock = clock,
                     .live = live,
                     .overrides = &registry->table(),
                     .run = [this](std::function<void()> what) { later.push_back(what); }},
        log);
  }

  // An override of the live rule of that dialect and name.
  live::OverrideRequest override_of(const std::string& dialect, const std::string& name,
                                    const std::string& actor, std::vector<limit::Limit> limits,
                                    int64_t until_us = INT64_MAX) {
    live::OverrideRequest asked;
    live::StoredOverride& one = asked.one;
    live::each_rule(*live.current()->rules,
                    [&](const policy::Rule& rule, const policy::Dialect& its) {
                      if (its.name != dialect || its.rule_name(rule) != name) return;
                      live::NamedRule named{dialect, name, rule.actor, "", rule.id};
                      named.rules_of = &its;
                      if (its.override_space != nullptr) named.prefix = rule.space->prefix;
                      one.rule = std::make_shared<const live::NamedRule>(named);
                    });
    EXPECT_NE(one.rule, nullptr) << name;
    one.actor = actor;
    asked.limits = std::move(limits);
    one.until = {until_us};
    return asked;
  }
  uint64_t set(const live::OverrideRequest& one) {
    std::vector<live::OverrideRequest> all = {one};
    std::vector<bool> fresh;
    const auto problem = registry->set(all, fresh);
    EXPECT_FALSE(problem) << problem.why;
    return one.one.id();
  }
  void remove(uint64_t id) {
    live::StoredOverride was;
    EXPECT_FALSE(registry->remove(id, was));
  }

  // Serves one request. Returns its reply, or nothing if the request waits.
  std::optional<Reply> ask(protocol::Protocol protocol, const Entries& entries, int64_t cost = 1,
                           request::Verb verb = request::Verb::take,
                           std::vector<limit::Limit> limits = {}) {
    Batch& batch = engine->next_batch();
    request::Requests& requests = batch.requests;
    requests.open();
    for (const auto& [key, value] : entries) requests.add(request::Entry{key, value});
    for (const auto& limit : limits) requests.add(limit);
    requests.commit({.verb = verb, .cost = cost, .tag = {}});
    base::Buffer out;
    EXPECT_EQ(engine->serve(batch, protocol, client, out, &client), Served::all);
    return next();
  }
  std::optional<Reply> next() {
    if (client.replies.empty()) return std::nullopt;
    const Reply reply = client.replies.front();
    client.replies.pop_front();
    return reply;
  }
  Reply take(protocol::Protocol protocol, const Entries& entries, int64_t cost = 1) {
    return ask(protocol, entries, cost).value();
  }
  // Does what a worker does after overrides have changed.
  void tell() {
    engine->take_policy();
    engine->match_again();
    for (; !later.empty(); later.pop_front()) later.front()();
  }

  std::shared_ptr<spdlog::logger> log =
      std::make_shared<spdlog::logger>("test", std::make_shared<spdlog::sinks::null_sink_mt>());
  request::Spaces spaces;
  base::Clock clock{{[] { return now_us; }, [] { return now_us; }}};
  store::EmbeddedStore store{0, base::Hash(1), spaces};
  live::Live live{live::LivePolicy{std::make_shared<policy::RuleSet>()}};
  std::unique_ptr<live::OverrideRegistry> registry;
  Client client;
  std::deque<std::function<void()>> later;
  std::unique_ptr<Engine> engine;
};

limit::Limit fixed_window(int64_t quota, int64_t seconds = 3600) {
  return {limit::Algorithm::fixed_window, quota, base::seconds(seconds), 0};
}
limit::Limit bucket(int64_t quota, int64_t seconds = 3600) {
  return {limit::Algorithm::token_bucket, quota, base::seconds(seconds), quota};
}
limit::Limit never_refills(int64_t size) {
  return {limit::Algorithm::fixed_bucket, size, {}, size};
}
const limit::Limit unlimited{limit::Algorithm::unlimited, base::bounds::quota_max, {}, 0};
const limit::Limit deny{limit::Algorithm::deny, 0, {}, 0};

TEST(EngineOverrides, AnOverrideKeepsTheUnitsUsedOfANativeRule) {
  Fixture f;
  const Entries acme = {{"tenant", "acme"}, {"api", "v1"}},
                other = {{"tenant", "x"}, {"api", "v1"}};
  EXPECT_EQ(f.take(protocol::find("divvy").value(), acme, 2).remaining, 1);
  const uint64_t id = f.set(f.override_of("native", "api", "acme|*", {fixed_window(10)}));
  EXPECT_EQ(f.take(protocol::find("limitd").value(), acme, 1).remaining,
            7);  // whatever the protocol
  EXPECT_EQ(f.take(protocol::find("divvy").value(), other, 1).remaining, 2);
  f.remove(id);
  const Reply back = f.take(protocol::find("divvy").value(), acme, 1);
  EXPECT_FALSE(!back.allowed && back.remaining > 0);
  EXPECT_EQ(back.limit, 3);
  EXPECT_FALSE(back.allowed);  // three are used
}

TEST(EngineOverrides, BansOneActorAndUnlimitsAnother) {
  Fixture f;
  f.set(f.override_of("native", "bucket", "bad", {deny}));
  f.set(f.override_of("native", "bucket", "good", {unlimited}));
  EXPECT_FALSE(f.take(protocol::find("divvy").value(), {{"b", "bad"}}).allowed);
  EXPECT_TRUE(f.take(protocol::find("divvy").value(), {{"b", "good"}}, 1'000'000).allowed);
  EXPECT_EQ(f.store.stats().counters, 0u);
  EXPECT_EQ(f.take(protocol::find("divvy").value(), {{"b", "x"}}).remaining, 2);
}

TEST(EngineOverrides, MayHaveMoreOrFewerLimitsThanTheRule) {
  Fixture f;
  EXPECT_EQ(f.take(protocol::find("divvy").value(), {{"b", "a"}}).remaining, 2);
  const uint64_t id =
      f.set(f.override_of("native", "bucket", "a", {bucket(10), fixed_window(4), bucket(9, 60)}));
  EXPECT_EQ(f.take(protocol::find("divvy").value(), {{"b", "a"}}).remaining,
            3);  // of the second limit, which is new
  EXPECT_FALSE(f.take(protocol::find("divvy").value(), {{"b", "a"}}, 4).allowed);
  EXPECT_TRUE(f.take(protocol::find("divvy").value(), {{"b", "a"}}, 3).allowed);
  f.remove(id);
  EXPECT_FALSE(
      f.take(protocol::find("divvy").value(), {{"b", "a"}}).allowed);  // 1 + 1 + 3 of 3 are used
}

TEST(EngineOverrides, AGroupSettlesAllOrNothingWithOneChargeOverridden) {
  Fixture f;
  const uint64_t id = f.set(f.override_of("native", "second", "u1", {bucket(1)}));
  EXPECT_TRUE(f.take(protocol::find("divvy").value(), {{"u", "u1"}}).allowed);
  for (int i = 0; i < 3; ++i)
    EXPECT_FALSE(f.take(protocol::find("divvy").value(), {{"u", "u1"}}).allowed);
  f.remove(id);
  // The refusals took nothing from the first rule's counter, which has one of two units left.
  EXPECT_TRUE(f.take(protocol::find("divvy").value(), {{"u", "u1"}}).allowed);
  EXPECT_FALSE(f.take(protocol::find("divvy").value(), {{"u", "u1"}}).allowed);
  EXPECT_EQ(f.take(protocol::find("divvy").value(), {{"u", "u2"}}).remaining, 1);
}

TEST(EngineOverrides, ApplyToShadowRulesAndRulesWithoutACounter) {
  Fixture f;
  f.set(f.override_of("native", "seen", "s1", {bucket(9)}));
  f.set(f.override_of("native", "shut", "s1", {bucket(2)}));
  EXPECT_EQ(f.take(protocol::find("divvy").value(), {{"s", "s1"}}).remaining, 1);
  EXPECT_TRUE(f.take(protocol::find("divvy").value(), {{"s", "s1"}}).allowed);
  EXPECT_FALSE(f.take(protocol::find("divvy").value(), {{"s", "s1"}}).allowed);
  EXPECT_EQ(f.store.stats().counters, 2u);  // the shadow rule has one, too
  EXPECT_FALSE(f.take(protocol::find("divvy").value(), {{"s", "s2"}}).allowed);
}

TEST(EngineOverrides, GiveDivvysCounterTheKeyOfTheirLimits) {
  Fixture f;
  const Entries get = {{"method", "GET"}, {"ip", "10.0.0.7"}};
  EXPECT_EQ(f.take(protocol::find("divvy").value(), get).remaining, 1);
  const std::string rule = "method=GET ip=*";
  const uint64_t id = f.set(f.override_of("divvy", rule, "10.0.0.*", {fixed_window(5, 120)}));
  EXPECT_EQ(f.take(protocol::find("divvy").value(), get).remaining,
            4);  // afresh, as an edited rule's
  const request::Space* const space =
      f.spaces.intern("divvy:ip=* method=GET:", ":5:120");  // known already
  EXPECT_EQ(space->encoding, request::KeyEncoding::remaining_text);
  EXPECT_EQ(f.store.list(*space, "", 10), std::vector<std::string>{"10.0.0.7"});
  // The canary of the same operation has a rule name of its own; its counter was not touched.
  EXPECT_EQ(f.store.list(*f.spaces.intern("divvy:ip=* method=GET:", ":1:60"), "", 10).size(), 1u);
  EXPECT_NE(f.override_of("divvy", "ip=* method=GET (canary)", "x", {deny}).one.rule, nullptr);
  f.set(f.override_of("divvy", rule, "10.0.0.7", {deny}));
  EXPECT_FALSE(f.take(protocol::find("divvy").value(), get).allowed);
  f.remove(f.override_of("divvy", rule, "10.0.0.7", {deny}).one.id());
  f.remove(id);
  EXPECT_EQ(f.take(protocol::find("divvy").value(), get).remaining, 0);  // as before the override
  f.set(f.override_of("divvy", "default", "", {fixed_window(3, 60)}));
  EXPECT_EQ(f.take(protocol::find("divvy").value(), {{"x", "y"}}).remaining, 2);
}

TEST(EngineOverrides, ReplaceTheOverridesOfLimitdsFile) {
  Fixture f;
  const auto ip = [](const char* key) { return Entries{{"type", "ip"}, {"key", key}}; };
  EXPECT_EQ(f.take(protocol::find("limitd").value(), ip("vip")).limit, 5);
  EXPECT_EQ(f.take(protocol::find("limitd").value(), ip("a")).limit, 2);
  const uint64_t all = f.set(f.override_of("limitd", "ip", "*", {never_refills(7)}));
  f.set(f.override_of("limitd", "ip", "a", {never_refills(9)}));
  EXPECT_EQ(f.take(protocol::find("limitd").value(), ip("vip")).limit, 7);
  EXPECT_EQ(f.take(protocol::find("limitd").value(), ip("a")).limit, 9);
  // As in limitd what was left stays: a larger bucket must fill up first.
  EXPECT_EQ(f.ask(protocol::find("limitd").value(), ip("a"), 1, request::Verb::put)->remaining, 1);
  f.remove(all);
  EXPECT_EQ(f.take(protocol::find("limitd").value(), ip("vip")).limit, 5);
}

TEST(EngineOverrides, ReplaceTheLimitsOfDropletsRequests) {
  Fixture f;
  const Entries mine = {{"bucket", "me"}};
  const auto take = [&](int64_t cost, std::vector<limit::Limit> limits) {
    return *f.ask(protocol::find("droplet").value(), mine, cost, request::Verb::take,
                  std::move(limits));
  };
  EXPECT_EQ(take(1, {bucket(5, 60)}).slots.size(), 1u);
  f.set(f.override_of("droplet", "droplet", "m*", {bucket(10, 1), bucket(20, 60)}));
  const Reply reply = take(1, {bucket(5, 60)});
  ASSERT_EQ(reply.slots.size(), 2u);
  EXPECT_EQ(reply.slots[0].limit, 10);
  EXPECT_EQ(reply.slots[1].limit, 20);
  EXPECT_FALSE(take(11, {bucket(100, 60)}).allowed);
  EXPECT_TRUE(take(1, {}).slots.empty());  // a request without limits gets no slots
  f.set(f.override_of("droplet", "droplet", "me", {deny}));
  EXPECT_FALSE(take(1, {bucket(5, 60)}).allowed);
  EXPECT_TRUE(take(1, {bucket(5, 60)}).slots.empty());
  f.set(f.override_of("droplet", "droplet", "me", {unlimited}));
  EXPECT_TRUE(take(1'000'000, {bucket(5, 60)}).allowed);
}

TEST(EngineOverrides, ExpireAtTheirTime) {
  Fixture f;
  f.set(f.override_of("native", "bucket", "a", {bucket(100)}, now_us + 1'000'000));
  EXPECT_EQ(f.take(protocol::find("divvy").value(), {{"b", "a"}}).limit, 100);
  now_us += 999'999;
  EXPECT_EQ(f.take(protocol::find("divvy").value(), {{"b", "a"}}).limit, 100);
  f.registry->housekeep();
  EXPECT_EQ(f.registry->table().size(), 1u);
  now_us += 1;
  EXPECT_EQ(f.take(protocol::find("divvy").value(), {{"b", "a"}}).limit, 3);
  f.registry->housekeep();
  EXPECT_EQ(f.registry->table().size(), 0u);
}

TEST(EngineOverrides, ARaisedLimitWakesAWaiterAndALoweredOneKeepsItsPlace) {
  Fixture f;
  const Entries key = {{"type", "ip"}, {"key", "w"}};
  const auto wait = [&](int64_t cost) {
    return f.ask(protocol::find("limitd").value(), key, cost, request::Verb::wait);
  };
  EXPECT_TRUE(f.take(protocol::find("limitd").value(), key, 2).allowed);
  EXPECT_FALSE(wait(1));  // units come back by puts alone
  EXPECT_FALSE(wait(2));
  EXPECT_EQ(f.store.stats().waiting, 2u);
  // A lower limit, even of another algorithm, keeps both requests in their order.
  f.set(f.override_of("limitd", "ip", "w", {never_refills(1)}));
  f.tell();
  EXPECT_FALSE(f.next());
  EXPECT_EQ(f.store.stats().waiting, 2u);
  EXPECT_FALSE(f.take(protocol::find("limitd").value(), key).allowed);  // no request overtakes
  // Without a limit both are answered in the order of arrival.
  f.set(f.override_of("limitd", "ip", "w", {unlimited}));
  f.tell();
  for (int i = 0; i < 2; ++i) {
    const auto reply = f.next();
    ASSERT_TRUE(reply);
    EXPECT_TRUE(reply->allowed);
  }
  EXPECT_EQ(f.store.stats().waiting, 0u);
}

TEST(EngineOverrides, AWaiterIsAnsweredWhenABanEnds) {
  Fixture f;
  const Entries key = {{"b", "z"}};
  f.set(f.override_of("native", "bucket", "z", {deny}, now_us + 5'000'000));
  EXPECT_FALSE(f.ask(protocol::find("limitd").value(), key, 1, request::Verb::wait));
  f.tell();
  EXPECT_FALSE(f.next());
  now_us += 5'000'000;
  f.registry->housekeep();
  f.tell();
  const auto reply = f.next();
  ASSERT_TRUE(reply);
  EXPECT_TRUE(reply->allowed);
  EXPECT_EQ(reply->remaining, 2);
}

TEST(EngineOverrides, AGroupOfSeveralChargesThatWaitsIsWoken) {
  Fixture f;
  const Entries key = {{"u", "w"}};
  EXPECT_TRUE(f.take(protocol::find("divvy").value(), key, 2).allowed);
  EXPECT_FALSE(f.ask(protocol::find("limitd").value(), key, 2, request::Verb::wait));
  const uint64_t id = f.set(f.override_of("native", "second", "w", {bucket(50), bucket(60, 60)}));
  f.tell();
  EXPECT_FALSE(f.next());  // the first rule has too few units
  f.set(f.override_of("native", "first", "w", {bucket(10)}));
  f.tell();
  const auto reply = f.next();
  ASSERT_TRUE(reply);
  EXPECT_TRUE(reply->allowed);
  f.remove(id);
}

TEST(EngineOverrides, SurviveAReloadAndPauseWithoutTheirRule) {
  Fixture f;
  f.set(f.override_of("native", "bucket", "a", {bucket(100)}));
  const auto reload = [&](const std::string& rules, uint64_t generation) {
    auto set = std::make_shared<policy::RuleSet>();
    base::Diagnostics diagnostics;
    policy::read_native(rules, "test.yaml", f.spaces, *set, diagnostics);
    ASSERT_FALSE(base::has_errors(diagnostics));
    const auto old = f.live.exchange(
        std::make_shared<live::LivePolicy>(live::LivePolicy{std::move(set), 0, generation}));
    f.engine->take_policy();
  };
  const std::string limit = ", limit: { quota: 4, window: 1h } }\n";
  const auto all = f.registry->list(0, 10, {});
  ASSERT_EQ(all.items.size(), 1u);
  reload("rules:\n- { name: renamed, match: { b: '*' }, actor: b" + limit, 3);
  EXPECT_FALSE(f.registry->applies(*all.items[0].rule));
  EXPECT_EQ(f.take(protocol::find("divvy").value(), {{"b", "a"}}).limit, 4);
  reload("rules:\n- { name: bucket, match: { b: '*', c: '*' }, actor: [b, c]" + limit, 4);
  EXPECT_FALSE(f.registry->applies(*all.items[0].rule));  // the actor is another one
  reload("rules:\n- { name: bucket, match: { b: 'a' }, actor: b" + limit, 5);
  EXPECT_TRUE(f.registry->applies(*all.items[0].rule));
  EXPECT_EQ(f.take(protocol::find("divvy").value(), {{"b", "a"}}).limit, 100);
}

// Whatever its numbers and its algorithm. `deny` and `unlimited` leave the counter as it is.
TEST(EngineOverrides, KeepWhichLimitsOfTheRuleCount) {
  Fixture f;
  const Entries who = {{"c", "x"}};
  for (const limit::Limit& limit :
       {limit::Limit{limit::Algorithm::token_bucket, 5, base::seconds(3'600), 5},
        limit::Limit{limit::Algorithm::sliding_log, 5, base::seconds(60)}}) {
    const uint64_t id = f.set(f.override_of("native", "counted", "x", {limit}));
    f.tell();
    EXPECT_FALSE(f.take(protocol::find("divvy").value(), who, 9).allowed);
    const Reply look = f.take(protocol::find("divvy").value(), who, 0);
    EXPECT_FALSE(look.allowed) << name_of(limit.algorithm);
    EXPECT_EQ(look.remaining, -4);
    for (const auto algorithm : {limit::Algorithm::deny, limit::Algorithm::unlimited}) {
      f.set(f.override_of("native", "counted", "x", {{algorithm, 0, {}}}));
      f.tell();
      const Reply charged =
          f.ask(protocol::find("divvy").value(), who, 100, request::Verb::charge).value();
      EXPECT_TRUE(charged.allowed);
    }
    f.set(f.override_of("native", "counted", "x", {limit}));
    f.tell();
    EXPECT_EQ(f.take(protocol::find("divvy").value(), who, 0).remaining, -4);
    f.remove(id);
    f.tell();
    now_us += 2 * 3'600'000'000;
  }
}

}  // namespace
}  // namespace sluice::engine::engine_overrides_test
