#include "protocol/envoy/metrics.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "admin/server_stats.h"
#include "base/check.h"
#include "metrics/page.h"
#include "protocol/envoy/limit_metrics.h"
#include "protocol/envoy/options.h"
#include "protocol/envoy/rules.h"

namespace sluice::envoy {
namespace {

// The loads of limits. Files that could not be used at the start count as refused.
class LimitLoads {
 public:
  explicit LimitLoads(const protocol::MetricsDeps& deps)
      : count_(deps.policy_loads),
        failed_first_(were_not_loaded(LimitRules::of(deps.rules_at_start)) ? 1 : 0) {}

  protocol::PolicyLoads read() const {
    const protocol::PolicyLoads loads = count_();
    return {loads.good - failed_first_, loads.refused + failed_first_};
  }

 private:
  static bool were_not_loaded(const LimitRules* rules) {
    return rules != nullptr && rules->are_not_loaded();
  }

  std::function<protocol::PolicyLoads()> count_;
  uint64_t failed_first_;
};

std::shared_ptr<const LimitMetrics> metrics_of(const protocol::MetricsDeps& deps) {
  const auto* const options = static_cast<const EnvoyOptions*>(deps.options);
  SLUICE_CHECK(options != nullptr && options->metrics != nullptr);
  return options->metrics;
}

template <class Enum>
constexpr Enum nth(size_t place) {
  return static_cast<Enum>(place);
}

// The counters that do not belong to a limit's path, added up over all workers.
struct ServiceCounts {
  std::array<uint64_t, service_stats> stats{};
  std::array<uint64_t, method_names.size()> requests{};
  std::array<ResponseTimes, method_names.size()> times{};
  protocol::PolicyLoads loads{};
};

ServiceCounts count_service(std::span<const WorkerMetrics* const> workers,
                            const LimitLoads& loads) {
  ServiceCounts counts{.loads = loads.read()};
  for (const WorkerMetrics* worker : workers) {
    for (size_t i = 0; i < service_stats; ++i) counts.stats[i] += worker->read(nth<ServiceStat>(i));
    for (size_t i = 0; i < method_names.size(); ++i) {
      counts.requests[i] += worker->requests(nth<Method>(i));
      worker->add_to(nth<Method>(i), counts.times[i]);
    }
  }
  return counts;
}

uint64_t count_path(std::span<const WorkerMetrics* const> workers, size_t path, size_t stat) {
  uint64_t count = 0;
  for (const WorkerMetrics* worker : workers)
    count =
        metrics::bounded_sum(count, worker->read(static_cast<uint32_t>(path), nth<PathStat>(stat)));
  return count;
}

constexpr std::string_view limit_prefix = "ratelimit.service.rate_limit.";
// By ServiceStat.
constexpr std::array<std::string_view, service_stats> service_names = {
    "ratelimit.service.call.should_rate_limit.redis_error",
    "ratelimit.service.call.should_rate_limit.service_error",
    "ratelimit.service.global_shadow_mode"};
constexpr std::string_view load_success = "ratelimit.service.config_load_success",
                           load_error = "ratelimit.service.config_load_error";

// ---- statsd ----

// The most lines for a timer in one period. Of more values a sample is sent, with its rate.
constexpr uint64_t timer_lines_max = 1'000;

// Sends what was counted since the previous call. Used by one thread.
class StatsdLines {
 public:
  StatsdLines(const protocol::MetricsDeps& deps, std::string prefix)
      : metrics_(metrics_of(deps)), loads_(deps), prefix_(std::move(prefix)) {
    for (const auto& [key, value] : metrics_->options().tags)
      tags_.append(".__").append(key).append("=").append(value);
  }

  void operator()(const metrics::StatsdSender::Put& put) {
    put_ = &put;
    const auto workers = metrics_->workers();
    const MetricPaths& paths = metrics_->paths();
    told_.resize(paths.size());
    for (size_t path = 0; path < told_.size(); ++path)
      for (size_t stat = 0; stat < path_stat_names.size(); ++stat) {
        const uint64_t now = count_path(workers, path, stat);
        if (now == told_[path][stat]) continue;
        begin(limit_prefix);
        line_.append(paths.at(static_cast<uint32_t>(path)));
        line_.append(".").append(path_stat_names[stat]);
        end_counter(now, told_[path][stat]);
      }
    send_service(count_service(workers, loads_));
  }

