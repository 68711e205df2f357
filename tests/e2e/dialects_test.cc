// One real server with three protocols, and all policies in one rule set: native rules see every
// request, and a dialect's rules only those of their own protocol.
#include <gtest/gtest.h>

#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "tests/e2e/policies.h"
#include "tests/support/divvy_server.h"
#include "tests/support/droplet_client.h"
#include "tests/support/limitd_client.h"

namespace sluice::tests::dialects_test {
namespace {

TcpClient connected(uint16_t port) {
  auto client = TcpClient::connect(port);
  if (!client) throw std::runtime_error("refused");
  return std::move(*client);
}

class World {
 public:
  explicit World(const std::string& rules) {
    folder_.write("rules.ini",
                  "[type=user key=*]\ncreditLimit = 2\nresetSeconds = 600\nactorField = key\n\n"
                  "[default]\ncreditLimit = 5\nresetSeconds = 600\n");
    folder_.write("limitd.yaml", "db: { inMemory: true }\nbuckets:\n  user:\n    size: 3\n");
    const std::string config =
        folder_.write("sluice.yaml",
                      "listen:\n"
                      "  - { protocol: divvy, address: \"127.0.0.1:0\" }\n"
                      "  - { protocol: limitd, address: \"127.0.0.1:0\" }\n"
                      "  - { protocol: droplet, address: \"127.0.0.1:0\" }\n"
                      "policy:\n  - divvy: rules.ini\n  - limitd: limitd.yaml\n" +
                          rules);
    process_ = std::make_unique<Process>(
        Process::Options{.arguments = {"serve", "--config", config, "--log-level", "warn"}});
    divvy_ = await_listening(*process_, "divvy");
    limitd_ = await_listening(*process_, "limitd");
    droplet_ = await_listening(*process_, "droplet");
  }

  std::string hit(const std::string& line) {
    auto client = connected(divvy_);
    client.send("HIT " + line + "\n");
    return client.read_line().value_or("");
  }
  // The replies to lines that arrive together, and so are decided at the same time.
  std::vector<std::string> hits(const std::string& line, int count) {
    auto client = connected(divvy_);
    std::string all;
    for (int i = 0; i < count; ++i) all += "HIT " + line + "\n";
    client.send(all);
    std::vector<std::string> replies;
    for (int i = 0; i < count; ++i) replies.push_back(client.read_line().value_or(""));
    return replies;
  }
  LimitdReply ask(const LimitdAsked& asked) { return LimitdClient(connected(limitd_)).ask(asked); }
  // The output of `sluice ask droplet` with this server.
  std::string ask_droplet(std::vector<std::string> words) {
    words.insert(words.begin(),
                 {"ask", "droplet", "--server", "127.0.0.1:" + std::to_string(droplet_)});
    return run({.arguments = words}).out;
  }
  LimitdReply take(const std::string& type, const std::string& key) {
    return LimitdClient(connected(limitd_)).take(type, key);
  }
  DropletLeft drop(const DropletTake& take) { return DropletClient(droplet_).ask(take); }

