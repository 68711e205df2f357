// Harm that one client might do to all others through HTTP/2, over the real ports: windows that it
// never opens, requests that it never ends, waits with large bodies, and streams without number.
// Others are served meanwhile, what is too slow ends, and the server says so.
#include <gtest/gtest.h>

#include <csignal>
#include <cstdint>
#include <list>
#include <memory>
#include <string>
#include <vector>

#include "base/bounds.h"
#include "tests/e2e/http_peers.h"
#include "tests/support/comes.h"
#include "tests/support/patience.h"
#include "tests/support/process_stats.h"
#include "wire/grpc.h"
#include "wire/http2_session.h"

namespace sluice::tests::http2_harm_test {
namespace {

using http_e2e::about;
using http_e2e::Asked;
using http_e2e::get;
using http_e2e::Http2;
using http_e2e::post;

constexpr const char* should_rate_limit =
    "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit";
constexpr const char* watch = "/grpc.health.v1.Health/Watch";

// One worker, so that all connections share its memory. `timeouts`: of the listeners.
struct Victim {
  explicit Victim(const std::string& timeouts = "") {
    const std::string at = ", address: \"127.0.0.1:0\"" + timeouts + " }\n";
    folder.write("sluice.yaml",
                 "workers: 1\nlisten:\n  - { protocol: http" + at + "  - { protocol: envoy" + at +
                     "  - { protocol: admin, address: \"127.0.0.1:0\" }\n" + http_e2e::usual_rules);
    process = std::make_unique<Process>(
        Process::Options{.arguments = {"serve", "--config", folder.path() + "/sluice.yaml",
                                       "--log-level", "error"}});
    http = await_listening(*process, "http");
    envoy = await_listening(*process, "envoy");
    admin = await_listening(*process, "admin");
    resident = resident_bytes(process->pid());
  }
  ~Victim() {
    process->signal(SIGTERM);
    EXPECT_EQ(process->wait(), 0) << "the server's end on SIGTERM";
  }

  int64_t grown() const { return resident_bytes(process->pid()) - resident; }
  double number(const std::string& metric) const {
    const std::string text = sample(admin, metric);
    return text.empty() ? 0 : std::stod(text);
  }
  double closed(const std::string& protocol, const std::string& reason) const {
    return number("sluice_connections_closed_total{protocol=\"" + protocol + "\",reason=\"" +
                  reason + "\"}");
  }
  double ended(const std::string& protocol, const std::string& reason) const {
    return number("sluice_requests_ended_total{protocol=\"" + protocol + "\",reason=\"" + reason +
                  "\"}");
  }
  int ready() const { return http_get_status("/health/ready"); }
  int http_get_status(const std::string& path) const {
    return tests::http(admin, "GET", path, "", "").status;
  }

