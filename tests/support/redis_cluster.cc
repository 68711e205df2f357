#include "tests/support/redis_cluster.h"

#include <algorithm>
#include <chrono>
#include <set>
#include <sstream>
#include <stdexcept>
#include <thread>

#include "tests/support/comes.h"
#include "tests/support/patience.h"

namespace sluice::tests {

namespace {

constexpr size_t slots = 16'384;
constexpr const char* free_port_word = "FREE_PORT";

RedisReply expect_ok(RedisReply reply, const std::string& what) {
  if (reply.is_error()) throw std::runtime_error(what + ": " + reply.text);
  return reply;
}

}  // namespace

std::vector<std::string> RedisCluster::settings_for() {
  const uint16_t bus_port = free_port();
  const std::string number = std::to_string(nodes_.size());
  std::vector<std::string> words{"--cluster-enabled",
                                 "yes",
                                 "--cluster-config-file",
                                 folder_.path() + "/nodes-" + number,
                                 "--cluster-port",
                                 std::to_string(bus_port),
                                 "--cluster-node-timeout",
                                 std::to_string(node_timeout_ms_),
                                 "--cluster-allow-replica-migration",
                                 "no",
                                 "--cluster-replica-validity-factor",
                                 "0",
                                 "--repl-diskless-sync-delay",
                                 "0"};
  if (proxy_) {
    words.emplace_back("--cluster-announce-bus-port");
    words.push_back(std::to_string(proxy_->add(bus_port)));
  }
  for (const std::string& word : settings_)
    words.push_back(word == free_port_word ? std::to_string(free_port()) : word);
  return words;
}

RedisCluster::RedisCluster(const Options& options)
    : proxy_(options.proxied ? std::make_unique<BusProxy>() : nullptr),
      settings_(options.settings),
      node_timeout_ms_(options.node_timeout_ms) {
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
    if (i > 0) meet(i);
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
  await_agreed();
}

std::vector<std::string> RedisCluster::addresses() const {
  std::vector<std::string> all;
  for (const auto& node : nodes_) all.push_back(node->address());
  return all;
}

size_t RedisCluster::add_node() {
  nodes_.push_back(std::make_unique<RedisServer>(settings_for()));
  runs_.push_back(true);
  meet(nodes_.size() - 1);
  await_known(nodes_.size());
  await_ok();
  await_agreed();
  return nodes_.size() - 1;
}

void RedisCluster::meet(size_t i) {
  const auto bus =
      nodes_[0]->client()({"CONFIG", "GET", proxy_ ? "cluster-announce-bus-port" : "cluster-port"});
  expect_ok(nodes_[i]->client()({"CLUSTER", "MEET", "127.0.0.1", std::to_string(nodes_[0]->port()),
                                 bus.list.at(1).text}),
            "meet");
}

void RedisCluster::remove_node(size_t i) {
  const std::string id = id_of(i);
  stop(i);
  for (size_t other = 0; other < nodes_.size(); ++other)
    if (runs_[other]) expect_ok(nodes_[other]->client()({"CLUSTER", "FORGET", id}), "forget");
  await_agreed();
}

void RedisCluster::cut_off(size_t i, std::optional<size_t> replica) {
  starved_ = replica;
  if (replica) {
    // The primary does not know this user, so the replica cannot log in to synchronize.
    nodes_[*replica]->client()({"CONFIG", "SET", "masteruser", "unknown"});
    nodes_[*replica]->client()({"CONFIG", "SET", "masterauth", "unknown"});
    nodes_[i]->client()({"CLIENT", "KILL", "TYPE", "replica"});
  }
  proxy_->cut(i, id_of(i));
}

void RedisCluster::heal() {
  proxy_->heal();
  if (!starved_) return;
  nodes_[*starved_]->client()({"CONFIG", "SET", "masterauth", ""});
  nodes_[*starved_]->client()({"CONFIG", "SET", "masteruser", ""});
  starved_.reset();
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
  // The new owner first: it takes a new epoch, which the others learn from it.
  expect_ok(nodes_[to]->client()({"CLUSTER", "SETSLOT", number, "NODE", id}), "node");
  // Every node is notified: only this ends the old owner's migrating state. A node that takes back
  // the change because of another node's gossip is notified again.
  for (size_t i = 0; i < nodes_.size(); ++i)
    if (runs_[i]) nodes_[i]->client()({"CLUSTER", "SETSLOT", number, "NODE", id});
  await("the nodes do not agree on a slot", [&] {
    bool agree = true;
    for (size_t i = 0; i < nodes_.size(); ++i) {
      if (!runs_[i] || owner_seen_by(i, slot) == to) continue;
      nodes_[i]->client()({"CLUSTER", "SETSLOT", number, "NODE", id});
      agree = false;
    }
    return agree;
  });
  await_agreed();
}

std::string RedisCluster::view_of(size_t i) {
  auto client = nodes_[i]->client();
  std::istringstream lines(client({"CLUSTER", "NODES"}).text);
  std::set<std::string> primaries, epochs;
  for (std::string line; std::getline(lines, line);) {
    std::istringstream fields(line);
    std::string id, address, flags, of, pinged, ponged, epoch, link;
    fields >> id >> address >> flags >> of >> pinged >> ponged >> epoch >> link;
    if (flags.find("master") == std::string::npos) continue;
    if (!epochs.insert(epoch).second) return "";  // Redis will change one of the two
    std::string primary = id + " " + epoch;
    for (std::string range; fields >> range;)
      if (!range.starts_with('[')) primary += " " + range;
    primaries.insert(primary);
  }
  const std::string info = client({"CLUSTER", "INFO"}).text;
  const size_t at = info.find("cluster_current_epoch:");
  std::string view = info.substr(at, info.find('\r', at) - at);
  for (const std::string& primary : primaries) view += "\n" + primary;
  return view;
}

void RedisCluster::await_agreed() {
  await("the nodes do not agree on epochs and slots", [&] {
    std::set<std::string> views;
    for (size_t i = 0; i < nodes_.size(); ++i)
      if (runs_[i]) views.insert(view_of(i));
    return views.size() == 1 && !views.begin()->empty();
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
