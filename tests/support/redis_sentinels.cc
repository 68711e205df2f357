#include "tests/support/redis_sentinels.h"

#include <chrono>
#include <fstream>
#include <stdexcept>
#include <thread>

#include "tests/support/comes.h"
#include "tests/support/patience.h"

namespace sluice::tests {

namespace {

// `field:N` of a text of INFO, or of names and values in turn.
std::string field(const RedisReply& reply, const std::string& name) {
  for (size_t i = 0; i + 1 < reply.list.size(); i += 2)
    if (reply.list[i].text == name) return reply.list[i + 1].text;
  return {};
}

}  // namespace

RedisSentinels::RedisSentinels(std::vector<std::string> settings) {
  settings.insert(settings.end(), {"--repl-diskless-sync-delay", "0"});
  for (size_t i = 0; i < 3; ++i) {
    nodes_.push_back(std::make_unique<RedisServer>(settings));
    if (i == 0) continue;
    nodes_[i]->client()({"REPLICAOF", "127.0.0.1", std::to_string(nodes_[0]->port())});
    await("a replica does not follow", [&] {
      return nodes_[i]->client()({"INFO", "replication"}).text.find("master_link_status:up") !=
             std::string::npos;
    });
  }
  for (size_t i = 0; i < 3; ++i) {
    const std::string file = folder_.path() + "/sentinel-" + std::to_string(i) + ".conf";
    const std::string name = master;
    std::ofstream(file) << "sentinel monitor " << name << " 127.0.0.1 " << nodes_[0]->port()
                        << " 2\nsentinel down-after-milliseconds " << name
                        << " 1000\nsentinel failover-timeout " << name
                        << " 5000\nsentinel parallel-syncs " << name << " 2\n";
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
    if (address.list.size() == 2 && address.list[1].text == std::to_string(nodes_[i]->port()))
      return i;
  throw std::runtime_error("the sentinel names no node");
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
