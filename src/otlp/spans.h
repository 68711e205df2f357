// Spans of requests on their way from a worker to the exporter, in memory that is made at the
// start: a worker takes a free span, fills it, and hands it over through a ring; the exporter gives
// it back through another one. So a worker neither locks nor allocates for it. While no span is
// free, requests go untraced and are counted.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <random>
#include <string_view>
#include <utility>
#include <vector>

#include "base/time.h"
#include "metrics/cells.h"
#include "metrics/top.h"
#include "otlp/caller.h"
#include "request/session.h"

namespace sluice::otlp {

// A text that is cut to its room.
template <size_t room>
class ShortText {
 public:
  void clear() { size_ = 0; }
  void append(std::string_view text) {
    const size_t size = std::min(text.size(), room - size_);
    std::copy_n(text.data(), size, bytes_.data() + size_);
    size_ = static_cast<uint16_t>(size_ + size);
  }
  std::string_view view() const { return {bytes_.data(), size_}; }
  bool is_full() const { return size_ == room; }

 private:
  static_assert(room <= UINT16_MAX);
  uint16_t size_ = 0;
  std::array<char, room> bytes_;
};

// What became of a request. The later ones outweigh the earlier ones if it has several parts.
enum class Outcome : uint8_t { none, unmatched, allowed, error, denied };
inline constexpr std::array<std::string_view, 5> outcome_names{"", "unmatched", "allowed", "error",
                                                               "denied"};

// The server's span of one request. Views are literals.
struct Span {
  enum class Kind : uint8_t { http, grpc };

  TraceId trace{};
  uint64_t id = 0, parent = 0;  // parent: 0: the span begins the trace
  base::Time began{}, ended{};
  Kind kind = Kind::http;
  std::string_view name{};    // http: the route; grpc: SERVICE/METHOD
  std::string_view method{};  // of HTTP
  uint16_t status = 0;        // of HTTP, or of gRPC
  Outcome outcome = Outcome::none;
  std::string_view code{};       // Envoy's overall code
  std::string_view algorithm{};  // of the limit that decided; empty: none did
  ShortText<64> peer{};          // ADDRESS:PORT
  ShortText<128> domain{}, rule{};
  ShortText<256> entries{};  // KEY=VALUE, ... only if values are wanted

  // Takes the verdict about one part of the request.
  void note(const request::Verdict& verdict);
  void note_entry(std::string_view key, std::string_view value);
};

// What workers look at. Any thread.
class Sampling {
 public:
  // `share`: 0 to 1, of the traces that begin here, and of those whose caller leaves it open.
  void set(double share, bool values);
  bool takes(const Caller& caller, const TraceId& trace) const {
    return caller.sampled.value_or((trace.low >> 1) < bound_.load(std::memory_order_relaxed));
  }
  bool wants_values() const { return values_.load(std::memory_order_relaxed); }

 private:
  std::atomic<uint64_t> bound_{0};  // of the low 63 bits of a trace's id
  std::atomic<bool> values_{false};
};

class Spans;

// The span of a request that is under way; given up unless it is ended. Worker's thread.
class OpenSpan {
 public:
  OpenSpan() = default;
  OpenSpan(Spans& spans, Span& span) : spans_(&spans), span_(&span) {}
  OpenSpan(OpenSpan&& other) noexcept
      : spans_(other.spans_), span_(std::exchange(other.span_, nullptr)) {}
  OpenSpan& operator=(OpenSpan&& other) noexcept {
    std::swap(spans_, other.spans_);
    std::swap(span_, other.span_);
    return *this;
  }
  ~OpenSpan() {
    if (span_ != nullptr) [[unlikely]]
      give_up();
  }

  explicit operator bool() const { return span_ != nullptr; }
  Span* operator->() const { return span_; }
  Span* get() const { return span_; }
  // Hands it over to the exporter; then there is none.
  void end(base::Time now);
  void give_up();

 private:
  Spans* spans_ = nullptr;
  Span* span_ = nullptr;  // null: there is none
};

// The spans of one worker.
class Spans {
 public:
  // Of `most` spans. When half of them wait, `wake_fd`, an eventfd, is written to, unless `awake`
  // says that it was; the references outlive this.
  Spans(size_t most, const Sampling& sampling, std::atomic<bool>& awake, int wake_fd);

  // Worker's thread. None: the trace is not sampled, or no span is free.
  OpenSpan begin(const CallerFields& fields, base::Time now);
  bool wants_values() const { return sampling_.wants_values(); }

  // Exporter's thread: calls `take(span)` for at most `most` spans that wait, which are free again
  // afterwards. Returns how many there were.
  template <class Take>
  size_t drain(size_t most, Take&& take) {
    size_t count = 0;
    ended_.drain(
        [&](Span* span) {
          take(*span);
          back_.put(span);
          ++count;
        },
        most);
    back_.publish();
    return count;
  }

  // Any thread: how many requests were not traced, as no span was free.
  uint64_t dropped() const { return dropped_.read(); }

 private:
  friend class OpenSpan;
  void end(Span* span, base::Time now);

  const Sampling& sampling_;
  std::atomic<bool>& awake_;
  const int wake_fd_;
  const std::unique_ptr<Span[]> all_;
  std::vector<Span*> free_;  // never more than there are: it does not allocate
  metrics::Ring<Span*> ended_, back_;
  metrics::Cell dropped_;
  std::mt19937_64 random_;
};

}  // namespace sluice::otlp