 private:
  void send_service(const ServiceCounts& now) {
    ServiceCounts& told = told_service_;
    for (size_t i = 0; i < service_stats; ++i) tell(service_names[i], now.stats[i], told.stats[i]);
    tell(load_success, now.loads.good, told.loads.good);
    tell(load_error, now.loads.refused, told.loads.refused);
    for (size_t i = 0; i < method_names.size(); ++i) {
      const std::string server = "ratelimit_server." + std::string(method_names[i]);
      tell(server + ".total_requests", now.requests[i], told.requests[i]);
      send_times(server + ".response_time", now.times[i], told.times[i]);
    }
  }
  void tell(std::string_view name, uint64_t now, uint64_t& told) {
    if (now == told) return;
    begin(name);
    end_counter(now, told);
  }
  void begin(std::string_view name) { (line_ = prefix_) += name; }
  void end_counter(uint64_t now, uint64_t& told) {
    line_.append(tags_).append(":").append(std::to_string(now - told)).append("|c");
    told = now;
    (*put_)(line_);
  }

  void send_times(std::string_view name, const ResponseTimes& now, ResponseTimes& told) {
    uint64_t all = 0;
    for (size_t i = 0; i < now.counts.size(); ++i) all += now.counts[i] - told.counts[i];
    if (all == 0) return;
    const uint64_t lines = std::min(all, timer_lines_max);
    const std::string rate = lines < all ? rate_text(lines, all) : "";
    // Each value gets its share of the lines, rounded so that the shares add up.
    uint64_t before = 0;
    for (size_t i = 0; i < now.counts.size(); ++i) {
      const uint64_t after = before + now.counts[i] - told.counts[i];
      const uint64_t its = share(after, lines, all) - share(before, lines, all);
      before = after;
      if (its == 0) continue;
      begin(name);
      line_.append(tags_).append(":").append(std::to_string(ResponseTimes::ms_at(i)));
      line_.append("|ms").append(rate);
      for (uint64_t n = 0; n < its; ++n) (*put_)(line_);
    }
    told = now;
  }
  static uint64_t share(uint64_t part, uint64_t lines, uint64_t all) { return part * lines / all; }
  static std::string rate_text(uint64_t lines, uint64_t all) {
    char text[64];
    const double rate = static_cast<double>(lines) / static_cast<double>(all);
    return "|@" +
           std::string(text,
                       std::to_chars(text, text + sizeof text, rate, std::chars_format::fixed).ptr);
  }

