// The recordings of Divvy 1.7.1 (divvy.json) as cases to replay, and where sluice differs from
// them, with the reasons. vectors_test.cc checks that each difference is one. The file is read
// once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <ostream>
#include <string>
#include <string_view>
#include <vector>

namespace sluice::tests {

struct Step {
  std::vector<std::string> writes;  // bytes, in pieces about 60 ms apart
  int connection = 0;
  int sleep_ms = 0;  // before the step
  bool half_close = false;
  std::vector<std::string> replies;
  bool closes = false;  // the server closes the connection after the replies
  std::vector<std::string>
      redis_command{};  // if not empty, it is sent to Redis, and nothing to the server
};

// A counter after a case.
struct Counter {
  int64_t value = 0;
  int64_t ttl_s = 0;
};
using Counters = std::map<std::string, Counter>;

struct Case {
  std::string name, config;
  std::vector<Step> steps;  // with the replies expected of sluice
  Counters counters;        // as recorded
  bool counters_known = false;
  bool needs_redis = false;  // the case presets keys in Redis or sends it commands
  std::vector<std::vector<std::string>>
      redis_setup{};         // commands that make the keys before the case
  bool redis_known = false;  // `redis_after` was recorded
  // The keys in Redis after the case: value and TTL in seconds. No value: another type; TTL -1:
  // none.
  std::map<std::string, std::pair<std::optional<std::string>, int64_t>> redis_after{};
};
void PrintTo(const Case& c, std::ostream* out);

// Sluice's answer to a step in place of the recorded one.
struct Difference {
  const char* name;
  size_t step;
  std::vector<std::string> replies;
  bool closes;
  const char* decision;  // why
};
const std::vector<Difference>& differences();

// Cases whose counters differ from the recorded ones.
struct CounterDifference {
  const char* name;
  const char* decision;
};
const std::vector<CounterDifference>& counter_differences();

// Cases whose requests match a rule for which sluice refuses the file; `rule`: the rule's
// operation.
struct Refusal {
  const char* name;
  const char* rule;
  const char* decision;
};
const std::vector<Refusal>& refusals();
inline constexpr const char* refused_file = "quirks.json";

// Cases that preset keys in Redis or send it commands, so they cannot be replayed without one.
const std::vector<std::string>& needing_redis();

// The whole recording (divvy.json).
const nlohmann::json& recording();
// All cases in their order, and the requests of the metrics recording as one more.
const std::vector<Case>& cases();
// The policy of a case, without the rules that are refused.
std::string policy_of(const std::string& config);
// The recorded steps, without sluice's differences.
std::vector<Step> recorded_steps(const std::string& name);

// Compares as divvy.json's `tolerance` says: seconds may differ by one, all else must be equal. Of
// an internal error only the prefix is compared, because its text comes from Redis or the
// JavaScript engine.
bool same_reply(std::string_view expected, std::string_view got);
// Whether `key` was recorded as `recorded`, in which a long key is shortened.
bool same_key(std::string_view recorded, std::string_view key);

}  // namespace sluice::tests
