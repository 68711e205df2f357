#include "redis/cluster_finder.h"

#include <hiredis/hiredis.h>

#include <algorithm>
#include <utility>

#include "base/printable.h"
#include "redis/errors.h"

namespace sluice::redis {

namespace {

// So many nodes are asked, as one may be cut off from the others and not know it yet.
constexpr size_t views_wanted = 3;

}  // namespace

std::vector<Node> ClusterFinder::candidates(const Topology& topology) const {
  std::vector<Node> all = topology.map()->primaries;
  const std::vector<Node>& named = topology.options().nodes;
  all.insert(all.end(), named.begin(), named.end());
  std::vector<Node> distinct;
  for (Node& node : all)
    if (std::ranges::find(distinct, node) == distinct.end()) distinct.push_back(std::move(node));
  // Nodes that answered the last time come first.
  std::stable_sort(distinct.begin(), distinct.end(), [this](const Node& a, const Node& b) {
    const auto is_bad = [this](const Node& node) {
      return std::ranges::find(bad_, node) != bad_.end();
    };
    return !is_bad(a) && is_bad(b);
  });
  return distinct;
}

std::optional<ClusterFinder::View> ClusterFinder::ask(Topology& topology, const Node& node,
                                                      std::string& problem) {
  const auto line = topology.connect(node, topology.options(), redis_account, problem);
  if (!line) return std::nullopt;
  View view;
  const Answer info = line->ask({"CLUSTER", "INFO"});
  if (is_error(info)) {
    problem = info ? name_of(node) + " says " + base::printable(text_of(*info), 256) +
                         remedy_of(text_of(*info), redis_account)
                   : line->problem();
    return std::nullopt;
  }
  view.state = read_state(text_of(*info));
  Answer answer = line->ask({"CLUSTER", "SHARDS"});  // known from Redis 7.0 on
  auto map = answer ? read_shards(*answer, node.host, topology.options().tls) : std::nullopt;
  if (answer && !map) {
    answer = line->ask({"CLUSTER", "SLOTS"});
    if (answer) map = read_slots(*answer, node.host);
  }
  if (!map) {
    problem = answer ? name_of(node) + " does not say which slots it knows of" : line->problem();
    return std::nullopt;
  }
  view.map = *std::move(map);
  return view;
}

std::optional<ClusterMap> ClusterFinder::find(Topology& topology, std::string& problem) {
  std::optional<View> best;
  size_t views = 0;
  std::vector<Node> bad;
  for (const Node& node : candidates(topology)) {
    if (views == views_wanted) break;
    std::string its_problem;
    auto view = ask(topology, node, its_problem);
    if (!view) {
      bad.push_back(node);
      problem = std::move(its_problem);
      continue;
    }
    ++views;
    const auto rank = [](const View& of) { return std::pair(of.state.ok, of.state.epoch); };
    if (!best || rank(*view) > rank(*best)) best = std::move(view);
  }
  bad_ = std::move(bad);
  if (!best) return std::nullopt;
  if (best->map.primaries.empty()) {
    problem = "no node has a slot";
    return std::nullopt;
  }
  return std::move(best->map);
}

}  // namespace sluice::redis
