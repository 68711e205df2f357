// The recordings of Envoy's rate limit service (tests/conformance/envoy.json), replayed over gRPC
// and HTTP to sessions, engine, rules and table in memory, with the bytes cut in several ways. A
// step in which sluice differs on purpose has a `decision` in place of the recorded answer.
#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <string>
#include <string_view>

#include "config/command_io.h"
#include "config/config.h"
#include "protocol/envoy/commands.h"
#include "protocol/envoy/environment.h"
#include "protocol/envoy/recorded_test.h"
#include "protocol/envoy/service_world_test.h"
#include "protocol/envoy/window.h"
#include "testing/environment_of.h"
#include "wire/gzip.h"

namespace sluice::envoy::service_vectors_test {
namespace {

using nlohmann::json;
using namespace recorded;
using namespace service_world;

// Cases that this test cannot replay, with what they need.
const std::map<std::string_view, std::string_view> not_reached = {
    {"counter that Redis already has", "a Redis"},
    {"counter that Redis has without an end", "a Redis"},
    {"counter of the last window counts no more", "a Redis"},
    {"text in the place of a counter", "a Redis"},
    {"negative counter", "a Redis"},
    {"Redis without memory", "a Redis"},
    {"local cache: over is remembered", "a Redis"},
    {"local cache: the counter stops", "a Redis"},
    {"local cache: the others are charged", "a Redis"},
    {"local cache: a peek when over is over", "a Redis"},
    {"local cache: shadow", "a Redis"},
    {"local cache and stop: nothing is charged", "a Redis"},
    {"stats: local cache", "a Redis"},
    {"stats: errors", "a Redis"},
    {"start: a bad file leaves it without rules", "a process that does not start"},
    {"start: a bad file is mended", "a process that does not start"},
};

class Player {
 public:
  Player(const json& recorded_case, size_t piece)
      : case_(recorded_case), piece_(piece), grpc_(world_, piece) {
    const json& config = recording()["configs"][case_["config"].get<std::string>()];
    for (const auto& [name, text] : config["files"].items()) files_[name] = recorded_text(text);
    std::map<std::string, std::string> env;
    for (const auto& [name, value] : config["env"].items())
      if (value.is_string()) env[name] = value.get<std::string>();
    // Ports that a test with sockets would fill in; this test sends nothing.
    for (const char* port : {"STATSD_PORT", "PROMETHEUS_ADDR"}) env.erase(port);
    std::ostringstream nowhere;
    const config::CommandIo io{
        .out = nowhere, .err = nowhere, .environment = tests::environment_of(env)};
    config::Config settings;
    settings.listen = {{{self(), {"0.0.0.0", 0}}}, {{self(), {"0.0.0.0", 0}}}};
    base::Diagnostics diagnostics;
    LimitsFiles files({});
    apply_limits_environment(io, files, diagnostics);
    apply_service_environment(io, settings, diagnostics);
    EXPECT_FALSE(base::has_errors(diagnostics));
    reading_ = files.reading;
    world_.options = static_cast<const EnvoySettings&>(settings.settings_of(self())).options;
    EXPECT_TRUE(world_.load(files_, reading_));
  }

  void play() {
    for (const json& step : case_["steps"]) {
      SCOPED_TRACE(step.dump());
      if (step.contains("call"))
        ask(step);
      else if (step.contains("raw"))
        ask_raw(step);
      else if (step.contains("http"))
        ask_by_http(step);
      else if (step.contains("next"))
        world_.sleep_us(seconds_until_window_ends(world_.now_s(), step["next"]) * 1'000'000);
      else if (step.contains("write"))
        write(step["write"]);
      else if (step.contains("remove"))
        remove(step["remove"]);
      else if (step.contains("log") || step.contains("sleep_ms"))
        continue;  // only for a real process: its log, and waiting for it
      else
        ADD_FAILURE() << "a step of another kind";
    }
  }

 private:
  void ask(const json& step) {
    std::string path(GrpcClient::should_rate_limit);
    std::string message;
    if (step.contains("method")) {
      path = step["method"];
      const std::string service = step["call"].value("service", "");
      if (!service.empty()) message = "\x0A" + std::string(1, static_cast<char>(service.size()));
      message += service;
    } else {
      message = message_of(step["call"]);
    }
    GrpcAnswer answer;
    for (int n = step.value("times", 1); n > 0; --n) answer = grpc_.call(message, path);
    if (path == GrpcClient::should_rate_limit || due(step).contains("error"))
      return expect(step, answer);
    EXPECT_EQ(answer.code, 0u);
    EXPECT_EQ(answer.message, due(step)["reply"]["status"] == "SERVING" ? "\x08\x01" : "\x08\x02");
  }

