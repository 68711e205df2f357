#include "redis/sentinel_finder.h"

#include <hiredis/hiredis.h>
#include <pthread.h>

#include <algorithm>
#include <charconv>

#include "base/printable.h"
#include "redis/errors.h"

namespace sluice::redis {

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
