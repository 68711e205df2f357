// What a Redis store is given at its start. Plain values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/bounds.h"
#include "base/time.h"
#include "net/host_port.h"

namespace sluice::redis {

using Node = net::HostPort;
inline constexpr uint16_t default_port = 6379;

// Sentinels that watch a primary and its replicas. TLS, where it is needed, holds for them as well.
struct Sentinels {
  std::string master;  // what they call it; empty: there are no sentinels
  std::vector<Node> nodes;
  std::string username, password;  // of the sentinels; empty: none
  friend bool operator==(const Sentinels&, const Sentinels&) = default;
};

struct Options {
  // Addresses of the same data, a primary and whatever may become it: the first that takes writes
  // is used. Of a cluster: some of its nodes. With sentinels: none.
  std::vector<Node> nodes{{"localhost", default_port}};
  bool cluster = false;  // Redis Cluster: each primary has some of the slots
  // Groups whose counters are in several slots are settled slot by slot. False: they fail.
  bool settles_across_slots = false;
  Sentinels sentinel{};
  std::string username, password;  // empty: none
  std::string password_file;       // holds the password; empty: none does
  bool tls = false;
  int database = 0;
  std::string key_prefix = "sluice:";  // of all keys but those that are shared with Divvy
  base::Duration deadline = base::milliseconds(50);  // for one decision
  // A grant waits until so many replicas have what was written for it, or for so long; 0: for none.
  unsigned wait_replicas = 0;
  base::Duration wait_timeout = base::milliseconds(20);
  // For each answer that a thread of its own waits for: of lists, and of what is kept beside the
  // counters.
  base::Duration patience = base::seconds(1);
  // Servers that share the counters: what `local` divides limits by.
  unsigned servers = 1;
  // A bucket of droplet's that is full still tells its limits for as long as one round of its
  // cleanup takes.
  base::Duration kept_fresh_for = base::seconds(60);
  size_t local_bytes = size_t{64} << 20;  // of the table that decides meanwhile
  size_t waiting_max = base::bounds::waiting_max;
  // Of this process' memory, to remember which counters of a window that other programs share were
  // found to be over; they are refused without Redis until their windows end. 0: none are.
  size_t over_cache_bytes = 0;
  // Another Redis, for counters of windows of one second that other programs share. Without nodes
  // there is none.
  struct Second {
    std::vector<Node> nodes;
    bool cluster = false;
    Sentinels sentinel{};
    std::string username, password, password_file;
    bool tls = false;
    int database = 0;
    friend bool operator==(const Second&, const Second&) = default;
  };
  Second second;
  bool has_second() const { return !second.nodes.empty() || !second.sentinel.master.empty(); }
  friend bool operator==(const Options&, const Options&) = default;
};

}  // namespace sluice::redis
