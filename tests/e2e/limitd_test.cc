// limitd's protocol with the real binary: grants under load, input that ends the original, waits,
// lists and the log.
#include <gtest/gtest.h>

#include <csignal>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/limitd_client.h"
#include "tests/support/limitd_listing.h"
#include "tests/support/limitd_reload.h"
#include "tests/support/limitd_until.h"

namespace sluice::tests::limitd_test {
namespace {

const std::string types =
    "db: { inMemory: true }\n"
    "buckets:\n"
    "  ip: { size: 10, per_second: 5 }\n"
    "  fixed: { size: 3 }\n"
    "  race: { size: 700 }\n"
    "  nothing: { size: 5, override: { bare: { until: 2099-01-01 }, local: { match: \"^127\", "
    "size: 2 } } }\n";

// The original has granted 873.
TEST(Limitd, AThousandTakesOverTenConnectionsGetExactlyTheQuota) {
  LimitdServer server(types);
  std::vector<LimitdClient> clients;
  for (int i = 0; i < 10; ++i) clients.push_back(server.client());
  std::vector<int> granted(clients.size());
  std::vector<std::thread> threads;
  for (size_t i = 0; i < clients.size(); ++i) {
    threads.emplace_back([&, i] {
      std::vector<std::string> ids;
      for (int n = 0; n < 100; ++n)
        ids.push_back(clients[i].send({LimitdMethod::take, "race", "k"}));
      for (const auto& id : ids) granted[i] += clients[i].await(id).value().conformant ? 1 : 0;
    });
  }
  for (auto& thread : threads) thread.join();
  int all = 0;
  for (const int n : granted) all += n;
  EXPECT_EQ(all, 700);
  for (const auto& client : clients) EXPECT_EQ(client.unclaimed(), 0u);
}

// Input that ends the original's process. Here it ends one connection at most.
struct Killer {
  const char* name;
  std::string bytes;
  bool closes;
};

std::string asking(const std::string& type, const std::string& key) {
  return limitd_frame({LimitdMethod::take, type, key}, "1");
}

const Killer killers[] = {
    {"WireType7", {"\x02\x0f\x01", 3}, true},
    {"WireType3", {"\x02\x0b\x01", 3}, true},
    {"WireType4", {"\x02\x0c\x01", 3}, true},
    {"WireType6", {"\x02\x0e\x01", 3}, true},
    {"VarintOfElevenBytes", std::string("\x0c\x20") + std::string(10, '\xff') + '\x01', true},
    {"LengthOfManyBytes", std::string(101, '\xff'), true},
    {"TwoGiBAnnounced", {"\x80\x80\x80\x80\x08x", 6}, true},
    {"HttpRequest", "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", true},
    {"MethodUnknown", {"\x05\x0a\x01\x31\x20\x06", 6}, true},
    {"OnlyAnId", {"\x03\x0a\x01\x31", 4}, true},
    {"TypeConstructor", asking("constructor", "k"), false},
    {"TypeProto", asking("__proto__", "k"), false},
    {"TypeToString", asking("toString", "k"), false},
    {"KeyConstructor", asking("fixed", "constructor"), false},
    {"KeyProto", asking("fixed", "__proto__"), false},
    {"KeyHasOwnProperty", asking("fixed", "hasOwnProperty"), false},
    {"EmptyKey", asking("fixed", ""), false},
    {"OverrideWithNeitherSizeNorRate", asking("nothing", "bare"), false},
    {"MatchAsAString", asking("nothing", "127.0.0.1"), false},
};

class LimitdKillers : public testing::TestWithParam<Killer> {};

TEST_P(LimitdKillers, EndOneConnectionAtMost) {
  LimitdServer server(types);
  LimitdClient other = server.client(), killer = server.client();
  ASSERT_EQ(other.take("fixed", "other").remaining, 2);
  killer.send(GetParam().bytes);
  if (GetParam().closes)
    EXPECT_EQ(killer.tcp().read_to_end(), "");
  else
    EXPECT_TRUE(killer.await("1"));
  EXPECT_EQ(other.take("fixed", "other").remaining, 1);
  EXPECT_EQ(server.client().take("fixed", "other").remaining, 0);
}

INSTANTIATE_TEST_SUITE_P(Named, LimitdKillers, testing::ValuesIn(killers),
                         [](const auto& killer) { return std::string(killer.param.name); });

TEST(Limitd, AWaitOfADisconnectedClientTakesNothing) {
  LimitdServer server(types);
  LimitdClient client = server.client();
  EXPECT_EQ(client.take("fixed", "k", 3).remaining, 0);
  LimitdClient gone = server.client();
  for (int i = 0; i < 3; ++i) gone.send({LimitdMethod::wait, "fixed", "k", 2});
  EXPECT_EQ(gone.ask({LimitdMethod::ping, "", ""}).kind, "pong");
  gone.tcp().half_close();
  EXPECT_EQ(gone.tcp().read_to_end(), "");
  EXPECT_EQ(client.ask({LimitdMethod::put, "fixed", "k", {}, true}).remaining, 3);
  EXPECT_EQ(client.ask({LimitdMethod::get, "fixed", "k"}).remaining, 3);
  EXPECT_TRUE(client.take("fixed", "k", 3).conformant);
}

TEST(Limitd, DebugShowsARequestPerLine) {
  LimitdServer server("log_level: debug\n" + types);
  LimitdClient client = server.client();
  client.take("fixed", "a\nb", 3);
  client.take("fixed", "a\nb");
  const std::string waiting = client.send({LimitdMethod::wait, "fixed", "a\nb"});
  client.take("absent", "k");
  client.ask({LimitdMethod::put, "fixed", "a\nb", {}, true});
  ASSERT_TRUE(client.await(waiting));
  client.ask({LimitdMethod::status, "fixed", ""});
  Process& process = server.process();
  for (const char* text :
       {"limitd: take type=fixed key=a\\nb | rule fixed [",
        "| decides allowed, 0 of 3 left | took ", "| decides denied, 0 of 3 left | took ",
        "limitd: wait type=fixed key=a\\nb | rule fixed [", "| decides waits, 0 of 3 left",
        "limitd: take type=absent key=k | no rule applies | took ",
        "limitd: put type=fixed key=a\\nb | rule fixed [",
        "limitd: wait type=fixed key=a\\nb | late, allowed, 2 of 3 left | took ",
        "limitd: list type=fixed"})
    EXPECT_TRUE(process.says(text)) << text;
}

// A bucket that a PUT filled, or that was always full, is listed only where the original lists it.
TEST(Limitd, StatusListsWhatTheOriginalStores) {
  LimitdServer server("db: { inMemory: true }\nbuckets:\n" + listed_types);
  expect_listed_as_limitd_does(LimitdListing(server.client()), 1, 600);
}

TEST(Limitd, StatusListsWhatTheOriginalStoresOnDisk) {
  LimitdServer server("db: \"@DB@\"\nbuckets:\n" + listed_types);
  expect_listed_as_limitd_does(LimitdListing(server.client()), 2, 600);
}

// Waiting requests are decided again by the new types.
TEST(Limitd, AReloadDecidesWaitingRequestsAgain) {
  expect_reload_asks_what_waits_again({});
}

// With counters in memory, and on disk.
TEST(Limitd, TheEndOfAnOverrideWakesWaitingRequests) {
  expect_an_end_wakes_what_waits("{ inMemory: true }");
  expect_an_end_wakes_what_waits("\"@DB@\"");
}

// A hostile key delays clients for a moment only, and the log says that the expression gave up.
TEST(Limitd, LogsAnExpressionThatGaveUp) {
  LimitdServer server(
      "db: { inMemory: true }\nbuckets:\n  ip:\n    size: 5\n    override: { slow: { match: "
      "!!js/regexp /^(a+)+$/, size: 1 } }\n");
  LimitdClient client = server.client();
  EXPECT_EQ(client.take("ip", "aaa").limit, 1);
  EXPECT_EQ(client.take("ip", std::string(40, 'a') + "!").limit, 5);
  EXPECT_TRUE(server.process().says("regular expressions gave up on 1 values"));
}

TEST(Limitd, SigtermEndsItWithWaitsPending) {
  LimitdServer server(types);
  LimitdClient client = server.client();
  client.take("fixed", "k", 3);
  client.send({LimitdMethod::wait, "fixed", "k"});
  client.ask({LimitdMethod::ping, "", ""});
  server.process().signal(SIGTERM);
  EXPECT_EQ(server.process().wait(), 0);
}

}  // namespace
}  // namespace sluice::tests::limitd_test
