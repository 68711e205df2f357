// What the descriptors of a server are for. Connections get what the store, Redis, the log and the
// admin port leave, so that no number of clients can end a commit or the admin port. Pure
// functions; main thread.
#pragma once

#include <cstddef>

namespace sluice::net {

// What needs descriptors, besides those that are open.
struct FilesNeeded {
  size_t store = 0;   // on disk: tables, logs, a backup
  size_t redis = 0;   // connections, while others are being made
  bool http = false;  // the admin port, or Divvy's page
  bool statsd = false;
};

struct FilesPlan {
  size_t max = 0;                // that the process may open
  size_t kept = 0;               // of them not for connections to the protocols' ports
  size_t connections = 0;        // what is left for these; 0: not even one
  size_t admin_connections = 0;  // places of the HTTP server
};

// `open`: descriptors that are open when no client is connected.
FilesPlan plan_files(size_t max, size_t open, const FilesNeeded& needed);

}  // namespace sluice::net
