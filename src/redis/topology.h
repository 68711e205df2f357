// Knows the primaries of one Redis: the nodes that its settings name, the primary that its
// sentinels report, or the primaries of a Redis Cluster by slots. A thread searches for them again
// at intervals, and when a connection has trouble or a node names another one. Owned by Shared; any
// thread.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/result.h"
#include "net/resolver.h"
#include "net/tls.h"
#include "redis/blocking_connection.h"
#include "redis/cluster_map.h"
#include "redis/options.h"

namespace sluice::redis {

// What connections to a node need: options with only that node (or, if nodes are fixed, with all of
// them), and the addresses of its name.
struct Endpoint {
  explicit Endpoint(Options its_options)
      : options(std::move(its_options)), resolver(options.nodes) {}
  const Options options;
  net::Resolver resolver;
};

class Topology;

// Finds the primaries. Used on the topology's thread.
class Finder {
 public:
  virtual ~Finder() = default;
  // The time between two searches while all nodes answer.
  virtual std::chrono::milliseconds look_every() const = 0;
  virtual base::Result<ClusterMap> find(Topology& topology) = 0;
};

class Topology {
 public:
  using Tell = std::function<void(bool good, const std::string& text)>;
  // `tls`: null: without TLS. The arguments outlive the topology. If `options` name no Redis, it
  // does not search.
  Topology(const Options& options, net::TlsContext* tls, Tell tell);
  ~Topology();
  Topology(const Topology&) = delete;
  Topology& operator=(const Topology&) = delete;

  // Are the nodes those of the settings, without a search?
  bool is_fixed() const { return finder_ == nullptr; }
  bool has_slots() const { return options_.cluster; }
  const Options& options() const { return options_; }
  // Has a node sent an error that only a node of a Redis Cluster sends, though the settings name a
  // single Redis?
  bool is_unset_cluster() const { return is_unset_cluster_.load(std::memory_order_relaxed); }
  // Notes it if this error of a node is such a one. True: it is the first.
  bool note_cluster_error(std::string_view error);
  // Notes news of this Redis. False: they are the last ones already.
  bool note_news(bool good, const std::string& text);
  // The last news; empty: there are none, or they were good.
  std::string bad_news() const;
  net::TlsContext* tls() const { return tls_; }

  // Starts a search if the primaries are not known, and another resolution of names.
  void resolve();
  // Waits until the primaries are known, at most for `patience`.
  void await(std::chrono::milliseconds patience);

  // A number that changes with the map.
  uint64_t version() const { return version_.load(std::memory_order_acquire); }
  std::shared_ptr<const ClusterMap> map() const;
  // Why the last search found no primaries; empty: it found them, or has not ended yet.
  std::string problem() const;
  // The map seems to be outdated: starts a search soon.
  void want_look();
  // Changes the map after a node has named another one for a slot.
  void follow(const Redirect& redirect);

  // Of fixed nodes: the endpoint with all of them.
  const std::shared_ptr<Endpoint>& fixed() const { return fixed_; }
  std::shared_ptr<Endpoint> endpoint(const Node& node);
  // The endpoint of each primary, in the order of the map.
  std::vector<std::shared_ptr<Endpoint>> primaries();
  // The endpoint of the primary that has the slot; null: none is known.
  std::shared_ptr<Endpoint> primary_of(uint16_t slot);

  // Connects for a finder, with a short patience. `account`: the settings with its user, for the
  // problem.
  base::Result<std::unique_ptr<BlockingConnection>> connect(const Node& node,
                                                            const Options& options,
                                                            std::string_view account);

 private:
  void run();
  void look();
  void publish(ClusterMap map);
  void prune();

  const Options options_;
  net::TlsContext* const tls_;
  const Tell tell_;
  std::unique_ptr<Finder> finder_;  // null: there is no search
  const std::shared_ptr<Endpoint> fixed_;
  mutable std::mutex mutex_;  // guards the next seven
  std::shared_ptr<const ClusterMap> map_ = std::make_shared<ClusterMap>();
  std::map<std::string, std::shared_ptr<Endpoint>> endpoints_;  // by name
  std::condition_variable changed_;
  bool found_ = false;
  std::string problem_;
  std::string news_;
  bool news_are_good_ = false;
  std::atomic<uint64_t> version_{0};
  std::atomic<bool> wanted_{false}, stopping_{false}, is_unset_cluster_{false};
  std::thread thread_;
};

// What is wrong where an endpoint has no address.
base::Problem not_resolved(const Options& options);

// Connects to one of the endpoint's addresses. Blocks.
base::Result<std::unique_ptr<BlockingConnection>> connect_to(const Endpoint& endpoint,
                                                             net::TlsContext* tls,
                                                             const std::atomic<bool>* stop);

// Finds the primaries of a Redis Cluster and their slots, by asking some of its nodes: it takes the
// newest answer of a node that accepts commands. Used on the topology's thread.

class ClusterFinder final : public Finder {
 public:
  std::chrono::milliseconds look_every() const override {
    return std::chrono::seconds(is_well_ ? 5 : 1);
  }
  base::Result<ClusterMap> find(Topology& topology) override;

 private:
  struct View {
    ClusterState state;
    ClusterMap map;
  };
  std::vector<Node> candidates(const Topology& topology) const;
  static base::Result<View> ask(Topology& topology, const Node& node);

  std::vector<Node> bad_;  // nodes that did not answer the last time; they are asked last
  bool is_well_ = true;    // the last answer counted no primary as failed
};

}  // namespace sluice::redis

// Finds the primary that sentinels watch, by asking all of them; one of them notifies it of
// changes. A newer decision of a majority counts: it never returns to an older one. Used on the
// topology's thread, and on a thread that listens.
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
