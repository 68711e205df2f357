#include "redis/redis_store.h"

#include <hiredis/hiredis.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <iterator>
#include <map>
#include <memory>
#include <numeric>
#include <optional>
#include <random>
#include <set>
#include <utility>

#include "base/bounds.h"
#include "base/check.h"
#include "base/hash.h"
#include "base/printable.h"
#include "base/units.h"
#include "redis/blocking_connection.h"
#include "redis/cluster_map.h"
#include "redis/redis_holds.h"
#include "redis/topology.h"
#include "store/first_names.h"

namespace sluice::redis {

namespace {

std::string why_bad(const BlockingConnection& line, const Answer& answer) {
  if (!answer) return line.problem();
  if (!is_error(answer)) return "SCAN is answered as Redis does not";
  return base::printable(text_of(*answer), 256);
}

// The text as a pattern of SCAN that matches nothing else.
std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '*' || c == '?' || c == '[' || c == ']' || c == '\\' || c == '^') out += '\\';
    out += c;
  }
  return out;
}

// What stands before a counter's stored name in its key: keys that are shared with Divvy have no
// prefix of ours.
std::string_view prefix_of(const Shared& shared, request::KeyEncoding encoding) {
  return encoding == request::KeyEncoding::own ? std::string_view(shared.options.key_prefix)
                                               : std::string_view();
}

// Connects to each primary, in the order of their slots. Empty: one of them could not be reached,
// which is logged, or none is known.
std::vector<std::unique_ptr<BlockingConnection>> connected(Shared& shared) {
  std::vector<std::unique_ptr<BlockingConnection>> lines;
  for (const auto& endpoint : shared.first.primaries()) {
    auto connected = connect_to(*endpoint, shared.first.tls(), &shared.ending);
    if (!connected) {
      shared.tell(shared.first, false, "a list is empty: " + connected.problem().text);
      return {};
    }
    lines.push_back(*std::move(connected));
  }
  if (lines.empty())
    shared.tell(shared.first, false, "a list is empty: primaries are not found yet");
  return lines;
}

enum class Passed : uint8_t { all, cut, failed };

// The keys that are searched for: `head`, a tag, `prefix`, any text, `suffix`.
struct KeySearch {
  std::string_view head, prefix, suffix = {};
  bool tagged = false;
};

// Do keys of that encoding have a tag (redis/cluster_map.h)?
bool is_tagged(const Shared& shared, request::KeyEncoding encoding) {
  return shared.first.has_slots() && encoding == request::KeyEncoding::own;
}

using Clock = std::chrono::steady_clock;

// The position of a pass, how many more keys it may look at, and its deadline.
struct PassPosition {
  size_t left = base::bounds::redis_scanned_max;
  Clock::time_point due = Clock::time_point::max();
  const store::ListPass* lists = nullptr;  // it ends when none of these is needed; null: searched
                                           // for something else
  std::string cursor = "0";
};

// Where a search begins: "09" is the cursor 9 of the first encoding, "09.5000" that for 5000 keys,
// "09.5000.2" that at the third primary; there a cursor may stand with "0" keys, which are all.
struct Start {
  size_t encoding = 0;
  std::string cursor = "0";
  size_t keys = base::bounds::redis_scanned_max;
  size_t primary = 0;
};

std::optional<Start> start_of(const Shared& shared, std::string_view from) {
  if (from.empty()) return Start{};
  if (from.find_first_not_of("0123456789.") != from.npos) return std::nullopt;
  Start start;
  const size_t dot = std::min(from.find('.'), from.size());
  const size_t second_dot =
      dot == from.size() ? dot : std::min(from.find('.', dot + 1), from.size());
  const auto encoding = base::parse_count(from.substr(0, 1));
  const auto cursor = base::parse_count(from.substr(0, dot).substr(std::min<size_t>(dot, 1)));
  const bool has_primary = second_dot < from.size();
  if (has_primary && !shared.first.has_slots()) return std::nullopt;
  const auto keys = dot == from.size()
                        ? start.keys
                        : base::parse_count(from.substr(dot + 1, second_dot - dot - 1));
  const auto primary = has_primary ? base::parse_count(from.substr(second_dot + 1)) : 0;
  if (!encoding || *encoding > 1 || !cursor || !keys || !primary) return std::nullopt;
  if (*keys == 0 && !has_primary) return std::nullopt;
  start.encoding = *encoding;
  start.cursor = std::to_string(*cursor);
  if (*keys > 0) start.keys = *keys;
  start.primary = *primary;
  return start;
}

