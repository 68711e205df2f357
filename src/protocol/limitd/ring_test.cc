// Which host of a list has a key, against what limitd's own client said.
#include "protocol/limitd/ring.h"

#include <gtest/gtest.h>

#include <charconv>
#include <cstddef>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "tests/support/paths.h"

namespace sluice::limitd {
namespace {

// tests/clients/limitd/ring.test.mjs compares limitd's own client with the same recording.
TEST(Ring, ShardsMatchTheRealClient) {
  std::ifstream file(tests::source_path("tests/conformance/limitd_ring.json"));
  const auto recorded = nlohmann::json::parse(file);
  const auto& keys = recorded.at("keys");
  ASSERT_EQ(keys.size(), 1'000u);
  ASSERT_EQ(recorded.at("lists").size(), 3u);
  for (const auto& list : recorded.at("lists")) {
    const auto hosts = list.at("hosts").get<std::vector<std::string>>();
    const auto shards = list.at("shards").get<std::string>();
    ASSERT_EQ(shards.size(), keys.size());
    const Ring ring(hosts);
    std::set<size_t> met;
    for (size_t i = 0; i < keys.size(); ++i) {
      size_t expected = 0;
      std::from_chars(&shards[i], &shards[i] + 1, expected, 16);
      const std::string key = keys[i][0].get<std::string>() + ":" + keys[i][1].get<std::string>();
      ASSERT_EQ(ring.host_of(key), expected) << key;
      met.insert(expected);
    }
    EXPECT_EQ(met.size(), hosts.size());
  }
}

TEST(Ring, OneHostHasEveryKey) {
  const std::string host[] = {"localhost:9231"};
  const Ring ring(host);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(ring.host_of(std::to_string(i)), 0u);
}

}  // namespace
}  // namespace sluice::limitd
