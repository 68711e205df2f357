// The registry of overrides (live/override_registry.h) over a metadata store that may fail and that
// other servers may write to.
#include "live/override_registry.h"

#include <gtest/gtest.h>
#include <spdlog/sinks/ostream_sink.h>

#include <map>
#include <sstream>
#include <thread>

#include "base/bounds.h"
#include "policy/read/native.h"

namespace sluice::live::overrides_book_test {
namespace {

int64_t now_us = 1'800'000'000'000'000;

// A metadata store in memory, which may fail, and to which other servers may write.
struct FakeMetadataStore final : store::MetadataStore {
  using enum Written;
  base::Done read(const std::function<void(std::string_view, std::string_view)>& visit) override {
    if (fails) return base::Problem{"it fails"};
    for (const auto& [name, text] : kept) visit(name, text);
    return {};
  }
  WriteResult write(std::span<const Change> changes) override {
    while_writing();
    if (fails) return {failure, {"it fails"}};
    ++writes;
    for (const Change& change : changes) {
      if (change.only_if && kept[change.name] != *change.only_if) continue;
      if (change.text)
        kept[change.name] = *change.text;
      else
        kept.erase(change.name);
    }
    return {};
  }
  bool is_shared() const override { return shared; }
  void watch(std::shared_ptr<Watcher> its) override { watcher = std::move(its); }
  void tell(const Change& change) {
    const std::lock_guard order(watcher->order);
    watcher->changed({&change, 1});
  }

  std::map<std::string, std::string> kept;
  std::shared_ptr<Watcher> watcher;
  std::function<void()> while_writing = [] {};
  bool fails = false, shared = false;
  Written failure = no;
  int writes = 0;
};

struct Fixture {
  explicit Fixture(store::MetadataStore* metadata = nullptr,
                   size_t limits_max = base::bounds::override_limits_max) {
    auto set = std::make_shared<policy::RuleSet>();
    base::Diagnostics diagnostics;
    policy::read_native(
        "rules:\n- { name: api, match: { ip: '*' }, actor: ip, limit: { quota: 3, window: 1h } }\n",
        "test.yaml", spaces, *set, diagnostics);
    live.exchange(std::make_shared<LivePolicy>(LivePolicy{std::move(set), 0, 2}));
    registry = std::make_unique<OverrideRegistry>(OverrideRegistry::Deps{
        spaces, live, clock, metadata, [this] { ++changes; }, log, limits_max});
  }
  OverrideRequest make(const std::string& actor, int64_t quota = 10, int64_t until_us = INT64_MAX) {
    OverrideRequest asked;
    StoredOverride& one = asked.one;
    const policy::Rule& rule = live.current()->rules->native_rules().front();
    one.rule =
        std::make_shared<const NamedRule>(NamedRule{"native", "api", rule.actor, "", rule.id});
    one.actor = actor;
    asked.limits = {{limit::Algorithm::token_bucket, quota, base::seconds(60), quota}};
    one.until = {until_us};
    return asked;
  }
  OverrideProblem set(std::vector<OverrideRequest> all) {
    fresh.clear();
    return registry->set(all, fresh);
  }
  // The quota in force for an actor; 0: the rule's own.
  int64_t quota(const std::string& actor) const {
    policy::Override::Terms terms;
    const auto held = registry->table().hold();
    const uint64_t rule = live.current()->rules->native_rules().front().id;
    return registry->table().find(rule, actor, clock.now(), terms) ? terms.limits.front().quota : 0;
  }

