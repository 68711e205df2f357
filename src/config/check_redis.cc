#include "config/check_redis.h"

#include <string>

#include "config/settings.h"

namespace sluice::config {

namespace {

// The settings of one Redis. `Server`: redis::Options, or its Second.
template <class Server>
void check_server(const Server& server, const std::string& origin, base::Diagnostics& diagnostics) {
  base::Diagnostic place;
  place.subject = origin;
  const bool behind_sentinel = !server.sentinel.master.empty();
  if (behind_sentinel && (server.cluster || !server.nodes.empty()))
    complain(place, "`sentinel` excludes `nodes` and `cluster`",
             "name the sentinels alone, or take `sentinel` out", diagnostics);
  if (server.cluster && server.database != 0)
    complain(place, "Redis Cluster has no database " + std::to_string(server.database),
             "take `database` out", diagnostics);
}

}  // namespace

void check_redis(const StoreSettings& store, base::Diagnostics& diagnostics) {
  if (!store.redis) return;
  const auto& [redis, origin] = *store.redis;
  base::Diagnostic place;
  place.subject = origin;
  if (redis.nodes.empty() && redis.sentinel.master.empty()) {
    complain(place, "names no Redis",
             "write `redis: { nodes: [\"localhost:6379\"] }`, or name it by --redis or "
             "--redis-cluster",
             diagnostics);
    return;
  }
  check_server(redis, origin, diagnostics);
  if (redis.has_second()) check_server(redis.second, origin, diagnostics);
  if (redis.cluster && redis.key_prefix.find_first_of("{}") != std::string::npos)
    complain(place,
             "key_prefix has a brace, and in Redis Cluster braces decide which node has a key",
             "choose another, as in `sluice:`", diagnostics);
}

}  // namespace sluice::config