// The key without its head and tag. None: it does not match, which is checked as the peer might not
// be a Redis.
std::optional<std::string_view> without_head(std::string_view key, const KeySearch& wanted) {
  if (!key.starts_with(wanted.head)) return std::nullopt;
  key.remove_prefix(wanted.head.size());
  if (wanted.tagged) {
    const std::string_view rest = without_tag(key);
    if (rest.size() == key.size()) return std::nullopt;
    key = rest;
  }
  if (key.size() < wanted.prefix.size() + wanted.suffix.size() || !key.starts_with(wanted.prefix) ||
      !key.ends_with(wanted.suffix))
    return std::nullopt;
  return key;
}

// Calls `visit(key)` for the keys found, without their head; for some of them more than once.
template <class Visit>
Passed pass(Shared& shared, BlockingConnection& line, const KeySearch& wanted, PassPosition& place,
            Visit&& visit) {
  constexpr size_t step = 1000;
  const std::string pattern = escaped(wanted.head) + (wanted.tagged ? "{????????}" : "") +
                              escaped(wanted.prefix) + "*" + escaped(wanted.suffix);
  std::string& cursor = place.cursor;
  do {
    const bool wanted_still = place.lists == nullptr || place.lists->is_wanted();
    if (place.left == 0 || !wanted_still || shared.ending.load(std::memory_order_relaxed))
      return Passed::cut;
    const size_t count = std::min(step, place.left);
    const Answer answer =
        line.ask({"SCAN", cursor, "MATCH", pattern, "COUNT", std::to_string(count)});
    if (is_error(answer) || answer->type != REDIS_REPLY_ARRAY || answer->elements != 2 ||
        answer->element[0]->type != REDIS_REPLY_STRING ||
        answer->element[1]->type != REDIS_REPLY_ARRAY) {
      shared.tell(shared.first, false, "a list is cut short: " + why_bad(line, answer));
      return Passed::failed;
    }
    cursor.assign(answer->element[0]->str, static_cast<size_t>(answer->element[0]->len));
    const redisReply& keys = *answer->element[1];
    for (size_t i = 0; i < keys.elements; ++i) {
      if (const auto key = without_head(text_of(*keys.element[i]), wanted)) visit(*key);
    }
    place.left -= count;
    if (cursor == "0") return Passed::all;
  } while (Clock::now() < place.due);
  return Passed::cut;
}

}  // namespace

void scan(Shared& shared, store::ListPass& lists) {
  const auto lines = connected(shared);
  for (const request::KeyEncoding encoding :
       {request::KeyEncoding::own, request::KeyEncoding::remaining_text}) {
    const std::string_view head = prefix_of(shared, encoding);
    store::PrefixIndex index;
    std::string_view suffix;
    size_t count = 0;
    for (size_t i = 0; i < lists.size(); ++i) {
      const request::Space& space = lists.space(i);
      if (space.encoding != encoding) continue;
      index.add(0, space.prefix + std::string(lists.prefix(i)), i);
      suffix = ++count == 1 ? std::string_view(space.suffix) : std::string_view();
    }
    if (count == 0) continue;
    index.close();
    const auto visit = [&](std::string_view key) {
      index.each(0, key, [&](size_t number) {
        const request::Space& space = lists.space(number);
        const size_t front = space.prefix.size();
        if (key.size() < front + lists.prefix(number).size() + space.suffix.size() ||
            !key.ends_with(space.suffix))
          return;
        lists.offer(number, key.substr(front, key.size() - front - space.suffix.size()));
      });
    };
    PassPosition place{.lists = &lists};
    // SCAN searches for the text that all lists begin with; the keys are given to their lists here.
    const KeySearch wanted{head, index.common(), suffix, is_tagged(shared, encoding)};
    Passed passed = lines.empty() ? Passed::failed : Passed::all;
    for (size_t i = 0; i < lines.size() && passed == Passed::all; ++i) {
      place.cursor = "0";
      passed = pass(shared, *lines[i], wanted, place, visit);
    }
    if (passed != Passed::failed) continue;
    for (size_t i = 0; i < lists.size(); ++i)
      if (lists.space(i).encoding == encoding) lists.fail(i);
  }
}

namespace {

// The part of a continuation that names a primary; empty for the first.
std::string at_primary(const char* head, size_t primary) {
  return primary == 0 ? "" : head + ("." + std::to_string(primary));
}

}  // namespace

