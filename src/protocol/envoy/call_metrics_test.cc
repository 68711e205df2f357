// The metrics that a call counts from its verdicts, which these tests make by hand.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <map>
#include <string>
#include <vector>

#include "policy/rule_set.h"
#include "protocol/envoy/call.h"
#include "protocol/envoy/dialect.h"
#include "protocol/envoy/limits_file.h"
#include "protocol/envoy/rules.h"
#include "request/space.h"

namespace sluice::envoy::call_metrics_test {
namespace {

using Counted = std::map<std::string, uint64_t>;
using request::Verb;

constexpr std::string_view text = R"(
domain: d
descriptors:
  - {key: k, rate_limit: {unit: day, requests_per_unit: 10}}
  - {key: s, shadow_mode: true, rate_limit: {unit: day, requests_per_unit: 10}}
  - {key: u, rate_limit: {unlimited: true}}
  - {key: t, rate_limit: {unit: day, requests_per_unit: 10, algorithm: token_bucket}}
)";

// A call with one descriptor, its verdict, and the metrics that the call counts.
struct World {
  World() {
    const LimitsText file{"limits.yaml", text};
    base::Diagnostics diagnostics;
    LimitRules::add(*read_limits({&file, 1}, {}, diagnostics), {}, spaces, rules);
    call.metrics = &metrics.add_worker();
  }

  void ask(std::string_view key, uint32_t hits, bool is_refund = false) {
    call.message = {};
    call.message.domain = "d";
    call.message.hits_addend = hits;
    call.message.entries = {{key, "x"}};
    Descriptor descriptor;
    descriptor.entry_count = 1;
    descriptor.is_negative_hits = is_refund;
    call.message.descriptors = {descriptor};
    requests.clear();
    call.ask(0, options, {}, requests);
    base::Arena texts;
    policy::Planning planning{
        .rules = rules.rules(&dialect), .own = *rules.own_rules(&dialect), .texts = texts};
    call.plan(requests.items()[0], planning);
    ASSERT_NE(planning.charge.rule, nullptr);
    ASSERT_EQ(planning.charge.rule->name, "d." + std::string(key));
  }
  const Limit& limit_of(std::string_view key) const {
    const LimitSet& set = LimitRules::of(rules)->set();
    return *std::ranges::find_if(set.limits(), [&](const Limit& limit) {
      return set.path(limit.node) == "d." + std::string(key);
    });
  }
  // Gives the call its verdict. `count`: what the counter has after the charge.
  void decide(std::string_view key, Verb verb, bool allowed, int64_t count, bool group_allowed,
              bool from_cache = false) {
    const std::array limits = {numbers_of(limit_of(key))};
    request::Charge charge;
    charge.verb = verb;
    charge.counts = limit_of(key).counts ? 1 : 0;
    charge.limits = limits;
    charge.from_cache = from_cache;
    limit::Decision decision;
    decision.allowed = allowed;
    decision.limit = 10;
    decision.remaining = 10 - count;
    request::Verdict verdict;
    verdict.allowed = group_allowed;
    verdict.planned = &charge;
    verdict.decisions = &decision;
    call.take(requests.items()[0], verdict, {}, options);
  }
  // What was counted since the last call of this function.
  Counted counted() {
    Counted now;
    for (const WorkerMetrics* worker : metrics.workers()) {
      for (uint32_t path = 0; path < metrics.paths().size(); ++path)
        for (size_t stat = 0; stat < path_stat_names.size(); ++stat)
          if (const uint64_t n = worker->read(path, static_cast<PathStat>(stat)); n > 0)
            now[std::string(metrics.paths().at(path)) + "." + std::string(path_stat_names[stat])] =
                n;
      if (const uint64_t n = worker->read(ServiceStat::redis_error); n > 0) now["redis_error"] = n;
      if (const uint64_t n = worker->read(ServiceStat::service_error); n > 0)
        now["service_error"] = n;
    }
    Counted since = now;
    for (const auto& [name, n] : before_)
      if ((since[name] -= n) == 0) since.erase(name);
    before_ = now;
    return since;
  }

  request::Spaces spaces;
  policy::RuleSet rules;
  EnvoyOptions options;
  LimitMetrics metrics{{}};
  Call call;
  request::Requests requests;

