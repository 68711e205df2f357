// What the caller of a request says of its trace: W3C Trace Context (`traceparent`) and B3
// (`b3`, `x-b3-*`), as fields of HTTP and as metadata of gRPC. A value that is not well formed
// counts as not sent. Pure functions; any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace sluice::otlp {

// Of 128 bits; all zero: none.
struct TraceId {
  uint64_t high = 0, low = 0;
  friend bool operator==(const TraceId&, const TraceId&) = default;
};

struct Caller {
  TraceId trace{};    // none: the request begins a trace
  uint64_t span = 0;  // the caller's; 0: none, as `trace`
  // Is the trace recorded? Empty: the caller leaves that to the server.
  std::optional<bool> sampled{};
  friend bool operator==(const Caller&, const Caller&) = default;
};

// The fields of a request that say it, as they were sent; empty: not sent. Views of the request.
struct CallerFields {
  std::string_view traceparent{}, b3{}, b3_trace{}, b3_span{}, b3_sampled{}, b3_flags{};
  bool twice = false;  // one of them came twice: then none of them counts

  // Keeps the field if it is one of them; others are passed over. Names in any case.
  void add(std::string_view name, std::string_view value);
};
// Is it the name of one of them? In lower case.
bool is_caller_field(std::string_view lower_name);

// By `traceparent`, else by `b3`, else by `x-b3-*`; none of them: as if nothing were sent.
Caller read_caller(const CallerFields& fields);

// Of one field; empty: it is not well formed.
std::optional<Caller> read_traceparent(std::string_view text);
std::optional<Caller> read_b3(std::string_view text);

}  // namespace sluice::otlp
