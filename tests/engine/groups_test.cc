// Rules with several limits, and rules that continue, used by several threads at once. The answers
// must be those that one thread would have got in some order. The test finds that order from the
// answers and replays it with plain numbers. So it finds a total that is off by one, a refusal that
// took something, and a group of which only a part was taken.
#include <gtest/gtest.h>

#include <algorithm>
#include <barrier>
#include <map>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/hash.h"
#include "policy/read/native.h"
#include "policy/rule_set.h"
#include "request/space.h"
#include "store/embedded_store.h"
#include "testing/dialects.h"
#include "tests/support/dice.h"

namespace sluice {
namespace {

using limit::Algorithm;
using policy::Rule;
using tests::Dice;

constexpr limit::Time now{1'700'000'000'000'000};
constexpr size_t threads = 4, requests_per_thread = 3000;

// The windows outlast the test, in which no time passes. So a limit of any algorithm is only a
// number of units.
std::string random_policy(Dice& dice) {
  const std::vector<std::string> algorithms = {"fixed_window", "aligned_window", "token_bucket",
                                               "sliding_window", "sliding_log"};
  const auto limit = [&] {
    return "{ quota: " + std::to_string(1 + dice(dice(3) == 0 ? 90 : 9000)) +
           ", window: 1000d, algorithm: " + algorithms[dice(algorithms.size())] + " }";
  };
  std::string text = "rules:\n";
  for (size_t i = 0, count = 3 + dice(size_t{9}); i < count; ++i) {
    text += "- name: r" + std::to_string(i) + "\n  match: {";
    const char* comma = "";
    for (const char* key : {"a", "b", "c"}) {
      if (dice(3) == 0) continue;
      text += std::string(comma) + " " + key + ": \"" + (dice(3) == 0 ? "1" : "*") + "\"";
      comma = ",";
    }
    text += " }\n";
    switch (dice(4)) {
      case 0:
        text += "  actor: a\n";
        break;
      case 1:
        text += "  actor: [a, b]\n";
        break;
      case 2:
        text += "  actor: [c, b, a]\n";
        break;
      default:
        break;
    }
    const size_t kind = dice(size_t{12});
    if (kind == 0) {
      text += "  unlimited: true\n";
    } else if (kind == 1) {
      text += "  limit: { quota: 1, window: 1000d }\n";
    } else {
      text += "  limits:\n";
      for (size_t n = 1 + dice(size_t{3}); n > 0; --n) text += "  - " + limit() + "\n";
    }
    if (dice(6) == 0) text += "  mode: shadow\n";
    if (dice(5) != 0) text += "  then: continue\n";
  }
  return text;
}

// A group with its decisions. `Asked` below is a request with the rules that it was charged by.
struct Told {
  struct Part {
    const Rule* rule;
    std::string key;
    std::vector<limit::Decision> decisions;
  };
  std::vector<Part> parts;
  int64_t cost;
  bool allowed;
};
struct Asked {
  std::vector<std::pair<std::string, std::string>> descriptor;
  std::vector<const Rule*> met;
};
struct History {
  std::vector<Told> groups;
  std::vector<Asked> requests;
};

void ask(const policy::RuleSet& rules, store::EmbeddedStore& store, uint32_t seed,
         History& history) {
  Dice dice(seed);
  policy::Plan plan;
  for (size_t done = 0; done < requests_per_thread;) {
    plan.clear();
    const size_t count = 1 + dice(size_t{8});
    const size_t first = history.requests.size();
    std::vector<std::vector<request::Entry>> descriptors(count);
    std::vector<int64_t> costs(count);
    for (size_t i = 0; i < count; ++i) {
      Asked& asked = history.requests.emplace_back();
      for (const char* key : {"a", "b", "c"})
        if (dice(8) != 0) asked.descriptor.emplace_back(key, std::to_string(dice(3)));
    }
    for (size_t i = 0; i < count; ++i) {
      for (const auto& [key, value] : history.requests[first + i].descriptor)
        descriptors[i].push_back({key, value});
      costs[i] = 1 + dice(int64_t{3});
      rules.match(&policy::first_dialect,
                  {.descriptor = descriptors[i], .request = {.cost = costs[i], .tag = {}}}, plan);
    }
    const request::Batch batch = plan.batch();
    ASSERT_EQ(store.apply(batch, now).settled, batch.groups.size());
    for (size_t i = 0; i < count; ++i) {
      const auto& part = plan.parts()[i];
      ASSERT_EQ(part.error, "");
      std::optional<uint32_t> last;
      for (const auto& step : plan.steps(part)) {
        history.requests[first + i].met.push_back(step.rule);
        ASSERT_EQ(plan.group(step).error, request::Error::none);
        if (last != step.group) history.groups.push_back({{}, costs[i], plan.group(step).allowed});
        last = step.group;
        const auto decisions = plan.decisions(step);
        history.groups.back().parts.push_back(
            {step.rule, std::string(plan.charge(step).key), {decisions.begin(), decisions.end()}});
      }
    }
    done += count;
  }
}

// The rules that apply to a request, found by trying every rule. Shadow rules come first, the order
// in which a plan charges them.
std::vector<const Rule*> met_by(std::span<const Rule> rules, const Asked& asked) {
  std::vector<const Rule*> shadows, enforced;
  for (const Rule& rule : rules) {
    const bool applies = std::all_of(
        rule.conditions.begin(), rule.conditions.end(), [&](const policy::Condition& condition) {
          const auto entry = std::find_if(asked.descriptor.begin(), asked.descriptor.end(),
                                          [&](const auto& e) { return e.first == condition.key; });
          return entry != asked.descriptor.end() &&
                 (condition.pattern.text() == "*" || condition.pattern.text() == entry->second);
        });
    if (!applies) continue;
    (rule.mode == policy::Mode::shadow ? shadows : enforced).push_back(&rule);
    if (rule.mode == policy::Mode::enforce && rule.then == policy::Then::stop) break;
  }
  shadows.insert(shadows.end(), enforced.begin(), enforced.end());
  return shadows;
}

int64_t capacity(const limit::Limit& limit) {
  return limit.algorithm == Algorithm::token_bucket ? limit.burst : limit.quota;
}

// Finds an order in which one thread could have sent the groups. Units only become fewer, so of two
// groups at one counter the one that found more units came first.
class Order {
 public:
  explicit Order(const std::vector<History>& histories) {
    for (const History& history : histories) {
      for (size_t i = 0; i < history.groups.size(); ++i) {
        if (i > 0) edge(groups_.size() - 1, groups_.size());
        groups_.push_back(&history.groups[i]);
        edges_.resize(groups_.size() + 1);
        before_.resize(groups_.size() + 1);
      }
    }
    for (size_t i = 0; i < groups_.size(); ++i) see(i);
    for (auto& [counter, seen] : counters_) chain(seen);
  }

  // Nothing if there is no such order.
  std::optional<std::vector<const Told*>> find() {
    std::vector<size_t> ready;
    for (size_t i = 0; i < groups_.size(); ++i)
      if (before_[i] == 0) ready.push_back(i);
    std::vector<const Told*> order;
    while (!ready.empty()) {
      const size_t i = ready.back();
      ready.pop_back();
      order.push_back(groups_[i]);
      for (const size_t next : edges_[i])
        if (--before_[next] == 0) ready.push_back(next);
    }
    if (order.size() < groups_.size()) return std::nullopt;
    return order;
  }

 private:
  // A group at a counter: the units that it found, and whether it took some.
  struct Seen {
    int64_t units;
    bool took;
    size_t group;
  };

  void edge(size_t from, size_t to) {
    if (edges_.size() <= std::max(from, to)) {
      edges_.resize(std::max(from, to) + 1);
      before_.resize(edges_.size());
    }
    edges_[from].push_back(to);
    ++before_[to];
  }

  void see(size_t i) {
    for (const auto& part : groups_[i]->parts) {
      for (size_t slot = 0; slot < part.decisions.size(); ++slot) {
        if (!limit::has_counter(part.rule->limits[slot].algorithm)) continue;
        const int64_t remaining = part.decisions[slot].remaining;
        const bool took = groups_[i]->allowed;
        counters_[{part.rule, part.key}].push_back(
            {took ? remaining + groups_[i]->cost : remaining, took, i});
        break;  // all slots of a counter lose the same units
      }
    }
  }

  // Of the groups that found the same units all were refused, except at most one, which took. So
  // the refused ones are placed after the group that left these units, and before the one that took
  // from them.
  void chain(std::vector<Seen>& seen) {
    std::sort(seen.begin(), seen.end(), [](const Seen& a, const Seen& b) {
      return a.units != b.units ? a.units > b.units : a.took < b.took;
    });
    std::optional<size_t> took;
    std::vector<size_t> refused;
    for (const Seen& s : seen) {
      if (took) edge(*took, s.group);
      if (!s.took) {
        refused.push_back(s.group);
        continue;
      }
      for (const size_t r : refused) edge(r, s.group);
      refused.clear();
      took = s.group;
    }
  }

  std::vector<const Told*> groups_;
  std::vector<std::vector<size_t>> edges_;
  std::vector<size_t> before_;  // for each group: edges to it from groups not yet in the order
  std::map<std::pair<const Rule*, std::string>, std::vector<Seen>> counters_;
};

using Units = std::map<std::pair<const Rule*, std::string>, int64_t>;  // taken of each counter

// Decides the group again by plain arithmetic, and compares.
void replay(const Told& told, Units& taken) {
  bool allowed = true;
  for (const auto& part : told.parts) {
    const int64_t before = taken[{part.rule, part.key}];
    for (size_t slot = 0; slot < part.decisions.size(); ++slot) {
      const limit::Limit& limit = part.rule->limits[slot];
      if (limit.algorithm == Algorithm::unlimited) continue;
      const bool fits = before + told.cost <= capacity(limit);
      allowed &= fits;
      const auto& decision = part.decisions[slot];
      ASSERT_EQ(decision.allowed, fits) << part.rule->name;
      ASSERT_EQ(decision.remaining, capacity(limit) - before - (told.allowed ? told.cost : 0))
          << part.rule->name;
    }
  }
  ASSERT_EQ(told.allowed, allowed);
  if (!allowed) return;
  for (const auto& part : told.parts) taken[{part.rule, part.key}] += told.cost;
}

// How many groups with several charges or limits were taken and refused.
struct Seen {
  size_t taken = 0, refused = 0;
};

void run(uint32_t seed, Seen& seen) {
  Dice dice(seed);
  request::Spaces spaces;
  policy::RuleSet rules;
  base::Diagnostics diagnostics;
  // A random list of limits may need more memory than a counter may have, which is an error: then
  // another policy is tried.
  std::string text;
  do {
    diagnostics.clear();
    rules = policy::RuleSet();
    text = random_policy(dice);
    policy::read_native(text, "f", spaces, rules, diagnostics);
  } while (has_errors(diagnostics));
  store::EmbeddedStore store(16 << 20, base::Hash(seed), spaces);

  std::vector<History> histories(threads);
  std::vector<std::thread> running;
  std::barrier begin(threads);
  for (size_t i = 0; i < threads; ++i)
    running.emplace_back([&, i] {
      begin.arrive_and_wait();
      ask(rules, store, seed * 100 + static_cast<uint32_t>(i), histories[i]);
    });
  for (std::thread& thread : running) thread.join();

  for (const History& history : histories)
    for (const Asked& asked : history.requests)
      ASSERT_EQ(asked.met, met_by(rules.native_rules(), asked)) << text;

  const auto order = Order(histories).find();
  ASSERT_TRUE(order) << "answers that no order explains\n" << text;
  Units taken;
  for (const Told* told : *order) {
    replay(*told, taken);
    if (testing::Test::HasFatalFailure()) return;
    if (told->parts.size() > 1 || told->parts.front().decisions.size() > 1)
      ++(told->allowed ? seen.taken : seen.refused);
  }

  // The store holds what the answers said.
  for (const auto& [counter, units] : taken) {
    const auto& [rule, key] = counter;
    request::Group group{.charge_first = 0, .charge_count = 1};
    request::Charge charge{.space = rule->space,
                           .key = key,
                           .cost = 0,
                           .limits = rule->limits,
                           .limits_id = rule->limits_id};
    std::vector<limit::Decision> decisions(rule->limits.size());
    store.apply({std::span(&group, 1), std::span(&charge, 1), decisions}, now);
    for (size_t slot = 0; slot < decisions.size(); ++slot) {
      const limit::Limit& limit = rule->limits[slot];
      if (limit.algorithm == Algorithm::unlimited) continue;
      EXPECT_LE(units, capacity(limit)) << rule->name;
      EXPECT_EQ(decisions[slot].remaining, capacity(limit) - units) << rule->name << text;
    }
  }
}

TEST(Groups, SeveralThreadsGetTheAnswersOfOne) {
  Seen seen;
  for (uint32_t seed = 1; seed <= 30; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    run(seed, seen);
    if (HasFatalFailure()) return;
  }
  EXPECT_GT(seen.taken, 10'000u);
  EXPECT_GT(seen.refused, 10'000u);
}

}  // namespace
}  // namespace sluice
