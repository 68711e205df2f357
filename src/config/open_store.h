// The store that the settings ask for. Main's thread.
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
  std::unique_ptr<store::Store> store;  // null: `problem`, with what to do
  std::string problem;
  // Makes a copy while it is served (admin/backup_socket.h); empty: there is nothing to copy.
  std::function<base::Done(const std::string& target)> backup;
  store::MetadataStore* metadata = nullptr;  // of what is set at run time; as long as the store
  const metrics::Source* metrics = nullptr;  // of the store's own, as long as it
  base::Diagnostics diagnostics;             // warnings
  std::string location;  // for the banner: where counters are, and when they are forgotten
};

// `cleanup`: how often full counters are forgotten whose limits come with requests; 0: never.
// `spaces` and `clock` outlive the store.
OpenedStore open_store(const StoreSettings& settings, base::Duration cleanup,
                       request::Spaces& spaces, base::Clock& clock,
                       std::shared_ptr<spdlog::logger> log);

}  // namespace sluice::config
