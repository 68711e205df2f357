// A server that forgets spaces and lists of limits that nothing names any more, and one that never
// forgets: the same random script runs on both, over stores of any kind, and all replies are
// compared. Single-threaded, except for the threads of the stores.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "engine/waiting_world_test.h"
#include "live/live_policy.h"

namespace sluice::engine::tests {

using limit::Limit;
using request::Verb;

inline constexpr size_t seats_count = 2, clients_count = 6;
inline const std::vector<std::string> actors = {"a", "b", "c"};

// The engines, overrides and rules of a server. With a collector it forgets; without it keeps every
// space and list that it ever had.
struct Side {
  Side(bool collects, const World::Make& make) : world(seats_count, make) {
    for (size_t i = 0; i < clients_count; ++i) clients.push_back(std::make_unique<Client>());
    if (!collects) {
      forever.emplace(world.spaces);
      return;
    }
    collector.emplace(world.spaces, world.live, world.store,
                      [this](std::function<void()> done) { renewed = std::move(done); });
  }
  ~Side() {
    for (size_t i = 0; i < clients.size(); ++i) forget(i);
    for (const auto& [place, held] : overrides) world.overrides.remove(place.first, one(place));
    overrides.clear();
    world.seats.clear();
  }

  Seat& seat_of(size_t client) { return *world.seats[client % seats_count]; }
  void forget(size_t client) {
    seat_of(client).engine.forget(*clients[client]);
    clients[client]->suspended = nullptr;
    clients[client]->named = false;
  }
  void reload(const std::string& text) {
    world.reload(text);
    if (forever)
      for (const policy::Rule& rule : world.live.current()->rules->native_rules())
        forever->keep(rule);
    world.old.clear();  // an engine that still uses an old policy holds it
    match_again();
  }
  void end_rules() {
    world.live.exchange(std::make_shared<live::LivePolicy>(
        live::LivePolicy{std::make_shared<policy::RuleSet>(), 0, ++world.generation}));
    match_again();
  }
  void match_again() {
    for (auto& seat : world.seats) seat->match_again();
  }
  using Place = std::pair<uint64_t, std::string>;  // the rule's id and the actor
  static std::array<std::string, 1> one(const Place& place) { return {place.second}; }
  void set(const Place& place, const Limit& limit, base::Time until) {
    policy::Override made;
    made.rule = place.first;
    made.actor = {place.second};
    made.terms.id = 1 + place.first % 1'000 + place.second.size();
    made.terms.until = until;
    request::LimitsRef held = world.spaces.hold_limits({&limit, 1});
    if (forever) world.spaces.intern_limits({&limit, 1});
    made.terms.limits_id = held.id();
    made.terms.limits = world.spaces.limits(held.id());
    ASSERT_TRUE(world.overrides.set(made));
    overrides[place] = std::move(held);  // after the set: this lets go of the list before
    match_again();
  }
  void remove(const Place& place) {
    world.overrides.remove(place.first, one(place));
    overrides.erase(place);
    match_again();
  }
  void settle() {
    for (bool again = true; again;) {
      again = false;
      for (auto& seat : world.seats) again |= seat->look(world.now()) || seat->run_posted();
      for (size_t i = 0; i < clients.size(); ++i) {
        if (!clients[i]->suspended || !clients[i]->named) continue;
        again = true;
        seat_of(i).resume(*clients[i]);
      }
    }
  }

  struct Forever {
    explicit Forever(request::Spaces& its_spaces) : spaces(its_spaces) {}
    void keep(const policy::Rule& rule) {
      spaces.intern(rule.space->prefix, rule.space->suffix);
      spaces.intern_limits(rule.limits);
    }
    request::Spaces& spaces;
  };
  World world;
  std::optional<Forever> forever;
  std::vector<std::unique_ptr<Client>> clients;
  std::map<Place, request::LimitsRef> overrides;
  std::optional<live::LimitsCollector> collector;
  std::function<void()> renewed;  // to be called when the live policy was published again
};

// Runs the same script on both servers. A subclass says what happens to the stores meanwhile, and
// how to wait for a store that decides later.
struct Trial {
  // How long the windows of the limits are; with `endless` ones no time passes.
  enum class Windows : uint8_t { seconds, endless };

  // `make`: the store of the server that forgets, `other`: of the one that does not. `puts_off`:
  // the test has them answer `later` at random; not for stores that do so by themselves.
  Trial(uint32_t seed, const World::Make& make, const World::Make& other, bool puts_off = true,
        Windows its_windows = Windows::seconds)
      : dice(seed), windows(its_windows), forgets(true, make), remembers(false, other) {
    for (Side* side : sides) {
      if (!puts_off) break;
      const auto random = std::make_shared<std::mt19937>(seed);
      side->world.store.settles = [random](size_t groups) {
        return (*random)() % 4 == 0 ? (*random)() % (groups + 1) : groups;
      };
      side->world.store.puts_off = [random] { return (*random)() % 8 == 0; };
    }
  }
  Trial(uint32_t seed, const World::Make& make) : Trial(seed, make, make) {}
  virtual ~Trial() = default;

