#include "redis/links.h"

#include <algorithm>
#include <utility>

namespace sluice::redis {

Links::Links(LinkOwner& owner, Topology& topology, net::Loop& loop, uint32_t& ids, uint64_t seed)
    : owner_(owner),
      topology_(topology),
      loop_(loop),
      ids_(ids),
      seed_(seed),
      waits_(topology.options().wait_replicas > 0),
      version_(topology.version()),
      map_(topology.map()) {
  if (topology_.is_fixed()) fixed_ = make(topology_.fixed(), false);
  fixed_looks_ = topology_.is_fixed() && waits_ ? make(topology_.fixed(), true) : fixed_;
  for (auto& places : by_place_) places.assign(map_->primaries.size(), nullptr);
}

Link* Links::make(std::shared_ptr<Endpoint> endpoint, bool looks) {
  const uint32_t id = ++ids_;
  auto link = std::make_unique<Link>(owner_, topology_, std::move(endpoint), loop_, id, seed_ + id);
  Link* const added = link.get();
  added->looks = looks;
  const Options& options = topology_.options();
  if (waits_ && !looks)
    added->connection.wait_for_replicas(options.wait_replicas, options.wait_timeout);
  {
    const std::lock_guard lock(mutex_);
    links_.push_back(std::move(link));
  }
  owner_.on_change(*added);  // its `advance` connects it
  return added;
}

// A node that is not a primary any more gets no more commands; those under way are answered.
void Links::see_map() {
  if (topology_.version() == version_) [[likely]]
    return;
  version_ = topology_.version();
  map_ = topology_.map();
  for (auto& places : by_place_) places.assign(map_->primaries.size(), nullptr);
  for (const auto& link : links_) {
    const auto at = std::ranges::find(map_->primaries, link->endpoint->options.nodes.front());
    link->leaves = at == map_->primaries.end();
    some_leave_ |= link->leaves;
    if (link->leaves) continue;
    by_place_[link->looks ? 1 : 0][static_cast<size_t>(at - map_->primaries.begin())] = link.get();
  }
}

Link* Links::at_place(size_t place, bool looks) {
  looks = looks && waits_;
  Link*& link = by_place_[looks ? 1 : 0][place];
  if (link == nullptr) link = make(topology_.endpoint(map_->primaries[place]), looks);
  if (!link->connection.takes() && !link->connection.is_behind()) topology_.want_look();
  return link;
}

Link* Links::primary(bool looks) {
  if (fixed_ != nullptr) [[likely]]
    return looks ? fixed_looks_ : fixed_;
  see_map();
  if (!map_->primaries.empty()) return at_place(0, looks);
  topology_.want_look();
  return nullptr;
}

Link* Links::of_slot(uint16_t slot, bool looks) {
  see_map();
  if (!map_->owners.empty() && map_->owners[slot] != ClusterMap::no_owner) [[likely]]
    return at_place(map_->owners[slot], looks);
  topology_.want_look();
  return nullptr;
}

Link* Links::of_node(const Node& node) {
  see_map();
  for (const auto& link : links_) {
    if (link->looks || link->endpoint->options.nodes.front() != node) continue;
    link->leaves = false;
    return link.get();
  }
  // A primary's is that of its slots as well.
  const auto at = std::ranges::find(map_->primaries, node);
  if (at != map_->primaries.end())
    return at_place(static_cast<size_t>(at - map_->primaries.begin()), false);
  return make(topology_.endpoint(node), false);
}

Link* Links::by_id(uint32_t id) {
  const auto at = std::ranges::find(links_, id, [](const auto& link) { return link->id; });
  return at == links_.end() ? nullptr : at->get();
}

bool Links::is_idle() const {
  return std::ranges::all_of(links_,
                             [](const auto& link) { return link->connection.under_way() == 0; });
}

void Links::step_back(base::Duration by) {
  for (const auto& link : links_) link->connection.step_back(by);
}

void Links::drop_those_that_left() {
  const auto goes = [](const auto& link) {
    return link->leaves && link->connection.under_way() == 0 && link->paused == 0;
  };
  const std::lock_guard lock(mutex_);
  for (const auto& link : links_) {
    if (!goes(link)) continue;
    gone_.connects += link->connection.connects();
    gone_.losses += link->connection.losses();
    gone_.wait_timeouts += link->connection.wait_timeouts();
    link->connection.call_times().add_to(gone_times_);
  }
  std::erase_if(links_, goes);
  some_leave_ = std::ranges::any_of(links_, [](const auto& link) { return link->leaves; });
}

std::optional<base::Time> Links::advance(base::Time now) {
  see_map();
  int64_t next_us = INT64_MAX;
  for (size_t i = 0; i < links_.size(); ++i)
    if (const auto next = links_[i]->connection.advance(now)) next_us = std::min(next_us, next->us);
  if (some_leave_) drop_those_that_left();
  if (next_us == INT64_MAX) return std::nullopt;
  return base::Time{next_us};
}

void Links::add_to(LinkSums& sums, CallDistribution& times) const {
  const std::lock_guard lock(mutex_);
  for (const auto& link : links_) {
    ++sums.states[static_cast<size_t>(link->connection.state())];
    sums.connects += link->connection.connects();
    sums.losses += link->connection.losses();
    sums.wait_timeouts += link->connection.wait_timeouts();
    link->connection.call_times().add_to(times);
  }
  sums.connects += gone_.connects;
  sums.losses += gone_.losses;
  sums.wait_timeouts += gone_.wait_timeouts;
  for (size_t i = 0; i < times.counts.size(); ++i) times.counts[i] += gone_times_.counts[i];
  times.sum += gone_times_.sum;
}

void Links::add_to(std::map<std::string, NodeLinks>& by_name) const {
  const std::lock_guard lock(mutex_);
  for (const auto& link : links_) {
    NodeLinks& its = by_name[name_of(link->endpoint->options.nodes.front())];
    const ConnectionState state = link->connection.state();
    its.up |= state == ConnectionState::up;
    // A link that is being connected for the first time is neither.
    its.fails |= state == ConnectionState::silent || link->connection.losses() > 0;
  }
}

}  // namespace sluice::redis
