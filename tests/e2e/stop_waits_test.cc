// The end of the real server while requests wait for units: each gets an answer, and so do those
// that were sent behind it.
#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "tests/e2e/described.h"
#include "tests/e2e/http_peers.h"
#include "tests/support/divvy_server.h"
#include "tests/support/patience.h"
#include "tests/support/stopped_waits.h"

namespace sluice::tests {
namespace {

http_e2e::Asked take(const std::string& target, int units) {
  return http_e2e::post(target, http_e2e::about({{"jar", "j"}}, {{"n", units}}));
}

TEST(StopWithWaits, AnswersThemAndWhatIsBehindThemWithCountersInMemory) {
  const Folder folder;
  StoppedWaits(folder, "").expect_answers();
}

TEST(StopWithWaits, AnswersThemAndWhatIsBehindThemWithCountersOnDisk) {
  const Folder folder;
  StoppedWaits(folder, "store: { path: data }\n").expect_answers();
  const Folder synced;
  StoppedWaits(synced, "store: { path: data, durability: always }\n").expect_answers();
}

// Its bytes stay in the buffer while it waits, but none of them is of a request to come.
TEST(StopWithWaits, AnswersAWaitOverHttpAtOnce) {
  http_e2e::Door door;
  EXPECT_EQ(http_e2e::Http1(door.port()).ask(take("/v1/take", 2)).status, 200);
  http_e2e::Http1 client(door.port());
  client.send(take("/v1/wait", 1));
  ASSERT_TRUE(door.await_waiting(1));
  const auto begin = std::chrono::steady_clock::now();
  auto stopped = std::async(std::launch::async, [&] { door.stop(); });
  EXPECT_EQ(client.read().status, 503);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, promised(Milliseconds(150)));
  client.socket().half_close();
  stopped.get();
}

// The end of the first wait of a queue may give the second one its units. Then that one is told so:
// what a client is told and what is charged are the same.
TEST(StopWithWaits, ChargesOverHttpOnlyWhatItAnswers) {
  constexpr int queues = 16;
  const Folder folder;
  const std::string file = folder.write(
      "sluice.yaml",
      "listen: [{ protocol: http, address: \"127.0.0.1:0\" }, { protocol: admin, address: "
      "\"127.0.0.1:0\" }]\nworkers: 1\nstore: { path: data, durability: always }\n"
      "rules:\n- { name: jars, match: { jar: \"*\" }, actor: jar,\n"
      "    limit: { quota: 3, algorithm: fixed_bucket } }\n");
  const auto asked = [](const std::string& target, int queue, int units) {
    return http_e2e::post(target,
                          http_e2e::about({{"jar", std::to_string(queue)}}, {{"n", units}}));
  };
  std::vector<int> used(queues, 2);
  {
    Process server({.arguments = {"serve", "--config", file}});
    const uint16_t port = await_listening(server, "http"), admin = await_listening(server, "admin");
    std::vector<std::unique_ptr<http_e2e::Http1>> waits;
    for (int units : {2, 1})
      for (int queue = 0; queue < queues; ++queue) {
        http_e2e::Http1 client(port);
        if (units == 2) {
          ASSERT_EQ(client.ask(asked("/v1/take", queue, 2)).status, 200);
        }
        waits.push_back(std::make_unique<http_e2e::Http1>(port));
        waits.back()->send(asked("/v1/wait", queue, units));
        ASSERT_TRUE(comes([&] {
          return sample(admin, "sluice_waiting_requests") == std::to_string(waits.size());
        }));
      }
    server.signal(SIGTERM);
    for (size_t i = 0; i < waits.size(); ++i) {
      const HttpAnswer answer = waits[i]->read();
      ASSERT_TRUE(answer.status == 200 || answer.status == 503) << answer.body;
      if (answer.status == 200) {
        used[i % queues] += i < queues ? 2 : 1;
      } else {
        EXPECT_NE(answer.body.find("the server stops; nothing was taken"), std::string::npos)
            << answer.body;
      }
      waits[i].reset();
    }
    EXPECT_EQ(server.wait(), 0);
  }
  Process server({.arguments = {"serve", "--config", file}});
  const uint16_t port = await_listening(server, "http");
  for (int queue = 0; queue < queues; ++queue) {
    const HttpAnswer answer = http_e2e::Http1(port).ask(asked("/v1/peek", queue, 0));
    EXPECT_EQ(http_e2e::Json::parse(answer.body).at("remaining"),
              3 - used[static_cast<size_t>(queue)])
        << queue;
  }
}

// A person who waits with `sluice ask` is told of the stop, not that the units are never there.
TEST(StopWithWaits, AskLimitdSaysThatTheServerStops) {
  const Folder folder;
  folder.write("limitd.yaml", "db: { inMemory: true }\nbuckets: { fixed: { size: 3 } }\n");
  const std::string file =
      folder.write("sluice.yaml",
                   "listen:\n- { protocol: limitd, address: \"127.0.0.1:0\" }\n"
                   "- { protocol: admin, address: \"127.0.0.1:0\" }\n"
                   "policy: [{ limitd: limitd.yaml }]\n");
  Process server({.arguments = {"serve", "--config", file}});
  const std::string limitd = "127.0.0.1:" + std::to_string(await_listening(server, "limitd"));
  const uint16_t admin = await_listening(server, "admin");
  const auto words = [&](const std::string& verb) {
    return std::vector<std::string>{"ask",    "limitd", "--server", limitd, "--timeout",
                                    "120000", verb,     "fixed",    "a",    "3"};
  };
  ASSERT_EQ(run({.arguments = words("take")}).status, 0);
  Process waits({.arguments = words("wait")});
  const auto end = soon();
  while (json_of(ask(admin, "GET", "/v1/status")).at("waiting") != 1 &&
         std::chrono::steady_clock::now() < end)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  server.signal(SIGTERM);
  EXPECT_EQ(waits.wait(), 3);
  EXPECT_NE(waits.err().find("the server ended the wait before the units were there: it may be "
                             "stopping"),
            std::string::npos)
      << waits.err();
  EXPECT_EQ(server.wait(), 0);
}

}  // namespace
}  // namespace sluice::tests
