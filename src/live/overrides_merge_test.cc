// Overrides that replace some limits of their rule, through the admin port's handlers, a metadata
// store and changing policies: which limits are in force, and which the kept text has.
#include <gtest/gtest.h>
#include <spdlog/sinks/null_sink.h>

#include <map>

#include "live/override_registry.h"
#include "policy/read/native.h"

namespace sluice::live::overrides_merge_test {
namespace {

int64_t now_us = 1'800'000'000'000'000;

// A store that several servers share; `tell` reports a change to the last one that watches.
struct SharedTexts final : store::MetadataStore {
  base::Done read(const std::function<void(std::string_view, std::string_view)>& visit) override {
    for (const auto& [name, text] : kept) visit(name, text);
    return {};
  }
  WriteResult write(std::span<const Change> changes) override {
    if (fails) return {Written::no, {"it fails"}};
    for (const Change& change : changes) {
      if (change.only_if && kept[change.name] != *change.only_if) continue;
      if (change.text)
        kept[change.name] = *change.text;
      else
        kept.erase(change.name);
      ++writes;
    }
    return {};
  }
  bool is_shared() const override { return true; }
  void watch(std::shared_ptr<Watcher> its) override { watcher = std::move(its); }
  void tell(const std::string& name) {
    const Change change{name, kept.at(name)};
    const std::lock_guard order(watcher->order);
    watcher->changed({&change, 1});
  }
  std::string only_text() const { return kept.size() == 1 ? kept.begin()->second : ""; }

  std::map<std::string, std::string> kept;
  std::shared_ptr<Watcher> watcher;
  bool fails = false;
  int writes = 0;
};

std::string rule_of(const std::string& limits) {
  return "rules:\n- { name: api, match: { ip: '*' }, actor: ip, limits: [" + limits + "] }\n";
}
const std::string second = "{ quota: 10, window: 1s }", day = "{ quota: 1000, window: 1d }";

struct Fixture {
  explicit Fixture(store::MetadataStore* metadata = nullptr,
                   const std::string& rules = rule_of(second + ", " + day)) {
    live.exchange(policy(rules));
    registry.emplace(OverrideRegistry::Deps{.spaces = spaces,
                                            .live = live,
                                            .clock = clock,
                                            .metadata = metadata,
                                            .changed = [this] { ++changes; },
                                            .log = log});
    EXPECT_EQ(registry->load(), std::nullopt);
  }
  std::shared_ptr<const LivePolicy> policy(const std::string& rules) {
    auto set = std::make_shared<policy::RuleSet>();
    base::Diagnostics diagnostics;
    policy::read_native(rules, "test.yaml", spaces, *set, diagnostics);
    EXPECT_FALSE(base::has_errors(diagnostics));
    return std::make_shared<LivePolicy>(LivePolicy{std::move(set), 0, ++generation});
  }
  void reload(const std::string& rules) {
    live.exchange(policy(rules));
    registry->housekeep();
  }
  const policy::Rule& rule() const { return live.current()->rules->native_rules().front(); }
  // Sets an override from the body of a POST, as the admin port does.
  OverrideProblem post(const std::string& body) {
    const wire::Json json = wire::Json::parse(body);
    auto named = std::make_shared<NamedRule>();
    named->dialect = "native";
    named->name = "api";
    named->actor = rule().actor;
    named->id = rule().id;
    named->limits = rule().limits;
    std::vector<OverrideRequest> all(1);
    all[0].one.rule = named;
    all[0].one.actor = "a";
    if (auto problem = read_limits(json, *named, all[0].limits, all[0].one.persisted_own))
      return problem;
    std::vector<bool> fresh;
    return registry->set(all, fresh);
  }
  // The limits in force: "100/1 1000/86400" are 100 a second and 1,000 a day.
  std::string holds() const {
    policy::Override::Terms terms;
    const auto held = registry->table().hold();
    if (!registry->table().find(rule().id, "a", clock.now(), terms)) return "the rule's";
    std::string text;
    for (const limit::Limit& one : terms.limits)
      text += (text.empty() ? "" : " ") + std::to_string(one.quota) + "/" +
              std::to_string(one.window.us / 1'000'000);
    return text;
  }
  wire::Json shown() const {
    const auto page = registry->list(0, 10, {});
    return page.items.size() == 1 ? to_json(page.items[0], registry->spaces(), true) : wire::Json();
  }
  // Which of the shown limits are the rule's ("r") and which the override's ("-").
  std::string whose() const {
    const wire::Json json = shown();
    std::string text;
    for (const wire::Json& one : json.at("limits")) text += one.contains("of_rule") ? 'r' : '-';
    return text + (json.at("all_limits") == true ? " all" : "");
  }

