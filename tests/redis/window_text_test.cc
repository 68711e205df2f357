// Counters that other programs share: plain decimals in a real Redis, one for each window. Against
// a naive model of the values, against the table in memory, and with values that other programs
// wrote.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "limit/wide.h"
#include "tests/redis/both_stores.h"
#include "tests/redis/store_world.h"
#include "tests/support/dice.h"
#include "tests/support/redis_server.h"

namespace sluice::redis::window_text_test {
namespace {

using limit::Algorithm;
using limit::Wide;
using request::Error;
using tests::Dice;

constexpr int64_t start_us = 1'800'000'000'000'000, minute_us = 60'000'000;

Limit per_minute(int64_t quota) {
  return {Algorithm::aligned_window, quota, {minute_us}, 0};
}

request::Space like_window(uint32_t jitter = 0) {
  request::Space like;
  like.encoding = request::KeyEncoding::window_text;
  like.private_bytes = 3;
  like.life_jitter = jitter;
  return like;
}

// The values in Redis and the decisions from them, written as simply as possible.
struct Model {
  std::map<std::string, Wide> values;

  static Wide shown(Wide value) { return std::max<Wide>(0, value); }

  struct Asked {
    std::string name;
    Verb verb;
    int64_t cost, quota;
    bool follows = false;
  };
  struct Said {
    bool allowed;
    Wide remaining;
  };

  Wide value(const std::string& name) const {
    const auto at = values.find(name);
    return at == values.end() ? 0 : at->second;
  }
  static bool fits(Wide value, const Asked& a) {
    if (a.verb == Verb::put || a.verb == Verb::peek) return true;
    if (a.verb == Verb::count) return shown(value + a.cost) <= a.quota;
    return shown(value) + a.cost <= a.quota;
  }
  bool ask(const std::vector<Asked>& group, bool sparing, std::vector<Said>& said) {
    bool all = true;
    for (const Asked& a : group) all &= fits(value(a.name), a);
    said.clear();
    std::map<std::string, Wide> before = values;
    for (const Asked& a : group) {
      const bool there = values.contains(a.name);
      const Wide old = value(a.name);
      const bool its = fits(before.contains(a.name) ? before[a.name] : 0, a);
      Wide now = old;
      bool allowed = fits(old, a);
      if (a.verb == Verb::count && (!sparing || all || !its)) now = old + a.cost;
      if (a.verb == Verb::take && all) now = old + a.cost;
      if (a.verb == Verb::put && all && old > 0) now = std::max<Wide>(0, old - a.cost);
      now = std::min<Wide>(now, INT64_MAX);
      if (now != old || there) values[a.name] = now;
      Wide left = a.quota - shown(now);
      // A spared charge reports the state, and whether that is over its quota already.
      if (a.verb == Verb::count && sparing && !all && its) allowed = left >= 0;
      if (a.verb == Verb::would_take && all) left = a.quota - shown(old + a.cost);
      said.push_back({allowed, left});
    }
    return all;
  }
};

int64_t number_near(Dice& dice, int64_t quota) {
  switch (dice(8)) {
    case 0:
      return INT64_MAX - dice(int64_t{3});
    case 1:
      return (int64_t{1} << 53) - 2 + dice(int64_t{5});
    case 2:
      return 0;
    case 3:
      return quota;
    default:
      return dice(int64_t{6});
  }
}

// Settles random groups in Redis and in the model, and compares the decisions and the values.
class RandomTexts {
 public:
  // Sometimes first writes a value as another program would: of any size, below 0, without an
  // expiry.
  void round() {
    if (dice_(30) == 0) {
      client_({"FLUSHALL"});
      model_.values.clear();
    }
    const int64_t quota_all = dice_(4) == 0 ? INT64_MAX - dice_(int64_t{4}) : dice_(int64_t{9});
    if (dice_(6) == 0) {
      const std::string name = "eu:k" + std::to_string(dice_(3)) + end_;
      const int64_t value = (dice_(2) == 0 ? -1 : 1) * number_near(dice_, quota_all);
      client_({"SET", name, std::to_string(value)});
      model_.values[name] = value;
    }
    const Verb verb = dice_(8) == 0   ? Verb::put
                      : dice_(8) == 0 ? Verb::peek
                      : dice_(8) == 0 ? Verb::would_take
                      : dice_(3) == 0 ? Verb::take
                                      : Verb::count;
    const bool sparing = verb == Verb::count && dice_(2) == 0;
    Question q;
    const std::vector<Model::Asked> asked = random_charges(verb, sparing, quota_all, q);
    bool allowed = false;
    std::string reply;
    ask(q, sparing, allowed, reply);
    if (testing::Test::HasFatalFailure()) return;
    std::vector<Model::Said> said;
    const bool all = model_.ask(asked, sparing, said);
    ASSERT_EQ(allowed, all) << reply;
    ++seen_[{all, verb}];
    for (size_t i = 0; i < asked.size(); ++i) compare(asked[i], said[i], q.decisions[i]);
    ASSERT_LE(client_({"DBSIZE"}).number, 3);
  }
  size_t seen(bool allowed, Verb verb) { return seen_[{allowed, verb}]; }

