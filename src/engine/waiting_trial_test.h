// The trial of waiting_model_test.cc: random clients over a store that answers `later` at random,
// and a model that accounts for each unit. Single-threaded, except for the threads that
// waiting_world_test.h names.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "engine/waiting_world_test.h"
#include "tests/support/dice.h"
#include "tests/support/patience.h"

namespace sluice::engine::waiting_trial {

using limit::Algorithm;
using limit::Limit;
using request::Verb;
using sluice::tests::Dice;
using namespace tests;

// A window longer than the test, so used units stay used, also when the quota changes.
inline Limit window(int64_t quota) {
  return {Algorithm::fixed_window, quota, base::seconds(36'000'000), 0};
}
inline const Limit unlimited{Algorithm::unlimited, base::bounds::quota_max, {}, 0};
inline const Limit deny{Algorithm::deny, 0, {}, 0};

struct Counts {
  size_t granted = 0, late = 0, refused = 0, suspended = 0, lost = 0, gone = 0, stopped = 0;
  size_t lists = 0, listed = 0, held_back = 0, beside_lists = 0, left_lists = 0, set_back = 0;
  size_t expired = 0, interrupted = 0, did_not_fit = 0;
  void add(const Counts& other) {
    granted += other.granted, late += other.late, refused += other.refused;
    suspended += other.suspended, lost += other.lost, gone += other.gone, stopped += other.stopped;
    lists += other.lists, listed += other.listed, held_back += other.held_back;
    beside_lists += other.beside_lists, left_lists += other.left_lists;
    set_back += other.set_back;
    expired += other.expired, interrupted += other.interrupted, did_not_fit += other.did_not_fit;
  }
};

// What a trial has besides waiting requests.
struct Also {
  size_t clients = 6;
  bool lists = false, clock_steps = false;
  bool patience = false;  // some wait for a limited time, or are cancelled
  bool fair = false;      // reloads have rules with `fair_by`, and rules without
};

inline constexpr int64_t item_size = 5;

struct Trial {
  // `used_before`: how many units of each key of `pool` are used at the start.
  Trial(uint32_t seed, size_t seats, const Also& its_also = {}, const World::Make& make = {},
        int64_t used_before = 0)
      : also(its_also), dice(seed), world(seats, make), clients(also.clients) {
    ahead_us = 0;
    for (const char* key : {"a", "b", "c"}) used["native:pool:" + std::string(key)] = used_before;
    reload();
    wavering.on_lost = [this](const Wavering::Waiting& waiting) {
      if (!forgetting) return false;
      for (const std::string& counter : waiting.counters) used[counter] += waiting.cost;
      ++counts.lost;
      return true;
    };
    for (size_t i = 0; i < clients.size(); ++i) renew(i);
    waver();
  }
  ~Trial() {
    for (size_t i = 0; i < clients.size(); ++i) forget(i);
  }

  void waver() {
    wavering.settles = [this](size_t groups) { return dice(3) == 0 ? dice(groups + 1) : groups; };
    wavering.puts_off = [this] { return dice(4) == 0; };
  }
  void be_steady() {
    wavering.settles = [](size_t groups) { return groups; };
    wavering.puts_off = [] { return false; };
  }

  struct Request {
    size_t client = 0;
    std::string rule, key;
    Verb verb = Verb::take;
    int64_t cost = 0;
    // For a list: `item_changes` at its request, and its number among the client's requests.
    uint64_t asked_at = 0, number = 0;
    // For a wait: when it must end, in monotonic time.
    int64_t until_us = INT64_MAX;
    bool must_fit = false, interrupted = false;
  };
  // Requests without a reply, by tag.
  std::map<std::string, Request> open;

