#include "protocol/divvy/metrics.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <map>
#include <utility>

#include "admin/server_stats.h"

namespace sluice::divvy {
namespace {

using engine::WorkerStats;
using protocol::Protocol;

constexpr std::array<uint64_t, 6> bounds_ms{1, 2, 5, 10, 100, 500};
constexpr std::array<std::string_view, 3> error_codes{"unknown-command", "unknown", "internal"};

// As in Divvy, requests that failed are not counted.
constexpr size_t statuses = 4;
constexpr std::array<const char*, statuses> status_names{"accepted", "rejected", "canary-accepted",
                                                         "canary-rejected"};

struct Sample {
  uint64_t count = 0;
  uint64_t first = UINT64_MAX;  // when it was first counted; samples are sorted by it

  void add(uint64_t n, uint64_t at) {
    if (n == 0) return;
    count += n;
    first = std::min(first, at);
  }
};

void head(std::string& out, std::string_view name, std::string_view type, std::string_view help) {
  if (!out.empty()) out += '\n';
  out.append("# HELP ").append(name).append(" ").append(help).append("\n");
  out.append("# TYPE ").append(name).append(" ").append(type).append("\n");
}

std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '\\' || c == '"') out += '\\';
    if (c == '\n')
      out += "\\n";
    else
      out += c;
  }
  return out;
}

// n / 1000, formatted as JavaScript prints it.
std::string in_thousandths(uint64_t n) {
  char text[32];
  const auto end = std::to_chars(text, text + sizeof text, static_cast<double>(n) / 1000).ptr;
  return {text, end};
}

template <class Samples>
void append_in_order(std::string& out, std::string_view family, const Samples& samples) {
  std::map<uint64_t, std::string> lines;
  for (const auto& [labels, sample] : samples) {
    if (sample.count == 0) continue;
    std::string& line = lines[sample.first];
    line.append(family).append("{").append(labels).append("} ");
    line.append(std::to_string(sample.count)).append("\n");
  }
  for (const auto& [first, line] : lines) out += line;
}

std::string page_of(const admin::ServerStats& server_stats, Protocol protocol) {
  std::string out;
  head(out, "divvy_tcp_connections_total", "gauge",
       "Total number of open TCP connections to Divvy.");
  out += "divvy_tcp_connections_total " + std::to_string(server_stats.connections(protocol)) + "\n";

  const std::string duration = "divvy_hit_duration_seconds";
  head(out, duration, "histogram", "Histogram of Divvy processing time for HITs.");
  const auto all = server_stats.worker_stats();
  metrics::Distribution<protocol::Metrics::latency_bounds_max> latency;
  for (const WorkerStats* stats : all) stats->own(protocol)->latency_ms.add_to(latency);
  uint64_t count = 0;
  for (size_t i = 0; i <= bounds_ms.size(); ++i) {
    const std::string bound = i < bounds_ms.size() ? in_thousandths(bounds_ms[i]) : "+Inf";
    count += latency.counts[i];
    out += duration + "_bucket{le=\"" + bound + "\"} " + std::to_string(count) + "\n";
  }
  out += duration + "_sum " + in_thousandths(latency.sum) + "\n";
  out += duration + "_count " + std::to_string(count) + "\n";

  std::map<std::string, Sample> hits, errors;  // by their labels
  const metrics::Names& names = server_stats.names();
  for (size_t rule = 0; rule < names.size(); ++rule) {
    const auto number = static_cast<uint16_t>(rule);
    for (size_t status = 0; status < statuses; ++status) {
      const auto said = static_cast<engine::RuleOutcome>(status);
      for (const WorkerStats* stats : all) {
        const uint64_t n = stats->said(protocol, number, said);
        if (n == 0) continue;
        hits[std::string("status=\"") + status_names[status] + "\",rule_label=\"" +
             escaped(names.at(number).label) + "\""]
            .add(n, stats->first_said(protocol, number, said));
      }
    }
  }
  head(out, "divvy_hits_total", "counter", "Counter of total HITs to Divvy.");
  append_in_order(out, "divvy_hits_total", hits);

  for (size_t i = 0; i < error_codes.size(); ++i) {
    Sample& sample = errors["code=\"" + std::string(error_codes[i]) + "\""];
    for (const WorkerStats* stats : all) {
      const WorkerStats::Own& own = *stats->own(protocol);
      sample.add(own.errors[i].read(), own.first_errors[i].read());
    }
  }
  head(out, "divvy_errors_total", "counter", "Counter of total Divvy errors.");
  append_in_order(out, "divvy_errors_total", errors);
  return out;
}