 private:
  Counted before_;
};

TEST(EnvoyCallMetrics, HitsAreCountedByTheCounterAfterwards) {
  World world;
  world.ask("k", 3);
  world.decide("k", Verb::count, true, 9, true);
  EXPECT_EQ(world.counted(),
            (Counted{{"d.k.total_hits", 3}, {"d.k.within_limit", 3}, {"d.k.near_limit", 1}}));
  world.ask("k", 3);
  world.decide("k", Verb::count, false, 12, false);
  EXPECT_EQ(world.counted(),
            (Counted{{"d.k.total_hits", 3}, {"d.k.over_limit", 2}, {"d.k.near_limit", 1}}));
}

TEST(EnvoyCallMetrics, CountsAChargeThatStaysThoughAnotherRuleRefuses) {
  World world;
  world.ask("k", 4);
  world.decide("k", Verb::count, true, 5, false);
  EXPECT_EQ(world.counted(), (Counted{{"d.k.total_hits", 4}, {"d.k.within_limit", 4}}));
  world.ask("t", 4);
  world.decide("t", Verb::take, true, 5, false);
  EXPECT_EQ(world.counted(), (Counted{{"d.t.total_hits", 4}}));
}

TEST(EnvoyCallMetrics, CountsAShadowLimitWhateverOtherLimitsDecide) {
  World world;
  for (const bool others : {false, true}) {
    world.ask("s", 2);
    world.decide("s", Verb::count, true, 5, others);
    EXPECT_EQ(world.counted(), (Counted{{"d.s.total_hits", 2}, {"d.s.within_limit", 2}}));
  }
  world.ask("s", 2);
  world.decide("s", Verb::count, false, 14, true);
  EXPECT_EQ(world.counted(),
            (Counted{{"d.s.total_hits", 2}, {"d.s.over_limit", 2}, {"d.s.shadow_mode", 2}}));
}

TEST(EnvoyCallMetrics, CountsTheHitsOfAnUnchargedLimit) {
  World world;
  // With `sparing`, a request with a descriptor that is over charges only descriptors that are
  // over: first another one, then this one.
  world.options.sparing = true;
  world.ask("k", 4);
  world.decide("k", Verb::count, true, 5, false);
  EXPECT_EQ(world.counted(), (Counted{{"d.k.total_hits", 4}}));
  world.ask("k", 4);
  world.decide("k", Verb::count, false, 12, false);
  EXPECT_EQ(world.counted(),
            (Counted{{"d.k.total_hits", 4}, {"d.k.over_limit", 2}, {"d.k.near_limit", 2}}));
  world.options.sparing = false;
  // All or nothing: a refused take is not charged, so all its hits count as over.
  world.ask("k", 4);
  world.decide("k", Verb::take, false, 8, false);
  EXPECT_EQ(world.counted(), (Counted{{"d.k.total_hits", 4}, {"d.k.over_limit", 4}}));
  // An algorithm that only sluice has does not charge a refusal either.
  world.ask("t", 4);
  world.decide("t", Verb::count, false, 8, false);
  EXPECT_EQ(world.counted(), (Counted{{"d.t.total_hits", 4}, {"d.t.over_limit", 4}}));
}

TEST(EnvoyCallMetrics, CountsTheLocalCacheInAddition) {
  World world;
  world.ask("s", 3);
  world.decide("s", Verb::count, false, 11, false, true);
  EXPECT_EQ(world.counted(), (Counted{{"d.s.total_hits", 3},
                                      {"d.s.over_limit", 3},
                                      {"d.s.over_limit_with_local_cache", 3},
                                      {"d.s.shadow_mode", 3}}));
}

TEST(EnvoyCallMetrics, UnlimitedOnesAreNotCountedAndRefundsApart) {
  World world;
  world.ask("u", 3);
  world.decide("u", Verb::take, true, 0, true);
  world.ask("k", 3, true);
  world.decide("k", Verb::put, true, 0, true);
  EXPECT_EQ(world.counted(), (Counted{{"d.k.total_negative_hits", 3}}));
}

TEST(EnvoyCallMetrics, CountsTotalHitsWhenTheStoreFails) {
  World world;
  world.ask("k", 3);
  request::Verdict verdict;
  verdict.error = "no memory";
  verdict.cause = request::Error::memory;
  world.call.take(world.requests.items()[0], verdict, {}, world.options);
  EXPECT_EQ(world.counted(), (Counted{{"d.k.total_hits", 3}, {"redis_error", 1}}));
  EXPECT_EQ(world.call.error().kind, CallError::Kind::store);
}

TEST(EnvoyCallMetrics, ARequestWithoutADescriptorIsAnErrorOfTheService) {
  World world;
  world.call.message.domain = "d";
  world.call.ask(0, world.options, {}, world.requests);
  EXPECT_EQ(world.counted(), (Counted{{"service_error", 1}}));
}

}  // namespace
}  // namespace sluice::envoy::call_metrics_test