  std::ostringstream told;
  std::shared_ptr<spdlog::logger> log = std::make_shared<spdlog::logger>(
      "test", std::make_shared<spdlog::sinks::ostream_sink_mt>(told));
  request::Spaces spaces;
  mutable base::Clock clock{{[] { return now_us; }, [] { return now_us; }}};
  Live live{LivePolicy{std::make_shared<policy::RuleSet>()}};
  int changes = 0;
  std::vector<bool> fresh;
  std::unique_ptr<OverrideRegistry> registry;
};

TEST(OverrideRegistry, StoresAnOverrideAndLoadsItAgain) {
  FakeMetadataStore metadata;
  uint64_t id = 0;
  {
    Fixture f(&metadata);
    ASSERT_EQ(f.registry->load(), std::nullopt);
    auto one = f.make("10.*", 7, now_us + 1'000'000);
    one.one.comment = "until Friday";
    id = one.one.id();
    EXPECT_FALSE(f.set({one, f.make("10.0.0.1", 9)}));
    EXPECT_EQ(metadata.writes, 1);
    EXPECT_EQ(f.fresh, (std::vector<bool>{true, true}));
    EXPECT_EQ(f.changes, 1);
    EXPECT_FALSE(f.set({f.make("10.0.0.1", 8)}));
    EXPECT_EQ(f.fresh, std::vector<bool>{false});
    EXPECT_EQ(f.registry->table().size(), 2u);
  }
  Fixture f(&metadata);
  ASSERT_EQ(f.registry->load(), std::nullopt);
  EXPECT_EQ(f.quota("10.0.0.1"), 8);
  EXPECT_EQ(f.quota("10.0.0.2"), 7);
  const auto found = f.registry->find(id);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->comment, "until Friday");
  EXPECT_EQ(found->until.us, now_us + 1'000'000);
  EXPECT_EQ(found->created.us, now_us);
  EXPECT_TRUE(f.registry->applies(*found->rule));
  StoredOverride was;
  EXPECT_FALSE(f.registry->remove(id, was));
  EXPECT_EQ(f.registry->remove(id, was).status, 404u);
  EXPECT_EQ(metadata.kept.size(), 1u);
  EXPECT_EQ(f.quota("10.0.0.2"), 0);
}

TEST(OverrideRegistry, DoesNotApplyAnOverrideThatCannotBeStored) {
  FakeMetadataStore metadata;
  Fixture f(&metadata);
  EXPECT_FALSE(f.set({f.make("a")}));
  metadata.fails = true;
  EXPECT_EQ(f.set({f.make("b")}).status, 503u);
  EXPECT_EQ(f.quota("b"), 0);
  StoredOverride was;
  EXPECT_EQ(f.registry->remove(f.make("a").one.id(), was).status, 503u);
  EXPECT_EQ(f.quota("a"), 10);
  EXPECT_NE(f.registry->load().value_or("").find("it fails"), std::string::npos);
}

TEST(OverrideRegistry, ReportsAnUnreadableStoredTextAndLeavesIt) {
  FakeMetadataStore metadata;
  {
    Fixture f(&metadata);
    EXPECT_FALSE(f.set({f.make("a")}));
  }
  const auto [name, text] = *metadata.kept.begin();
  // A text that is cut anywhere, or has one other byte, is refused or is still an override.
  Fixture reader;
  size_t refused = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    refused += !read_persisted(name, text.substr(0, i));
    for (const char c : {'0', '-', '"', '[', 'x', '\xff'}) {
      std::string other = text;
      other[i] = c;
      if (auto asked = read_persisted(name, other)) {
        EXPECT_EQ(id_text(asked->one.id()), name);
        EXPECT_FALSE(intern(*asked, reader.spaces, SIZE_MAX));
        compiled(asked->one, reader.spaces);
        // What was read is written and read again without a change.
        const std::string again = persisted_text(asked->one, asked->limits);
        const auto same = read_persisted(name, again);
        ASSERT_TRUE(same) << same.problem().text;
        EXPECT_EQ(persisted_text(same->one, same->limits), again);
      } else {
        ++refused;
      }
    }
  }
  EXPECT_GT(refused, text.size());
  metadata.kept["o-0000000000000001"] = text;
  metadata.kept["x"] = "{}";
  metadata.kept[id_text(7)] = "{\"v\":2}";
  Fixture f(&metadata);
  EXPECT_EQ(f.registry->load(), std::nullopt);
  EXPECT_EQ(f.quota("a"), 10);
  EXPECT_EQ(f.registry->table().size(), 1u);
  EXPECT_EQ(metadata.kept.size(), 4u);
  const std::vector<std::string> wanted = {"o-0000000000000001", "the override x is", id_text(7),
                                           "another version than 1"};
  for (const std::string& said : wanted)
    EXPECT_NE(f.told.str().find(said), std::string::npos) << said;
}

