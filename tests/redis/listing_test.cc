// Pages of the counters in a real Redis that has more keys than one search looks at. Then the
// search is made in parts.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>

#include "base/hash.h"
#include "redis/redis_store.h"
#include "request/space.h"
#include "tests/support/redis_server.h"

namespace sluice::tests {
namespace {

TEST(RedisListing, EveryCounterIsOnOnePage) {
  RedisServer server;
  auto client = server.client();
  request::Spaces spaces;
  request::Space like;
  like.encoding = request::KeyEncoding::remaining_text;
  const request::Space* const all[] = {spaces.intern("limitd:user:", ""),
                                       spaces.intern("divvy:a=", ":1:1", like)};
  std::set<std::string> expected;
  for (int i = 0; i < 4000; ++i) {
    const std::string own = "limitd:user:" + std::to_string(i),
                      divvy = "divvy:a=" + std::to_string(i) + ":1:1";
    client({"SET", "sluice:" + own, "1"});
    if (i % 4 == 0) client({"SET", divvy, "1"});
    client({"SET", "another:" + std::to_string(i), "1"});
    expected.insert(own);
    if (i % 4 == 0) expected.insert(divvy);
  }
  redis::Options options;
  const std::string address = server.address();
  options.nodes = {
      {"127.0.0.1", static_cast<uint16_t>(std::stoi(address.substr(address.rfind(':') + 1)))}};
  redis::Shared shared(options, spaces,
                       store::EmbeddedStore::open(options.local_bytes, base::Hash(1), spaces),
                       nullptr, nullptr);
  shared.resolve();
  shared.first.await(std::chrono::seconds(20));
  const request::SpaceIndex index(all);
  constexpr std::chrono::milliseconds none{0}, enough{60'000};
  for (const redis::Reach& reach :
       {redis::Reach{700, enough}, redis::Reach{5000, enough}, redis::Reach{1'000'000, enough},
        redis::Reach{1'000'000, none}}) {
    std::set<std::string> found;
    size_t parts = 0;
    std::string from;
    do {
      ++parts;
      std::string after;
      for (;;) {  // page by page, in order
        const auto stored = redis::read_scan_page(shared, index, "", after, 100, from, reach);
        ASSERT_FALSE(stored.failed);
        EXPECT_TRUE(std::is_sorted(stored.keys.begin(), stored.keys.end()));
        found.insert(stored.keys.begin(), stored.keys.end());
        if (stored.keys.size() < 100) {
          from = stored.rest;
          break;
        }
        from = stored.again;
        after = stored.keys.back();
      }
    } while (!from.empty() && parts < 1000);
    EXPECT_EQ(found.size(), expected.size());
    EXPECT_TRUE(found == expected) << reach.keys;
    EXPECT_EQ(parts > 1, reach.keys < 1'000'000 || reach.time == none);
  }
}

}  // namespace
}  // namespace sluice::tests
