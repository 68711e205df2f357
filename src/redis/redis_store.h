// The store whose counters are in Redis or Valkey, shared by all servers that use the same one. A
// group is one call of a script there; a worker's calls go over its own connection, pipelined, and
// its decisions come later (store::Applied). If Redis does not decide, the rules of the group say
// what is answered (request::OnError). Owned by main; docs/redis.md describes what is stored.
#pragma once

#include <spdlog/logger.h>

#include <chrono>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/bounds.h"
#include "base/result.h"
#include "limit/limit.h"
#include "metrics/page.h"
#include "redis/options.h"
#include "redis/redis_metadata_store.h"
#include "redis/shared.h"
#include "redis/worker_client.h"
#include "store/hold_book.h"
#include "store/store.h"

namespace sluice::redis {

// Searches Redis for counters: a pass by SCAN on a connection of its own. Blocks, so it is for a
// thread that may.

// As store::Catalog::list_all, with one pass for all lists of an encoding. A list fails if Redis
// cannot be reached; if Redis fails half way it keeps what was found.
void scan(Shared& shared, store::ListPass& lists);

// The bounds of one search. It ends past either of them, but not before it has looked at some keys.
struct Reach {
  size_t keys = base::bounds::redis_scanned_max;  // keys looked at, of any kind
  // Short, as a client waits for the page, and others wait for the thread.
  std::chrono::milliseconds time = std::chrono::seconds(2);
};

// See store::Catalog::scan_page.
store::ScanPage read_scan_page(Shared& shared, const request::SpaceIndex& spaces,
                               std::string_view prefix, std::string_view after, size_t max,
                               std::string_view from = {}, const Reach& reach = {});

class RedisStore final : public store::Store, public store::Catalog, public metrics::Source {
 public:
  // A problem: there is no memory for the table that decides while Redis does not, or TLS could not
  // be set up. Does not connect: workers do.
  static base::Result<std::unique_ptr<RedisStore>> open(Options options, request::Spaces& spaces,
                                                        std::shared_ptr<spdlog::logger> log);
  ~RedisStore() override;

  void attach(store::CompletionQueue& completions, net::Loop* loop) override;
  store::Applied apply(const request::Batch& batch, base::Time now,
                       store::CompletionQueue* completions = nullptr, const store::Pin& pin = {},
                       request::Ticket ticket = request::no_ticket) override;
  void abandon(store::CompletionQueue& completions, request::Ticket ticket) override;
  std::optional<base::Time> advance(store::CompletionQueue& completions, base::Time now) override;
  bool cancel(store::CompletionQueue& completions, request::Ticket ticket, base::Time now) override;
  // Both use SCAN on a connection of their own. After base::bounds::redis_scanned_max keys they
  // return what was found so far; the second one also after two seconds.
  std::vector<std::string> list(const request::Space& space, std::string_view prefix,
                                size_t max) override;
  void list_all(store::ListPass& pass) override;
  store::ScanPage scan_page(const request::SpaceIndex& spaces, std::string_view prefix,
                            std::string_view after, size_t max, std::string_view from) override;
  void end_lists() override;
  void housekeep(base::Time now) override;
  // Keys expire in Redis by themselves.
  size_t purge(base::Time now) override;
  bool mark_named(request::Marks& marks, bool first) override {
    return shared_.table->mark_named(marks, first);
  }
  store::Stats stats() const override;
  store::KindFigures kind_figures() const override;
  std::string_view message_for(request::Error error) const override;

  std::string why_degraded() const override;
  void collect(metrics::Page& page) const override;

  // The texts that are stored beside the counters. Lives as long as the store.
  RedisMetadataStore& metadata() { return metadata_; }
  // The book of holds whose counters are in this store, which outlives it. `told`: for tests, the
  // time is that of each call and not Redis' own.
  std::unique_ptr<store::HoldBook> make_holds(const store::HoldBook::Options& options,
                                              bool told = false);

 private:
  friend class RedisHolds;

  RedisStore(Options options, request::Spaces& spaces, std::unique_ptr<store::EmbeddedStore> table,
             std::unique_ptr<net::TlsContext> tls, std::shared_ptr<spdlog::logger> log);
  void show_cluster(metrics::Page& page) const;
  // The links of one client to one Redis.
  using LinksOf = const Links* (*)(const WorkerClient&);
  std::string why_fails(const std::string& which, const Topology& topology, LinksOf links_of) const;
  static std::string why_cluster_fails(const std::string& which, const Topology& topology,
                                       const std::map<std::string, NodeLinks>& by_name);
  void add_links_to(LinkSums& first, LinkSums& second, CallDistribution& times) const;
  WorkerClient* client_of(const store::CompletionQueue& completions) const;

  Shared shared_;
  const std::string late_words_;
  mutable std::mutex mutex_;  // guards the map; each client is used by its worker alone
  std::unordered_map<const store::CompletionQueue*, std::unique_ptr<WorkerClient>> clients_;
  int64_t resolved_us_ = 0;
  RedisMetadataStore metadata_;
};

}  // namespace sluice::redis
