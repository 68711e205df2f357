// Where the primaries of one Redis are: the nodes that its settings name, the primary that its
// sentinels know, or those of a Redis Cluster by slots. What is found is looked for again by a
// thread of its own: now and then, and when a connection has trouble or a node names another one.
// Owned by Shared; any thread.
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
#include <string>
#include <thread>
#include <vector>

#include "net/resolver.h"
#include "net/tls.h"
#include "redis/blocking_connection.h"
#include "redis/cluster_map.h"
#include "redis/options.h"

namespace sluice::redis {

// What connections to a node need: the options with that node alone (where nothing is looked for:
// with all nodes that are named), and where its name leads to.
struct Endpoint {
  explicit Endpoint(Options its_options)
      : options(std::move(its_options)), resolver(options.nodes) {}
  const Options options;
  net::Resolver resolver;
};

class Topology;

// How the primaries are found. The topology's thread.
class Finder {
 public:
  virtual ~Finder() = default;
  // How long what was found is believed where there is no trouble.
  virtual std::chrono::milliseconds look_every() const = 0;
  // None: it is not known, and why in `problem`.
  virtual std::optional<ClusterMap> find(Topology& topology, std::string& problem) = 0;
};

// More than twenty members: what is found, who looks for it, and the nodes that connections know.
class Topology {
 public:
  using Tell = std::function<void(bool good, const std::string& text)>;
  // `tls`: null where it is not wanted. All of it outlives the topology. Where `options` name no
  // Redis nothing is looked for.
  Topology(const Options& options, net::TlsContext* tls, Tell tell);
  ~Topology();
  Topology(const Topology&) = delete;
  Topology& operator=(const Topology&) = delete;

  // The nodes are named, and nothing is looked for.
  bool is_fixed() const { return finder_ == nullptr; }
  bool has_slots() const { return options_.cluster; }
  const Options& options() const { return options_; }
  net::TlsContext* tls() const { return tls_; }

  // Begins to look for what is not known; names are looked up again.
  void resolve();
  // Until the primaries are known, or for so long.
  void await(std::chrono::milliseconds patience);

  // Changes with the map.
  uint64_t version() const { return version_.load(std::memory_order_acquire); }
  std::shared_ptr<const ClusterMap> map() const;
  // Something is not as the map says: it is looked for again soon.
  void want_look();
  // A node that does not have a slot has named the one that has it.
  void follow(const Redirect& redirect);

  // Where nothing is looked for: of all nodes.
  const std::shared_ptr<Endpoint>& fixed() const { return fixed_; }
  std::shared_ptr<Endpoint> endpoint(const Node& node);
  // Of each primary, in the map's order.
  std::vector<std::shared_ptr<Endpoint>> primaries();
  // Of the primary that has the slot, as far as is known; null: none is known.
  std::shared_ptr<Endpoint> primary_of(uint16_t slot);

  // A connection for finders, which are not patient. Null: none comes about.
  std::unique_ptr<BlockingConnection> connect(const Node& node, const Options& options,
                                              std::string& problem);

 private:
  void run();
  void look();
  void publish(ClusterMap map);
  void prune();

  const Options options_;
  net::TlsContext* const tls_;
  const Tell tell_;
  std::unique_ptr<Finder> finder_;  // null: nothing is looked for
  const std::shared_ptr<Endpoint> fixed_;
  mutable std::mutex mutex_;  // of the next four
  std::shared_ptr<const ClusterMap> map_ = std::make_shared<ClusterMap>();
  std::map<std::string, std::shared_ptr<Endpoint>> endpoints_;  // by name
  std::condition_variable changed_;
  bool found_ = false;
  std::atomic<uint64_t> version_{0};
  std::atomic<bool> wanted_{false}, stopping_{false};
  std::string told_;  // the last bad news; of the thread
  std::thread thread_;
};

// A connection to one of the endpoint's addresses; null: none comes about. Blocks.
std::unique_ptr<BlockingConnection> connect_to(const Endpoint& endpoint, net::TlsContext* tls,
                                               const std::atomic<bool>* stop, std::string& problem);

}  // namespace sluice::redis
