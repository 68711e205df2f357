// A server's store over a Redis Cluster of the test, or over a Redis behind sentinels, with a
// ledger of what was granted. For one thread.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "metrics/page.h"
#include "redis/scripts.h"
#include "tests/redis/store_world.h"
#include "tests/support/redis_cluster.h"

namespace sluice::redis {

inline const limit::Limit many_an_hour{limit::Algorithm::fixed_window, 1'000'000,
                                       base::seconds(3'600), 0};

// Redis has the script that takes back. Without it the first undo is executed one round trip later,
// behind what the test sends next.
inline void load_undo(const tests::RedisServer& redis) {
  redis.client()({"SCRIPT", "LOAD", Scripts().undo().text});
}
inline void load_undo(tests::RedisCluster& cluster) {
  for (size_t i = 0; i < cluster.size(); ++i) load_undo(cluster.node(i));
}

class ClusterWorld : public StoreWorld {
 public:
  static Options options_for(const tests::RedisCluster& cluster) {
    Options options;
    options.nodes.clear();
    for (const std::string& address : cluster.addresses())
      options.nodes.push_back(
          {"127.0.0.1", static_cast<uint16_t>(std::stoi(address.substr(address.find(':') + 1)))});
    options.cluster = true;
    options.deadline = base::seconds(20);
    return options;
  }

  explicit ClusterWorld(Options options) : StoreWorld(std::move(options)) {}

  request::Charge charge(const std::string& key, const limit::Limit& limit = many_an_hour,
                         request::Verb verb = request::Verb::take, int64_t cost = 1,
                         const std::string& space = "native:rule:",
                         request::KeyEncoding encoding = request::KeyEncoding::own) {
    request::Space like;
    like.encoding = encoding;
    request::Charge charge;
    charge.space = spaces.intern(space, "", like);
    charge.key = keys_.emplace_back(key);
    charge.verb = verb;
    if (verb == request::Verb::count) charge.counts = 1;
    charge.cost = cost;
    const limit::Limit& kept = limits_.emplace_back(limit);
    charge.limits = {&kept, 1};
    charge.limits_id = spaces.intern_limits({&kept, 1});
    return charge;
  }

  // Settles one group once, whatever its result is.
  request::Group settle(std::vector<request::Charge> charges) {
    std::vector<request::Group> groups = {{.charge_count = static_cast<uint32_t>(charges.size())}};
    decisions.clear();
    EXPECT_TRUE(StoreWorld::ask(groups, charges, decisions, now()));
    return groups[0];
  }
  // Takes one unit of each actor in one batch, and notes in the ledger what was granted. Returns
  // how many takes had an error.
  size_t take_of(const std::vector<std::string>& names) {
    std::vector<request::Group> groups;
    std::vector<request::Charge> charges;
    for (const std::string& name : names) {
      groups.push_back({.charge_first = static_cast<uint32_t>(charges.size()),
                        .charge_count = 1,
                        .may_fail = true});
      charges.push_back(charge(name));
    }
    EXPECT_TRUE(StoreWorld::ask(groups, charges, decisions, clock.now()));
    size_t errors = 0;
    for (size_t i = 0; i < groups.size(); ++i) {
      errors += groups[i].error != request::Error::none ? 1u : 0u;
      if (groups[i].error == request::Error::none && groups[i].allowed) ++granted[names[i]];
      if (groups[i].error != request::Error::none) ++unknown[names[i]];
    }
    forget_names();
    return errors;
  }
  // The units that the actor's counter has left. Empty if there was no answer in time.
  std::optional<int64_t> left(const std::string& name, const limit::Limit& limit) {
    const auto deadline = tests::soon();
    while (std::chrono::steady_clock::now() < deadline) {
      const request::Group group = settle({charge(name, limit, request::Verb::peek, 0)});
      if (group.error == request::Error::none) return decisions[0].remaining;
      turn();
    }
    return std::nullopt;
  }
  // The units that the actor's counter lacks. -1 if there was no answer in time.
  int64_t used(const std::string& name) {
    const auto has = left(name, many_an_hour);
    return has ? many_an_hour.quota - *has : -1;
  }
  // Where ledger and counters differ. Empty if they are equal.
  std::string compare() {
    std::string wrong;
    for (const auto& [name, units] : granted)
      if (const int64_t has = used(name); has != units)
        wrong += name + " granted " + std::to_string(units) + " has " + std::to_string(has) + "; ";
    return wrong;
  }
  double metric(const std::string& name) {
    metrics::Page page;
    store().collect(page);
    const std::string text = "\n" + page.text();
    const size_t at = text.find("\n" + name + " ");
    return at == std::string::npos ? -1 : std::stod(text.substr(at + name.size() + 2));
  }
  void forget_names() {
    keys_.clear();
    limits_.clear();
  }

  std::vector<limit::Decision> decisions;
  // The ledger, by actor: units granted, and takes that had an error.
  std::map<std::string, int64_t> granted, unknown;

 private:
  std::deque<std::string> keys_;
  std::deque<limit::Limit> limits_;
};

inline std::vector<std::string> names(size_t count) {
  std::vector<std::string> all;
  for (size_t i = 0; i < count; ++i) all.push_back("actor" + std::to_string(i));
  return all;
}

}  // namespace sluice::redis
