// Recorded values of counters (tests/redis/recorded). From each of them the scripts must decide the
// same and write the same bytes: servers that run share them. A program whose values differ records
// the file again, with SLUICE_RECORD=FILE.
#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "redis/script_call.h"
#include "tests/redis/both_stores.h"
#include "tests/support/dice.h"
#include "tests/support/paths.h"

namespace sluice::redis::recorded_values_test {
namespace {

using limit::Algorithm;
using nlohmann::ordered_json;
using request::KeyEncoding;
using tests::Dice;

// 2027-01-15 08:00:00 UTC.
constexpr int64_t start_us = 1'800'000'000'000'000, second_us = 1'000'000;
constexpr base::Duration minute{60 * second_us}, day{86'400 * second_us};
constexpr int steps = 14;
// How much time may pass between the answer and the reading of the TTL, on a busy machine.
constexpr int64_t ttl_slack_ms = 60'000;

const std::map<std::string, Verb> verbs = {{"take", Verb::take},
                                           {"peek", Verb::peek},
                                           {"put", Verb::put},
                                           {"try", Verb::would_take},
                                           {"count", Verb::count}};

// Counters of one kind. `other` are the limits of an override, or the numbers of another request.
struct Kind {
  std::string name;
  std::vector<Limit> limits, other = {};
  KeyEncoding encoding = KeyEncoding::own;
  std::vector<std::string> asked = {"take", "take", "take", "take", "peek", "put", "try"};
  std::vector<base::Duration> windows = {};  // droplet's: each has a limit by chance
  int64_t costs = 4;                         // costs are below this
  bool stands = false;                       // keys expire by Redis' own time, so no time passes
};

Limit gcra(Algorithm algorithm, int64_t quota, int64_t emission_s) {
  const int64_t units = algorithm == Algorithm::gcra_crab ? quota - 1 : quota;
  const int64_t e = emission_s * second_us * limit::gcra::per_microsecond(algorithm);
  return {algorithm, quota, {e}, e * units};
}

std::vector<Kind> kinds() {
  const Limit fixed{Algorithm::fixed_window, 9, minute, 0},
      slow{Algorithm::fixed_window, 20, day, 0}, bucket{Algorithm::token_bucket, 9, minute, 12},
      log{Algorithm::sliding_log, 6, minute, 0}, aligned{Algorithm::aligned_window, 9, minute, 0},
      put_back{Algorithm::fixed_bucket, 9, {}, 9};
  std::vector<Kind> all = {
      {"fixed_window", {fixed}},
      {"aligned_window", {aligned}},
      {"token_bucket", {bucket}},
      {"sliding_window", {{Algorithm::sliding_window, 9, minute, 0}}},
      {"sliding_log", {log}},
      {"fixed_bucket", {put_back}},
      {"unlimited and deny",
       {fixed, {Algorithm::unlimited, 0, {}, 0}},
       {fixed, {Algorithm::deny, 0, {}, 0}}},
      {"two limits", {bucket, slow}},
      {"three limits", {log, aligned, put_back}},
      {"large numbers",
       {{Algorithm::token_bucket, 3'000'000'000, day, 4'000'000'000}},
       {{Algorithm::token_bucket, 2'000'000'007, day, 3'000'000'000}}},
      {"large windows", {{Algorithm::sliding_window, 3'000'000'000, day, 0}}},
      {"override of a quota", {fixed}, {{Algorithm::fixed_window, 30, minute, 0}}},
      {"override of an algorithm", {bucket}, {log}},
      {"override with another limit", {fixed, slow}, {fixed}},
      {"override in another order", {fixed, slow}, {slow, fixed}},
      {"gcra_cell", {gcra(Algorithm::gcra_cell, 9, 7)}, {gcra(Algorithm::gcra_cell, 5, 11)}},
      {"gcra_crab", {gcra(Algorithm::gcra_crab, 9, 7)}, {gcra(Algorithm::gcra_crab, 5, 11)}},
      {"gcra_redis", {gcra(Algorithm::gcra_redis, 9, 7)}, {gcra(Algorithm::gcra_redis, 5, 11)}},
      {"shared with redis-cell", {gcra(Algorithm::gcra_cell, 9, 7)}, {}, KeyEncoding::tat_text},
      {"shared with Divvy",
       {{Algorithm::fixed_window, 9, base::seconds(100'000), 0}},
       {},
       KeyEncoding::remaining_text},
      {"shared with Envoy's service",
       {aligned},
       {},
       KeyEncoding::window_text,
       {"count", "count", "count", "peek", "put", "take"}},
      {"counted past its limit", {aligned}, {}, KeyEncoding::own, {"count", "count", "peek"}},
      {"limits that come along",
       {},
       {},
       KeyEncoding::own,
       {"take", "take", "take", "peek", "try"},
       {{60 * second_us}, {3'600 * second_us}, {86'400 * second_us}}}};
  for (Kind& kind : all) {
    if (kind.name.starts_with("large")) kind.costs = 1'500'000'000;
    if (kind.encoding == KeyEncoding::remaining_text) kind.stands = true;
    if (kind.encoding == KeyEncoding::tat_text) kind.asked = {"take", "take", "peek", "try"};
  }
  return all;
}

// The record has the numbers of algorithms from before there were places, of which it has none.
int number_of(Algorithm algorithm) {
  return static_cast<int>(algorithm) - (algorithm > Algorithm::concurrency ? 1 : 0);
}
Algorithm algorithm_of(int number) {
  return static_cast<Algorithm>(number + (number >= static_cast<int>(Algorithm::concurrency)));
}

ordered_json json_of(const std::vector<Limit>& limits) {
  ordered_json json = ordered_json::array();
  for (const Limit& one : limits)
    json.push_back({number_of(one.algorithm), one.quota, one.window.us, one.burst});
  return json;
}

std::vector<Limit> limits_of(const ordered_json& json) {
  std::vector<Limit> limits;
  for (const auto& one : json)
    limits.push_back({algorithm_of(one[0].get<int>()), one[1], {one[2]}, one[3]});
  return limits;
}

// The requests to counters of one kind, with seeded numbers.
ordered_json draw(const Kind& kind, uint32_t seed) {
  Dice dice(seed);
  ordered_json all = ordered_json::array();
  int64_t at_us = 0;
  for (int i = 0; i < steps; ++i) {
    if (!kind.stands) at_us += dice(4) == 0 ? dice(int64_t{70} * second_us) : dice(5 * second_us);
    std::vector<Limit> limits = kind.other.empty() || dice(3) > 0 ? kind.limits : kind.other;
    for (const base::Duration window : kind.windows)
      if (dice(3) > 0)
        limits.push_back({Algorithm::fixed_window, 1 + dice(int64_t{12}), window, 0});
    const std::string& verb = kind.asked[dice(kind.asked.size())];
    all.push_back({{"at_us", at_us},
                   {"verb", verb},
                   {"cost", dice(5) == 0 ? 0 : 1 + dice(kind.costs - 1)},
                   {"limits", json_of(limits)},
                   {"weight", dice(6) == 0   ? 2
                              : dice(3) == 0 ? 1
                                             : 0}});
    if (verb == "put" && dice(4) == 0) all.back()["all"] = true;
    if (verb == "take" && kind.encoding != KeyEncoding::window_text && dice(9) == 0)
      all.back()["reset"] = true;
  }
  return all;
}

// Settles one step. Before that it writes to Redis what the step before left there.
class Replay {
 public:
  explicit Replay(const Kind& kind) : kind_(kind) {
    request::Space like;
    like.encoding = kind.encoding;
    like.windows = kind.windows;
    space_ = both_.spaces.intern("u/", kind.encoding == KeyEncoding::window_text ? "" : "/x", like);
    if (kind.stands) both_.near = 50'000 * second_us;
    both_.sweeps = !kind.stands;
  }

  ordered_json ask(const ordered_json& step, const ordered_json& before) {
    tests::RedisClient& client = both_.client();
    client({"FLUSHALL"});
    for (const auto& [key, value] : before.items()) {
      const bool shared = kind_.encoding != KeyEncoding::own;
      client({"SET", key, value[0], "PX",
              shared ? std::to_string(value[1].get<int64_t>()) : "100000000"});
    }
    Question q;
    q.add(*space_, "k", limits_of(step.at("limits")), both_.spaces,
          verbs.at(step.at("verb").get<std::string>()), step.at("cost"));
    q.charges[0].all = step.contains("all");
    q.charges[0].reset_first = step.contains("reset");
    const std::string wrong = both_.ask(q, {start_us + step.at("at_us").get<int64_t>()},
                                        static_cast<Weight>(step.at("weight").get<int>()));
    EXPECT_EQ(wrong, "") << kind_.name << ": " << step;
    ordered_json after = {{"decisions", ordered_json::array()}, {"keys", ordered_json::object()}};
    for (const Decision& one : q.decisions)
      after["decisions"].push_back(
          {one.allowed, one.limit, one.remaining, one.reset_after.us, one.retry_after.us});
    for (const auto& key : client({"KEYS", "*"}).list)
      after["keys"][key.text] = {client({"GET", key.text}).text, client({"PTTL", key.text}).number};
    return after;
  }

 private:
  const Kind& kind_;
  Both both_;
  const request::Space* space_ = nullptr;
};

TEST(RecordedValues, AreWrittenByTheReleaseThatRecords) {
  const char* const file = std::getenv("SLUICE_RECORD");
  if (file == nullptr) GTEST_SKIP() << "SLUICE_RECORD names no file";
  ordered_json all;
  uint32_t seed = 1;
  for (const Kind& kind : kinds()) {
    Replay replay(kind);
    ordered_json keys = ordered_json::object();
    for (ordered_json step : draw(kind, seed++)) {
      const ordered_json after = replay.ask(step, keys);
      keys = after.at("keys");
      step.update(after);
      all[kind.name].push_back(std::move(step));
    }
  }
  std::ofstream out(file);
  out << "{";
  for (const auto& [name, asked] : all.items()) {
    out << (name == all.begin().key() ? "\n" : ",\n") << ordered_json(name) << ": [";
    for (size_t i = 0; i < asked.size(); ++i) out << (i == 0 ? "\n " : ",\n ") << asked[i].dump();
    out << "]";
  }
  out << "}\n";
}

// What differs. TTLs may be shorter, because Redis' own clock goes on until they are read.
std::string compare(const ordered_json& got, const ordered_json& recorded) {
  if (got.size() != recorded.size()) return "other keys: " + got.dump();
  for (const auto& [key, value] : recorded.items()) {
    if (!got.contains(key)) return "no key " + key + " in " + got.dump();
    if (got[key][0] != value[0]) return "another value: " + got.dump();
    const int64_t ttl = got[key][1], expected = value[1];
    const bool longer = ttl > expected + 1'000, shorter = ttl < expected - ttl_slack_ms;
    if (longer || shorter || (ttl < 0) != (expected < 0)) return "another TTL: " + got.dump();
  }
  return {};
}

TEST(RecordedValues, AreContinuedAndWrittenAsRecorded) {
  std::ifstream in(tests::source_path("tests/redis/recorded/values.json"));
  const ordered_json all = ordered_json::parse(in, nullptr, false);
  ASSERT_TRUE(all.is_object());
  size_t compared = 0;
  for (const Kind& kind : kinds()) {
    ASSERT_TRUE(all.contains(kind.name)) << kind.name;
    Replay replay(kind);
    ordered_json before = ordered_json::object();
    for (const ordered_json& step : all.at(kind.name)) {
      const ordered_json after = replay.ask(step, before);
      for (size_t i = 0; i < after.at("decisions").size(); ++i) {
        const ordered_json &got = after["decisions"][i], &its = step.at("decisions").at(i);
        for (size_t number = 0; number < (kind.stands ? 3u : 5u); ++number)
          EXPECT_EQ(got[number], its[number]) << kind.name << ": " << step;
      }
      EXPECT_EQ(compare(after.at("keys"), step.at("keys")), "") << kind.name << ": " << step;
      before = step.at("keys");
      ++compared;
    }
  }
  EXPECT_EQ(compared, kinds().size() * steps);
}

}  // namespace
}  // namespace sluice::redis::recorded_values_test