// Makes two passes over each primary, one for each encoding of keys.
store::ScanPage read_scan_page(Shared& shared, const request::SpaceIndex& spaces,
                               std::string_view prefix, std::string_view after, size_t max,
                               std::string_view from, const Reach& reach) {
  store::ScanPage stored;
  const auto start = start_of(shared, from);
  if (!start) {
    stored.unknown = true;
    return stored;
  }
  const auto lines = connected(shared);
  if (lines.empty()) stored.failed = true;
  store::FirstNames first(max, base::bounds::listed_names_bytes_max);
  const size_t keys_max = std::min(reach.keys, start->keys);
  PassPosition place{.left = keys_max, .due = Clock::now() + reach.time};
  stored.again = from;
  constexpr request::KeyEncoding encodings[] = {request::KeyEncoding::own,
                                                request::KeyEncoding::remaining_text};
  for (size_t i = start->encoding;
       i < std::size(encodings) && stored.rest.empty() && !stored.failed; ++i) {
    const request::KeyEncoding encoding = encodings[i];
    const auto wanted = spaces.by_id();
    const bool any = std::any_of(wanted.begin(), wanted.end(), [&](const request::Space* space) {
      return space != nullptr && space->encoding == encoding;
    });
    if (!any || max == 0) continue;
    const KeySearch sought{prefix_of(shared, encoding), prefix, {}, is_tagged(shared, encoding)};
    const auto visit = [&](std::string_view key) {
      if (key <= after || (first.end() != nullptr && key >= *first.end())) return;
      const auto found = spaces.find(key);
      if (!found || found->space->encoding != encoding) return;
      first.add(std::string(key));
    };
    for (size_t n = i == start->encoding ? start->primary : 0;
         n < lines.size() && stored.rest.empty() && !stored.failed; ++n) {
      const bool is_start = i == start->encoding && n == start->primary;
      place.cursor = is_start ? start->cursor : "0";
      const Passed passed = pass(shared, *lines[n], sought, place, visit);
      if (passed == Passed::cut) {
        stored.rest = std::to_string(i) + place.cursor + at_primary(".0", n);
        stored.again = std::to_string(start->encoding) + start->cursor + "." +
                       std::to_string(keys_max - place.left) + at_primary("", start->primary);
      }
      stored.failed = passed == Passed::failed;
    }
  }
  first.move_to(stored);
  return stored;
}

using request::Error;

namespace {

constexpr int64_t resolve_every_us = 5'000'000;
constexpr std::chrono::milliseconds resolve_patience{500};  // how long a start waits for the names
constexpr size_t named_nodes_max = 3;
// The end of why the store is degraded.
constexpr const char* on_store_error_words =
    "; requests are answered as their rules' on_store_error says";

constexpr std::array<const char*, connection_states> state_names{"down", "refused", "silent", "up"};
// That are counted: the reasons why Redis did not decide.
constexpr std::array counted_failures{Error::store,      Error::deadline,  Error::overloaded,
                                      Error::no_space,   Error::read_only, Error::auth_failed,
                                      Error::wrong_type, Error::no_number};

store::NamedCounts by_state(const LinkSums& sums) {
  store::NamedCounts counts;
  for (size_t i = 0; i < connection_states; ++i)
    counts.emplace_back(state_names[i], sums.states[i]);
  return counts;
}

// A worker looks up its own client again and again, so the last one is kept.
struct Recent {
  const RedisStore* store = nullptr;
  const store::CompletionQueue* completions = nullptr;
  WorkerClient* client = nullptr;
};
thread_local Recent recent;

}  // namespace

base::Result<std::unique_ptr<RedisStore>> RedisStore::open(Options options, request::Spaces& spaces,
                                                           std::shared_ptr<spdlog::logger> log) {
  auto table = store::EmbeddedStore::open(options.local_bytes, base::Hash(), spaces);
  if (!table)
    return base::Problem{"the system does not give the address space for " +
                         std::to_string(options.local_bytes) +
                         " bytes of counters; raise ulimit -v"};
  std::unique_ptr<net::TlsContext> tls;
  if (options.tls || options.second.tls) {
    auto opened = net::TlsContext::open(options.tls_files);
    if (!opened) return std::move(opened).problem();
    tls = *std::move(opened);
  }
  return std::unique_ptr<RedisStore>(
      new RedisStore(std::move(options), spaces, std::move(table), std::move(tls), std::move(log)));
}

