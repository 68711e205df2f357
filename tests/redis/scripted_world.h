// A server's store over a scripted cluster (scripted_cluster.h), with two actors whose counters are
// in different slots, of different nodes: `first` is settled before `second`. For one thread.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "redis/cluster_map.h"
#include "tests/redis/cluster_world.h"
#include "tests/redis/scripted_cluster.h"

namespace sluice::redis {

using Call = tests::ScriptedCluster::Call;
using Act = tests::ScriptedCluster::Act;
using Fate = tests::ScriptedCluster::Fate;

inline Options options_of(const tests::ScriptedCluster& cluster) {
  Options options;
  options.nodes.clear();
  for (size_t i = 0; i < cluster.size(); ++i)
    options.nodes.push_back({"127.0.0.1", cluster.port(i)});
  options.cluster = true;
  options.settles_across_slots = true;
  options.deadline = base::seconds(20);
  return options;
}

inline uint16_t slot_of_actor(const std::string& actor) {
  std::string tag;
  append_tag(tag, actor);
  return slot_of(tag);
}

class ScriptedWorld : public ClusterWorld {
 public:
  explicit ScriptedWorld(tests::ScriptedCluster& its_cluster)
      : ScriptedWorld(its_cluster, options_of(its_cluster)) {}
  ScriptedWorld(tests::ScriptedCluster& its_cluster, Options options)
      : ClusterWorld(std::move(options)), cluster(its_cluster) {
    load_undo(cluster.redis());
    for (int i = 0; second.empty(); ++i) {
      const std::string name = "actor" + std::to_string(i);
      const size_t node = cluster.owner_of(slot_of_actor(name));
      if (node == 0) first = name;
      if (node == 1 && !first.empty()) second = name;
    }
    first_slot = slot_of_actor(first);
    second_slot = slot_of_actor(second);
    for (const std::string& name : {first, second}) used(name);  // connects to its node
    cluster.take_calls();
  }

  // One charge of each actor, with one limit.
  std::vector<request::Charge> both(int64_t cost, const limit::Limit& of_first = many_an_hour,
                                    const limit::Limit& of_second = many_an_hour) {
    return {charge(first, of_first, request::Verb::take, cost),
            charge(second, of_second, request::Verb::take, cost)};
  }
  // What happens to the next `times` takes in that slot or, with `undo`, to the next calls that
  // take back there. All other calls are executed.
  void decide(uint16_t slot, bool undo, const Act& act, int times = 1) {
    cluster.decide([=, left = times](const Call& call) mutable {
      if (call.slot != slot || !(undo ? call.undo : call.takes) || left == 0) return Act{};
      --left;
      return act;
    });
  }
  // The error of a node that names the other one of two for the slot.
  Act names_other(const Call& call, const std::string& kind = "MOVED") const {
    return {Fate::error, kind + " " + std::to_string(call.slot) +
                             " 127.0.0.1:" + std::to_string(cluster.port(1 - call.node))};
  }
  int64_t left_taken() {
    return static_cast<int64_t>(metric("sluice_redis_left_taken_units_total"));
  }
  // So many redirects were of that kind: moved, ask, or given_up at the bound.
  int redirects(const std::string& kind) {
    return static_cast<int>(metric("sluice_redis_redirects_total{kind=\"" + kind + "\"}"));
  }
  // Takes turns until that many calls are held back.
  bool await_held(size_t count = 1) {
    return await([&] { return cluster.held() == count; });
  }
  template <class Condition>
  bool await(Condition&& condition) {
    const auto deadline = tests::soon();
    while (std::chrono::steady_clock::now() < deadline) {
      if (condition()) return true;
      turn();
    }
    return false;
  }

  tests::ScriptedCluster& cluster;
  std::string first, second;
  uint16_t first_slot = 0, second_slot = 0;
};

// How many of these calls take back.
inline size_t undos_of(const std::vector<Call>& calls) {
  size_t count = 0;
  for (const auto& call : calls) count += call.undo ? 1u : 0u;
  return count;
}

}  // namespace sluice::redis
