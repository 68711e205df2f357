// Random takes, waits, puts, resets, cancels, changed limits and steps of time, against a model
// that looks at every queue from its head at each microsecond. Many requests wait in turn by a
// value (Charge::fair_value), which a reload may change. The store is called as a worker calls it:
// only after a wake, or at the time that it named. So an answer that is late, lost, given twice or
// out of order is noticed.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "limit/carry_list.h"
#include "limit/decide.h"
#include "limit/wide.h"
#include "store/asking_test.h"
#include "tests/support/dice.h"

namespace sluice::store::waiting_property_test {
namespace {

using base::Time;
using limit::State;
using limit::Wide;
using sluice::tests::Dice;
using namespace tests;

int64_t left_behind(int64_t remaining, Wide ahead) {
  if (remaining < 0) return remaining;
  return ahead >= remaining ? 0 : static_cast<int64_t>(remaining - ahead);
}

struct Model {
  struct Counter {
    bool there = false;
    std::vector<Limit> limits;
    std::vector<State> cells;
  };
  struct Waiting {
    uint32_t ticket;
    Part part;
    bool aside;
    uint64_t turn = 0;  // aside: that of its value, if it was the first of it
  };
  // Where a request stands among those that wait for a counter.
  struct Place {
    uint64_t arrival = UINT64_MAX, turn = 0;
  };
  struct Answer {
    uint32_t ticket;
    std::vector<Decision> decisions;
    friend bool operator==(const Answer& a, const Answer& b) {
      return a.ticket == b.ticket && a.decisions.size() == b.decisions.size() &&
             std::equal(a.decisions.begin(), a.decisions.end(), b.decisions.begin(),
                        [](const Decision& x, const Decision& y) {
                          return x.allowed == y.allowed && x.limit == y.limit &&
                                 x.remaining == y.remaining && x.reset_after == y.reset_after &&
                                 x.retry_after == y.retry_after;
                        });
    }
  };

  limit::CarryOver carry = limit::CarryOver::used;
  std::map<std::string, Counter> counters;
  std::map<uint64_t, Waiting> waiting;  // by number of arrival
  // When the turn of a counter's value comes that requests wait under.
  std::map<std::pair<std::string, uint64_t>, uint64_t> turns;
  std::vector<Answer> answers;
  uint64_t arrivals = 0;