RedisStore::RedisStore(Options options, request::Spaces& spaces,
                       std::unique_ptr<store::EmbeddedStore> table,
                       std::unique_ptr<net::TlsContext> tls, std::shared_ptr<spdlog::logger> log)
    : Store(*this, nullptr),
      shared_(std::move(options), spaces, std::move(table), std::move(tls), std::move(log)),
      late_words_("Redis did not answer in " + std::to_string(shared_.options.deadline.us / 1000) +
                  " ms"),
      metadata_(shared_) {
  shared_.resolve();
  shared_.first.await(resolve_patience);
  if (shared_.options.has_second()) shared_.second.await(resolve_patience);
}

RedisStore::~RedisStore() = default;

void RedisStore::attach(store::CompletionQueue& completions, net::Loop* loop) {
  std::unique_ptr<WorkerClient> gone;  // ends without the lock
  const std::lock_guard lock(mutex_);
  if (loop != nullptr) {
    clients_[&completions] =
        std::make_unique<WorkerClient>(shared_, completions, *loop, std::random_device()());
    return;
  }
  recent = {};
  const auto at = clients_.find(&completions);
  if (at == clients_.end()) return;
  gone = std::move(at->second);
  clients_.erase(at);
}

WorkerClient* RedisStore::client_of(const store::CompletionQueue& completions) const {
  if (recent.store == this && recent.completions == &completions) return recent.client;
  const std::lock_guard lock(mutex_);
  const auto at = clients_.find(&completions);
  if (at == clients_.end()) return nullptr;
  recent = {this, &completions, at->second.get()};
  return recent.client;
}

store::Applied RedisStore::apply(const request::Batch& batch, base::Time now,
                                 store::CompletionQueue* completions, const store::Pin& pin,
                                 request::Ticket ticket) {
  SLUICE_CHECK(completions != nullptr);
  WorkerClient* const client = client_of(*completions);
  SLUICE_CHECK(client != nullptr);
  return client->apply(batch, now, pin, ticket);
}

void RedisStore::abandon(store::CompletionQueue& completions, request::Ticket ticket) {
  if (WorkerClient* const client = client_of(completions)) client->abandon(ticket);
}

std::optional<base::Time> RedisStore::advance(store::CompletionQueue& completions, base::Time now) {
  // No group waits in the table, but this call lets the completion queue wake the owner again.
  auto next = shared_.table->advance(completions, now);
  WorkerClient* const client = client_of(completions);
  if (client == nullptr) return next;
  const auto its = client->advance(now);
  if (its && (!next || *its < *next)) next = its;
  return next;
}

bool RedisStore::cancel(store::CompletionQueue& completions, request::Ticket ticket,
                        base::Time now) {
  WorkerClient* const client = client_of(completions);
  if (client != nullptr && client->cancel(ticket)) return true;
  return shared_.table->cancel(completions, ticket, now);
}

std::vector<std::string> RedisStore::list(const request::Space& space, std::string_view prefix,
                                          size_t max) {
  store::ListPass pass({max, SIZE_MAX});
  pass.add(space, prefix);
  list_all(pass);
  return pass.take(0);
}

void RedisStore::list_all(store::ListPass& pass) {
  scan(shared_, pass);
}

store::ScanPage RedisStore::scan_page(const request::SpaceIndex& spaces, std::string_view prefix,
                                      std::string_view after, size_t max, std::string_view from) {
  return read_scan_page(shared_, spaces, prefix, after, max, from);
}

void RedisStore::end_lists() {
  shared_.ending.store(true, std::memory_order_relaxed);
}

void RedisStore::housekeep(base::Time now) {
  shared_.table->housekeep(now);
  if (now.us - resolved_us_ < resolve_every_us) return;
  resolved_us_ = now.us;
  shared_.resolve();
}

size_t RedisStore::purge(base::Time now) {
  return shared_.table->purge(now);
}

store::Stats RedisStore::stats() const {
  store::Stats stats = shared_.table->stats();
  stats.waiting += shared_.waiting.load(std::memory_order_relaxed);
  return stats;
}

std::string RedisStore::why_degraded() const {
  const bool has_second = shared_.options.has_second();
  std::string why = why_fails(has_second ? " of all other limits" : "", shared_.first,
                              [](const WorkerClient& client) { return &client.links(); });
  if (has_second) {
    const std::string second =
        why_fails(" of limits of one second", shared_.second,
                  [](const WorkerClient& client) { return client.second_links(); });
    why += (why.empty() || second.empty() ? "" : "; ") + second;
  }
  return why.empty() ? why : why + on_store_error_words;
}