  Folder folder;
  std::unique_ptr<Process> process;
  uint16_t http = 0, envoy = 0, admin = 0;
  int64_t resident = 0;
};

std::string framed(std::string_view message) {
  std::string text(wire::grpc_prefix_bytes, '\0');
  wire::GrpcPrefix{0, static_cast<uint32_t>(message.size())}.write(text.data());
  return text.append(message);
}

Asked grpc(const char* path, std::string_view message) {
  return {.method = "POST",
          .target = path,
          .body = framed(message),
          .headers = {{"content-type", "application/grpc"}, {"te", "trailers"}}};
}

// A request to the rate limit service, with one descriptor of a domain that no file has.
Asked call() {
  const std::string entry = "\x0a\x01k\x12\x01v";
  const std::string descriptor = "\x0a\x06" + entry;
  return grpc(should_rate_limit, "\x0a\x01\x64\x12\x08" + descriptor);
}

// New clients are served in full: a take, the longest page that there is, and a call.
void expect_others_served(const Victim& victim) {
  for (int i = 0; i < 20; ++i) {
    Http2 other(victim.http);
    EXPECT_EQ(other.ask(get("/v1/openapi.json")).status, 200) << i;
    EXPECT_EQ(other.ask(post("/v1/take", about({{"open", std::to_string(i)}}))).status, 200) << i;
    Http2 proxy(victim.envoy);
    EXPECT_EQ(proxy.ask(call()).status, 200) << i;
  }
  EXPECT_EQ(victim.ready(), 200);
}

// Sends what may fail, as the server may close such a connection.
void send_all(Http2& client, const Asked& asked, size_t times) {
  try {
    for (size_t i = 0; i < times; ++i) client.send(asked);
  } catch (const std::runtime_error&) {
  }
}

// The server answers the last of all clients after what they had sent before.
void await_handled(const Victim& victim) {
  Http2 last(victim.http);
  last.ask(get("/v1/health"));
}

constexpr size_t megabyte = size_t{1} << 20;

// ---- Windows that are shut ----

TEST(Http2Harm, RepliesThatWindowsKeepBackLeaveRoomForOthers) {
  const Victim victim;
  std::list<Http2> attackers;
  for (int i = 0; i < 100; ++i) {
    attackers.emplace_back(victim.http, 0u);
    send_all(attackers.back(), get("/v1/openapi.json"), 25);
    // The places that the long replies leave are filled with short ones.
    send_all(attackers.back(), get("/v1/nothing"), 300);
  }
  await_handled(victim);
  expect_others_served(victim);
  EXPECT_GT(victim.closed("http", "send_memory"), 0);
  const double held = victim.number("sluice_session_memory_bytes{protocol=\"http\"}");
  EXPECT_GT(held, 32 * megabyte);
  EXPECT_LE(held, base::bounds::unsent_bytes_max + 4 * megabyte);
  EXPECT_EQ(victim.number("sluice_session_memory_max_bytes{protocol=\"http\"}"),
            wire::http2_worker_bytes_max);
  if (!sanitized) {
    EXPECT_LT(victim.grown(), 160 << 20);
  }
  attackers.clear();
  EXPECT_TRUE(
      comes([&] { return victim.number("sluice_session_memory_bytes{protocol=\"http\"}") == 0; }));
}

TEST(Http2Harm, CallsThatWindowsKeepBackLeaveRoomForOthers) {
  const Victim victim;
  std::list<Http2> attackers;
  for (int i = 0; i < 90; ++i) {
    attackers.emplace_back(victim.envoy, 0u);
    send_all(attackers.back(), call(), 990);
  }
  await_handled(victim);
  expect_others_served(victim);
  EXPECT_GT(victim.closed("envoy", "send_memory"), 0);
  if (!sanitized) {
    EXPECT_LT(victim.grown(), 160 << 20);
  }
}

// Replies of a few bytes: what is held are the streams themselves.
TEST(Http2Harm, StreamsCountWhatTheyCost) {
  const Victim victim;
  std::list<Http2> attackers;
  for (int i = 0; i < 150; ++i) {
    attackers.emplace_back(victim.http, 0u);
    send_all(attackers.back(), get("/v1/health"), 990);
  }
  await_handled(victim);
  expect_others_served(victim);
  EXPECT_GT(victim.closed("http", "send_memory"), 0);
  if (!sanitized) {
    EXPECT_LT(victim.grown(), 120 << 20);
  }
}

TEST(Http2Harm, AClientThatTakesNothingIsClosed) {
  const Victim victim(", send_timeout: 200ms");
  for (const bool proxy : {false, true}) {
    Http2 deaf(proxy ? victim.envoy : victim.http, 0u);
    const uint32_t stream = deaf.send(proxy ? call() : get("/v1/openapi.json"));
    EXPECT_EQ(deaf.read(stream).status, 0) << "the connection ends without the reply";
    const std::string protocol = proxy ? "envoy" : "http";
    EXPECT_TRUE(comes([&] { return victim.closed(protocol, "send_timeout") == 1; })) << protocol;
  }
}

// A proxy has many clients on one connection; one of them takes nothing.
TEST(Http2Harm, AReplyThatIsNotTakenEndsAlone) {
  const Victim victim(", send_timeout: 200ms");
  Http2 proxy(victim.http, 0u);
  const uint32_t stuck = proxy.send(get("/v1/openapi.json"));
  while (!proxy.is_reset(stuck)) {
    const uint32_t stream = proxy.send(get("/v1/health"));
    proxy.open_window(stream, 1 << 16);
    ASSERT_EQ(proxy.read(stream).status, 200);
  }
  EXPECT_EQ(victim.ended("http", "send_timeout"), 1);
  EXPECT_EQ(victim.closed("http", "send_timeout"), 0);
}

// An upload that never ends, beside others that do.
TEST(Http2Harm, ARequestThatNeverEndsEndsAlone) {
  const Victim victim(", request_timeout: 200ms");
  Http2 proxy(victim.http);
  const uint32_t stuck = proxy.begin(post("/v1/take", about({{"open", "x"}})));
  while (!proxy.is_reset(stuck)) ASSERT_EQ(proxy.ask(get("/v1/health")).status, 200);
  EXPECT_EQ(victim.ended("http", "request_timeout"), 1);
  EXPECT_EQ(victim.closed("http", "request_timeout"), 0);
}

// A client that watches may be silent for ever: it owes nothing.
TEST(Http2Harm, AWatchThatIsSilentStays) {
  const Victim victim(", send_timeout: 100ms, request_timeout: 100ms");
  Http2 watcher(victim.envoy);
  const uint32_t stream = watcher.send(grpc(watch, ""));
  ASSERT_TRUE(watcher.await_body(stream, framed("\x08\x01").size()));
  // Each of these ends after more than a send_timeout.
  for (int i = 0; i < 5; ++i) {
    Http2 deaf(victim.envoy, 0u);
    EXPECT_EQ(deaf.read(deaf.send(call())).status, 0);
  }
  EXPECT_EQ(watcher.ask(call()).status, 200);
  EXPECT_FALSE(watcher.is_reset(stream));
}

// ---- Requests that stay ----

// The request is in the engine; its body, here of blanks, is not needed any more.
TEST(Http2Harm, AWaitLetsGoOfItsBody) {
  const Victim victim;
  std::list<Http2> attackers;
  for (int i = 0; i < 80; ++i) {
    attackers.emplace_back(victim.http);
    Asked wait = post("/v1/wait", about({{"jar", "empty"}}, {{"n", 2}, {"timeout", 60}}));
    if (i == 0) {
      EXPECT_EQ(
          attackers.back().ask(post("/v1/take", about({{"jar", "empty"}}, {{"n", 2}}))).status,
          200);
    }
    wait.body.insert(1, std::string(megabyte - 2048, ' '));
    attackers.back().upload(wait);
  }
  EXPECT_TRUE(comes([&] { return victim.number("sluice_waiting_requests") == 80; }));
  EXPECT_LT(victim.number("sluice_session_memory_bytes{protocol=\"http\"}"), megabyte);
  expect_others_served(victim);
  EXPECT_EQ(victim.closed("http", "request_memory"), 0);
}

TEST(Http2Harm, UnfinishedRequestsLeaveRoomForOthers) {
  const Victim victim;
  std::list<Http2> attackers;
  for (int i = 0; i < 100; ++i) {
    attackers.emplace_back(victim.http);
    for (int k = 0; k < 900; ++k) {
      try {
        attackers.back().begin(post("/v1/take", about({{"open", "x"}})));
      } catch (const std::runtime_error&) {
        break;
      }
    }
  }
  await_handled(victim);
  expect_others_served(victim);
  EXPECT_GT(victim.closed("http", "request_memory"), 0);
  if (!sanitized) {
    EXPECT_LT(victim.grown(), 160 << 20);
  }
}

// Health's Watch may stay for ever, so all of them together have a bound.
TEST(Http2Harm, WatchesLeaveRoomForOthers) {
  const Victim victim;
  Http2 honest(victim.envoy);
  const uint32_t stream = honest.send(grpc(watch, ""));
  ASSERT_TRUE(honest.await_body(stream, framed("\x08\x01").size()));
  std::list<Http2> attackers;
  for (int i = 0; i < 90; ++i) {
    attackers.emplace_back(victim.envoy);
    send_all(attackers.back(), grpc(watch, ""), 990);
  }
  await_handled(victim);
  expect_others_served(victim);
  EXPECT_GT(victim.closed("envoy", "send_memory"), 0);
  EXPECT_EQ(honest.ask(call()).status, 200);
  EXPECT_FALSE(honest.is_reset(stream)) << "it holds less than its share";
}

}  // namespace
}  // namespace sluice::tests::http2_harm_test
