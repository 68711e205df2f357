#include "otlp/messages.h"

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <utility>

#include "base/utf8.h"
#include "wire/protobuf.h"

namespace sluice::otlp {
namespace {

using wire::append_double;
using wire::append_fixed64;
using wire::append_number;
using wire::append_text;

constexpr std::string_view schema = "https://opentelemetry.io/schemas/1.7.0";
constexpr uint64_t kind_server = 2, status_error = 2, cumulative = 2;

// Protobuf's strings are UTF-8, whatever clients send.
void append_string(uint32_t field, std::string_view text, std::string& to) {
  if (base::utf8::is_valid(text)) return append_text(field, text, to);
  std::string clean(base::utf8::sanitized_size(text), '\0');
  base::utf8::sanitize(text, clean.data());
  append_text(field, clean, to);
}

// A KeyValue, as field `field` of `to`.
void append_attribute(uint32_t field, std::string_view key, std::string_view value,
                      std::string& to) {
  std::string any, pair;
  append_string(1, value, any);
  append_string(1, key, pair);
  append_text(2, any, pair);
  append_text(field, pair, to);
}
void append_attribute(uint32_t field, std::string_view key, uint64_t value, std::string& to) {
  std::string any, pair;
  append_number(3, value, any);
  append_string(1, key, pair);
  append_text(2, any, pair);
  append_text(field, pair, to);
}

template <size_t words>
std::string bytes_of(const std::array<uint64_t, words>& numbers) {
  std::string bytes;
  for (const uint64_t number : numbers)
    for (int shift = 56; shift >= 0; shift -= 8) bytes += static_cast<char>(number >> shift);
  return bytes;
}

uint64_t nanoseconds(base::Time time) {
  return static_cast<uint64_t>(time.us) * 1000;
}

std::string resource_message(const Resource& resource) {
  std::string message;
  const auto add = [&](std::string_view key, std::string_view value) {
    if (!value.empty()) append_attribute(1, key, value, message);
  };
  add("service.name", resource.service);
  add("service.namespace", resource.name_space);
  add("service.instance.id", resource.instance);
  return message;
}

// ResourceSpans in ExportTraceServiceRequest, or the same of metrics: `items` are fields 2 of
// ScopeSpans or ScopeMetrics, written already.
std::string wrapped(const Resource& resource, std::string_view version, std::string_view items) {
  std::string scope, of_scope, of_resource, message;
  append_string(1, "sluice", scope);
  append_string(2, version, scope);
  append_text(1, scope, of_scope);
  of_scope += items;
  append_text(1, resource_message(resource), of_resource);
  append_text(2, of_scope, of_resource);
  append_text(3, schema, of_resource);
  append_text(1, of_resource, message);
  return message;
}

void append_rpc(const Span& span, std::string& to) {
  const size_t slash = span.name.find('/');
  append_attribute(9, "rpc.system", "grpc", to);
  append_attribute(9, "rpc.service", span.name.substr(0, slash), to);
  append_attribute(9, "rpc.method", span.name.substr(slash + 1), to);
  append_attribute(9, "rpc.grpc.status_code", uint64_t{span.status}, to);
}

void append_http(const Span& span, std::string& to) {
  append_attribute(9, "http.method", span.method, to);
  append_attribute(9, "http.route", span.name, to);
  append_attribute(9, "http.status_code", uint64_t{span.status}, to);
}

void append_peer(std::string_view peer, std::string& to) {
  const size_t colon = peer.rfind(':');
  if (colon == peer.npos) return;
  std::string_view address = peer.substr(0, colon), port = peer.substr(colon + 1);
  if (address.starts_with('[') && address.ends_with(']'))
    address = address.substr(1, address.size() - 2);
  append_attribute(9, "net.sock.peer.addr", address, to);
  uint64_t number = 0;
  std::from_chars(port.data(), port.data() + port.size(), number);
  append_attribute(9, "net.sock.peer.port", number, to);
}

}  // namespace

void append_span(const Span& span, std::string& to) {
  const bool is_http = span.kind == Span::Kind::http;
  std::string text;
  append_text(1, bytes_of(std::array{span.trace.high, span.trace.low}), text);
  append_text(2, bytes_of(std::array{span.id}), text);
  if (span.parent != 0) append_text(4, bytes_of(std::array{span.parent}), text);
  std::string name(span.method);
  if (is_http) name += ' ';
  append_string(5, name.append(span.name), text);
  append_number(6, kind_server, text);
  append_fixed64(7, nanoseconds(span.began), text);
  // The wall clock may have been set back meanwhile.
  append_fixed64(8, nanoseconds(std::max(span.began, span.ended)), text);
  is_http ? append_http(span, text) : append_rpc(span, text);
  append_peer(span.peer.view(), text);
  if (!span.domain.view().empty()) append_attribute(9, "domain", span.domain.view(), text);
  if (!span.code.empty()) append_attribute(9, "overall_code", span.code, text);
  if (span.outcome != Outcome::none)
    append_attribute(9, "sluice.decision", outcome_names[static_cast<size_t>(span.outcome)], text);
  if (!span.rule.view().empty()) append_attribute(9, "sluice.rule", span.rule.view(), text);
  if (!span.algorithm.empty()) append_attribute(9, "sluice.limit", span.algorithm, text);
  if (!span.entries.view().empty())
    append_attribute(9, "sluice.entries", span.entries.view(), text);
  // A refusal is an answer, and no error of the server.
  const bool failed = is_http ? span.status >= 500 : span.status != 0;
  if (failed) {
    std::string status;
    append_number(3, status_error, status);
    append_text(15, status, text);
  }
  append_text(2, text, to);
}

std::string trace_message(const Resource& resource, std::string_view version,
                          std::string_view spans) {
  return wrapped(resource, version, spans);
}

MetricsMessage::Family& MetricsMessage::family_of(std::string_view name, std::string_view help,
                                                  Kind kind) {
  const auto known = families_.find(name);
  if (known != families_.end()) return known->second;
  return families_.emplace(std::string(name), Family{std::string(help), kind, {}}).first->second;
}

void MetricsMessage::add_number(Family& family, double value, const metrics::Labels& labels) const {
  std::string point;
  for (const auto& [key, text] : labels) append_attribute(7, key, text, point);
  if (family.kind == Kind::sum) append_fixed64(2, began_ns_, point);
  append_fixed64(3, now_ns_, point);
  append_double(4, value, point);
  append_text(1, point, family.points);
}

void MetricsMessage::counter(std::string_view family, std::string_view help, double value,
                             const metrics::Labels& labels) {
  add_number(family_of(family, help, Kind::sum), value, labels);
}

void MetricsMessage::gauge(std::string_view family, std::string_view help, double value,
                           const metrics::Labels& labels) {
  add_number(family_of(family, help, Kind::gauge), value, labels);
}

void MetricsMessage::histogram(std::string_view family, std::string_view help,
                               std::span<const uint64_t> bounds, std::span<const uint64_t> counts,
                               uint64_t sum, double per_unit, const metrics::Labels& labels) {
  std::string point, packed_counts, packed_bounds;
  const auto pack = [](uint64_t bits, std::string& to) {
    for (int shift = 0; shift < 64; shift += 8) to += static_cast<char>(bits >> shift);
  };
  uint64_t all = 0;
  for (const uint64_t count : counts) {
    all += count;
    pack(count, packed_counts);
  }
  for (const uint64_t bound : bounds)
    pack(std::bit_cast<uint64_t>(static_cast<double>(bound) / per_unit), packed_bounds);
  for (const auto& [key, text] : labels) append_attribute(9, key, text, point);
  append_fixed64(2, began_ns_, point);
  append_fixed64(3, now_ns_, point);
  append_fixed64(4, all, point);
  append_double(5, static_cast<double>(sum) / per_unit, point);
  append_text(6, packed_counts, point);
  append_text(7, packed_bounds, point);
  append_text(1, point, family_of(family, help, Kind::histogram).points);
}

std::string MetricsMessage::message(const Resource& resource, std::string_view version) const {
  std::string all;
  for (const auto& [name, family] : families_) {
    std::string points = family.points, metric;
    if (family.kind != Kind::gauge) append_number(2, cumulative, points);
    if (family.kind == Kind::sum) append_number(3, 1, points);
    append_string(1, name, metric);
    append_string(2, family.help, metric);
    append_text(static_cast<uint32_t>(family.kind), points, metric);
    append_text(2, metric, all);
  }
  return wrapped(resource, version, all);
}

Rejected read_rejected(std::string_view response) {
  using Reader = wire::ProtobufReader<uint64_t, wire::ProtobufKeys::valid>;
  constexpr int groups_max = 8;
  Rejected rejected;
  Reader reader(response);
  std::string_view partial;
  for (uint32_t key = 0; !reader.at_end();) {
    if (!reader.read_key(key)) return {};
    const bool sound = key == wire::protobuf_key(1, wire::bytes) ? reader.read_text(partial)
                                                                 : reader.skip(key, groups_max);
    if (!sound) return {};
  }
  Reader its(partial);
  for (uint32_t key = 0; !its.at_end();) {
    if (!its.read_key(key)) return {};
    std::string_view why;
    bool sound = true;
    if (key == wire::protobuf_key(1, wire::varint)) {
      sound = its.read_number(rejected.count);
    } else if (key == wire::protobuf_key(2, wire::bytes)) {
      sound = its.read_text(why);
      rejected.why = why;
    } else {
      sound = its.skip(key, groups_max);
    }
    if (!sound) return {};
  }
  return rejected;
}

}  // namespace sluice::otlp