  void ask_raw(const json& step) {
    const json& raw = step["raw"];
    const bool packed = raw.value("gzip", false);
    std::string message =
        raw.contains("b64") ? unbase64(raw["b64"].get<std::string>()) : message_of(raw["request"]);
    if (!packed) return expect(step, grpc_.call(message));
    wire::Gzip gzip;
    std::string text;
    ASSERT_TRUE(gzip.compress(message, text));
    GrpcAnswer answer =
        grpc_.call(text, GrpcClient::should_rate_limit, {{"grpc-encoding", "gzip"}}, true);
    std::string plain;
    ASSERT_EQ(gzip.decompress(answer.message, 1 << 20, plain), wire::Gzip::Result::done);
    answer.message = plain;
    expect(step, answer);
  }

  void expect(const json& step, const GrpcAnswer& answer) {
    if (!due(step).contains("error")) {
      ASSERT_EQ(answer.code, 0u) << answer.text;
      return expect_reply(case_, due(step)["reply"], bytes_as_json(answer.message), World::now_s());
    }
    const json& error = due(step)["error"];
    EXPECT_EQ(answer.code, error["code"].get<uint32_t>());
    if (error.contains("message") && !case_.contains("free_text")) {
      EXPECT_EQ(answer.text, error["message"].get<std::string>());
    }
  }

  void ask_by_http(const json& step) {
    const json& http = step["http"];
    const std::string body =
        http.contains("json") ? http["json"].dump() : http.value("body", std::string());
    const std::string request =
        http.value("method", "POST") + " " + http["path"].get<std::string>() +
        " HTTP/1.1\r\nHost: x\r\nContent-Length: " + std::to_string(body.size()) + "\r\n\r\n" +
        body;
    Connection connection(world_);
    for (size_t at = 0; at < request.size(); at += std::min(piece_, request.size() - at))
      connection.send(std::string_view(request).substr(at, piece_));
    const std::string answer = connection.take();
    const json& reply = due(step)["reply"];
    ASSERT_TRUE(answer.starts_with("HTTP/1.1 ")) << answer;
    EXPECT_EQ(answer.substr(9, 3), std::to_string(reply["status"].get<int>()));
    const std::string text = answer.substr(answer.find("\r\n\r\n") + 4);
    if (reply.contains("content_type")) {
      EXPECT_NE(answer.find("Content-Type: " + reply["content_type"].get<std::string>() + "\r\n"),
                std::string::npos)
          << answer;
    }
    if (reply.contains("json")) expect_reply(case_, reply["json"], json::parse(text), now());
    if (reply.contains("body")) {
      EXPECT_EQ(text, reply["body"].get<std::string>());
    }
  }
  static int64_t now() { return World::now_s(); }

  void write(const json& files) {
    const Files before = files_;
    for (const auto& [name, text] : files.items()) files_[name] = recorded_text(text);
    world_.load(files_, reading_);
  }
  void remove(const json& files) {
    for (const json& name : files) files_.erase(name);
    world_.load(files_, reading_);
  }

  const json& case_;
  const size_t piece_;
  World world_;
  Files files_;
  LimitsReading reading_;
  GrpcClient grpc_;
};

void play_all(size_t piece) {
  size_t cases = 0;
  std::set<std::string_view> left_out;
  for (const json& recorded_case : recording()["cases"]) {
    const std::string name = recorded_case["name"];
    if (const auto known = not_reached.find(name); known != not_reached.end()) {
      left_out.insert(known->first);
      continue;
    }
    SCOPED_TRACE(name);
    ++cases;
    Player(recorded_case, piece).play();
  }
  EXPECT_EQ(left_out.size(), not_reached.size()) << "a name that no case has";
  EXPECT_EQ(cases, 161 - not_reached.size());
}

TEST(EnvoyServiceVectors, AnswersAsRecorded) {
  play_all(SIZE_MAX);
}

TEST(EnvoyServiceVectors, AnySplitAnswersTheSame) {
  for (const size_t piece : {size_t{1}, size_t{7}, size_t{100}}) {
    SCOPED_TRACE(piece);
    play_all(piece);
  }
}

}  // namespace
}  // namespace sluice::envoy::service_vectors_test