  Seat& seat_of(size_t client) { return *world.seats[client % world.seats.size()]; }
  void renew(size_t i) {
    clients[i] = std::make_unique<Client>();
    clients[i]->slow = also.lists && dice(2) == 0;
    last_list[i] = 0;
    clients[i]->on_reply = [this](const std::string& tag, const Reply& reply) {
      take_reply(tag, reply);
    };
  }
  static std::vector<std::string> counters_of(const Request& request) {
    if (request.rule == "pool") return {"native:pool:" + request.key};
    return {"native:first:" + request.key, "native:second:" + request.key};
  }
  void take_reply(const std::string& tag, const Reply& reply) {
    const auto at = open.find(tag);
    ASSERT_NE(at, open.end()) << tag;
    const Request request = at->second;
    open.erase(at);
    ASSERT_EQ(reply.error, "");
    ASSERT_TRUE(reply.matched) << request.rule << " " << request.key;
    if (request.verb == Verb::list) return take_list(request, reply);
    if (request.rule == "item") return take_item(request, reply);
    if (request.verb == Verb::put) {
      if (reply.counted)
        for (const auto& counter : counters_of(request)) used[counter] -= request.cost;
      else
        held[{request.rule, request.key}] += request.cost;  // an unlimited rule has no counter
      return;
    }
    if (reply.expired) {
      ASSERT_FALSE(reply.allowed);
      ASSERT_TRUE(request.interrupted || request.until_us <= now_us) << "before its time";
      ++(request.interrupted ? counts.interrupted : counts.expired);
      return;
    }
    if (request.must_fit && !reply.allowed && reply.counted && request.cost > reply.limit)
      ++counts.did_not_fit;
    (reply.allowed ? reply.delayed ? counts.late : counts.granted : counts.refused)++;
    if (!reply.allowed || !reply.counted) return;
    for (const auto& counter : counters_of(request)) used[counter] += request.cost;
    held[{request.rule, request.key}] += request.cost;
  }

  // The used units of an item over time: each change by its number in `item_changes`.
  using Past = std::vector<std::pair<uint64_t, int64_t>>;
  void take_item(const Request& request, const Reply& reply) {
    Past& past = items.try_emplace(request.key, Past{{0, 0}}).first->second;
    const int64_t before = past.back().second;
    int64_t after = before;
    if (request.verb == Verb::put)
      after = std::max<int64_t>(0, before - request.cost);
    else if (reply.allowed)
      after += request.cost;
    ASSERT_EQ(reply.remaining, item_size - after)
        << request.key << " " << name_of(request.verb) << " " << request.cost << " of " << before
        << (reply.allowed ? " allowed" : " refused") << " limit " << reply.limit;
    ASSERT_TRUE(request.verb == Verb::put || reply.allowed == (before + request.cost <= item_size));
    if (after != before) past.emplace_back(++item_changes, after);
  }
  // A list may be made, and each of its counters read, at any time until it is answered.
  void take_list(const Request& request, const Reply& reply) {
    EXPECT_LT(last_list[request.client], request.number) << "they are answered in order";
    last_list[request.client] = request.number;
    ++counts.lists;
    counts.listed += reply.listed.size();
    for (const auto& [wanted, other] : open)
      if (other.client == request.client && other.verb == Verb::wait) ++counts.beside_lists;
    std::map<std::string, int64_t> said;
    std::string last;
    for (const auto& [key, left] : reply.listed) {
      EXPECT_TRUE(said.emplace(key, item_size - left).second && last <= key);
      EXPECT_TRUE(key.starts_with(request.key) && items.contains(key)) << key;
      last = key;
    }
    for (const auto& [key, past] : items) {
      if (!key.starts_with(request.key)) continue;
      std::set<int64_t> were;
      for (const auto& [when, units] : past) {
        if (when <= request.asked_at) were.clear();
        were.insert(units);
      }
      const auto at = said.find(key);
      ASSERT_TRUE(were.contains(at == said.end() ? 0 : at->second))
          << key << ": " << (at == said.end() ? 0 : at->second);
    }
  }
  Wish item(size_t i, size_t kind) {
    Request request{.client = i, .rule = "item", .key = {}, .asked_at = item_changes};
    for (size_t n = dice(size_t{3}); n > 0; --n) request.key += static_cast<char>('a' + dice(3));
    request.verb = kind == 0 ? Verb::put : kind == 1 ? Verb::list : Verb::take;
    request.cost = 1 + dice(int64_t{3});
    request.number = ++tags;
    const std::string tag = std::to_string(request.number);
    open.emplace(tag, request);
    return {tag, "item", request.key, request.verb, request.cost};
  }
  bool has_lists(size_t i) { return seat_of(i).engine.has_lists(*clients[i]); }
  // The client sends no more and cancels its lists; its other requests are answered.
  void leave(size_t i) {
    if (clients[i]->leaving) return;
    clients[i]->leaving = true;
    counts.left_lists += std::erase_if(open, [&](const auto& one) {
      return one.second.client == i && one.second.verb == Verb::list;
    });
    seat_of(i).engine.drop_lists(*clients[i]);
  }

