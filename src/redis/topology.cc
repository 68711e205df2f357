#include "redis/topology.h"

#include <hiredis/hiredis.h>
#include <pthread.h>

#include <algorithm>
#include <charconv>
#include <utility>

#include "base/printable.h"
#include "redis/errors.h"

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

namespace {

// So many nodes are asked, as one may be cut off from the others and not know it yet.
constexpr size_t views_wanted = 3;

}  // namespace

std::vector<Node> ClusterFinder::candidates(const Topology& topology) const {
  std::vector<Node> all = topology.map()->primaries;
  const std::vector<Node>& named = topology.options().nodes;
  all.insert(all.end(), named.begin(), named.end());
  std::vector<Node> distinct;
  for (Node& node : all)
    if (std::ranges::find(distinct, node) == distinct.end()) distinct.push_back(std::move(node));
  // Nodes that answered the last time come first.
  std::stable_sort(distinct.begin(), distinct.end(), [this](const Node& a, const Node& b) {
    const auto is_bad = [this](const Node& node) {
      return std::ranges::find(bad_, node) != bad_.end();
    };
    return !is_bad(a) && is_bad(b);
  });
  return distinct;
}

base::Result<ClusterFinder::View> ClusterFinder::ask(Topology& topology, const Node& node) {
  auto connected = topology.connect(node, topology.options(), redis_account);
  if (!connected) return std::move(connected).problem();
  BlockingConnection& line = **connected;
  View view;
  const Answer info = line.ask({"CLUSTER", "INFO"});
  if (is_error(info))
    return base::Problem{info ? name_of(node) + " says " + base::printable(text_of(*info), 256) +
                                    remedy_of(text_of(*info), redis_account)
                              : line.problem()};
  view.state = read_state(text_of(*info));
  Answer answer = line.ask({"CLUSTER", "SHARDS"});  // known from Redis 7.0 on
  auto map = answer ? read_shards(*answer, node.host, topology.options().tls) : std::nullopt;
  if (answer && !map) {
    answer = line.ask({"CLUSTER", "SLOTS"});
    if (answer) map = read_slots(*answer, node.host);
  }
  if (!map)
    return base::Problem{answer ? name_of(node) + " does not say which slots it knows of"
                                : line.problem()};
  view.map = *std::move(map);
  return view;
}

base::Result<ClusterMap> ClusterFinder::find(Topology& topology) {
  std::optional<View> best;
  base::Problem problem;  // of the last node that could not be asked
  size_t views = 0;
  std::vector<Node> bad;
  for (const Node& node : candidates(topology)) {
    if (views == views_wanted) break;
    auto view = ask(topology, node);
    if (!view) {
      bad.push_back(node);
      problem = std::move(view).problem();
      continue;
    }
    ++views;
    const auto rank = [](const View& of) { return std::pair(of.state.ok, of.state.epoch); };
    if (!best || rank(*view) > rank(*best)) best = *std::move(view);
  }
  bad_ = std::move(bad);
  is_well_ = best && best->state.ok && best->map.failed.empty();
  if (!best) return problem;
  if (best->map.primaries.empty()) return base::Problem{"no node has a slot"};
  best->map.is_down = !best->state.ok;
  return std::move(best->map);
}

