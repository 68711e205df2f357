// Opens the store that the settings describe. Main thread.
#pragma once

#include <spdlog/logger.h>

#include <functional>
#include <memory>
#include <string>

#include "base/clock.h"
#include "base/diagnostic.h"
#include "base/result.h"
#include "config/config.h"
#include "metrics/page.h"
#include "request/space.h"
#include "store/metadata_store.h"
#include "store/store.h"

namespace sluice::config {

struct OpenedStore {
  std::unique_ptr<store::Store> store;  // null: it failed, see `problem`
  std::string problem;
  // Makes a copy while the store is in use (admin/backup_socket.h); empty: it cannot be copied.
  std::function<base::Done(const std::string& target)> backup;
  store::MetadataStore* metadata = nullptr;  // for overrides; lives as long as the store
  const metrics::Source* metrics = nullptr;  // the store's; lives as long as the store
  base::Diagnostics diagnostics;             // warnings
  std::string location;  // for the banner: the place of the counters, and when they are forgotten
};

// `cleanup`: the interval at which full counters are forgotten whose limits come with requests; 0:
// never. `spaces` and `clock` outlive the store.
OpenedStore open_store(const StoreSettings& settings, base::Duration cleanup,
                       request::Spaces& spaces, base::Clock& clock,
                       std::shared_ptr<spdlog::logger> log);

}  // namespace sluice::config
