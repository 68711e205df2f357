// Replays the recordings of Divvy 1.7.1 (vectors.h) against the real `sluice divvy` over its
// socket, with one server for each case: with the counters in its own memory, and in a real Redis,
// where the stored keys are compared as well.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <map>
#include <memory>
#include <optional>
#include <thread>

#include "tests/conformance/case_name.h"
#include "tests/conformance/vectors.h"
#include "tests/support/divvy_server.h"
#include "tests/support/redis_server.h"

namespace sluice::tests::socket_test {
namespace {

using std::chrono::steady_clock;

constexpr Milliseconds chunk_pause{60};

class DivvyOverSocket : public testing::TestWithParam<Case> {
 protected:
  // Replays the case. False: the machine was too slow, so the pauses differed from the recorded
  // ones and the result means nothing. Differences are appended to `wrong`.
  bool replay(const Case& c, std::vector<std::string>& wrong) {
    const bool timed = std::any_of(c.steps.begin(), c.steps.end(),
                                   [](const Step& step) { return step.sleep_ms > 0; });
    const Milliseconds slip_max(timed ? 150 : 900);
    Process::Options options;
    if (redis_) {
      auto client = redis_->client();
      client({"FLUSHALL"});
      for (const auto& command : c.redis_setup) client(command);
      options.environment = {{"REDIS_HOST", "127.0.0.1"},
                             {"REDIS_PORT", std::to_string(redis_->port())}};
    }
    DivvyServer server(c.config, policy_of(c.config), options);
    connections_.clear();
    const auto start = steady_clock::now();
    Milliseconds planned{0};
    for (size_t i = 0; i < c.steps.size(); ++i) {
      const Step& step = c.steps[i];
      if (!step.redis_command.empty()) {
        EXPECT_FALSE(redis_->client()(step.redis_command).is_error());
        continue;
      }
      auto at = connections_.find(step.connection);
      if (at == connections_.end())
        at = connections_.emplace(step.connection, server.client()).first;
      planned +=
          Milliseconds(step.sleep_ms) + chunk_pause * (std::max<size_t>(step.writes.size(), 1) - 1);
      std::this_thread::sleep_for(Milliseconds(step.sleep_ms));
      const std::string problem = take(step, at->second);
      if (!problem.empty()) wrong.push_back("step " + std::to_string(i) + ": " + problem);
      if (step.closes) connections_.erase(at);
      if (!problem.empty()) break;
    }
    if (wrong.empty()) check_open(wrong);
    if (wrong.empty() && redis_ && c.redis_known) check_redis(c, wrong);
    // On a busy machine Redis may be late: the drop-in waits 50 ms for it, less than a step may be
    // late.
    const bool redis_was_late = std::any_of(wrong.begin(), wrong.end(), [](const auto& problem) {
      return problem.find("got ERR Internal Error: Redis did not answer in 50 ms") !=
             std::string::npos;
    });
    // Stored keys expire with their windows, so the time to read them counts too.
    const bool in_time = !redis_was_late && steady_clock::now() - start <= planned + slip_max;
    connections_.clear();  // otherwise the server's end waits for clients that it has closed
    return in_time;
  }

  std::unique_ptr<RedisServer> redis_;

 private:
  // The keys in Redis must be the recorded ones, or the case must be a listed difference.
  void check_redis(const Case& c, std::vector<std::string>& wrong) {
    auto client = redis_->client();
    std::vector<std::string> differing;
    const auto keys = client({"KEYS", "*"}).list;
    if (keys.size() != c.redis_after.size())
      differing.push_back("there are " + std::to_string(keys.size()) + " keys");
    for (const auto& key : keys) {
      const auto recorded =
          std::find_if(c.redis_after.begin(), c.redis_after.end(),
                       [&](const auto& one) { return same_key(one.first, key.text); });
      if (recorded == c.redis_after.end()) {
        differing.push_back("key " + key.text.substr(0, 200));
        continue;
      }
      const auto& [value, ttl] = recorded->second;
      const auto got = client({"GET", key.text});
      const int64_t got_ttl = client({"TTL", key.text}).number;
      if (got.is_error() != !value || (value && *value != got.text) || std::abs(ttl - got_ttl) > 1)
        differing.push_back(key.text.substr(0, 200) + ": " + got.text + " for " +
                            std::to_string(got_ttl) + ", recorded " + value.value_or("(none)") +
                            " for " + std::to_string(ttl));
    }
    const bool listed = std::any_of(counter_differences().begin(), counter_differences().end(),
                                    [&](const CounterDifference& d) { return c.name == d.name; });
    if (listed && differing.empty()) wrong.push_back("what is stored does not differ");
    if (!listed) wrong.insert(wrong.end(), differing.begin(), differing.end());
  }

