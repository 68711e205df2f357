#include "cli/open_store.h"

#include <utility>

#include "base/hash.h"
#include "base/printable.h"
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

OpenedStore open_store(const StoreSettings& settings, limit::Spaces& spaces, base::Clock& clock,
                       std::shared_ptr<spdlog::logger> log) {
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
    opened.kept = "memory, forgotten at exit";
    return opened;
  }
  const store::DurableOptions options{.path = settings.path.value,
                                      .durability = kept == Durability::always
                                                        ? store::Durability::always
                                                        : store::Durability::interval,
                                      .interval = settings.interval.value,
                                      .sync = settings.fsync.value};
  auto durable = store::DurableStore::open(
      options, std::move(table), spaces, [&clock] { return clock.now(); }, std::move(log),
      opened.problem);
  opened.backup = [store = durable.get()](const std::string& target, std::string& problem) {
    return store->backup(target, problem);
  };
  opened.store = std::move(durable);
  opened.kept = how_kept(settings);
  return opened;
}

}  // namespace sluice::cli
