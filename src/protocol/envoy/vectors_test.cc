// The recordings of Envoy's rate limit service (tests/conformance/envoy.json), answered by the
// naive service of service_model_test.h with the code under test: it reads requests, makes
// responses from counts, and writes them. A step in which sluice differs on purpose has a
// `decision` in place of the recorded answer.
#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "protocol/envoy/json.h"
#include "protocol/envoy/messages.h"
#include "protocol/envoy/recorded_test.h"
#include "protocol/envoy/service_model_test.h"

namespace sluice::envoy::vectors_test {
namespace {

using nlohmann::json;
using namespace recorded;

// Cases that this test cannot replay, with what they need.
const std::map<std::string_view, std::string_view> not_reached = {
    {"text in the place of a counter", "an error of Redis"},
    {"Redis without memory", "an error of Redis"},
    {"http: healthcheck", "HTTP beside /json"},
    {"http: other paths", "HTTP beside /json"},
    {"grpc: health", "knows which services there are"},
    {"grpc: compressed request", "gzip"},
    {"reload: a bad file changes nothing", "refusing of files"},
    {"start: a bad file leaves it without rules", "refusing of files"},
    {"start: a bad file is mended", "refusing of files"},
    {"stats: errors", "an error of Redis"},
};

class Player {
 public:
  explicit Player(const json& recorded) : case_(recorded) {
    const json& config = recording()["configs"][case_["config"].get<std::string>()];
    for (const auto& [name, text] : config["files"].items())
      service_.files[name] = recorded_text(text);
    service_.load();
    const json& env = config["env"];
    const auto is_set = [&](const char* name) { return env.value(name, "false") == "true"; };
    naive::Options& options = service_.options;
    options.response.shadow = is_set("SHADOW_MODE");
    options.response.quota = is_set("QUOTA_MODE");
    options.response.dynamic_metadata = is_set("RESPONSE_DYNAMIC_METADATA");
    if (is_set("LIMIT_RESPONSE_HEADERS_ENABLED")) options.response.headers = HeaderStyle::legacy;
    const auto header = [&](const char* name, std::string& into) { into = env.value(name, into); };
    header("LIMIT_LIMIT_HEADER", options.response.limit_header);
    header("LIMIT_REMAINING_HEADER", options.response.remaining_header);
    header("LIMIT_RESET_HEADER", options.response.reset_header);
    options.stop_when_over = is_set("STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT");
    options.local_cache = env.contains("LOCAL_CACHE_SIZE_IN_BYTES");
    options.near_ratio =
        static_cast<float>(std::strtod(env.value("NEAR_LIMIT_RATIO", "0.8").c_str(), nullptr));
  }

  // Replays the case; returns how many answers were compared.
  size_t play() {
    for (const json& step : case_["steps"]) {
      SCOPED_TRACE(step.dump());
      if (step.contains("call"))
        ask(step, message_of(step["call"]));
      else if (step.contains("raw"))
        ask(step, unbase64(step["raw"]["b64"].get<std::string>()));
      else if (step.contains("http"))
        ask_by_http(step);
      else if (step.contains("next"))
        service_.now += seconds_until_window_ends(service_.now, step["next"]);
      else if (step.contains("redis"))
        run_redis(step["redis"]);
      else if (step.contains("write"))
        write(step["write"]);
      else if (step.contains("remove"))
        remove(step["remove"]);
      else
        ADD_FAILURE() << "a step of another kind";
    }
    if (case_.contains("stats")) expect_stats(case_["stats"]);
    return answers_;
  }

 private:
  void ask(const json& step, const std::string& bytes) {
    ReadProblem unreadable = ReadProblem::none;
    std::optional<RequestError> problem;
    for (int n = step.value("times", 1); n > 0; --n) {
      unreadable = read_request(bytes, request_);
      if (unreadable == ReadProblem::none) problem = service_.ask(request_, response_);
    }
    if (unreadable != ReadProblem::none)
      problem = RequestError{grpc_code(unreadable), std::string(message_for(unreadable))};
    ++answers_;
    if (!due(step).contains("error")) {
      ASSERT_FALSE(problem) << problem->message;
      expect_reply(due(step)["reply"], as_json(response_));
      expect_reply(due(step)["reply"], by_bytes(response_));
      return;
    }
    const json& error = due(step)["error"];
    ASSERT_TRUE(problem);
    EXPECT_EQ(problem->grpc_code, error["code"].get<uint32_t>());
    if (error.contains("message")) {
      EXPECT_EQ(problem->message, error["message"].get<std::string>());
    }
  }