  virtual void after_step(bool /*may_have_asked*/) {}
  virtual void before_end() {}
  virtual void settle(Side& side) { side.settle(); }

  size_t roll(size_t sides_count) { return dice() % sides_count; }
  template <class Do>
  void both(Do&& act) {
    for (Side* side : sides) act(*side);
  }

  // Mostly a limit that was never used before.
  Limit limit() {
    static constexpr limit::Algorithm algorithms[] = {
        limit::Algorithm::fixed_window, limit::Algorithm::token_bucket,
        limit::Algorithm::sliding_log, limit::Algorithm::sliding_window};
    const limit::Algorithm algorithm = algorithms[roll(4)];
    const auto quota = static_cast<int64_t>(2 + roll(6));
    const int64_t ms = static_cast<int64_t>(1'000 + roll(60'000));
    return {algorithm, quota, base::milliseconds(windows == Windows::endless ? ms * 10'000 : ms),
            algorithm == limit::Algorithm::token_bucket ? quota : 0};
  }
  std::string rules() {
    std::string text = "rules:\n";
    for (size_t i = 0; i < 3; ++i) {
      const std::string name = roll(3) == 0
                                   ? "g" + std::to_string(generations) + "x" + std::to_string(i)
                                   : "r" + std::to_string(i);
      text += "- { name: " + name + ", match: { k" + std::to_string(i) + ": '*' }, actor: k" +
              std::to_string(i) + ", limits: [";
      const size_t count = 1 + roll(2);
      for (size_t j = 0; j < count; ++j) {
        const Limit one = limit();
        text += std::string(j > 0 ? ", " : "") + "{ quota: " + std::to_string(one.quota) +
                ", window: " + std::to_string(one.window.us / 1'000 * 2 + static_cast<int64_t>(j)) +
                "ms, algorithm: " + std::string(limit::name_of(one.algorithm)) + " }";
      }
      text += "], on_store_error: local }\n";
    }
    return text;
  }

  void change() {
    ++generations;
    const auto rules_now = forgets.world.live.current()->rules->native_rules();
    if (rules_now.empty() || roll(2) == 0) {
      rules_text = rules();
      return both([&](Side& side) { side.reload(rules_text); });
    }
    const Side::Place place(rules_now[roll(rules_now.size())].id, actors[roll(actors.size())]);
    if (roll(3) == 0) return both([&](Side& side) { side.remove(place); });
    const Limit one = limit();
    const base::Time until{roll(2) == 0 ? INT64_MAX
                                        : now_us + static_cast<int64_t>(roll(10'000'000))};
    both([&](Side& side) { side.set(place, one, until); });
    // Above 12 one is removed at random, as an operator removes overrides of rules that are gone.
    if (forgets.overrides.size() <= 12) return;
    const Side::Place other =
        std::next(forgets.overrides.begin(), static_cast<ptrdiff_t>(roll(forgets.overrides.size())))
            ->first;
    both([&](Side& side) { side.remove(other); });
  }
  void ask() {
    const size_t client = roll(clients_count);
    if (forgets.clients[client]->suspended) return;
    std::vector<Wish> wishes;
    const size_t count = 1 + roll(3);
    for (size_t i = 0; i < count; ++i) {
      static constexpr Verb verbs[] = {Verb::take, Verb::take, Verb::peek, Verb::put,
                                       Verb::wait, Verb::wait, Verb::wait};
      wishes.push_back({std::to_string(++tags), "k" + std::to_string(roll(3)),
                        actors[roll(actors.size())], verbs[roll(std::size(verbs))],
                        static_cast<int64_t>(1 + roll(3))});
    }
    both([&](Side& side) { side.seat_of(client).ask(*side.clients[client], wishes); });
    asked += count;
  }
  void collect() {
    if (forgets.renewed && roll(2) == 0) {
      // On both servers, as this matches waiting requests again.
      both([](Side& side) {
        side.world.live.renew();
        side.match_again();
      });
      std::exchange(forgets.renewed, nullptr)();
    }
    forgets.collector->force_step();
    // Of the table that the step has looked at.
    counters = std::max(counters, forgets.world.made->catalog().stats().counters);
  }
  // True: the step may have called the stores.
  bool step() {
    switch (roll(16)) {
      case 0:
      case 1:
        change();
        return true;
      case 2:
        if (windows == Windows::seconds) now_us += static_cast<int64_t>(roll(2'000'000));
        return false;
      case 3:
        both([](Side& side) { side.world.store.housekeep(side.world.now()); });
        return false;
      case 4:
        name_all();
        return false;
      case 5:
      case 6:
      case 7:
        both([&](Side& side) { settle(side); });
        return false;
      case 8:
        if (roll(4) == 0) {
          const size_t client = roll(clients_count);
          both([&](Side& side) { side.forget(client); });
        }
        return true;
      case 9:
      case 10:
        collect();
        return true;
      default:
        ask();
        return true;
    }
  }
  // Resumes every batch that was answered `later`.
  void name_all() {
    both([](Side& side) {
      while (side.world.store.name(0)) continue;
    });
  }
  // Makes requests without steps of time, so that counters have used units.
  void ask_some_more() {
    for (int i = 0; i < 40; ++i) {
      ask();
      name_all();
      both([&](Side& side) { settle(side); });
    }
    compare();
  }
  // Compares all replies of all clients, and the numbers of what the engines hold.
  void compare() {
    for (size_t i = 0; i < clients_count; ++i) {
      auto &a = forgets.clients[i]->replies, &b = remembers.clients[i]->replies;
      ASSERT_EQ(a.size(), b.size()) << "client " << i;
      for (const auto& [tag, reply] : a) {
        ASSERT_TRUE(b.contains(tag)) << tag;
        const Reply& other = b.at(tag);
        ASSERT_EQ(reply.allowed, other.allowed) << tag;
        ASSERT_EQ(reply.delayed, other.delayed) << tag;
        ASSERT_EQ(reply.limit, other.limit) << tag;
        ASSERT_EQ(reply.remaining, other.remaining) << tag;
        ASSERT_EQ(reply.error, other.error) << tag;
        late += reply.delayed ? 1 : 0;
      }
      a.clear();
      b.clear();
    }
    for (size_t i = 0; i < seats_count; ++i)
      ASSERT_EQ(forgets.world.seats[i]->engine.held(), remembers.world.seats[i]->engine.held());
  }
  void run(size_t until) {
    while (generations < until) {
      after_step(step());
      compare();
      if (testing::Test::HasFailure()) return;
      const size_t known = forgets.world.spaces.known(), ever = remembers.world.spaces.known();
      most = std::max(most, known);
      if (forgets.collector->rounds() == rounds) continue;
      // A round leaves what rules, overrides and counters name, and what was added since the round
      // before ended: with a store that has threads or a full disk, a round may last long. How many
      // counters there are is up to the disk's threads: a counter stays until it is committed.
      ASSERT_LE(known, named_max + counters + (ever - ever_after_round))
          << "generation " << generations;
      rounds = forgets.collector->rounds();
      ever_after_round = ever;
      counters = 0;
    }
  }
  void forget_clients() {
    for (size_t i = 0; i < clients_count; ++i) both([&](Side& side) { side.forget(i); });
  }
  // Removes everything that names a space or a list; then all of them must be forgotten.
  void end() {
    before_end();
    forget_clients();
    while (!forgets.overrides.empty()) {
      const Side::Place place = forgets.overrides.begin()->first;
      both([&](Side& side) { side.remove(place); });
    }
    both([&](Side& side) {
      side.end_rules();
      settle(side);
    });
    compare();
    now_us += base::seconds(windows == Windows::endless ? 10'000'000 : 1'000).us;
    request::Spaces& spaces = forgets.world.spaces;
    const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(120);
    const size_t of_store = forgets.world.of_store;
    while (spaces.known() > of_store && std::chrono::steady_clock::now() < until) {
      forgets.world.store.housekeep(forgets.world.now());
      collect();
      settle(forgets);
    }
    EXPECT_EQ(spaces.known_spaces(), of_store);
    EXPECT_EQ(spaces.known_lists(), of_store);
    std::printf(
        "%zu generations, %zu asked, %zu answered late, %lu rounds; known at most %zu, %zu "
        "where nothing is forgotten\n",
        generations, asked, late, static_cast<unsigned long>(forgets.collector->rounds()), most,
        remembers.world.spaces.known());
  }

  std::mt19937 dice;
  const Windows windows;
  Side forgets, remembers;
  std::array<Side*, 2> sides{&forgets, &remembers};
  static constexpr size_t named_max = 3 + 13;  // of spaces or lists: by 3 rules and 13 overrides
  size_t generations = 0, asked = 0, late = 0;
  size_t most = 0;              // spaces and lists known at one time
  uint64_t rounds = 0;          // of the collector, when one last ended
  size_t ever_after_round = 0;  // spaces and lists that there had been by then
  uint64_t counters = 0;        // the most since then, each of which names a space and a list
  uint64_t tags = 0;
  std::string rules_text;  // of the live rules
};

}  // namespace sluice::engine::tests
