// Explanations against the replies of takes that follow: random policies of all dialects and
// algorithms, and random requests of all protocols, some of which wait. And counters that are set
// and forgotten by name.
#include "admin/explain.h"

#include <gtest/gtest.h>
#include <spdlog/sinks/null_sink.h>

#include <algorithm>
#include <array>
#include <deque>
#include <string>
#include <vector>

#include "admin/counters.h"
#include "base/hash.h"
#include "engine/engine.h"
#include "engine/lists.h"
#include "policy/read/native.h"
#include "protocol/divvy/rules.h"
#include "protocol/droplet/rules.h"
#include "protocol/limitd/rules.h"
#include "request/space.h"
#include "store/embedded_store.h"
#include "tests/support/dice.h"

namespace sluice::admin::explain_test {
namespace {

// As in protocol::all().
constexpr std::array dialects{&divvy::dialect, &limitd::dialect, &droplet::dialect};

size_t place_of(const policy::Dialect* dialect) {
  return static_cast<size_t>(std::find(dialects.begin(), dialects.end(), dialect) -
                             dialects.begin());
}

using tests::Dice;

constexpr int64_t start_us = 1'700'000'000'000'000;
int64_t now_us = start_us;

// What a request was answered.
struct Told {
  bool told = false, allowed = false, matched = false;
  std::string error;
  int64_t remaining = 0;
  base::Duration more_after{};
  std::vector<limit::Decision> slots;
};

class Ear final : public request::Session {
 public:
  request::Received receive(std::string_view, bool, request::Requests&, base::Buffer&) override {
    return {};
  }
  bool reply(const request::Request&, const request::Verdict& verdict, base::Time,
             base::Buffer&) override {
    told = {true,
            verdict.allowed,
            verdict.matched,
            std::string(verdict.error),
            verdict.tightest != nullptr ? verdict.tightest->remaining : 0,
            verdict.tightest == nullptr ? base::Duration{}
            : verdict.allowed           ? verdict.tightest->reset_after
                                        : verdict.tightest->retry_after,
            {}};
    for (const request::Charge& charge : verdict.charges) {
      if (!charge.keeps_limits) continue;
      const auto slots = verdict.decisions_of(charge);
      told.slots = {slots.begin(), slots.end()};
    }
    return true;
  }
  request::Fault fault() const override { return {}; }
  void end(request::Ending, std::string_view, base::Buffer&) override {}

  Told told;
};

struct Client final : engine::ReplySink {
  void reply_late(const request::Request&, const request::Verdict&, base::Time) override { ++late; }
  void flush_late(bool) override {}
  void resume(engine::Batch&) override {}
  size_t late = 0;
};

struct World {
  explicit World(std::shared_ptr<policy::RuleSet> rules, request::Spaces& spaces)
      : store(0, base::Hash(1), spaces), live(live::LivePolicy{std::move(rules)}) {
    queries.set_post(
        [this](std::shared_ptr<engine::AdminQuery> query) { engine.run_query(query); });
  }
  ~World() { engine.forget(client); }

  Told ask(const ExplainedRequest& asked, request::Verb verb) {
    engine::Batch& batch = engine.next_batch();
    request::Requests& requests = batch.requests;
    requests.open();
    for (const auto& [key, value] : asked.descriptor) requests.add(request::Entry{key, value});
    for (const limit::Limit& limit : asked.limits) requests.add(limit);
    requests.commit({.verb = verb, .cost = asked.cost, .tag = {}});
    base::Buffer out;
    Ear ear;
    engine.serve(batch, protocol::numbers()[place_of(asked.dialect)], ear, out, &client);
    return ear.told;
  }

  ExplainedVerdict explain(const ExplainedRequest& asked, std::vector<ExplainedStep>& steps) {
    const auto query = std::make_shared<ExplainQuery>(live.current(), asked);
    EXPECT_EQ(queries.ask(query), engine::AdminQueries::Outcome::answered);
    steps = query->steps();
    return query->verdict();
  }

  CounterState change(const std::string& stored, CounterQuery::Change change, int64_t used) {
    uint64_t version = 0;
    const LiveCounters counters(*live.current()->rules, overrides.spaces(version));
    const auto owner = counters.find(stored, clock.now(), &overrides);
    EXPECT_NE(owner.rule, nullptr) << stored;
    if (owner.rule == nullptr) return {};
    const auto query = std::make_shared<CounterQuery>(
        live.current(),
        std::vector<CounterState>{
            {.stored = stored, .key = std::string(owner.key), .owner = owner}},
        change, used);
    EXPECT_EQ(queries.ask(query), engine::AdminQueries::Outcome::answered);
    EXPECT_FALSE(query->counters().front().moved);
    return query->counters().front();
  }

