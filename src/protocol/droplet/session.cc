#include "protocol/droplet/session.h"

#include <algorithm>
#include <array>
#include <span>
#include <utility>

#include "base/bounds.h"
#include "protocol/droplet/message.h"
#include "wire/websocket.h"

namespace sluice::droplet {
namespace {

using base::bounds::batch_requests_max;

constexpr uint16_t normal_closure = 1000, going_away = 1001, try_again_later = 1013;

// The balances in a response, one for each period of the mask.
class Balances {
 public:
  // Includes the limits that came with requests, and those of other rules that apply.
  Balances(const request::Request& request, const request::Verdict& verdict,
           const request::Charge* bucket)
      : mask_(bucket == nullptr ? 0 : bucket->slot_mask) {
    for (size_t i = 0, slot = 0; i < all_.size(); ++i)
      if ((mask_ >> i & 1) != 0) all_[i] = verdict.decisions_of(*bucket)[slot++].remaining;
    for (const request::Charge& charge : verdict.charges) {
      const auto decisions = verdict.decisions_of(charge);
      for (size_t i = 0; !charge.keeps_limits && i < charge.limits.size(); ++i)
        take(charge.limits[i], decisions[i],
             !verdict.allowed && request.verb != request::Verb::peek, charge.cost);
    }
  }
  uint32_t mask() const { return mask_; }
  // One for each bit of the mask, in ascending order.
  std::span<const limit::Decision> list() {
    size_t count = 0;
    for (size_t i = 0; i < all_.size(); ++i)
      if ((mask_ >> i & 1) != 0) list_[count++].remaining = all_[i];
    return std::span(list_).first(count);
  }

 private:
  // A limit of a rule is shown under the shortest period that is not shorter than its window, or
  // under the longest period if time alone brings no units back. Of several limits under one period
  // the smallest balance is shown. A refusal shows what would be left, so a limit that refuses is
  // below 0; that distinguishes it from a request that failed. The decisions of a refused request
  // do not include its cost.
  void take(const limit::Limit& limit, const limit::Decision& d, bool refused, int64_t cost) {
    if (limit.algorithm == limit::Algorithm::unlimited) return;
    const auto fits = [&](base::Duration window) { return limit.window <= window; };
    const auto* const period =
        std::find_if(droplet_windows.begin(), droplet_windows.end() - 1, fits);
    const bool timeless = limit.window.us == 0;
    const auto at = timeless ? droplet_windows.size() - 1
                             : static_cast<size_t>(period - droplet_windows.begin());
    int64_t left = d.remaining - (refused ? cost : 0);
    if (refused && !d.allowed) left = std::min<int64_t>(left, -1);
    const bool known = (mask_ >> at & 1) != 0;
    all_[at] = known ? std::min(all_[at], left) : left;
    mask_ |= 1u << at;
  }