  void ask_by_http(const json& step) {
    const json& http = step["http"];
    const std::string body =
        http.contains("json") ? http["json"].dump() : http["body"].get<std::string>();
    const json& reply = due(step)["reply"];
    JsonRequest request;
    ++answers_;
    int status = 400;
    if (!read_json_request(body, request) && !service_.ask(request.request, response_))
      status = response_.overall_code == Code::over_limit ? 429 : 200;
    ASSERT_EQ(status, reply["status"].get<int>());
    if (reply.contains("json")) expect_reply(reply["json"], as_json(response_));
  }

  void expect_reply(const json& expected, const json& answer) {
    recorded::expect_reply(case_, expected, answer, service_.now);
  }

  void run_redis(const json& command) {
    const std::string name = command[0];
    if (name == "FLUSHALL") {
      service_.counters.clear();
      return;
    }
    ASSERT_EQ(name, "SET") << command;
    // {W60} stands for the start of the current window of 60 s, {W60-1} for that of the window
    // before.
    std::string key = command[1];
    const size_t begin = key.find("{W"), end = key.find('}');
    std::string window = key.substr(begin + 2, end - begin - 2);
    const bool is_last = window.ends_with("-1");
    if (is_last) window.resize(window.size() - 2);
    const int64_t seconds = std::stoll(window);
    const int64_t start = service_.now - service_.now % seconds - (is_last ? seconds : 0);
    key.replace(begin, end + 1 - begin, std::to_string(start));
    service_.counters[key] = std::stoll(command[2].get<std::string>());
  }
  void write(const json& files) {
    for (const auto& [name, text] : files.items()) service_.files[name] = recorded_text(text);
    service_.load();
  }
  void remove(const json& files) {
    for (const json& name : files) service_.files.erase(name);
    service_.load();
  }

  // The names of limits are not compared here: the recorded counts of all limits are added up.
  void expect_stats(const json& stats) {
    std::map<std::string, uint64_t> recorded;
    for (const auto& [name, count] : stats.items()) {
      if (!name.starts_with("ratelimit.service.rate_limit.")) continue;
      const std::string bare = name.substr(0, name.find(".__"));
      recorded[bare.substr(bare.rfind('.') + 1)] += count.get<uint64_t>();
    }
    const HitCounts& counts = service_.counts;
    std::map<std::string, uint64_t> counted = {
        {"total_hits", counts.total_hits},
        {"over_limit", counts.over_limit},
        {"near_limit", counts.near_limit},
        {"within_limit", counts.within_limit},
        {"over_limit_with_local_cache", counts.over_limit_with_local_cache},
        {"shadow_mode", counts.shadow_mode},
        {"total_negative_hits", counts.total_negative_hits},
        {"domain_not_found", service_.unknown_domains}};
    std::erase_if(counted, [](const auto& count) { return count.second == 0; });
    EXPECT_EQ(counted, recorded);
  }

  const json& case_;
  naive::Service service_;
  RateLimitRequest request_;
  RateLimitResponse response_;
  size_t answers_ = 0;
};

TEST(EnvoyVectors, AnswersAsRecorded) {
  size_t cases = 0, answers = 0;
  std::set<std::string_view> left_out;
  for (const json& recorded : recording()["cases"]) {
    const std::string name = recorded["name"];
    if (const auto known = not_reached.find(name); known != not_reached.end()) {
      left_out.insert(known->first);
      continue;
    }
    SCOPED_TRACE(name);
    ++cases;
    answers += Player(recorded).play();
  }
  EXPECT_EQ(left_out.size(), not_reached.size()) << "a name that no case has";
  EXPECT_EQ(cases, 151u);
  EXPECT_GT(answers, 250u);
}

}  // namespace
}  // namespace sluice::envoy::vectors_test
