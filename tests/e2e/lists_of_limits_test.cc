// Limits that are added to a rule, taken out of it, or put into another order: what was used stays
// used, after a reload, after a restart, and for two servers with different rules on one Redis.
#include <gtest/gtest.h>

#include <csignal>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "tests/support/divvy_server.h"
#include "tests/support/redis_server.h"
#include "tests/support/tcp_client.h"

namespace sluice::tests {
namespace {

const std::string ten_an_hour = "{ quota: 10, window: 1h, algorithm: fixed_window }",
                  each_minute = "{ quota: 50, window: 1m, algorithm: sliding_log }",
                  two_hours = "{ quota: 500, window: 2h, algorithm: fixed_window }";

// A server whose one rule has these limits.
class ServedLists {
 public:
  explicit ServedLists(std::string store) : store_(std::move(store)) {}

  void start(const std::vector<std::string>& limits) {
    write(limits);
    process_.emplace(Process::Options{.arguments = {"serve", "--config", file_}});
    port_ = await_listening(*process_, "divvy");
  }
  void reload(const std::vector<std::string>& limits) {
    write(limits);
    process_->signal(SIGHUP);
    ASSERT_TRUE(process_->says("policy generation " + std::to_string(++generation_) + ","))
        << process_->err();
  }
  void kill() {
    process_->signal(SIGKILL);
    process_->wait();
    generation_ = 1;
  }
  bool allows() {
    const std::string reply = TcpClient::connect(port_)->ask("HIT tenant=acme");
    EXPECT_TRUE(reply.starts_with("OK ")) << reply;
    return reply.starts_with("OK true");
  }

 private:
  void write(const std::vector<std::string>& limits) {
    std::string all;
    for (const std::string& limit : limits) all += (all.empty() ? "" : ", ") + limit;
    file_ = folder_.write("sluice.yaml",
                          "listen: [{ protocol: divvy, address: \"127.0.0.1:0\" }]\n" + store_ +
                              "rules: [{ name: api, match: { tenant: \"*\" }, actor: tenant, "
                              "limits: [" +
                              all + "] }]\n");
  }

  const std::string store_;
  Folder folder_;
  std::string file_;
  std::optional<Process> process_;
  uint16_t port_ = 0;
  int generation_ = 1;
};

// Uses up ten an hour, and then changes the rule's limits with `change`.
void each_list_goes_on(ServedLists& served,
                       const std::function<void(const std::vector<std::string>&)>& change) {
  for (int i = 0; i < 10; ++i) ASSERT_TRUE(served.allows()) << i;
  ASSERT_FALSE(served.allows());
  for (const auto& limits :
       std::vector<std::vector<std::string>>{{ten_an_hour, each_minute, two_hours},
                                             {two_hours, ten_an_hour},
                                             {each_minute, two_hours, ten_an_hour},
                                             {ten_an_hour}}) {
    change(limits);
    EXPECT_FALSE(served.allows()) << limits.size();
  }
  // While it is not among them it neither refuses nor forgets.
  change({two_hours});
  EXPECT_TRUE(served.allows());
  change({ten_an_hour, two_hours});
  EXPECT_FALSE(served.allows());
}

TEST(ListsOfLimits, GoOnAfterAReload) {
  ServedLists served("log: { level: info }\n");
  served.start({ten_an_hour, each_minute});
  each_list_goes_on(served, [&](const auto& limits) { served.reload(limits); });
}

TEST(ListsOfLimits, GoOnAfterARestart) {
  const Folder folder;
  ServedLists served("store: { path: " + folder.path() + "/data, durability: always }\n");
  served.start({ten_an_hour, each_minute});
  each_list_goes_on(served, [&](const auto& limits) {
    served.kill();
    served.start(limits);
  });
}

TEST(ListsOfLimits, OfTwoServersOnOneRedisCountTogether) {
  const RedisServer redis;
  const std::string store = "store: { redis: { nodes: [\"" + redis.address() + "\"] } }\n";
  ServedLists first(store), second(store);
  first.start({ten_an_hour, each_minute});
  second.start({two_hours, ten_an_hour});
  for (int i = 0; i < 10; ++i) ASSERT_TRUE((i % 2 == 0 ? first : second).allows()) << i;
  EXPECT_FALSE(first.allows());
  EXPECT_FALSE(second.allows());
  second.kill();
  second.start({two_hours});
  EXPECT_TRUE(second.allows());
  EXPECT_FALSE(first.allows());
}

}  // namespace
}  // namespace sluice::tests
