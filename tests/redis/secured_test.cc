// The real program with users, passwords and TLS, to Redis behind sentinels and in a Redis Cluster:
// that it works, and what is logged and answered if one of them is wrong.
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/redis/certificates.h"
#include "tests/support/comes.h"
#include "tests/support/divvy_server.h"
#include "tests/support/redis_cluster.h"
#include "tests/support/redis_sentinels.h"

namespace sluice::tests::secured_test {
namespace {

using Words = std::vector<std::string>;

std::string listed(const Words& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "\"" : ", \"") + word + "\"";
  return "[" + text + "]";
}

// All of it is right; a test changes some of it.
struct Access {
  std::string user = "limiter", password = "pass", sentinel_user = "watcher",
              sentinel_password = "word", on_store_error = "error";
  std::optional<std::string> authority = {};  // in place of the right one
};

void add_user(RedisServer& node) {
  const auto made = node.client()({"ACL", "SETUSER", "limiter", "on", ">pass", "~*", "-@all",
                                   "+@read", "+@write", "+@scripting", "+@connection", "+time",
                                   "+cluster|shards", "+cluster|slots", "+cluster|info"});
  EXPECT_FALSE(made.is_error()) << made.text;
}

struct Certified {
  Folder folder;
  Authority authority{folder, "authority"}, other{folder, "other"};
  Authority::Files files = authority.sign("IP:127.0.0.1");
};

class Server {
 public:
  Server(const std::string& redis, const Access& access, const std::string& authority)
      : server_([&] {
          folder_.write("rules.ini", "[default]\ncreditLimit = 1000\nresetSeconds = 600\n");
          return Process::Options{
              .arguments = {"serve", "--config",
                            folder_.write(
                                "sluice.yaml",
                                "listen: [{ protocol: divvy, address: \"127.0.0.1:0\" }]\n"
                                "store: { redis: { " +
                                    redis + ", tls: true, username: " + access.user +
                                    ", password: " + access.password +
                                    ", deadline_ms: 2000 } }\n"
                                    "policy: [{ divvy: rules.ini, on_store_error: " +
                                    access.on_store_error + " }]\n"),
                            "--log-level", "info"},
              .environment = {{"SSL_CERT_FILE", access.authority.value_or(authority)}}};
        }()) {}

  std::string hit() { return server_.client().ask("HIT k=v"); }
  // Empty if a reply began with `head` in time, else the last reply.
  std::string await_hit(const std::string& head) {
    std::string reply;
    return comes([&] { return (reply = hit()).starts_with(head); }) ? "" : reply;
  }
  bool says(const std::string& text) { return server_.process().says(text); }

