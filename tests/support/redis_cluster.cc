#include "tests/support/redis_cluster.h"

#include <algorithm>
#include <chrono>
#include <stdexcept>
#include <thread>

#include "tests/support/comes.h"
#include "tests/support/patience.h"

namespace sluice::tests {

namespace {

constexpr size_t slots = 16'384;

RedisReply expect_ok(RedisReply reply, const std::string& what) {
  if (reply.is_error()) throw std::runtime_error(what + ": " + reply.text);
  return reply;
}

}  // namespace

std::vector<std::string> RedisCluster::settings_for() const {
  const std::string number = std::to_string(nodes_.size());
  std::vector<std::string> words{"--cluster-enabled",
                                 "yes",
                                 "--cluster-config-file",
                                 folder_.path() + "/nodes-" + number,
                                 "--cluster-port",
                                 std::to_string(free_port()),
                                 "--cluster-node-timeout",
                                 std::to_string(node_timeout_ms_),
                                 "--cluster-allow-replica-migration",
                                 "no",
                                 "--cluster-replica-validity-factor",
                                 "0",
                                 "--repl-diskless-sync-delay",
                                 "0"};
  words.insert(words.end(), settings_.begin(), settings_.end());
  return words;
}

RedisCluster::RedisCluster(const Options& options)
    : settings_(options.settings), node_timeout_ms_(options.node_timeout_ms) {
  const size_t count = options.primaries * (1 + options.replicas);
  for (size_t i = 0; i < count; ++i) {
    nodes_.push_back(std::make_unique<RedisServer>(settings_for()));
    runs_.push_back(true);
  }
  for (size_t i = 0; i < count; ++i) {
    auto client = nodes_[i]->client();
    client({"CLUSTER", "SET-CONFIG-EPOCH", std::to_string(i + 1)});
    if (i < options.primaries) {
      const size_t first = slots * i / options.primaries;
      const size_t last = slots * (i + 1) / options.primaries - 1;
      expect_ok(client({"CLUSTER", "ADDSLOTSRANGE", std::to_string(first), std::to_string(last)}),
                "addslots");
    }
    const auto info = nodes_[0]->client()({"CONFIG", "GET", "cluster-port"});
    if (i > 0)
      expect_ok(client({"CLUSTER", "MEET", "127.0.0.1", std::to_string(nodes_[0]->port()),
                        info.list.at(1).text}),
                "meet");
  }
  await_known(count);
  for (size_t i = options.primaries; i < count; ++i) {
    const size_t primary = (i - options.primaries) / options.replicas;
    const std::string id = id_of(primary);
    await("a replica does not know its primary", [&] {
      return !nodes_[i]->client()({"CLUSTER", "REPLICATE", id}).is_error();
    });
    await("a replica does not follow", [&] {
      return nodes_[i]->client()({"INFO", "replication"}).text.find("master_link_status:up") !=
             std::string::npos;
    });
  }
  await_ok();
}

std::vector<std::string> RedisCluster::addresses() const {
  std::vector<std::string> all;
  for (const auto& node : nodes_) all.push_back(node->address());
  return all;
}

size_t RedisCluster::add_node() {
  nodes_.push_back(std::make_unique<RedisServer>(settings_for()));
  runs_.push_back(true);
  const auto info = nodes_[0]->client()({"CONFIG", "GET", "cluster-port"});
  expect_ok(nodes_.back()->client()({"CLUSTER", "MEET", "127.0.0.1",
                                     std::to_string(nodes_[0]->port()), info.list.at(1).text}),
            "meet");
  await_known(nodes_.size());
  await_ok();
  return nodes_.size() - 1;
}

void RedisCluster::await_known(size_t count) {
  await("nodes do not meet", [&] {
    return std::ranges::all_of(nodes_, [&](const auto& node) {
      const std::string known = node->client()({"CLUSTER", "NODES"}).text;
      return static_cast<size_t>(std::ranges::count(known, '\n')) == count &&
             known.find("handshake") == std::string::npos;
    });
  });
}

std::string RedisCluster::id_of(size_t i) {
  return nodes_[i]->client()({"CLUSTER", "MYID"}).text;
}

uint16_t RedisCluster::slot_of(const std::string& key) {
  return static_cast<uint16_t>(nodes_[0]->client()({"CLUSTER", "KEYSLOT", key}).number);
}

size_t RedisCluster::owner_of(uint16_t slot) {
  for (size_t i = 0; i < nodes_.size(); ++i) {
    const auto owner = runs_[i] ? owner_seen_by(i, slot) : std::nullopt;
    if (owner) return *owner;
  }
  throw std::runtime_error("no node has slot " + std::to_string(slot));
}

std::optional<size_t> RedisCluster::owner_seen_by(size_t i, uint16_t slot) {
  for (const RedisReply& range : nodes_[i]->client()({"CLUSTER", "SLOTS"}).list) {
    if (slot < range.list.at(0).number || slot > range.list.at(1).number) continue;
    const auto port = static_cast<uint16_t>(range.list.at(2).list.at(1).number);
    const auto at = std::ranges::find(nodes_, port, [](const auto& n) { return n->port(); });
    if (at != nodes_.end()) return static_cast<size_t>(at - nodes_.begin());
  }
  return std::nullopt;
}

void RedisCluster::begin_move(uint16_t slot, size_t from, size_t to) {
  const std::string number = std::to_string(slot);
  expect_ok(nodes_[to]->client()({"CLUSTER", "SETSLOT", number, "IMPORTING", id_of(from)}), "to");
  expect_ok(nodes_[from]->client()({"CLUSTER", "SETSLOT", number, "MIGRATING", id_of(to)}), "from");
}

void RedisCluster::move_keys(uint16_t slot, size_t from, size_t to) {
  auto client = nodes_[from]->client();
  for (;;) {
    const auto keys = client({"CLUSTER", "GETKEYSINSLOT", std::to_string(slot), "100"});
    if (keys.list.empty()) return;
    std::vector<std::string> words{
        "MIGRATE", "127.0.0.1", std::to_string(nodes_[to]->port()), "", "0", "5000", "KEYS"};
    for (const RedisReply& key : keys.list) words.push_back(key.text);
    expect_ok(client(words), "migrate");
  }
}

void RedisCluster::end_move(uint16_t slot, size_t, size_t to) {
  const std::string number = std::to_string(slot), id = id_of(to);
  expect_ok(nodes_[to]->client()({"CLUSTER", "SETSLOT", number, "NODE", id}), "node");
  // Told again until all agree: what a node gossips of an epoch that the new owner does not know
  // yet may take the slot from it again.
  await("the nodes do not agree on a slot", [&] {
    bool agree = true;
    for (size_t i = 0; i < nodes_.size(); ++i)
      if (runs_[i]) nodes_[i]->client()({"CLUSTER", "SETSLOT", number, "NODE", id});
    for (size_t i = 0; i < nodes_.size(); ++i) agree &= !runs_[i] || owner_seen_by(i, slot) == to;
    return agree;
  });
}

void RedisCluster::move_slot(uint16_t slot, size_t from, size_t to) {
  begin_move(slot, from, to);
  move_keys(slot, from, to);
  end_move(slot, from, to);
}

RedisReply RedisCluster::at_owner(const std::vector<std::string>& words, const std::string& key) {
  return nodes_[owner_of(slot_of(key))]->client()(words);
}

void RedisCluster::await_ok() {
  await("the cluster is not ok", [&] {
    for (size_t i = 0; i < nodes_.size(); ++i) {
      if (!runs_[i]) continue;
      const std::string info = nodes_[i]->client()({"CLUSTER", "INFO"}).text;
      if (info.find("cluster_state:ok") == std::string::npos ||
          info.find("cluster_slots_ok:16384") == std::string::npos)
        return false;
    }
    return true;
  });
}

void RedisCluster::stop(size_t i) {
  nodes_[i]->stop();
  runs_[i] = false;
}

void RedisCluster::start(size_t i) {
  nodes_[i]->start();
  runs_[i] = true;
}

}  // namespace sluice::tests
