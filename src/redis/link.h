// A connection of one worker to one primary, with what the worker knows of that Redis. Belongs to
// the worker's thread; members that say so may be read by any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/time.h"
#include "net/loop.h"
#include "redis/async_connection.h"
#include "redis/topology.h"

namespace sluice::redis {

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

  // May a command be sent now? `takes_late`: one that may wait behind an overdue answer, as no
  // request waits for its own.
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

}  // namespace sluice::redis
