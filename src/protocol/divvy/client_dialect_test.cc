// How the client library speaks Divvy's protocol: what it sends, what it makes of replies, and when
// it connects again. The test plays the server and sets the time.
#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <vector>

#include "testing/client_world.h"

namespace sluice::divvy {
extern const calls::Dialect client_dialect;

namespace client_dialect_test {
namespace {

using calls::ClientWorld;

client_request hit(std::string_view ip) {
  client_request request;
  request.subject.entries = {{"method", "GET"}, {"ip", ip}};
  return request;
}

TEST(DivvyClientDialect, SendsTheBytesOfTheOriginalClient) {
  ClientWorld world(client_dialect);
  EXPECT_TRUE(world.tries.empty());  // the first call makes the client connect
  world.submit(hit("1"), "a");
  world.submit({}, "b");
  ASSERT_EQ(world.tries.size(), 1u);
  world.accept(0);
  EXPECT_EQ(world.take_sent(0), "HIT \"ip\"=\"1\" \"method\"=\"GET\"\nHIT\n");
  world.receive(0, "OK true 2 3600\nOK false 0 -1\n");
  const client_result& first = world.results["a"];
  EXPECT_TRUE(first.is_allowed());
  EXPECT_EQ(first.remaining, 2);
  EXPECT_EQ(first.reset_after, std::chrono::seconds(3'600));
  EXPECT_FALSE(world.results["b"].allowed);
  EXPECT_EQ(world.results["b"].reset_after, client_never);
}

TEST(DivvyClientDialect, AnErrorLineFailsItsCallAndTheCloseFailsOthers) {
  ClientWorld world(client_dialect);
  for (const char* name : {"a", "b", "c"}) world.submit(hit(name), name);
  world.accept(0);
  world.receive(0, "OK true 2 3600\nERR unknown \"bad\"\n");
  world.fail(0, "closed");
  EXPECT_EQ(world.results["a"].error, client_errc::none);
  EXPECT_EQ(world.results["b"].error, client_errc::refused);
  EXPECT_EQ(world.results["b"].text, "ERR unknown \"bad\"");
  EXPECT_EQ(world.results["c"].error, client_errc::disconnected);
}

TEST(DivvyClientDialect, RejectsRequestsThatTheProtocolCannotExpress) {
  ClientWorld world(client_dialect);
  client_request request = hit("a\"b");
  world.submit(request, "quote");
  request = hit("1");
  request.n = 2;
  world.submit(request, "two");
  request = hit("1");
  request.verb = client_verb::put;
  world.submit(request, "put");
  request = hit("1");
  request.subject.key = "k";
  world.submit(request, "key");
  for (const char* name : {"quote", "two", "put", "key"})
    EXPECT_EQ(world.results[name].error, client_errc::bad_request) << name;
}

TEST(DivvyClientDialect, HasAtMost100CallsUnderWayTimedOutOnesIncluded) {
  ClientWorld world(client_dialect);
  world.submit(hit("1"), "first");
  world.accept(0);
  for (int i = 1; i < 100; ++i) world.submit(hit("1"), "more");
  world.advance(base::seconds(1));
  EXPECT_EQ(world.results["first"].error, client_errc::timeout);
  EXPECT_EQ(world.ended["more"], 99);
  world.submit(hit("1"), "late");
  EXPECT_EQ(world.results["late"].error, client_errc::backlog);
}

// As in Divvy's own client: tries at 0, 1, 2, 3, 4 and 5 s; then one for each call, at least a
// second apart.
TEST(DivvyClientDialect, RetriesFiveTimesAndThenAtTheNextCall) {
  std::vector<client_connection_report::event> events;
  client_options options;
  options.on_connection = [&](const client_connection_report& report) {
    events.push_back(report.what);
  };
  ClientWorld world(client_dialect, 1, options);
  world.refuses = true;
  world.submit(hit("1"), "a");
  EXPECT_EQ(world.results["a"].error, client_errc::unavailable);
  world.advance(base::milliseconds(500));
  world.submit(hit("1"), "b");  // waits for the try that is due
  EXPECT_EQ(world.ended.count("b"), 0u);
  world.advance(base::milliseconds(500));
  EXPECT_EQ(world.results["b"].error, client_errc::unavailable);
  world.advance(base::seconds(20));
  std::vector<ClientWorld::Try> expected;
  for (const int64_t ms : {0, 1'000, 2'000, 3'000, 4'000, 5'000}) expected.push_back({0, ms});
  EXPECT_EQ(world.tries, expected);
  EXPECT_EQ(events.back(), client_connection_report::event::gave_up);
  world.submit(hit("1"), "c");  // at 21 s
  expected.push_back({0, 21'000});
  world.submit(hit("1"), "d");
  world.advance(base::seconds(20));
  expected.push_back({0, 22'000});
  EXPECT_EQ(world.tries, expected);
  world.refuses = false;
  world.submit(hit("1"), "e");
  world.accept(0);
  world.receive(0, "OK true 1 1\n");
  EXPECT_TRUE(world.results["e"].is_allowed());
  // After a success the client has all its tries again.
  world.tries.clear();
  world.refuses = true;
  world.fail(0);
  world.advance(base::seconds(20));
  EXPECT_EQ(world.tries.size(), 5u);
}

}  // namespace
}  // namespace client_dialect_test
}  // namespace sluice::divvy
