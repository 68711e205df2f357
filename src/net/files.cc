#include "net/files.h"

#include <algorithm>

#include "base/bounds.h"

namespace sluice::net {

namespace {

// For the log while it is reopened, a policy that is read, a folder that is watched, a client of
// the backup socket, and a margin.
constexpr size_t for_files = 6;
constexpr size_t for_statsd = 3;  // its socket, and the lookup of its address
constexpr size_t for_otlp = 6;    // the same of traces and of metrics
constexpr size_t admin_share = 16;

}  // namespace

FilesPlan plan_files(size_t max, size_t open, const FilesNeeded& needed) {
  namespace bounds = base::bounds;
  FilesPlan plan{.max = max};
  plan.kept = open + for_files + needed.store + needed.redis + (needed.statsd ? for_statsd : 0) +
              (needed.otlp ? for_otlp : 0);
  if (needed.http) {
    plan.admin_connections =
        std::clamp(max / admin_share, bounds::admin_connections_min, bounds::admin_connections_max);
    plan.kept +=
        plan.admin_connections + bounds::admin_health_connections_max + bounds::admin_accepted_max;
  }
  plan.connections = max > plan.kept ? max - plan.kept : 0;
  return plan;
}

}  // namespace sluice::net
