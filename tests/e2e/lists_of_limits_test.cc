// Limits that are added to a rule, taken out of it, or put into another order: what was used stays
// used, after a reload, after a restart, and for two servers with different rules on one Redis.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/comes.h"
#include "tests/support/dice.h"
#include "tests/support/divvy_server.h"
#include "tests/support/http_client.h"
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
    process_.emplace(
        Process::Options{.arguments = {"serve", "--config", file_, "--admin", "127.0.0.1:0"}});
    port_ = await_listening(*process_, "divvy");
    admin_ = await_listening(*process_, "admin");
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
  bool says(const std::string& text) { return process_->says(text); }
  std::string explained() {
    return http(admin_, "POST", "/v1/explain",
                R"({"protocol": "divvy", "descriptor": {"tenant": "acme"}})")
        .body;
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
  uint16_t port_ = 0, admin_ = 0;
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

TEST(ListsOfLimits, AReloadAndExplainSayWhatBeginsFresh) {
  ServedLists served("log: { level: info }\n");
  served.start({ten_an_hour});
  served.reload({ten_an_hour, two_hours});
  const std::string fresh = "rule `api`, 500 per 2h (fixed_window): begins fresh: it is new";
  EXPECT_TRUE(served.says("generation 2: " + fresh));
  EXPECT_NE(served.explained().find(fresh), std::string::npos) << served.explained();
  served.reload({two_hours});
  EXPECT_EQ(served.explained().find("begins fresh"), std::string::npos) << served.explained();
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

// ---- Random lists, reloads, overrides and kills against an exact model ----

// The kinds of limits: none gives anything back within hours.
const std::array<std::string, 4> kinds = {
    "window: 10h, algorithm: fixed_window", "window: 3h, algorithm: sliding_log",
    "algorithm: fixed_bucket", "window: 20h, algorithm: fixed_window"};
constexpr size_t windows[] = {0, 3};

// A quota for each kind that is in the list, in its order.
using List = std::vector<std::pair<size_t, int>>;

List any_list(Dice& dice) {
  List list;
  for (size_t left = 1 + dice(3u); left > 0;) {
    const size_t kind = dice(kinds.size());
    if (std::ranges::any_of(list, [&](const auto& one) { return one.first == kind; })) continue;
    list.emplace_back(kind, 2 + dice(12));
    --left;
  }
  return list;
}

// What one counter has used of each kind.
class Model {
 public:
  bool take(const List& list) {
    go_on_with(list);
    const bool allows =
        std::ranges::all_of(list, [&](const auto& one) { return used_[one.first] < one.second; });
    for (const auto& [kind, quota] : list) used_[kind] += allows ? 1 : 0;
    return allows;
  }
  std::string text() const {
    std::string all;
    for (const int used : used_) all += std::to_string(used) + " ";
    return all;
  }

 private:
  static bool has(const List& list, size_t kind) {
    return std::ranges::any_of(list, [&](const auto& one) { return one.first == kind; });
  }
  // A window of which nothing is known goes on with what was used in the other one that it follows.
  void go_on_with(const List& list) {
    for (const size_t kind : windows) {
      const size_t other = windows[0] + windows[1] - kind;
      if (has(list, kind) && !has(last_, kind) && used_[kind] == 0 && has(last_, other) &&
          !has(list, other))
        used_[kind] = used_[other];
    }
    last_ = list;
  }

  std::array<int, kinds.size()> used_{};
  List last_;
};

class RandomLists {
 public:
  RandomLists(std::string store, uint32_t seed, size_t servers)
      : store_(std::move(store)), dice_(seed), servers_(servers) {
    for (Server& one : servers_) start(one);
  }

  void play(int steps, bool kills) {
    for (int step = 0; step < steps; ++step) {
      Server& one = servers_[dice_(servers_.size())];
      switch (dice_(12)) {
        case 0:
          reload(one);
          break;
        case 1:
          if (kills) kill(one);
          break;
        case 2:
          dice_(2) == 0 ? override_all() : end_override();
          break;
        default: {
          const size_t key = dice_(models_.size());
          const bool wanted = models_[key].take(override_ && key == 0 ? *override_ : one.list);
          const std::string reply =
              TcpClient::connect(one.port)->ask("HIT tenant=t" + std::to_string(key));
          told_ += " hit t" + std::to_string(key) + " " + (wanted ? "yes" : "no");
          ++(wanted ? allowed_ : denied_);
          ASSERT_EQ(reply.substr(0, wanted ? 7 : 8), wanted ? "OK true" : "OK false")
              << reply << "\nused " << models_[key].text() << "\n"
              << told_;
        }
      }
      if (testing::Test::HasFatalFailure()) return;
    }
    EXPECT_GT(allowed_, 20);
    EXPECT_GT(denied_, 20);
  }

 private:
  struct Server {
    Folder folder;
    List list;
    std::optional<Process> process;
    uint16_t port = 0, admin = 0;
    int generation = 1;
  };

  std::string write(Server& one) {
    one.list = any_list(dice_);
    std::string all;
    for (const auto& [kind, quota] : one.list)
      all += (all.empty() ? "{ quota: " : ", { quota: ") + std::to_string(quota) + ", " +
             kinds[kind] + " }";
    told_ += "\n" + std::to_string(&one - servers_.data()) + ": " + all + "\n";
    return one.folder.write("sluice.yaml",
                            "listen: [{ protocol: divvy, address: \"127.0.0.1:0\" }]\n" + store_ +
                                "rules: [{ name: api, match: { tenant: \"*\" }, actor: tenant, "
                                "limits: [" +
                                all + "] }]\n");
  }
  void start(Server& one) {
    one.process.emplace(
        Process::Options{.arguments = {"serve", "--config", write(one), "--admin", "127.0.0.1:0"}});
    one.port = await_listening(*one.process, "divvy");
    one.admin = await_listening(*one.process, "admin");
    one.generation = 1;
    await_override(one);
  }
  void reload(Server& one) {
    write(one);
    const HttpAnswer answer = http(one.admin, "POST", "/v1/reload");
    ASSERT_EQ(answer.status, 200) << answer.body;
  }
  void kill(Server& one) {
    told_ += " kill";
    one.process->signal(SIGKILL);
    one.process->wait();
    start(one);
  }

  // Of tenant t0, in place of all the rule's limits.
  void override_all() {
    end_override();
    override_ = any_list(dice_);
    std::string all;
    for (const auto& [kind, quota] : *override_) {
      // As JSON: {"quota": 3, "window": "10h", "algorithm": "fixed_window"}.
      std::string members = "\"quota\": " + std::to_string(quota);
      if (kind != 2) members += std::string(", \"window\": \"") + hours[kind] + "\"";
      all += (all.empty() ? "{" : ", {") + members + ", \"algorithm\": \"" + names[kind] + "\"}";
    }
    told_ += "\noverride " + all + "\n";
    const HttpAnswer answer =
        http(servers_[0].admin, "POST", "/v1/overrides",
             R"({"rule": "api", "actor": "t0", "all_limits": true, "limits": [)" + all + "]}");
    ASSERT_EQ(answer.status, 201) << answer.body;
    for (Server& one : servers_) await_override(one);
  }
  void end_override() {
    if (!override_) return;
    told_ += "\nno override\n";
    override_.reset();
    const auto listed = nlohmann::json::parse(http_get(servers_[0].admin, "/v1/overrides").body);
    for (const auto& one : listed.at("overrides"))
      EXPECT_EQ(
          http(servers_[0].admin, "DELETE", "/v1/overrides/" + one.at("id").get<std::string>())
              .status,
          200);
    for (Server& one : servers_) await_override(one);
  }
  void await_override(const Server& one) {
    ASSERT_TRUE(comes([&] {
      const auto listed = nlohmann::json::parse(http_get(one.admin, "/v1/overrides").body);
      return listed.at("total") == (override_ ? 1 : 0);
    })) << "the override does not arrive";
  }

  static constexpr std::array<const char*, 4> hours = {"10h", "3h", "", "20h"};
  static constexpr std::array<const char*, 4> names = {"fixed_window", "sliding_log",
                                                       "fixed_bucket", "fixed_window"};
  const std::string store_;
  Dice dice_;
  std::vector<Server> servers_;
  std::array<Model, 3> models_;
  std::optional<List> override_;
  int allowed_ = 0, denied_ = 0;
  std::string told_;
};

TEST(RandomListsOfLimits, MatchTheModelInMemory) {
  for (const uint32_t seed : {1u, 2u, 3u}) {
    SCOPED_TRACE(seed);
    RandomLists lists("log: { level: warn }\n", seed, 1);
    lists.play(300, false);
  }
}
TEST(RandomListsOfLimits, MatchTheModelOverKillsOnDisk) {
  for (const uint32_t seed : {4u, 5u}) {
    SCOPED_TRACE(seed);
    const Folder folder;
    RandomLists lists("store: { path: " + folder.path() + "/data, durability: always }\n", seed, 1);
    lists.play(200, true);
  }
}
TEST(RandomListsOfLimits, OfTwoServersOnOneRedisMatchTheModel) {
  for (const uint32_t seed : {6u, 7u}) {
    SCOPED_TRACE(seed);
    const RedisServer redis;
    RandomLists lists("store: { redis: { nodes: [\"" + redis.address() + "\"] } }\n", seed, 2);
    lists.play(250, true);
  }
}

}  // namespace
}  // namespace sluice::tests
