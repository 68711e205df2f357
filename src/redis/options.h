// The settings of a Redis store. Plain values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/bounds.h"
#include "base/time.h"
#include "net/resolver.h"
#include "net/tls.h"

namespace sluice::redis {

using Node = net::HostPort;
inline constexpr uint16_t default_port = 6379;

// Sentinels that watch a primary and its replicas. TLS settings apply to them as well.
struct Sentinels {
  std::string master;  // their name for the primary; empty: no sentinels
  std::vector<Node> nodes;
  std::string username, password;  // of the sentinels; empty: none
  friend bool operator==(const Sentinels&, const Sentinels&) = default;
};

struct Options {
  // The addresses of a primary and of the replicas that may replace it: the first one that takes
  // writes is used. For a cluster: some of its nodes. With sentinels: empty.
  std::vector<Node> nodes{{"localhost", default_port}};
  bool cluster = false;  // Redis Cluster: each primary has some of the slots
  // Groups whose counters are in several slots are settled slot by slot. False: they fail.
  bool settles_across_slots = false;
  Sentinels sentinel{};
  std::string username, password;  // empty: none
  std::string password_file;       // a file with the password; empty: none
  bool tls = false;
  net::TlsClient tls_files{};  // what TLS shows and trusts, to the second server too
  int database = 0;
  std::string key_prefix = "sluice:";  // before all keys, except those that are shared with Divvy
  base::Duration deadline = base::milliseconds(50);  // for one decision
  // A grant waits until so many replicas have its writes, or for wait_timeout at most; 0: it does
  // not wait.
  unsigned wait_replicas = 0;
  base::Duration wait_timeout = base::milliseconds(20);
  // How long an answer may take: the deadline and, if grants wait for replicas, the longest waits
  // of its own turn and of the one before.
  base::Duration answer_within() const {
    return {deadline.us + (wait_replicas > 0 ? 2 * wait_timeout.us : 0)};
  }
  // For each answer that a thread other than a worker waits for: those of lists and of stored
  // texts.
  base::Duration patience = base::seconds(1);
  // How many servers share the counters: OnError::local divides limits by this.
  unsigned servers = 1;
  // How long a full bucket of droplet still reports its limits: the time of one round of droplet's
  // cleanup.
  base::Duration kept_fresh_for = base::seconds(60);
  size_t local_bytes = size_t{64} << 20;  // of the table that decides while Redis does not
  size_t waiting_max = base::bounds::waiting_max;
  // Memory of this process to remember which window counters shared with other programs have
  // exceeded their quota: they are refused without Redis until their windows end. 0: off.
  size_t over_cache_bytes = 0;
  // Another Redis, for counters of one-second windows that other programs share. Without nodes:
  // none.
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
