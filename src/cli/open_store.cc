#include "cli/open_store.h"

#include <utility>

#include "base/hash.h"
#include "base/printable.h"
#include "cli/address.h"
#include "redis/redis_store.h"
#include "store/durable_store.h"
#include "store/embedded_store.h"

namespace sluice::cli {
namespace {

std::string how_kept(const StoreSettings& settings) {
  std::string text = base::printable(settings.path.value) + ", ";
  if (settings.kept() == Durability::always)
    text += "committed before they are answered";
  else
    text += "committed every " + std::to_string(settings.interval.value.us / 1000) + " ms";
  return text + (settings.fsync.value ? ", and synced" : "");
}

}  // namespace

namespace {

OpenedStore open_redis(const StoreSettings& settings, limit::Spaces& spaces,
                       std::shared_ptr<spdlog::logger> log) {
  OpenedStore opened;
  redis::Options options = settings.redis->value;
  for (const redis::Node& node : options.nodes)
    opened.kept +=
        (opened.kept.empty() ? "Redis at " : ", ") + format_address(node.host, node.port);
  if (options.database != 0) opened.kept += ", database " + std::to_string(options.database);
  if (settings.memory_bytes.origin != "default") options.local_bytes = settings.memory_bytes.value;
  opened.store =
      redis::RedisStore::open(std::move(options), spaces, std::move(log), opened.problem);
  return opened;
}

}  // namespace

OpenedStore open_store(const StoreSettings& settings, limit::Spaces& spaces, base::Clock& clock,
                       std::shared_ptr<spdlog::logger> log) {
  if (settings.redis) return open_redis(settings, spaces, std::move(log));
  OpenedStore opened;
  auto table = store::EmbeddedStore::open(settings.memory_bytes.value, base::Hash(), spaces);
  if (!table) {
    opened.problem = "the system does not give the address space for " +
                     std::to_string(settings.memory_bytes.value) +
                     " bytes of counters; lower --memory, or raise ulimit -v";
    return opened;
  }
  const Durability kept = settings.kept();
  if (kept == Durability::none) {
    opened.store = std::move(table);
    opened.kept = "memory, forgotten at exit, not shared";
    return opened;
  }
  const store::DurableOptions options{.path = settings.path.value,
                                      .durability = kept == Durability::always
                                                        ? store::Durability::always
                                                        : store::Durability::interval,
                                      .interval = settings.interval.value,
                                      .sync = settings.fsync.value};
  opened.store = store::DurableStore::open(
      options, std::move(table), spaces, [&clock] { return clock.now(); }, std::move(log),
      opened.problem);
  opened.kept = how_kept(settings);
  return opened;
}

}  // namespace sluice::cli