 private:
  Folder folder_;
  DivvyServer server_;
};

// TLS between all of them, one user at the sentinels and another at Redis.
class Sentinels : public Certified {
 public:
  Sentinels()
      : all({}, RedisSentinels::Tls{files.certificate, files.key, authority.certificate()}) {
    for (size_t i = 0; i < 3; ++i) {
      add_user(all.node(i));
      const auto made = all.sentinel(i).client()(
          {"ACL", "SETUSER", "watcher", "on", ">word", "allchannels", "-@all", "+@connection",
           "+sentinel|master", "+sentinel|get-master-addr-by-name", "+subscribe"});
      EXPECT_FALSE(made.is_error()) << made.text;
    }
  }
  Server serve(const Access& access = {}) {
    return Server("sentinel: { master: counters, nodes: " + listed(all.addresses()) +
                      ", username: " + access.sentinel_user +
                      ", password: " + access.sentinel_password + " }",
                  access, authority.certificate());
  }
  RedisSentinels all;
};

class Cluster : public Certified {
 public:
  Cluster()
      : all({.settings = {"--tls-cluster", "yes", "--tls-replication", "yes", "--tls-port",
                          "FREE_PORT", "--tls-cert-file", files.certificate, "--tls-key-file",
                          files.key, "--tls-ca-cert-file", authority.certificate(),
                          "--tls-auth-clients", "no"}}) {
    for (size_t i = 0; i < all.size(); ++i) {
      add_user(all.node(i));
      addresses.push_back("127.0.0.1:" +
                          all.node(i).client()({"CONFIG", "GET", "tls-port"}).list.at(1).text);
    }
  }
  Server serve(const Access& access = {}) {
    return Server("cluster: true, nodes: " + listed(addresses), access, authority.certificate());
  }
  RedisCluster all;
  Words addresses;
};

// Each setting of on_store_error answers while the store cannot decide.
template <class World>
void expect_answered_without(World& world, Access wrong) {
  for (const auto& [how, reply] :
       {std::pair("allow", "OK true 999 "), {"deny", "OK false 0 "}, {"local", "OK true 999 "}}) {
    wrong.on_store_error = how;
    Server server = world.serve(wrong);
    EXPECT_EQ(server.await_hit(reply), "") << how;
  }
}

TEST(TlsSentinels, UsersAndTlsHoldThroughAPromotion) {
  Sentinels world;
  Server server = world.serve();
  EXPECT_EQ(server.await_hit("OK true 999"), "");
  const auto users = [&](RedisServer& node) { return node.client()({"CLIENT", "LIST"}).text; };
  EXPECT_NE(users(world.all.node(0)).find("user=limiter"), std::string::npos);
  EXPECT_TRUE(world.all.is_used_by("watcher"));
  auto old = world.all.node(0).client();
  old({"SET", "marker", "1"});
  ASSERT_EQ(old({"WAIT", "2", "20000"}).number, 2);
  const size_t now = world.all.fail_over();
  EXPECT_NE(now, 0u);
  EXPECT_TRUE(comes([&] {
    server.hit();
    return users(world.all.node(now)).find("user=limiter") != std::string::npos;
  }));
  EXPECT_EQ(server.await_hit("OK true 9"), "");
}

TEST(TlsSentinels, ReportsAWrongPasswordOfTheSentinels) {
  Sentinels world;
  const Access wrong{.sentinel_password = "other"};
  Server server = world.serve(wrong);
  EXPECT_TRUE(server.says("it does not let us in: WRONGPASS"));
  EXPECT_TRUE(server.says("see store.redis.sentinel.username and password; trying again"));
  EXPECT_EQ(server.await_hit("ERR Internal Error: Redis cannot be reached"), "");
  expect_answered_without(world, wrong);
}

TEST(TlsSentinels, ReportsAWrongPasswordOfRedis) {
  Sentinels world;
  Server server = world.serve({.password = "other"});
  EXPECT_EQ(server.await_hit("ERR Internal Error: Redis does not let this server in; see "
                             "store.redis.username and password"),
            "");
  EXPECT_TRUE(server.says("it does not let us in: WRONGPASS"));
  EXPECT_TRUE(server.says("see store.redis.username and password; trying again"));
  expect_answered_without(world, {.password = "other"});
}

TEST(TlsSentinels, ReportsAnUntrustedAuthority) {
  Sentinels world;
  const Access wrong{.authority = world.other.certificate()};
  Server server = world.serve(wrong);
  EXPECT_TRUE(server.says(world.all.addresses()[2] + ": its certificate is not trusted: "));
  EXPECT_TRUE(server.says("name its authority by tls_ca of store.redis"));
  EXPECT_EQ(server.await_hit("ERR Internal Error: Redis cannot be reached"), "");
  expect_answered_without(world, wrong);
}

TEST(TlsCluster, ReportsAWrongPassword) {
  Cluster world;
  Server right = world.serve();
  EXPECT_EQ(right.await_hit("OK true 999"), "");
  const Access wrong{.password = "other"};
  Server server = world.serve(wrong);
  EXPECT_TRUE(server.says("primaries are not found: Redis at 127.0.0.1:"));
  EXPECT_TRUE(server.says("it does not let us in: WRONGPASS"));
  EXPECT_TRUE(server.says("see store.redis.username and password; trying again"));
  EXPECT_EQ(server.await_hit("ERR Internal Error: Redis cannot be reached"), "");
  expect_answered_without(world, wrong);
  EXPECT_EQ(right.await_hit("OK true 998"), "");
}

TEST(TlsCluster, ReportsAnUntrustedAuthority) {
  Cluster world;
  const Access wrong{.authority = world.other.certificate()};
  Server server = world.serve(wrong);
  EXPECT_TRUE(server.says("its certificate is not trusted: "));
  EXPECT_TRUE(server.says("name its authority by tls_ca of store.redis"));
  EXPECT_EQ(server.await_hit("ERR Internal Error: Redis cannot be reached"), "");
  expect_answered_without(world, wrong);
  for (size_t i = 0; i < 3; ++i) EXPECT_EQ(world.all.node(i).client()({"DBSIZE"}).number, 0) << i;
}

// A user that lacks a right that only a cluster needs.
TEST(TlsCluster, ReportsAUserWithoutTheRightToReadTheSlots) {
  Cluster world;
  for (size_t i = 0; i < 3; ++i)
    world.all.node(i).client()({"ACL", "SETUSER", "limiter", "-cluster|info"});
  Server server = world.serve();
  EXPECT_TRUE(server.says("NOPERM"));
  EXPECT_TRUE(server.says("give its user the rights that docs/redis.md names; trying again"));
  EXPECT_EQ(server.await_hit("ERR Internal Error: Redis cannot be reached"), "");
}

}  // namespace
}  // namespace sluice::tests::secured_test
