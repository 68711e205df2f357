// One server, every protocol, all policies in one rule set: native rules see every request, and a
// dialect's rules only those of their own protocol.
#include <gtest/gtest.h>

#include <memory>
#include <stdexcept>
#include <string>
#include <utility>

#include "tests/e2e/policies.h"
#include "tests/support/divvy_server.h"
#include "tests/support/droplet_client.h"
#include "tests/support/limitd_client.h"

namespace sluice::tests {
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
  // Divvy's rule for [type=user] and its default answer no limitd request.
  EXPECT_EQ(world.take("user", "ann").remaining, 2);
  EXPECT_EQ(world.take("other", "ann").kind, "error");
  // Nor does limitd's type answer Divvy's.
  EXPECT_TRUE(grants(world.hit("type=user key=ann"), 1));
  EXPECT_TRUE(grants(world.hit("type=other key=ann"), 4));
  // droplet brings its own.
  EXPECT_EQ(world.drop({.bucket = "ann", .limits = {{"lh", 9}}}), (DropletLeft{true, {{"lh", 8}}}));
}

TEST(Dialects, ANativeRuleComesFirstForAllOfThem) {
  World world(
      "rules:\n  - { name: everybody, match: { key: bob }, limit: { quota: 1, window: 1h, "
      "algorithm: "
      "sliding_log } }\n"
      "  - { name: buckets, match: { bucket: bob }, deny: true }\n");
  // One counter, whatever the protocol.
  const LimitdReply granted = world.take("user", "bob");
  EXPECT_TRUE(granted.conformant);
  EXPECT_EQ(granted.limit, 1);
  EXPECT_TRUE(denies(world.hit("type=user key=bob")));
  EXPECT_FALSE(world.take("no-such-type", "bob").conformant);
  EXPECT_EQ(world.take("user", "ann").limit, 3);
  EXPECT_FALSE(world.drop({.bucket = "bob", .limits = {{"lh", 9}}}).accept);
  EXPECT_TRUE(world.drop({.bucket = "ann", .limits = {{"lh", 9}}}).accept);
}

// The native rule and what the dialect says must both allow it, and a refusal takes nothing of
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

}  // namespace
}  // namespace sluice::tests
