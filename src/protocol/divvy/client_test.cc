#include "protocol/divvy/client.h"

#include <gtest/gtest.h>

#include "testing/fake_server.h"

namespace sluice::divvy {
namespace {

using namespace std::chrono_literals;
using Entries = std::vector<DivvyClient::Entry>;

TEST(DivvyRequest, QuotesAndSortsAsTheOriginalClient) {
  std::string problem;
  EXPECT_EQ(divvy_request(Entries{{"path", "/a b"}, {"method", "GET"}, {"ip", "1=2"}}, problem),
            "HIT \"ip\"=\"1=2\" \"method\"=\"GET\" \"path\"=\"/a b\"\n");
  EXPECT_EQ(divvy_request({}, problem), "HIT\n");
  EXPECT_EQ(divvy_request(Entries{{"k", ""}}, problem), "HIT \"k\"=\"\"\n");
}

TEST(DivvyRequest, KeepsTheOrderOfEqualKeysBecauseTheLastCounts) {
  std::string problem;
  EXPECT_EQ(divvy_request(Entries{{"k", "z"}, {"a", "1"}, {"k", "b"}}, problem),
            "HIT \"a\"=\"1\" \"k\"=\"z\" \"k\"=\"b\"\n");
}

TEST(DivvyRequest, RefusesWhatTheProtocolCannotCarry) {
  std::string problem;
  EXPECT_FALSE(divvy_request(Entries{{"k", "a\"b"}}, problem));
  EXPECT_EQ(problem,
            "the value of `k` holds a double quote, which Divvy's protocol cannot carry; leave it "
            "out or replace it");
  EXPECT_FALSE(divvy_request(Entries{{"k\nHIT", "a"}}, problem));
  EXPECT_NE(problem.find("a line end"), std::string::npos) << problem;
}

TEST(DivvyReply, ReadsDecisions) {
  const auto granted = divvy_reply("OK true 2 3600");
  ASSERT_TRUE(granted.answer);
  EXPECT_TRUE(granted.answer->allowed);
  EXPECT_EQ(granted.answer->remaining, 2);
  EXPECT_EQ(granted.answer->reset_seconds, 3600);
  const auto denied = divvy_reply("OK false 0 -1\r");
  ASSERT_TRUE(denied.answer);
  EXPECT_FALSE(denied.answer->allowed);
  EXPECT_EQ(denied.answer->reset_seconds, -1);
}

TEST(DivvyReply, TellsAnErrFromNonsense) {
  EXPECT_EQ(divvy_reply("ERR unknown \"Unexpected end of input string.\"").error,
            "the server refused: ERR unknown \"Unexpected end of input string.\"");
  for (const char* line :
       {"", "OK", "OK true 2", "OK true 2 3 4", "OK true  2", "OK yes 2 3", "OK true two 3",
        "OK true 2 3x", "HTTP/1.1 400 Bad Request", "OK true - 1"}) {
    const auto result = divvy_reply(line);
    EXPECT_FALSE(result.answer) << line;
    EXPECT_EQ(result.error.find(std::string("that is not a reply of Divvy's protocol: ") + line),
              0u)
        << result.error;
  }
}

// The original counts in doubles, and tells such numbers.
TEST(DivvyReply, NumbersBeyond64BitsAreTheNearest) {
  EXPECT_EQ(divvy_reply("OK true 99999999999999999999 1").answer->remaining, INT64_MAX);
  EXPECT_EQ(divvy_reply("OK true -9223372036854778000 1").answer->remaining, INT64_MIN);
}

TEST(DivvyClient, AsksAndReadsTheAnswer) {
  calls::FakeServer server({"OK true 2 3600\n", "OK false 0 59\n"});
  const DivvyClient client("127.0.0.1", server.port(), 5s);
  const auto first = client.hit(Entries{{"ip", "10.0.0.7"}});
  ASSERT_TRUE(first.answer) << first.error;
  EXPECT_TRUE(first.answer->allowed);
  const auto second = client.hit({});
  ASSERT_TRUE(second.answer) << second.error;
  EXPECT_FALSE(second.answer->allowed);
  EXPECT_EQ(server.lines(), (std::vector<std::string>{"HIT \"ip\"=\"10.0.0.7\"", "HIT"}));
}

TEST(DivvyClient, TriesEveryAddressOfAName) {
  calls::FakeServer server({"OK true 1 1\n"});  // on IPv4 alone, while localhost may be IPv6 first
  const auto result = DivvyClient("localhost", server.port(), 5s).hit({});
  EXPECT_TRUE(result.answer) << result.error;
}

TEST(DivvyClient, GivesUpAtTheDeadline) {
  calls::FakeServer server({calls::FakeServer::silence});
  const auto result = DivvyClient("127.0.0.1", server.port(), 20ms).hit({});
  EXPECT_FALSE(result.answer);
  EXPECT_EQ(result.error, "no reply in time");
}

TEST(DivvyClient, SaysThatTheServerClosed) {
  calls::FakeServer server({"", "OK true"});
  const DivvyClient client("127.0.0.1", server.port(), 5s);
  EXPECT_EQ(client.hit({}).error, "the server closed the connection without a reply");
  EXPECT_EQ(client.hit({}).error, "the server closed the connection without a reply");
}

TEST(DivvyClient, BoundsTheReply) {
  calls::FakeServer server({std::string(1 << 20, 'x')});
  EXPECT_EQ(DivvyClient("127.0.0.1", server.port(), 5s).hit({}).error,
            "the reply has no line end; that is not a server of Divvy's protocol");
}

TEST(DivvyClient, SaysThatNobodyListens) {
  uint16_t port = 0;
  {
    const calls::FakeServer gone({});
    port = gone.port();
  }
  EXPECT_EQ(DivvyClient("127.0.0.1", port, 5s).hit({}).error,
            "cannot connect to 127.0.0.1 port " + std::to_string(port) + ": Connection refused");
}

}  // namespace
}  // namespace sluice::divvy
