// What sluice adds to Envoy's rate limit service: further kinds of limits, native rules, requests
// that settle all or nothing. A gRPC client, engine and table in memory, without sockets.
#include <gtest/gtest.h>

#include <initializer_list>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "access/users.h"
#include "protocol/envoy/recorded_test.h"
#include "protocol/envoy/service_wishes_test.h"
#include "protocol/envoy/service_world_test.h"

namespace sluice::envoy::service_test {
namespace {

using namespace service_world;
using nlohmann::json;
using recorded::bytes_as_json;

struct Service {
  explicit Service(const std::string& limits, const std::string& native = {}) {
    EXPECT_TRUE(world.load({{"limits.yaml", limits}}, {}, {}, native));
  }
  std::string ask(const std::vector<Wish>& wishes) { return told(client.call(message_of(wishes))); }

  World world;
  GrpcClient client{world};
};

// ---- Limits of kinds that only sluice has ----

// The clock of the tests stands 37 s before the end of a minute, and 7 s before that of a window of
// 30 s.
TEST(EnvoyService, ARefusalDoesNotChargeACustomWindow) {
  Service service(
      "domain: d\ndescriptors: [{key: k, rate_limit: {window: 30s, requests_per_unit: 3}}]");
  EXPECT_EQ(service.ask({{{{"k", "v"}}, 2}}), "OK: OK 1/3 30xSECOND 7s");
  EXPECT_EQ(service.ask({{{{"k", "v"}}, 2}}), "OVER_LIMIT: OVER_LIMIT 0/3 30xSECOND 7s");
  EXPECT_EQ(service.ask({{{{"k", "v"}}}}), "OK: OK 0/3 30xSECOND 7s");
  service.world.sleep_us(7'000'000);
  EXPECT_EQ(service.ask({{{{"k", "v"}}, 3}}), "OK: OK 0/3 30xSECOND 30s");
}

TEST(EnvoyService, ATokenBucketReportsWhenOneHitIsAllowedAgain) {
  Service service(
      "domain: d\ndescriptors: [{key: k, rate_limit: {unit: minute, requests_per_unit: 6, "
      "algorithm: token_bucket, burst: 2}}]");
  EXPECT_EQ(service.ask({{{{"k", "v"}}, 2}}), "OK: OK 0/6 MINUTE 20s");
  EXPECT_EQ(service.ask({{{{"k", "v"}}}}), "OVER_LIMIT: OVER_LIMIT 0/6 MINUTE 10s");
  service.world.sleep_us(10'000'000);
  EXPECT_EQ(service.ask({{{{"k", "v"}}}}), "OK: OK 0/6 MINUTE 20s");
}

// ---- Deadlines ----

TEST(EnvoyService, ACallWhoseDeadlineHasPassedIsNotCharged) {
  Service service(
      "domain: d\ndescriptors: [{key: k, rate_limit: {unit: day, requests_per_unit: 5}}]");
  const std::string message = message_of({{{{"k", "v"}}}});
  const auto ask = [&](const std::string& timeout) {
    return told(
        service.client.call(message, GrpcClient::should_rate_limit, {{"grpc-timeout", timeout}}));
  };
  EXPECT_EQ(ask("20m").substr(0, 10), "OK: OK 4/5");
  EXPECT_EQ(ask("0m"), "4 the caller's deadline has passed");
  // The deadline passes while the store is asked.
  service.world.table.settles = [](size_t) { return size_t{0}; };
  const uint32_t late =
      service.client.begin(message, GrpcClient::should_rate_limit, {{"grpc-timeout", "20m"}});
  service.world.sleep_us(20'000);
  service.world.table.settles = [](size_t groups) { return groups; };
  service.world.table.name(0);
  service.world.engine().advance();
  EXPECT_EQ(told(service.client.answer_of(late)), "4 the caller's deadline has passed");
  EXPECT_EQ(ask("1S").substr(0, 10), "OK: OK 3/5");
}

// ---- Native rules ----

constexpr const char* native_rules = R"(
rules:
  - name: tenants
    match: { domain: d, tenant: "*" }
    actor: [tenant]
    limit: { quota: 2, window: 1h, algorithm: fixed_window }
)";

TEST(EnvoyService, ReportsTheStrictestOfNativeRuleAndLimit) {
  Service service(
      "domain: d\ndescriptors: [{key: tenant, rate_limit: {unit: minute, requests_per_unit: 5}}]",
      native_rules);
  EXPECT_EQ(service.ask({{{{"tenant", "a"}}}}), "OK: OK 1/2 tenants HOUR 3600s");
  EXPECT_EQ(service.ask({{{{"tenant", "a"}}}}), "OK: OK 0/2 tenants HOUR 3600s");
  EXPECT_EQ(service.ask({{{{"tenant", "a"}}}}), "OVER_LIMIT: OVER_LIMIT 0/2 tenants HOUR 3600s");
  // A request that the native rule refuses is charged to the limit, like every refusal.
  EXPECT_EQ(service.ask({{{{"tenant", "a"}}}}), "OVER_LIMIT: OVER_LIMIT 0/2 tenants HOUR 3600s");
  EXPECT_EQ(service.ask({{{{"tenant", "a"}}}}), "OVER_LIMIT: OVER_LIMIT 0/2 tenants HOUR 3600s");
  service.world.sleep_us(3'600'000'000);
  EXPECT_EQ(service.ask({{{{"tenant", "a"}}}}), "OK: OK 1/2 tenants HOUR 3600s");
  // The descriptors of a message settle by themselves.
  EXPECT_EQ(service.ask({{{{"tenant", "a"}}}, {{{"other", "x"}}}}),
            "OK: OK 0/2 tenants HOUR 3600s, OK");
  // A refund returns units to the native rule.
  EXPECT_EQ(service.ask({{{{"tenant", "a"}}, 2, true}}), "OK: OK 2/2 tenants HOUR 0s");
}

TEST(EnvoyService, NativeRulesUseTheFirstOfARepeatedKey) {
  Service service("domain: d", native_rules);
  EXPECT_EQ(service.ask({{{{"tenant", "a"}, {"tenant", "b"}}, 2}}),
            "OK: OK 0/2 tenants HOUR 3600s");
  EXPECT_EQ(service.ask({{{{"tenant", "a"}}}}), "OVER_LIMIT: OVER_LIMIT 0/2 tenants HOUR 3600s");
  EXPECT_EQ(service.ask({{{{"tenant", "b"}}}}), "OK: OK 1/2 tenants HOUR 3600s");
  // A descriptor's key `domain` does not hide the domain of the request.
  EXPECT_EQ(service.ask({{{{"domain", "x"}, {"tenant", "c"}}}}), "OK: OK 1/2 tenants HOUR 3600s");
}

TEST(EnvoyService, AShadowLimitDoesNotChangeANativeRulesDecision) {
  Service service(
      "domain: d\ndescriptors: [{key: tenant, shadow_mode: true, rate_limit: {unit: minute, "
      "requests_per_unit: 0, name: shy}}]",
      native_rules);
  EXPECT_EQ(service.ask({{{{"tenant", "a"}}}}), "OK: OK 0/0 shy MINUTE 37s");
  EXPECT_EQ(service.ask({{{{"tenant", "a"}}, 2}}), "OVER_LIMIT: OVER_LIMIT 0/2 tenants HOUR 3600s");
}

// ---- Looks before, reports after ----

// Looks, reports twice 6 hits of a limit of 10 that counts what it refuses, and looks again.
void expect_that_debt_refuses_looks(Service& service, const std::string& kind) {
  const Wish look{{{"k", "v"}}, 0}, report{{{"k", "v"}}, 6}, two_back{{{"k", "v"}}, 2, true};
  const auto begins = [&](const Wish& wish, std::string_view with) {
    const std::string answer = service.ask({wish});
    EXPECT_TRUE(answer.starts_with(with)) << kind << ": " << answer;
    EXPECT_FALSE(with.starts_with("OVER") && answer.ends_with(" 0s")) << kind << ": " << answer;
  };
  begins(look, "OK: OK 10/10 ");
  begins(report, "OK: OK 4/10 ");
  begins(look, "OK: OK 4/10 ");
  begins(report, "OVER_LIMIT: OVER_LIMIT 0/10 ");
  begins(look, "OVER_LIMIT: OVER_LIMIT 0/10 ");
  begins(two_back, "OK: OK 0/10 ");
  // Exactly none left is not debt.
  begins(look, "OK: OK 0/10 ");
}

constexpr const char* counting[] = {"token_bucket", "fixed_window", "aligned_window",
                                    "sliding_window", "sliding_log"};

TEST(EnvoyService, ALookIsRefusedWhileALimitIsInDebt) {
  for (const std::string algorithm : counting) {
    Service service(
        "domain: d\ndescriptors: [{key: k, rate_limit: {window: 1h, requests_per_unit: 10, "
        "over: count, algorithm: " +
        algorithm + "}}]");
    expect_that_debt_refuses_looks(service, algorithm);
  }
  Service plain(
      "domain: d\ndescriptors: [{key: k, rate_limit: {unit: day, requests_per_unit: 10}}]");
  expect_that_debt_refuses_looks(plain, "unit");
}

// 8 of 10 used, then reports of 25: the first takes what is left and 3 more.
TEST(EnvoyService, AReportIsCountedUpToTheOverdraft) {
  for (const std::string algorithm : counting) {
    Service service(
        "domain: d\ndescriptors: [{key: k, rate_limit: {window: 1h, requests_per_unit: 10, "
        "over: count, overdraft: 3, algorithm: " +
        algorithm + "}}]");
    const auto ask = [&](uint32_t hits, bool back = false) {
      return service.ask({{{{"k", "v"}}, hits, back}}).substr(0, 4);
    };
    EXPECT_EQ(ask(8), "OK: ") << algorithm;
    EXPECT_EQ(ask(25), "OVER");
    EXPECT_EQ(ask(25), "OVER");
    EXPECT_EQ(ask(0), "OVER");
    ask(3, true);  // pays the debt back
    EXPECT_EQ(ask(0), "OK: ") << algorithm;
    EXPECT_EQ(ask(1), "OVER");
  }
}

TEST(EnvoyService, ALookIsRefusedWhileANativeRuleIsInDebt) {
  for (const std::string algorithm : counting) {
    Service service("domain: d",
                    "rules:\n  - match: { k: \"*\" }\n    actor: k\n    limit: { quota: 10, "
                    "window: 1h, over: count, algorithm: " +
                        algorithm + " }\n");
    expect_that_debt_refuses_looks(service, "native " + algorithm);
  }
}

// ---- All or nothing ----

constexpr const char* two_limits = R"(
domain: d
descriptors:
  - {key: small, rate_limit: {unit: minute, requests_per_unit: 2}}
  - {key: large, rate_limit: {unit: minute, requests_per_unit: 5}}
  - {key: shy, shadow_mode: true, rate_limit: {unit: minute, requests_per_unit: 0}}
)";

TEST(EnvoyService, AllOrNothingDoesNotChargeARefusal) {
  Service service(two_limits);
  service.world.options.all_or_nothing_domains = {"d"};
  const Wish small{{{"small", "x"}}}, large{{{"large", "x"}}}, shy{{{"shy", "x"}}};
  EXPECT_EQ(service.ask({small, large}), "OK: OK 1/2 MINUTE 37s, OK 4/5 MINUTE 37s");
  EXPECT_EQ(service.ask({{small.entries, 2}, large}),
            "OVER_LIMIT: OVER_LIMIT 0/2 MINUTE 37s, OK 4/5 MINUTE 37s");
  EXPECT_EQ(service.ask({shy, large, small}),
            "OK: OK 0/0 MINUTE 37s, OK 3/5 MINUTE 37s, OK 0/2 MINUTE 37s");
  EXPECT_EQ(service.ask({large, small}),
            "OVER_LIMIT: OK 3/5 MINUTE 37s, OVER_LIMIT 0/2 MINUTE 37s");
  // A peek beside takes is a take of 0 units; a refund settles by itself.
  EXPECT_EQ(service.ask({{large.entries, 0}, {small.entries, 1, true}}),
            "OK: OK 3/5 MINUTE 37s, OK 1/2 MINUTE 37s");
  EXPECT_EQ(service.ask(std::vector<Wish>(65, large)),
            "3 at most 64 descriptors of one request are charged together, as all_or_nothing and "
            "stop_when_over do");
}

// A quota that is over does not refuse a request alone, so a request that is allowed is charged to
// its other limits.
TEST(EnvoyService, AllOrNothingChargesOtherLimitsWhenAQuotaIsOver) {
  Service service(
      "domain: d\ndescriptors:\n"
      "  - {key: q1, quota_mode: true, rate_limit: {unit: day, requests_per_unit: 1}}\n"
      "  - {key: q2, quota_mode: true, rate_limit: {unit: day, requests_per_unit: 3}}\n");
  service.world.options.all_or_nothing = true;
  const Wish one{{{"q1", "x"}}}, other{{{"q2", "x"}}};
  std::string admitted;
  for (int i = 0; i < 5; ++i) admitted += service.ask({one, other}).starts_with("OK:") ? "+" : "-";
  EXPECT_EQ(admitted, "+++--");
  // With `shadow` for all responses every request is allowed, so each limit is charged by itself.
  Service shadowed(two_limits);
  shadowed.world.options.all_or_nothing = shadowed.world.options.response.shadow = true;
  for (int i = 0; i < 3; ++i) shadowed.ask({{{{"small", "x"}}}, {{{"large", "x"}}}});
  EXPECT_EQ(shadowed.ask({{{{"large", "x"}}, 0}}), "OK: OK 2/5 MINUTE 37s");
}

TEST(EnvoyService, AQuotaThatTheStoreCannotDecideIsAnError) {
  Service service(
      "domain: d\ndescriptors: [{key: q, quota_mode: true, rate_limit: {unit: day, "
      "requests_per_unit: 1}}, {key: s, shadow_mode: true, rate_limit: {unit: day, "
      "requests_per_unit: 1}}]");
  service.world.table.fails = true;
  EXPECT_EQ(service.ask({{{{"q", "x"}}}}), "2 the store cannot decide a quota");
  EXPECT_EQ(service.ask({{{{"s", "x"}}}}), "OK: OK");
}

// A native rule's refusal holds even if the store cannot decide a limit in shadow mode.
TEST(EnvoyService, AFailedShadowLimitDoesNotHideANativeRefusal) {
  Service service(
      "domain: d\ndescriptors: [{key: s, shadow_mode: true, rate_limit: {unit: day, "
      "requests_per_unit: 1}}]",
      "rules:\n  - { name: banned, match: { s: \"*\" }, deny: true }\n");
  service.world.table.fails = true;
  EXPECT_TRUE(service.ask({{{{"s", "x"}}}}).starts_with("OVER_LIMIT: OVER_LIMIT 0/0 banned"));
}

TEST(EnvoyService, OneCounterUnderTwoLimitsCannotBeSettledTogether) {
  Service service(two_limits);
  service.world.options.all_or_nothing = true;
  proto::RateLimitRequest request;
  ASSERT_TRUE(request.ParseFromString(message_of({{{{"small", "x"}}}, {{{"small", "x"}}}})));
  auto* const limit = request.mutable_descriptors(0)->mutable_limit();
  limit->set_unit(::envoy::type::v3::MINUTE);
  limit->set_requests_per_unit(1'000);
  const auto ask = [&] { return told(service.client.call(request.SerializeAsString())); };
  EXPECT_EQ(ask().substr(0, 2), "2 ");
  // The same limit twice is one charge of both costs.
  *request.mutable_descriptors(1)->mutable_limit() = *limit;
  EXPECT_EQ(ask(), "OK: OK 998/1000 MINUTE 37s, OK 998/1000 MINUTE 37s");
}

TEST(EnvoyService, DomainsWithoutAllOrNothingChargeEachLimitSeparately) {
  Service service(two_limits);
  service.world.options.all_or_nothing_domains = {"e"};
  EXPECT_EQ(service.ask({{{{"small", "x"}}, 3}, {{{"large", "x"}}}}),
            "OVER_LIMIT: OVER_LIMIT 0/2 MINUTE 37s, OK 4/5 MINUTE 37s");
  EXPECT_EQ(service.ask({{{{"small", "x"}}, 0}}), "OVER_LIMIT: OVER_LIMIT 0/2 MINUTE 37s");
}

// ---- Overrides that come with requests ----

TEST(EnvoyService, AnOverrideMayHaveAWindowOfSeveralUnits) {
  Service service("domain: d");
  proto::RateLimitRequest request;
  request.set_domain("d");
  auto* const descriptor = request.add_descriptors();
  auto* const entry = descriptor->add_entries();
  entry->set_key("k");
  auto* const limit = descriptor->mutable_limit();
  limit->set_requests_per_unit(3);
  limit->set_unit(::envoy::type::v3::SECOND);
  limit->mutable_unit_multiplier()->set_value(30);
  EXPECT_EQ(told(service.client.call(request.SerializeAsString())), "OK: OK 2/3 30xSECOND 7s");
  limit->mutable_unit_multiplier()->set_value(20);
  EXPECT_EQ(told(service.client.call(request.SerializeAsString())), "OK: OK 2/3 20xSECOND 17s");
  limit->mutable_unit_multiplier()->set_value(30);
  EXPECT_EQ(told(service.client.call(request.SerializeAsString())), "OK: OK 1/3 30xSECOND 7s");
  limit->mutable_unit_multiplier()->set_value(0);
  EXPECT_EQ(told(service.client.call(request.SerializeAsString())),
            "3 descriptors[0].limit.unit_multiplier: 0 units are not a window");
}

// ---- A store that fails, and other forms of answers ----

TEST(EnvoyService, AStoreErrorIsAnsweredWithTheConfiguredCode) {
  Service service(
      "domain: d\ndescriptors: [{key: k, rate_limit: {unit: day, requests_per_unit: 5}}]");
  service.world.table.fails = true;
  EXPECT_EQ(service.ask({{{{"k", "v"}}}}).substr(0, 2), "2 ");
  service.world.options.error_code = wire::GrpcStatus::internal;
  EXPECT_EQ(service.ask({{{{"k", "v"}}}}).substr(0, 3), "13 ");
  // A descriptor without a limit needs no counter, so it is answered.
  EXPECT_EQ(service.ask({{{{"other", "v"}}}}), "OK: OK");
  service.world.table.fails = false;
  EXPECT_EQ(service.ask({{{{"k", "v"}}}}).substr(0, 10), "OK: OK 4/5");
}

TEST(EnvoyService, ErrorsOfJsonRequestsAreProblemDetails) {
  World world;
  ASSERT_TRUE(world.load({{"a.yaml", "domain: d"}}));
  Connection http(world);
  http.send(
      "POST /json HTTP/1.1\r\nHost: x\r\nAccept: application/json\r\nContent-Length: 8\r\n\r\n"
      "{\"a\": 1}");
  const std::string answer = http.take();
  EXPECT_TRUE(answer.starts_with("HTTP/1.1 400 ")) << answer;
  EXPECT_NE(answer.find("Content-Type: application/problem+json"), std::string::npos) << answer;
  const json problem = json::parse(answer.substr(answer.find("\r\n\r\n") + 4));
  EXPECT_EQ(problem["status"], 400);
  EXPECT_FALSE(problem["detail"].get<std::string>().empty());
}

TEST(EnvoyService, JsonRequestsOfWebPagesAreRefused) {
  World world;
  ASSERT_TRUE(world.load({{"a.yaml",
                           "domain: d\ndescriptors: [{key: k, rate_limit: {unit: minute, "
                           "requests_per_unit: 5}}]"}}));
  const std::string body = R"({"domain":"d","descriptors":[{"entries":[{"key":"k"}]}]})";
  const auto told = [&](const std::string& fields) {
    Connection http(world);
    http.send("POST /json HTTP/1.1\r\nHost: x\r\n" + fields +
              "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body);
    return http.take();
  };
  for (const char* const fields :
       {"Origin: https://a.example\r\n", "Origin: null\r\n", "Origin: http://x\r\n",
        "Sec-Fetch-Site: cross-site\r\n", "Sec-Fetch-Site: same-site\r\n",
        "Sec-Fetch-Site: same-origin\r\n"})
    EXPECT_TRUE(told(fields).starts_with("HTTP/1.1 403 ")) << fields;
  EXPECT_TRUE(told("Origin: a\r\nOrigin: a\r\n").starts_with("HTTP/1.1 400 "));
  EXPECT_TRUE(told("Authorization: a\r\nAuthorization: a\r\n").starts_with("HTTP/1.1 400 "));
  for (const char* const fields : {"", "Sec-Fetch-Site: none\r\n"})
    EXPECT_TRUE(told(fields).starts_with("HTTP/1.1 200 ")) << fields;
  // None of those that were refused is charged.
  EXPECT_NE(told("").find("\"limitRemaining\":2"), std::string::npos);
}

TEST(EnvoyService, JsonAnswersHaveTheHeadersOfLimits) {
  World world;
  world.options.response.headers = HeaderStyle::legacy;
  world.options.response.reset_header = "no header";
  ASSERT_TRUE(world.load({{"a.yaml",
                           "domain: d\ndescriptors: [{key: k, rate_limit: {unit: minute, "
                           "requests_per_unit: 5}}]"}}));
  Connection http(world);
  const std::string body = R"({"domain":"d","descriptors":[{"entries":[{"key":"k"}]}]})";
  http.send("POST /json HTTP/1.1\r\nHost: x\r\nContent-Length: " + std::to_string(body.size()) +
            "\r\n\r\n" + body);
  const std::string answer = http.take();
  EXPECT_NE(answer.find("RateLimit-Limit: 5\r\nRateLimit-Remaining: 4\r\n"), std::string::npos)
      << answer;
  EXPECT_EQ(answer.substr(0, answer.find("\r\n\r\n")).find("no header"), std::string::npos);
}

// ---- Users ----

constexpr const char* five_a_minute =
    "domain: d\ndescriptors: [{key: k, rate_limit: {unit: minute, requests_per_unit: 5}}]";

std::shared_ptr<const access::Users> users() {
  using access::Right;
  return std::make_shared<const access::Users>(
      std::vector<access::User>{{"app", {Right::take}, access::digest_of("secret")},
                                {"ops", {Right::take, Right::put}, access::digest_of("p:w")},
                                {"see", {Right::look}, access::digest_of("s")}});
}

TEST(EnvoyUsers, ShowTheirTokenAsMetadata) {
  Service service(five_a_minute);
  const std::string take = message_of({{{{"k", "v"}}}}),
                    refund = message_of({{{{"k", "v"}}, 1, true}});
  const auto ask = [&](const std::string& message, const std::string& authorization) {
    const std::string text = told(service.client.call(message, GrpcClient::should_rate_limit,
                                                      {{"authorization", authorization}}));
    return text.substr(0, text.find(text.starts_with("O") ? "/" : " "));
  };
  EXPECT_EQ(ask(take, "Bearer any"), "OK: OK 4") << "there are no users";
  service.world.access.set(users());
  EXPECT_EQ(told(service.client.call(take)).substr(0, 3), "16 ");
  for (const char* wrong : {"Bearer any", "secret", "Basic b3BzOnNlY3JldA==", "Bearer app:secret"})
    EXPECT_EQ(ask(take, wrong), "16") << wrong;
  EXPECT_EQ(ask(take, "Bearer s"), "7") << "it may not take";
  EXPECT_EQ(ask(take, "Bearer secret"), "OK: OK 3");
  EXPECT_EQ(ask(take, "Basic YXBwOnNlY3JldA=="), "OK: OK 2") << "app:secret";
  EXPECT_EQ(ask(refund, "Bearer secret"), "7") << "it may not give back";
  EXPECT_EQ(ask(refund, "Bearer p:w"), "OK: OK 3");
  EXPECT_EQ(ask(take, ""), "16") << "each call shows it";
  EXPECT_EQ(service.client.call("", "/grpc.health.v1.Health/Check").code, 0u);
  service.world.access.set(nullptr);
  EXPECT_EQ(ask(take, ""), "OK: OK 2");
}

TEST(EnvoyUsers, ShowTheirTokenWithEachJsonRequest) {
  World world;
  ASSERT_TRUE(world.load({{"a.yaml", five_a_minute}}));
  world.access.set(users());
  Connection http(world);
  const auto status = [&](const std::string& head, const std::string& path = "/json") {
    const std::string body = R"({"domain":"d","descriptors":[{"entries":[{"key":"k"}]}]})";
    http.send("POST " + path + " HTTP/1.1\r\nHost: x\r\n" + head +
              "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body);
    return http.take().substr(9, 3);
  };
  EXPECT_EQ(status(""), "401");
  EXPECT_EQ(status("Authorization: Bearer any\r\n"), "401");
  EXPECT_EQ(status("Authorization: Bearer s\r\n"), "403");
  EXPECT_EQ(status("Authorization: Bearer secret\r\n"), "200");
  EXPECT_EQ(status(""), "401");
  EXPECT_EQ(status("", "/healthcheck"), "200");
}

}  // namespace
}  // namespace sluice::envoy::service_test
