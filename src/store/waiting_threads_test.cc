// Several workers, each with its own completion queue, on the same counters, whose units come back
// only by puts, so that everything can be counted. No unit is lost or granted twice, every waiting
// request is answered or cancelled once, and each counter answers in the order of arrival.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "store/asking_test.h"
#include "tests/support/dice.h"

namespace sluice::store::waiting_threads_test {
namespace {

using sluice::tests::Dice;
using namespace tests;

constexpr size_t keys = 6;
constexpr int64_t capacity = 12;
constexpr base::Time now{1'000'000};

const std::array<std::string, keys> names = {"a", "b", "c", "d", "e", "f"};
// Two lists of limits that differ only in the size of the counter.
const std::vector<Limit> limits[2] = {{fixed(capacity)}, {fixed(capacity), fixed(1'000'000)}};

class Shared {
 public:
  Shared() {
    for (size_t i = 0; i < 2; ++i) ids[i] = spaces.intern_limits(limits[i]);
  }
  request::Spaces spaces;
  EmbeddedStore store{0, base::Hash(1), spaces};
  const Space* space = spaces.intern("t/", "");
  uint32_t ids[2];
  std::atomic<size_t> answers{0};  // late answers
};

class WorkerOf {
 public:
  WorkerOf(Shared& shared, uint32_t seed, bool changes)
      : s_(shared), dice_(seed), changes_(changes) {}

  void step() {
    switch (dice_(8)) {
      case 0:
      case 1:
      case 2:
      case 3:
        ask(true);
        break;
      case 4:
        ask(false);
        break;
      case 5:
        cancel();
        break;
      default:
        put();
    }
    look();
  }
  // Puts back all that it holds, and all that it is granted afterwards. True: nothing is left.
  bool wind_down() {
    put_everything();
    look();
    return parked_.empty() && held_total() == 0;
  }
  int64_t held(size_t key) const { return held_[key]; }
  int64_t held_total() const {
    int64_t sum = 0;
    for (const int64_t units : held_) sum += units;
    return sum;
  }

  size_t asked = 0, at_once = 0, answered = 0, cancelled = 0, too_late = 0, parked = 0;

 private:
  struct Wants {
    std::map<size_t, int64_t> costs;
    uint64_t arrival = 0;
    size_t generation = 0;
  };

  bool apply(const std::map<size_t, int64_t>& costs, Verb verb, Group& group) {
    const size_t generation = changes_ ? dice_(size_t{2}) : 0;
    std::vector<Charge> charges;
    std::vector<Decision> decisions(costs.size() * limits[generation].size());
    for (const auto& [key, cost] : costs) {
      Charge c;
      c.space = s_.space;
      c.key = names[key];
      c.verb = verb;
      c.cost = cost;
      c.limits = limits[generation];
      c.limits_id = s_.ids[generation];
      c.decision_first = static_cast<uint32_t>(charges.size() * limits[generation].size());
      charges.push_back(c);
    }
    group.charge_count = static_cast<uint32_t>(charges.size());
    EXPECT_EQ(s_.store.apply({{&group, 1}, charges, decisions}, now, &completions_).settled, 1u);
    EXPECT_EQ(group.error, request::Error::none);
    return group.allowed;
  }
  void ask(bool may_wait) {
    if (parked_.size() > 60) return;
    Wants wants;
    wants.costs[dice_(keys)] = 1 + dice_(int64_t{4});
    while (dice_(3) == 0) wants.costs[dice_(keys)] = 1 + dice_(int64_t{4});
    Group group;
    group.may_wait = may_wait;
    group.ticket = {next_++, 0};
    // The ticket is used up before the group may be answered.
    const bool allowed = apply(wants.costs, Verb::take, group);
    if (may_wait) ++asked;
    if (allowed) {
      if (may_wait) ++at_once;
      receive(wants);
    } else if (may_wait) {
      ASSERT_TRUE(group.parked);
      wants.arrival = group.arrival;
      parked_.emplace(group.ticket.slot, wants);
      ++parked;
    }
  }
  void cancel() {
    if (parked_.empty()) return;
    auto at = parked_.lower_bound(dice_(next_));
    if (at == parked_.end()) at = parked_.begin();
    if (dice_(2) == 0) {
      // Matched again, the request stays in its place or is answered.
      Group group;
      group.may_wait = true;
      group.ticket = {at->first, 0};
      group.arrival = at->second.arrival;
      const bool allowed = apply(at->second.costs, Verb::take, group);
      ASSERT_EQ(int{allowed} + int{group.parked} + int{group.answered}, 1);
      if (!allowed) return;
      ++answered;
      receive(at->second);
      parked_.erase(at);
      return;
    }
    if (!s_.store.cancel(completions_, {at->first, 0}, now)) {
      ++too_late;  // its answer is on the way
      return;
    }
    ++cancelled;
    parked_.erase(at);
  }
  void put() {
    const size_t key = dice_(keys);
    const int64_t units = std::min(held_[key], 1 + dice_(int64_t{6}));
    if (units == 0) return;
    held_[key] -= units;  // before others may be granted them
    Group group;
    EXPECT_TRUE(apply({{key, units}}, Verb::put, group));
  }
  void put_everything() {
    std::map<size_t, int64_t> all;
    for (size_t key = 0; key < keys; ++key) {
      if (held_[key] > 0) all[key] = std::exchange(held_[key], 0);
    }
    Group group;
    if (all.empty()) return;
    EXPECT_TRUE(apply(all, Verb::put, group));
  }
  // Calls the store only after a wake, or at the time that it named.
  void look() {
    if (!woken_.exchange(false) && !next_look_) return;
    next_look_ = s_.store.advance(completions_, now);
    std::vector<Settled> settled;
    completions_.drain(settled);
    for (const Settled& one : settled) {
      const auto at = parked_.find(one.ticket.slot);
      ASSERT_NE(at, parked_.end()) << "answered twice, or cancelled before";
      ++answered;
      ++s_.answers;
      if (at->second.costs.size() == 1) {
        uint64_t& last = last_arrival_[at->second.costs.begin()->first];
        EXPECT_LT(last, at->second.arrival);
        last = at->second.arrival;
      }
      receive(at->second);
      parked_.erase(at);
    }
  }
  void receive(const Wants& wants) {
    for (const auto& [key, cost] : wants.costs) held_[key] += cost;
  }

