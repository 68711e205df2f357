// What each method and page answers to each kind of client where the server has users. Everything
// that the service answers needs a line here.
#include <gtest/gtest.h>

#include <iterator>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "access/users_by_rights_test.h"
#include "protocol/envoy/service_wishes_test.h"
#include "protocol/envoy/service_world_test.h"
#include "wire/grpc.h"

namespace sluice::envoy::rights_test {
namespace {

using namespace service_world;
using access::Right;
using tests::every_right;
using tests::users_by_rights;
using wire::GrpcStatus;

constexpr const char* limits =
    "domain: d\n"
    "descriptors:\n"
    "  - { key: k, rate_limit: { unit: minute, requests_per_unit: 5 } }\n"
    "  - { key: s, shadow_mode: true, rate_limit: { unit: minute, requests_per_unit: 5 } }\n";
constexpr const char* json_body =
    R"({"domain":"d","descriptors":[{"entries":[{"key":"k","value":"a"}]}]})";

access::User limited(const std::string& name, const std::vector<std::string>& takes,
                     const std::vector<std::string>& puts = {}) {
  access::User one{name, every_right, access::digest_of(name)};
  one.reach[static_cast<size_t>(Right::take)] = access::Reach(takes);
  one.reach[static_cast<size_t>(Right::put)] = access::Reach(puts);
  return one;
}

// `only-R`, `without-R`, `elsewhere`, `here`, and one of a certificate.
std::shared_ptr<const access::Users> users() {
  access::User by_certificate{"by-certificate", every_right};
  by_certificate.certificate = "client.example";
  std::vector<access::User> all = {by_certificate, limited("elsewhere", {"d.k:z*", "other"}),
                                   limited("here", {"d.k:a*"})};
  return users_by_rights(std::move(all));
}

// The message of a method or a page, and its answer to a client that may ask.
struct Line {
  std::string message{};
  bool touches = false;  // a counter, which `here` reaches
  uint32_t code = 0;     // of gRPC; 99: the call goes on
};

const std::map<std::string_view, Line>& lines() {
  static const std::map<std::string_view, Line> all = {
      {"/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit",
       {message_of({{{{"k", "a"}}}}), true}},
      {"/kuadrant.service.ratelimit.v1.RateLimitService/CheckRateLimit",
       {message_of({{{{"k", "a"}}}}), true}},
      {"/kuadrant.service.ratelimit.v1.RateLimitService/Report",
       {message_of({{{{"k", "a"}}}}), true}},
      {"/kuadrant.service.ratelimit.v1.RateLimitService/Reserve",
       {message_of({{{{"k", "a"}}}}), true}},
      {"/kuadrant.service.ratelimit.v1.RateLimitService/Commit",
       {message_of({{{{"k", "a"}}}}), true}},
      {"/grpc.health.v1.Health/Check", {}},
      {"/grpc.health.v1.Health/Watch", {{}, false, 99}},
      {"/grpc.reflection.v1.ServerReflection/ServerReflectionInfo", {}},
      {"/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo", {}},
      {"/json", {json_body, true}},
      {"/healthcheck", {}},
      {"/", {}},
      {"/rlconfig", {}},
  };
  return all;
}

class EnvoyRights : public testing::Test {
 protected:
  EnvoyRights() {
    world.options.reflection = true;
    world.options.debug_port = 6070;
    EXPECT_TRUE(world.load({{"limits.yaml", limits}}));
    world.access.set(users());
  }
  uint32_t code(std::string_view path, const std::string& message, const std::string& token,
                const std::string& certificate = {}) {
    GrpcClient client(world, SIZE_MAX, certificate);
    wire::http2_peer::Headers more;
    if (!token.empty()) more.emplace_back("authorization", "Bearer " + token);
    return client.call(message, path, more).code;
  }
  std::string status(std::string_view path, bool is_debug, const std::string& body,
                     const std::string& token, const std::string& certificate = {}) {
    Connection http(world, certificate, is_debug ? 6070 : 0);
    http.send("POST " + std::string(path) + " HTTP/1.1\r\nHost: x\r\n" +
              (token.empty() ? "" : "Authorization: Bearer " + token + "\r\n") +
              "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body);
    return http.take().substr(9, 3);
  }

  // Each kind of client, with what it gets of these three: known and permitted, not known, not
  // permitted.
  template <class Expect>
  void each_client(std::optional<Right> right, bool touches, Expect&& expect) {
    enum { permitted, unknown, refused };
    const auto known = [&](bool may) { return !right || may ? permitted : refused; };
    expect(right ? unknown : permitted, "", "");
    expect(right ? unknown : permitted, "wrong", "");
    expect(right ? unknown : permitted, "", "unknown.example");
    expect(permitted, "", "client.example");
    expect(right ? unknown : permitted, "wrong", "client.example");
    for (size_t i = 0; i < access::right_names.size(); ++i) {
      const bool is_its = right == static_cast<Right>(i);
      expect(known(!is_its), "without-" + std::string(access::right_names[i]), "");
      expect(known(is_its), "only-" + std::string(access::right_names[i]), "");
    }
    expect(touches ? refused : permitted, "elsewhere", "");
    expect(permitted, "here", "");
  }

  World world;
};

TEST_F(EnvoyRights, EachMethodAnswersEachClientAsItsLineSays) {
  for (const ServedMethod& method : served_methods()) {
    const auto found = lines().find(method.path);
    ASSERT_NE(found, lines().end()) << method.path << " has no line in this test";
    const Line& line = found->second;
    each_client(method.right, line.touches,
                [&](int kind, const std::string& token, const std::string& certificate) {
                  world.sleep_us(60'000'000);
                  const uint32_t expected[] = {
                      line.code, static_cast<uint32_t>(GrpcStatus::unauthenticated),
                      static_cast<uint32_t>(GrpcStatus::permission_denied)};
                  EXPECT_EQ(code(method.path, line.message, token, certificate), expected[kind])
                      << method.path << " by " << token << certificate;
                });
  }
}

TEST_F(EnvoyRights, EachPageAnswersEachClientAsItsLineSays) {
  for (const ServedPage& page : served_pages()) {
    const auto found = lines().find(page.path);
    ASSERT_NE(found, lines().end()) << page.path << " has no line in this test";
    const Line& line = found->second;
    each_client(page.right, line.touches,
                [&](int kind, const std::string& token, const std::string& certificate) {
                  world.sleep_us(60'000'000);
                  const char* const expected[] = {"200", "401", "403"};
                  EXPECT_EQ(status(page.path, page.is_debug, line.message, token, certificate),
                            expected[kind])
                      << page.path << " by " << token << certificate;
                });
  }
}

// ---- Limited rights ----

TEST_F(EnvoyRights, OneDescriptorThatIsNotAllowedRefusesTheMessage) {
  const std::string both = message_of({{{{"k", "a"}}}, {{{"k", "b"}}}});
  for (const bool all_or_nothing : {false, true}) {
    world.options.all_or_nothing = all_or_nothing;
    world.table.charged.clear();
    EXPECT_EQ(code(GrpcClient::should_rate_limit, both, "here"), 7u);
    EXPECT_EQ(
        code(GrpcClient::should_rate_limit, message_of({{{{"k", "b"}}}, {{{"k", "a"}}}}), "here"),
        7u);
    EXPECT_TRUE(world.table.charged.empty());
    EXPECT_EQ(code(GrpcClient::should_rate_limit, both, "only-take"), 0u);
    EXPECT_EQ(world.table.charged.size(), 2u);
  }
}

TEST_F(EnvoyRights, HitsGivenBackNeedTheRightToPutThere) {
  world.access.set(std::make_shared<const access::Users>(
      std::vector<access::User>{limited("app", {"d.k:a*"}, {"d.k:b"})}));
  const auto ask = [&](const std::vector<Wish>& wishes) {
    return code(GrpcClient::should_rate_limit, message_of(wishes), "app");
  };
  EXPECT_EQ(ask({{{{"k", "a"}}}}), 0u);
  EXPECT_EQ(ask({{{{"k", "a"}}, 1, true}}), 7u);
  EXPECT_EQ(ask({{{{"k", "b"}}, 1, true}}), 0u);
  EXPECT_EQ(ask({{{{"k", "b"}}}}), 7u);
  EXPECT_EQ(ask({{{{"k", "a"}}}, {{{"k", "b"}}, 1, true}}), 0u);
}

// The response shows what a limit in shadow mode has left.
TEST_F(EnvoyRights, LimitsInShadowModeMustBeInReach) {
  EXPECT_EQ(code(GrpcClient::should_rate_limit, message_of({{{{"s", "a"}}}}), "here"), 7u);
}

TEST_F(EnvoyRights, WhatNoLimitAppliesToTouchesNothing) {
  EXPECT_EQ(code(GrpcClient::should_rate_limit, message_of({{{{"none", "a"}}}}), "elsewhere"), 0u);
  EXPECT_EQ(
      code(GrpcClient::should_rate_limit, message_of({{{{"k", "a"}}}}, "unknown"), "elsewhere"),
      0u);
}

}  // namespace
}  // namespace sluice::envoy::rights_test
