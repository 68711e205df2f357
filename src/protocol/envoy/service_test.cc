// What sluice does beside the original: limits of its own kinds, native rules, requests that settle
// all or nothing, health, the end of connections.
#include <gtest/gtest.h>

#include <initializer_list>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "protocol/envoy/recorded_test.h"
#include "protocol/envoy/service_world_test.h"
#include "wire/http2_faults.h"

namespace sluice::envoy::service_test {
namespace {

using namespace service_world;
using nlohmann::json;
using recorded::bytes_as_json;

using Pairs = std::vector<std::pair<std::string, std::string>>;

struct Wish {
  Pairs entries;
  int64_t hits = 1;
  bool refund = false;
};

std::string message_of(const std::vector<Wish>& wishes, const std::string& domain = "d") {
  proto::RateLimitRequest request;
  request.set_domain(domain);
  for (const Wish& wish : wishes) {
    auto* const descriptor = request.add_descriptors();
    for (const auto& [key, value] : wish.entries) {
      auto* const entry = descriptor->add_entries();
      entry->set_key(key);
      entry->set_value(value);
    }
    if (wish.hits != 1)
      descriptor->mutable_hits_addend()->set_value(static_cast<uint64_t>(wish.hits));
    descriptor->set_is_negative_hits(wish.refund);
  }
  return request.SerializeAsString();
}

// "OVER_LIMIT: OVER_LIMIT 0/5 MINUTE 20s, OK 3/9 x HOUR 40s"
std::string told(const GrpcAnswer& answer) {
  if (answer.code != 0) return std::to_string(answer.code) + " " + answer.text;
  proto::RateLimitResponse response;
  EXPECT_TRUE(response.ParseFromString(answer.message));
  const auto name = [](int code) { return code == 2 ? "OVER_LIMIT" : "OK"; };
  std::string text = std::string(name(response.overall_code())) + ":";
  for (const auto& status : response.statuses()) {
    text += (text.ends_with(':') ? " " : ", ") + std::string(name(status.code()));
    if (!status.has_current_limit()) continue;
    const auto& limit = status.current_limit();
    text += " " + std::to_string(status.limit_remaining()) + "/" +
            std::to_string(limit.requests_per_unit());
    if (!limit.name().empty()) text += " " + limit.name();
    text += " ";
    if (limit.has_unit_multiplier()) text += std::to_string(limit.unit_multiplier().value()) + "x";
    text += proto::RateLimitResponse::RateLimit::Unit_Name(limit.unit());
    text += " " + std::to_string(status.duration_until_reset().seconds()) + "s";
  }
  return text;
}

struct Service {
  explicit Service(const std::string& limits, const std::string& native = {}) {
    EXPECT_TRUE(world.load({{"limits.yaml", limits}}, {}, {}, native));
  }
  std::string ask(const std::vector<Wish>& wishes) { return told(client.call(message_of(wishes))); }

