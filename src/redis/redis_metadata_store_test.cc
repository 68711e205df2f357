// Writes of metadata whose answer never arrives (redis/redis_metadata_store.h). Tests with a real
// Redis are in tests/redis/metadata_store_test.cc.
#include "redis/redis_metadata_store.h"

#include <gtest/gtest.h>

#include "redis/peer_test.h"
#include "store/embedded_store.h"

namespace sluice::redis {
namespace {

// After a write was sent and the connection ended, it is unknown whether it was kept.
TEST(RedisMetadataStoreAlone, AWriteWithoutAnAnswerMayBeStored) {
  Peer peer;
  peer.listen();
  Options options;
  options.nodes = {
      {"127.0.0.1", ntohs(reinterpret_cast<const sockaddr_in&>(peer.address.storage).sin_port)}};
  request::Spaces spaces;
  auto table = store::EmbeddedStore::open(options.local_bytes, base::Hash(1), spaces);
  Shared shared(options, spaces, std::move(table), nullptr, nullptr);
  shared.resolve();
  shared.first.await(std::chrono::seconds(20));
  RedisMetadataStore metadata(shared);
  const auto write = [&](const std::string& probe) {
    std::thread redis([&] {
      if (!peer.accept()) return;
      peer.heard("DEL");
      peer.say(probe);
      if (probe.starts_with(':')) {
        EXPECT_NE(peer.heard("EVALSHA"), "");
      }
      peer.hang_up();
    });
    const store::MetadataStore::Change change{"a", "1"};
    const auto result = metadata.write({&change, 1});
    redis.join();
    EXPECT_NE(result.problem.text, "");
    return result.written;
  };
  EXPECT_EQ(write(":0\r\n"), store::MetadataStore::Written::maybe);
  EXPECT_EQ(write(""), store::MetadataStore::Written::no);
}

TEST(RedisMetadataStoreAlone, ANameWithoutAnAddressIsSaid) {
  Options options;
  options.nodes = {{"one.invalid", 6379}, {"two.invalid", 6380}};
  request::Spaces spaces;
  auto table = store::EmbeddedStore::open(options.local_bytes, base::Hash(1), spaces);
  Shared shared(options, spaces, std::move(table), nullptr, nullptr);
  const std::string problem =
      "Redis at one.invalid:6379, two.invalid:6380: no address is known for the name; "
      "`getent hosts NAME` shows whether this machine resolves it";
  RedisMetadataStore metadata(shared);
  const store::MetadataStore::Change change{"a", "1"};
  EXPECT_EQ(metadata.write({&change, 1}).problem.text, problem);
  EXPECT_EQ(connect_to(*shared.first.fixed(), nullptr, nullptr).problem().text, problem);
}

}  // namespace
}  // namespace sluice::redis