namespace {

using std::chrono::milliseconds;

template <class Integer>
std::optional<Integer> parse_all(std::string_view text) {
  Integer number{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

constexpr std::string_view account = "store.redis.sentinel.username and password";
constexpr milliseconds listen_pause{200};
// A sentinel that sends nothing for this long gets a PING.
constexpr milliseconds silence_max{2000};

}  // namespace

std::optional<SentinelView> read_view(const redisReply& master, const redisReply& address) {
  if (master.type != REDIS_REPLY_ARRAY || address.type != REDIS_REPLY_ARRAY ||
      address.elements != 2)
    return std::nullopt;
  SentinelView view;
  bool told = false;
  for (size_t i = 0; i + 1 < master.elements; i += 2) {
    if (text_of(*master.element[i]) != "config-epoch") continue;
    const auto epoch = parse_all<uint64_t>(text_of(*master.element[i + 1]));
    told = epoch.has_value();
    view.epoch = epoch.value_or(0);
  }
  const auto port = parse_all<uint16_t>(text_of(*address.element[1]));
  view.primary.host = text_of(*address.element[0]);
  view.primary.port = port.value_or(0);
  if (!told || view.primary.host.empty() || view.primary.port == 0) return std::nullopt;
  return view;
}

std::optional<SentinelView> newest(std::span<const SentinelView> views, uint64_t known_epoch,
                                   size_t sentinels) {
  if (views.empty()) return std::nullopt;
  const SentinelView& best = *std::ranges::max_element(views, {}, &SentinelView::epoch);
  if (best.epoch >= known_epoch) return best;
  // Sentinels that were set up again count their epochs from the start.
  const auto same = std::ranges::count_if(views, [&](const SentinelView& view) {
    return view.primary == best.primary && view.epoch == best.epoch;
  });
  if (2 * static_cast<size_t>(same) > sentinels) return best;
  return std::nullopt;
}

SentinelFinder::~SentinelFinder() {
  stopping_ = true;
  if (listener_.joinable()) listener_.join();
}

// The options of connections to sentinels: their own password, user and patience, and no database.
Options SentinelFinder::options_of(const Topology& topology) {
  Options options = topology.options();
  options.username = options.sentinel.username;
  options.password = options.sentinel.password;
  options.database = 0;
  return options;
}

base::Result<ClusterMap> SentinelFinder::find(Topology& topology) {
  if (!listener_.joinable()) listener_ = std::thread([this, &topology] { listen(topology); });
  const Sentinels& sentinels = topology.options().sentinel;
  const Options options = options_of(topology);
  std::vector<SentinelView> views;
  base::Problem problem;  // of the last sentinel that could not be asked
  for (const Node& node : sentinels.nodes) {
    auto connected = topology.connect(node, options, account);
    if (!connected) {
      problem = std::move(connected).problem();
      continue;
    }
    BlockingConnection& line = **connected;
    // The address is read first, so that the epoch that is read after it is not older.
    const Answer address = line.ask({"SENTINEL", "GET-MASTER-ADDR-BY-NAME", sentinels.master});
    const Answer master = line.ask({"SENTINEL", "MASTER", sentinels.master});
    if (is_error(master) || is_error(address)) {
      const Answer& wrong = is_error(address) ? address : master;
      problem.text = wrong ? "the sentinel " + name_of(node) + " says " +
                                 base::printable(text_of(*wrong), 256) +
                                 remedy_of(text_of(*wrong), account)
                           : line.problem();
      continue;
    }
    if (const auto view = read_view(*master, *address)) views.push_back(*view);
  }
  const auto view = newest(views, epoch_, sentinels.nodes.size());
  if (!view) {
    if (problem.text.empty()) problem.text = "no sentinel knows of the last failover";
    return problem;
  }
  epoch_ = view->epoch;
  ClusterMap map;
  map.primaries = {view->primary};
  return map;
}

void SentinelFinder::listen(Topology& topology) {
  ::pthread_setname_np(::pthread_self(), "sluice-sentinel");
  for (size_t i = 0; !stopping_; ++i) {
    const auto& nodes = topology.options().sentinel.nodes;
    listen_to(topology, nodes[i % nodes.size()]);
    // The primary may have changed before the subscription.
    topology.want_look();
    for (milliseconds slept{0}; slept < listen_pause && !stopping_; slept += milliseconds(20))
      std::this_thread::sleep_for(milliseconds(20));
  }
}

// Listens until the sentinel is gone.
void SentinelFinder::listen_to(Topology& topology, const Node& node) {
  const auto connected = topology.connect(node, options_of(topology), account);
  if (!connected) return;
  BlockingConnection& line = **connected;
  if (is_error(line.ask({"SUBSCRIBE", "+switch-master"}))) return;
  milliseconds silent{0};
  constexpr milliseconds step{100};
  while (!stopping_) {
    bool lost = false;
    const Answer told = line.next(step, lost);
    if (lost) return;
    if (told) {
      silent = milliseconds(0);
      // The message may be about another primary; the next look finds out.
      topology.want_look();
      continue;
    }
    if ((silent += step) < silence_max) continue;
    silent = milliseconds(0);
    if (!line.ask({"PING"})) return;
  }
}

}  // namespace sluice::redis
