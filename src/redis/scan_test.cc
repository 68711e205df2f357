#include "redis/scan.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "base/hash.h"
#include "limit/space.h"
#include "limit/space_index.h"
#include "redis/peer_test.h"
#include "redis/shared.h"

namespace sluice::redis {
namespace {

struct ScanTest : testing::Test {
  ScanTest() {
    peer.listen();
    options.nodes = {
        {"127.0.0.1", ntohs(reinterpret_cast<const sockaddr_in&>(peer.address.storage).sin_port)}};
  }
  // What is listed, with the same answer to each step; of all that is stored.
  std::vector<std::string> list(const std::string& answer, bool stored = false) {
    auto table = store::EmbeddedStore::open(options.local_bytes, base::Hash(1), spaces);
    Shared shared(options, spaces, std::move(table), nullptr, nullptr);
    shared.resolve();
    shared.resolver.await(std::chrono::seconds(20));
    std::thread redis([&] {
      if (!peer.accept()) return;
      while (!done && !peer.heard("SCAN").empty()) {
        ++steps;
        if (steps == ends_at) shared.ending = true;
        peer.say(answer);
      }
    });
    const limit::Space* const all[] = {&space};
    const auto found = stored ? scan_stored(shared, limit::SpaceIndex(all), "", "", 100).keys
                              : scan(shared, space, "", 100);
    done = true;
    redis.join();
    return found;
  }

  Peer peer;
  Options options;
  limit::Spaces spaces;
  const limit::Space& space = *spaces.intern("s:", "");
  std::atomic<bool> done{false};
  int steps = 0, ends_at = 0;
};

TEST_F(ScanTest, AListIsOverWhenTheServerStops) {
  ends_at = 3;
  // One that never comes to an end.
  const auto found = list("*2\r\n$1\r\n5\r\n*1\r\n$10\r\nsluice:s:k\r\n");
  EXPECT_EQ(found, std::vector<std::string>{"k"});
  EXPECT_EQ(steps, 3);
}

TEST_F(ScanTest, WhatIsNoListEndsIt) {
  for (const std::string answer : {"-NOPERM no\r\n", "+OK\r\n", "*2\r\n$1\r\n5\r\n:1\r\n",
                                   "*1\r\n$1\r\n5\r\n", "*2\r\n:5\r\n*0\r\n", "HTTP/1.1 400\r\n"}) {
    steps = 0;
    done = false;
    EXPECT_TRUE(list(answer).empty()) << answer;
    EXPECT_EQ(steps, 1) << answer;
    peer.hang_up();
  }
  done = false;
  EXPECT_TRUE(list("*2\r\n$1\r\n0\r\n*2\r\n:1\r\n*-1\r\n").empty());
}

// Whoever does not look at what was asked for.
TEST_F(ScanTest, WhatWasNotAskedForIsLeftOut) {
  for (const bool stored : {false, true}) {
    done = false;
    const auto found = list(
        "*2\r\n$1\r\n0\r\n*4\r\n$1\r\nx\r\n$0\r\n\r\n$12\r\nsomething:s:\r\n$11\r\nsluice:s:ok\r\n",
        stored);
    EXPECT_EQ(found, std::vector<std::string>{stored ? "s:ok" : "ok"});
    peer.hang_up();
  }
}

}  // namespace
}  // namespace sluice::redis
