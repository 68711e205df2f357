// Counters over the admin port of the real binary, on every store.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "tests/e2e/counters_world.h"
#include "tests/support/divvy_server.h"
#include "tests/support/droplet_client.h"
#include "tests/support/http_client.h"
#include "tests/support/redis_server.h"

namespace sluice::tests::counters_test {
namespace {

class Counters : public testing::TestWithParam<Kept> {};
INSTANTIATE_TEST_SUITE_P(Stores, Counters,
                         testing::Values(Kept::memory, Kept::interval, Kept::always, Kept::redis),
                         name_of);

TEST_P(Counters, AreShownSetAndReset) {
  World world(GetParam());
  for (int i = 0; i < 3; ++i) world.hit("k=v who=me");
  Said said = world.get(me);
  ASSERT_EQ(said.status, 200) << said.body;
  EXPECT_EQ(said.body.at("counter"), me);
  EXPECT_EQ(said.body.at("path"), "divvy%3Ak%3Dv%3Ame%3A100%3A600");
  EXPECT_EQ(said.body.at("dialect"), "divvy");
  EXPECT_EQ(said.body.at("rule"), "k=v");
  EXPECT_EQ(said.body.at("actor"), "me");
  const Json limit = said.body.at("limits").at(0);
  EXPECT_EQ(limit.at("quota"), 100);
  EXPECT_EQ(limit.at("window"), "10m");
  EXPECT_EQ(limit.at("remaining"), 97);
  EXPECT_EQ(limit.at("allowed"), true);
  EXPECT_EQ(limit.at("retry_after"), 0);
  EXPECT_GT(limit.at("reset_after"), 500);
  EXPECT_LE(limit.at("reset_after"), 600);

  said = world.put(me, "{\"used\": 99}");
  ASSERT_EQ(said.status, 200) << said.body;
  EXPECT_EQ(said.body.at("limits").at(0).at("remaining"), 1);
  if (GetParam() == Kept::redis) {
    auto client = world.redis().client();
    EXPECT_EQ(client({"GET", me}).text, "1") << "in Divvy's own form";
    EXPECT_GT(client({"PTTL", me}).number, 590'000);
  }
  EXPECT_EQ(world.hit("k=v who=me").substr(0, 9), "OK true 0");
  EXPECT_EQ(world.hit("k=v who=me").substr(0, 10), "OK false 0");
  said = world.get(me);
  EXPECT_EQ(said.body.at("limits").at(0).at("allowed"), false);
  EXPECT_GT(said.body.at("limits").at(0).at("retry_after"), 500);

  EXPECT_EQ(world.put(me, "{\"used\": 101}").status, 422);
  for (const char* wrong : {"", "x", "{}", "[1]", "{\"used\": -1}", "{\"used\": 1.5}",
                            "{\"used\": \"1\"}", "{\"used\": 1, \"more\": 2}"})
    EXPECT_EQ(world.put(me, wrong).status, 400) << wrong;
  EXPECT_EQ(world.get(me).body.at("limits").at(0).at("remaining"), 0);

  said = world.forget(me);
  EXPECT_EQ(said.body.at("limits").at(0).at("remaining"), 100);
  EXPECT_EQ(said.body.at("limits").at(0).at("reset_after"), 0);
  EXPECT_EQ(world.hit("k=v who=me").substr(0, 10), "OK true 99");
  // A counter that is not stored is shown as a fresh one. A name that no rule has is unknown.
  EXPECT_EQ(world.get("divvy:k=v:you:100:600").body.at("limits").at(0).at("remaining"), 100);
  for (const char* unknown : {"divvy:k=v:me:100:601", "x", "droplet", "limitd:nobody:k"})
    EXPECT_EQ(world.get(unknown).status, 404) << unknown;
  EXPECT_EQ(world.forget("x").status, 404);
}

TEST_P(Counters, AChangeAnswersWaitingRequests) {
  World world(GetParam());
  auto limitd = world.limitd();
  limitd.take("fixed", "k", 3);
  const std::string first = limitd.send(LimitdAsked{LimitdMethod::wait, "fixed", "k", 2});
  const std::string second = limitd.send(LimitdAsked{LimitdMethod::wait, "fixed", "k", 2});
  // The ping is answered after both requests, so these wait by now.
  limitd.ask({LimitdMethod::ping, "", ""});
  Said said = world.get("limitd:fixed:k");
  EXPECT_EQ(said.body.at("rule"), "fixed");
  EXPECT_EQ(said.body.at("limits").at(0).at("retry_after"), nullptr);
  EXPECT_EQ(said.body.at("limits").at(0).at("reset_after"), nullptr);
  ASSERT_EQ(world.put("limitd:fixed:k", "{\"used\": 1}").status, 200);
  auto reply = limitd.await(first);
  ASSERT_TRUE(reply);
  EXPECT_TRUE(reply->conformant && reply->delayed);
  ASSERT_EQ(world.forget("limitd:fixed:k").status, 200);
  reply = limitd.await(second);
  ASSERT_TRUE(reply);
  EXPECT_TRUE(reply->conformant && reply->delayed);
  EXPECT_EQ(world.get("limitd:fixed:k").body.at("limits").at(0).at("remaining"), 1);
  // An override of limitd's file applies to its key.
  EXPECT_EQ(world.get("limitd:fixed:big").body.at("limits").at(0).at("quota"), 5);
}

TEST_P(Counters, CountersThatKeepTheirLimitsContinueWithThem) {
  World world(GetParam());
  world.drop({.bucket = "b", .count = 3, .limits = {{"lm", 10}, {"lh", 20}}});
  Said said = world.get("droplet:b");
  ASSERT_EQ(said.status, 200) << said.body;
  EXPECT_EQ(said.body.at("rule"), "droplet");
  ASSERT_EQ(said.body.at("limits").size(), 2u);
  EXPECT_EQ(said.body.at("limits").at(0).at("quota"), 10);
  EXPECT_EQ(said.body.at("limits").at(0).at("window"), "1m");
  EXPECT_EQ(said.body.at("limits").at(0).at("remaining"), 7);
  EXPECT_EQ(said.body.at("limits").at(1).at("remaining"), 17);
  EXPECT_EQ(world.put("droplet:b", "{\"used\": 11}").status, 422);
  said = world.put("droplet:b", "{\"used\": 10}");
  ASSERT_EQ(said.body.at("limits").size(), 2u) << said.body;
  EXPECT_EQ(said.body.at("limits").at(0).at("remaining"), 0);
  EXPECT_GT(said.body.at("limits").at(0).at("retry_after"), 0);
  EXPECT_LE(said.body.at("limits").at(0).at("retry_after"), 6);
  EXPECT_EQ(said.body.at("limits").at(1).at("remaining"), 10);
  EXPECT_EQ(said.body.at("limits").at(1).at("retry_after"), 0);
  EXPECT_TRUE(world.forget("droplet:b").body.at("limits").empty());
  EXPECT_EQ(world.put("droplet:b", "{\"used\": 1}").status, 422) << "there is no limit yet";
  EXPECT_TRUE(world.drop({.bucket = "b", .count = 10, .limits = {{"lm", 10}}}).accept);
}

TEST_P(Counters, AreListedPageByPageInTheOrderOfTheirNames) {
  World world(GetParam());
  std::vector<std::string> expected;
  for (const char* who : {"b", "a/b c%", "a", "\xc3\xa9", "a:100:600"}) {
    world.hit("k=v who=\"" + std::string(who) + "\"");
    expected.push_back("divvy:k=v:" + std::string(who) + ":100:600");
  }
  world.hit("shadowed=1");
  world.hit("tenant=acme api=x|y");
  world.limitd().take("user", "u");
  world.drop({.bucket = "b", .count = 1, .limits = {{"lm", 10}}});
  expected.insert(expected.end(), {"divvy:shadowed=1::2:600", "limitd:user:u", "droplet:b",
                                   "native:shadow::", "native:per-tenant:acme|x\\|y:tenant,api"});
  std::sort(expected.begin(), expected.end());
  const auto names = [](const Json& counters) {
    std::vector<std::string> all;
    for (const Json& one : counters) all.push_back(one.at("counter"));
    return all;
  };
  const Said whole = world.list("?limit=1000");
  ASSERT_EQ(whole.status, 200) << whole.body;
  EXPECT_EQ(names(whole.body.at("counters")), expected);
  EXPECT_FALSE(whole.body.contains("next"));
  // Each is the same in the list as alone, except for times.
  for (const Json& one : whole.body.at("counters")) {
    const Said alone = world.get(one.at("path"));
    ASSERT_EQ(alone.status, 200) << one;
    EXPECT_EQ(alone.body.at("counter"), one.at("counter"));
    ASSERT_EQ(alone.body.at("limits").size(), one.at("limits").size()) << one;
    for (size_t i = 0; i < one.at("limits").size(); ++i)
      EXPECT_EQ(alone.body.at("limits")[i].at("remaining"), one.at("limits")[i].at("remaining"));
  }
  for (const size_t limit : {size_t{1}, size_t{3}}) {
    std::vector<std::string> paged;
    std::string after;
    for (;;) {
      const Said page = world.list("?limit=" + std::to_string(limit) + after);
      for (const std::string& name : names(page.body.at("counters"))) paged.push_back(name);
      if (!page.body.contains("next")) break;
      EXPECT_EQ(page.body.at("counters").size(), limit);
      after = "&after=" + page.body.at("next").get<std::string>();
    }
    EXPECT_EQ(paged, expected) << limit;
  }
  EXPECT_EQ(names(world.list("?prefix=divvy:k%3Dv:a").body.at("counters")),
            (std::vector<std::string>{"divvy:k=v:a/b c%:100:600", "divvy:k=v:a:100:600",
                                      "divvy:k=v:a:100:600:100:600"}));
  EXPECT_TRUE(world.list("?prefix=nothing").body.at("counters").empty());
  for (const char* wrong : {"?limit=0", "?limit=1001", "?limit=x", "?after=x", "?after=0"})
    EXPECT_EQ(world.list(wrong).status, 400) << wrong;
}

// An override of a Divvy rule has its own counter; elsewhere it uses the rule's.
TEST_P(Counters, CountersOfOverridesHaveTheirNamesAndLimits) {
  World world(GetParam());
  const auto set = [&](const std::string& body) {
    const Said said = ask(world.admin_port(), "POST", "/v1/overrides", "/v1/overrides", body);
    EXPECT_EQ(said.status, 201) << said.body;
    return said.body.at("id").get<std::string>();
  };
  const std::string divvy = set(
      R"({"dialect": "divvy", "rule": "k=v", "actor": "me",
          "limit": {"quota": 7, "window": "300s", "algorithm": "fixed_window"}})");
  const std::string limitd = set(
      R"({"dialect": "limitd", "rule": "fixed", "actor": "k",
          "limit": {"quota": 9, "algorithm": "fixed_bucket"}})");
  const std::string its = "divvy:k=v:me:7:300",
                    request = R"({"protocol": "divvy", "descriptor": {"k": "v", "who": "me"}})";
  // Until the overrides are live on all workers, within 100 ms.
  for (const auto limit = soon(); std::chrono::steady_clock::now() < limit;)
    if (world.get(its).status == 200) break;
  const Json rule = world.explain(request).body.at("rules").back();
  EXPECT_EQ(rule.at("override"), divvy);
  EXPECT_EQ(rule.at("counter"), its);
  EXPECT_EQ(world.hit("k=v who=me").substr(0, 9), "OK true 6");
  Said said = world.get(its);
  EXPECT_EQ(said.body.at("override"), divvy);
  EXPECT_EQ(said.body.at("rule"), "k=v");
  EXPECT_EQ(said.body.at("limits").at(0).at("remaining"), 6);
  EXPECT_EQ(said.body.at("limits").at(0).at("window"), "5m");
  EXPECT_EQ(world.put(its, "{\"used\": 8}").status, 422);
  EXPECT_EQ(world.put(its, "{\"used\": 7}").body.at("limits").at(0).at("allowed"), false);
  EXPECT_EQ(world.hit("k=v who=me").substr(0, 8), "OK false");
  EXPECT_EQ(world.list("?prefix=divvy:k").body.at("counters").at(0).at("counter"), its);
  // The rule's own counter of that actor can still be read, without the override.
  said = world.get(me);
  EXPECT_FALSE(said.body.contains("override"));
  EXPECT_EQ(said.body.at("limits").at(0).at("remaining"), 100);

