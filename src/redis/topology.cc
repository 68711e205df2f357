#include "redis/topology.h"

#include <pthread.h>

#include <algorithm>
#include <utility>

#include "redis/cluster_finder.h"
#include "redis/errors.h"
#include "redis/sentinel_finder.h"

namespace sluice::redis {

namespace {

using std::chrono::milliseconds;

// The least time between two searches, however often one is requested.
constexpr milliseconds look_pause{50};
// How long a finder waits for one node, as it can ask others.
constexpr base::Duration finder_patience = base::milliseconds(300);
constexpr milliseconds name_patience{300};

std::unique_ptr<Finder> finder_for(const Options& options) {
  if (!options.sentinel.master.empty()) return std::make_unique<SentinelFinder>();
  if (options.cluster) return std::make_unique<ClusterFinder>();
  return nullptr;
}

}  // namespace

Topology::Topology(const Options& options, net::TlsContext* tls, Tell tell)
    : options_(options),
      tls_(tls),
      tell_(std::move(tell)),
      finder_(finder_for(options_)),
      fixed_(std::make_shared<Endpoint>(options_)) {}

Topology::~Topology() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
  finder_.reset();  // it may have a thread that uses the other members
}

bool Topology::note_cluster_error(std::string_view error) {
  return !has_slots() && !is_unset_cluster() && is_of_cluster(error) &&
         !is_unset_cluster_.exchange(true);
}

bool Topology::note_news(bool good, const std::string& text) {
  const std::lock_guard lock(mutex_);
  if (news_ == text) return false;
  news_ = text;
  news_are_good_ = good;
  return true;
}

std::string Topology::bad_news() const {
  const std::lock_guard lock(mutex_);
  return news_are_good_ ? std::string() : news_;
}

void Topology::resolve() {
  std::vector<std::shared_ptr<Endpoint>> all{fixed_};
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [name, endpoint] : endpoints_) all.push_back(endpoint);
    if (finder_ && !thread_.joinable()) {
      wanted_ = true;
      thread_ = std::thread([this] { run(); });
    }
  }
  for (const auto& one : all) {
    if (const std::string problem = one->resolver.take_problem(); !problem.empty())
      tell_(false, problem);
    one->resolver.look();
  }
}

void Topology::await(milliseconds patience) {
  if (is_fixed()) return fixed_->resolver.await(patience);
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, patience, [this] { return found_; });
}

std::shared_ptr<const ClusterMap> Topology::map() const {
  const std::lock_guard lock(mutex_);
  return map_;
}

std::string Topology::problem() const {
  const std::lock_guard lock(mutex_);
  return problem_;
}

void Topology::want_look() {
  if (is_fixed() || wanted_.load(std::memory_order_relaxed)) return;
  {
    const std::lock_guard lock(mutex_);
    wanted_ = true;
  }
  changed_.notify_all();
}

void Topology::follow(const Redirect& redirect) {
  {
    const std::lock_guard lock(mutex_);
    auto next = moved(*map_, redirect);
    if (next) {
      map_ = std::make_shared<const ClusterMap>(*std::move(next));
      version_.fetch_add(1, std::memory_order_release);
    }
  }
  want_look();
}

std::shared_ptr<Endpoint> Topology::endpoint(const Node& node) {
  std::shared_ptr<Endpoint> added;
  {
    const std::lock_guard lock(mutex_);
    auto& known = endpoints_[name_of(node)];
    if (known) return known;
    Options options = options_;
    options.nodes = {node};
    known = added = std::make_shared<Endpoint>(std::move(options));
  }
  added->resolver.look();
  return added;
}

std::vector<std::shared_ptr<Endpoint>> Topology::primaries() {
  if (is_fixed()) return {fixed_};
  std::vector<std::shared_ptr<Endpoint>> all;
  const auto known = map();
  for (const Node& node : known->primaries) all.push_back(endpoint(node));
  return all;
}

std::shared_ptr<Endpoint> Topology::primary_of(uint16_t slot) {
  if (is_fixed()) return fixed_;
  const auto known = map();
  if (!has_slots()) return known->primaries.empty() ? nullptr : endpoint(known->primaries.front());
  const Node* const node = known->owner_of(slot);
  return node == nullptr ? nullptr : endpoint(*node);
}

base::Result<std::unique_ptr<BlockingConnection>> Topology::connect(const Node& node,
                                                                    const Options& options,
                                                                    std::string_view account) {
  const auto known = endpoint(node);
  known->resolver.await(name_patience);
  Options own = options;
  own.nodes = {node};
  own.patience = std::min(own.patience, finder_patience);
  base::Problem problem = not_resolved(own);
  for (const net::Address& address : known->resolver.addresses()) {
    auto line = std::make_unique<BlockingConnection>(&stopping_);
    if (line->open(own, tls_, address)) return line;
    problem.text = line->problem() + remedy_of(line->refusal(), account);
  }
  return problem;
}

void Topology::run() {
  ::pthread_setname_np(::pthread_self(), "sluice-nodes");
  while (!stopping_) {
    {
      std::unique_lock lock(mutex_);
      changed_.wait_for(lock, finder_->look_every(), [this] { return wanted_ || stopping_; });
      if (stopping_) return;
      wanted_ = false;
    }
    look();
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, look_pause, [this] { return stopping_.load(); });
  }
}

void Topology::look() {
  auto map = finder_->find(*this);
  if (stopping_) return;
  const std::string problem = map ? std::string() : map.problem().text;
  std::string before;
  {
    const std::lock_guard lock(mutex_);
    before = std::exchange(problem_, problem);
    // Until the next search finds the primaries, the earlier map holds.
    if (!map && !found_) wanted_ = true;
  }
  if (map) {
    if (!before.empty()) tell_(true, "primaries are found again");
    publish(*std::move(map));
    prune();
  } else if (before != problem) {
    tell_(false, "primaries are not found: " + problem + "; trying again");
  }
}

void Topology::publish(ClusterMap map) {
  {
    const std::lock_guard lock(mutex_);
    found_ = true;
    if (*map_ != map) {
      map_ = std::make_shared<const ClusterMap>(std::move(map));
      version_.fetch_add(1, std::memory_order_release);
    }
  }
  changed_.notify_all();
}

// Forgets nodes without a connection that are neither in the map nor in the settings.
void Topology::prune() {
  const auto has = [](const std::vector<Node>& all, const Node& node) {
    return std::ranges::find(all, node) != all.end();
  };
  const std::lock_guard lock(mutex_);
  std::erase_if(endpoints_, [&](const auto& one) {
    const Node& node = one.second->options.nodes.front();
    return one.second.use_count() == 1 && !has(map_->primaries, node) &&
           !has(options_.nodes, node) && !has(options_.sentinel.nodes, node);
  });
}

base::Problem not_resolved(const Options& options) {
  std::string names;
  for (const Node& node : options.nodes)
    names.append(names.empty() ? "" : ", ").append(name_of(node));
  return {"Redis at " + names +
          ": no address is known for the name; `getent hosts NAME` shows whether this machine "
          "resolves it"};
}

base::Result<std::unique_ptr<BlockingConnection>> connect_to(const Endpoint& endpoint,
                                                             net::TlsContext* tls,
                                                             const std::atomic<bool>* stop) {
  base::Problem problem = not_resolved(endpoint.options);
  for (const net::Address& address : endpoint.resolver.addresses()) {
    auto line = std::make_unique<BlockingConnection>(stop);
    if (line->open(endpoint.options, tls, address)) return line;
    problem.text = line->problem();
  }
  return problem;
}

}  // namespace sluice::redis
