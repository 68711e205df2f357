// What all workers of a Redis store have in common: the scripts, where the nodes are, the
// table that decides while Redis does not, who waits, and what is logged. Owned by the
// store; any thread.
#pragma once

#include <spdlog/logger.h>

#include <array>
#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "redis/async_connection.h"
#include "redis/options.h"
#include "redis/over_cache.h"
#include "redis/queues.h"
#include "redis/scripts.h"
#include "redis/topology.h"
#include "request/space.h"
#include "store/embedded_store.h"

namespace sluice::redis {

struct Counts {
  // Groups that Redis was sent; groups that the table of this server decided.
  std::atomic<uint64_t> asked{0}, local{0};
  // Of Redis Cluster: groups that were sent on to another node, for good or once; and those that
  // were not sent, as their counters are in several slots.
  std::atomic<uint64_t> moved{0}, asked_on{0}, apart{0};
  // Groups that were settled over several slots; of them, units that were taken in some slots,
  // while the group as a whole was not granted, and may be taken still.
  std::atomic<uint64_t> across{0}, left_taken{0};
  std::array<std::atomic<uint64_t>, 16> errors{};  // groups, by request::Error
};

class Shared {
 public:
  Shared(Options options, request::Spaces& spaces, std::unique_ptr<store::EmbeddedStore> table,
         std::unique_ptr<net::TlsContext> tls, std::shared_ptr<spdlog::logger> log);

  // Begins to look for the nodes, looks their names up again, and says what came of the last time.
  void resolve();

  // Good news, or bad ones: each once.
  void tell(bool good, const std::string& text);
  // A command that Redis refused; not more than one in a second.
  void log_refusal(std::string_view text);
  // What was logged last, good or bad; empty: nothing yet.
  std::string told() const;
  // Has it said something that only a node of a Redis Cluster says?
  bool is_cluster() const { return is_cluster_.load(std::memory_order_relaxed); }

  // A limit as it holds for this server alone: its share, but a unit at least. Of a list, with its
  // number, takes no lock. (One without a number is not shared: it has no counter.)
  limit::Limit share_of(limit::Limit limit) const {
    return request::Spaces::share_of(limit, options.servers);
  }
  std::span<const limit::Limit> divided(std::span<const limit::Limit> limits,
                                        uint32_t& limits_id) const;

  const Options options;
  // How long an answer may take: the deadline, and where grants wait for replicas as long as that
  // of the turn before and its own may.
  const int64_t patience_us;
  request::Spaces& spaces;
  const std::unique_ptr<store::EmbeddedStore> table;
  const std::unique_ptr<net::TlsContext> tls;
  Scripts scripts;
  Queues queues;
  // Groups that wait at all workers, in a queue or aside, which all have a place; none that is
  // cancelled.
  std::atomic<size_t> waiting{0};
  // A place for one more. False: all are taken.
  bool take_place();
  void free_place() { waiting.fetch_sub(1, std::memory_order_relaxed); }
  Counts counts;
  const std::unique_ptr<OverCache> over_cache;  // null: nothing is remembered
  std::atomic<bool> ending{false};              // lists are not to be gone on with

 private:
  const std::shared_ptr<spdlog::logger> log_;
  void look_for_cluster(std::string_view text);

  std::atomic<bool> is_cluster_{false};
  mutable std::mutex mutex_;
  std::string told_;
  int64_t refusal_s_ = 0;
  uint64_t refusals_ = 0;

 public:
  // Where the primaries are; of the second Redis, if there is one. Last: their threads tell.
  Topology first, second;
};

}  // namespace sluice::redis