  said = world.put("limitd:fixed:k", "{\"used\": 5}");
  EXPECT_EQ(said.body.at("override"), limitd);
  EXPECT_EQ(said.body.at("limits").at(0).at("remaining"), 4);
  EXPECT_TRUE(world.limitd().take("fixed", "k", 4).conformant);

  ASSERT_EQ(http(world.admin_port(), "DELETE", "/v1/overrides/" + divvy).status, 200);
  EXPECT_EQ(world.get(its).status, 404);
  EXPECT_TRUE(world.list("?prefix=divvy:k").body.at("counters").empty());
}

// Each change gives back exactly the units that it says, also under full load.
TEST_P(Counters, AreChangedExactlyUnderFullLoad) {
  World world(GetParam());
  constexpr int clients = 3, resets = 20;
  std::atomic<bool> stop{false};
  std::atomic<int> granted{0}, asked{0}, odd{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < clients; ++i) {
    threads.emplace_back([&] {
      auto client = World::client(world.divvy_port());
      std::string lines;
      for (int n = 0; n < 20; ++n) lines += "HIT k=v who=me\n";
      while (!stop) {
        client.send(lines);
        for (int n = 0; n < 20; ++n) {
          const std::string reply = client.read_line().value_or("");
          ++asked;
          if (reply.starts_with("OK true"))
            ++granted;
          else if (!reply.starts_with("OK false 0 "))
            ++odd;
        }
      }
    });
  }
  const auto await = [&](int units) {
    const auto limit = soon();
    while (granted < units && std::chrono::steady_clock::now() < limit)
      std::this_thread::sleep_for(Milliseconds(1));
    const int before = asked;
    while (asked < before + 200 && std::chrono::steady_clock::now() < limit)
      std::this_thread::sleep_for(Milliseconds(1));
    return granted.load();
  };
  int expected = 100;
  for (int i = 0; i < resets; ++i) {
    ASSERT_EQ(await(expected), expected);
    const int used = i % 2 == 0 ? 0 : i * 4;
    ASSERT_EQ(i % 4 == 0 ? world.forget(me).status
                         : world.put(me, "{\"used\": " + std::to_string(used) + "}").status,
              200);
    expected += 100 - used;
  }
  EXPECT_EQ(await(expected), expected);
  stop = true;
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(odd, 0);
}

TEST(CountersOnDisk, AreAnsweredOnceTheyAreCommitted) {
  World world(Kept::always);
  for (int i = 0; i < 3; ++i) {
    ASSERT_EQ(world.put(me, "{\"used\": " + std::to_string(10 + i) + "}").status, 200);
    world.process().signal(SIGKILL);
    world.process().wait(soon());
    world.start();
    EXPECT_EQ(world.get(me).body.at("limits").at(0).at("remaining"), 90 - i);
  }
  ASSERT_EQ(world.forget(me).status, 200);
  world.process().signal(SIGKILL);
  world.process().wait(soon());
  world.start();
  EXPECT_EQ(world.get(me).body.at("limits").at(0).at("remaining"), 100);
}

TEST(CountersInRedis, Are503WhileRedisIsStopped) {
  World world(Kept::redis);
  world.hit("k=v who=me");
  world.redis().stop();
  EXPECT_EQ(world.get(me).status, 503);
  EXPECT_EQ(world.put(me, "{\"used\": 1}").status, 503);
  EXPECT_EQ(world.list("").status, 503);
  // Explain shows the answer that a take would get, by the rules' on_store_error.
  const Said said =
      world.explain(R"({"protocol": "divvy", "descriptor": {"k": "v", "who": "me"}})");
  EXPECT_EQ(said.status, 200);
  EXPECT_TRUE(said.body.at("verdict").contains("error")) << said.body;
}

TEST(CountersInRedis, AnInvalidValueDoesNotHideOtherCounters) {
  World world(Kept::redis);
  world.hit("tenant=acme api=v1");
  const std::string prefix = "native:per-tenant:";
  const std::string suffix = ":tenant,api";
  ASSERT_EQ(world.redis().client()({"SET", "sluice:" + prefix + "aaa|v1" + suffix, "what"}).text,
            "OK");
  const Json list = world.list("?prefix=" + prefix).body.at("counters");
  ASSERT_EQ(list.size(), 2u);
  EXPECT_EQ(list[0].at("counter"), prefix + "aaa|v1" + suffix);
  EXPECT_TRUE(list[0].at("limits").empty());
  EXPECT_NE(list[0].at("problem").get<std::string>().find("not a counter"), std::string::npos);
  EXPECT_EQ(list[1].at("limits").size(), 2u);
  EXPECT_FALSE(list[1].contains("problem"));
}

// Counters with names of a million bytes: a page of them is small, takes little memory, and says
// how to address each.
TEST_P(Counters, ShowLongNamesByTheirBeginnings) {
  World world(GetParam());
  constexpr size_t count = 24;
  const std::string long_one(1'000'000, 'x');
  {
    auto client = World::client(world.divvy_port());
    for (size_t i = 0; i < count; ++i)
      ASSERT_TRUE(
          client.ask("HIT k=v who=" + long_one + std::to_string(i)).starts_with("OK true 99"));
  }
  const int64_t before = resident_bytes(world.process().pid());
  std::string query = "?prefix=divvy:&limit=1000";
  std::set<std::string> paths;
  const bool redis = GetParam() == Kept::redis;
  for (size_t pages = 0; pages < 2 * count; ++pages) {
    const Said answer = world.list(query);
    ASSERT_EQ(answer.status, 200) << answer.body;
    EXPECT_LE(answer.bytes, size_t{1} << 20);
    const Json& page = answer.body;
    for (const Json& one : page.at("counters")) {
      EXPECT_TRUE(paths.insert(one.at("path")).second);
      EXPECT_EQ(one.at("counter").get<std::string>(), "divvy:k=v:" + std::string(246, 'x'));
      EXPECT_EQ(one.at("actor_bytes"), one.at("bytes").get<size_t>() - 18);
    }
    if (!page.contains("next")) break;
    query = "?prefix=divvy:&limit=1000&after=" + page.at("next").get<std::string>();
  }
  ASSERT_EQ(paths.size(), count);
  const bool writes = !redis && GetParam() != Kept::memory;  // the store may still be writing
  const int64_t grown = resident_bytes(world.process().pid()) - before;
  EXPECT_TRUE(sanitized || grown < int64_t{writes ? 192 : 96} << 20) << grown;

  const std::string& path = *paths.begin();
  EXPECT_EQ(world.get(path).body.at("limits").at(0).at("remaining"), 99);
  EXPECT_EQ(world.put(path, "{\"used\": 7}").body.at("limits").at(0).at("remaining"), 93);
  EXPECT_EQ(world.get(path).body.at("path"), path);
  EXPECT_EQ(world.get(*paths.rbegin()).body.at("limits").at(0).at("remaining"), 99);
  // The command line accepts such a path as well.
  const auto reset = run({.arguments = {"reset", "--encoded", path, "--json", "--admin",
                                        "127.0.0.1:" + std::to_string(world.admin_port())}});
  EXPECT_EQ(reset.status, 0) << reset.err;
  EXPECT_EQ(Json::parse(reset.out).at("limits").at(0).at("remaining"), 100);
  const auto listed = run({.arguments = {"counters", "divvy:", "--admin",
                                         "127.0.0.1:" + std::to_string(world.admin_port())}});
  EXPECT_EQ(listed.status, 0) << listed.err;
  EXPECT_TRUE(listed.out.find(" bytes)") != std::string::npos && listed.out.size() < 32 << 10);
  EXPECT_EQ(world.get("divvy?bytes=1000000&digest=" + std::string(64, '0')).status, 404);
}

}  // namespace
}  // namespace sluice::tests::counters_test
