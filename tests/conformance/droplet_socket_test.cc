// Replays the recordings of droplet 1.4.0 (droplet.json) against the real `sluice droplet` over its
// socket, with one server for each case: with the counters in its own memory, and in a real Redis.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "tests/conformance/droplet_differences.h"
#include "tests/support/divvy_server.h"
#include "tests/support/droplet_client.h"
#include "tests/support/http_client.h"
#include "tests/support/paths.h"
#include "tests/support/redis_server.h"

namespace sluice::tests::droplet_socket_test {
namespace {

using nlohmann::json;
using std::chrono::steady_clock;

struct DropletCase {
  std::string name;
  json steps;
  std::vector<std::string> arguments;
};

void PrintTo(const DropletCase& c, std::ostream* out) {
  *out << c.name;
}

// The options of a case's server, as sluice's arguments.
std::vector<std::string> arguments_of(const json& recorded) {
  std::vector<std::string> arguments;
  if (!recorded.contains("server") || recorded["server"].is_null()) return arguments;
  for (const auto& [key, value] : recorded["server"].items()) {
    if (key != "cleanup_interval_s") throw std::runtime_error("an unknown option " + key);
    arguments = {"--cleanup-interval", std::to_string(value.get<int>())};
  }
  return arguments;
}

const std::vector<DropletCase>& droplet_cases() {
  static const std::vector<DropletCase> all = [] {
    std::ifstream file(tests::source_path("tests/conformance/droplet.json"));
    const json recording = json::parse(file);
    std::vector<DropletCase> cases;
    for (const json& recorded : recording["cases"])
      cases.push_back({recorded["name"], recorded["steps"], arguments_of(recorded)});
    return cases;
  }();
  return all;
}

const DropletDifference* difference_of(const std::string& name, size_t step) {
  for (const DropletDifference& d : droplet_differences())
    if (d.name == name && d.step == step) return &d;
  return nullptr;
}

std::string bytes_of(const json& step) {
  if (!step.contains("frames"))
    return to_frame(binary_frame, unhex(step["request_hex"].get<std::string>()));
  std::string bytes;
  for (const json& frame : step["frames"]) {
    if (frame.contains("raw_hex")) {
      bytes += unhex(frame["raw_hex"].get<std::string>());
      continue;
    }
    bytes +=
        to_frame(frame["opcode"].get<uint8_t>(), unhex(frame["payload_hex"].get<std::string>()),
                 {frame.value("fin", 1) != 0, static_cast<uint8_t>(frame.value("rsv", 0)),
                  frame.value("mask", true)});
  }
  return bytes;
}

// One expected frame; with `lower` and `upper`, any response between the two.
struct Due {
  Frame frame;
  std::optional<DropletLeft> lower, upper;
};

bool is(const Due& due, const Frame& got) {
  if (!due.lower) return got == due.frame;
  if (got.opcode != binary_frame) return false;
  const DropletLeft left = read_response(got.payload);
  if (left.accept != due.lower->accept || left.left.size() != due.lower->left.size()) return false;
  return std::all_of(left.left.begin(), left.left.end(), [&](const auto& period) {
    const auto& [name, n] = period;
    return due.lower->left.contains(name) && n >= due.lower->left.at(name) &&
           n <= due.upper->left.at(name);
  });
}

// The frames that were recorded after a step, including a Close.
std::vector<Due> recorded_frames(const json& step) {
  std::vector<Due> due;
  if (step.contains("responses")) {
    for (const json& r : step["responses"])
      due.push_back(
          {{r["opcode"].get<uint8_t>(), unhex(r["response_hex"].get<std::string>())}, {}, {}});
  } else if (step["response_hex"].is_string()) {
    const std::string message = unhex(step["response_hex"].get<std::string>());
    due.push_back({{binary_frame, message}, {}, {}});
    if (step.contains("range") && !step["range"].is_null()) {
      due.back().lower = due.back().upper = read_response(message);
      for (const auto& [period, range] : step["range"].items()) {
        due.back().lower->left[period] = range[0];
        due.back().upper->left[period] = range[1];
      }
    }
  }
  if (step["closes"].get<bool>())
    due.push_back(
        {close_with(step["close_code"].get<uint16_t>(), step.value("close_reason", "")), {}, {}});
  return due;
}

std::vector<Due> due_frames(const DropletCase& c, size_t step) {
  const DropletDifference* const difference = difference_of(c.name, step);
  if (difference == nullptr) return recorded_frames(c.steps[step]);
  if (difference->close_code) return {{close_with(*difference->close_code), {}, {}}};
  return {{{binary_frame, unhex(difference->response_hex)}, {}, {}}};
}

std::string to_text(const Frame& frame) {
  return "opcode " + std::to_string(frame.opcode) + " " + to_hex(frame.payload);
}

// Sends a step and reads the expected frames. Returns what is wrong, or "".
std::string take(const DropletCase& c, size_t i, DropletClient& client) {
  if (!client.send(bytes_of(c.steps[i]))) return "the connection is closed already";
  const auto due = due_frames(c, i);
  for (const Due& d : due) {
    const auto got = client.read();
    if (!got) return "the connection ended instead of " + to_text(d.frame);
    if (!is(d, *got)) return "expected " + to_text(d.frame) + "\n     got " + to_text(*got);
  }
  if (due.empty() || due.back().frame.opcode != close_frame) return {};
  const std::string rest = client.read_to_end();
  return rest.empty() ? "" : "after the Close came " + rest;
}

class DropletOverSocket : public testing::TestWithParam<DropletCase> {
 protected:
  // Replays the case. False: the machine was too slow, so the pauses differed from the recorded
  // ones and the result means nothing. Differences are appended to `wrong`.
  bool replay(const DropletCase& c, std::vector<std::string>& wrong) {
    const bool timed = std::any_of(c.steps.begin(), c.steps.end(),
                                   [](const json& step) { return step["sleep_ms"] > 0; });
    const Milliseconds slip_max(timed ? 90 : 900);
    Process::Options options{.arguments = c.arguments};
    if (redis_) {
      redis_->client()({"FLUSHALL"});
      options.environment = {{"SLUICE_REDIS", redis_->address()}, {"SLUICE_ADMIN", "127.0.0.1:0"}};
    }
    DropletServer server(options);
    const uint16_t admin = redis_ ? await_listening(server.process(), "admin") : uint16_t{0};
    std::optional<DropletClient> client;
    const auto start = steady_clock::now();
    Milliseconds planned{0};
    for (size_t i = 0; i < c.steps.size(); ++i) {
      const Milliseconds sleep(c.steps[i]["sleep_ms"].get<int>());
      planned += sleep;
      std::this_thread::sleep_for(sleep);
      if (!client) client.emplace(server.client());
      const std::string problem = take(c, i, *client);
      if (!problem.empty()) {
        wrong.push_back("step " + std::to_string(i) + ": " + problem);
        break;
      }
      if (client->socket().ended()) client.reset();
    }
    const bool in_time = steady_clock::now() - start <= planned + slip_max;
    // A connection that is not closed still answers, and has received nothing unexpected before.
    if (client && wrong.empty()) {
      client->send(ping_frame, "still there?");
      const auto got = client->read();
      if (got != Frame{pong_frame, "still there?"})
        wrong.push_back("in place of the pong: " + (got ? to_text(*got) : "the end"));
    }
    if (!redis_) return in_time;
    // When Redis is late, the server's own table decides, and the result means nothing.
    if (sample(admin, "sluice_redis_local_decisions_total") != "0") return false;
    check_redis(wrong);
    return in_time;
  }

