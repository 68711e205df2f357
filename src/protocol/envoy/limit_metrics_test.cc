// The counts of limits that workers keep, compared with a map from names to numbers.
#include "protocol/envoy/limit_metrics.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <map>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "policy/rule_set.h"
#include "protocol/envoy/dialect.h"
#include "protocol/envoy/limits_file.h"
#include "protocol/envoy/rules.h"
#include "request/space.h"
#include "tests/support/dice.h"

namespace sluice::envoy::limit_metrics_test {
namespace {

using Descriptor = std::vector<request::Entry>;
// "PATH.STAT", and how often it was counted.
using Counted = std::map<std::string, uint64_t>;

// A file of limits, read as the server reads it.
struct Loaded {
  explicit Loaded(std::string_view text) {
    const LimitsText file{"limits.yaml", text};
    base::Diagnostics diagnostics;
    auto set = read_limits({&file, 1}, {}, diagnostics);
    if (!set) throw std::runtime_error(base::to_string(diagnostics.front()));
    LimitRules::add(*std::move(set), {}, spaces, rules);
    limits = LimitRules::of(rules);
  }
  // The number of the limit that the entries meet; `absent` if none.
  uint32_t meet(std::string_view domain, const Descriptor& entries, Walk& walk) const {
    policy::MatchSteps steps;
    walk = limits->set().find(limits->set().domain(domain), entries, steps);
    return walk.limit;
  }

