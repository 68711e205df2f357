#include "protocol/limitd/session.h"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <span>

#include "base/bounds.h"
#include "protocol/limitd/message.h"

namespace sluice::limitd {
namespace {

using base::bounds::batch_requests_max;
using base::bounds::frame_bytes_max;

static_assert(base::bounds::tag_bytes_max >= frame_bytes_max, "an id is part of a frame");

// A request's note: its method in the low bits, then these.
constexpr uint32_t method_mask = 7, silent_bit = 8, numeric_bit = 16;

// The bytes that identify the start of an HTTP request. Without this check the first letter would
// be read as the length of a frame that may never be complete. No client of ours sends a frame that
// begins with these bytes, because its first field would be unknown.
constexpr size_t http_bytes = 4;
bool is_http(std::string_view front) {
  static constexpr std::string_view openings[] = {"GET ", "HEAD", "POST", "PUT ", "DELE",
                                                  "OPTI", "PATC", "TRAC", "CONN", "PRI "};
  return std::find(std::begin(openings), std::end(openings), front) != std::end(openings);
}

request::Request request_of(const LimitdRequest& r) {
  request::Request request;
  request.note = static_cast<uint32_t>(r.method) | (r.silent ? silent_bit : 0) |
                 (r.id.numeric ? numeric_bit : 0);
  request.tag = r.id.bytes;
  switch (r.method) {
    case LimitdMethod::take:
    case LimitdMethod::wait:
      request.verb = r.method == LimitdMethod::wait ? request::Verb::wait : request::Verb::take;
      request.cost = r.count == 0 ? 1 : r.count;
      if (r.count < 0) {
        // Taking never adds: it asks for what no bucket has, and not to wait for it.
        request.verb = request::Verb::take;
        request.cost = INT64_MAX;
      }
      break;
    case LimitdMethod::put:
      request.verb = r.all || r.count == 0 ? request::Verb::reset : request::Verb::put;
      request.cost = std::max<int64_t>(r.count, 0);
      break;
    case LimitdMethod::get:
      request.verb = request::Verb::peek;
      break;
    case LimitdMethod::status:
      request.verb = request::Verb::list;
      break;
    case LimitdMethod::ping:
      request.verb = request::Verb::noop;
      break;
  }
  return request;
}

// Of TAKE, WAIT and GET: to when it is full again; 0 for what refills only by PUT. An unlimited
// bucket says now, though a GET only where it has a rate.
uint64_t reset_of(LimitdMethod method, const request::Verdict& verdict, base::Time now) {
  const limit::Decision& d = *verdict.tightest;
  const bool unlimited = !verdict.is_counted() && d.allowed;
  if (unlimited && method != LimitdMethod::get) return limitd_reset({}, now);
  return limitd_reset(d.reset_after, now);
}

// Of PUT, 0 also for a bucket that it made full.
uint64_t reset_of_put(const request::Request& request, const request::Verdict& verdict,
                      base::Time now) {
  const limit::Decision& d = *verdict.tightest;
  const bool full =
      request.verb == request::Verb::reset || request.cost >= d.limit || d.remaining >= d.limit;
  if (verdict.is_counted() && full) return 0;
  return reset_of(LimitdMethod::put, verdict, now);
}

}  // namespace

request::Received LimitdSession::receive(std::string_view in, bool, request::Requests& requests,
                                         base::Buffer&) {
  if (!begun_ && in.size() >= http_bytes) {
    begun_ = true;
    closing_ = is_http(in.substr(0, http_bytes));
  }
  if (closing_) return {in.size(), true};

  size_t consumed = 0;
  for (size_t taken = 0; taken < batch_requests_max && consumed < in.size();) {
    std::string_view body;
    size_t used = 0;
    const LimitdFrame frame = find_limitd_frame(in.substr(consumed), frame_bytes_max, body, used);
    if (frame == LimitdFrame::unfinished) break;
    LimitdRequest r;
    if (frame == LimitdFrame::bad || (!body.empty() && !read_limitd_request(body, r))) {
      closing_ = true;
      return {in.size(), true};
    }
    begun_ = true;
    consumed += used;
    if (body.empty()) continue;

    requests.open();
    if (r.method != LimitdMethod::ping) requests.add(request::Entry{"type", r.type});
    if (r.method != LimitdMethod::ping)  // of a list: the beginning of the keys
      requests.add(request::Entry{"key", r.key});
    requests.commit(request_of(r));
    ++taken;
  }
  return {consumed, false};
}

bool LimitdSession::reply(const request::Request& request, const request::Verdict& verdict,
                          base::Time now, base::Buffer& out) {
  const auto method = static_cast<LimitdMethod>(request.note & method_mask);
  const LimitdId id{request.tag, (request.note & numeric_bit) != 0};
  if (method == LimitdMethod::ping) {
    append_limitd_pong(id, out);
    return true;
  }
  if ((request.note & silent_bit) != 0) return true;

  const limit::Decision* const d = verdict.error.empty() ? verdict.tightest : nullptr;
  if (!verdict.matched && verdict.error.empty()) {
    append_limitd_unknown_type(id, out);
    return true;
  }
  // There is no word for a request that could not be decided: zeros, and not conformant.
  LimitdLevel level;
  if (d != nullptr) {
    level = {d->remaining,
             method == LimitdMethod::put ? reset_of_put(request, verdict, now)
                                         : reset_of(method, verdict, now),
             d->limit};
  }
  switch (method) {
    case LimitdMethod::put:
      append_limitd_put(id, level, out);
      break;
    case LimitdMethod::get:
      append_limitd_get(id, level, out);
      break;
    case LimitdMethod::status:
      append_limitd_status(
          id, verdict.error.empty() ? verdict.listed : std::span<const request::Listed>(), now,
          out);
      break;
    default:
      append_limitd_take(id, d != nullptr && verdict.allowed,
                         d != nullptr && verdict.allowed && verdict.waited.has_value(), level, out);
  }
  return true;
}

}  // namespace sluice::limitd
