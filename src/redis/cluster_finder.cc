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

base::Result<ClusterFinder::View> ClusterFinder::ask(Topology& topology, const Node& node) {
  auto connected = topology.connect(node, topology.options(), redis_account);
  if (!connected) return std::move(connected).problem();
  BlockingConnection& line = **connected;
  View view;
  const Answer info = line.ask({"CLUSTER", "INFO"});
  if (is_error(info))
    return base::Problem{info ? name_of(node) + " says " + base::printable(text_of(*info), 256) +
                                    remedy_of(text_of(*info), redis_account)
                              : line.problem()};
  view.state = read_state(text_of(*info));
  Answer answer = line.ask({"CLUSTER", "SHARDS"});  // known from Redis 7.0 on
  auto map = answer ? read_shards(*answer, node.host, topology.options().tls) : std::nullopt;
  if (answer && !map) {
    answer = line.ask({"CLUSTER", "SLOTS"});
    if (answer) map = read_slots(*answer, node.host);
  }
  if (!map)
    return base::Problem{answer ? name_of(node) + " does not say which slots it knows of"
                                : line.problem()};
  view.map = *std::move(map);
  return view;
}

base::Result<ClusterMap> ClusterFinder::find(Topology& topology) {
  std::optional<View> best;
  base::Problem problem;  // of the last node that could not be asked
  size_t views = 0;
  std::vector<Node> bad;
  for (const Node& node : candidates(topology)) {
    if (views == views_wanted) break;
    auto view = ask(topology, node);
    if (!view) {
      bad.push_back(node);
      problem = std::move(view).problem();
      continue;
    }
    ++views;
    const auto rank = [](const View& of) { return std::pair(of.state.ok, of.state.epoch); };
    if (!best || rank(*view) > rank(*best)) best = *std::move(view);
  }
  bad_ = std::move(bad);
  is_well_ = best && best->state.ok && best->map.failed.empty();
  if (!best) return problem;
  if (best->map.primaries.empty()) return base::Problem{"no node has a slot"};
  best->map.is_down = !best->state.ok;
  return std::move(best->map);
}

}  // namespace sluice::redis