  request::Spaces spaces;
  policy::RuleSet rules;
  const LimitRules* limits = nullptr;
};

Counted counted(const LimitMetrics& metrics) {
  Counted all;
  for (size_t path = 0; path < metrics.paths().size(); ++path)
    for (size_t stat = 0; stat < path_stat_names.size(); ++stat)
      for (const WorkerMetrics* worker : metrics.workers()) {
        const uint64_t n = worker->read(static_cast<uint32_t>(path), static_cast<PathStat>(stat));
        if (n > 0)
          all[std::string(metrics.paths().at(static_cast<uint32_t>(path))) + "." +
              std::string(path_stat_names[stat])] += n;
      }
  return all;
}

HitCounts hits(uint64_t n) {
  return {.total_hits = n, .within_limit = n};
}

LimitMetrics::Options at_most(size_t paths) {
  return {.paths_max = paths};
}

// Keys and values of all forms that a path can take from a request's texts; some paths coincide.
constexpr std::string_view tricky = R"(
domain: d
descriptors:
  - {key: plain, rate_limit: {unit: day, requests_per_unit: 9}}
  - {key: a, value: b_c, rate_limit: {unit: day, requests_per_unit: 9}}
  - {key: end_, rate_limit: {unit: day, requests_per_unit: 9}}
  - {key: v, value_to_metric: true, rate_limit: {unit: day, requests_per_unit: 9}}
  - {key: det, detailed_metric: true, rate_limit: {unit: day, requests_per_unit: 9}}
  - {key: w, value: "x*", rate_limit: {unit: day, requests_per_unit: 9}}
  - {key: "joi*", rate_limit: {unit: day, requests_per_unit: 9}}
  - {key: ws, value: "x*", share_threshold: true, value_to_metric: true, rate_limit: {unit: day}}
  - key: o
    value_to_metric: true
    descriptors:
      - {key: i, value: "y*z", rate_limit: {unit: day, requests_per_unit: 9}}
      - {key: i, rate_limit: {unit: day, requests_per_unit: 9}}
)";

Descriptor some_descriptor(tests::Dice& dice) {
  static constexpr std::string_view keys[] = {
      "plain", "a", "a_b", "end_", "end", "v", "det", "w", "w_x1", "joinery", "joi", "ws", "ws_x"};
  static constexpr std::string_view values[] = {"",   "b_c", "c",        "x",       "x1",
                                                "yz", "x*",  "10.0.0.1", "a:b|c\nd"};
  if (dice(3) == 0)
    return {{"o", values[dice(std::size(values))]}, {"i", values[dice(std::size(values))]}};
  return {{keys[dice(std::size(keys))], values[dice(std::size(values))]}};
}

TEST(EnvoyLimitMetrics, CountEachPathUnderItsExactText) {
  const Loaded first(tricky);
  const std::string other_order = std::string(tricky) +
                                  "  - {key: more, rate_limit: {unit: day, requests_per_unit: 9}}\n"
                                  "  - {key: plain, value: x, rate_limit: {unit: hour}}\n";
  const Loaded second(other_order);
  LimitMetrics metrics({});
  std::array<WorkerMetrics*, 3> workers{};
  for (auto& worker : workers) worker = &metrics.add_worker();
  tests::Dice dice(1);
  Counted model;
  std::map<uint32_t, size_t> met;
  for (int i = 0; i < 20'000; ++i) {
    // After the reload (at 5,000), late replies are still counted under the limits before it.
    const Loaded& loaded = i < 5'000 || dice(10) == 0 ? first : second;
    const Descriptor entries = some_descriptor(dice);
    const uint64_t n = dice(uint64_t{5});
    Walk walk;
    const uint32_t limit = loaded.meet("d", entries, walk);
    WorkerMetrics& worker = *workers[dice(workers.size())];
    std::string path;
    if (dice(8) == 0) {
      loaded.limits->set().append_override_metric_path(loaded.limits->set().domain("d"), entries,
                                                       path);
      worker.count({*loaded.limits, absent, "d", entries}, hits(n));
    } else if (limit != absent) {
      ++met[limit];
      loaded.limits->set().append_metric_path(loaded.limits->set().domain("d"), entries, walk,
                                              path);
      worker.count({*loaded.limits, limit, "d", entries}, hits(n));
    } else {
      continue;
    }
    std::ranges::replace(path, '\n', '_');
    if (n == 0) continue;
    model[path + ".total_hits"] += n;
    model[path + ".within_limit"] += n;
  }
  EXPECT_EQ(counted(metrics), model);
  EXPECT_GE(met.size(), 11u);
}

TEST(EnvoyLimitMetrics, CountsEachStatSeparately) {
  const Loaded loaded(tricky);
  LimitMetrics metrics({});
  WorkerMetrics& worker = metrics.add_worker();
  const Descriptor entries = {{"plain", "x"}};
  Walk walk;
  const uint32_t limit = loaded.meet("d", entries, walk);
  for (int i = 0; i < 2; ++i)
    worker.count({*loaded.limits, limit, "d", entries}, {1, 2, 3, 4, 5, 6});
  worker.count_unknown_domain("no.10.0.0.1:d", 7);
  const Counted expected = {{"d.plain.total_hits", 2},
                            {"d.plain.over_limit", 4},
                            {"d.plain.near_limit", 6},
                            {"d.plain.within_limit", 8},
                            {"d.plain.over_limit_with_local_cache", 10},
                            {"d.plain.shadow_mode", 12},
                            {"no.10_0_0_1_d.domain_not_found", 7}};
  EXPECT_EQ(counted(metrics), expected);
  worker.count(ServiceStat::redis_error);
  worker.count(Method::check);
  EXPECT_EQ(worker.read(ServiceStat::redis_error), 1u);
  EXPECT_EQ(worker.read(ServiceStat::service_error), 0u);
  EXPECT_EQ(worker.requests(Method::check), 1u);
  EXPECT_EQ(worker.requests(Method::should_rate_limit), 0u);
}

// A request may bring as many hits as 64 bits have.
TEST(EnvoyLimitMetrics, HitsStopAtTheLargestNumber) {
  const Loaded loaded(tricky);
  LimitMetrics metrics({});
  WorkerMetrics& worker = metrics.add_worker();
  const Descriptor entries = {{"plain", "x"}};
  Walk walk;
  const uint32_t limit = loaded.meet("d", entries, walk);
  for (const uint64_t hits : {uint64_t{5}, UINT64_MAX - 1, uint64_t{5}})
    worker.count({*loaded.limits, limit, "d", entries}, {hits});
  EXPECT_EQ(counted(metrics), (Counted{{"d.plain.total_hits", UINT64_MAX}}));
}

TEST(EnvoyLimitMetrics, PastTheBoundTextsOfRequestsAreCountedAsOther) {
  const Loaded loaded(tricky);
  LimitMetrics metrics(at_most(2));
  WorkerMetrics& one = metrics.add_worker();
  WorkerMetrics& two = metrics.add_worker();
  const auto count = [&](WorkerMetrics& worker, const Descriptor& entries) {
    Walk walk;
    worker.count({*loaded.limits, loaded.meet("d", entries, walk), "d", entries}, {1});
  };
  count(one, {{"v", "1"}});
  count(one, {{"v", "2"}});
  for (WorkerMetrics* worker : {&one, &two})
    for (int i = 0; i < 3; ++i) {
      const std::string value = std::to_string(i);
      count(*worker, {{"v", value}});
      count(*worker, {{"det", value}});
      count(*worker, {{"o", value}, {"i", "yz"}});
      count(*worker, {{"joinery", value}});
      count(*worker, {{"plain", value}});
      worker->count({*loaded.limits, absent, "d", Descriptor{{"free", value}}}, {1});
      worker->count_unknown_domain(value, 1);
    }
  const Counted expected = {{"d.v_1.total_hits", 3},
                            {"d.v_2.total_hits", 3},
                            {"d.v___other__.total_hits", 2},
                            {"d.det___other__.total_hits", 6},
                            {"d.o___other__.i_y*z.total_hits", 6},
                            {"d.joi*.total_hits", 6},
                            {"d.plain.total_hits", 6},
                            {"d.__other__.total_hits", 6},
                            {"__other__.domain_not_found", 6}};
  EXPECT_EQ(counted(metrics), expected);
}

TEST(EnvoyLimitMetrics, TheBoundHoldsForAllWorkersTogether) {
  const Loaded loaded(tricky);
  constexpr size_t bound = 700;
  LimitMetrics metrics(at_most(bound));
  constexpr uint64_t each = 4'000;
  std::vector<std::thread> threads;
  for (uint32_t seed = 0; seed < 4; ++seed)
    threads.emplace_back([&, &worker = metrics.add_worker(), seed] {
      tests::Dice dice(seed);
      for (uint64_t i = 0; i < each; ++i) {
        const std::string value = std::to_string(dice(1'500));
        const Descriptor entries = {{"v", value}};
        Walk walk;
        worker.count({*loaded.limits, loaded.meet("d", entries, walk), "d", entries}, {1});
      }
    });
  for (auto& thread : threads) thread.join();
  uint64_t sum = 0;
  const Counted all = counted(metrics);
  for (const auto& [name, n] : all) sum += n;
  EXPECT_EQ(sum, 4 * each);
  EXPECT_EQ(all.size(), bound + 1);
  EXPECT_TRUE(all.contains("d.v___other__.total_hits"));
  EXPECT_TRUE(metrics.paths().is_full());
}

TEST(EnvoyLimitMetrics, CountsPathsOfFilesWithoutRoomForTextsOfRequests) {
  const Loaded loaded(tricky);
  LimitMetrics metrics(at_most(0));
  WorkerMetrics& worker = metrics.add_worker();
  for (const Descriptor& entries : {Descriptor{{"plain", "x"}}, Descriptor{{"v", "x"}}}) {
    Walk walk;
    worker.count({*loaded.limits, loaded.meet("d", entries, walk), "d", entries}, {1});
  }
  EXPECT_EQ(counted(metrics),
            (Counted{{"d.plain.total_hits", 1}, {"d.v___other__.total_hits", 1}}));
}

TEST(EnvoyLimitMetrics, CountsATooLongPathAsOther) {
  const Loaded loaded(tricky);
  LimitMetrics metrics({});
  WorkerMetrics& worker = metrics.add_worker();
  const std::string fits(MetricPaths::bytes_max - 4, 'x'), longer = fits + "x";
  for (const std::string& value : {fits, longer}) {
    const Descriptor entries = {{"v", value}};
    Walk walk;
    worker.count({*loaded.limits, loaded.meet("d", entries, walk), "d", entries}, {1});
  }
  worker.count_unknown_domain(longer + "12345", 1);
  EXPECT_EQ(counted(metrics), (Counted{{"d.v_" + fits + ".total_hits", 1},
                                       {"d.v___other__.total_hits", 1},
                                       {"__other__.domain_not_found", 1}}));
}

TEST(EnvoyLimitMetrics, NamesHaveNoControlCharactersAndAreUtf8) {
  const auto cleaned = [](std::string text) {
    clean_path(text);
    return text;
  };
  EXPECT_EQ(cleaned("a b\tc\r\nd\x7F"), "a b_c__d_");
  EXPECT_EQ(cleaned("\xC3\xA9\xE6\x97\xA5"), "\xC3\xA9\xE6\x97\xA5");
  EXPECT_EQ(cleaned("\xC3\xA9\xFFx\xE6\x97"), "\xC3\xA9_x__");
  EXPECT_EQ(cleaned(""), "");
}

TEST(EnvoyLimitMetrics, TimesAreExactUpToASecond) {
  LimitMetrics metrics({});
  WorkerMetrics& worker = metrics.add_worker();
  const std::vector<std::pair<int64_t, uint64_t>> times = {{-1, 0},
                                                           {0, 0},
                                                           {999, 0},
                                                           {1'000, 1},
                                                           {999'999, 999},
                                                           {1'000'000, 1'000},
                                                           {1'099'999, 1'000},
                                                           {1'100'000, 1'100},
                                                           {9'999'999, 9'900},
                                                           {10'000'000, 10'000},
                                                           {INT64_MAX, 10'000}};
  std::map<uint64_t, uint64_t> expected, found;
  for (const auto& [us, ms] : times) {
    worker.took(Method::should_rate_limit, {us});
    ++expected[ms];
  }
  ResponseTimes all, none;
  worker.add_to(Method::should_rate_limit, all);
  for (size_t i = 0; i < ResponseTimes::places; ++i)
    if (all.counts[i] > 0) found[ResponseTimes::ms_at(i)] = all.counts[i];
  EXPECT_EQ(found, expected);
  worker.add_to(Method::check, none);
  EXPECT_EQ(none.counts, ResponseTimes().counts);
}

}  // namespace
}  // namespace sluice::envoy::limit_metrics_test
