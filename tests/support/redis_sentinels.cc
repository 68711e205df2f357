#include "tests/support/redis_sentinels.h"

#include <algorithm>
#include <chrono>
#include <fstream>
#include <stdexcept>
#include <thread>
#include <utility>

#include "tests/support/comes.h"
#include "tests/support/patience.h"

namespace sluice::tests {

namespace {

// The value of a field in a reply of names and values in turn; empty if it is not there.
std::string field(const RedisReply& reply, const std::string& name) {
  for (size_t i = 0; i + 1 < reply.list.size(); i += 2)
    if (reply.list[i].text == name) return reply.list[i + 1].text;
  return {};
}

using Settings = std::vector<std::pair<std::string, std::string>>;

Settings tls_settings(const RedisSentinels::Tls& tls, uint16_t port) {
  return {{"tls-port", std::to_string(port)},  {"tls-replication", "yes"},
          {"tls-cert-file", tls.certificate},  {"tls-key-file", tls.key},
          {"tls-ca-cert-file", tls.authority}, {"tls-auth-clients", "no"}};
}

}  // namespace

uint16_t RedisSentinels::port_of(size_t node) const {
  return node_tls_ports_.empty() ? nodes_[node]->port() : node_tls_ports_[node];
}

std::vector<std::string> RedisSentinels::addresses() const {
  std::vector<std::string> all;
  for (size_t i = 0; i < sentinels_.size(); ++i)
    all.push_back("127.0.0.1:" + std::to_string(sentinel_tls_ports_.empty()
                                                    ? sentinels_[i]->port()
                                                    : sentinel_tls_ports_[i]));
  return all;
}

RedisSentinels::RedisSentinels(std::vector<std::string> settings, std::optional<Tls> tls) {
  settings.insert(settings.end(), {"--repl-diskless-sync-delay", "0"});
  for (size_t i = 0; i < 3; ++i) {
    std::vector<std::string> own = settings;
    if (tls) {
      node_tls_ports_.push_back(free_port());
      for (const auto& [name, value] : tls_settings(*tls, node_tls_ports_.back())) {
        own.push_back("--" + name);
        own.push_back(value);
      }
    }
    nodes_.push_back(std::make_unique<RedisServer>(own));
    if (i == 0) continue;
    nodes_[i]->client()({"REPLICAOF", "127.0.0.1", std::to_string(port_of(0))});
    await("a replica does not follow", [&] {
      return nodes_[i]->client()({"INFO", "replication"}).text.find("master_link_status:up") !=
             std::string::npos;
    });
  }
  for (size_t i = 0; i < 3; ++i) {
    const std::string file = folder_.path() + "/sentinel-" + std::to_string(i) + ".conf";
    const std::string name = master;
    std::ofstream out(file);
    if (tls) {
      sentinel_tls_ports_.push_back(free_port());
      for (const auto& [key, value] : tls_settings(*tls, sentinel_tls_ports_.back()))
        out << key << " " << value << "\n";
    }
    out << "sentinel monitor " << name << " 127.0.0.1 " << port_of(0)
        << " 2\nsentinel down-after-milliseconds " << name << " 1000\nsentinel failover-timeout "
        << name << " 5000\nsentinel parallel-syncs " << name << " 2\n";
    out.close();
    sentinels_.push_back(std::make_unique<RedisServer>(RedisServer::Sentinel{file}));
  }
  for (const auto& sentinel : sentinels_)
    await("sentinels do not find each other", [&] {
      const auto told = sentinel->client()({"SENTINEL", "MASTER", master});
      return field(told, "num-other-sentinels") == "2" && field(told, "num-slaves") == "2";
    });
}

size_t RedisSentinels::primary_by(RedisServer& sentinel) {
  const auto address = sentinel.client()({"SENTINEL", "GET-MASTER-ADDR-BY-NAME", master});
  for (size_t i = 0; i < nodes_.size(); ++i)
    if (address.list.size() == 2 && address.list[1].text == std::to_string(port_of(i))) return i;
  throw std::runtime_error("the sentinel names no node");
}

bool RedisSentinels::is_used_by(const std::string& user) {
  return comes([&] {
    return std::ranges::any_of(sentinels_, [&](const auto& sentinel) {
      const std::string clients = sentinel->client()({"CLIENT", "LIST"}).text;
      return clients.find("user=" + user + " ") != std::string::npos;
    });
  });
}

size_t RedisSentinels::primary() {
  return primary_by(*sentinels_[0]);
}

size_t RedisSentinels::await_other_than(size_t old) {
  size_t found = old;
  await("no other primary", [&] {
    found = primary();
    if (found == old) return false;
    for (const auto& sentinel : sentinels_)
      if (primary_by(*sentinel) != found) return false;
    return true;
  });
  return found;
}

size_t RedisSentinels::fail_over() {
  const size_t old = primary();
  await("no failover begins", [&] {
    return !sentinels_[0]->client()({"SENTINEL", "FAILOVER", master}).is_error();
  });
  return await_other_than(old);
}

}  // namespace sluice::tests
