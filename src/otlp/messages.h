// The messages of OTLP (opentelemetry-proto 1.x) that are sent: spans, and what a scrape of
// /metrics shows. Protobuf, written field by field. Used by the exporter's thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>

#include "metrics/page.h"
#include "otlp/spans.h"

namespace sluice::otlp {

// Who sends: `service.name`, `service.namespace`, `service.instance.id`. Those that are empty are
// left out.
struct Resource {
  std::string service, name_space, instance;
};

// Appends one span of ScopeSpans.
void append_span(const Span& span, std::string& to);
// An ExportTraceServiceRequest with spans that were written so.
std::string trace_message(const Resource& resource, std::string_view version,
                          std::string_view spans);

// Collects what a scrape shows: counters as cumulative sums, gauges, histograms.
class MetricsMessage final : public metrics::Page {
 public:
  // Times in nanoseconds since 1970: since when the counters count, and now.
  MetricsMessage(uint64_t began_ns, uint64_t now_ns) : began_ns_(began_ns), now_ns_(now_ns) {}

  void counter(std::string_view family, std::string_view help, double value,
               const metrics::Labels& labels) override;
  void gauge(std::string_view family, std::string_view help, double value,
             const metrics::Labels& labels) override;
  void histogram(std::string_view family, std::string_view help, std::span<const uint64_t> bounds,
                 std::span<const uint64_t> counts, uint64_t sum, double per_unit,
                 const metrics::Labels& labels) override;

  // The ExportMetricsServiceRequest.
  std::string message(const Resource& resource, std::string_view version) const;

 private:
  // The fields of Metric that hold points of a kind.
  enum class Kind : uint8_t { gauge = 5, sum = 7, histogram = 9 };
  struct Family {
    std::string help;
    Kind kind;
    std::string points;  // of Gauge, Sum or Histogram
  };

  Family& family_of(std::string_view name, std::string_view help, Kind kind);
  void add_number(Family& family, double value, const metrics::Labels& labels) const;

  const uint64_t began_ns_, now_ns_;
  std::map<std::string, Family, std::less<>> families_;
};

// What the collector says of a request that it took in part (ExportTraceServiceResponse and
// ExportMetricsServiceResponse have the same fields).
struct Rejected {
  uint64_t count = 0;  // spans, or points
  std::string why;
};
// Nothing was rejected if the text is no such message.
Rejected read_rejected(std::string_view response);

}  // namespace sluice::otlp