  static std::string take(const Step& step, TcpClient& client) {
    bool pause = false;
    for (const std::string& bytes : step.writes) {
      if (pause) std::this_thread::sleep_for(chunk_pause);
      pause = true;
      if (!client.send(bytes)) return "the connection is closed already";
    }
    if (step.half_close) client.half_close();
    for (const std::string& expected : step.replies) {
      const auto line = client.read_line();
      if (!line) return "the connection ended instead of " + expected;
      if (!same_reply(expected, *line)) return "expected " + expected + "\n     got " + *line;
    }
    if (!step.closes) return {};
    const std::string more = client.read_to_end();
    if (!more.empty()) return "after the last reply came " + more;
    return client.was_reset() ? "the connection was reset" : "";
  }

  // A connection that should be open still answers, and has received nothing unexpected before. The
  // request charges nothing.
  void check_open(std::vector<std::string>& wrong) {
    for (auto& [number, client] : connections_) {
      const std::string answer = client.ask("probe");
      if (answer != "ERR unknown-command \"Unrecognized command: PROBE\"")
        wrong.push_back("connection " + std::to_string(number) + " then answered " + answer);
    }
  }

  std::map<int, TcpClient> connections_;

 public:
  void answers_as_recorded();
};

void DivvyOverSocket::answers_as_recorded() {
  const Case& c = GetParam();
  if (std::any_of(refusals().begin(), refusals().end(),
                  [&](const Refusal& r) { return c.name == r.name; })) {
    const Folder folder;
    const auto path =
        folder.write(refused_file, recording()["config files"][refused_file].get<std::string>());
    const auto finished = run({.arguments = {"divvy", path}, .environment = {{"PORT", "0"}}});
    EXPECT_EQ(finished.status, 1);
    EXPECT_EQ(finished.out, "");
    for (const Refusal& r : refusals())
      EXPECT_NE(finished.err.find("rule " + std::string(r.rule)), std::string::npos)
          << finished.err;
    return;
  }
  // A busy machine stretches pauses beyond the windows that they measure: then the case is played
  // again.
  for (const Deadline deadline = soon(); steady_clock::now() < deadline;) {
    std::vector<std::string> wrong;
    if (!replay(c, wrong)) continue;
    for (const std::string& problem : wrong) ADD_FAILURE() << problem;
    return;
  }
  FAIL() << "the machine was too busy";
}

TEST_P(DivvyOverSocket, AnswersAsRecorded) {
  answers_as_recorded();
}

std::vector<Case> without_redis() {
  std::vector<Case> some = cases();
  std::erase_if(some, [](const Case& c) { return c.needs_redis; });
  return some;
}
INSTANTIATE_TEST_SUITE_P(Recorded, DivvyOverSocket, testing::ValuesIn(without_redis()), case_name);

class DivvyOverRedis : public DivvyOverSocket {};

TEST_P(DivvyOverRedis, AnswersAndStoresAsRecorded) {
  redis_ = std::make_unique<RedisServer>();
  answers_as_recorded();
}

INSTANTIATE_TEST_SUITE_P(Recorded, DivvyOverRedis, testing::ValuesIn(cases()), case_name);

}  // namespace
}  // namespace sluice::tests::socket_test
