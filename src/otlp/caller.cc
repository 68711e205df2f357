#include "otlp/caller.h"

#include <array>
#include <cstddef>
#include <utility>

#include "wire/http_field.h"

namespace sluice::otlp {
namespace {

constexpr std::array<std::pair<std::string_view, std::string_view CallerFields::*>, 6> names{{
    {"traceparent", &CallerFields::traceparent},
    {"b3", &CallerFields::b3},
    {"x-b3-traceid", &CallerFields::b3_trace},
    {"x-b3-spanid", &CallerFields::b3_span},
    {"x-b3-sampled", &CallerFields::b3_sampled},
    {"x-b3-flags", &CallerFields::b3_flags},
}};

// At most 16 digits, in lower case as both formats want them.
std::optional<uint64_t> read_hex(std::string_view text) {
  uint64_t number = 0;
  for (const char c : text) {
    const bool is_digit = c >= '0' && c <= '9';
    if (!is_digit && (c < 'a' || c > 'f')) return std::nullopt;
    number = number << 4 | static_cast<uint64_t>(is_digit ? c - '0' : c - 'a' + 10);
  }
  return number;
}

constexpr size_t id_digits = 16;

std::optional<TraceId> read_trace(std::string_view text) {
  if (text.size() != id_digits && text.size() != 2 * id_digits) return std::nullopt;
  const auto high = read_hex(text.substr(0, text.size() - id_digits)),
             low = read_hex(text.substr(text.size() - id_digits));
  if (!high || !low || (*high | *low) == 0) return std::nullopt;
  return TraceId{*high, *low};
}

std::optional<uint64_t> read_span(std::string_view text) {
  const auto id = text.size() == id_digits ? read_hex(text) : std::nullopt;
  return id && *id != 0 ? id : std::nullopt;
}

// `d`: debug, which is sampled in any case.
std::optional<bool> read_b3_sampled(std::string_view text) {
  if (text == "1" || text == "d") return true;
  if (text == "0") return false;
  return std::nullopt;
}

// Nothing of what these fields say counts if one of them is wrong.
Caller read_b3_fields(const CallerFields& fields) {
  Caller caller;
  const std::string_view sampled = fields.b3_sampled;
  if (fields.b3_flags == "1" || sampled == "1" || sampled == "true")
    caller.sampled = true;
  else if (sampled == "0" || sampled == "false")
    caller.sampled = false;
  else if (!sampled.empty())
    return {};
  if (fields.b3_trace.empty() && fields.b3_span.empty()) return caller;
  const auto trace = read_trace(fields.b3_trace);
  const auto span = read_span(fields.b3_span);
  if (!trace || !span) return {};
  caller.trace = *trace;
  caller.span = *span;
  return caller;
}

}  // namespace

void CallerFields::add(std::string_view name, std::string_view value) {
  for (const auto& [its, place] : names) {
    if (!wire::is_http_name(name, its)) continue;
    twice |= !(this->*place).empty();
    this->*place = value;
    return;
  }
}

bool is_caller_field(std::string_view lower_name) {
  for (const auto& [its, place] : names)
    if (its == lower_name) return true;
  return false;
}

Caller read_caller(const CallerFields& fields) {
  if (fields.twice) return {};
  if (const auto caller = read_traceparent(fields.traceparent)) return *caller;
  if (const auto caller = read_b3(fields.b3)) return *caller;
  return read_b3_fields(fields);
}

// VERSION-TRACE-SPAN-FLAGS; a later version may have more behind a further dash.
std::optional<Caller> read_traceparent(std::string_view text) {
  constexpr size_t size = 55;
  if (text.size() < size || text[2] != '-' || text[35] != '-' || text[52] != '-')
    return std::nullopt;
  const auto version = read_hex(text.substr(0, 2)), flags = read_hex(text.substr(53, 2));
  if (!version || *version == 0xff || !flags) return std::nullopt;
  if (text.size() > size && (*version == 0 || text[size] != '-')) return std::nullopt;
  const auto trace = read_trace(text.substr(3, 2 * id_digits));
  const auto span = read_span(text.substr(36, id_digits));
  if (!trace || !span) return std::nullopt;
  return Caller{*trace, *span, (*flags & 1) != 0};
}

// TRACE-SPAN, and behind it perhaps -SAMPLED and -PARENT; or SAMPLED alone.
std::optional<Caller> read_b3(std::string_view text) {
  const auto next = [&text] {
    const size_t size = text.find('-');
    const std::string_view piece = text.substr(0, size);
    text = size == text.npos ? std::string_view() : text.substr(size + 1);
    return piece;
  };
  if (text.ends_with('-')) return std::nullopt;
  if (text.size() == 1) {
    const auto sampled = read_b3_sampled(text);
    return sampled ? std::optional(Caller{{}, 0, sampled}) : std::nullopt;
  }
  const auto trace = read_trace(next());
  const auto span = read_span(next());
  if (!trace || !span) return std::nullopt;
  Caller caller{*trace, *span, {}};
  if (!text.empty()) {
    caller.sampled = read_b3_sampled(next());
    if (!caller.sampled) return std::nullopt;
  }
  if (!text.empty() && !read_span(text)) return std::nullopt;
  return caller;
}

}  // namespace sluice::otlp
