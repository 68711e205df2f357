#include "tests/conformance/vectors.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <fstream>
#include <optional>
#include <stdexcept>

#include "tests/support/paths.h"

namespace sluice::tests {
namespace {

using nlohmann::json;

constexpr std::string_view internal_error = "ERR Internal Error: ";

std::string decode_base64(std::string_view text) {
  constexpr std::string_view digits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string bytes;
  uint32_t bits = 0;
  int count = 0;
  for (const char c : text.substr(0, text.find('='))) {
    bits = bits << 6 | static_cast<uint32_t>(digits.find(c));
    count += 6;
    if (count < 8) continue;
    count -= 8;
    bytes.push_back(static_cast<char>(bits >> count & 0xFF));
  }
  return bytes;
}

Step step_of(const json& recorded) {
  Step step;
  step.redis_command = recorded.value("redis_cmd", std::vector<std::string>());
  if (recorded.contains("send")) step.writes.push_back(recorded["send"]);
  if (recorded.contains("send_b64"))
    step.writes.push_back(decode_base64(recorded["send_b64"].get<std::string>()));
  if (recorded.contains("send_parts")) {
    std::string& bytes = step.writes.emplace_back();
    for (const json& part : recorded["send_parts"])
      for (int i = part[1]; i > 0; --i) bytes += part[0].get<std::string>();
  }
  if (recorded.contains("chunks")) step.writes = recorded["chunks"].get<std::vector<std::string>>();
  step.connection = recorded.value("conn", 0);
  step.sleep_ms = recorded.value("sleep_ms", 0);
  step.half_close = recorded.value("half_close", false);
  for (const json& reply : recorded.value("expect", json::array())) step.replies.push_back(reply);
  for (const json& reply : recorded.value("expect_b64", json::array()))
    step.replies.push_back(decode_base64(reply.get<std::string>()));
  const bool told_off = !step.replies.empty() && step.replies.back().starts_with("ERR ");
  step.closes = recorded.value("closes", told_off);
  return step;
}

std::vector<Step> steps_of(const json& recorded) {
  std::vector<Step> steps;
  for (const json& step : recorded) steps.push_back(step_of(step));
  return steps;
}

Case case_of(const json& recorded) {
  Case c;
  c.name = recorded["name"];
  c.config = recorded["config"];
  c.steps = steps_of(recorded["steps"]);
  c.needs_redis = recorded.contains("redis_setup") ||
                  std::any_of(recorded["steps"].begin(), recorded["steps"].end(),
                              [](const json& step) { return step.contains("redis_cmd"); });
  c.redis_known = true;
  const json setup = recorded.value("redis_setup", json::object());
  for (const auto& [key, state] : setup.items()) {
    if (state.value("type", "") == "hash")
      c.redis_setup.push_back({"HSET", key, "field", "value"});
    else if (state.contains("ttl"))
      c.redis_setup.push_back(
          {"SET", key, state["value"], "EX", std::to_string(state["ttl"].get<int64_t>())});
    else
      c.redis_setup.push_back({"SET", key, state["value"]});
  }
  for (const auto& [key, state] : recorded["redis_after"].items()) {
    auto& after = c.redis_after[key];
    if (!state["value"].is_null()) after.first = state["value"].get<std::string>();
    after.second = state["ttl"];
  }
  if (!c.needs_redis) {
    for (const auto& [key, state] : recorded["redis_after"].items()) {
      c.counters[key] = {std::stoll(state["value"].get<std::string>()), state["ttl"]};
    }
    c.counters_known = true;
  }
  for (const Difference& d : differences()) {
    if (c.name != d.name) continue;
    c.steps.at(d.step).replies = d.replies;
    c.steps.at(d.step).closes = d.closes;
  }
  return c;
}

Case metrics_case() {
  const json& recorded = recording()["metrics"];
  Case c;
  c.name = "metrics-recording";
  c.config = recorded["config"];
  c.steps = steps_of(recorded["steps"]);
  c.steps.back().connection = 1;  // "first seven requests on one connection, the eighth on another"
  return c;
}

struct Ok {
  std::string_view head;  // the text before the seconds
  int64_t seconds;
};

std::optional<Ok> parse_ok(std::string_view reply) {
  const size_t cut = reply.rfind(' ');
  if (!reply.starts_with("OK ") || cut == std::string_view::npos) return std::nullopt;
  Ok ok{reply.substr(0, cut), 0};
  const char* const end = reply.data() + reply.size();
  const auto read = std::from_chars(reply.data() + cut + 1, end, ok.seconds);
  if (read.ec != std::errc() || read.ptr != end) return std::nullopt;
  return ok;
}

}  // namespace

void PrintTo(const Case& c, std::ostream* out) {
  *out << c.name;
}

const json& recording() {
  static const json all = [] {
    std::ifstream file(tests::source_path("tests/conformance/divvy.json"));
    return json::parse(file);
  }();
  return all;
}

const std::vector<Case>& cases() {
  static const std::vector<Case> all = [] {
    std::vector<Case> made;
    for (const json& recorded : recording()["cases"]) made.push_back(case_of(recorded));
    made.push_back(metrics_case());
    return made;
  }();
  return all;
}

std::vector<Step> recorded_steps(const std::string& name) {
  for (const json& recorded : recording()["cases"])
    if (recorded["name"] == name) return steps_of(recorded["steps"]);
  throw std::runtime_error("there is no case " + name);
}

std::string policy_of(const std::string& config) {
  const json& metrics = recording()["metrics"];
  if (config == metrics["config"]) return metrics["config_text"];
  const std::string text = recording()["config files"][config];
  if (config != refused_file) return text;
  auto policy = nlohmann::ordered_json::parse(text);
  nlohmann::ordered_json kept = nlohmann::ordered_json::array();
  for (const auto& rule : policy["overrides"]) {
    std::string pairs;
    for (const auto& [key, value] : rule["operation"].items()) {
      pairs += (pairs.empty() ? "" : " ") + key + "=";
      pairs += value.is_string() ? value.get<std::string>() : value.dump();
    }
    const bool refused = std::any_of(refusals().begin(), refusals().end(),
                                     [&](const Refusal& r) { return "[" + pairs + "]" == r.rule; });
    if (!refused) kept.push_back(rule);
  }
  policy["overrides"] = kept;
  return policy.dump();
}

bool same_reply(std::string_view expected, std::string_view got) {
  if (expected.starts_with(internal_error))
    return got.starts_with(internal_error) && got.size() > internal_error.size();
  const auto theirs = parse_ok(expected), ours = parse_ok(got);
  if (!theirs || !ours) return expected == got;
  if (theirs->head != ours->head) return false;
  // A negative number means never, and must be equal.
  if (theirs->seconds < 0 || ours->seconds < 0) return theirs->seconds == ours->seconds;
  return std::abs(theirs->seconds - ours->seconds) <= 1;
}

bool same_key(std::string_view recorded, std::string_view key) {
  const size_t cut = recorded.find("...(");
  if (key.size() <= 300 || cut == std::string_view::npos) return recorded == key;
  return key.starts_with(recorded.substr(0, cut)) &&
         recorded.substr(cut).starts_with("...(" + std::to_string(key.size()) + " bytes, ");
}

}  // namespace sluice::tests