  std::shared_ptr<const LimitMetrics> metrics_;
  LimitLoads loads_;
  const std::string prefix_;
  std::string tags_, line_;
  std::vector<std::array<uint64_t, path_stat_names.size()>> told_;
  ServiceCounts told_service_;
  const metrics::StatsdSender::Put* put_ = nullptr;
};

metrics::StatsdSender::Feed make_statsd_feed(const protocol::MetricsDeps& deps,
                                             std::string prefix) {
  if (!prefix.empty() && !prefix.ends_with('.')) prefix += '.';
  return StatsdLines(deps, std::move(prefix));
}

// ---- Prometheus ----

// With this number of paths and more, a page may take longer than a few milliseconds.
constexpr size_t paths_of_large_page = 1'000;

// The bounds of a histogram of response times, in thousandths of its unit.
constexpr std::array<uint64_t, 11> time_bounds = {5,   10,    25,    50,    100,   250,
                                                  500, 1'000, 2'500, 5'000, 10'000};

// The name that statsd's exporter gives to a metric without a mapping.
std::string family_of(std::string_view name) {
  std::string family(name);
  for (char& c : family) {
    const bool is_letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    if (!is_letter && (c < '0' || c > '9')) c = '_';
  }
  return family;
}

// The domain, the first and the second key of a path; further keys are left out. Fewer than two
// labels: the path has no mapping.
metrics::Labels labels_of(std::string_view path) {
  metrics::Labels labels;
  for (const char* const name : {"domain", "key1", "key2"}) {
    const size_t dot = path.find('.');
    labels.emplace_back(name, path.substr(0, dot));
    if (dot == std::string_view::npos) break;
    path.remove_prefix(dot + 1);
  }
  return labels;
}

// Several paths may have one series.
using Series = std::map<std::string, std::map<metrics::Labels, uint64_t>>;

Series series_of(const LimitMetrics& metrics, std::span<const WorkerMetrics* const> workers) {
  Series series;
  const MetricPaths& paths = metrics.paths();
  const size_t count = paths.size();
  for (size_t path = 0; path < count; ++path)
    for (size_t stat = 0; stat < path_stat_names.size(); ++stat) {
      const uint64_t n = count_path(workers, path, stat);
      if (n == 0) continue;
      const std::string_view name = paths.at(static_cast<uint32_t>(path));
      metrics::Labels labels = labels_of(name);
      const auto kind = nth<PathStat>(stat);
      const bool is_mapped = labels.size() > 1 && kind != PathStat::domain_not_found &&
                             kind != PathStat::over_limit_with_local_cache;
      std::string family = "ratelimit_service_rate_limit_";
      if (is_mapped)
        family += path_stat_names[stat];
      else
        family += family_of(std::string(name) + "." + std::string(path_stat_names[stat]));
      uint64_t& all = series[family][is_mapped ? std::move(labels) : metrics::Labels()];
      all = metrics::bounded_sum(all, n);
    }
  return series;
}

void add_times(const ResponseTimes& times, bool milliseconds, std::string_view method,
               metrics::Page& page) {
  std::array<uint64_t, time_bounds.size() + 1> counts{};
  uint64_t sum = 0, all = 0;
  for (size_t i = 0; i < times.counts.size(); ++i) {
    const uint64_t thousandths = ResponseTimes::ms_at(i) * (milliseconds ? 1'000 : 1);
    const auto bucket = std::ranges::lower_bound(time_bounds, thousandths) - time_bounds.begin();
    counts[static_cast<size_t>(bucket)] += times.counts[i];
    sum += times.counts[i] * thousandths;
    all += times.counts[i];
  }
  if (all == 0) return;
  page.histogram("ratelimit_service_response_time_seconds",
                 "How long calls took, by their methods.", time_bounds, counts, sum, 1e3,
                 {{"grpc_method", std::string(method)}});
}

std::string page_of(const LimitMetrics& metrics, const LimitLoads& loads) {
  metrics::Page page;
  const auto workers = metrics.workers();
  const auto add = [&](std::string_view family, std::string_view help, uint64_t count,
                       metrics::Labels labels = {}) {
    if (count > 0) page.counter(family, help, static_cast<double>(count), labels);
  };
  for (const auto& [family, all] : series_of(metrics, workers))
    for (const auto& [labels, count] : all)
      add(family, "Hits of limits, as Envoy's rate limit service counts them.", count, labels);
  const ServiceCounts service = count_service(workers, loads);
  add("ratelimit_service_config_load_success", "Policies that went live.", service.loads.good);
  add("ratelimit_service_config_load_error", "Policies that were refused.", service.loads.refused);
  add("ratelimit_service_global_shadow_mode", "Requests over that SHADOW_MODE has let pass.",
      service.stats[static_cast<size_t>(ServiceStat::global_shadow_mode)]);
  const auto add_errors = [&](const char* type, ServiceStat stat) {
    add("ratelimit_service_should_rate_limit_error", "Requests that failed, by the reason.",
        service.stats[static_cast<size_t>(stat)], {{"err_type", type}});
  };
  add_errors("redis_error", ServiceStat::redis_error);
  add_errors("service_error", ServiceStat::service_error);
  for (size_t i = 0; i < method_names.size(); ++i)
    add("ratelimit_service_total_requests", "Calls, by their methods.", service.requests[i],
        {{"grpc_method", std::string(method_names[i])}});
  for (size_t i = 0; i < method_names.size(); ++i)
    add_times(service.times[i], metrics.options().milliseconds, method_names[i], page);
  return page.text();
}

std::unique_ptr<admin::HttpHandler> make_page(const protocol::MetricsDeps& deps, std::string path) {
  const auto metrics = metrics_of(deps);
  return std::make_unique<admin::MetricsPage>(
      std::move(path), std::string(metrics::Page::content_type),
      [metrics, loads = LimitLoads(deps)] { return page_of(*metrics, loads); },
      [metrics] { return metrics->paths().size() > paths_of_large_page; });
}

}  // namespace

constinit const protocol::Metrics own_metrics = {
    .is_counted_by_engine = false,
    .latency_bounds_ms = {},
    .error_codes = {},
    .page_name = "envoy-metrics",
    .make_page = make_page,
    .make_statsd_feed = make_statsd_feed,
};

}  // namespace sluice::envoy