  std::shared_ptr<spdlog::logger> log =
      std::make_shared<spdlog::logger>("test", std::make_shared<spdlog::sinks::null_sink_mt>());
  base::Clock clock{{[] { return now_us; }, [] { return now_us; }}};
  store::EmbeddedStore store;
  live::Live live;
  policy::Overrides overrides;
  engine::Engine engine{
      engine::Engine::Deps{.store = store, .clock = clock, .live = live, .overrides = &overrides},
      log};
  engine::TableScanner scanner{store};
  engine::AdminQueries queries{store, scanner};
  Client client;
};

// Windows of a few seconds, quotas of a few units.
std::string random_limit(Dice& dice) {
  static constexpr std::array algorithms = {"fixed_window", "aligned_window", "token_bucket",
                                            "sliding_window", "sliding_log"};
  if (dice(8) == 0)
    return "{ quota: " + std::to_string(1 + dice(5)) + ", algorithm: fixed_bucket }";
  const size_t algorithm = dice(algorithms.size());
  std::string text = "{ quota: " + std::to_string(1 + dice(5)) +
                     ", window: " + std::to_string(1 + dice(9)) +
                     "s, algorithm: " + algorithms[algorithm];
  if (algorithm == 2 && dice(2) == 0) text += ", burst: " + std::to_string(1 + dice(7));
  return text + " }";
}

std::string random_native(Dice& dice) {
  std::string text = "rules:\n";
  for (int i = 0, count = 1 + dice(4); i < count; ++i) {
    text += "- name: r" + std::to_string(i) + "\n  match: {";
    std::string actor;
    for (const char* key : {"a", "type", "bucket"}) {
      if (dice(3) != 0) continue;
      text += std::string(actor.empty() ? " " : ", ") + key + ": \"" + (dice(3) == 0 ? "1" : "*") +
              "\"";
      actor = key;
    }
    text += " }\n";
    if (!actor.empty() && dice(2) == 0) text += "  actor: " + actor + "\n";
    const int kind = dice(12);
    if (kind == 0) {
      text += "  unlimited: true\n";
    } else if (kind == 1) {
      text += "  deny: true\n";
    } else {
      text += "  limits:\n";
      for (int n = 1 + dice(3); n > 0; --n) text += "  - " + random_limit(dice) + "\n";
    }
    if (dice(5) == 0) text += "  mode: shadow\n";
    if (dice(3) != 0) text += "  then: continue\n";
  }
  return text;
}

// Some rules are canaries, and some of these share the counter of a later rule.
std::string random_divvy(Dice& dice) {
  std::string text = "{\"overrides\": [";
  for (int i = 0, count = dice(5); i < count; ++i) {
    const char* const operation =
        std::array{"\"a\": \"1\"", "\"a\": \"*\"", "\"b\": \"1\""}[dice(size_t{3})];
    text += std::string(i > 0 ? ", " : "") + "{\"operation\": {" + operation +
            "}, \"creditLimit\": " + std::to_string(1 + dice(2)) +
            ", \"resetSeconds\": " + std::to_string(5 * (1 + dice(2))) +
            (dice(3) == 0 ? ", \"actorField\": \"a\"" : "") +
            (dice(2) == 0 ? ", \"matchPolicy\": \"canary\"" : "") + "}";
  }
  return text + "], \"default\": {\"operation\": {}, \"creditLimit\": " + std::to_string(dice(4)) +
         ", \"resetSeconds\": 7}}";
}

std::string random_limitd(Dice& dice) {
  std::string text = "db: { inMemory: true }\nbuckets:\n";
  for (const char* type : {"1", "2"}) {
    text += std::string("  \"") + type + "\":\n    size: " + std::to_string(1 + dice(6)) + "\n";
    if (dice(3) != 0) text += "    per_second: " + std::to_string(1 + dice(3)) + "\n";
    text += "    override:\n      k1: { size: " + std::to_string(1 + dice(3)) + " }\n";
    text += "      two: { match: \"/2$/\", size: 5, per_minute: " + std::to_string(1 + dice(99)) +
            ", until: 2023-11-14T22:13:30Z }\n";
  }
  return text;
}

std::shared_ptr<policy::RuleSet> random_rules(Dice& dice, request::Spaces& spaces,
                                              std::string& text) {
  for (;;) {
    auto rules = std::make_shared<policy::RuleSet>();
    base::Diagnostics diagnostics;
    const std::string native = random_native(dice), divvy = random_divvy(dice),
                      limitd = random_limitd(dice);
    if (dice(2) == 0) policy::read_native(native, "n", spaces, *rules, diagnostics);
    divvy::read_divvy(divvy, divvy::DivvyFormat::json, divvy::DivvyMatching::code, "d", spaces,
                      *rules, diagnostics);
    limitd::LimitdConfig config;
    const limitd::NamedText file{"l", limitd};
    limitd::read_limitd({&file, 1}, {}, spaces, *rules, config, diagnostics);
    droplet::add_droplet_rule(spaces, *rules);
    text = native + divvy + limitd;
    if (!base::has_errors(diagnostics)) return rules;
  }
}

// Overrides for some actors of some rules.
void set_overrides(Dice& dice, request::Spaces& spaces, World& world) {
  const policy::RuleSet& rules = *world.live.current()->rules;
  std::vector<const policy::Rule*> all;
  for (const auto& rule : rules.native_rules()) all.push_back(&rule);
  for (const policy::Dialect* const dialect : dialects)
    for (const auto& rule : rules.rules(dialect)) all.push_back(&rule);
  for (int i = dice(6); i > 0; --i) {
    const policy::Rule& rule = *all[dice(all.size())];
    policy::Override one;
    one.rule = rule.id;
    for (const std::string& actor : rule.actor)
      one.actor.push_back(dice(3) == 0     ? "*"
                          : actor == "key" ? "k" + std::to_string(1 + dice(3))
                                           : std::to_string(1 + dice(3)));
    const int64_t quota = 1 + dice(int64_t{6}), window = 5 + dice(int64_t{3});
    const bool divvy = rule.space->encoding == request::KeyEncoding::remaining_text,
               keeps = rule.limits.empty();
    limit::Limit limit{limit::Algorithm::token_bucket, quota, base::seconds(keeps ? 60 : window),
                       quota};
    if (divvy) limit = {limit::Algorithm::fixed_window, quota, base::seconds(window), 0};
    if (dice(6) == 0) limit = {limit::Algorithm::deny, 0, {}, 0};
    one.terms.limits_id = spaces.intern_limits({&limit, 1});
    one.terms.limits = spaces.limits(one.terms.limits_id);
    one.terms.id = static_cast<uint64_t>(i);
    if (dice(4) == 0) one.terms.until = {start_us + dice(int64_t{60'000'000})};
    if (divvy && has_counter(limit.algorithm)) {
      request::Space like;
      like.encoding = request::KeyEncoding::remaining_text;
      one.terms.space = spaces.intern(
          rule.space->prefix, ":" + std::to_string(quota) + ":" + std::to_string(window), like);
    }
    EXPECT_TRUE(world.overrides.set(one));
  }
}

ExplainedRequest random_request(Dice& dice) {
  ExplainedRequest asked;
  const size_t which = dice(size_t{3});
  asked.dialect = dialects[which];
  asked.cost = dice(3) == 0 ? dice(int64_t{5}) : 1;
  const auto some = [&] { return std::to_string(1 + dice(3)); };
  switch (which) {
    case 0:
      if (dice(4) != 0) asked.descriptor.emplace_back("a", some());
      if (dice(3) == 0) asked.descriptor.emplace_back("b", some());
      if (dice(3) == 0) asked.descriptor.emplace_back("a", some());
      break;
    case 1:
      asked.descriptor = {{"type", some()}, {"key", "k" + some()}};
      break;
    case 2:
      asked.descriptor = {{"bucket", some()}};
      for (const int64_t seconds : {1, 60, 3'600}) {
        const int64_t quota = 1 + dice(int64_t{6});
        if (dice(2) == 0)
          asked.limits.push_back(
              {limit::Algorithm::token_bucket, quota, base::seconds(seconds), quota});
      }
      if (dice(8) == 0) asked.cost = -asked.cost;
  }
  return asked;
}

// The explanation agrees with the reply of the take that follows.
void expect_told_as_explained(const ExplainedVerdict& said, const std::vector<ExplainedStep>& steps,
                              const Told& told) {
  ASSERT_TRUE(told.told);
  EXPECT_EQ(said.error, told.error);
  EXPECT_EQ(said.allowed, told.allowed);
  EXPECT_EQ(said.matched, told.matched);
  EXPECT_EQ(said.remaining, told.remaining);
  if (said.matched) {
    EXPECT_EQ(said.allowed ? said.reset_after.us : said.retry_after.us, told.more_after.us);
  }
  if (told.slots.empty()) return;
  const auto& decisions = steps.back().decisions;
  ASSERT_EQ(decisions.size(), told.slots.size());
  for (size_t i = 0; i < decisions.size(); ++i) {
    EXPECT_EQ(decisions[i].allowed, told.slots[i].allowed);
    EXPECT_EQ(decisions[i].remaining, told.slots[i].remaining);
    EXPECT_EQ(decisions[i].limit.quota, told.slots[i].limit);
  }
}

TEST(Explain, PredictsTheAnswerOfTheNextTake) {
  std::array<size_t, 3> allowed{}, refused{};
  size_t waiting = 0, stopped = 0, overridden = 0;
  for (uint32_t seed = 1; seed <= 400; ++seed) {
    Dice dice(seed);
    request::Spaces spaces;
    std::string text;
    now_us = start_us;
    World world(random_rules(dice, spaces, text), spaces);
    if (seed % 2 == 0) set_overrides(dice, spaces, world);
    for (int step = 0; step < 60; ++step) {
      if (dice(3) == 0) now_us += dice(int64_t{3'000'000});
      world.engine.advance();
      const ExplainedRequest asked = random_request(dice);
      if (asked.dialect == &limitd::dialect && dice(3) == 0) {
        const bool puts = dice(3) == 0;
        world.ask(asked, puts ? request::Verb::put : request::Verb::wait);
        waiting += world.store.stats().waiting;
        continue;
      }
      if (dice(30) == 0) {
        world.ask(asked, request::Verb::take_anew);
        continue;
      }
      std::vector<ExplainedStep> steps, again;
      const uint64_t counters = world.store.stats().counters;
      const ExplainedVerdict said = world.explain(asked, steps);
      EXPECT_EQ(world.store.stats().counters, counters);
      const ExplainedVerdict repeated = world.explain(asked, again);
      EXPECT_EQ(repeated.remaining, said.remaining);
      expect_told_as_explained(said, steps, world.ask(asked, request::Verb::take));
      ++(said.allowed ? allowed : refused)[place_of(asked.dialect)];
      stopped += steps.size() > 1 ? 1u : 0u;
      overridden += std::any_of(steps.begin(), steps.end(),
                                [](const ExplainedStep& one) { return one.override_id != 0; });
      ASSERT_FALSE(HasFailure()) << "seed " << seed << " step " << step << "\n" << text;
    }
  }
  for (size_t i = 0; i < allowed.size(); ++i) {
    EXPECT_GT(allowed[i], 500u) << i;
    EXPECT_GT(refused[i], 500u) << i;
  }
  EXPECT_GT(waiting, 1'000u);
  EXPECT_GT(stopped, 1'000u);
  EXPECT_GT(overridden, 1'000u);
}

// Each counter that rules create is found by its name, and its state agrees with the replies.
TEST(Counters, AreSetResetAndFoundByTheirNames) {
  size_t set = 0, refused = 0, found = 0;
  for (uint32_t seed = 1; seed <= 100; ++seed) {
    Dice dice(seed);
    request::Spaces spaces;
    std::string text;
    now_us = start_us;
    World world(random_rules(dice, spaces, text), spaces);
    if (seed % 2 == 0) set_overrides(dice, spaces, world);
    for (int step = 0; step < 30; ++step) {
      now_us += dice(int64_t{2'000'000});
      world.ask(random_request(dice), request::Verb::take);
    }
    uint64_t version = 0;
    const LiveCounters counters(*world.live.current()->rules, world.overrides.spaces(version));
    const auto stored = world.store.scan_page(counters.spaces(), "", "", 100, "");
    found += stored.keys.size();
    for (const std::string& name : stored.keys) {
      if (counters.find(name, {now_us}, &world.overrides).rule == nullptr) continue;
      const CounterState before = world.change(name, CounterQuery::Change::none, 0);
      ASSERT_EQ(before.error, request::Error::none);
      for (const CounterLimit& one : before.limits) {
        EXPECT_EQ(one.allowed, one.remaining >= 1) << name;
        EXPECT_EQ(one.allowed, one.retry_after.us == 0) << name;
        refused += one.allowed ? 0u : 1u;
      }
      const CounterState fresh = world.change(name, CounterQuery::Change::forget, 0);
      int64_t most = INT64_MAX;
      for (const CounterLimit& one : fresh.limits) {
        const int64_t whole = one.limit.burst > 0 ? one.limit.burst : one.limit.quota;
        if (!has_counter(one.limit.algorithm)) continue;
        EXPECT_EQ(one.remaining, whole) << name;
        most = std::min(most, whole);
      }
      if (most == INT64_MAX) continue;
      const int64_t used = dice(most + 1);
      const CounterState after = world.change(name, CounterQuery::Change::set, used);
      for (const CounterLimit& one : after.limits) {
        if (!has_counter(one.limit.algorithm)) continue;
        EXPECT_EQ(one.remaining, (one.limit.burst > 0 ? one.limit.burst : one.limit.quota) - used);
        ++set;
      }
      // A request to use more units than a fresh counter has changes nothing.
      const CounterState same = world.change(name, CounterQuery::Change::set, most + 1);
      for (size_t i = 0; i < same.limits.size(); ++i)
        EXPECT_EQ(same.limits[i].remaining, after.limits[i].remaining);
      ASSERT_FALSE(HasFailure()) << "seed " << seed << " " << name << "\n" << text;
    }
  }
  EXPECT_GT(found, 500u);
  EXPECT_GT(set, 100u);
  EXPECT_GT(refused, 50u);
}

}  // namespace
}  // namespace sluice::admin::explain_test
