// Divides the file descriptors that a server may open. The store, Redis, the log and the admin port
// come first, and connections of clients get the rest, so that no number of clients can make a
// commit or the admin port fail. Pure functions; main thread.
#pragma once

#include <cstddef>

namespace sluice::net {

// How many descriptors are needed, besides those that are open.
struct FilesNeeded {
  size_t store = 0;   // by a store on disk: tables, logs, a backup
  size_t redis = 0;   // by connections to Redis, with those that replace them
  bool http = false;  // is there an HTTP server: the admin port, or Divvy's page
  bool statsd = false;
  bool otlp = false;
};

struct FilesPlan {
  size_t max = 0;                // the most that the process may open
  size_t kept = 0;               // of these, not for connections to the protocols' ports
  size_t connections = 0;        // left for those connections; 0: not enough for one
  size_t admin_connections = 0;  // the most connections of the HTTP server
};

// `open`: descriptors that are open when no client is connected.
FilesPlan plan_files(size_t max, size_t open, const FilesNeeded& needed);

}  // namespace sluice::net
