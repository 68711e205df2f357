// Replays the recordings of Envoy's rate limit service (envoy.json) against the real `sluice envoy`
// over its ports, with a real Redis, and compares the answers and the counters that are left in
// Redis. A step's `decision` is sluice's answer in place of the recorded one. envoy_metrics_test.cc
// plays the cases' metrics.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "protocol/envoy/recorded_test.h"
#include "tests/support/divvy_server.h"
#include "tests/support/http_client.h"
#include "tests/support/patience.h"
#include "tests/support/process.h"
#include "tests/support/redis_server.h"
#include "tests/support/tcp_client.h"
#include "wire/grpc_client.h"
#include "wire/gzip.h"
#include "wire/http2_peer_test.h"

namespace sluice::tests::envoy_socket_test {
namespace {

using namespace envoy::recorded;

// A case begins only if each of its windows lasts that much longer, so that none ends during it.
constexpr int64_t safe_s = 4;

int64_t now_s() {
  return std::chrono::duration_cast<std::chrono::seconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

// Replaces {W60} by the start of the present window of 60 s, and {W60-1} by that of the one before.
std::string with_windows(std::string text, int64_t now) {
  for (size_t at = text.find("{W"); at != std::string::npos; at = text.find("{W")) {
    const size_t end = text.find('}', at);
    std::string window = text.substr(at + 2, end - at - 2);
    const bool is_last = window.ends_with("-1");
    if (is_last) window.resize(window.size() - 2);
    const int64_t length = std::stoll(window);
    text.replace(at, end + 1 - at, std::to_string(now - now % length - (is_last ? length : 0)));
  }
  return text;
}

// Whether two of the case's counters have one name at `now`: a name holds the window's start but
// not its unit, so for the first minute of an hour a limit per minute and one per hour share a
// counter.
bool is_shared(const json& counters, int64_t now) {
  std::set<std::string> names;
  for (const auto& [name, counter] : counters.items()) names.insert(with_windows(name, now));
  return names.size() < counters.size();
}

// Waits until the case can be played: its windows last long enough, and each of its counters has
// its own name. That is a minute at most for limits per minute and per hour. A limit per hour and
// one per day on one descriptor would share a name for an hour, so no case may have both. Returns
// whether the time came.
bool await_safe_time(const json& windows, const json& counters) {
  const auto is_safe = [&](int64_t now) {
    return !is_shared(counters, now) &&
           std::all_of(windows.begin(), windows.end(), [now](const json& window) {
             const int64_t length = window;
             return length <= safe_s || length - now % length >= safe_s;
           });
  };
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(120);
  while (!is_safe(now_s())) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::sleep_for(Milliseconds(50));
  }
  return true;
}

class Server {
 public:
  Server(const json& config, uint16_t redis) {
    for (const auto& [name, text] : config["files"].items())
      folder_.write("current/config/" + name, recorded_text(text));
    std::filesystem::create_directories(folder_.path() + "/current/config");
    std::map<std::string, std::string> environment = {
        {"RUNTIME_ROOT", folder_.path() + "/current"},
        {"HOST", "127.0.0.1"},
        {"PORT", "0"},
        {"GRPC_HOST", "127.0.0.1"},
        {"GRPC_PORT", "0"},
        {"REDIS_SOCKET_TYPE", "tcp"},
        {"REDIS_URL", "127.0.0.1:" + std::to_string(redis)},
        {"EXPIRATION_JITTER_MAX_SECONDS", "0"},
        {"LOG_LEVEL", "info"}};
    for (const auto& [name, value] : config["env"].items()) {
      if (name.starts_with("USE_") || name.starts_with("STATS") || name == "DISABLE_STATS" ||
          name.starts_with("PROMETHEUS"))
        continue;
      environment.erase(name);
      if (value.is_string()) environment[name] = value;
    }
    process_ = std::make_unique<Process>(
        Process::Options{.arguments = {"envoy"}, .environment = environment});
    grpc_ = await_listening(*process_, "envoy");
    http_ = await_listening(*process_, "envoy");
  }

  uint16_t http_port() const { return http_; }
  Process& process() { return *process_; }
  void write(const std::string& name, const std::string& text) {
    folder_.write("next", text);
    std::filesystem::rename(folder_.path() + "/next", path_of(name));
  }
  void remove(const std::string& name) { std::filesystem::remove(path_of(name)); }

  wire::GrpcAnswer call(const std::string& path, const std::string& message) {
    wire::GrpcClientCall call("test", path, message, std::chrono::seconds(20));
    auto connection = TcpClient::connect(grpc_);
    base::Buffer out;
    while (!call.is_over()) {
      out.clear();
      call.write(out);
      if (!out.empty()) connection->send(std::string(out.view()));
      if (call.is_over()) break;
      const auto first = connection->read_bytes(1);
      if (!first) throw std::runtime_error("the server closed the connection");
      call.receive(*first);
      if (const size_t more = connection->rest().size(); more > 0)
        call.receive(*connection->read_bytes(more));
    }
    if (!call.problem().empty()) throw std::runtime_error(call.problem());
    return call.answer();
  }