  std::vector<State> load(const Part& part, Time now) const {
    std::vector<State> all(limit::cells(part.limits));
    const auto at = counters.find(part.key);
    if (at == counters.end() || !at->second.there) return all;
    const Counter& c = at->second;
    all.resize(limit::counter_cells_max);
    const auto count =
        c.limits == part.limits
            ? limit::drop_fresh(c.cells, c.limits, now, all.data())
            : limit::carry_over_list(c.cells, c.limits, part.limits, carry, now, all.data());
    all.resize(count.all);
    return all;
  }
  void store(const Part& part, const std::vector<State>& cells) {
    Counter& c = counters[part.key];
    if (!c.there && std::all_of(cells.begin(), cells.end(), [](auto& s) { return s == State{}; }))
      return;
    c = {true, part.limits, cells};
  }
  // The earliest request of a counter's value; 0: none waits.
  uint64_t front(const std::string& key, uint64_t value) const {
    for (const auto& [arrival, w] : waiting)
      if (!w.aside && w.part.key == key && w.part.fair_value == value) return arrival;
    return 0;
  }
  uint64_t turn_of(const Part& part, uint64_t arrival) const {
    if (front(part.key, part.fair_value) != arrival) return 0;
    return part.fair_value == 0 ? arrival : turns.at({part.key, part.fair_value});
  }
  // The request that is served next, by its turn and its arrival; 0: none waits.
  std::pair<uint64_t, uint64_t> first(const std::string& key) const {
    std::pair<uint64_t, uint64_t> least{};
    for (const auto& [arrival, w] : waiting) {
      if (w.aside || w.part.key != key) continue;
      const std::pair its(turn_of(w.part, arrival), arrival);
      if (its.first != 0 && (least.second == 0 || its < least)) least = its;
    }
    return least;
  }
  uint64_t turn_at(const Part& part, const Place& place) const {
    if (part.fair_value == 0) return place.arrival;
    const auto at = turns.find({part.key, part.fair_value});
    if (at == turns.end()) return place.turn != 0 ? place.turn : place.arrival;
    return place.turn != 0 ? std::min(place.turn, at->second) : at->second;
  }
  // What is served before a request at that place.
  Wide ahead(const Part& part, const Place& place) const {
    const uint64_t its_front = front(part.key, part.fair_value);
    const bool leads = its_front == 0 || its_front >= place.arrival;
    const auto next = first(part.key);
    if (place.arrival != UINT64_MAX && leads &&
        std::pair(turn_at(part, place), place.arrival) <= next)
      return 0;
    Wide units = 0;
    for (const auto& [arrival, w] : waiting)
      if (!w.aside && w.part.key == part.key &&
          (w.part.fair_value != part.fair_value || arrival < place.arrival))
        units += w.part.cost;
    return units;
  }
  void enter(const Place& place, uint32_t ticket, const Part& part) {
    const bool aside = never_fits(part);
    if (!aside && part.fair_value != 0) turns[{part.key, part.fair_value}] = turn_at(part, place);
    waiting.emplace(place.arrival, Waiting{ticket, part, aside, place.turn});
  }
  // Returns the turn that it would have elsewhere.
  uint64_t leave(uint64_t arrival, bool granted) {
    const Waiting w = waiting.at(arrival);
    const uint64_t turn = w.aside ? w.turn : turn_of(w.part, arrival);
    waiting.erase(arrival);
    if (w.aside || w.part.fair_value == 0) return turn;
    const std::pair value(w.part.key, w.part.fair_value);
    if (granted) turns[value] = ++arrivals;
    if (front(value.first, value.second) == 0) turns.erase(value);
    return turn;
  }
  static void close(const limit::Opened& counter, std::vector<State>& cells) {
    cells.resize(limit::counter_cells_max);
    cells.resize(counter.close(cells.data()).all);
  }
  // What each limit says to the cost if `units` are taken before it, and what would be left.
  bool decide(const Part& part, Wide units, Time now, std::vector<State>& next,
              std::vector<Decision>& decisions) const {
    const std::vector<State> state = load(part, now);
    limit::Opened before(state, part.limits), after(state, part.limits);
    decisions.clear();
    bool allowed = true;
    for (size_t i = 0; i < part.limits.size(); ++i) {
      const Limit& l = part.limits[i];
      const Decision there = limit::debt::peek(before.whole(i), l, now);
      Decision d = limit::debt::decide(after.whole(i), l, part.cost, now);
      if (part.cost > 0 && units + part.cost > there.remaining) d.allowed = false;
      allowed &= d.allowed;
      decisions.push_back(d);
    }
    if (allowed) {
      after.take_left_out(limit::all_of(part.limits), now,
                          std::vector(part.limits.size(), part.cost));
      close(after, next);
      return true;
    }
    for (size_t i = 0; i < part.limits.size(); ++i)
      decisions[i].remaining =
          limit::debt::decide(before.whole(i), part.limits[i], 0, now).remaining;
    close(before, next);
    return false;
  }
  // A group of takes that do not wait.
  bool take(const std::vector<Part>& parts, Time now, std::vector<Decision>& out,
            const Place& place) {
    bool allowed = true;
    std::vector<std::vector<State>> next(parts.size());
    std::vector<std::vector<Decision>> decisions(parts.size());
    for (size_t i = 0; i < parts.size(); ++i)
      allowed &= decide(parts[i], ahead(parts[i], place), now, next[i], decisions[i]);
    for (size_t i = 0; i < parts.size(); ++i) {
      if (!allowed) {
        // Nothing is taken, but the counter is stored under these limits from now on.
        const auto state = load(parts[i], now);
        limit::Opened counter(state, parts[i].limits);
        for (size_t l = 0; l < parts[i].limits.size(); ++l)
          decisions[i][l].remaining =
              limit::debt::decide(counter.whole(l), parts[i].limits[l], 0, now).remaining;
        close(counter, next[i]);
      }
      store(parts[i], next[i]);
      for (Decision& d : decisions[i]) {
        d.remaining = left_behind(d.remaining, ahead(parts[i], place));
        out.push_back(d);
      }
    }
    return allowed;
  }
  // Other limits may bring units back, so what waits is looked at again.
  void take_alone(const std::vector<Part>& parts, Time now, bool& allowed,
                  std::vector<Decision>& out) {
    allowed = take(parts, now, out, Place());
    for (const Part& part : parts) release(part.key, now);
  }
  static bool never_fits(const Part& part) {
    return std::any_of(part.limits.begin(), part.limits.end(),
                       [&](const Limit& l) { return part.cost > units_max(l); });
  }
  // True: taken at once.
  bool wait(uint32_t ticket, const Part& part, Time now, std::vector<Decision>& out,
            uint64_t& arrival) {
    Place place;
    std::pair<std::string, uint64_t> value;
    if (arrival != 0) {
      const Part& was = waiting.at(arrival).part;
      value = {was.key, was.fair_value};
      place = {arrival, leave(arrival, false)};
    }
    const bool taken = take({part}, now, out, place);
    if (taken && value.second != 0 && front(value.first, value.second) != 0)
      turns[value] = ++arrivals;
    if (!taken) {
      if (arrival == 0) place.arrival = arrival = ++arrivals;
      enter(place, ticket, part);
    }
    release(part.key, now);
    return taken;
  }
  void put(const Part& part, bool all, Time now) {
    const auto before = load(part, now);
    std::vector<State> state;
    limit::Opened counter(before, part.limits);
    for (size_t i = 0; i < part.limits.size(); ++i)
      limit::debt::put(counter.whole(i), part.limits[i], part.cost, all, now);
    all ? counter.forget_left_out() : counter.put_left_out(part.cost, limit::CarryOver::used, now);
    close(counter, state);
    if (all && first(part.key).second == 0) {
      counters[part.key].there = false;
    } else {
      store(part, state);
    }
    release(part.key, now);
  }
  void cancel(uint64_t arrival, Time now) {
    const std::string key = waiting.at(arrival).part.key;
    leave(arrival, false);
    release(key, now);
  }
  void release(const std::string& key, Time now) {
    for (uint64_t arrival = first(key).second; arrival != 0; arrival = first(key).second) {
      const Waiting& w = waiting.at(arrival);
      std::vector<State> next;
      Answer answer{w.ticket, {}};
      if (!decide(w.part, 0, now, next, answer.decisions)) return;
      store(w.part, next);
      answers.push_back(std::move(answer));
      leave(arrival, true);
    }
  }
};

struct Trial {
  Trial(uint32_t seed, limit::CarryOver carry) : dice(seed) {
    model.carry = carry;
    Space like;
    like.carry = carry;
    w.space = w.spaces.intern("run", "", like);
    // With `left` a counter that was forgotten differs from one that is full.
    sweeps = carry == limit::CarryOver::used;
    for (size_t key = 0; key < keys; ++key) change(key);
  }

