#include "redis/import.h"

#include <hiredis/hiredis.h>
#include <spdlog/sinks/null_sink.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <memory>
#include <utility>

#include "base/printable.h"
#include "net/tls.h"
#include "redis/cluster_writer.h"
#include "redis/redis_store.h"
#include "redis/topology.h"

namespace sluice::redis {

namespace {

constexpr std::chrono::milliseconds find_patience{5'000};
constexpr size_t listed_at_once = 500, read_at_once = 100, overrides_at_once = 100;
constexpr size_t first_names = 3;

// KEYS: some keys. Reply: the time in ms since 1970; then for each key its value, empty where it is
// not a string of a counter's size, and when it ends: a moment, -1 never, -2 it is not there.
constexpr std::string_view read_text = R"lua(
local call = redis.call
local t = call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
local out = {string.format('%.0f', now)}
for _, key in ipairs(KEYS) do
  local value, ms = '', call('PTTL', key)
  if call('TYPE', key).ok == 'string' and call('STRLEN', key) <= 65536 then
    value = call('GET', key)
  end
  if ms >= 0 then ms = ms + now end
  out[#out + 1] = value
  out[#out + 1] = string.format('%.0f', ms)
end
return out
)lua";

base::Problem problem_of(const BlockingConnection& line, const Answer& answer,
                         const std::string& what) {
  if (!answer) return base::Problem{line.problem()};
  if (!is_error(answer)) return base::Problem{what + " is answered as Redis does not"};
  return base::Problem{what + ": " + base::printable(text_of(*answer), 256)};
}

// The single Redis and the cluster.
class Import {
 public:
  Import(const ImportOptions& options, const StoredKeys& keys, ImportReport& report,
         const std::function<void(const ImportReport&)>& progress)
      : options_(options), keys_(keys), report_(report), progress_(progress) {}

  base::Done run() {
    using Step = base::Done (Import::*)();
    constexpr Step steps[] = {&Import::open_source, &Import::open_cluster, &Import::copy_overrides,
                              &Import::copy_counters};
    for (const Step step : steps)
      if (base::Done done = (this->*step)(); !done) return done;
    return {};
  }

 private:
  base::Done open_source();
  base::Done open_cluster();
  base::Done check_clocks();
  base::Done copy_overrides();
  base::Done copy_counters();
  base::Done copy_some(std::span<const std::string> names);
  bool is_of_overrides(const std::string& name) const;
  void note_foreign(const std::string& name);

  const ImportOptions& options_;
  const StoredKeys& keys_;
  ImportReport& report_;
  const std::function<void(const ImportReport&)>& progress_;
  std::unique_ptr<net::TlsContext> source_tls_, cluster_tls_;
  std::unique_ptr<Topology> source_, cluster_;
  std::unique_ptr<BlockingConnection> line_;
  std::unique_ptr<ClusterWriter> writer_;
};

base::Done open_tls(const Options& options, std::unique_ptr<net::TlsContext>& tls) {
  if (!options.tls) return {};
  auto opened = net::TlsContext::open();
  if (!opened) return std::move(opened).problem();
  tls = *std::move(opened);
  return {};
}

base::Done Import::open_source() {
  if (const base::Done done = open_tls(options_.from, source_tls_); !done) return done;
  source_ =
      std::make_unique<Topology>(options_.from, source_tls_.get(), [](bool, const std::string&) {});
  source_->resolve();
  source_->await(find_patience);
  auto connected = connect_to(*source_->fixed(), source_tls_.get(), nullptr);
  if (!connected) return std::move(connected).problem();
  line_ = *std::move(connected);
  // A user may lack the right to ask; what a cluster has is tagged, and found as foreign then.
  const Answer info = line_->ask({"INFO", "cluster"});
  if (!is_error(info) && text_of(*info).find("cluster_enabled:1") != std::string_view::npos)
    return base::Problem{
        "--from is a node of a Redis Cluster; name a single Redis, or copy with the tools of "
        "Redis"};
  const Answer size = line_->ask({"DBSIZE"});
  if (!is_error(size) && size->type == REDIS_REPLY_INTEGER)
    report_.database_keys = static_cast<uint64_t>(size->integer);
  return {};
}

base::Done Import::open_cluster() {
  if (options_.dry_run) return {};
  if (const base::Done done = open_tls(options_.to, cluster_tls_); !done) return done;
  cluster_ =
      std::make_unique<Topology>(options_.to, cluster_tls_.get(), [](bool, const std::string&) {});
  cluster_->resolve();
  cluster_->await(find_patience);
  if (cluster_->map()->primaries.empty())
    return base::Problem{
        "--to-cluster: no node of a Redis Cluster answers; check the addresses, the user and that "
        "its nodes have slots (`redis-cli --cluster check`)"};
  writer_ = std::make_unique<ClusterWriter>(*cluster_, options_.overwrites, options_.patience);
  return check_clocks();
}

base::Done Import::check_clocks() {
  const auto source = clock_of(*line_);
  if (!source) return source.problem();
  const auto cluster = writer_->clocks();
  if (!cluster) return cluster.problem();
  for (const int64_t one : *cluster)
    if (std::abs(one - *source) > clocks_differ_max.count())
      return base::Problem{"the clocks of the single Redis and of a primary differ by " +
                           std::to_string(std::abs(one - *source)) +
                           " ms, and counters hold moments; set the clocks first"};
  return {};
}

base::Done Import::copy_overrides() {
  request::Spaces spaces;
  const auto log =
      std::make_shared<spdlog::logger>("import", std::make_shared<spdlog::sinks::null_sink_mt>());
  // All that a Redis has; a store that cannot ask is content with none.
  const auto open =
      [&](Options options,
          std::map<std::string, std::string>& all) -> base::Result<std::unique_ptr<RedisStore>> {
    options.key_prefix = keys_.key_prefix();
    auto store = RedisStore::open(std::move(options), spaces, log);
    if (!store) return store;
    RedisMetadataStore& metadata = (*store)->metadata();
    base::Done read = metadata.read([&](std::string_view name, std::string_view text) {
      all.insert_or_assign(std::string(name), std::string(text));
    });
    if (!read) return std::move(read).problem();
    if (!metadata.age()) return base::Problem{"cannot be asked for overrides"};
    return store;
  };
  std::map<std::string, std::string> from, to;
  if (auto source = open(options_.from, from); !source)
    return std::move(source).problem().within("--from");
  if (options_.dry_run) report_.overrides = from.size();
  if (options_.dry_run || from.empty()) return {};
  const auto cluster = open(options_.to, to);
  if (!cluster) return base::Problem(cluster.problem()).within("--to-cluster");
  std::vector<store::MetadataStore::Change> changes;
  const auto write = [&]() -> base::Done {
    if (changes.empty()) return {};
    auto written = (*cluster)->metadata().write(changes);
    if (!written) return std::move(written.problem);
    report_.overrides += changes.size();
    changes.clear();
    return {};
  };
  for (auto& [name, text] : from) {
    const auto there = to.find(name);
    if (there != to.end() && (!options_.overwrites || there->second == text)) {
      ++report_.overrides_kept;
      continue;
    }
    changes.push_back({name, text});
    if (changes.size() < overrides_at_once) continue;
    if (base::Done done = write(); !done) return done;
  }
  return write();
}

base::Done Import::copy_counters() {
  std::string cursor = "0";
  const std::string count = std::to_string(listed_at_once);
  do {
    const Answer answer = line_->ask({"SCAN", cursor, "COUNT", count});
    if (is_error(answer) || answer->type != REDIS_REPLY_ARRAY || answer->elements != 2 ||
        answer->element[1]->type != REDIS_REPLY_ARRAY)
      return problem_of(*line_, answer, "SCAN");
    cursor = text_of(*answer->element[0]);
    std::vector<std::string> names;
    const redisReply& keys = *answer->element[1];
    for (size_t i = 0; i < keys.elements; ++i) {
      std::string name(text_of(*keys.element[i]));
      if (is_of_overrides(name)) continue;
      ++report_.keys;
      if (keys_.may_be_counter(name))
        names.push_back(std::move(name));
      else
        note_foreign(name);
    }
    for (size_t at = 0; at < names.size(); at += read_at_once) {
      const auto some = std::span(names).subspan(at, std::min(read_at_once, names.size() - at));
      if (const base::Done done = copy_some(some); !done) return done;
    }
    progress_(report_);
  } while (cursor != "0");
  return {};
}

base::Done Import::copy_some(std::span<const std::string> names) {
  const std::string count = std::to_string(names.size());
  std::vector<std::string_view> words{"EVAL", read_text, count};
  words.insert(words.end(), names.begin(), names.end());
  const Answer answer = line_->ask(words);
  if (is_error(answer) || answer->type != REDIS_REPLY_ARRAY ||
      answer->elements != 1 + 2 * names.size())
    return problem_of(*line_, answer, "EVAL");
  const base::Time now{number_of(*answer->element[0]) * 1'000};
  std::vector<CounterWrite> writes;
  for (size_t i = 0; i < names.size(); ++i) {
    StoredValue value{std::string(text_of(*answer->element[1 + 2 * i])),
                      number_of(*answer->element[2 + 2 * i])};
    if (value.expires_ms < no_end) {
      ++report_.expired;
    } else if (auto counter = keys_.find(names[i], value, now)) {
      writes.push_back({*std::move(counter), std::move(value)});
    } else {
      note_foreign(names[i]);
    }
  }
  if (options_.dry_run) {
    report_.imported += writes.size();
    return {};
  }
  ClusterWriter::Counts counts;
  const base::Done done = writer_->write(std::move(writes), counts);
  report_.imported += counts.made;
  report_.replaced += counts.replaced;
  report_.kept += counts.kept;
  return done;
}

bool Import::is_of_overrides(const std::string& name) const {
  if (!name.starts_with(keys_.key_prefix())) return false;
  const auto rest = std::string_view(name).substr(keys_.key_prefix().size());
  return rest == "kept" || rest == "kept:version" || rest == "kept:changes";
}

void Import::note_foreign(const std::string& name) {
  ++report_.foreign;
  if (!name.starts_with(keys_.key_prefix())) return;
  ++report_.foreign_prefixed;
  if (report_.foreign_first.size() < first_names) report_.foreign_first.push_back(name);
}

}  // namespace

base::Done import_to_cluster(const ImportOptions& options, const StoredKeys& keys,
                             ImportReport& report,
                             const std::function<void(const ImportReport&)>& progress) {
  return Import(options, keys, report, progress).run();
}

}  // namespace sluice::redis