 private:
  std::string path_of(const std::string& name) const {
    return folder_.path() + "/current/config/" + name;
  }

  Folder folder_;
  std::unique_ptr<Process> process_;
  uint16_t grpc_ = 0, http_ = 0;
};

class Player {
 public:
  Player(const json& recorded_case, Server& server, RedisClient& redis)
      : case_(recorded_case), server_(server), redis_(redis) {}

  // Returns a text for each difference from the recording.
  std::vector<std::string> play() {
    const json windows = case_.value("clock", json::array());
    const json counters = left();
    if (!await_safe_time(windows, counters))
      return {
          "no time came within 2 minutes at which the case's windows last and its counters have "
          "names of their own"};
    for (const json& window : windows) begun_[window] = now_s() / window.get<int64_t>();
    for (const json& step : case_["steps"]) {
      const std::string wrong = step.contains("within_ms") ? repeat(step) : take(step);
      if (!wrong.empty()) wrong_.push_back(step.dump() + ": " + wrong);
      if (step.contains("next")) {
        const int64_t length = step["next"];
        begun_[length] = now_s() / length;
      }
    }
    if (!counters.is_null()) compare_counters(counters);
    return wrong_;
  }

  // Whether a window ended between two steps, as it may on a busy machine: then the case must be
  // played again (`format` in the recording).
  bool was_caught() const {
    return std::any_of(begun_.begin(), begun_.end(),
                       [](const auto& window) { return now_s() / window.first != window.second; });
  }

 private:
  // The counters that the case leaves in Redis. Null if it does not say.
  json left() const {
    return case_.contains("decision_redis") ? case_["decision_redis"]
                                            : case_.value("redis", json());
  }

  // Returns what differs, or "".
  std::string take(const json& step) {
    if (step.contains("call")) return ask(step);
    if (step.contains("raw")) return ask_raw(step);
    if (step.contains("http")) return ask_by_http(step);
    if (step.contains("redis")) return say(step["redis"]);
    if (step.contains("next")) {
      const int64_t length = step["next"], begun = now_s() / length;
      while (now_s() / length == begun) std::this_thread::sleep_for(Milliseconds(5));
    } else if (step.contains("write")) {
      for (const auto& [name, text] : step["write"].items())
        server_.write(name, recorded_text(text));
    } else if (step.contains("remove")) {
      for (const json& name : step["remove"]) server_.remove(name);
    } else if (step.contains("log")) {
      if (!server_.process().says(step["log"])) return "the log does not say it";
    } else if (step.contains("sleep_ms")) {
      std::this_thread::sleep_for(Milliseconds(step["sleep_ms"].get<int>()));
    } else {
      return "a step of another kind";
    }
    return {};
  }

  std::string repeat(const json& step) {
    std::string wrong;
    for (const Deadline deadline = soon(); std::chrono::steady_clock::now() < deadline;) {
      wrong = take(step);
      if (wrong.empty()) break;
      std::this_thread::sleep_for(Milliseconds(20));
    }
    return wrong;
  }

  std::string ask(const json& step) {
    std::string path = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit", message;
    const bool is_health = step.contains("method");
    if (is_health) {
      path = step["method"];
      const std::string service = step["call"].value("service", "");
      if (!service.empty())
        message = "\x0A" + std::string(1, static_cast<char>(service.size())) + service;
    } else {
      message = message_of(step["call"]);
    }
    wire::GrpcAnswer answer;
    for (int n = step.value("times", 1); n > 0; --n) answer = server_.call(path, message);
    if (!is_health || due(step).contains("error")) return compare(step, answer);
    const bool serving = due(step)["reply"]["status"] == "SERVING";
    return answer.status == 0 && answer.message == (serving ? "\x08\x01" : "\x08\x02")
               ? ""
               : "another health";
  }

  // Only the in-memory test sends compressed requests.
  std::string ask_raw(const json& step) {
    const json& raw = step["raw"];
    return compare(step,
                   server_.call("/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit",
                                raw.contains("b64") ? unbase64(raw["b64"].get<std::string>())
                                                    : message_of(raw["request"])));
  }

  std::string compare(const json& step, const wire::GrpcAnswer& answer) {
    if (due(step).contains("error")) {
      const json& error = due(step)["error"];
      if (answer.status != error["code"].get<uint32_t>())
        return "status " + std::to_string(answer.status) + " " + answer.text;
      const bool is_free = case_.contains("free_text") || case_.contains("redis_text");
      if (!is_free && error.contains("message") && answer.text != error["message"])
        return answer.text;
      return {};
    }
    if (answer.status != 0) return "status " + std::to_string(answer.status) + " " + answer.text;
    return difference(due(step)["reply"], bytes_as_json(answer.message));
  }

