// One worker's connections to one Redis: one to its primary or, in Redis Cluster, one to each
// primary that it has needed so far. Belongs to the worker's thread, except `add_to`.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/time.h"
#include "net/loop.h"
#include "redis/async_connection.h"
#include "redis/topology.h"

namespace sluice::redis {

// A connection of one worker to one primary, with what the worker knows of that Redis. Belongs to
// the worker's thread; members that say so may be read by any thread.

// Does Redis support EXPIRE ... NX (from 7.0 on), which sets the expiry of a key without one? Until
// that is known, and if it does not, each count sets its key's expiry again.
enum class ExpireNx : uint8_t { unknown, asked, yes, no };

// Copies of sent commands, in order, for those that must be sent on because their slot has moved to
// another node. Allocates nothing once it has reached its largest size.
class SentOn {
 public:
  void push(std::string_view command) {
    bytes_ += command;
    sizes_.push(static_cast<uint32_t>(command.size()));
  }
  bool empty() const { return sizes_.empty(); }
  std::string_view front() { return std::string_view(bytes_).substr(at_, sizes_[0]); }
  void pop() {
    at_ += sizes_.pop();
    if (!sizes_.empty() && at_ < bytes_.size() / 2) return;
    bytes_.erase(0, at_);
    at_ = 0;
  }

 private:
  std::string bytes_;
  size_t at_ = 0;
  Ring<uint32_t> sizes_;
};

struct Link;

class LinkOwner {
 public:
  virtual ~LinkOwner() = default;
  // See AsyncConnection::Owner.
  virtual void on_answer(Link& link, const Sender& sender, Reply reply, std::string_view text) = 0;
  virtual bool on_late(Link& link, const Sender& sender) = 0;
  virtual void on_lost(Link& link, const Sender& sender) = 0;
  virtual void on_change(Link& link) = 0;
  virtual void on_news(Link& link, bool good, const std::string& text) = 0;
};

struct Link final : AsyncConnection::Owner {
  // The arguments outlive the link.
  Link(LinkOwner& its_owner, Topology& its_topology, std::shared_ptr<Endpoint> its_endpoint,
       net::Loop& loop, uint32_t its_id, uint64_t seed)
      : id(its_id),
        owner(its_owner),
        topology(its_topology),
        endpoint(std::move(its_endpoint)),
        connection(endpoint->options, topology.tls(), loop, *this, seed) {}
  void on_answer(const Sender& sender, Reply reply, std::string_view text) override {
    owner.on_answer(*this, sender, reply, text);
  }
  bool on_late(const Sender& sender) override { return owner.on_late(*this, sender); }
  void on_lost(const Sender& sender) override { owner.on_lost(*this, sender); }
  void on_change() override { owner.on_change(*this); }
  void on_news(bool good, const std::string& text) override { owner.on_news(*this, good, text); }
  std::vector<net::Address> addresses() override { return endpoint->resolver.addresses(); }

  // May a command be sent now? `takes_late`: one whose answer may be late, as no request waits for
  // it.
  bool takes() const { return connection.takes() && !connection.is_full(); }
  bool takes_late() const {
    return (connection.takes() || connection.is_up()) && !connection.is_full();
  }
  const std::string& host() const { return endpoint->options.nodes.front().host; }

  const uint32_t id;  // unique for the worker, never reused
  LinkOwner& owner;
  Topology& topology;
  const std::shared_ptr<Endpoint> endpoint;
  ExpireNx expire_nx = ExpireNx::unknown;
  bool looks = false;  // for commands that only read, which wait for no replica
  // its node is not a primary any more: it is removed once nothing is under way
  bool leaves = false;
  size_t paused = 0;  // answers of it that are followed after a pause
  SentOn sent_on;
  // Calls that take back, with the script's text, that have no answer yet: the node has the script
  // for what is sent behind one.
  uint32_t undo_texts = 0;
  AsyncConnection connection;
};

// Sums for metrics.
struct LinkSums {
  std::array<uint64_t, connection_states> states{};
  uint64_t connects = 0, losses = 0, wait_timeouts = 0;
};

// Whether a node can be asked: it has a link that is up; it has one that was lost or is silent.
struct NodeLinks {
  bool up = false, fails = false;
};

class Links {
 public:
  // The arguments outlive the links. `ids`: the counter that gives them their ids.
  Links(LinkOwner& owner, Topology& topology, net::Loop& loop, uint32_t& ids, uint64_t seed);

  Topology& topology() const { return topology_; }
  // The link to the primary; the second one, in Redis Cluster, to the primary of a slot. `looks`:
  // for commands that write nothing, so that they do not queue behind answers that wait for
  // replicas. Null: the primary is not known and is being looked for.
  Link* primary(bool looks = false);
  Link* of_slot(uint16_t slot, bool looks = false);
  // The link to a node to which one command is sent on.
  Link* of_node(const Node& node);
  // The link with that id; null: it is gone.
  Link* by_id(uint32_t id);

  bool is_idle() const;
  void step_back(base::Duration by);
  std::optional<base::Time> advance(base::Time now);

  // Any thread.
  void add_to(LinkSums& sums, CallDistribution& times) const;
  void add_to(std::map<std::string, NodeLinks>& by_name) const;

 private:
  void see_map();
  Link* at_place(size_t place, bool looks);
  Link* make(std::shared_ptr<Endpoint> endpoint, bool looks);
  void drop_those_that_left();

  LinkOwner& owner_;
  Topology& topology_;
  net::Loop& loop_;
  uint32_t& ids_;
  const uint64_t seed_;
  // grants wait for replicas, so reading commands have connections of their own
  const bool waits_;
  Link* fixed_ = nullptr;  // of a Redis whose nodes are fixed
  Link* fixed_looks_ = nullptr;
  uint64_t version_ = 0;
  std::shared_ptr<const ClusterMap> map_;
  // by `looks`, then by index in the map; null: not made yet
  std::array<std::vector<Link*>, 2> by_place_;
  bool some_leave_ = false;
  mutable std::mutex mutex_;  // guards changes of the list, and the members below
  std::vector<std::unique_ptr<Link>> links_;
  LinkSums gone_;
  CallDistribution gone_times_;
};

}  // namespace sluice::redis