  Limit random_limit() {
    const int64_t quota = 1 + dice(int64_t{8}), us = 1 + dice(int64_t{60});
    switch (dice(8)) {
      case 0:
        return fixed(quota);
      case 1:
        return window(quota, us);
      case 2:
        return {Algorithm::aligned_window, quota, {us}};
      case 3:
        return {Algorithm::sliding_window, quota, {us}};
      case 4:
        return {Algorithm::sliding_log, quota, {us}};
      case 5:
        return {Algorithm::concurrency, quota, {us}, us + dice(int64_t{20})};
      default:
        return bucket(1 + dice(int64_t{10}), quota, us);
    }
  }
  void change(size_t key) {
    limits[key].clear();
    for (size_t n = dice(3) == 0 ? 2 : 1; n > 0; --n) limits[key].push_back(random_limit());
  }
  Part random_part(size_t key) {
    return {std::to_string(key), dice(int64_t{6}) == 0 ? 0 : 1 + dice(int64_t{5}), limits[key],
            random_value(key)};
  }

  // Of the first counter none waits by a value, of the last one all do.
  uint64_t random_value(size_t key) { return dice(keys - 1) < key ? 1 + dice(uint64_t{3}) : 0; }

  void same(bool allowed, const Asked& asked, const std::vector<Decision>& expected) {
    ASSERT_EQ(asked.allowed(), allowed);
    ASSERT_EQ(asked.decisions.size(), expected.size());
    for (size_t i = 0; i < expected.size(); ++i) {
      ASSERT_EQ(asked[i].remaining, expected[i].remaining) << "limit " << i;
      ASSERT_EQ(asked[i].allowed, expected[i].allowed) << "limit " << i;
      if (allowed) {
        ASSERT_EQ(asked[i].reset_after, expected[i].reset_after);
      }
    }
    (allowed ? granted : refused)++;
  }