  // "@60" is the time left of the window of 60 s, give or take a second.
  std::string difference(const json& recorded, json answer) {
    for (int64_t now : {now_s(), now_s() - 1, now_s() + 1}) {
      json expected = recorded;
      fill_in_times(expected, now);
      if (case_.contains("text_of_limit"))
        for (json* reply : {&expected, &answer})
          for (json& descriptor : (*reply)["dynamicMetadata"]["descriptors"])
            if (descriptor.contains("limit")) descriptor["limit"] = "some text";
      if (expected == answer) return {};
    }
    return answer.dump();
  }

  std::string ask_by_http(const json& step) {
    const json& request = step["http"];
    const std::string body =
        request.contains("json") ? request["json"].dump() : request.value("body", std::string());
    const HttpAnswer answer =
        http(server_.http_port(), request.value("method", "POST"), request["path"], body);
    const json& reply = due(step)["reply"];
    if (answer.status != reply["status"].get<int>())
      return std::to_string(answer.status) + " " + answer.body;
    if (reply.contains("content_type") &&
        answer.headers.at("content-type") != reply["content_type"])
      return answer.headers.at("content-type");
    if (reply.contains("json")) return difference(reply["json"], json::parse(answer.body));
    return reply.contains("body") && answer.body != reply["body"] ? answer.body : "";
  }

  std::string say(const json& command) {
    std::vector<std::string> words;
    for (const json& word : command)
      words.push_back(
          with_windows(word.is_string() ? word.get<std::string>() : word.dump(), now_s()));
    if (words.size() > 1) put_.push_back(words[1]);
    const RedisReply reply = redis_(words);
    return reply.is_error() ? reply.text : "";
  }

  void compare_counters(const json& recorded) {
    const int64_t now = now_s();
    std::map<std::string, std::string> found, wanted;
    for (const RedisReply& key : redis_({"KEYS", "*"}).list) {
      const RedisReply value = redis_({"GET", key.text});
      found[key.text] = value.is_error() ? "?" : value.text;
    }
    for (const auto& [name, counter] : recorded.items()) {
      const std::string key = with_windows(name, now), value = counter["value"];
      // In sluice a request for 0 hits leaves no counter.
      if (value == "0" && !found.contains(key)) continue;
      wanted[key] = value;
      const bool was_put = std::find(put_.begin(), put_.end(), key) != put_.end();
      if (was_put || !counter.contains("ttl") || !found.contains(key)) continue;
      const int64_t life = redis_({"TTL", key}).number;
      if (life < counter["ttl"][0].get<int64_t>() - safe_s ||
          life > counter["ttl"][1].get<int64_t>())
        wrong_.push_back(key + " lives for " + std::to_string(life) + " s");
    }
    if (found != wanted)
      wrong_.push_back("counters: " + json(found).dump() + ", expected: " + json(wanted).dump());
  }

  const json& case_;
  Server& server_;
  RedisClient& redis_;
  std::vector<std::string> put_;      // keys that the case has set
  std::map<int64_t, int64_t> begun_;  // window's length -> number of the present window
  std::vector<std::string> wrong_;
};

// In these cases the original starts without limits, and sluice does not start (tests/e2e).
bool is_left_out(const json& recorded_case) {
  return recorded_case.value("decision", json()) == "refuses to start";
}

void play(const std::string& config_name) {
  const json& config = envoy::recorded::recording()["configs"][config_name];
  RedisServer redis;
  RedisClient client = redis.client();
  std::unique_ptr<Server> server;
  size_t played = 0;
  for (const json& recorded_case : envoy::recorded::recording()["cases"]) {
    if (recorded_case["config"] != config_name || is_left_out(recorded_case)) continue;
    SCOPED_TRACE(recorded_case["name"]);
    if (recorded_case.value("fresh", false)) server.reset();
    std::vector<std::string> wrong;
    bool was_caught = true;
    for (int tries = 20; was_caught && tries > 0; --tries) {
      client({"FLUSHALL"});
      if (server == nullptr) server = std::make_unique<Server>(config, redis.port());
      Player player(recorded_case, *server, client);
      wrong = player.play();
      was_caught = player.was_caught() && !wrong.empty();
      if (was_caught) server.reset();
    }
    EXPECT_EQ(wrong, std::vector<std::string>());
    ++played;
  }
  EXPECT_GT(played, 0u);
}

std::vector<std::string> configs() {
  std::vector<std::string> names;
  for (const auto& [name, config] : envoy::recorded::recording()["configs"].items())
    if (name != "badstart") names.push_back(name);
  return names;
}

class EnvoyOverSocket : public testing::TestWithParam<std::string> {};

TEST_P(EnvoyOverSocket, AnswersAsRecorded) {
  play(GetParam());
}

INSTANTIATE_TEST_SUITE_P(Recorded, EnvoyOverSocket, testing::ValuesIn(configs()),
                         [](const auto& test) { return test.param; });

}  // namespace
}  // namespace sluice::tests::envoy_socket_test
