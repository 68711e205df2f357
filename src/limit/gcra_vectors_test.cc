// The recorded answers of redis-cell and throttlecrab (tests/conformance/resp.json), replayed on
// the pure functions: each command as its numbers, with the time that passed. The tests of
// protocol/resp replay the bytes, connections and keys.
#include <gtest/gtest.h>

#include <charconv>
#include <cstdint>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "limit/gcra.h"
#include "limit/gcra_model.h"
#include "tests/support/paths.h"

namespace sluice::limit::gcra_vectors_test {
namespace {

using gcra_model::Call;
using gcra_model::Counter;
using gcra_model::Five;
using nlohmann::json;

// The call of a command whose words after the key are numbers.
std::optional<Call> call_of(const json& words) {
  if (!words.is_array() || words.empty() || !words[0].is_string()) return {};
  std::string name = words[0];
  for (char& c : name) c = c >= 'a' && c <= 'z' ? static_cast<char>(c - 32) : c;
  if (name != "CL.THROTTLE" && name != "THROTTLE") return {};
  if (words.size() < 5 || words.size() > 6) return {};
  Call call{name == "THROTTLE" ? Algorithm::gcra_crab : Algorithm::gcra_cell};
  int64_t* const numbers[] = {&call.max_burst, &call.count, &call.period, &call.quantity};
  for (size_t i = 2; i < words.size(); ++i) {
    std::string text = words[i];
    if (text.starts_with('+')) text.erase(0, 1);
    const auto [end, error] =
        std::from_chars(text.data(), text.data() + text.size(), *numbers[i - 2]);
    if (error != std::errc() || end != text.data() + text.size()) return {};
  }
  return call;
}

bool fits(const json& expected, int64_t found) {
  if (expected.is_number()) return expected == found;
  const json& near = expected.at("near");
  const int64_t n = near[0], tolerance = near[1];
  return found >= n - tolerance && found <= n + tolerance;
}

bool fits(const json& expected, const std::optional<Five>& found) {
  if (expected.is_object()) return expected.contains("error") && !found.has_value();
  if (!expected.is_array() || expected.size() != 5 || !found) return false;
  for (size_t i = 0; i < 5; ++i)
    if (!fits(expected[i], (*found)[i])) return false;
  return true;
}

struct Replay {
  std::map<std::string, Counter> counters;
  int64_t now_us = int64_t{1'795'000'000} * 1'000'000;
  size_t steps = 0;

  void step(const json& words, const json& reply, const std::string& where) {
    now_us += 1000;  // about what a command takes
    const std::optional<Call> call = call_of(words);
    if (!call) return;
    ++steps;
    const auto found = counters[words[1].dump()].ask(*call, now_us);
    json shown = found ? json(*found) : json("error");
    EXPECT_TRUE(fits(reply, found)) << where << ": " << words << " " << shown << ", not " << reply;
  }

  void step(const json& step, const std::string& where) {
    if (step.contains("sleep_ms")) {
      now_us += step.at("sleep_ms").get<int64_t>() * 1000;
      return;
    }
    const json& decided = step.contains("decision") ? step.at("decision") : step;
    if (step.contains("pipeline")) {
      for (size_t i = 0; i < step.at("pipeline").size(); ++i)
        this->step(step.at("pipeline")[i], decided.at("replies")[i], where);
      return;
    }
    if (!step.contains("cmd") || !decided.contains("reply")) return;
    for (int times = step.value("times", 1); times > 0; --times)
      this->step(step.at("cmd"), decided.at("reply"), where);
  }
};

TEST(Gcra, AsTheOriginalsWereRecorded) {
  std::ifstream file(tests::source_path("tests/conformance/resp.json"));
  ASSERT_TRUE(file.is_open());
  const json vectors = json::parse(file);
  std::map<std::string, size_t> cases, steps;
  for (const json& recorded : vectors.at("cases")) {
    const std::string dialect = recorded.at("dialect");
    if (dialect != "cell" && dialect != "crab") continue;
    // Cases that look at keys start with values that they put into Redis.
    if (recorded.contains("redis") || recorded.contains("any_answer")) continue;
    Replay replay;
    for (const json& step : recorded.at("steps")) replay.step(step, recorded.at("name"));
    cases[dialect] += replay.steps > 0;
    steps[dialect] += replay.steps;
  }
  EXPECT_GE(cases["cell"], 30u);
  EXPECT_GE(cases["crab"], 17u);
  EXPECT_GE(steps["cell"], 65u);
  EXPECT_GE(steps["crab"], 50u);
}

}  // namespace
}  // namespace sluice::limit::gcra_vectors_test