  void step() {
    const size_t key = dice(keys);
    std::vector<Decision> expected;
    switch (dice(12)) {
      case 0:
      case 1: {  // a take of one or two counters
        std::vector<Part> parts = {random_part(key)};
        if (dice(3) == 0) parts.push_back(random_part((key + 1) % keys));
        bool allowed = false;
        model.take_alone(parts, now, allowed, expected);
        same(allowed, w.ask(parts, now), expected);
        break;
      }
      case 2:
      case 3:
      case 4:
      case 5: {
        if (model.waiting.size() > 25) break;
        const Part part = random_part(key);
        uint64_t arrival = 0;
        const uint32_t ticket = next_ticket++;
        const bool allowed = model.wait(ticket, part, now, expected, arrival);
        const Asked asked = w.wait(ports[ticket % 2], ticket, {part}, now);
        same(allowed, asked, expected);
        ASSERT_EQ(asked.group.parked, !allowed);
        if (!allowed) {
          ASSERT_EQ(asked.group.arrival, arrival);
        }
        break;
      }
      case 6:
      case 7: {
        const Part part = random_part(key);
        model.put(part, false, now);
        ASSERT_TRUE(w.put({part}, now).allowed());
        break;
      }
      case 8: {
        if (dice(3) != 0) break;
        const Part part = random_part(key);
        model.put(part, true, now);
        w.put_all(part, now);
        break;
      }
      case 9: {
        if (model.waiting.empty()) break;
        auto at = model.waiting.begin();
        std::advance(at, dice(model.waiting.size()));
        const uint32_t ticket = at->second.ticket;
        model.cancel(at->first, now);
        ASSERT_TRUE(w.store.cancel(ports[ticket % 2].completions, {ticket, 0}, now));
        ++cancelled;
        break;
      }
      case 10:
        if (dice(8) == 0) reload();
        break;
      default:
        if (sweeps) w.store.sweep(now, 3'000);
    }
  }
  // Some limits change, and each waiting request is matched again under the new ones, in any order.
  void reload() {
    for (size_t key = 0; key < keys; ++key)
      if (dice(2) == 0) change(key);
    std::vector<std::pair<uint64_t, Model::Waiting>> all(model.waiting.begin(),
                                                         model.waiting.end());
    for (size_t i = all.size(); i > 1; --i) std::swap(all[i - 1], all[dice(i)]);
    for (auto& [arrival, waiting] : all) {
      Part part = waiting.part;
      const auto key = static_cast<size_t>(std::stoi(part.key));
      part.limits = limits[key];
      if (dice(4) == 0) part.fair_value = random_value(key);
      std::vector<Decision> expected;
      const uint32_t ticket = waiting.ticket;
      if (model.waiting.count(arrival) == 0) {
        // It was answered meanwhile, by units that an earlier request of this loop left.
        const bool seen = std::any_of(answers.begin(), answers.end(),
                                      [&](const auto& answer) { return answer.ticket == ticket; });
        EXPECT_TRUE(seen || w.wait(ports[ticket % 2], ticket, {part}, now, arrival).group.answered);
        continue;
      }
      uint64_t place = arrival;
      const bool allowed = model.wait(ticket, part, now, expected, place);
      const Asked asked = w.wait(ports[ticket % 2], ticket, {part}, now, arrival);
      ASSERT_FALSE(asked.group.answered);
      if (part.limits == waiting.part.limits && part.fair_value == waiting.part.fair_value) {
        // unchanged: `expected` does not apply
        ASSERT_TRUE(asked.group.parked && !allowed);
      } else {
        same(allowed, asked, expected);
      }
      ++asked_again;
      // The next waiting request is looked at by its worker, which is woken for it.
      do {
        look();
      } while (ports[0].wakes + ports[1].wakes > 0);
    }
  }
  // Calls the store like a worker: after a wake, or at the time that the store named.
  void look() {
    for (size_t p = 0; p < 2; ++p) {
      if (ports[p].wakes == 0 && (!timers[p] || timers[p]->us > now.us)) continue;
      ports[p].wakes = 0;
      timers[p] = w.store.advance(ports[p].completions, now);
      std::vector<Settled> settled;
      ports[p].completions.drain(settled);
      for (Settled& s : settled) answers.push_back({s.ticket.slot, std::move(s.decisions)});
    }
  }
  void compare() {
    do {
      look();
    } while (ports[0].wakes + ports[1].wakes > 0);
    const auto by_ticket = [](const auto& a, const auto& b) { return a.ticket < b.ticket; };
    std::sort(answers.begin(), answers.end(), by_ticket);
    std::sort(model.answers.begin(), model.answers.end(), by_ticket);
    ASSERT_EQ(answers, model.answers);
    late += answers.size();
    answers.clear();
    model.answers.clear();
  }
  void pass(int64_t us) {
    for (; us > 0; --us) {
      ++now.us;
      for (size_t key = 0; key < keys; ++key) model.release(std::to_string(key), now);
      ASSERT_NO_FATAL_FAILURE(compare());
    }
  }

  static constexpr size_t keys = 4;
  Dice dice;
  World w;
  Model model;
  Counting ports[2];
  std::optional<Time> timers[2];
  std::vector<Limit> limits[keys];
  std::vector<Model::Answer> answers;
  Time now{1'000'000};
  uint32_t next_ticket = 0;
  bool sweeps = false;
  size_t granted = 0, refused = 0, cancelled = 0, late = 0, asked_again = 0;
};

TEST(WaitingProperty, RandomSequencesMatchTheModel) {
  size_t granted = 0, refused = 0, cancelled = 0, late = 0, asked_again = 0;
  for (uint32_t seed = 1; seed <= 120; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Trial run(seed, seed % 2 == 0 ? limit::CarryOver::used : limit::CarryOver::left);
    for (int i = 0; i < 1'200; ++i) {
      SCOPED_TRACE("step " + std::to_string(i));
      run.step();
      if (testing::Test::HasFailure()) return;
      run.compare();
      ASSERT_EQ(run.w.store.stats().waiting, run.model.waiting.size());
      if (testing::Test::HasFailure()) return;
      if (run.dice(3) == 0) run.pass(run.dice(int64_t{12}));
      if (testing::Test::HasFailure()) return;
    }
    granted += run.granted, refused += run.refused, cancelled += run.cancelled, late += run.late,
        asked_again += run.asked_again;
  }
  EXPECT_GT(granted, 10'000u);
  EXPECT_GT(refused, 10'000u);
  EXPECT_GT(cancelled, 3'000u);
  EXPECT_GT(late, 5'000u);
  EXPECT_GT(asked_again, 3'000u);
}

}  // namespace
}  // namespace sluice::store::waiting_property_test
