#include "config/open_store.h"

#include <utility>

#include "base/hash.h"
#include "base/printable.h"
#include "config/address.h"
#include "disk/layout.h"
#include "durable/durable_store.h"
#include "protocol/store_tools.h"
#include "redis/redis_store.h"
#include "store/embedded_store.h"

namespace sluice::config {
namespace {

// The life of keys in Redis that must not expire: every key there gets one.
constexpr base::Duration redis_forever = base::seconds(int64_t{100} * 365 * 86'400);

std::string location_of(const StoreSettings& settings) {
  std::string text = base::printable(settings.path.value) + ", ";
  if (settings.effective_durability() == Durability::always)
    text += "committed before they are answered";
  else
    text += "committed every " + std::to_string(settings.interval.value.us / 1000) + " ms";
  return text + (settings.fsync.value ? ", and synced" : "");
}

// Warns if the folder has counters that the settings do not use, which may be a mistake in them.
void warn_of_unread(const StoreSettings& settings, base::Diagnostics& diagnostics) {
  const std::string& dir = settings.path.value;
  if (dir.empty() || disk::look(dir).condition == disk::Condition::absent) return;
  base::Diagnostic d;
  d.severity = base::Diagnostic::Severity::warning;
  d.subject = settings.durability.origin;
  d.message = "`" + base::printable(dir) +
              "` holds counters of an earlier start; with durability none they are neither read "
              "nor written, and every limit begins again";
  d.remedy = "set durability to interval or always to use them, or name no folder";
  diagnostics.push_back(std::move(d));
}

OpenedStore open_redis(const StoreSettings& settings, base::Duration cleanup,
                       request::Spaces& spaces, std::shared_ptr<spdlog::logger> log) {
  OpenedStore opened;
  redis::Options options = settings.redis_options();
  if (!read_redis_passwords(options, opened.diagnostics)) {
    opened.problem = "the password of the Redis cannot be read";
    return opened;
  }
  const redis::Sentinels& sentinel = options.sentinel;
  std::string head = options.cluster ? "Redis Cluster at " : "Redis at ";
  if (!sentinel.master.empty())
    head = "Redis, primary `" + base::printable(sentinel.master) + "` of the sentinels at ";
  for (const redis::Node& node : sentinel.master.empty() ? options.nodes : sentinel.nodes)
    opened.location +=
        (opened.location.empty() ? head : ", ") + format_address(node.host, node.port);
  if (options.database != 0) opened.location += ", database " + std::to_string(options.database);
  options.kept_fresh_for = cleanup.us > 0 ? cleanup : redis_forever;
  options.local_bytes = settings.table_bytes();
  auto store = redis::RedisStore::open(std::move(options), spaces, std::move(log));
  if (!store) {
    opened.problem = std::move(store).problem().text;
    return opened;
  }
  opened.metrics = store->get();
  opened.metadata = &(*store)->metadata();
  opened.store = *std::move(store);
  return opened;
}

}  // namespace

OpenedStore open_store(const StoreSettings& settings, base::Duration cleanup,
                       request::Spaces& spaces, base::Clock& clock,
                       std::shared_ptr<spdlog::logger> log) {
  if (settings.redis) return open_redis(settings, cleanup, spaces, std::move(log));
  OpenedStore opened;
  auto table = store::EmbeddedStore::open(settings.memory_bytes.value, base::Hash(), spaces);
  if (!table) {
    opened.problem = "the system does not give the address space for " +
                     std::to_string(settings.memory_bytes.value) +
                     " bytes of counters; lower --memory, or raise ulimit -v";
    return opened;
  }
  const Durability durability = settings.effective_durability();
  if (durability == Durability::none) {
    warn_of_unread(settings, opened.diagnostics);
    opened.store = std::move(table);
    opened.location = "memory, forgotten at exit, not shared";
    return opened;
  }
  for (const protocol::Description* protocol : protocol::all())
    if (protocol->store != nullptr && protocol->store->check_folder != nullptr)
      protocol->store->check_folder(settings.path.value, settings.path.origin, opened.diagnostics);
  const durable::DurableOptions options{.path = settings.path.value,
                                        .durability = durability == Durability::always
                                                          ? durable::Durability::always
                                                          : durable::Durability::interval,
                                        .interval = settings.interval.value,
                                        .sync = settings.fsync.value};
  auto durable = durable::DurableStore::open(
      options, std::move(table), spaces, [&clock] { return clock.earliest_now(); }, std::move(log));
  if (!durable) {
    opened.problem = std::move(durable).problem().text;
    return opened;
  }
  opened.backup = [store = durable->get()](const std::string& target) {
    return store->backup(target);
  };
  opened.metadata = (*durable)->metadata();
  opened.metrics = durable->get();
  opened.store = *std::move(durable);
  opened.location = location_of(settings);
  return opened;
}

}  // namespace sluice::config
