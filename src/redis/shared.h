// What all workers of a Redis store share: the scripts, the nodes' addresses, the table that
// decides while Redis does not, the queues of waiting requests, and the log. Owned by the store;
// any thread.
#pragma once

#include <spdlog/logger.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "base/hash.h"
#include "base/time.h"
#include "redis/async_connection.h"
#include "redis/options.h"
#include "redis/queues.h"
#include "redis/scripts.h"
#include "redis/topology.h"
#include "request/space.h"
#include "store/embedded_store.h"

namespace sluice::redis {

// Remembers window counters that have exceeded their quota: until the window ends they are refused
// without Redis (redis::Options::over_cache_bytes). Shared by all workers; any thread. Its memory
// is allocated once. If there is no place for a counter, it replaces the one whose window ends
// first, for which Redis is asked again. Counters are distinguished by 128 bits of keyed hashes of
// their names.

class OverCache {
 public:
  // Uses at most `bytes` of memory, but at least one place in each of its parts.
  explicit OverCache(size_t bytes);

  // Records that the counter holds more than `quota`. `name`: its name until the window ends at
  // `end`.
  void remember(std::string_view name, int64_t quota, base::Time end, base::Time now);
  // Is the counter known to hold more than `quota`?
  bool is_over(std::string_view name, int64_t quota, base::Time now);
  // Units were returned to the counter: forgets it.
  void forget(std::string_view name);

 private:
  static constexpr size_t parts = 64, ways = 8;
  struct Remembered {
    uint64_t first = 0, second = 0;
    int64_t quota = 0, end_us = INT64_MIN;
  };
  // The places in which a counter may be, with the lock of their part.
  struct Shard {
    std::mutex mutex;
    std::vector<std::array<Remembered, ways>> sets;
  };
  template <class Use>
  void use(std::string_view name, Use&& use);

  const base::Hash first_, second_;
  std::array<Shard, parts> parts_;
};

struct Counts {
  // Groups that were sent to Redis; groups that the table of this server decided.
  std::atomic<uint64_t> asked{0}, local{0};
  // In Redis Cluster: groups that were sent on to another node (MOVED, and ASK); and groups that
  // were not sent, as their counters are in several slots.
  std::atomic<uint64_t> moved{0}, asked_on{0}, apart{0};
  // Groups and other commands that failed because they had been sent on too often.
  std::atomic<uint64_t> given_up{0};
  // Groups that were settled over several slots; and the units that such groups took in some slots,
  // were not granted as a whole, and perhaps could not give back.
  std::atomic<uint64_t> across{0}, left_taken{0};
  std::array<std::atomic<uint64_t>, 16> errors{};  // failed groups, by request::Error
};

class Shared {
 public:
  Shared(Options options, request::Spaces& spaces, std::unique_ptr<store::EmbeddedStore> table,
         std::unique_ptr<net::TlsContext> tls, std::shared_ptr<spdlog::logger> log);

  // Starts the search for the nodes and another resolution of their names, and logs the result of
  // the last one.
  void resolve();

  // Logs good or bad news of that Redis, each text once.
  void tell(Topology& redis, bool good, const std::string& text);
  // Logs a command that Redis refused, at most one a second.
  void log_refusal(std::string_view text);
  // Notes and logs, once, that a single Redis is a node of a Redis Cluster, if that error shows it.
  void note_cluster_error(Topology& redis, std::string_view error);
  // What was logged then: which Redis, and which settings it needs. Empty: nothing has shown it.
  std::string why_unset_cluster(const Topology& redis) const;

  // This server's share of a limit, at least one unit. For a list, given with its number, this
  // takes no lock. (A list without a number is not divided: it has no counter.)
  limit::Limit share_of(limit::Limit limit) const {
    return request::Spaces::share_of(limit, options.servers);
  }
  std::span<const limit::Limit> divided(std::span<const limit::Limit> limits,
                                        uint32_t& limits_id) const;

  const Options options;
  const int64_t patience_us;     // Options::answer_within
  const uint32_t redirects_max;  // how often a command is sent on (redis/cluster_map.h)
  request::Spaces& spaces;
  const std::unique_ptr<store::EmbeddedStore> table;
  const std::unique_ptr<net::TlsContext> tls;
  Scripts scripts;
  Queues queues;
  // The groups that wait at all workers, in a queue or aside; cancelled ones are not counted.
  std::atomic<size_t> waiting{0};
  // Takes a place for one more waiting group. False: all are taken.
  bool take_place();
  void free_place() { waiting.fetch_sub(1, std::memory_order_relaxed); }
  Counts counts;
  // Are there holds? Other servers may give their units back, without a word to who waits here.
  std::atomic<bool> has_holds{false};
  const std::unique_ptr<OverCache> over_cache;  // null: nothing is remembered
  std::atomic<bool> ending{false};              // lists must end

 private:
  const std::shared_ptr<spdlog::logger> log_;

  mutable std::mutex mutex_;
  int64_t refusal_s_ = 0;
  uint64_t refusals_ = 0;

 public:
  // The nodes of the first Redis, and of the second, if there is one. The last members, as their
  // threads use the others.
  Topology first, second;
};

}  // namespace sluice::redis