  World world;
  GrpcClient client{world};
};

// ---- Limits of sluice's own kinds ----

// 37 s are left of the minute, and 7 of a window of 30 s.
TEST(EnvoyService, AWindowOfItsOwnIsNotChargedByARefusal) {
  Service service(
      "domain: d\ndescriptors: [{key: k, rate_limit: {window: 30s, requests_per_unit: 3}}]");
  EXPECT_EQ(service.ask({{{{"k", "v"}}, 2}}), "OK: OK 1/3 30xSECOND 7s");
  EXPECT_EQ(service.ask({{{{"k", "v"}}, 2}}), "OVER_LIMIT: OVER_LIMIT 0/3 30xSECOND 7s");
  EXPECT_EQ(service.ask({{{{"k", "v"}}}}), "OK: OK 0/3 30xSECOND 7s");
  service.world.sleep_us(7'000'000);
  EXPECT_EQ(service.ask({{{{"k", "v"}}, 3}}), "OK: OK 0/3 30xSECOND 30s");
}

TEST(EnvoyService, ATokenBucketSaysWhenOneHitPassesAgain) {
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
  // Behind a store that has to be asked first.
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

TEST(EnvoyService, TheStrictestOfNativeRuleAndLimitIsTold) {
  Service service(
      "domain: d\ndescriptors: [{key: tenant, rate_limit: {unit: minute, requests_per_unit: 5}}]",
      native_rules);
  EXPECT_EQ(service.ask({{{{"tenant", "a"}}}}), "OK: OK 1/2 tenants HOUR 3600s");
  EXPECT_EQ(service.ask({{{{"tenant", "a"}}}}), "OK: OK 0/2 tenants HOUR 3600s");
  EXPECT_EQ(service.ask({{{{"tenant", "a"}}}}), "OVER_LIMIT: OVER_LIMIT 0/2 tenants HOUR 3600s");
  // What the native rule refuses is charged to the limit all the same, as every refusal is.
  EXPECT_EQ(service.ask({{{{"tenant", "a"}}}}), "OVER_LIMIT: OVER_LIMIT 0/2 tenants HOUR 3600s");
  EXPECT_EQ(service.ask({{{{"tenant", "a"}}}}), "OVER_LIMIT: OVER_LIMIT 0/2 tenants HOUR 3600s");
  service.world.sleep_us(3'600'000'000);
  EXPECT_EQ(service.ask({{{{"tenant", "a"}}}}), "OK: OK 1/2 tenants HOUR 3600s");
  // Another descriptor of the message is settled by itself.
  EXPECT_EQ(service.ask({{{{"tenant", "a"}}}, {{{"other", "x"}}}}),
            "OK: OK 0/2 tenants HOUR 3600s, OK");
  // Units come back by refunds.
  EXPECT_EQ(service.ask({{{{"tenant", "a"}}, 2, true}}), "OK: OK 2/2 tenants HOUR 0s");
}

TEST(EnvoyService, OfAKeyGivenTwiceNativeRulesSeeTheFirst) {
  Service service("domain: d", native_rules);
  EXPECT_EQ(service.ask({{{{"tenant", "a"}, {"tenant", "b"}}, 2}}),
            "OK: OK 0/2 tenants HOUR 3600s");
  EXPECT_EQ(service.ask({{{{"tenant", "a"}}}}), "OVER_LIMIT: OVER_LIMIT 0/2 tenants HOUR 3600s");
  EXPECT_EQ(service.ask({{{{"tenant", "b"}}}}), "OK: OK 1/2 tenants HOUR 3600s");
  // A key `domain` of the descriptor's does not hide the request's domain.
  EXPECT_EQ(service.ask({{{{"domain", "x"}, {"tenant", "c"}}}}), "OK: OK 1/2 tenants HOUR 3600s");
}

TEST(EnvoyService, AShadowLimitHasNoSayBesideANativeRule) {
  Service service(
      "domain: d\ndescriptors: [{key: tenant, shadow_mode: true, rate_limit: {unit: minute, "
      "requests_per_unit: 0, name: shy}}]",
      native_rules);
  EXPECT_EQ(service.ask({{{{"tenant", "a"}}}}), "OK: OK 0/0 shy MINUTE 37s");
  EXPECT_EQ(service.ask({{{{"tenant", "a"}}, 2}}), "OVER_LIMIT: OVER_LIMIT 0/2 tenants HOUR 3600s");
}

// ---- All or nothing ----

constexpr const char* two_limits = R"(
domain: d
descriptors:
  - {key: small, rate_limit: {unit: minute, requests_per_unit: 2}}
  - {key: large, rate_limit: {unit: minute, requests_per_unit: 5}}
  - {key: shy, shadow_mode: true, rate_limit: {unit: minute, requests_per_unit: 0}}
)";

TEST(EnvoyService, AllOrNothingChargesNoRefusal) {
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
  // A look beside takes is a take of nothing, a refund settles by itself.
  EXPECT_EQ(service.ask({{large.entries, 0}, {small.entries, 1, true}}),
            "OK: OK 3/5 MINUTE 37s, OK 1/2 MINUTE 37s");
  EXPECT_EQ(service.ask(std::vector<Wish>(65, large)),
            "3 at most 64 descriptors of one request are charged together, as all_or_nothing and "
            "stop_when_over do");
}

// A quota that is over refuses no request by itself, so what is admitted beside it is charged.
TEST(EnvoyService, AllOrNothingChargesBesideAQuotaThatIsOver) {
  Service service(
      "domain: d\ndescriptors:\n"
      "  - {key: q1, quota_mode: true, rate_limit: {unit: day, requests_per_unit: 1}}\n"
      "  - {key: q2, quota_mode: true, rate_limit: {unit: day, requests_per_unit: 3}}\n");
  service.world.options.all_or_nothing = true;
  const Wish one{{{"q1", "x"}}}, other{{{"q2", "x"}}};
  std::string admitted;
  for (int i = 0; i < 5; ++i) admitted += service.ask({one, other}).starts_with("OK:") ? "+" : "-";
  EXPECT_EQ(admitted, "+++--");
  // Where the whole request is let pass, whatever its limits say, each is charged by itself.
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

// That a limit in shadow cannot be decided hides nothing that a native rule says.
TEST(EnvoyService, ANativeRefusalStandsBesideAShadowLimitThatFails) {
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
  limit->set_unit(proto::RateLimitDescriptor::MINUTE);
  limit->set_requests_per_unit(1'000);
  const auto ask = [&] { return told(service.client.call(request.SerializeAsString())); };
  EXPECT_EQ(ask().substr(0, 2), "2 ");
  // The same limit twice is one charge of both.
  *request.mutable_descriptors(1)->mutable_limit() = *limit;
  EXPECT_EQ(ask(), "OK: OK 998/1000 MINUTE 37s, OK 998/1000 MINUTE 37s");
}

TEST(EnvoyService, OtherDomainsAreChargedEachByItself) {
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
  limit->set_unit(proto::RateLimitDescriptor::SECOND);
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

// ---- Health and methods ----

TEST(EnvoyService, TellsOfItsHealth) {
  const std::string check = "/grpc.health.v1.Health/Check";
  World world;
  GrpcClient client(world);
  const auto ask = [&](const std::string& service) {
    return client.call("\x0A" + std::string(1, static_cast<char>(service.size())) + service, check);
  };
  const std::string serving = "\x08\x01", not_serving = "\x08\x02";
  EXPECT_EQ(ask("ratelimit").message, serving);  // native rules alone
  EXPECT_EQ(ask("nosuch").code, 5u);
  ASSERT_TRUE(world.load({}));
  EXPECT_EQ(client.call("", check).message, serving);
  world.options.healthy_with_domains = true;
  EXPECT_EQ(ask("ratelimit").message, not_serving);
  ASSERT_TRUE(world.load({{"a.yaml", "domain: d"}}));
  EXPECT_EQ(ask("envoy.service.ratelimit.v3.RateLimitService").message, serving);
  ASSERT_TRUE(world.load({}, {}, {.not_loaded = true}));
  EXPECT_EQ(ask("ratelimit").message, not_serving);
  EXPECT_EQ(told(client.call(message_of({{{{"k", "v"}}}}))),
            "2 no rate limit configuration loaded");
}

TEST(EnvoyService, IsHealthyOnceTheStoreWasReached) {
  const std::string check = "/grpc.health.v1.Health/Check", serving = "\x08\x01",
                    not_serving = "\x08\x02";
  World world;
  ASSERT_TRUE(world.load({{"a.yaml", "domain: d"}}));
  GrpcClient client(world);
  world.table.fails = true;
  EXPECT_EQ(client.call("", check).message, not_serving);
  world.table.fails = false;
  EXPECT_EQ(client.call("", check).message, serving);
  world.table.fails = true;
  EXPECT_EQ(client.call("", check).message, serving);
  world.options.healthy_with_store = true;
  EXPECT_EQ(client.call("", check).message, not_serving);
}

TEST(EnvoyService, AStoreThatFailsIsToldByTheCodeOfTheSettings) {
  Service service(
      "domain: d\ndescriptors: [{key: k, rate_limit: {unit: day, requests_per_unit: 5}}]");
  service.world.table.fails = true;
  EXPECT_EQ(service.ask({{{{"k", "v"}}}}).substr(0, 2), "2 ");
  service.world.options.error_code = wire::GrpcStatus::internal;
  EXPECT_EQ(service.ask({{{{"k", "v"}}}}).substr(0, 3), "13 ");
  // What needs no counter is answered.
  EXPECT_EQ(service.ask({{{{"other", "v"}}}}), "OK: OK");
  service.world.table.fails = false;
  EXPECT_EQ(service.ask({{{{"k", "v"}}}}).substr(0, 10), "OK: OK 4/5");
}

TEST(EnvoyService, OtherMethodsAreUnimplemented) {
  World world;
  GrpcClient client(world);
  EXPECT_EQ(told(client.call("", "/envoy.service.ratelimit.v3.RateLimitService/Other")),
            "12 unknown method Other for service envoy.service.ratelimit.v3.RateLimitService");
  EXPECT_EQ(told(client.call("", "/pb.lyft.ratelimit.RateLimitService/ShouldRateLimit")),
            "12 unknown service pb.lyft.ratelimit.RateLimitService");
  EXPECT_EQ(told(client.call("", "/nosuch")), "12 unknown service ");
}

// Of a call that streams: its messages so far.
std::vector<std::string> messages_of(GrpcClient& client, uint32_t stream) {
  client.peer.read(client.connection.take());
  std::vector<std::string> all;
  std::string_view body = client.peer.answers[stream].body;
  while (body.size() >= wire::grpc_prefix_bytes) {
    const wire::GrpcPrefix prefix = wire::GrpcPrefix::read(body);
    all.emplace_back(body.substr(wire::grpc_prefix_bytes, prefix.bytes));
    body.remove_prefix(wire::grpc_prefix_bytes + prefix.bytes);
  }
  return all;
}

TEST(EnvoyService, WhoWatchesItsHealthIsToldOfTheEnd) {
  const std::string watch = "/grpc.health.v1.Health/Watch", serving = "\x08\x01",
                    not_serving = "\x08\x02", unknown = "\x08\x03";
  World world;
  ASSERT_TRUE(world.load({{"a.yaml", "domain: d"}}));
  GrpcClient client(world);
  const uint32_t first = client.begin("", watch), other = client.begin("\x0A\x01x", watch);
  EXPECT_EQ(messages_of(client, first), std::vector<std::string>{serving});
  EXPECT_EQ(messages_of(client, other), std::vector<std::string>{unknown});
  EXPECT_FALSE(client.peer.answers[first].ended);
  client.send(wire::http2_peer::rst_stream(other));
  // Its number is another call's from here on.
  EXPECT_EQ(client.call(message_of({{{{"k", "v"}}}})).code, 0u);
  base::Buffer out;
  client.connection.session().goodbye(out);
  client.peer.read(out.view());
  EXPECT_EQ(messages_of(client, first), (std::vector<std::string>{serving, not_serving}));
  EXPECT_EQ(client.answer_of(first).code, 14u);
}

// Whatever ends a Watch while its verdict is on its way: the verdict is nobody's.
TEST(EnvoyService, AWatchThatEndsBeforeItsVerdictHarmsNobody) {
  using wire::http2_peer::Peer;
  const std::string watch = "/grpc.health.v1.Health/Watch";
  for (const bool late : {false, true}) {
    for (const std::string& body :
         {framed("") + std::string("\x02\0\0\0\0", 5), framed("") + std::string("\0\0", 2),
          framed("") + framed("\xFF")}) {
      World world;
      ASSERT_TRUE(world.load({{"a.yaml",
                               "domain: d\ndescriptors: [{key: k, rate_limit: {unit: day, "
                               "requests_per_unit: 5}}]"}}));
      if (late) world.table.settles = [](size_t) { return size_t{0}; };
      GrpcClient client(world);
      const std::string message = message_of({{{{"k", "v"}}}});
      client.send(wire::http2_peer::join(
          {client.peer.request(1, Peer::grpc(GrpcClient::should_rate_limit), framed(message)),
           client.peer.request(3, Peer::grpc(watch), body),
           client.peer.request(5, Peer::grpc(GrpcClient::should_rate_limit), framed(message))}));
      client.send(
          client.peer.request(7, Peer::grpc(GrpcClient::should_rate_limit), framed(message)));
      world.table.settles = [](size_t groups) { return groups; };
      while (world.table.asked() > 0) {
        world.table.name(0);
        world.engine().advance();
      }
      std::set<std::string> all;
      for (const uint32_t stream : {1u, 5u, 7u})
        all.insert(told(client.answer_of(stream)).substr(0, 10));
      EXPECT_EQ(all, (std::set<std::string>{"OK: OK 2/5", "OK: OK 3/5", "OK: OK 4/5"}));
      EXPECT_TRUE(client.peer.answers[3].ended || client.peer.answers[3].reset >= 0);
    }
  }
}

TEST(EnvoyService, WhoWatchesIsToldOfAChange) {
  const std::string serving = "\x08\x01", not_serving = "\x08\x02";
  World world;
  ASSERT_TRUE(world.load({}, {}, {.not_loaded = true}));
  GrpcClient client(world);
  const uint32_t stream = client.begin("", "/grpc.health.v1.Health/Watch");
  EXPECT_EQ(messages_of(client, stream), std::vector<std::string>{not_serving});
  ASSERT_TRUE(world.load({{"a.yaml", "domain: d"}}));
  world.sleep_us(2'000'000);
  client.send(wire::http2_peer::ping(1));
  EXPECT_EQ(messages_of(client, stream), (std::vector<std::string>{not_serving, serving}));
  world.sleep_us(2'000'000);
  client.send(wire::http2_peer::ping(2));
  EXPECT_EQ(messages_of(client, stream).size(), 2u);
}

// However many watch, the store is asked once for all of them.
TEST(EnvoyService, WhoWatchesTogetherIsToldByOneQuestion) {
  World world;
  world.options.healthy_with_store = true;
  ASSERT_TRUE(world.load({{"a.yaml", "domain: d"}}));
  const auto asked_for = [&](int watches) {
    GrpcClient client(world);
    std::vector<uint32_t> streams;
    for (int i = 0; i < watches; ++i)
      streams.push_back(client.begin("", "/grpc.health.v1.Health/Watch"));
    world.table.fails = true;
    const size_t before = world.table.decided;
    world.sleep_us(2'000'000);
    client.send(wire::http2_peer::ping(1));
    world.table.fails = false;
    for (const uint32_t stream : streams)
      EXPECT_EQ(messages_of(client, stream), (std::vector<std::string>{"\x08\x01", "\x08\x02"}));
    return world.table.decided - before;
  };
  const size_t of_one = asked_for(1);
  EXPECT_GT(of_one, 0u);
  EXPECT_EQ(asked_for(50), of_one);
}

// What rules answer in place of a store is no sign of it.
TEST(EnvoyService, AStoreThatIsAwayIsUnhealthyWhateverItsRulesAnswerThen) {
  for (const request::OnError on_error :
       {request::OnError::allow, request::OnError::deny, request::OnError::error}) {
    World world;
    ASSERT_TRUE(world.load({{"a.yaml", "domain: d"}}, {}, {.on_store_error = on_error}));
    GrpcClient client(world);
    world.table.fails = true;
    EXPECT_EQ(client.call("", "/grpc.health.v1.Health/Check").message, "\x08\x02");
    world.table.fails = false;
    EXPECT_EQ(client.call("", "/grpc.health.v1.Health/Check").message, "\x08\x01");
  }
}

TEST(EnvoyService, AWatchThatIsResetWhileItsVerdictIsLateIsNotMistaken) {
  World world;
  ASSERT_TRUE(world.load({{"a.yaml",
                           "domain: d\ndescriptors: [{key: k, rate_limit: {unit: day, "
                           "requests_per_unit: 5}}]"}}));
  world.table.settles = [](size_t) { return size_t{0}; };
  GrpcClient client(world);
  const std::string message = message_of({{{{"k", "v"}}}});
  using wire::http2_peer::Peer;
  // All of one batch: the watch is asked behind a call that waits for the store.
  client.send(wire::http2_peer::join(
      {client.peer.request(1, Peer::grpc(GrpcClient::should_rate_limit), framed(message)),
       client.peer.request(3, Peer::grpc("/grpc.health.v1.Health/Watch"), framed(""))}));
  client.send(wire::http2_peer::rst_stream(3));
  client.send(client.peer.request(5, Peer::grpc(GrpcClient::should_rate_limit), framed(message)));
  world.table.settles = [](size_t groups) { return groups; };
  while (world.table.asked() > 0) {
    world.table.name(0);
    world.engine().advance();
  }
  EXPECT_EQ(told(client.answer_of(1)).substr(0, 14), "OK: OK 4/5 DAY");
  EXPECT_EQ(told(client.answer_of(5)).substr(0, 14), "OK: OK 3/5 DAY");
  EXPECT_EQ(client.answer_of(3).code, 99u);
}

TEST(EnvoyService, ReflectsWhereItIsWanted) {
  const std::string path = "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
                    list_services = "\x3A\x01*";
  World world;
  GrpcClient client(world);
  EXPECT_EQ(told(client.call(list_services, path)),
            "12 unknown service grpc.reflection.v1.ServerReflection");
  world.options.reflection = true;
  const uint32_t stream = client.begin(list_services, path);
  ASSERT_EQ(messages_of(client, stream).size(), 1u);
  EXPECT_NE(messages_of(client, stream)[0].find("envoy.service.ratelimit.v3.RateLimitService"),
            std::string::npos);
  EXPECT_EQ(client.answer_of(stream).code, 0u);
}

// ---- Connections ----

TEST(EnvoyService, AConnectionThatIsOldEndsOnceItsCallsAreAnswered) {
  World world;
  world.options.connection_age = base::seconds(100);
  world.options.connection_grace = base::seconds(50);
  ASSERT_TRUE(world.load({{"a.yaml", "domain: d"}}));
  GrpcClient client(world);
  world.sleep_us(89'000'000);
  EXPECT_EQ(client.call(message_of({{{{"k", "v"}}}})).code, 0u);
  EXPECT_TRUE(client.peer.goaways.empty());
  world.sleep_us(22'000'000);
  EXPECT_EQ(client.call(message_of({{{{"k", "v"}}}})).code, 0u);
  ASSERT_EQ(client.peer.goaways.size(), 1u);
  EXPECT_FALSE(client.connection.closed());
  // The client has seen it: what it sent before is answered, then it is over.
  EXPECT_EQ(client.call(message_of({{{{"k", "v"}}}})).code, 0u);
  ASSERT_EQ(client.peer.pings.size(), 1u);
  client.send(wire::http2_peer::ping(client.peer.pings[0], true));
  EXPECT_EQ(client.peer.goaways.size(), 2u);
  EXPECT_TRUE(client.connection.closed());

  GrpcClient stubborn(world);
  world.sleep_us(111'000'000);
  EXPECT_EQ(stubborn.call(message_of({{{{"k", "v"}}}})).code, 0u);
  EXPECT_FALSE(stubborn.connection.closed());
  world.sleep_us(51'000'000);
  stubborn.send(wire::http2_peer::ping(1));
  EXPECT_TRUE(stubborn.connection.closed());
}

TEST(EnvoyService, AStopIsTold) {
  World world;
  ASSERT_TRUE(world.load({{"a.yaml", "domain: d"}}));
  GrpcClient client(world);
  EXPECT_EQ(client.call(message_of({{{{"k", "v"}}}})).code, 0u);
  base::Buffer out;
  client.connection.session().goodbye(out);
  client.peer.read(out.view());
  ASSERT_EQ(client.peer.goaways.size(), 1u);
  EXPECT_EQ(client.peer.goaways[0], (std::pair<uint32_t, uint32_t>{1, 0}));
}

TEST(EnvoyService, ABreachEndsTheConnectionAndIsNamed) {
  World world;
  GrpcClient client(world);
  client.send(wire::http2_peer::window_update(0, 0x7FFFFFFF));
  EXPECT_TRUE(client.connection.closed());
  EXPECT_EQ(client.connection.session().fault(),
            wire::http2_fault_name(wire::Http2Fault::flow_control));
  Connection http(world);
  http.send("no http\r\n\r\n");
  EXPECT_TRUE(http.closed());
  EXPECT_TRUE(http.take().starts_with("HTTP/1.1 400 "));
  EXPECT_EQ(http.session().fault(), "http");
}

TEST(EnvoyService, WhatIsWrongIsToldToWhoReadsJson) {
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

TEST(EnvoyService, HeadersOfLimitsAreThoseOfHttpAsWell) {
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

}  // namespace
}  // namespace sluice::envoy::service_test
