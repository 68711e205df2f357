// Examples of requests for the log (engine/decision_log.h).
#include "engine/decision_log.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace sluice::engine::decision_log_test {
namespace {

TEST(ExampleOfARequest, ShowsItsEntries) {
  const std::vector<request::Entry> entries = {
      {"method", "GET"}, {"path", "/a\nb"}, {"generic_key", "v"}, {"monkey", "m"}, {"keys", "k"}};
  EXPECT_EQ(example_of(entries), "method=GET path=/a\\nb generic_key=v monkey=m keys=k");
  EXPECT_EQ(example_of({}), "");
}

TEST(ExampleOfARequest, ShowsNoSecret) {
  for (const char* key :
       {"header.authorization", "header.x-api-key", "API_KEY", "access-key", "cookie.sid", "key",
        "token", "X-Auth-Token", "password", "query", "session", "apikey", "jwt"}) {
    const std::vector<request::Entry> entries = {{key, "swordfish"}, {"ip", "::1"}};
    EXPECT_EQ(example_of(entries), std::string(key) + "=... ip=::1");
  }
}

TEST(ExampleOfARequest, IsBounded) {
  const std::string much(10'000, 'x');
  const std::vector<request::Entry> entries(64, {much, much});
  EXPECT_LT(example_of(entries).size(), 500u);
}

}  // namespace
}  // namespace sluice::engine::decision_log_test
