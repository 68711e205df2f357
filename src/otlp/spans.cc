#include "otlp/spans.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>

#include "limit/limit.h"

namespace sluice::otlp {

void Span::note(const request::Verdict& verdict) {
  const Outcome its = !verdict.error.empty()        ? Outcome::error
                      : verdict.tightest == nullptr ? Outcome::unmatched
                      : verdict.allowed             ? Outcome::allowed
                                                    : Outcome::denied;
  if (its <= outcome) return;
  outcome = its;
  if (verdict.tightest == nullptr) return;
  rule.clear();
  rule.append(verdict.rule);
  algorithm = verdict.limit == nullptr ? std::string_view() : name_of(verdict.limit->algorithm);
}

void Span::note_entry(std::string_view key, std::string_view value) {
  if (!entries.view().empty()) entries.append(", ");
  entries.append(key);
  entries.append("=");
  entries.append(value);
}

void Sampling::set(double share, bool values) {
  constexpr double all = 9223372036854775808.0;  // 2^63
  bound_ = share >= 1 ? uint64_t{1} << 63 : static_cast<uint64_t>(std::max(share, 0.0) * all);
  values_ = values;
}

Spans::Spans(size_t most, const Sampling& sampling, std::atomic<bool>& awake, int wake_fd)
    : sampling_(sampling),
      awake_(awake),
      wake_fd_(wake_fd),
      all_(new Span[most]),
      ended_(most),
      back_(most) {
  std::random_device seed;
  random_.seed(uint64_t{seed()} << 32 | seed());
  free_.reserve(most);
  for (size_t i = 0; i < most; ++i) free_.push_back(&all_[i]);
}

OpenSpan Spans::begin(const CallerFields& fields, base::Time now) {
  const Caller caller = read_caller(fields);
  TraceId trace = caller.trace;
  if (trace == TraceId()) trace = {random_(), random_() | 1};
  if (!sampling_.takes(caller, trace)) return {};
  if (free_.empty()) back_.drain([this](Span* span) { free_.push_back(span); });
  if (free_.empty()) {
    dropped_.add();
    return {};
  }
  Span* const span = free_.back();
  free_.pop_back();
  span->trace = trace;
  span->id = random_() | 1;  // never 0, which is none
  span->parent = caller.span;
  span->began = now;
  span->name = span->method = span->code = span->algorithm = {};
  span->status = 0;
  span->outcome = Outcome::none;
  span->peer.clear();
  span->domain.clear();
  span->rule.clear();
  span->entries.clear();
  return {*this, *span};
}

void OpenSpan::end(base::Time now) {
  spans_->end(std::exchange(span_, nullptr), now);
}

void OpenSpan::give_up() {
  spans_->free_.push_back(std::exchange(span_, nullptr));
}

void Spans::end(Span* span, base::Time now) {
  span->ended = now;
  ended_.put(span);
  if (!ended_.publish() || awake_.exchange(true)) return;
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t ignored = ::write(wake_fd_, &one, sizeof one);
}

}  // namespace sluice::otlp