 private:
  std::vector<Model::Asked> random_charges(Verb verb, bool sparing, int64_t quota_all,
                                           Question& q) {
    const int count = 1 + dice_(3) * dice_(2), first = dice_(3);
    std::vector<Model::Asked> asked;
    std::set<std::string> keys;
    for (int i = 0; i < count; ++i) {
      const bool again = sparing && i > 0 && dice_(3) == 0;
      const std::string key = "k" + std::to_string((first + (again ? i - 1 : i)) % 3);
      const Verb its = verb == Verb::take && dice_(3) == 0 ? Verb::count : verb;
      const int64_t quota = dice_(3) == 0 ? dice_(int64_t{9}) : quota_all;
      const int64_t cost = number_near(dice_, quota);
      q.add(space_, key, {per_minute(quota)}, both_.spaces, its, cost);
      q.charges.back().follows = !keys.insert(key).second;
      asked.push_back({"eu:" + key + end_, its, cost, quota, q.charges.back().follows});
    }
    return asked;
  }
  // A plain command that would overflow is repeated as a script.
  void ask(Question& q, bool sparing, bool& allowed, std::string& text) {
    const limit::Time now{start_us + dice_(minute_us)};
    ScriptCall call{.charges = q.charges,
                    .sparing = sparing,
                    .weight = dice_(2) == 0 ? Weight::light : Weight::full,
                    .key_prefix = "p:",
                    .now = now};
    for (;;) {
      std::string bytes;
      const bool plain = is_plain(call);
      Weight weight;
      if (plain)
        append_plain(bytes, call);
      else
        append_call(bytes, call, script_of(call, scripts_, texts_, weight), false, scripts_,
                    texts_);
      const tests::RedisReply reply = client_.raw(bytes);
      text = reply.text;
      if (plain && reply.is_error()) {
        ASSERT_EQ(text, "ERR increment or decrement would overflow");
        call.weight = Weight::full;
        continue;
      }
      ASSERT_EQ(plain ? read_plain(text, reply.type == tests::RedisReply::Type::nil, q.charges[0],
                                   q.decisions[0], allowed, now)
                      : read_answer(text, q.charges, q.decisions, allowed, now),
                ScriptReply::decided)
          << text;
      return;
    }
  }
  void compare(const Model::Asked& asked, const Model::Said& said, const Decision& decision) {
    const std::string what = asked.name + ": " + std::string(name_of(asked.verb)) + " " +
                             std::to_string(asked.cost) + " of " + std::to_string(asked.quota) +
                             ": " + text_of(decision);
    ASSERT_EQ(decision.allowed, said.allowed) << what;
    ASSERT_EQ(Wide{decision.remaining}, said.remaining) << what;
    ASSERT_EQ(decision.limit, asked.quota);
    const auto value = model_.values.find(asked.name);
    const auto kept = client_({"GET", asked.name});
    ASSERT_EQ(kept.type == tests::RedisReply::Type::nil, value == model_.values.end()) << what;
    if (value != model_.values.end()) {
      ASSERT_EQ(kept.text, std::to_string(static_cast<int64_t>(value->second))) << what;
    }
  }

