// What a connection of Envoy's service has beside rate limits: health and its watches, reflection,
// unknown methods, a maximum age, an end. No sockets are involved.
#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "protocol/envoy/service_wishes_test.h"
#include "protocol/envoy/service_world_test.h"
#include "wire/http2_session.h"

namespace sluice::envoy::service_connection_test {
namespace {

using namespace service_world;

// ---- Health and methods ----

TEST(EnvoyConnections, AnswersHealthChecks) {
  const std::string check = "/grpc.health.v1.Health/Check";
  World world;
  GrpcClient client(world);
  const auto ask = [&](const std::string& service) {
    return client.call("\x0A" + std::string(1, static_cast<char>(service.size())) + service, check);
  };
  const std::string serving = "\x08\x01", not_serving = "\x08\x02";
  EXPECT_EQ(ask("ratelimit").message, serving);  // with only native rules
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

TEST(EnvoyConnections, IsHealthyOnceTheStoreWasReached) {
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

TEST(EnvoyConnections, OtherMethodsAreUnimplemented) {
  World world;
  GrpcClient client(world);
  EXPECT_EQ(told(client.call("", "/envoy.service.ratelimit.v3.RateLimitService/Other")),
            "12 unknown method Other for service envoy.service.ratelimit.v3.RateLimitService");
  EXPECT_EQ(told(client.call("", "/pb.lyft.ratelimit.RateLimitService/ShouldRateLimit")),
            "12 unknown service pb.lyft.ratelimit.RateLimitService");
  EXPECT_EQ(told(client.call("", "/nosuch")), "12 unknown service ");
}

struct Reports final : request::ListenerView {
  Reports() : request::ListenerView(false) {}
  bool is_loopback() const override { return true; }
  void refused(std::string_view code, std::string_view example) const override {
    all.push_back(std::string(code) + ": " + std::string(example));
  }
  void log_unmatched(std::string_view) const override {}
  mutable std::vector<std::string> all;
};

// Envoys that are configured for another service are counted by kinds of their own, and the log
// says whose configuration it is and what to write in it.
TEST(EnvoyConnections, ReportsCallersByTheOldVersionAndTheOldHttp) {
  World world;
  const Reports reports;
  world.listener = &reports;
  const std::string old_path = "/envoy.service.ratelimit.v2.RateLimitService/ShouldRateLimit";
  EXPECT_EQ(told(GrpcClient(world).call("", old_path)),
            "12 unknown service envoy.service.ratelimit.v2.RateLimitService");
  const std::string by_version =
      "v2: a call from 10.0.0.9:4711 of v2: set `transport_api_version: V3` in the "
      "rate_limit_service of that Envoy";
  EXPECT_EQ(reports.all, std::vector<std::string>{by_version});

  const auto post = [&](const std::string& path, const std::string& type) {
    reports.all.clear();
    Connection http(world);
    http.send("POST " + path + " HTTP/1.1\r\nHost: x\r\nContent-Type: " + type +
              "\r\nContent-Length: 0\r\n\r\n");
    EXPECT_TRUE(http.take().starts_with("HTTP/1.1 404 ")) << path;
    return reports.all;
  };
  const std::vector<std::string> by_http{
      "http1: a call from 10.0.0.9:4711 by HTTP/1.1: give the cluster of this service "
      "`http2_protocol_options: {}` in that Envoy"};
  EXPECT_EQ(post(std::string(GrpcClient::should_rate_limit), "text/plain"), by_http);
  EXPECT_EQ(post(old_path, "application/grpc+proto"), by_http);
  EXPECT_EQ(post("/other", "text/plain"),
            std::vector<std::string>{"malformed: there is nothing at the path /other"});
}

// The messages that a streaming call has received so far.
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

TEST(EnvoyConnections, AHealthWatchIsNotifiedOfAStop) {
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
  // The place of the watch that was reset is used for another call from here on.
  EXPECT_EQ(client.call(message_of({{{{"k", "v"}}}})).code, 0u);
  base::Buffer out;
  client.connection.session().end(request::Ending::stopping, {}, out);
  client.peer.read(out.view());
  EXPECT_EQ(messages_of(client, first), (std::vector<std::string>{serving, not_serving}));
  EXPECT_EQ(client.answer_of(first).code, 14u);
}

// If a Watch ends before its verdict is known, for whatever reason, the verdict is dropped.
TEST(EnvoyConnections, DropsTheVerdictOfAWatchThatHasEnded) {
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

TEST(EnvoyConnections, AHealthWatchIsNotifiedOfAChange) {
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

// The store is asked once for all watches of a connection, however many they are.
TEST(EnvoyConnections, AsksTheStoreOnceForAllHealthWatches) {
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

// What rules answer in place of a store that fails does not make the service healthy.
TEST(EnvoyConnections, IsUnhealthyWithoutTheStoreWhateverOnStoreErrorSays) {
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

TEST(EnvoyConnections, AResetWatchDoesNotShiftTheVerdictsOfLaterCalls) {
  World world;
  ASSERT_TRUE(world.load({{"a.yaml",
                           "domain: d\ndescriptors: [{key: k, rate_limit: {unit: day, "
                           "requests_per_unit: 5}}]"}}));
  world.table.settles = [](size_t) { return size_t{0}; };
  GrpcClient client(world);
  const std::string message = message_of({{{{"k", "v"}}}});
  using wire::http2_peer::Peer;
  // A call and a watch in one batch: the call waits for the store, and the watch behind it.
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

TEST(EnvoyConnections, AnswersReflectionIfItIsConfigured) {
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

TEST(EnvoyConnections, EndsAtItsMaximumAgeOnceItsCallsAreAnswered) {
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
  // Calls that the client sends before it has seen the GOAWAY are answered. Its answer to the ping
  // shows that it has seen it; then the connection ends.
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

TEST(EnvoyConnections, AStopSendsGoaway) {
  World world;
  ASSERT_TRUE(world.load({{"a.yaml", "domain: d"}}));
  GrpcClient client(world);
  EXPECT_EQ(client.call(message_of({{{{"k", "v"}}}})).code, 0u);
  base::Buffer out;
  client.connection.session().end(request::Ending::stopping, {}, out);
  client.peer.read(out.view());
  ASSERT_EQ(client.peer.goaways.size(), 1u);
  EXPECT_EQ(client.peer.goaways[0], (std::pair<uint32_t, uint32_t>{1, 0}));
}

TEST(EnvoyConnections, AProtocolViolationEndsTheConnectionAndIsNamed) {
  World world;
  GrpcClient client(world);
  client.send(wire::http2_peer::window_update(0, 0x7FFFFFFF));
  EXPECT_TRUE(client.connection.closed());
  EXPECT_EQ(client.connection.session().fault().code,
            wire::http2_fault_name(wire::Http2Fault::flow_control));
  Connection http(world);
  http.send("no http\r\n\r\n");
  EXPECT_TRUE(http.closed());
  EXPECT_TRUE(http.take().starts_with("HTTP/1.1 400 "));
  EXPECT_EQ(http.session().fault().code, "http");
}

}  // namespace
}  // namespace sluice::envoy::service_connection_test