TEST(OverrideRegistry, RejectsInvalidStoredTexts) {
  FakeMetadataStore metadata;
  {
    Fixture f(&metadata);
    EXPECT_FALSE(f.set({f.make("a")}));
  }
  const std::string name = metadata.kept.begin()->first;
  const wire::Json good = wire::Json::parse(metadata.kept.begin()->second);
  const auto why = [&](const wire::Json& json) {
    const auto asked = read_persisted(name, json.dump());
    return asked ? "" : asked.problem().text;
  };
  const auto with = [&](const char* key, const wire::Json& value) {
    wire::Json json = good;
    json[key] = value;
    return why(json);
  };
  const wire::Json limit = good["limits"][0];
  EXPECT_EQ(why(good), "");
  // Members that this version does not know, as a later version may write them.
  EXPECT_EQ(with("more", {{"limits", 1}, {"list", {1, {{"actor", "x"}}, "x"}}}), "");
  EXPECT_EQ(with("until_us", nullptr), "");
  EXPECT_EQ(why(wire::Json::array({good})), "it is not a JSON object");
  EXPECT_EQ(with("v", "1"), "it is of another version than 1");
  for (const char* key : {"dialect", "rule", "actor", "entries", "limits"}) {
    EXPECT_EQ(with(key, 1), "it lacks what an override has") << key;
    EXPECT_EQ(with(key, {{"0", "x"}}), "it lacks what an override has") << key;
  }
  for (const wire::Json& entries :
       {wire::Json{1}, wire::Json{{"u"}}, wire::Json{{{"u", "u"}}}, wire::Json{nullptr}})
    EXPECT_EQ(with("entries", entries), "its entries are not texts") << entries;
  for (const char* wrong :
       {"1", "[]", "{}", "null", "[1,1,1,1]", R"(["token_bucket",1,1])",
        R"(["token_bucket",1,1,1,1])", R"(["token_bucket","1",1,1])", R"(["token_bucket",1.5,1,1])",
        R"(["token_bucket",[1],1,1])", R"(["token_bucket",{"x":1},1,1])", R"(["none",1,1,1])"}) {
    const wire::Json list = wire::Json::array({limit, wire::Json::parse(wrong)});
    EXPECT_EQ(with("limits", list), "its limit 1 is none") << wrong;
  }
  // A network without `cidr` is stored as a text.
  EXPECT_EQ(with("actor", "regex(/a/)").substr(0, 6), "actor:");
  EXPECT_EQ(with("actor", "[a").substr(0, 6), "actor:");
  EXPECT_NE(with("actor", "2001:db8::/64").substr(0, 6), "actor:");
  EXPECT_EQ(with("limits", wire::Json::array()).substr(0, 7), "limits:");
  EXPECT_EQ(with("limits", wire::Json(100, limit)).substr(0, 7), "limits:");
}

// An override of a server with more protocols: it stays stored, and applies to no rule here.
TEST(OverrideRegistry, AnOverrideOfAnUnknownDialectIsKept) {
  FakeMetadataStore metadata;
  {
    Fixture f(&metadata);
    EXPECT_FALSE(f.set({f.make("a")}));
  }
  wire::Json json = wire::Json::parse(metadata.kept.begin()->second);
  json["dialect"] = "ftp";
  StoredOverride one;
  one.actor = "a";
  NamedRule rule;
  rule.id = policy::rule_id("ftp", json["rule"].get<std::string>(), std::vector<std::string>{"ip"});
  one.rule = std::make_shared<const NamedRule>(rule);
  const std::string name = id_text(one.id()), text = json.dump();
  metadata.kept = {{name, text}};

  Fixture f(&metadata);
  EXPECT_EQ(f.registry->load(), std::nullopt);
  EXPECT_EQ(f.told.str().find("[warning]"), std::string::npos) << f.told.str();
  const auto known = f.registry->find(one.id());
  ASSERT_TRUE(known);
  EXPECT_EQ(known->rule->dialect, "ftp");
  EXPECT_EQ(known->rule->rules_of, nullptr);
  EXPECT_FALSE(f.registry->applies(*known->rule));
  EXPECT_EQ(f.quota("a"), 0);
  EXPECT_EQ(metadata.kept.at(name), text);
}