  uint32_t mask_;
  std::array<int64_t, droplet_windows.size()> all_{};
  std::array<limit::Decision, droplet_windows.size()> list_{};
};

constexpr std::string_view health =
    "sluice is up. Here it speaks droplet's protocol, over WebSocket.";

}  // namespace

request::Received DropletSession::receive(std::string_view in, bool, request::Requests& requests,
                                          base::Buffer& out) {
  if (phase_ == Phase::closed) return {in.size(), true};
  const size_t first = requests.size();
  size_t consumed = 0;
  if (phase_ == Phase::head) {
    const request::Received head = receive_head(in, out);
    if (phase_ != Phase::open) return head;
    consumed = head.consumed;
  }
  frames_->renew();
  size_t taken = 0;  // requests and pongs that were read
  while (taken < batch_requests_max) {
    const wire::WebsocketEvent event = frames_->next(in.substr(consumed));
    consumed += event.consumed;
    switch (event.kind) {
      case wire::WebsocketEvent::Kind::incomplete:
        if (requests.size() == first) frames_->release();
        return {consumed, false};
      case wire::WebsocketEvent::Kind::nothing:
        break;
      case wire::WebsocketEvent::Kind::binary:
        if (!ask(event.payload, requests)) {
          fault_ = "message";
          return close(normal_closure, {}, in.size());
        }
        ++owed_;
        ++taken;
        break;
      case wire::WebsocketEvent::Kind::ping:
        ++taken;
        if (owed_ == 0) {
          wire::append_websocket_frame(wire::websocket_pong, event.payload, out);
          break;
        }
        // A pong must come after the replies to the messages before its ping, however these arrive.
        // It is sent after the last outstanding reply, and nothing is read until then.
        pong_ = event.payload;
        pongs_ = true;
        return {consumed, false};
      case wire::WebsocketEvent::Kind::text:
        fault_ = "message";
        return close(normal_closure, {}, in.size());
      case wire::WebsocketEvent::Kind::broken:
        fault_ = "frame";
        [[fallthrough]];
      case wire::WebsocketEvent::Kind::close:
        return close(event.code, event.payload, in.size());
    }
  }
  return {consumed, false};
}

request::Received DropletSession::receive_head(std::string_view in, base::Buffer& out) {
  const wire::WebsocketHandshake handshake = wire::read_websocket_handshake(in);
  switch (handshake.kind) {
    case wire::WebsocketHandshake::Kind::incomplete:
      break;
    case wire::WebsocketHandshake::Kind::plain:
      head_only_ = handshake.head_only;
      return close(200, health, in.size());
    case wire::WebsocketHandshake::Kind::refused:
      fault_ = "handshake";
      return close(handshake.status, handshake.why, in.size());
    case wire::WebsocketHandshake::Kind::upgrade:
      frames_ = std::make_unique<wire::WebsocketReader>();
      phase_ = Phase::open;
      wire::append_switching_protocols({handshake.accept.data(), handshake.accept.size()}, out);
      return {handshake.bytes, false};
  }
  return {0, false};
}

// False: the message is not a request.
bool DropletSession::ask(std::string_view message, request::Requests& requests) {
  DropletRequest request;
  if (!read_droplet_request(message, request)) return false;
  const std::string_view tag = request.id.substr(0, base::bounds::tag_bytes_max);
  requests.open();
  requests.add(request::Entry{"bucket", request.bucket});
  if (request.type != 0) {
    requests.commit({.verb = request::Verb::peek, .tag = tag});
    return true;
  }
  for (size_t i = 0; i < droplet_windows.size(); ++i) {
    const int64_t limit = request.limits[i];
    if (limit > 0)
      requests.add(limit::Limit{limit::Algorithm::token_bucket, limit, droplet_windows[i], limit});
  }
  requests.commit({.verb = request.reset ? request::Verb::take_anew : request::Verb::take,
                   .cost = request.count,
                   .tag = tag});
  return true;
}

request::Received DropletSession::close(uint16_t status, std::string_view reason, size_t consumed) {
  phase_ = Phase::closed;
  status_ = status;
  reason_ = reason;
  return {consumed, true};
}

bool DropletSession::reply(const request::Request& request, const request::Verdict& verdict,
                           base::Time, base::Buffer& out) {
  const bool failed = !verdict.error.empty();
  const bool accept = request.verb == request::Verb::peek || (verdict.allowed && !failed);
  char response[droplet_response_bytes_max];
  size_t size = 0;
  const request::Charge* bucket = nullptr;  // the protocol's own rule charges it
  bool is_alone = true;
  for (const request::Charge& charge : verdict.charges) {
    if (charge.keeps_limits)
      bucket = &charge;
    else
      is_alone = false;
  }
  if (failed || (is_alone && bucket == nullptr)) {
    size = write_droplet_response(accept, 0, {}, response);
  } else if (is_alone) {
    size =
        write_droplet_response(accept, bucket->slot_mask, verdict.decisions_of(*bucket), response);
  } else {
    Balances balances(request, verdict, bucket);
    size = write_droplet_response(accept, balances.mask(), balances.list(), response);
  }
  wire::append_websocket_frame(wire::websocket_binary, {response, size}, out);
  if (owed_ == 0 || --owed_ > 0) return true;
  if (std::exchange(pongs_, false)) wire::append_websocket_frame(wire::websocket_pong, pong_, out);
  if (frames_ != nullptr) frames_->release();
  return true;
}

void DropletSession::end(request::Ending ending, std::string_view why, base::Buffer& out) {
  if (ending != request::Ending::announced) {
    const bool stops = ending == request::Ending::stopping;
    if (phase_ == Phase::closed || (stops && phase_ == Phase::head)) return;
    close(stops ? going_away : frames_ != nullptr ? try_again_later : 503, why, 0);
  }
  if (status_ == 0) return;
  if (frames_ != nullptr) {
    wire::append_websocket_close(status_, reason_, out);
  } else {
    wire::append_http_text(status_, reason_, head_only_, out);
  }
}

}  // namespace sluice::droplet