  void ask(size_t i) {
    Client& client = *clients[i];
    if (client.suspended || client.unsent || client.leaving) return;  // one batch at a time
    std::vector<Wish> wishes;
    // Sometimes more lists than a connection may have.
    const bool many = also.lists && dice(40) == 0;
    for (size_t n = many ? 2 * base::bounds::lists_per_connection_max : 1 + dice(size_t{4}); n > 0;
         --n) {
      if (also.lists && (many || dice(3) == 0)) {
        wishes.push_back(item(i, many && dice(9) > 0 ? 1 : dice(size_t{4})));
        continue;
      }
      Request request;
      request.client = i;
      request.rule = dice(4) == 0 ? "first" : "pool";
      request.key = std::string(1, static_cast<char>('a' + dice(3)));
      request.cost = 1 + dice(int64_t{3});
      const size_t kind = dice(size_t{10});
      request.verb = kind < 5 ? Verb::wait : kind < 8 ? Verb::take : Verb::put;
      int64_t& mine = held[{request.rule, request.key}];
      if (request.verb == Verb::put) {
        request.cost = std::min(request.cost, mine);
        if (request.cost == 0) continue;
        mine -= request.cost;  // units are put back once
      }
      Wish wish{{}, request.rule == "pool" ? "k" : "u", request.key, request.verb, request.cost};
      if (also.patience && request.verb == Verb::wait) {
        if (dice(2) == 0) wish.wait_at_most = {1 + dice(int64_t{5'000})};
        if (wish.wait_at_most.us > 0) request.until_us = now_us + wish.wait_at_most.us;
        wish.must_fit = request.must_fit = dice(2) == 0;
        if (request.must_fit && dice(4) == 0) wish.cost = request.cost = 20;  // above any limit
      }
      if (also.fair) wish.tenant = std::string(dice(size_t{4}), 't');
      wish.tag = std::to_string(++tags);
      open.emplace(wish.tag, request);
      wishes.push_back(wish);
    }
    if (wishes.empty()) return;
    seat_of(i).ask(client, wishes);
    counts.suspended += client.suspended ? 1 : 0;
    counts.held_back += many && client.suspended ? 1 : 0;
  }
  // Another client cancels this client's waits.
  void interrupt(size_t i) {
    for (auto& [tag, request] : open)
      if (request.client == i && request.verb == Verb::wait) request.interrupted = true;
    seat_of(i).engine.interrupt(*clients[i]);
  }
  void forget(size_t i) {
    forgetting = true;
    seat_of(i).engine.forget(*clients[i]);
    forgetting = false;
    std::erase_if(open, [&](const auto& one) {
      const Request& request = one.second;
      if (request.client != i) return false;
      if (request.verb == Verb::put) held[{request.rule, request.key}] += request.cost;
      return true;
    });
    ++counts.gone;
  }

  void reload() {
    for (int64_t& quota : quotas) quota = 3 + dice(int64_t{6});
    const auto rule = [&](const char* name, const char* entry, int64_t quota, const char* more) {
      return std::string("- { name: ") + name + ", match: { " + entry + ": '*' }, actor: " + entry +
             ", limit: { quota: " + std::to_string(quota) +
             ", window: 10000h, algorithm: fixed_window }" + more +
             (also.fair && dice(3) > 0 ? ", fair_by: tenant }\n" : " }\n");
    };
    ending = {world.now().us + soon_us()};
    world.reload("rules:\n" + rule("pool-ends", "k", quotas[3], "") +
                     rule("seen", "k", 2, ", mode: shadow") + rule("pool", "k", quotas[0], "") +
                     rule("first", "u", quotas[1], ", then: continue") +
                     rule("second", "u", quotas[2], ""),
                 1, ending,
                 also.lists ? "db: { inMemory: true }\nbuckets: { item: { size: " +
                                  std::to_string(item_size) + " } }\n"
                            : "");
  }
  // When the clock is set ahead these expire; when it is set back they are in force again.
  int64_t soon_us() { return dice(also.clock_steps && dice(2) == 0 ? 9'000'000 : int64_t{60'000}); }
  void override_some() {
    const std::string key(1, static_cast<char>('a' + dice(5)));  // no request has 'd' or 'e'
    // The rules `first` and `second` always keep a counter: their replies show one of two limits.
    const size_t kind = dice(size_t{6});
    const std::string rule = kind == 0 ? "first" : kind == 1 ? "second" : "pool";
    const std::pair place(rule, key);
    if (dice(3) == 0) {
      world.remove(rule, key);
      overridden.erase(place);
      return;
    }
    const size_t what = rule == "pool" ? dice(size_t{4}) : 3;
    const Limit limit = what == 0 ? unlimited : what == 1 ? deny : window(3 + dice(int64_t{9}));
    const base::Time until{dice(2) == 0 ? INT64_MAX : world.now().us + 1 + soon_us()};
    world.set(rule, key, {limit}, until);
    overridden[place] = {limit, until};
  }
  // The limit in force now: an override's or the rule's.
  Limit limit_of(const std::string& rule, const std::string& key) {
    const base::Time now = world.now();
    const auto at = overridden.find({rule, key});
    if (at != overridden.end() && now < at->second.second) return at->second.first;
    if (rule == "first") return window(quotas[1]);
    if (rule == "second") return window(quotas[2]);
    return window(now < ending ? quotas[3] : quotas[0]);
  }

  void step() {
    const size_t i = dice(clients.size());
    Seat& seat = *world.seats[dice(world.seats.size())];
    if (also.clock_steps && dice(30) == 0) {
      counts.set_back += ahead_us > 0 ? 1 : 0;
      return world.step_clock(ahead_us > 0 ? 0 : 1 + dice(int64_t{10'000'000}));
    }
    if (also.lists && dice(60) == 0) {
      if (dice(3) == 0) return leave(i);
      // All clients ask for a list at once: more lists can be read then than may be.
      for (size_t k = 0; k < clients.size(); ++k) {
        if (clients[k]->suspended || clients[k]->unsent || clients[k]->leaving) continue;
        seat_of(k).ask(*clients[k], {item(k, 1)});
      }
      return;
    }
    if (also.lists && dice(4) == 0) {
      if (clients[i]->unsent) return seat_of(i).drain(*clients[i]);
      while (dice(8) != 0 && seat.run_posted()) continue;
      return;
    }
    if (also.patience && dice(12) == 0) return interrupt(i);
    switch (dice(size_t{16})) {
      case 0:
        reload();
        break;
      case 1:
      case 2:
        override_some();
        break;
      case 3:
        seat.match_again();
        break;
      case 4:
        if (dice(4) != 0) break;
        forget(i);
        renew(i);
        break;
      case 5:
      case 6:
      case 7:
        if (wavering.asked() > 0) wavering.name(dice(wavering.asked()));
        break;
      case 8:
      case 9:
        seat.look(world.now());
        break;
      case 10:
        seat.run_posted();
        break;
      case 11:
        if (clients[i]->suspended && clients[i]->named) seat_of(i).resume(*clients[i]);
        break;
      case 12:
        now_us += dice(int64_t{3'000});
        break;
      default:
        ask(i);
    }
  }

  // Runs until only requests that lack units are left.
  void settle() {
    be_steady();
    for (auto& seat : world.seats) seat->match_again();
    if (also.clock_steps) now_us += base::seconds(1).us;  // every worker looks at the clock by then
    const auto deadline = sluice::tests::soon();
    for (bool busy = true; busy;) {
      busy = false;
      while (wavering.name(0)) busy = true;
      for (auto& seat : world.seats) {
        while (seat->look(world.now()) || seat->run_posted()) busy = true;
        if (seat->engine.held().later > 0) {
          now_us += 1'000;
          busy = true;
        }
      }
      for (size_t i = 0; i < clients.size(); ++i) {
        if (clients[i]->unsent) seat_of(i).drain(*clients[i]);
        const bool waits = clients[i]->suspended || has_lists(i);
        if (!waits) continue;
        busy = true;
        if (clients[i]->suspended && clients[i]->named)
          seat_of(i).resume(*clients[i]);
        else
          std::this_thread::yield();  // for the scanner's or a durable store's threads
      }
      ASSERT_LT(std::chrono::steady_clock::now(), deadline);
    }
    waver();
  }

  void check() {
    for (size_t i = 0; i < clients.size(); ++i) ASSERT_FALSE(has_lists(i));
    // The store has charged what the requests were granted.
    for (const auto& [counter, units] : used) {
      const std::string rest = counter.substr(counter.find(':') + 1);
      const size_t colon = rest.find(':');
      ASSERT_EQ(charged(rest.substr(0, colon), rest.substr(colon + 1)), units) << counter;
    }
    // A request without a reply waits, and each waiting group has an owner.
    size_t waiting = 0;
    for (const auto& [tag, request] : open) {
      ASSERT_EQ(request.verb, Verb::wait) << tag;
      ASSERT_GT(request.until_us, now_us) << tag << ": its time is over";
      ASSERT_FALSE(request.interrupted) << tag;
      ++waiting;
    }
    ASSERT_EQ(world.store.stats().waiting, waiting);
    size_t held_here = 0, at_ports = 0;
    for (auto& seat : world.seats) {
      ASSERT_EQ(seat->engine.held().batches, 0u);
      held_here += seat->engine.held().parked;
      at_ports += seat->engine.completions().parked();
    }
    ASSERT_EQ(held_here, waiting);
    ASSERT_EQ(at_ports, waiting);
    for (const char* key : {"a", "b", "c"}) {
      ASSERT_NO_FATAL_FAILURE(check_first("pool", key));
      ASSERT_NO_FATAL_FAILURE(check_first("first", key));
    }
  }
  int64_t charged(const std::string& rule, const std::string& key) {
    return world.used(rule, key,
                      limit_of(rule, key) == unlimited || limit_of(rule, key) == deny
                          ? window(quotas[0])
                          : limit_of(rule, key));
  }
  // The first request in the key's queue that could ever be granted does not fit now. In turn by
  // a value, one of those that are the first of theirs does not; over two counters, one of all.
  void check_first(const std::string& rule, const std::string& key) {
    struct Wanted {
      int64_t cost;
      uint64_t value;
    };
    std::map<uint64_t, Wanted> all_wanted;  // by arrival
    const std::string counter = "native:" + rule + ":" + key;
    for (const auto& [ticket, waiting] : wavering.parked()) {
      const auto& all = waiting.counters;
      if (std::find(all.begin(), all.end(), counter) != all.end() && is_waiting(ticket))
        all_wanted.emplace(waiting.arrival, Wanted{waiting.cost, waiting.fair_value});
    }
    std::vector<std::pair<Limit, int64_t>> limits = {{limit_of(rule, key), used[counter]}};
    if (rule == "first") limits.push_back({limit_of("second", key), used["native:second:" + key]});
    std::set<uint64_t> values;
    bool all_fit = true;
    std::string which;
    for (const auto& [arrival, wanted] : all_wanted) {
      const int64_t cost = wanted.cost;
      bool ever = true, fits = true;
      for (const auto& [limit, units] : limits) {
        ASSERT_NE(limit, unlimited);
        ASSERT_NE(limit, deny);  // else its group would have no counter
        ever &= cost <= limit.quota;
        fits &= units + cost <= limit.quota;
      }
      if (!ever || (rule == "pool" && !values.insert(wanted.value).second)) continue;
      all_fit &= fits;
      which += " " + std::to_string(cost);
      if (!also.fair) break;
    }
    ASSERT_FALSE(all_fit && !which.empty())
        << rule << " " << key << ":" << which << " units, and " << limits.front().second << " of "
        << limits.front().first.quota << " are used";
  }
  bool is_waiting(const std::tuple<store::CompletionQueue*, uint32_t, uint32_t>& ticket) const {
    for (const auto& seat : world.seats)
      if (&seat->engine.completions() == std::get<0>(ticket))
        return seat->engine.waits({std::get<1>(ticket), std::get<2>(ticket)});
    return false;
  }

  // Stops at any time, whatever is under way.
  void stop() {
    for (size_t i = 0; i < clients.size(); ++i) {
      if (clients[i]->suspended) ++counts.stopped;
      if (has_lists(i) && dice(2) == 0) leave(i);
      forget(i);
      clients[i]->suspended = nullptr;
      clients[i]->named = clients[i]->unsent = false;
    }
    ASSERT_TRUE(open.empty());
    settle();
    for (auto& seat : world.seats) {
      EXPECT_EQ(seat->engine.held(), Engine::Held());
      EXPECT_EQ(seat->engine.completions().parked(), 0u);
    }
    EXPECT_EQ(world.store.stats().waiting, 0u);
    ASSERT_NO_FATAL_FAILURE(check());
  }
  void run(int steps) {
    for (int i = 0; i < steps; ++i) {
      SCOPED_TRACE("step " + std::to_string(i));
      step();
      if (testing::Test::HasFatalFailure()) return;
      if (i % 25 != 24) continue;
      settle();
      if (testing::Test::HasFatalFailure()) return;
      check();
      if (testing::Test::HasFailure()) return;
    }
    for (int i = 0; i < 40; ++i) step();
    stop();
  }

  const Also also;
  Dice dice;
  Counts counts;
  World world;
  Wavering& wavering = world.store;
  std::vector<std::unique_ptr<Client>> clients;
  std::array<int64_t, 4> quotas{};
  base::Time ending{};
  std::map<std::pair<std::string, std::string>, std::pair<Limit, base::Time>> overridden;
  std::map<std::string, int64_t> used;                          // by stored name
  std::map<std::pair<std::string, std::string>, int64_t> held;  // units that may be put back
  uint64_t tags = 0;
  bool forgetting = false;
  std::map<std::string, Past> items;
  uint64_t item_changes = 0;
  std::map<size_t, uint64_t> last_list;  // the number of the last list answered, by client
};

}  // namespace sluice::engine::waiting_trial
