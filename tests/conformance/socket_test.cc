// The recordings replayed against the real server over its socket, one server for each case.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <optional>
#include <thread>

#include "tests/conformance/case_name.h"
#include "tests/conformance/vectors.h"
#include "tests/support/divvy_server.h"

namespace sluice::tests {
namespace {

using std::chrono::steady_clock;

constexpr Milliseconds chunk_pause{60};

class DivvyOverSocket : public testing::TestWithParam<Case> {
 protected:
  // Replays the case. False: the machine was too slow for the recorded pauses to mean anything.
  // What differs is appended to `wrong`.
  bool replay(const Case& c, std::vector<std::string>& wrong) {
    const bool timed = std::any_of(c.steps.begin(), c.steps.end(),
                                   [](const Step& step) { return step.sleep_ms > 0; });
    const Milliseconds slip_max(timed ? 150 : 900);
    DivvyServer server(c.config, policy_of(c.config));
    connections_.clear();
    const auto start = steady_clock::now();
    Milliseconds planned{0};
    for (size_t i = 0; i < c.steps.size(); ++i) {
      const Step& step = c.steps[i];
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
    const bool in_time = steady_clock::now() - start <= planned + slip_max;
    if (in_time && wrong.empty()) check_open(wrong);
    connections_.clear();  // the server would wait for clients that it has sent away
    return in_time;
  }

 private:
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
    if (!more.empty()) return "behind the last reply came " + more;
    return client.was_reset() ? "the connection was reset" : "";
  }

  // A connection that was not to be closed still answers, and nothing unasked came before. The
  // question is one that charges nothing.
  void check_open(std::vector<std::string>& wrong) {
    for (auto& [number, client] : connections_) {
      const std::string answer = client.ask("probe");
      if (answer != "ERR unknown-command \"Unrecognized command: PROBE\"")
        wrong.push_back("connection " + std::to_string(number) + " then answered " + answer);
    }
  }

  std::map<int, TcpClient> connections_;
};

TEST_P(DivvyOverSocket, AnswersAsRecorded) {
  const Case& c = GetParam();
  if (c.needs_redis) GTEST_SKIP() << redis_message;
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
  for (int attempt = 0; attempt < 8; ++attempt) {
    std::vector<std::string> wrong;
    if (!replay(c, wrong)) continue;
    for (const std::string& problem : wrong) ADD_FAILURE() << problem;
    return;
  }
  FAIL() << "the machine was too busy eight times";
}

INSTANTIATE_TEST_SUITE_P(Recorded, DivvyOverSocket, testing::ValuesIn(cases()), case_name);

}  // namespace
}  // namespace sluice::tests