  void check_redis(std::vector<std::string>& wrong) {
    auto client = redis_->client();
    for (const RedisReply& key : client({"KEYS", "*"}).list)
      if (!key.text.starts_with("sluice:droplet:") || client({"PTTL", key.text}).number <= 0)
        wrong.push_back("a key that is not sluice's, or never expires: " + key.text);
  }

  void answers_as_recorded() {
    // A busy machine stretches pauses beyond what the ranges allow: then the case is played again.
    for (const Deadline deadline = soon(); steady_clock::now() < deadline;) {
      std::vector<std::string> wrong;
      if (!replay(GetParam(), wrong)) continue;
      for (const std::string& problem : wrong) ADD_FAILURE() << problem;
      return;
    }
    FAIL() << "the machine was too busy";
  }

  std::unique_ptr<RedisServer> redis_;
};

TEST_P(DropletOverSocket, AnswersAsRecorded) {
  answers_as_recorded();
}

class DropletOverRedis : public DropletOverSocket {};

TEST_P(DropletOverRedis, AnswersAsRecorded) {
  redis_ = std::make_unique<RedisServer>();
  answers_as_recorded();
}

std::string name_of(const testing::TestParamInfo<DropletCase>& tested) {
  std::string name = tested.param.name;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(Recorded, DropletOverSocket, testing::ValuesIn(droplet_cases()), name_of);
INSTANTIATE_TEST_SUITE_P(Recorded, DropletOverRedis, testing::ValuesIn(droplet_cases()), name_of);

TEST(DropletDifferences, NameRecordedSteps) {
  EXPECT_EQ(droplet_cases().size(), 63u);
  std::set<std::pair<std::string_view, size_t>> seen;
  for (const DropletDifference& d : droplet_differences()) {
    SCOPED_TRACE(std::string(d.name) + ", step " + std::to_string(d.step));
    EXPECT_TRUE(seen.emplace(d.name, d.step).second) << "twice";
    const auto& all = droplet_cases();
    const auto at =
        std::find_if(all.begin(), all.end(), [&](const auto& c) { return c.name == d.name; });
    ASSERT_NE(at, all.end());
    ASSERT_LT(d.step, at->steps.size());
    ASSERT_EQ(d.response_hex.empty(), d.close_code.has_value());
    const auto recorded = recorded_frames(at->steps[d.step]);
    const auto due = due_frames(*at, d.step);
    ASSERT_EQ(recorded.size(), 1u) << "a table of single answers";
    EXPECT_FALSE(is(recorded.front(), due.front().frame)) << "that is as recorded";
    EXPECT_NE(std::string_view(d.decision), "");
  }
}

// docs/compat/droplet.md lists the same cases, each with its name.
TEST(DropletDifferences, AreOnThePageAboutThem) {
  std::ifstream file(tests::source_path("docs/compat/droplet.md"));
  std::string line;
  std::set<std::string> shown, listed;
  for (bool there = false; std::getline(file, line);) {
    if (line.starts_with("## ")) there = line == "## Vectors that are answered differently";
    if (!there || !line.starts_with("| `")) continue;
    shown.insert(line.substr(3, line.find('`', 3) - 3));
  }
  for (const DropletDifference& d : droplet_differences()) listed.emplace(d.name);
  EXPECT_EQ(shown, listed);
}

}  // namespace
}  // namespace sluice::tests::droplet_socket_test
