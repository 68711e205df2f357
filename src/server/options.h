// What a server is told at its start. Plain values, filled by the command line and the
// configuration file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/bounds.h"
#include "base/time.h"

namespace sluice::server {

enum class Protocol : uint8_t { divvy, limitd, droplet };

struct ListenerOptions {
  Protocol protocol = Protocol::divvy;
  std::string host =
      "::";  // an address or a name; "::" is both families, or IPv4 alone where there is no IPv6
  uint16_t port = 0;  // 0: a free one
};

struct Options {
  std::vector<ListenerOptions> listeners;
  unsigned workers = 0;  // threads; 0: as many as this process may use processors
  size_t connections_max = base::bounds::connections_default;
  // How often full buckets of droplet are forgotten, where it is served; 0: never.
  base::Duration cleanup_interval = base::seconds(60);
  std::function<void()> on_hangup = {};  // SIGHUP, beside the reload; on the main thread
};

}  // namespace sluice::server