// `which`: of which Redis, as words behind it. Empty: it decides, as far as is known.
std::string RedisStore::why_fails(const std::string& which, const Topology& topology,
                                  LinksOf links_of) const {
  if (std::string why = shared_.why_unset_cluster(topology); !why.empty()) return why;
  const std::string redis = which.empty() ? "Redis" : "the Redis" + which;
  LinkSums sums;
  std::map<std::string, NodeLinks> by_name;
  {
    CallDistribution times;
    const std::lock_guard lock(mutex_);
    for (const auto& [completions, client] : clients_) {
      const Links& links = *links_of(*client);
      links.add_to(sums, times);
      if (topology.has_slots()) links.add_to(by_name);
    }
  }
  const uint64_t up = sums.states[static_cast<size_t>(ConnectionState::up)];
  const uint64_t down = std::accumulate(sums.states.begin(), sums.states.end(), uint64_t{0}) - up;
  if (up == 0 && down == 0 && !topology.is_fixed())
    if (const std::string problem = topology.problem();
        !problem.empty() && (topology.has_slots() || topology.map()->primaries.empty()))
      return redis + " cannot be asked: primaries are not found: " + problem;
  if (up > 0 || down == 0) return why_cluster_fails(which, topology, by_name);
  std::string why = redis + " cannot be asked: none of " + std::to_string(down) +
                    (down == 1 ? " connection" : " connections") + " to it is up";
  if (const std::string news = topology.bad_news(); !news.empty())
    why += " (" + base::printable(news, 256) + ")";
  return why;
}

// Why a cluster of which some connections may be up does not decide all requests. Empty: it does,
// as far as is known, or it is not a cluster.
std::string RedisStore::why_cluster_fails(const std::string& which, const Topology& topology,
                                          const std::map<std::string, NodeLinks>& by_name) {
  if (!topology.has_slots()) return {};
  const auto map = topology.map();
  std::vector<std::string> lost;
  for (const Node& node : map->primaries) {
    const auto at = by_name.find(name_of(node));
    const NodeLinks links = at == by_name.end() ? NodeLinks{} : at->second;
    if ((links.fails && !links.up) || std::ranges::find(map->failed, node) != map->failed.end())
      lost.push_back(name_of(node));
  }
  const size_t bare = map->owners.size() - map->covered();
  if (!map->is_down && lost.empty() && bare == 0) return {};
  std::string why = (map->is_down ? "the Redis Cluster" : "a part of the Redis Cluster") + which +
                    (map->is_down ? " decides nothing (CLUSTERDOWN)" : " decides nothing");
  for (size_t i = 0; i < std::min(lost.size(), named_nodes_max); ++i)
    why += (i == 0 ? "; not reached: " : ", ") + base::printable(lost[i], 256);
  if (lost.size() > named_nodes_max)
    why += " and " + std::to_string(lost.size() - named_nodes_max) + " more";
  if (bare > 0) why += "; " + std::to_string(bare) + " slots have no primary";
  return why;
}

void RedisStore::show_cluster(metrics::Page& page) const {
  const auto number = [](const std::atomic<uint64_t>& n) {
    return static_cast<double>(n.load(std::memory_order_relaxed));
  };
  for (const auto& [kind, count] :
       {std::pair("moved", &shared_.counts.moved), std::pair("ask", &shared_.counts.asked_on),
        std::pair("given_up", &shared_.counts.given_up)})
    page.counter(
        "sluice_redis_redirects_total",
        "Commands that a node of Redis Cluster did not execute and named another node for.",
        number(*count), {{"kind", kind}});
  page.counter("sluice_redis_apart_total",
               "Groups of charges that were not sent, as their counters are in several slots.",
               number(shared_.counts.apart));
  page.counter(
      "sluice_redis_across_slots_total",
      "Groups of charges that were settled slot by slot, as their counters are in several.",
      number(shared_.counts.across));
  page.counter("sluice_redis_left_taken_units_total",
               "Units that groups over several slots took though they were not granted, and that "
               "may be taken still: an answer was lost, or the counter had changed.",
               number(shared_.counts.left_taken));
}

void RedisStore::add_links_to(LinkSums& first, LinkSums& second, CallDistribution& times) const {
  const std::lock_guard lock(mutex_);
  for (const auto& [completions, client] : clients_) {
    client->links().add_to(first, times);
    if (client->second_links() != nullptr) client->second_links()->add_to(second, times);
  }
}

