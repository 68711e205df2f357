// Finds the primary that sentinels watch over, by asking all of them, and is notified by one of
// them when it changes. What a majority of them has decided since counts: an older decision is not
// gone back to. The topology's thread, and one that listens.
#pragma once

#include <atomic>
#include <cstdint>
#include <span>
#include <string>
#include <thread>

#include "redis/topology.h"

struct redisReply;

namespace sluice::redis {

// What a sentinel says of the primary.
struct SentinelView {
  Node primary;
  uint64_t epoch = 0;  // of the decision that made it the primary
};
// Of its answers to SENTINEL MASTER and SENTINEL GET-MASTER-ADDR-BY-NAME. None: they are not such.
std::optional<SentinelView> read_view(const redisReply& master, const redisReply& address);
// Which of them counts, after a decision of that epoch; `sentinels`: how many there are. None: only
// older ones are known, and they are not a majority that agrees.
std::optional<SentinelView> newest(std::span<const SentinelView> views, uint64_t known_epoch,
                                   size_t sentinels);

class SentinelFinder final : public Finder {
 public:
  ~SentinelFinder() override;
  std::chrono::milliseconds look_every() const override { return std::chrono::seconds(1); }
  std::optional<ClusterMap> find(Topology& topology, std::string& problem) override;

 private:
  static Options options_of(const Topology& topology);
  void listen(Topology& topology);
  void listen_to(Topology& topology, const Node& node);

  uint64_t epoch_ = 0;
  std::atomic<bool> stopping_{false};
  std::thread listener_;
};

}  // namespace sluice::redis