 private:
  Folder folder_;
  std::unique_ptr<Process> process_;
  uint16_t divvy_ = 0, limitd_ = 0, droplet_ = 0;
};

TEST(Dialects, ADialectsRulesSeeTheirOwnProtocolOnly) {
  World world("");
  // Divvy's rule [type=user] and its default do not apply to limitd's requests.
  EXPECT_EQ(world.take("user", "ann").remaining, 2);
  EXPECT_EQ(world.take("other", "ann").kind, "error");
  // limitd's types do not apply to Divvy's requests.
  EXPECT_TRUE(grants(world.hit("type=user key=ann"), 1));
  EXPECT_TRUE(grants(world.hit("type=other key=ann"), 4));
  // droplet's requests bring their own limits.
  EXPECT_EQ(world.drop({.bucket = "ann", .limits = {{"lh", 9}}}), (DropletLeft{true, {{"lh", 8}}}));
}

TEST(Dialects, ANativeRuleComesFirstForAllOfThem) {
  World world(
      "rules:\n  - { name: everybody, match: { key: bob }, limit: { quota: 1, window: 1h, "
      "algorithm: "
      "sliding_log } }\n"
      "  - { name: buckets, match: { bucket: bob }, deny: true }\n");
  // All protocols share the rule's counter.
  const LimitdReply granted = world.take("user", "bob");
  EXPECT_TRUE(granted.conformant);
  EXPECT_EQ(granted.limit, 1);
  EXPECT_TRUE(denies(world.hit("type=user key=bob")));
  EXPECT_FALSE(world.take("no-such-type", "bob").conformant);
  EXPECT_EQ(world.take("user", "ann").limit, 3);
  EXPECT_FALSE(world.drop({.bucket = "bob", .limits = {{"lh", 9}}}).accept);
  EXPECT_TRUE(world.drop({.bucket = "ann", .limits = {{"lh", 9}}}).accept);
}

// The native rule and the dialect's rule must both allow a request, and a refusal takes nothing of
// either.
TEST(Dialects, ANativeRuleThatContinuesIsOneGroupWithTheDialects) {
  World world(
      "rules:\n  - { name: types, match: { type: \"*\" }, actor: type, limit: { quota: 4, window: "
      "1h, "
      "algorithm: fixed_window }, then: continue }\n"
      "  - { name: buckets, match: { bucket: \"*\" }, limit: { quota: 2, window: 1h, algorithm: "
      "fixed_window }, then: continue }\n");
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(world.take("user", "ann").conformant);
  for (int i = 0; i < 5; ++i) EXPECT_FALSE(world.take("user", "ann").conformant);
  EXPECT_TRUE(world.take("user", "bob").conformant);
  EXPECT_FALSE(world.take("user", "bob").conformant);
  EXPECT_TRUE(denies(world.hit("type=user key=carl")));

  EXPECT_FALSE(world.drop({.bucket = "a", .count = 8, .limits = {{"lh", 7}}}).accept);
  EXPECT_TRUE(world.drop({.bucket = "a", .limits = {{"lh", 7}}}).accept);
  EXPECT_TRUE(world.drop({.bucket = "b", .limits = {{"lh", 7}}}).accept);
  EXPECT_FALSE(world.drop({.bucket = "c", .limits = {{"lh", 7}}}).accept);
}

const std::string jar_rules =
    "rules:\n"
    "- { name: jar, match: { bucket: jar }, actor: bucket, limits: [\n"
    "    { quota: 2, window: 1d, algorithm: fixed_window },\n"
    "    { quota: 10, window: 3d, algorithm: fixed_window },\n"
    "    { quota: 5, window: 20d, algorithm: fixed_window }] }\n"
    "- { name: shut, match: { bucket: shut }, deny: true }\n"
    "- { name: free, match: { bucket: free }, unlimited: true }\n"
    "- { name: put, match: { bucket: put }, limit: { quota: 1, algorithm: fixed_bucket } }\n"
    "- { name: long, match: { bucket: long }, limit: { quota: 3, window: 90d, algorithm: "
    "fixed_window } }\n"
    "- { name: both, match: { bucket: both }, limit: { quota: 3, window: 1h, algorithm: "
    "fixed_window }, then: continue }\n";

// A limit is shown under the shortest period that is not shorter than its window. A refusal shows
// what would be left, as droplet's does, and takes nothing.
TEST(Dialects, DropletRepliesShowNativeLimitsByPeriod) {
  World world(jar_rules);
  EXPECT_EQ(world.drop({.bucket = "jar"}), (DropletLeft{true, {{"ld", 1}, {"lw", 9}, {"lo", 4}}}));
  const DropletLeft now{true, {{"ld", 1}, {"lw", 9}, {"lo", 4}}};
  EXPECT_EQ(world.drop({.bucket = "jar", .query = true}), now);
  EXPECT_EQ(world.drop({.bucket = "jar", .count = 2}),
            (DropletLeft{false, {{"ld", -1}, {"lw", 7}, {"lo", 2}}}));
  EXPECT_EQ(world.drop({.bucket = "jar", .query = true}), now);
  // The request's own limits do not apply where a native rule decides.
  EXPECT_EQ(world.drop({.bucket = "jar", .limits = {{"ls", 1}}}),
            (DropletLeft{true, {{"ld", 0}, {"lw", 8}, {"lo", 3}}}));
  EXPECT_EQ(world.drop({.bucket = "jar"}),
            (DropletLeft{false, {{"ld", -1}, {"lw", 7}, {"lo", 2}}}));
  // A window takes no units back.
  EXPECT_EQ(world.drop({.bucket = "jar", .count = -3}),
            (DropletLeft{true, {{"ld", 0}, {"lw", 8}, {"lo", 3}}}));
  EXPECT_EQ(world.drop({.bucket = "shut"}), (DropletLeft{false, {{"lo", -1}}}));
  EXPECT_EQ(world.drop({.bucket = "shut", .query = true}), (DropletLeft{true, {{"lo", 0}}}));
  EXPECT_EQ(world.drop({.bucket = "free"}), (DropletLeft{true, {}}));
  EXPECT_EQ(world.drop({.bucket = "free", .query = true}), (DropletLeft{true, {}}));
  EXPECT_EQ(world.drop({.bucket = "put"}), (DropletLeft{true, {{"lo", 0}}}));
  EXPECT_EQ(world.drop({.bucket = "put"}), (DropletLeft{false, {{"lo", -1}}}));
  EXPECT_EQ(world.drop({.bucket = "long"}), (DropletLeft{true, {{"lo", 2}}}));
  // Together with droplet's own limits, each period shows the smaller number.
  EXPECT_EQ(world.drop({.bucket = "both", .limits = {{"lh", 9}, {"lo", 100}}}),
            (DropletLeft{true, {{"lh", 2}, {"lo", 99}}}));
  EXPECT_EQ(world.drop({.bucket = "both", .count = 5, .limits = {{"lh", 9}, {"lo", 100}}}),
            (DropletLeft{false, {{"lh", -3}, {"lo", 94}}}));
  EXPECT_EQ(world.drop({.bucket = "both", .query = true}),
            (DropletLeft{true, {{"lh", 2}, {"lo", 99}}}));
  // Droplet's own limit refuses what the native rule alone would allow.
  EXPECT_EQ(world.drop({.bucket = "both", .count = 2, .limits = {{"ls", 1}}}),
            (DropletLeft{false, {{"ls", -1}, {"lh", 0}}}));
  EXPECT_EQ(world.drop({.bucket = "shut", .count = 0}), (DropletLeft{false, {{"lo", -1}}}));
  // A bucket without a native rule is as before.
  EXPECT_EQ(world.drop({.bucket = "other"}), (DropletLeft{true, {}}));
}

TEST(Dialects, AskDropletShowsNativeLimits) {
  World world(jar_rules);
  EXPECT_EQ(world.ask_droplet({"take", "jar"}),
            "allowed: 1 left per day, 9 per week, 4 per month\n");
  EXPECT_EQ(world.ask_droplet({"query", "jar"}), "1 left per day, 9 per week, 4 per month\n");
  EXPECT_EQ(world.ask_droplet({"take", "--count", "4", "jar"}), "denied: 3 too many per day\n");
  EXPECT_EQ(world.ask_droplet({"take", "shut"}), "denied: 1 too many per month\n");
  EXPECT_EQ(world.ask_droplet({"take", "free"}), "allowed: no limit applies\n");
}

TEST(Dialects, EveryVerbOfLimitdMatchesNativeRules) {
  World world(
      "rules:\n- { name: native, match: { type: native, key: '*' }, actor: key, limits: [\n"
      "    { quota: 3, window: 1d },\n"
      "    { quota: 10, window: 3d, algorithm: fixed_window }] }\n"
      "- { name: shut, match: { type: user, key: shut }, deny: true }\n");
  const auto level = [](const LimitdReply& reply) {
    return reply.kind + " " + std::to_string(reply.conformant) + " " +
           std::to_string(reply.remaining) + " of " + std::to_string(reply.limit);
  };
  EXPECT_EQ(level(world.ask({LimitdMethod::get, "native", "k"})), "get 0 3 of 3");
  const auto granted = world.ask({LimitdMethod::take, "native", "k", 2});
  EXPECT_EQ(level(granted), "take 1 1 of 3");
  EXPECT_GT(granted.reset, 0);
  EXPECT_EQ(level(world.ask({LimitdMethod::take, "native", "k", 2})), "take 0 1 of 3");
  EXPECT_EQ(level(world.ask({LimitdMethod::wait, "native", "k", 1})), "take 1 0 of 3");
  EXPECT_EQ(level(world.ask({LimitdMethod::put, "native", "k", 2})), "put 0 2 of 3");
  EXPECT_EQ(level(world.ask({LimitdMethod::get, "native", "k"})), "get 0 2 of 3");
  EXPECT_EQ(world.ask({LimitdMethod::ping, "", ""}).kind, "pong");
  EXPECT_EQ(level(world.ask({LimitdMethod::take, "user", "shut"})), "take 0 0 of 0");
  EXPECT_EQ(level(world.ask({LimitdMethod::get, "user", "shut"})), "get 0 0 of 0");
  // STATUS lists only buckets of limitd's own types.
  EXPECT_EQ(world.ask({LimitdMethod::status, "native", ""}).kind, "error");
  EXPECT_EQ(world.ask({LimitdMethod::status, "user", ""}).kind, "status");
}

// `remaining` and the time belong to the same limit, and a refusal never says 0 seconds.
TEST(Dialects, DivvysResetIsOfTheLimitThatItShows) {
  World world(
      "rules:\n- { name: two, match: { two: '*' }, actor: two, limits: [\n"
      "    { quota: 10, window: 1s },\n"
      "    { quota: 100000, window: 1d, algorithm: fixed_window }] }\n"
      "- { name: soon, match: { soon: '*' }, actor: soon, limit: { quota: 10, window: 1s, burst: "
      "1 } }\n"
      "- { name: later, match: { later: '*' }, actor: later, limit: { quota: 10, window: 11s, "
      "burst: 1 } }\n"
      "- { name: shut, match: { shut: '*' }, deny: true }\n");
  EXPECT_EQ(world.hits("two=a", 1), std::vector<std::string>{"OK true 9 0"});
  EXPECT_EQ(world.hits("soon=a", 3),
            (std::vector<std::string>{"OK true 0 0", "OK false 0 1", "OK false 0 1"}));
  EXPECT_EQ(world.hits("later=a", 2),
            (std::vector<std::string>{"OK true 0 1", "OK false 0 2"}));  // 1.1 s
  EXPECT_EQ(world.hits("shut=a", 1), std::vector<std::string>{"OK false 0 -1"});
}

}  // namespace
}  // namespace sluice::tests::dialects_test