TEST(OverrideRegistry, AppliesOverridesOfOtherServers) {
  FakeMetadataStore metadata, others;
  Fixture f(&metadata), other(&others);
  EXPECT_EQ(f.registry->load(), std::nullopt);
  EXPECT_FALSE(other.set({other.make("a", 5)}));
  const auto [name, text] = *others.kept.begin();
  const store::MetadataStore::Change set{name, text}, gone{name, std::nullopt};
  metadata.tell(set);
  EXPECT_EQ(f.quota("a"), 5);
  EXPECT_EQ(f.changes, 1);
  metadata.tell(gone);
  EXPECT_EQ(f.quota("a"), 0);
  EXPECT_EQ(f.changes, 2);
  EXPECT_EQ(metadata.writes, 0);
  f.registry.reset();
  metadata.tell(set);  // the store may still report changes then
}

TEST(OverrideRegistry, SetsAListAllOrNothing) {
  Fixture f;
  EXPECT_EQ(f.set({f.make("a"), f.make("b"), f.make("a", 3)}).field, "[2].actor");
  EXPECT_EQ(f.registry->table().size(), 0u);
  std::vector<OverrideRequest> alike;
  for (size_t i = 0; i <= base::bounds::overrides_alike_max; ++i)
    alike.push_back(f.make("*" + std::to_string(i)));
  const auto problem = f.set(alike);
  EXPECT_EQ(problem.status, 507u);
  EXPECT_EQ(problem.field, "[64].actor");
  EXPECT_EQ(f.registry->table().size(), 0u);
  alike.pop_back();
  EXPECT_FALSE(f.set(alike));
  EXPECT_FALSE(f.set(alike));  // each replaces itself
  EXPECT_EQ(f.set({f.make("*x")}).status, 507u);
}

TEST(OverrideRegistry, ForgetsExpiredOverrides) {
  FakeMetadataStore metadata;
  Fixture f(&metadata);
  EXPECT_FALSE(f.set({f.make("a", 5, now_us + 10), f.make("b", 5, now_us + 20), f.make("c")}));
  now_us += 10;
  metadata.fails = true;
  const auto total = [&f] { return f.registry->list(0, 10, {}).total; };
  f.registry->housekeep();
  EXPECT_EQ(f.changes, 2);
  EXPECT_EQ(f.registry->table().size(), 2u);
  EXPECT_EQ(total(), 3u);
  metadata.fails = false;
  f.registry->housekeep();
  EXPECT_EQ(total(), 3u);  // tried again only after a while
  now_us += 5'000'000;
  f.registry->housekeep();
  EXPECT_EQ(f.registry->table().size(), 1u);
  EXPECT_EQ(total(), 1u);
  EXPECT_EQ(metadata.kept.size(), 1u);
  EXPECT_EQ(f.changes, 3);
}

