// What Divvy's users know: its page of metrics, and its lines for statsd.
#include <algorithm>
#include <array>
#include <charconv>
#include <map>

#include "admin/figures.h"

namespace sluice::admin {
namespace {

// Divvy counts nothing of a request that failed.
constexpr size_t statuses = 4;
constexpr std::array<const char*, statuses> status_names{"accepted", "rejected", "canary-accepted",
                                                         "canary-rejected"};
constexpr std::array<const char*, engine::fault_count> fault_names{"unknown-command", "unknown",
                                                                   "internal"};

struct Sample {
  uint64_t count = 0;
  uint64_t first = UINT64_MAX;  // when it was first counted: samples stand in that order

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

// Thousandths as JavaScript prints the quotient.
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

}  // namespace

std::string Figures::divvy_page() const {
  std::string out;
  head(out, "divvy_tcp_connections_total", "gauge",
       "Total number of open TCP connections to Divvy.");
  out += "divvy_tcp_connections_total " + std::to_string(connections(protocol::Protocol::divvy)) +
         "\n";

  const std::string duration = "divvy_hit_duration_seconds";
  head(out, duration, "histogram", "Histogram of Divvy processing time for HITs.");
  const auto all = tallies();
  metrics::Distribution<engine::divvy_bounds_ms.size()> latency;
  for (const engine::Tally* tally : all) tally->divvy_latency().add_to(latency);
  uint64_t count = 0;
  for (size_t i = 0; i < latency.counts.size(); ++i) {
    const std::string bound =
        i < engine::divvy_bounds_ms.size() ? in_thousandths(engine::divvy_bounds_ms[i]) : "+Inf";
    count += latency.counts[i];
    out += duration + "_bucket{le=\"" + bound + "\"} " + std::to_string(count) + "\n";
  }
  out += duration + "_sum " + in_thousandths(latency.sum) + "\n";
  out += duration + "_count " + std::to_string(count) + "\n";

  std::map<std::string, Sample> hits, errors;  // by their labels
  for (size_t rule = 0; rule < names_.size(); ++rule) {
    const auto number = static_cast<uint16_t>(rule);
    for (size_t status = 0; status < statuses; ++status) {
      const auto said = static_cast<engine::Said>(status);
      for (const engine::Tally* tally : all) {
        const uint64_t n = tally->said(protocol::Protocol::divvy, number, said);
        if (n == 0) continue;
        hits[std::string("status=\"") + status_names[status] + "\",rule_label=\"" +
             escaped(names_.at(number).label) + "\""]
            .add(n, tally->first_said(number, said));
      }
    }
  }
  head(out, "divvy_hits_total", "counter", "Counter of total HITs to Divvy.");
  append_in_order(out, "divvy_hits_total", hits);

  for (size_t i = 0; i < engine::fault_count; ++i) {
    Sample& sample = errors[std::string("code=\"") + fault_names[i] + "\""];
    for (const engine::Tally* tally : all)
      sample.add(tally->divvy_faults(static_cast<engine::Fault>(i)),
                 tally->first_fault(static_cast<engine::Fault>(i)));
  }
  head(out, "divvy_errors_total", "counter", "Counter of total Divvy errors.");
  append_in_order(out, "divvy_errors_total", errors);
  return out;
}

void Figures::tell_statsd(const std::string& prefix, const metrics::StatsdSender::Put& put) {
  std::vector<engine::Tally*> all;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& tally : tallies_) all.push_back(tally.get());
  }
  using Kind = engine::Tally::Event::Kind;
  uint64_t lost = 0;
  std::string line;
  for (engine::Tally* tally : all) {
    if (tally->events() == nullptr) continue;
    tally->events()->drain([&](const engine::Tally::Event& event) {
      line = prefix;
      switch (event.kind) {
        case Kind::said: {
          line.append("hit.").append(status_names[event.what]);
          const size_t end = line.size();
          put(line.append(":1|c"));
          const std::string& label = names_.at(event.rule).label;
          if (label.empty()) return;
          line.resize(end);
          line.append(".").append(label).append(":1|c");
          break;
        }
        case Kind::took:
          line.append("hit:").append(std::to_string(event.value)).append("|ms");
          break;
        case Kind::connections:
          told_connections_ = std::max<int64_t>(told_connections_ + event.value, 0);
          line.append("connections:").append(std::to_string(told_connections_)).append("|g");
          break;
        case Kind::fault:
          line.append("error.").append(fault_names[event.what]).append(":1|c");
          break;
      }
      put(line);
    });
    lost += tally->events()->lost();
  }
  // Who came or went may be among what was lost.
  if (lost == lost_seen_) return;
  lost_seen_ = lost;
  told_connections_ = static_cast<int64_t>(connections(protocol::Protocol::divvy));
}

}  // namespace sluice::admin
