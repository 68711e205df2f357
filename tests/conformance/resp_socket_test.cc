// Replays the recordings of the Redis protocol (resp_cases.h) against the real `sluice resp` over
// its socket, with one server for each case: with each packet sent whole, and with every byte sent
// by itself.
#include <gtest/gtest.h>

#include <chrono>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "tests/conformance/resp_cases.h"
#include "tests/support/resp_client.h"

namespace sluice::tests::resp_socket_test {
namespace {

using nlohmann::json;
using std::chrono::steady_clock;

// How much longer than its pauses a case may take. Beyond that its answers mean nothing: in one
// case a unit returns after a tenth of a second.
constexpr Milliseconds slip_max{90};

const std::vector<std::string> marker = {"ECHO", "nothing came before"};

bool is_marker(const RespValue& value) {
  return value.type == RespValue::Type::bulk && value.text == marker[1];
}

class RespOverSocket : public testing::TestWithParam<RespCase> {
 protected:
  void answers_as_recorded(bool byte_by_byte) {
    if (const std::string why = GetParam().needs_redis(); !why.empty()) GTEST_SKIP() << why;
    std::string wrong;
    for (const Deadline deadline = soon(); steady_clock::now() < deadline;) {
      RespServer server;
      wrong.clear();
      const bool in_time = replay(server, byte_by_byte, wrong);
      // After any case the server serves the next client.
      EXPECT_EQ(to_text(server.client()({"PING"})), "PONG");
      if (wrong.empty()) return;
      // A busy machine stretches the time between steps: then the case is played again.
      if (in_time) break;
    }
    ADD_FAILURE() << wrong;
  }

 private:
  // Plays the case. Puts what differs into `wrong`. False: the machine was too slow, and the result
  // means nothing.
  bool replay(RespServer& server, bool byte_by_byte, std::string& wrong) {
    std::map<int, RespClient> connections;
    const auto start = steady_clock::now();
    Milliseconds planned{0};
    const json& steps = GetParam().steps();
    for (size_t i = 0; i < steps.size() && wrong.empty(); ++i) {
      const json& step = steps[i];
      if (step.contains("sleep_ms")) {
        const Milliseconds sleep(step["sleep_ms"].get<int>());
        planned += sleep;
        std::this_thread::sleep_for(sleep);
        continue;
      }
      std::optional<RespClient> own;
      RespClient* client;
      if (step.contains("raw")) {
        client = &own.emplace(server.port(), byte_by_byte);
      } else {
        const int number = step.value("conn", 0);
        client = &connections.try_emplace(number, server.port(), byte_by_byte).first->second;
      }
      const std::string problem =
          GetParam().is_open() ? take_anything(step, *client) : take(step, *client);
      if (!problem.empty()) wrong = "step " + std::to_string(i) + ": " + problem;
      if (!own && client->socket().ended()) connections.erase(step.value("conn", 0));
    }
    for (auto& [number, client] : connections)
      if (wrong.empty() && !client.socket().ended()) wrong = take_marker(client);
    return steady_clock::now() - start <= planned + slip_max;
  }

  // Sends a step and after it the marker, and reads the expected replies, then the marker: nothing
  // else was sent. Returns what is wrong, or "". After a recorded client's bytes there is no
  // marker, because a transaction may be open.
  std::string take(const json& step, RespClient& client) {
    const RespDue due = due_of(GetParam(), step);
    const bool marked = !due.closed && !step.contains("sends");
    const bool sent = client.send(bytes_of(step) + (marked ? to_resp(marker) : ""));
    if (!sent && !due.closed) return "the connection is closed already";
    for (const json& reply : due.replies) {
      const auto got = client.read();
      if (!got) return "the connection ended instead of " + reply.dump();
      if (!fits(reply, *got)) return "expected " + reply.dump() + "\n     got " + to_text(*got);
    }
    if (due.closed) {
      const std::string rest = client.socket().read_to_end();
      return rest.empty() ? "" : "before the end came " + rest;
    }
    return marked ? read_marker(client) : "";
  }

  std::string take_marker(RespClient& client) {
    return client.send(to_resp(marker)) ? read_marker(client) : "the connection is closed";
  }

  std::string read_marker(RespClient& client) {
    const auto got = client.read();
    if (!got) return "the connection ended";
    return is_marker(*got) ? "" : "unexpected: " + to_text(*got);
  }

  // Sends a step that may be answered with anything: a reply, nothing, or the end.
  std::string take_anything(const json& step, RespClient& client) {
    if (!client.send(bytes_of(step) + to_resp(marker))) return {};
    while (const auto got = client.read())
      if (is_marker(*got)) return {};
    return {};
  }
};

TEST_P(RespOverSocket, AnswersAsRecorded) {
  answers_as_recorded(false);
}

class RespByteByByte : public RespOverSocket {};

TEST_P(RespByteByByte, AnswersAsRecorded) {
  answers_as_recorded(true);
}

std::string name_of(const testing::TestParamInfo<RespCase>& tested) {
  return tested.param.test_name();
}

INSTANTIATE_TEST_SUITE_P(Recorded, RespOverSocket, testing::ValuesIn(recorded_servers()), name_of);
INSTANTIATE_TEST_SUITE_P(Clients, RespOverSocket, testing::ValuesIn(recorded_clients()), name_of);
INSTANTIATE_TEST_SUITE_P(Recorded, RespByteByByte, testing::ValuesIn(recorded_servers()), name_of);
INSTANTIATE_TEST_SUITE_P(Clients, RespByteByByte, testing::ValuesIn(recorded_clients()), name_of);

void expect_only(const std::vector<RespCase>& cases, const std::set<std::string>& flags,
                 const std::set<std::string>& entries) {
  for (const RespCase& c : cases) {
    SCOPED_TRACE(c.name());
    for (const auto& flag : c.recorded.items()) EXPECT_TRUE(flags.contains(flag.key()));
    for (const json& step : c.steps())
      for (const auto& entry : step.items()) EXPECT_TRUE(entries.contains(entry.key()));
  }
}

// A step or a flag that the player does not know would be skipped.
TEST(RespVectors, HaveNothingThatThePlayerDoesNotKnow) {
  EXPECT_EQ(recorded_servers().size(), 100u);
  expect_only(
      recorded_servers(),
      {"name", "dialect", "steps", "bug", "redis", "dies", "any_answer", "optional",
       "decision",  // text for readers
       "writes_nothing"},
      {"cmd", "conn", "decision", "pipeline", "raw", "closed", "sleep_ms", "reply", "replies"});
  EXPECT_EQ(recorded_clients().size(), 23u);
  expect_only(recorded_clients(), {"name", "dialect", "steps"}, {"conn", "sends", "replies"});
}

}  // namespace
}  // namespace sluice::tests::resp_socket_test