  std::shared_ptr<spdlog::logger> log =
      std::make_shared<spdlog::logger>("test", std::make_shared<spdlog::sinks::null_sink_mt>());
  request::Spaces spaces;
  mutable base::Clock clock{{[] { return now_us; }, [] { return now_us; }}};
  Live live{LivePolicy{std::make_shared<policy::RuleSet>()}};
  uint64_t generation = 1;
  int changes = 0;
  std::optional<OverrideRegistry> registry;
};

// The limits in a kept text.
std::string kept_limits(const std::string& text) {
  std::string limits;
  const wire::Json json = wire::Json::parse(text);
  for (const wire::Json& one : json.at("limits"))
    limits += (limits.empty() ? "" : " ") + std::to_string(one[1].get<int64_t>()) + "/" +
              std::to_string(one[2].get<int64_t>() / 1'000'000);
  return limits;
}

TEST(OverridesMerge, ALimitReplacesTheOneOfItsWindow) {
  Fixture f;
  EXPECT_FALSE(f.post(R"({"limit":{"quota":100,"window":"1000ms"}})"));
  EXPECT_EQ(f.holds(), "100/1 1000/86400");
  EXPECT_EQ(f.whose(), "-r");
  EXPECT_FALSE(f.post(R"({"limits":[{"quota":9000,"window":"24h"}]})"));
  EXPECT_EQ(f.holds(), "10/1 9000/86400");
  EXPECT_EQ(f.whose(), "r-");
  // An answer can be sent back unchanged.
  EXPECT_FALSE(f.post(f.shown().dump()));
  EXPECT_EQ(f.whose(), "r-");
  EXPECT_FALSE(f.post(R"({"limit":{"quota":100,"window":"1s"},"all_limits":true})"));
  EXPECT_EQ(f.holds(), "100/1");
  EXPECT_EQ(f.whose(), "- all");
  EXPECT_FALSE(f.post(f.shown().dump()));
  EXPECT_EQ(f.whose(), "- all");
  EXPECT_FALSE(f.post(R"({"deny":true})"));
  EXPECT_EQ(f.whose(), "- all");
}

TEST(OverridesMerge, RefusesAWindowThatTheRuleDoesNotHave) {
  Fixture f;
  const auto none = f.post(R"({"limit":{"quota":100,"window":"1m"}})");
  EXPECT_EQ(none.status, 422u);
  EXPECT_EQ(none.field, "limit.window");
  for (const char* const word : {"1s and 1d", "all_limits", "--all-limits"})
    EXPECT_NE(none.why.find(word), std::string::npos) << none.why;
  EXPECT_EQ(f.post(R"({"limits":[{"quota":1,"window":"1s"},{"quota":2,"window":"1s"}]})").field,
            "limits[1].window");
  EXPECT_EQ(f.post(R"({"limit":{"quota":1,"window":"1s"},"all_limits":1})").field, "all_limits");
  EXPECT_EQ(f.post(R"({"limits":[{"quota":1,"window":"1s","of_rule":true}]})").field, "limits");
  EXPECT_EQ(f.holds(), "the rule's");
  // Two limits with one window differ by their algorithms.
  f.reload(rule_of(second + ", { quota: 5, window: 1s, algorithm: sliding_log }"));
  EXPECT_EQ(f.post(R"({"limit":{"quota":7,"window":"1s","algorithm":"fixed_window"}})").field,
            "limit.window");
  EXPECT_FALSE(f.post(R"({"limit":{"quota":7,"window":"1s","algorithm":"sliding_log"}})"));
  EXPECT_EQ(f.holds(), "10/1 7/1");
}

TEST(OverridesMerge, TheOnlyLimitIsReplacedWhateverItsWindow) {
  Fixture f(nullptr, rule_of(second));
  EXPECT_FALSE(f.post(R"({"limit":{"quota":100,"window":"1m"}})"));
  EXPECT_EQ(f.holds(), "100/60");
  EXPECT_EQ(f.whose(), "- all");
  EXPECT_FALSE(f.post(R"({"limit":{"quota":100,"window":"1s"}})"));
  EXPECT_EQ(f.whose(), "-");
  // A limit that the rule gets later is kept.
  f.reload(rule_of(second + ", " + day));
  EXPECT_EQ(f.holds(), "100/1 1000/86400");
}

TEST(OverridesMerge, TheAlgorithmIsTheLimitsByDefault) {
  Fixture f(nullptr, rule_of("{ quota: 10, window: 1s, algorithm: sliding_window }, { quota: 100, "
                             "window: 1h, algorithm: fixed_window }"));
  EXPECT_FALSE(f.post(R"({"limit":{"quota":50,"window":"60m"}})"));
  EXPECT_EQ(f.shown().at("limits")[1].at("algorithm"), "fixed_window");
  EXPECT_FALSE(f.post(R"({"limits":[{"quota":50,"window":"1s"}]})"));
  EXPECT_EQ(f.shown().at("limits")[0].at("algorithm"), "sliding_window");
}

// The other limits are the rule's, also after a reload. If the override cannot be merged any
// longer, the last limits stay in force.
TEST(OverridesMerge, FollowsTheLivePolicy) {
  SharedTexts texts;
  Fixture f(&texts);
  EXPECT_FALSE(f.post(R"({"limit":{"quota":100,"window":"1s"}})"));
  EXPECT_EQ(texts.writes, 1);
  EXPECT_EQ(kept_limits(texts.only_text()), "100/1 1000/86400");
  f.registry->housekeep();
  EXPECT_EQ(texts.writes, 1);
  const int before = f.changes;
  f.reload(rule_of("{ quota: 50, window: 1d }, { quota: 7, window: 1m }, " + second));
  EXPECT_EQ(f.holds(), "50/86400 7/60 100/1");
  EXPECT_EQ(f.whose(), "rr-");
  EXPECT_EQ(f.changes, before + 1);
  EXPECT_EQ(kept_limits(texts.only_text()), "50/86400 7/60 100/1");
  // The rule no longer has the limit: the last limits stay in force, and the text is not written
  // again.
  const std::string text = texts.only_text();
  f.reload(rule_of("{ quota: 1, window: 1d }, { quota: 7, window: 1m }"));
  EXPECT_EQ(f.holds(), "50/86400 7/60 100/1");
  EXPECT_EQ(f.whose(), "--- all");
  EXPECT_EQ(texts.only_text(), text);
  // The rule has the limit again.
  f.reload(rule_of(second + ", { quota: 1, window: 1d }"));
  EXPECT_EQ(f.holds(), "100/1 1/86400");
  EXPECT_EQ(f.whose(), "-r");
  EXPECT_EQ(kept_limits(texts.only_text()), "100/1 1/86400");
  // The rule was removed, and is back.
  const std::string other = rule_of(second);
  f.live.exchange(f.policy("rules:\n- { name: x, match: { ip: '*' }, actor: ip, deny: true }\n"));
  f.registry->housekeep();
  f.reload(rule_of(second + ", { quota: 2, window: 1d }"));
  EXPECT_EQ(f.holds(), "100/1 2/86400");
}

TEST(OverridesMerge, RetriesAFailedRewriteLater) {
  SharedTexts texts;
  Fixture f(&texts);
  EXPECT_FALSE(f.post(R"({"limit":{"quota":100,"window":"1s"}})"));
  texts.fails = true;
  f.reload(rule_of(second + ", { quota: 5, window: 1d }"));
  EXPECT_EQ(f.holds(), "100/1 5/86400");  // in force nevertheless
  texts.fails = false;
  f.registry->housekeep();
  EXPECT_EQ(kept_limits(texts.only_text()), "100/1 1000/86400");
  now_us += 5'000'000;
  f.registry->housekeep();
  EXPECT_EQ(kept_limits(texts.only_text()), "100/1 5/86400");
}

// A start counts as a change of policy: the file may have been edited while no server ran.
TEST(OverridesMerge, FollowsAPolicyThatChangedBeforeAStart) {
  SharedTexts texts;
  {
    Fixture f(&texts);
    EXPECT_FALSE(f.post(R"({"limit":{"quota":100,"window":"1s"}})"));
  }
  Fixture f(&texts, rule_of(second + ", { quota: 5, window: 1d }"));
  EXPECT_EQ(f.holds(), "100/1 5/86400");
  f.registry->housekeep();
  EXPECT_EQ(kept_limits(texts.only_text()), "100/1 5/86400");
}

// `override set --quota 100 --window 1s --all-limits` for this rule.
const std::string recorded =
    R"({"v":1,"dialect":"native","rule":"api","entries":["ip"],"actor":"a",)"
    R"("limits":[["token_bucket",100,1000000,100]],"created_us":1800000000000000})";

TEST(OverridesMerge, ATextWithoutReplacesReplacesAllLimits) {
  now_us = 1'800'000'000'000'000;  // other tests may have moved it
  SharedTexts texts;
  uint64_t id = 0;
  {
    Fixture f(&texts);
    EXPECT_FALSE(f.post(R"({"limit":{"quota":100,"window":"1s"},"all_limits":true})"));
    EXPECT_EQ(texts.only_text(), recorded);
    id = f.registry->list(0, 1, {}).items[0].id();
  }
  texts.kept[id_text(id)] = recorded;
  Fixture f(&texts);
  EXPECT_EQ(f.holds(), "100/1");
  EXPECT_EQ(f.whose(), "- all");
  f.reload(rule_of(second + ", " + day + ", { quota: 3, window: 1h }"));
  EXPECT_EQ(f.holds(), "100/1");
  EXPECT_EQ(texts.only_text(), recorded);
  // Another server replaces an override of ours.
  EXPECT_FALSE(f.post(R"({"limit":{"quota":50,"window":"1s"}})"));
  EXPECT_EQ(f.whose(), "-rr");
  texts.kept[id_text(id)] = recorded;
  texts.tell(id_text(id));
  EXPECT_EQ(f.whose(), "- all");
}

// Two servers with policies that change in any order: once both have the same policy, both decide
// the same, and the kept text says so.
TEST(OverridesMerge, ServersAgree) {
  SharedTexts texts;
  Fixture one(&texts);
  const auto watcher = texts.watcher;
  Fixture two(&texts);
  uint64_t dice = 7;
  const auto roll = [&dice](uint64_t sides) {
    dice = dice * 6364136223846793005u + 1442695040888963407u;
    return (dice >> 33) % sides;
  };
  const auto tell = [&] {
    const store::MetadataStore::Change change{texts.kept.begin()->first, texts.only_text()};
    const std::shared_ptr<store::MetadataStore::Watcher> all[] = {watcher, texts.watcher};
    for (const auto& its : all) {
      const std::lock_guard order(its->order);
      its->changed({&change, 1});
    }
  };
  for (int round = 0; round < 300; ++round) {
    std::string rules = rule_of("{ quota: " + std::to_string(1 + roll(9)) + ", window: 1s }" +
                                (roll(2) == 0 ? ", " : ", { quota: 6, window: 1m }, ") +
                                "{ quota: " + std::to_string(100 + roll(9)) + ", window: 1d }");
    Fixture& first = roll(2) == 0 ? one : two;
    Fixture& other = &first == &one ? two : one;
    if (roll(3) == 0) {
      const char* const window = roll(2) == 0 ? "1s" : "1d";
      EXPECT_FALSE(other.post(R"({"limit":{"quota":)" + std::to_string(20 + roll(50)) +
                              R"(,"window":")" + window + R"("}})"));
      tell();
    }
    if (texts.kept.empty()) continue;
    first.reload(rules);
    if (roll(2) == 0) tell();
    other.reload(rules);
    tell();
    ASSERT_EQ(first.holds(), other.holds()) << round;
    ASSERT_EQ(first.whose(), other.whose()) << round;
    ASSERT_EQ(kept_limits(texts.only_text()), first.holds()) << round;
  }
}

TEST(OverridesMerge, RefusesATextThatNamesALimitItDoesNotHave) {
  SharedTexts texts;
  Fixture f(&texts);
  EXPECT_FALSE(f.post(R"({"limit":{"quota":100,"window":"1s"}})"));
  const std::string name = texts.kept.begin()->first;
  wire::Json json = wire::Json::parse(texts.only_text());
  EXPECT_EQ(json.at("replaces"), wire::Json::array({0}));
  for (const char* wrong :
       {"[2]", "[-1]", "[8]", "[0,64]", "[\"0\"]", "[[0]]", "[null]", "[0.5]"}) {
    json["replaces"] = wire::Json::parse(wrong);
    EXPECT_FALSE(read_persisted(name, json.dump())) << wrong;
  }
}

}  // namespace
}  // namespace sluice::live::overrides_merge_test
