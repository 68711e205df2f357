// What counting costs a worker: at most 10 ns for each decision, in batches of 1, 16 and 256. The
// best of several rounds counts, because other processes use the machine too.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <iostream>

#include "admin/server_stats.h"
#include "protocol/divvy/rules.h"
#include "request/space.h"
#include "tests/support/patience.h"
#include "tests/timed/allocations.h"

namespace sluice::tests {
namespace {

using std::chrono::steady_clock;

constexpr double target_ns = 10;
constexpr size_t decisions = 100'000, rounds = 60;

struct Counting {
  explicit Counting(bool statsd) {
    base::Diagnostics diagnostics;
    divvy::read_divvy(
        "[k=v]\ncreditLimit = 9\nresetSeconds = 60\nlabel = l\n[default]\n"
        "creditLimit = 0\n",
        divvy::DivvyFormat::ini, divvy::DivvyMatching::code, "r.ini", spaces, *rules, diagnostics);
    live.rules = rules;
    live.names = server_stats.name_rules(*rules);
    if (statsd) server_stats.keep_events(protocol::find("divvy").value(), [] {});
    stats = &server_stats.add_worker();
    const std::array descriptor{request::Entry{"k", "v"}};
    rules->match(&divvy::dialect, {.descriptor = descriptor}, plan);
    plan.batch().groups[0].allowed = true;
    verdict.matched = verdict.allowed = true;
  }

  // Nanoseconds for each decision, `batch` of them at a time. The clock advances by 5 us for a
  // batch and by 0.5 us for each of its decisions.
  double cost(size_t batch, bool with) {
    const auto begin = steady_clock::now();
    for (size_t done = 0; done < decisions; done += batch) {
      now.us += 5 + static_cast<int64_t>(batch) / 2;
      if (with) stats->begin(protocol::find("divvy").value(), now, now);
      for (size_t i = 0; i < batch; ++i) {
        asm volatile("" ::: "memory");  // keeps the loop, whose own time is subtracted
        if (!with) continue;
        stats->decided(protocol::find("divvy").value(), live, plan, plan.parts()[0],
                       request::Verb::take);
        stats->answered(protocol::find("divvy").value(), request::Verb::take, verdict);
      }
      if (with) stats->end();
      if (stats->events() != nullptr) stats->events()->drain([](const auto&) {});
    }
    return std::chrono::duration<double, std::nano>(steady_clock::now() - begin).count() /
           static_cast<double>(decisions);
  }

  double best(size_t batch) {
    double with = 1e9, without = 1e9;
    for (size_t i = 0; i < rounds; ++i) {
      with = std::min(with, cost(batch, true));
      without = std::min(without, cost(batch, false));
    }
    return with - without;
  }

  request::Spaces spaces;
  std::shared_ptr<policy::RuleSet> rules = std::make_shared<policy::RuleSet>();
  live::LivePolicy live;
  admin::ServerStats server_stats;
  engine::WorkerStats* stats = nullptr;
  policy::Plan plan;
  request::Verdict verdict;
  base::Time now{1'700'000'000'000'000};
};

TEST(Counting, CostsAtMostTenNanosecondsADecision) {
  SLUICE_HOLDS_TIMES();
  Counting counting(false);
  for (const size_t batch : {size_t{1}, size_t{16}, size_t{256}}) {
    const double ns = counting.best(batch);
    std::cout << "counting, batches of " << batch << ": " << ns << " ns a decision\n";
    EXPECT_LE(ns, target_ns) << batch;
  }
}

TEST(Counting, CountsEachDecision) {
  Counting counting(false);
  counting.cost(1, true);
  counting.cost(16, true);
  EXPECT_EQ(counting.stats->said(protocol::find("divvy").value(), counting.live.names->at(0),
                                 engine::RuleOutcome::allowed),
            2 * decisions);
}

TEST(Counting, AllocatesNothing) {
  Counting counting(true);
  counting.cost(16, true);
  const Allocations allocations;
  counting.cost(16, true);
  EXPECT_EQ(allocations.count(), 0u);
  if (holds_times()) {
    std::cout << "counting for statsd too, batches of 16: " << counting.best(16)
              << " ns a decision\n";
  }
}

}  // namespace
}  // namespace sluice::tests