// Two servers with one metadata store. A server that does not know yet that the other one has set
// an override again must not forget that one. A server whose clock is ahead must not end an
// override for the other one.
TEST(OverrideRegistry, DoesNotForgetAnOverrideThatAnotherServerRenewed) {
  FakeMetadataStore metadata;
  metadata.shared = true;
  Fixture f(&metadata), other(&metadata);
  EXPECT_EQ(f.registry->load(), std::nullopt);
  EXPECT_FALSE(f.set({f.make("a", 5, now_us + 10), f.make("b", 5, now_us + 10)}));
  EXPECT_FALSE(other.set({other.make("a", 7)}));
  now_us += 10;
  f.registry->housekeep();
  EXPECT_EQ(f.changes, 2);
  EXPECT_EQ(f.registry->table().size(), 0u);
  EXPECT_EQ(metadata.kept.size(), 2u);
  now_us += OverrideRegistry::clocks_differ.us - 1;
  f.registry->housekeep();
  EXPECT_EQ(metadata.kept.size(), 2u);
  now_us += 1;
  f.registry->housekeep();
  EXPECT_EQ(f.registry->list(0, 10, {}).total, 0u);
  ASSERT_EQ(metadata.kept.size(), 1u);
  metadata.tell({metadata.kept.begin()->first, metadata.kept.begin()->second});
  EXPECT_EQ(f.quota("a"), 7);
  f.registry->housekeep();
  EXPECT_EQ(f.quota("a"), 7);
  // An expired override that is set again before it is forgotten.
  EXPECT_FALSE(f.set({f.make("b", 5, now_us + 10)}));
  now_us += 10;
  f.registry->housekeep();
  EXPECT_EQ(f.quota("b"), 0);
  EXPECT_FALSE(f.set({f.make("b", 6)}));
  now_us += OverrideRegistry::clocks_differ.us;
  f.registry->housekeep();
  EXPECT_EQ(f.quota("b"), 6);
  EXPECT_EQ(metadata.kept.size(), 2u);
}

// An expired override no longer counts among those that begin alike, so setting it again needs
// room.
TEST(OverrideRegistry, AnExpiredOverrideNeedsRoomToBeSetAgain) {
  FakeMetadataStore metadata;
  metadata.shared = true;
  Fixture f(&metadata);
  std::vector<OverrideRequest> alike;
  for (size_t i = 0; i < base::bounds::overrides_alike_max; ++i)
    alike.push_back(f.make("*" + std::to_string(i), 5, i == 0 ? now_us + 10 : INT64_MAX));
  EXPECT_FALSE(f.set(alike));
  now_us += 10;
  f.registry->housekeep();
  EXPECT_FALSE(f.set({f.make("*x")}));
  EXPECT_EQ(f.set({f.make("*0")}).status, 507u);
  StoredOverride was;
  EXPECT_FALSE(f.registry->remove(f.make("*x").one.id(), was));
  EXPECT_FALSE(f.set({f.make("*0", 6)}));
  EXPECT_EQ(f.quota("z0"), 6);
}

TEST(OverrideRegistry, AStartCountsUnexpiredOverrides) {
  FakeMetadataStore metadata;
  {
    Fixture f(&metadata);
    EXPECT_FALSE(f.set({f.make("a", 5, now_us + 10), f.make("b")}));
  }
  now_us += 10;
  Fixture f(&metadata);
  EXPECT_EQ(f.registry->load(), std::nullopt);
  EXPECT_NE(f.told.str().find(" 1 overrides are in force"), std::string::npos) << f.told.str();
}

// A server stops, and its metadata store still reports a change.
TEST(OverrideRegistry, ReportsNoChangeAfterItsEnd) {
  FakeMetadataStore metadata, others;
  Fixture f(&metadata), other(&others);
  EXPECT_EQ(f.registry->load(), std::nullopt);
  EXPECT_FALSE(other.set({other.make("a", 5)}));
  f.registry->end();
  metadata.tell({others.kept.begin()->first, others.kept.begin()->second});
  EXPECT_EQ(f.changes, 0);
}

TEST(OverrideRegistry, ReportsWhenItIsUnknownWhetherAnOverrideWasStored) {
  FakeMetadataStore metadata;
  Fixture f(&metadata);
  metadata.fails = true;
  EXPECT_NE(f.set({f.make("a")}).why.find("nothing was changed"), std::string::npos);
  metadata.failure = FakeMetadataStore::maybe;
  for (int i = 0; i < 2; ++i) {
    const auto problem = f.set({f.make("a")});
    EXPECT_EQ(problem.status, 503u);
    EXPECT_NE(problem.why.find("it is unknown whether it was kept"), std::string::npos)
        << problem.why;
  }
  EXPECT_EQ(f.quota("a"), 0);
}