  Both both_;
  decltype(both_.client()) client_ = both_.client();
  Dice dice_{20261123};
  Scripts scripts_;
  LimitTexts texts_;
  const request::Space& space_ = *both_.spaces.intern("60:eu:", "", like_window());
  const std::string end_ = "_" + std::to_string(start_us / 1'000'000);
  Model model_;
  std::map<std::pair<bool, Verb>, size_t> seen_;
};

TEST(WindowText, AnswersAndStoresLikeTheModel) {
  RandomTexts texts;
  for (int round = 0; round < 6'000; ++round) {
    texts.round();
    ASSERT_FALSE(HasFatalFailure()) << "round " << round;
  }
  for (const Verb verb : {Verb::take, Verb::count, Verb::would_take})
    for (const bool all : {false, true})
      EXPECT_GT(texts.seen(all, verb), 100u) << name_of(verb) << " " << all;
}

// Charges alone, in groups of shared counters, and in groups with counters of sluice's own.
void play(uint32_t seed, Weight least, int rounds, bool with_own) {
  Both both;
  Dice dice(seed);
  const request::Space& shared = *both.spaces.intern("60:m:", "", like_window());
  const request::Space& own = *both.spaces.intern("own/", "");
  for (int round = 0; round < rounds; ++round) {
    both.client()({"FLUSHALL"});
    const std::string key = std::to_string(round) + "-";
    int64_t now = start_us + dice(minute_us);
    for (int step = 0; step < 20; ++step) {
      if (dice(3) > 0) now += dice(minute_us / 3);
      const Verb verb = dice(7) == 0   ? Verb::put
                        : dice(7) == 0 ? Verb::peek
                        : dice(7) == 0 ? Verb::would_take
                        : dice(2) == 0 ? Verb::take
                                       : Verb::count;
      Question q;
      const int count = 1 + dice(3), first = dice(3);
      for (int i = 0; i < count; ++i) {
        const bool its_own = with_own && dice(2) == 0;
        Verb its = verb;
        if (verb == Verb::count && its_own) its = Verb::take;
        q.add(its_own ? own : shared, key + std::to_string((first + i) % 3),
              {its_own ? Limit{Algorithm::fixed_window, 3 + dice(int64_t{6}), {minute_us}}
                       : per_minute(dice(int64_t{12}))},
              both.spaces, its, dice(int64_t{5}));
      }
      if (verb == Verb::put && dice(3) == 0) q.charges[0].all = true;
      if ((verb == Verb::take || verb == Verb::count) && dice(8) == 0)
        q.charges[0].reset_first = true;
      if (verb == Verb::would_take && count == 1 && q.charges[0].space == &shared)
        q.charges[0].before = uint8_t(dice(4));
      ASSERT_EQ(both.ask(q, {now}, least), "")
          << "round " << round << " step " << step << " " << name_of(verb);
    }
  }
}

TEST(WindowText, AnswersAsTheTableDoes) {
  play(1, Weight::light, 150, false);
  play(2, Weight::full, 100, false);
}
TEST(WindowText, SettlesTogetherWithCountersOfSluice) {
  play(3, Weight::light, 120, true);
  play(4, Weight::full, 80, true);
  play(5, Weight::wide, 60, true);
}

class Server : public StoreWorld {
 public:
  explicit Server(const tests::RedisServer& redis) : Server(options_for(redis)) {}
  explicit Server(Options options) : StoreWorld(std::move(options)) { told = now; }
  using StoreWorld::ask;

  // The counter's name in Redis at `now`.
  std::string name(const std::string& key, const Limit& limit) const {
    const int64_t s = limit.window.us / 1'000'000;
    return "m:" + key + "_" + std::to_string(now.us / 1'000'000 / s * s);
  }
  Charge charge(const Limit& limit, int64_t cost, std::string_view key = "k",
                Verb verb = Verb::count, uint32_t jitter = 0) {
    Charge charge;
    charge.space = spaces.intern("60:m:", "", like_window(jitter));
    charge.key = key;
    charge.verb = verb;
    charge.cost = cost;
    charge.limits = {&limit, 1};
    charge.limits_id = spaces.intern_limits({&limit, 1});
    return charge;
  }
  // Settles one charge alone. The answer may be an error.
  Group alone(Charge charge, Decision& decision) {
    std::vector<Group> groups = {{.charge_count = 1}};
    std::vector<Charge> charges = {charge};
    std::vector<Decision> decisions;
    EXPECT_TRUE(ask(groups, charges, decisions, now));
    decision = decisions[0];
    return groups[0];
  }
  Decision count(const Limit& limit, int64_t cost, Verb verb = Verb::count) {
    Decision decision;
    const Group group = alone(charge(limit, cost, "k", verb), decision);
    EXPECT_EQ(group.error, Error::none);
    EXPECT_EQ(group.allowed, decision.allowed);
    return decision;
  }

