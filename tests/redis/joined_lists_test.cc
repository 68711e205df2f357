// Limits that come with commands, with several lists for one key: a server whose counters are in a
// real Redis, or in a Redis Cluster, answers as one with the table in memory; and overrides.
#include <gtest/gtest.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <regex>
#include <sstream>
#include <string>
#include <vector>

#include "tests/support/comes.h"
#include "tests/support/dice.h"
#include "tests/support/divvy_server.h"
#include "tests/support/http_client.h"
#include "tests/support/redis_cluster.h"
#include "tests/support/redis_server.h"
#include "tests/support/resp_client.h"

namespace sluice::tests {
namespace {

using Words = std::vector<std::string>;

class Server {
 public:
  explicit Server(const std::string& store = "") {
    const std::string file = folder_.write(
        "sluice.yaml", "listen: [{ protocol: resp, address: \"127.0.0.1:0\" }]\n" + store);
    process_ = std::make_unique<Process>(
        Process::Options{.arguments = {"serve", "--config", file, "--admin", "127.0.0.1:0"},
                         .environment = {{"SLUICE_LOG_LEVEL", "info"}}});
    client_ = std::make_unique<RespClient>(await_listening(*process_, "resp"));
    admin_ = await_listening(*process_, "admin");
  }
  static std::string redis(const std::vector<std::string>& nodes, const std::string& more) {
    std::string all;
    for (const std::string& node : nodes) all += (all.empty() ? "\"" : ", \"") + node + "\"";
    return "store: { redis: { nodes: [" + all + "], deadline_ms: 20000" + more + " } }\n";
  }
  void connected() { process_->says(": connected"); }
  uint16_t admin() const { return admin_; }

  // The decisions of a reply, without times.
  std::string ask(const std::string& command) {
    Words words;
    std::istringstream text(command);
    for (std::string word; text >> word;) words.push_back(word);
    return numbers((*client_)(words));
  }

 private:
  // Of [allowed, limit, remaining, retry, reset, debt, charged] all but the times.
  static std::string numbers(const RespValue& value) {
    if (value.list.empty()) return to_text(value);
    const size_t size = value.list.size();
    const bool decision = size >= 5 && size <= 7 && value.list[1].list.empty();
    std::string all = "[";
    for (size_t i = 0; i < value.list.size(); ++i)
      if (!decision || (i != 3 && i != 4)) all += (i > 0 ? " " : "") + numbers(value.list[i]);
    return all + "]";
  }