store::KindFigures RedisStore::kind_figures() const {
  LinkSums first, second;
  CallDistribution times;
  add_links_to(first, second, times);
  store::RedisFigures figures{.connections = by_state(first)};
  if (shared_.options.has_second()) figures.second_connections = by_state(second);
  for (const Error error : counted_failures)
    figures.failures.emplace_back(
        request::name_of(error),
        shared_.counts.errors[static_cast<size_t>(error)].load(std::memory_order_relaxed));
  figures.calls = shared_.counts.asked.load(std::memory_order_relaxed);
  figures.local_decisions = shared_.counts.local.load(std::memory_order_relaxed);
  figures.zones_elsewhere = metadata_.zones_elsewhere();
  return {.redis = std::move(figures)};
}

void RedisStore::collect(metrics::Page& page) const {
  const auto number = [](uint64_t n) { return static_cast<double>(n); };
  LinkSums first, second;
  CallDistribution times;
  add_links_to(first, second, times);
  const auto show = [&](const char* prefix, const std::string& redis, const LinkSums& sums) {
    const std::string name(prefix);
    for (size_t i = 0; i < connection_states; ++i)
      page.gauge(
          name + "_connections",
          "Connections to " + redis +
              ", one of each worker to each primary; silent: an answer is overdue, and none comes.",
          number(sums.states[i]), {{"state", state_names[i]}});
    page.counter(name + "_connects_total", "Connections to " + redis + " that came about.",
                 number(sums.connects));
    page.counter(name + "_losses_total",
                 "Connections to " + redis + " that were lost, and attempts that failed.",
                 number(sums.losses));
  };
  show("sluice_redis", "Redis", first);
  if (shared_.options.has_second())
    show("sluice_redis_second", "the Redis of limits of one second", second);
  if (shared_.options.wait_replicas > 0)
    page.counter("sluice_redis_wait_timeouts_total",
                 "Turns of a connection whose writes too few replicas had within wait_timeout_ms; "
                 "what was granted stands.",
                 number(first.wait_timeouts));
  if (!shared_.first.is_fixed())
    page.gauge("sluice_redis_primaries", "Primaries of Redis that are known.",
               number(shared_.first.map()->primaries.size()));
  if (shared_.first.has_slots() || shared_.second.has_slots()) show_cluster(page);
  page.counter("sluice_redis_calls_total",
               "Groups of charges that Redis was sent, by scripts or plain commands.",
               number(shared_.counts.asked.load(std::memory_order_relaxed)));
  page.histogram("sluice_redis_call_seconds",
                 "Time from writing a call to Redis to its answer, for each that was answered.",
                 call_bounds_us, times.counts, times.sum, 1e6);
  if (const auto age = metadata_.age())
    page.gauge("sluice_redis_kept_age_seconds",
               "How long ago this server last knew of all that servers keep in Redis: overrides.",
               static_cast<double>(age->count()) * 1e-6);
  for (const Error error : counted_failures)
    page.counter(
        "sluice_redis_failures_total",
        "Groups of charges that Redis did not decide; on_store_error says what was answered.",
        number(shared_.counts.errors[static_cast<size_t>(error)].load(std::memory_order_relaxed)),
        {{"reason", std::string(request::name_of(error))}});
  page.counter("sluice_redis_local_decisions_total",
               "Those of them that this server's own table decided: on_store_error: local.",
               number(shared_.counts.local.load(std::memory_order_relaxed)));
}

std::unique_ptr<store::HoldBook> RedisStore::make_holds(const store::HoldBook::Options& options,
                                                        bool told) {
  return std::make_unique<RedisHolds>(*this, options,
                                      told ? Scripts::Time::told : Scripts::Time::redis);
}

std::string_view RedisStore::message_for(Error error) const {
  switch (error) {
    case Error::store:
      return "Redis cannot be reached, or cannot decide; the log says why";
    case Error::deadline:
      return late_words_;
    case Error::overloaded:
      return "too many requests wait for Redis";
    case Error::no_space:
      return "Redis has reached its maxmemory and keeps no new counter; raise it, or let it evict";
    case Error::read_only:
      return "Redis takes no writes: it is a replica, or has none; name its primary in "
             "store.redis.nodes";
    case Error::auth_failed:
      return "Redis does not let this server in; see store.redis.username and password";
    case Error::wrong_type:
      return "what Redis has under the counter's key is not a counter; the log says which";
    case Error::none:
    case Error::memory:
    case Error::no_number:
      break;
  }
  return Store::message_for(error);
}

}  // namespace sluice::redis