TEST(OverrideRegistry, ReadersDoNotWaitForTheStore) {
  FakeMetadataStore metadata;
  Fixture f(&metadata);
  EXPECT_FALSE(f.set({f.make("a")}));
  size_t looks = 0;
  // These calls are made by the thread that writes: if they waited for the write, they would never
  // return.
  metadata.while_writing = [&] {
    looks += f.registry->list(0, 10, {}).total;
    looks += f.registry->find(f.make("a").one.id()).has_value();
    std::thread([&] { f.registry->housekeep(); }).join();
  };
  EXPECT_FALSE(f.set({f.make("b")}));
  EXPECT_EQ(looks, 2u);
}

TEST(OverrideRegistry, AnUnreadableReplacementEndsTheOverride) {
  FakeMetadataStore metadata;
  Fixture f(&metadata);
  EXPECT_EQ(f.registry->load(), std::nullopt);
  EXPECT_FALSE(f.set({f.make("a", 5)}));
  metadata.tell({metadata.kept.begin()->first, "{\"v\":2}"});
  EXPECT_EQ(f.quota("a"), 0);
  EXPECT_NE(f.told.str().find("is kept and not in force"), std::string::npos);
}

TEST(OverrideRegistry, BoundsTheNumberOfNewLimits) {
  FakeMetadataStore metadata;
  Fixture f(&metadata, 4);  // the rule's list is the first
  EXPECT_EQ(f.registry->load(), std::nullopt);
  // A refused request interns no list of limits.
  for (int i = 0; i < 10; ++i) {
    const auto twice = f.set({f.make("a", 100 + i), f.make("a", 100 + i)});
    EXPECT_EQ(twice.status, 422u);
  }
  EXPECT_FALSE(f.set({f.make("a", 1), f.make("b", 2), f.make("c", 3)})) << f.told.str();
  const auto problem = f.set({f.make("d", 1), f.make("e", 4)});
  EXPECT_EQ(problem.status, 507u);
  EXPECT_EQ(problem.field, "[1].limits");
  EXPECT_EQ(f.quota("d"), 0);
  EXPECT_FALSE(f.set({f.make("d", 1)}));
  // Another server's override cannot exceed the bound, either.
  FakeMetadataStore others;
  Fixture other(&others);
  EXPECT_FALSE(other.set({other.make("x", 9)}));
  metadata.tell({others.kept.begin()->first, others.kept.begin()->second});
  EXPECT_EQ(f.quota("x"), 0);
  EXPECT_NE(f.told.str().find("which is the most"), std::string::npos) << f.told.str();
}

TEST(OverrideRegistry, PagesThroughAllOfThem) {
  Fixture f;
  std::vector<OverrideRequest> all;
  for (int i = 0; i < 25; ++i) all.push_back(f.make("k" + std::to_string(i)));
  EXPECT_FALSE(f.set(all));
  size_t seen = 0;
  uint64_t after = 0;
  for (bool more = true; more;) {
    const auto page = f.registry->list(after, 10, {});
    EXPECT_EQ(page.total, 25u);
    for (const auto& one : page.items) EXPECT_GT(one.id(), std::exchange(after, one.id()));
    seen += page.items.size();
    more = page.more;
  }
  EXPECT_EQ(seen, 25u);
  const auto some =
      f.registry->list(0, 3, [](const StoredOverride& o) { return o.actor.size() == 2; });
  EXPECT_EQ(some.total, 10u);
  EXPECT_EQ(some.items.size(), 3u);
  EXPECT_TRUE(some.more);
}

TEST(OverrideText, IdsAreSpelledOneWay) {
  EXPECT_EQ(id_text(1), "o-0000000000000001");
  EXPECT_EQ(parse_id("o-00000000000000ff"), 255u);
  for (const char* text : {"", "o-", "o-1", "o-00000000000000FF", "p-00000000000000ff",
                           "o-00000000000000ff0", "o--000000000000ff", "o-+00000000000000f"})
    EXPECT_FALSE(parse_id(text)) << text;
}

}  // namespace
}  // namespace sluice::live::overrides_book_test
