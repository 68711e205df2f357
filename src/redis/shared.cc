#include "redis/shared.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/printable.h"
#include "redis/cluster_map.h"
#include "redis/errors.h"

namespace sluice::redis {

OverCache::OverCache(size_t bytes) {
  const size_t sets = std::max<size_t>(1, bytes / (parts * ways * sizeof(Remembered)));
  for (Shard& part : parts_) part.sets.resize(sets);
}

template <class Use>
void OverCache::use(std::string_view name, Use&& use) {
  const uint64_t first = first_(0, name), second = second_(0, name);
  Shard& part = parts_[first % parts];
  const std::lock_guard lock(part.mutex);
  use(part.sets[first / parts % part.sets.size()], first, second);
}

void OverCache::remember(std::string_view name, int64_t quota, base::Time end, base::Time now) {
  use(name, [&](std::array<Remembered, ways>& set, uint64_t first, uint64_t second) {
    Remembered* best = set.data();
    for (Remembered& place : set) {
      if (place.first == first && place.second == second) {
        // Within the same window the larger quota that the counter has exceeded is kept.
        if (place.end_us > now.us) quota = std::max(quota, place.quota);
        best = &place;
        break;
      }
      if (place.end_us < best->end_us) best = &place;
    }
    *best = {first, second, quota, end.us};
  });
}

bool OverCache::is_over(std::string_view name, int64_t quota, base::Time now) {
  bool over = false;
  use(name, [&](const std::array<Remembered, ways>& set, uint64_t first, uint64_t second) {
    for (const Remembered& place : set)
      over |= place.first == first && place.second == second && now.us < place.end_us &&
              quota <= place.quota;
  });
  return over;
}

void OverCache::forget(std::string_view name) {
  use(name, [](std::array<Remembered, ways>& set, uint64_t first, uint64_t second) {
    for (Remembered& place : set)
      if (place.first == first && place.second == second) place = {};
  });
}

namespace {

constexpr size_t logged_bytes_max = 512;

Options second_of(Options options) {
  Options::Second& second = options.second;
  options.nodes = std::move(second.nodes);
  options.cluster = second.cluster;
  options.sentinel = std::move(second.sentinel);
  options.username = std::move(second.username);
  options.password = std::move(second.password);
  options.tls = second.tls;
  options.database = second.database;
  return options;
}

}  // namespace

Shared::Shared(Options o, request::Spaces& s, std::unique_ptr<store::EmbeddedStore> t,
               std::unique_ptr<net::TlsContext> its_tls, std::shared_ptr<spdlog::logger> log)
    : options(std::move(o)),
      patience_us(options.answer_within().us),
      redirects_max(redis::redirects_max(options.deadline)),
      spaces(s),
      table(std::move(t)),
      tls(std::move(its_tls)),
      over_cache(options.over_cache_bytes > 0
                     ? std::make_unique<OverCache>(options.over_cache_bytes)
                     : nullptr),
      log_(std::move(log)),
      first(options, options.tls ? tls.get() : nullptr,
            [this](bool good, const std::string& text) { tell(first, good, text); }),
      second(second_of(options), options.second.tls ? tls.get() : nullptr,
             [this](bool good, const std::string& text) { tell(second, good, text); }) {
  spaces.divide_by(options.servers);
}

bool Shared::take_place() {
  if (waiting.fetch_add(1, std::memory_order_relaxed) < options.waiting_max) return true;
  free_place();
  return false;
}

void Shared::resolve() {
  first.resolve();
  if (options.has_second()) second.resolve();
}

// Logged once, as all later failures have the same cause.
void Shared::note_cluster_error(Topology& redis, std::string_view error) {
  if (redis.note_cluster_error(error) && log_)
    log_->error("redis: {}", base::printable(why_unset_cluster(redis), logged_bytes_max));
}

std::string Shared::why_unset_cluster(const Topology& redis) const {
  if (!redis.is_unset_cluster()) return {};
  const bool is_first = &redis == &first;
  const std::string where = is_first ? "store.redis." : "store.redis.per_second.";
  const std::string is_node =
      " is a node of a Redis Cluster, and requests to it fail; set " + where;
  if (const std::string& master = redis.options().sentinel.master; !master.empty())
    return "the primary `" + master + "` of the sentinels" + is_node +
           "nodes and cluster: true in place of sentinel, or name another primary";
  return name_of(redis.options().nodes.front()) + is_node + "cluster: true, " +
         (is_first ? "or name it by --redis-cluster in place of --redis, " : "") +
         "or name a Redis that is not one";
}

void Shared::tell(Topology& redis, bool good, const std::string& text) {
  // The text after the colon is the message itself; before it stands the command or the speaker.
  constexpr std::string_view colon = ": ";
  if (const size_t at = text.find(colon); !good && at != text.npos)
    note_cluster_error(redis, std::string_view(text).substr(at + colon.size()));
  if (!redis.note_news(good, text)) return;  // another worker has logged it
  if (!log_) return;
  // The text may contain bytes from the peer.
  log_->log(good ? spdlog::level::info : spdlog::level::warn, "redis {}",
            base::printable(text, logged_bytes_max));
}

void Shared::log_refusal(std::string_view text) {
  const int64_t now_s = std::chrono::duration_cast<std::chrono::seconds>(
                            std::chrono::steady_clock::now().time_since_epoch())
                            .count();
  uint64_t others;
  {
    const std::lock_guard lock(mutex_);
    ++refusals_;
    if (refusal_s_ == now_s) return;
    refusal_s_ = now_s;
    others = std::exchange(refusals_, 0) - 1;
  }
  if (log_)
    log_->warn("redis refuses a command{}: {}",
               others > 0 ? " and refused " + std::to_string(others) + " before" : "",
               base::printable(text, logged_bytes_max));
}

std::span<const limit::Limit> Shared::divided(std::span<const limit::Limit> limits,
                                              uint32_t& limits_id) const {
  if (limits_id == 0) return limits;
  limits_id = spaces.divided(limits_id);
  return spaces.limits(limits_id);
}

}  // namespace sluice::redis
