// The recordings of Divvy 1.7.1 (divvy.json) as cases to replay, and what sluice does differently:
// every difference is listed with the decision behind it, and has to be one. Plain values, read
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
  int sleep_ms = 0;  // before
  bool half_close = false;
  std::vector<std::string> replies;
  bool closes = false;                       // the server closes the connection behind the replies
  std::vector<std::string> redis_command{};  // not empty: it is run on Redis, and nothing is sent
};

// A counter as Redis held it after the case.
struct Counter {
  int64_t value = 0;
  int64_t ttl_s = 0;
};
using Counters = std::map<std::string, Counter>;

struct Case {
  std::string name, config;
  std::vector<Step> steps;  // with the replies that are due from sluice
  Counters counters;        // as recorded
  bool counters_known = false;
  bool needs_redis = false;                             // says the recording
  std::vector<std::vector<std::string>> redis_setup{};  // commands that make what is there before
  bool redis_known = false;                             // it was recorded what is there afterwards
  // That; a value that is none is of another type, a TTL of -1 is none.
  std::map<std::string, std::pair<std::optional<std::string>, int64_t>> redis_after{};
};
void PrintTo(const Case& c, std::ostream* out);

// What sluice answers to a step instead of what was recorded.
struct Difference {
  const char* name;
  size_t step;
  std::vector<std::string> replies;
  bool closes;
  const char* decision;  // of spec/divvy.md
};
const std::vector<Difference>& differences();

// Cases whose counters are not the recorded ones.
struct CounterDifference {
  const char* name;
  const char* decision;
};
const std::vector<CounterDifference>& counter_differences();

// Cases that ask for a rule with which sluice refuses the file, and that rule's operation.
struct Refusal {
  const char* name;
  const char* rule;
  const char* decision;
};
const std::vector<Refusal>& refusals();
inline constexpr const char* refused_file = "quirks.json";

// Cases that preset keys in Redis or talk to it: there is nothing of them to replay without one.
const std::vector<std::string>& needing_redis();

// The file as it was recorded.
const nlohmann::json& recording();
// All cases in their order, and the requests of the metrics recording as one more.
const std::vector<Case>& cases();
// The policy of a case, without the rules that are refused.
std::string policy_of(const std::string& config);
// The recorded steps, without sluice's differences.
std::vector<Step> recorded_steps(const std::string& name);

// As divvy.json's `tolerance` says: seconds within one, all else exactly. Of an internal error only
// the prefix counts, as its text is Redis' or the JavaScript engine's.
bool same_reply(std::string_view expected, std::string_view got);
// Is `key` the one recorded as `recorded`, which is shortened when it is long?
bool same_key(std::string_view recorded, std::string_view key);

}  // namespace sluice::tests
