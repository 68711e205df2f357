// The real server with a Redis that speaks TLS, and with certificates that are wrong.
#include <gtest/gtest.h>

#include "tests/redis/certificates.h"
#include "tests/redis/world.h"

namespace sluice::tests {
namespace {

struct Secured {
  explicit Secured(const std::string& name = "IP:127.0.0.1") : files(authority.sign(name)) {}
  RedisWorld world(const std::string& trusted, bool connects = true) const {
    return RedisWorld({"127.0.0.1:" + std::to_string(port)},
                      {.redis = ", tls: true",
                       .environment = {{"SSL_CERT_FILE", trusted}},
                       .connects = connects});
  }

  Folder folder;
  Authority authority{folder, "authority"};
  Authority::Files files;
  uint16_t port = free_port();
  RedisServer redis{{"--tls-port", std::to_string(port), "--tls-cert-file", files.certificate,
                     "--tls-key-file", files.key, "--tls-auth-clients", "no"}};
};

TEST(RedisTls, CountersAndListsGoOverIt) {
  const Secured secured;
  RedisWorld world = secured.world(secured.authority.certificate());
  EXPECT_EQ(world.hit(), "OK true 999 600");
  EXPECT_EQ(world.hit(), "OK true 998 600");
  EXPECT_EQ(secured.redis.client()({"GET", "divvy:::1000:600"}).text, "998");
  LimitdClient client = world.limitd();
  for (const char* key : {"a1", "a2", "b"}) EXPECT_EQ(client.take("fixed", key).remaining, 2);
  const auto listed = client.ask({LimitdMethod::status, "fixed", "a"}).items;
  ASSERT_EQ(listed.size(), 2u);
  EXPECT_EQ(listed[0].instance, "a1");
  EXPECT_EQ(listed[1].instance, "a2");
  EXPECT_EQ(world.metric("sluice_redis_local_decisions_total"), "0");
}

// More than fits into one TLS record, in both directions.
TEST(RedisTls, ManyAtOnce) {
  const Secured secured;
  RedisWorld world = secured.world(secured.authority.certificate());
  TcpClient client = connected(world.divvy_port());
  std::string all;
  for (int i = 0; i < 900; ++i) all += "HIT k=" + std::to_string(i) + "\n";
  ASSERT_TRUE(client.send(all));
  for (int i = 0; i < 900; ++i)
    ASSERT_EQ(client.read_line(), "OK true " + std::to_string(999 - i) + " 600") << i;
  EXPECT_EQ(secured.redis.client()({"GET", "divvy:::1000:600"}).text, "100");
}

TEST(RedisTls, ReportsAnUntrustedAuthority) {
  const Secured secured;
  const Authority other(secured.folder, "other");
  RedisWorld world = secured.world(other.certificate(), false);
  EXPECT_TRUE(world.process().says("127.0.0.1:" + std::to_string(secured.port) +
                                   ": lost: its certificate is not trusted: "));
  EXPECT_TRUE(world.process().says("SSL_CERT_FILE"));
  EXPECT_EQ(world.await_hit("", "ERR Internal Error: Redis cannot be reached"), "");
  EXPECT_EQ(world.limitd().ask({LimitdMethod::status, "fixed", "a"}).items.size(), 0u);
  EXPECT_EQ(secured.redis.client()({"DBSIZE"}).number, 0);
}

TEST(RedisTls, ReportsACertificateForAnotherHost) {
  const Secured secured("DNS:elsewhere.example");
  RedisWorld world = secured.world(secured.authority.certificate(), false);
  EXPECT_TRUE(world.process().says("lost: its certificate is not for 127.0.0.1"));
  EXPECT_EQ(world.await_hit("", "ERR Internal Error: Redis cannot be reached"), "");
  EXPECT_EQ(secured.redis.client()({"DBSIZE"}).number, 0);
}

// A Redis that does not speak TLS at that port.
TEST(RedisTls, ReportsARedisWithoutTls) {
  const Secured secured;
  RedisWorld world({secured.redis.address()},
                   {.redis = ", tls: true", .environment = {}, .connects = false});
  EXPECT_TRUE(world.process().says(secured.redis.address() + ": "));
  EXPECT_TRUE(world.process().says("trying again"));
  EXPECT_EQ(world.await_hit("", "ERR Internal Error: Redis cannot be reached"), "");
}

TEST(RedisTls, ReconnectsWithoutHelp) {
  Secured secured;
  RedisWorld world = secured.world(secured.authority.certificate());
  EXPECT_EQ(world.hit(), "OK true 999 600");
  secured.redis.stop();
  EXPECT_EQ(world.await_hit("", "ERR Internal Error: Redis cannot be reached"), "");
  secured.redis.start();
  EXPECT_EQ(world.await_hit("", "OK true"), "");
}

}  // namespace
}  // namespace sluice::tests
