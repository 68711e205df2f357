#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "otlp/options.h"

namespace sluice::otlp {
namespace {

std::string shown(std::string_view url) {
  const auto to = read_endpoint(url, traces_path);
  return to ? std::string(to->is_tls ? "tls " : "plain ") + to->host + " " +
                  std::to_string(to->port) + " " + to->path
            : "wrong";
}

TEST(Endpoint, IsReadFromAUrl) {
  EXPECT_EQ(shown("http://collector:4318"), "plain collector 4318 /v1/traces");
  EXPECT_EQ(shown("http://collector:4318/"), "plain collector 4318 /v1/traces");
  EXPECT_EQ(shown("https://collector"), "tls collector 443 /v1/traces");
  EXPECT_EQ(shown("http://collector/a/b?c=d"), "plain collector 80 /a/b?c=d");
  EXPECT_EQ(shown("https://[::1]:4318/x"), "tls ::1 4318 /x");
  EXPECT_EQ(shown("http://10.0.0.7:1"), "plain 10.0.0.7 1 /v1/traces");
}

TEST(Endpoint, ThatIsNoUrlIsAProblem) {
  for (const char* url : {"", "collector:4318", "grpc://collector:4317", "http://", "http:///v1",
                          "http://a b/", "http://collector:99999", "http://collector/a b",
                          "http://user@collector/", "http://collector?x"})
    EXPECT_EQ(shown(url), "wrong") << url;
}

}  // namespace
}  // namespace sluice::otlp
