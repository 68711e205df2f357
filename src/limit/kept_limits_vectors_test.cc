// Droplet's recorded sessions, replayed on the pure functions: decoded takes and queries, with the
// time that passed. Each case that differs here is listed with its reason, and must differ. The
// tests of protocol/droplet replay the bytes.
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "limit/kept_limits.h"
#include "tests/support/paths.h"

namespace sluice::limit::kept_limits_vectors_test {
namespace {

using nlohmann::json;

constexpr int64_t second = 1'000'000, day = 86'400 * second;
const std::vector<std::pair<std::string, Duration>> periods = {
    {"ls", {second}}, {"lm", {60 * second}}, {"lh", {3'600 * second}},
    {"ld", {day}},    {"lw", {7 * day}},     {"lo", {30 * day}}};

const std::map<std::string, std::string> differs = {
    {"credit-over-limit-burst", "a balance never exceeds its limit"},
    {"negative-count-above-limit", "a balance never exceeds its limit"},
    {"lower-limit-hidden-surplus", "a balance never exceeds its limit"},
    {"count-int32-min", "a balance never exceeds its limit"},
    {"limit-change-is-retroactive", "what came back came at the limit of then"},
    {"prototype-name", "an ordinary name"},
};

class Server {
 public:
  explicit Server(bool cleans) : cleans_(cleans) {
    for (const auto& [name, window] : periods) windows_.push_back(window);
  }

  void sleep(int64_t ms) {
    now_.us += 1'000 * ms;
    if (ms == 0 || !cleans_) return;
    std::erase_if(buckets_, [&](const auto& b) { return b.second[0].fresh_at_us <= now_.us; });
  }

  // The response as droplet's clients decode it, with int32 balances.
  json answer(const json& request) {
    const std::string name = request.at("bucket");
    std::array<Decision, slots_max> decisions;
    kept_limits::Result result;
    if (request.value("type", 0) != 0) {
      const auto at = buckets_.find(name);
      const std::vector<State> none;
      result = kept_limits::peek(windows_, at == buckets_.end() ? none : at->second, now_,
                                 decisions.data());
    } else {
      if (request.value("reset", false)) buckets_.erase(name);
      std::vector<Limit> asked;
      for (const auto& [key, window] : periods) {
        const int64_t limit = request.value(key, int64_t{0});
        if (limit > 0) asked.push_back({Algorithm::token_bucket, limit, window, limit});
      }
      std::vector<State> out(1 + 2 * windows_.size());
      result =
          kept_limits::take(windows_, buckets_[name], asked, request.value("count", int64_t{1}),
                            now_, out.data(), decisions.data(), false);
      out.resize(result.cells);
      buckets_[name] = out;
    }
    json response = {{"accept", result.allowed}};
    size_t n = 0;
    for (size_t i = 0; i < periods.size(); ++i)
      if ((result.mask >> i & 1) != 0)
        response[periods[i].first] = static_cast<int32_t>(decisions[n++].remaining);
    return response;
  }

 private:
  std::vector<Duration> windows_;
  std::map<std::string, std::vector<State>> buckets_;
  Time now_{1'795'000'000 * second};
  bool cleans_;
};

bool as_recorded(const json& step, const json& response) {
  json expected = step.at("response");
  if (!step.contains("range") || step.at("range").is_null()) return response == expected;
  for (const auto& [key, range] : step.at("range").items()) {
    if (!response.contains(key) || response[key] < range[0] || response[key] > range[1])
      return false;
    expected[key] = response[key];
  }
  return response == expected;
}

TEST(KeptLimits, AsDropletWasRecorded) {
  std::ifstream file(tests::source_path("tests/conformance/droplet.json"));
  const json vectors = json::parse(file);
  size_t replayed = 0, steps = 0;
  for (const json& recorded : vectors.at("cases")) {
    const std::string name = recorded.at("name");
    const auto is_ours = [](const json& step) {
      return step.at("request").is_object() && step.at("request").contains("bucket") &&
             step.at("request").contains("id") && step.contains("response") &&
             step.at("response").is_object();
    };
    const json& all = recorded.at("steps");
    if (!std::all_of(all.begin(), all.end(), is_ours)) continue;
    Server server(recorded.contains("server") && !recorded.at("server").is_null());
    std::string difference;
    for (const json& step : all) {
      server.sleep(step.at("sleep_ms"));
      const json response = server.answer(step.at("request"));
      ++steps;
      if (!as_recorded(step, response) && difference.empty())
        difference = step.at("request").dump() + ": " + response.dump() + ", recorded " +
                     step.at("response").dump();
    }
    ++replayed;
    if (differs.contains(name)) {
      EXPECT_NE(difference, "") << name << " is as recorded";
    } else {
      EXPECT_EQ(difference, "") << name;
    }
  }
  EXPECT_GE(replayed, 40u);
  EXPECT_GT(steps, 100u);
}

}  // namespace
}  // namespace sluice::limit::kept_limits_vectors_test