  Shared& s_;
  Dice dice_;
  const bool changes_;
  std::atomic<bool> woken_{false};
  CompletionQueue completions_{[this] { woken_ = true; }};
  std::optional<base::Time> next_look_;
  uint32_t next_ = 1;
  std::map<uint32_t, Wants> parked_;
  std::array<int64_t, keys> held_{};
  std::array<uint64_t, keys> last_arrival_{};
};

void run(bool changes) {
  constexpr size_t threads = 4, steps = 20'000, steps_max = 1'000'000;
  Shared shared;
  std::vector<std::unique_ptr<WorkerOf>> workers;
  for (uint32_t i = 0; i < threads; ++i)
    workers.push_back(std::make_unique<WorkerOf>(shared, i + 1, changes));

  const auto in_parallel = [&](auto&& what) {
    std::vector<std::thread> running;
    for (auto& worker : workers) running.emplace_back([&] { what(*worker); });
    for (auto& thread : running) thread.join();
  };
  std::atomic<bool> stop{false};
  std::thread house([&] {
    while (!stop) {
      shared.store.housekeep(now);
      shared.store.list(*shared.space, "", 3);
      shared.store.stats();
    }
  });
  in_parallel([&](WorkerOf& worker) {
    for (size_t i = 0; i < steps_max && (i < steps || shared.answers < 4'000); ++i) {
      worker.step();
      // Other workers wait for what this one holds.
      if (i % 16 == 15) std::this_thread::sleep_for(std::chrono::microseconds(20));
    }
  });

  // The units that workers hold are missing from the counters.
  for (size_t key = 0; key < keys; ++key) {
    int64_t held = 0;
    for (const auto& worker : workers) held += worker->held(key);
    Charge c;
    c.space = shared.space;
    c.key = names[key];
    c.cost = 0;
    c.limits = limits[0];
    c.limits_id = shared.ids[0];
    // Units of waiting requests, and of answers that were not drained yet, may be missing as well.
    Decision d;
    Group group{.charge_count = 1};
    c.verb = Verb::peek;
    shared.store.apply({{&group, 1}, {&c, 1}, {&d, 1}}, now);
    EXPECT_LE(held, capacity) << names[key];
    EXPECT_LE(d.remaining, capacity - held) << names[key];
  }

  // After everything was put back, every waiting request is answered, and in the end all units are
  // back.
  std::atomic<size_t> idle{0};
  in_parallel([&](WorkerOf& worker) {
    bool counted = false;
    for (size_t i = 0; i < 2'000'000 && idle < threads; ++i) {
      if (worker.wind_down() && !counted) {
        counted = true;
        ++idle;
      }
      if (i % 64 == 63) std::this_thread::yield();
    }
    EXPECT_TRUE(counted) << "a group still waits";
  });
  stop = true;
  house.join();
  EXPECT_EQ(shared.store.stats().waiting, 0u);
  for (const std::string& name : names) {
    Charge c;
    c.space = shared.space;
    c.key = name;
    c.cost = capacity;
    c.limits = limits[0];
    c.limits_id = shared.ids[0];
    Decision d;
    Group group{.charge_count = 1};
    shared.store.apply({{&group, 1}, {&c, 1}, {&d, 1}}, now);
    EXPECT_TRUE(group.allowed) << name << ": " << d.remaining << " of " << d.limit;
    EXPECT_EQ(d.remaining, 0);
  }
  size_t parked = 0, answered = 0, cancelled = 0;
  for (const auto& w : workers) {
    EXPECT_EQ(w->asked, w->at_once + w->parked);
    EXPECT_EQ(w->parked, w->answered + w->cancelled);
    parked += w->parked, answered += w->answered, cancelled += w->cancelled;
  }
  EXPECT_GT(answered, 3'000u);
  EXPECT_GT(cancelled, 500u);
  EXPECT_GT(parked, 3'000u);
}

TEST(WaitingThreads, NothingIsLostOrGivenTwice) {
  run(false);
}

TEST(WaitingThreads, NothingIsLostOrGivenTwiceWhileLimitsChange) {
  run(true);
}

}  // namespace
}  // namespace sluice::store::waiting_threads_test