  base::Time now{start_us + 17'000'001};
};

TEST(WindowText, TheKeyHasTheWindowsStartAndExpiresByItsLength) {
  tests::RedisServer redis;
  Server server(redis);
  auto client = redis.client();
  const Limit five = per_minute(5);
  const Decision first = server.count(five, 2);
  EXPECT_EQ(first.remaining, 3);
  EXPECT_EQ(first.reset_after.us, minute_us - 17'000'001);
  EXPECT_EQ(server.count(five, 4).remaining, -1);
  const auto keys = client({"KEYS", "*"});
  ASSERT_EQ(keys.list.size(), 1u);
  EXPECT_EQ(keys.list[0].text, "m:k_1800000000");
  EXPECT_EQ(client({"GET", "m:k_1800000000"}).text, "6");
  EXPECT_LE(client({"TTL", "m:k_1800000000"}).number, 60);
  EXPECT_GT(client({"TTL", "m:k_1800000000"}).number, 0);
  server.now = {server.now.us + minute_us};
  EXPECT_EQ(server.count(five, 1).remaining, 4);
  EXPECT_EQ(client({"GET", "m:k_1800000060"}).text, "1");
}

TEST(WindowText, LifetimesAreExtendedByARandomTime) {
  tests::RedisServer redis;
  Server server(redis);
  auto client = redis.client();
  const Limit day{Algorithm::aligned_window, 5, base::seconds(86'400)};
  // A charge alone and a group make their keys by different commands.
  std::set<int64_t> lives;
  for (int i = 0; i < 60; ++i) {
    const std::string a = "a" + std::to_string(i), b = "b" + std::to_string(i);
    std::vector<Charge> charges;
    for (const std::string* key : {&a, &b}) {
      charges.push_back(server.charge(day, 1, *key, Verb::count, 300));
      if (i % 2 == 0) break;
    }
    std::vector<Group> groups = {{.charge_count = static_cast<uint32_t>(charges.size())}};
    std::vector<Decision> decisions;
    ASSERT_TRUE(server.ask(groups, charges, decisions, server.now));
    for (const Charge& charge : charges) {
      const int64_t ttl_s = client({"TTL", server.name(std::string(charge.key), day)}).number;
      EXPECT_GT(ttl_s, 86'400 - 60);
      EXPECT_LT(ttl_s, 86'400 + 300);
      lives.insert(ttl_s);
    }
  }
  EXPECT_GT(lives.size(), 20u);
  EXPECT_GT(*lives.rbegin(), 86'400 + 100);
}

TEST(WindowText, AddsAnExpiryOnlyToAKeyWithoutOne) {
  for (const bool together : {false, true}) {
    tests::RedisServer redis;
    Server server(redis);
    auto client = redis.client();
    const Limit hour{Algorithm::aligned_window, 9, base::seconds(3'600)};
    // With that the store has learned whether this Redis has EXPIRE NX.
    ASSERT_EQ(server.count(hour, 1).remaining, 8);
    const auto count = [&] {
      std::vector<Charge> charges = {server.charge(hour, 1)};
      if (together) charges.push_back(server.charge(hour, 1, "other"));
      std::vector<Group> groups = {{.charge_count = static_cast<uint32_t>(charges.size())}};
      std::vector<Decision> decisions;
      EXPECT_TRUE(server.ask(groups, charges, decisions, server.now));
      // The command that sets the expiry follows the one that was answered, so wait for a later
      // answer.
      while (server.count(hour, 0).remaining > decisions[0].remaining) server.turn();
      return client({"TTL", server.name("k", hour)}).number;
    };
    client({"PERSIST", server.name("k", hour)});
    EXPECT_GT(count(), 3'000);
    client({"EXPIRE", server.name("k", hour), "100"});
    EXPECT_LE(count(), 100);
    client({"EXPIRE", server.name("k", hour), "90000"});
    EXPECT_GT(count(), 80'000);
  }
}

TEST(WindowText, ANegativeValueCountsAsZero) {
  tests::RedisServer redis;
  Server server(redis);
  auto client = redis.client();
  const Limit five = per_minute(5);
  client({"SET", server.name("k", five), "-5"});
  EXPECT_EQ(server.count(five, 0).remaining, 5);
  EXPECT_EQ(server.count(five, 1).remaining, 5);
  EXPECT_EQ(server.count(five, 4).remaining, 5);
  EXPECT_EQ(server.count(five, 1).remaining, 4);
  EXPECT_EQ(client({"GET", server.name("k", five)}).text, "1");
}

TEST(WindowText, AFullCounterStaysAndRefuses) {
  tests::RedisServer redis;
  Server server(redis);
  auto client = redis.client();
  const Limit five = per_minute(5);
  const std::string name = server.name("k", five);
  EXPECT_EQ(server.count(five, 100).remaining, -95);
  EXPECT_FALSE(server.count(five, INT64_MAX).allowed);
  EXPECT_EQ(client({"GET", name}).text, std::to_string(INT64_MAX));
  for (const int64_t cost : {int64_t{0}, int64_t{1}, INT64_MAX}) {
    const Decision decision = server.count(five, cost);
    EXPECT_FALSE(decision.allowed) << cost;
    EXPECT_EQ(decision.remaining, 5 - INT64_MAX);
  }
  EXPECT_EQ(client({"GET", name}).text, std::to_string(INT64_MAX));
  EXPECT_GT(client({"TTL", name}).number, 0);
  EXPECT_EQ(server.count(five, INT64_MAX - 2, Verb::put).remaining, 3);
  EXPECT_EQ(server.count(five, 3, Verb::take).remaining, 0);
}

// For each verb; and nothing is charged to the other counters of the group.
TEST(WindowText, AForeignValueIsAnError) {
  tests::RedisServer redis;
  Server server(redis);
  auto client = redis.client();
  const Limit five = per_minute(5);
  const std::string name = server.name("k", five);
  ASSERT_EQ(server.count(five, 0).remaining, 5);  // connected
  for (const std::string value : {"abc", "", "1.5", "007", "+1", "-0", " 1", "9223372036854775808",
                                  "-9223372036854775809", "99999999999999999999", "list"}) {
    client({"DEL", name});
    value == "list" ? client({"LPUSH", name, "1"}) : client({"SET", name, value});
    for (const Verb verb : {Verb::count, Verb::take, Verb::peek, Verb::put}) {
      Decision decision;
      EXPECT_EQ(server.alone(server.charge(five, 1, "k", verb), decision).error, Error::wrong_type)
          << value << " " << name_of(verb);
      std::vector<Group> groups = {{.charge_count = 2}};
      std::vector<Charge> charges = {server.charge(five, 1, "other", verb),
                                     server.charge(five, 1, "k", verb)};
      std::vector<Decision> decisions;
      ASSERT_TRUE(server.ask(groups, charges, decisions, server.now));
      EXPECT_EQ(groups[0].error, Error::wrong_type) << value << " " << name_of(verb);
    }
    EXPECT_EQ(client({"DBSIZE"}).number, 1) << value;
    if (value != "list") {
      EXPECT_EQ(client({"GET", name}).text, value);
    }
  }
}

TEST(WindowText, APeekMakesNoKey) {
  tests::RedisServer redis;
  Server server(redis);
  const Limit five = per_minute(5);
  EXPECT_TRUE(server.count(five, 0).allowed);
  EXPECT_EQ(server.count(five, 3, Verb::peek).remaining, 5);
  EXPECT_EQ(server.count(five, 3, Verb::would_take).remaining, 2);
  EXPECT_EQ(server.count(five, 0, Verb::take).remaining, 5);
  EXPECT_EQ(server.count(five, 3, Verb::put).remaining, 5);
  EXPECT_FALSE(server.count(five, 6, Verb::take).allowed);
  EXPECT_EQ(redis.client()({"DBSIZE"}).number, 0);
}

// Other programs count in the same keys, with plain commands.
TEST(WindowText, CountsTogetherWithOtherPrograms) {
  tests::RedisServer redis;
  Server one(redis), two(redis);
  auto client = redis.client();
  const Limit ten = per_minute(10);
  const std::string name = one.name("k", ten);
  int64_t sum = 0;
  for (int i = 0; i < 30; ++i) {
    if (i % 3 == 2) {
      EXPECT_EQ(client({"INCRBY", name, "1"}).number, ++sum);
      client({"EXPIRE", name, "60"});
    } else {
      EXPECT_EQ((i % 3 == 0 ? one : two).count(ten, 1).remaining, 10 - ++sum);
    }
  }
  EXPECT_EQ(client({"GET", name}).text, "30");
}

// An override may have limits of another kind, which a plain number cannot represent.
TEST(WindowText, LimitsOfOtherKindsAreStoredInSluicesForm) {
  tests::RedisServer redis;
  Server server(redis);
  const Limit bucket{Algorithm::token_bucket, 5, base::seconds(1'000), 5};
  EXPECT_EQ(server.count(bucket, 2, Verb::take).remaining, 3);
  const auto keys = redis.client()({"KEYS", "*"});
  ASSERT_EQ(keys.list.size(), 1u);
  EXPECT_EQ(keys.list[0].text, "sluice:60:m:k");
}

}  // namespace
}  // namespace sluice::redis::window_text_test
