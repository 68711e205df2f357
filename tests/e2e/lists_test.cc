// limitd's STATUS with the real binary: a list is answered with its entries, or its connection
// ends. It is never empty because there was no room for it.
#include <gtest/gtest.h>

#include <csignal>
#include <string>
#include <vector>

#include "tests/support/limitd_client.h"

namespace sluice::tests::lists_test {
namespace {

const std::string types = "db: { inMemory: true }\nbuckets: { ip: { size: 10, per_day: 1 } }\n";

std::vector<std::string> ask_for_lists(LimitdClient& client, int count) {
  std::vector<std::string> ids;
  for (int i = 0; i < count; ++i) ids.push_back(client.send({LimitdMethod::status, "ip", "k"}));
  return ids;
}

void expect_all_listed(LimitdClient& client, const std::vector<std::string>& ids) {
  for (const std::string& id : ids) {
    const auto reply = client.await(id);
    ASSERT_TRUE(reply) << id;
    ASSERT_EQ(reply->items.size(), 2u) << id;
    EXPECT_EQ(reply->items[1].instance, "k2");
  }
}

TEST(Lists, ThoseBeyondTheBoundWait) {
  LimitdServer server(types);
  LimitdClient client = server.client(), other = server.client();
  client.take("ip", "k1");
  client.take("ip", "k2");
  const auto ids = ask_for_lists(client, 500);
  const auto taken = client.send({LimitdMethod::take, "ip", "other"});
  const auto others = ask_for_lists(other, 3);
  expect_all_listed(other, others);
  expect_all_listed(client, ids);
  EXPECT_TRUE(client.await(taken));
}

TEST(Lists, AreAnsweredAtAStop) {
  LimitdServer server(types);
  server.client().take("ip", "k1");
  server.client().take("ip", "k2");
  std::vector<LimitdClient> clients;
  std::vector<std::vector<std::string>> ids;
  for (int i = 0; i < 6; ++i) {
    clients.push_back(server.client());
    ids.push_back(ask_for_lists(clients.back(), 50));
    // When this is answered, all requests before it have arrived.
    clients.back().ask({LimitdMethod::ping, "", ""});
  }
  server.process().signal(SIGTERM);
  for (size_t i = 0; i < clients.size(); ++i) {
    expect_all_listed(clients[i], ids[i]);
    EXPECT_EQ(clients[i].tcp().read_to_end(), "");
  }
  EXPECT_EQ(server.process().wait(), 0);
}

// Lists that wait for room have arrived, so a stop answers them, too.
TEST(Lists, AStopAnswersListsThatWaitForRoom) {
  LimitdServer server(types);
  server.client().take("ip", "k1");
  server.client().take("ip", "k2");
  LimitdClient client = server.client();
  const auto ids = ask_for_lists(client, 300);
  expect_all_listed(client, {ids.front()});
  server.process().signal(SIGTERM);
  expect_all_listed(client, {ids.begin() + 1, ids.end()});
  EXPECT_EQ(server.process().wait(), 0);
}

TEST(Lists, EndWithTheirClientAndLaterRequestsAreExecuted) {
  LimitdServer server(types);
  LimitdClient client = server.client();
  client.take("ip", "k1");
  client.take("ip", "k2");
  {
    LimitdClient gone = server.client();
    ask_for_lists(gone, 2'000);
    gone.send({LimitdMethod::take, "ip", "behind"});
    gone.tcp().half_close();
    gone.tcp().read_to_end();
  }
  EXPECT_EQ(client.ask({LimitdMethod::get, "ip", "behind"}).remaining, 9);
  expect_all_listed(client, ask_for_lists(client, 10));
}

}  // namespace
}  // namespace sluice::tests::lists_test
