// The end of a server whose counters are in Redis, while requests wait for units.
#include <gtest/gtest.h>

#include <string>

#include "tests/support/redis_server.h"
#include "tests/support/stopped_waits.h"

namespace sluice::tests {
namespace {

TEST(RedisStopWithWaits, AnswersThemAndWhatIsBehindThem) {
  RedisServer redis;
  const Folder folder;
  StoppedWaits(folder, "store: { redis: { nodes: [\"127.0.0.1:" + std::to_string(redis.port()) +
                           "\"], deadline_ms: 20000 } }\n")
      .expect_answers();
}

}  // namespace
}  // namespace sluice::tests