// Divvy's metrics port: one page, which is served for any method, as in Divvy.
std::unique_ptr<admin::HttpHandler> make_page(const protocol::MetricsDeps& deps, std::string path) {
  return std::make_unique<admin::MetricsPage>(
      std::move(path), "text/plain; version=0.0.4",
      [&server_stats = deps.server_stats, protocol = deps.protocol] {
        return page_of(server_stats, protocol);
      });
}

// Sends the events since the previous call. Used by one thread.
class StatsdFeed {
 public:
  // `prefix`: empty, or ends with a dot.
  StatsdFeed(const admin::ServerStats& server_stats, Protocol protocol, std::string prefix)
      : server_stats_(server_stats), protocol_(protocol), prefix_(std::move(prefix)) {}

  void operator()(const metrics::StatsdSender::Put& put) {
    uint64_t lost = 0;
    for (const WorkerStats* stats : server_stats_.worker_stats()) {
      if (stats->events() == nullptr) continue;
      stats->events()->drain([&](const WorkerStats::Event& event) { tell(event, put); });
      lost += stats->events()->lost();
    }
    // Lost events may include connects and disconnects, so the number is read again.
    if (lost == lost_seen_) return;
    lost_seen_ = lost;
    connections_ = static_cast<int64_t>(server_stats_.connections(protocol_));
  }

 private:
  void tell(const WorkerStats::Event& event, const metrics::StatsdSender::Put& put) {
    using Kind = WorkerStats::Event::Kind;
    line_ = prefix_;
    switch (event.kind) {
      case Kind::said: {
        line_.append("hit.").append(status_names[event.what]);
        const size_t end = line_.size();
        put(line_.append(":1|c"));
        const std::string& label = server_stats_.names().at(event.rule).label;
        if (label.empty()) return;
        line_.resize(end);
        line_.append(".").append(label).append(":1|c");
        break;
      }
      case Kind::took:
        line_.append("hit:").append(std::to_string(event.value)).append("|ms");
        break;
      case Kind::connections:
        connections_ = std::max<int64_t>(connections_ + event.value, 0);
        line_.append("connections:").append(std::to_string(connections_)).append("|g");
        break;
      case Kind::error:
        line_.append("error.").append(error_codes[event.what]).append(":1|c");
        break;
    }
    put(line_);
  }

  const admin::ServerStats& server_stats_;
  const Protocol protocol_;
  const std::string prefix_;
  std::string line_;
  int64_t connections_ = 0;
  uint64_t lost_seen_ = 0;
};

metrics::StatsdSender::Feed make_statsd_feed(const protocol::MetricsDeps& deps,
                                             std::string prefix) {
  if (!prefix.empty() && !prefix.ends_with('.')) prefix += '.';
  return StatsdFeed(deps.server_stats, deps.protocol, std::move(prefix));
}

}  // namespace

constinit const protocol::Metrics own_metrics = {
    .latency_bounds_ms = bounds_ms,
    .error_codes = error_codes,
    .other_error = 1,
    .failed_error = 2,
    .page_name = "divvy-metrics",
    .make_page = make_page,
    .make_statsd_feed = make_statsd_feed,
};

}  // namespace sluice::divvy