  Folder folder_;
  std::unique_ptr<Process> process_;
  std::unique_ptr<RespClient> client_;
  uint16_t admin_ = 0;
};

// Of kinds that give nothing back within hours.
const std::vector<std::string> limits = {" LIMIT 5 10h ALGORITHM fixed_window",
                                         " LIMIT 7 20h ALGORITHM fixed_window",
                                         " LIMIT 9 0 ALGORITHM fixed_bucket",
                                         " LIMIT 6 3h ALGORITHM sliding_log",
                                         " LIMIT 8 30h ALGORITHM fixed_window OVER COUNT",
                                         " LIMIT 4 366d"};

std::string any_list(Dice& dice) {
  std::string list;
  for (const std::string& limit : limits)
    if (dice(3) == 0) list += limit;
  return list.empty() ? limits[dice(limits.size())] : list;
}

std::string any_command(Dice& dice, int step) {
  // Keys end after a while, so that there are grants again.
  const auto key = [&] { return "KEY k" + std::to_string(step / 40) + std::to_string(dice(2)); };
  const std::string units = " N " + std::to_string(dice(3));
  switch (dice(9)) {
    case 0:
      return "SLUICE.TAKE " + key() + any_list(dice) + units;
    case 1:
      return "SLUICE.PEEK " + key() + any_list(dice) + units;
    case 2:
      return "SLUICE.PUT " + key() + any_list(dice) + " N 1";
    case 3:
      return "SLUICE.CHARGE " + key() + any_list(dice) + units;
    case 4:
      return dice(8) == 0 ? "SLUICE.RESET " + key() + any_list(dice) : "EXISTS " + key().substr(4);
    default: {
      const size_t parts = 2 + dice(2u);
      std::string command = "SLUICE.MTAKE " + std::to_string(parts);
      for (size_t i = 0; i < parts; ++i) command += " " + key() + any_list(dice);
      return command + units;
    }
  }
}

// Without the limits: of two that have as much left a refusal shows the one that resets later,
// which after a refusal in another slot is the later one with this request's units.
std::string without_limits(std::string answer) {
  static const std::regex limit(R"(\[([01]) \d+ )");
  return std::regex_replace(answer, limit, "[$1 ");
}

void answers_as_memory(Server& server, uint32_t seed, int steps, bool slots) {
  Server memory;
  Dice dice(seed);
  std::string told;
  int granted = 0, refused = 0;
  for (int step = 0; step < steps; ++step) {
    const std::string command = any_command(dice, step);
    const std::string answer = memory.ask(command), other = server.ask(command);
    told += command + "\n  " + answer + "\n";
    if (slots && answer.starts_with("[0"))
      ASSERT_EQ(without_limits(other), without_limits(answer)) << told;
    else
      ASSERT_EQ(other, answer) << told;
    if (command.starts_with("SLUICE.MTAKE")) ++(answer.starts_with("[1") ? granted : refused);
  }
  EXPECT_GT(granted, steps / 40);
  EXPECT_GT(refused, steps / 40);
}

TEST(JoinedListsOnRedis, AnswerAsInMemory) {
  const RedisServer redis;
  Server server(Server::redis({redis.address()}, ""));
  server.connected();
  answers_as_memory(server, 1, 600, false);
}

TEST(JoinedListsOnRedis, AnswerAsInMemoryOverSeveralSlots) {
  RedisCluster cluster;
  Server server(Server::redis(cluster.addresses(), ", cluster: true, across_slots: settle"));
  ASSERT_TRUE(
      comes([&] { return server.ask("SLUICE.TAKE KEY first LIMIT 9 1h").starts_with("["); }));
  answers_as_memory(server, 2, 400, true);
}

// An override has one list for the key: each part is charged to it, or to none.
TEST(JoinedLists, MeetOverrides) {
  Server server;
  const std::string requests = " KEY t LIMIT 3 10h ALGORITHM fixed_window",
                    tokens = " KEY t LIMIT 100 20h ALGORITHM fixed_window",
                    take = "SLUICE.MTAKE 2" + requests + tokens;
  const auto set = [&](const std::string& what) {
    const HttpAnswer answer =
        http(server.admin(), "POST", "/v1/overrides",
             R"({"rule": "inline", "dialect": "resp", "actor": "t", )" + what + "}");
    EXPECT_EQ(answer.status, 201) << answer.body;
    return nlohmann::json::parse(answer.body).value("id", "");
  };
  EXPECT_EQ(server.ask(take), "[1 [1 3 2] [1 100 99]]");
  std::string id = set("\"deny\": true");
  EXPECT_EQ(server.ask(take), "[0 [0 0 0] [0 0 0]]");
  EXPECT_EQ(server.ask("SLUICE.MTAKE 3" + requests + " KEY other LIMIT 5 1h" + tokens),
            "[0 [0 0 0] [1 5 5] [0 0 0]]");
  EXPECT_EQ(http(server.admin(), "DELETE", "/v1/overrides/" + id).status, 200);
  EXPECT_EQ(server.ask(take), "[1 [1 3 1] [1 100 98]]");
  id = set("\"unlimited\": true");
  EXPECT_EQ(server.ask(take).substr(0, 5), "[1 [1");
  EXPECT_EQ(http(server.admin(), "DELETE", "/v1/overrides/" + id).status, 200);
  EXPECT_EQ(server.ask(take), "[1 [1 3 0] [1 100 97]]") << "nothing was charged meanwhile";
  EXPECT_EQ(server.ask(take), "[0 [0 3 0] [1 100 97]]");
  const auto listed = nlohmann::json::parse(http_get(server.admin(), "/v1/denials").body);
  EXPECT_EQ(listed.dump().find("\"quota\":0,"), std::string::npos) << listed.dump();
}

}  // namespace
}  // namespace sluice::tests
