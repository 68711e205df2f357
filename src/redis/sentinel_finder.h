// Finds the primary that sentinels watch, by asking all of them; one of them notifies it of
// changes. A newer decision of a majority counts: it never returns to an older one. Used on the
// topology's thread, and on a thread that listens.
#pragma once

#include <atomic>
#include <cstdint>
#include <span>
#include <string>
#include <thread>

#include "redis/topology.h"

struct redisReply;

namespace sluice::redis {

// The primary, as one sentinel reports it.
struct SentinelView {
  Node primary;
  uint64_t epoch = 0;  // of the decision that made it the primary
};
// Reads the answers to SENTINEL MASTER and SENTINEL GET-MASTER-ADDR-BY-NAME. None: they are not
// such answers.
std::optional<SentinelView> read_view(const redisReply& master, const redisReply& address);
// The view that counts after a decision of `known_epoch`; `sentinels`: how many sentinels there
// are. None: all views are older, and no majority agrees on one.
std::optional<SentinelView> newest(std::span<const SentinelView> views, uint64_t known_epoch,
                                   size_t sentinels);

class SentinelFinder final : public Finder {
 public:
  ~SentinelFinder() override;
  std::chrono::milliseconds look_every() const override { return std::chrono::seconds(1); }
  base::Result<ClusterMap> find(Topology& topology) override;

 private:
  static Options options_of(const Topology& topology);
  void listen(Topology& topology);
  void listen_to(Topology& topology, const Node& node);

  uint64_t epoch_ = 0;
  std::atomic<bool> stopping_{false};
  std::thread listener_;
};

}  // namespace sluice::redis
