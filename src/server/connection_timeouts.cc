// Timeouts of connections, and connections that are closed because others need their memory.
#include <algorithm>
#include <bit>
#include <optional>
#include <string_view>
#include <utility>

#include "server/connection.h"
#include "server/worker.h"

namespace sluice::server {

namespace {

constexpr std::string_view too_slow =
    "the request did not arrive whole in time; see request_timeout of the listener";
constexpr std::string_view no_room =
    "too much memory is held by requests that have not arrived whole; send shorter ones, or later";

}  // namespace

void Connection::on_request_timeout() {
  // Input that waits for its turn may be a whole request; note_unfinished is called after the turn.
  if (phase_ != Phase::serving || undecided_) return;
  worker_.out().clear();
  if (!stream_.is_handshaking() && session_->end_oldest_unfinished(worker_.out())) {
    worker_.stats().ended(protocol_, engine::Closed::request_timeout, 1);
    flush();
    account();  // holds less than before
    // Output that the socket does not take has its own timeout.
    if (unsent_.empty()) note_unfinished();
    return;
  }
  worker_.stats().closed(protocol_, engine::Closed::request_timeout);
  // during a handshake the client could not read the reason
  if (stream_.is_handshaking()) return abort();
  refuse_behind_replies(too_slow);
}

void Connection::on_send_timeout() {
  worker_.stats().closed(protocol_, engine::Closed::send_timeout);
  abort();
}

void Connection::on_withheld_timeout() {
  if (phase_ != Phase::serving) return;
  // What it has sent is still on its way, and has a time of its own.
  if (is_sending()) return note_kept();
  worker_.out().clear();
  const std::optional<size_t> ended = session_->end_withheld(worker_.out());
  if (!ended) return on_send_timeout();
  worker_.stats().ended(protocol_, engine::Closed::send_timeout, *ended);
  flush();
  note_kept();
}

void Connection::on_idle_timeout() {
  if (phase_ != Phase::serving) return;
  const bool idle = !undecided_ && in_size_ == 0 && held_ == 0 && under_way_.empty() &&
                    unsent_.empty() && late_.empty() && !session_->holds_back() &&
                    !worker_.engine().has_lists(*this);
  if (!idle) return note_idle();
  worker_.stats().closed(protocol_, engine::Closed::idle_timeout);
  close_gently();
}

void Connection::give_way() {
  const auto self = shared_from_this();
  worker_.stats().closed(protocol_, engine::Closed::request_memory);
  lent_.leave();
  // With unsent output the client would never read the reason.
  unsent_.empty() ? refuse_behind_replies(no_room) : abort();
}

size_t Connection::unfinished_bytes() const {
  return held_ + (in_capacity_ > Worker::small_buffer_bytes ? in_capacity_ : 0);
}

// What the session holds for as long as the client likes counts like output that the socket does
// not take.
void Connection::note_kept() {
  if (phase_ != Phase::serving) return;
  worker_.stats().holds(protocol_, shared_->held());
  const request::Kept kept = session_->kept();
  if (keeping_ == nullptr) {
    if (kept.bytes == 0 && !kept.withholds) return;
    keeping_ = std::make_unique<Keeping>(*this);
  }
  if (!kept.withholds)
    keeping_->withheld.leave();
  else if (!keeping_->withheld.is_member())
    worker_.begin_wait(keeping_->withheld, withheld_ages_);
  if (kept.bytes == 0)
    keeping_->keeps.leave();
  else if (!keeping_->keeps.is_member())
    worker_.begin_keeping(keeping_->keeps);
  const size_t before = std::exchange(keeping_->bytes, kept.bytes);
  if (kept.bytes > before)
    worker_.add_unsent(*this, kept.bytes - before);
  else
    worker_.remove_unsent(before - kept.bytes);
}

void Connection::release_kept() {
  if (keeping_ == nullptr) return;
  keeping_->withheld.leave();
  keeping_->keeps.leave();
  worker_.remove_unsent(std::exchange(keeping_->bytes, 0));
}

// From here on the client is idle: it has sent nothing, and waits for nothing.
void Connection::note_idle() {
  if (idle_ages_ == nullptr || is_turned_away() || !under_way_.empty() || session_->holds_back())
    return;
  worker_.begin_wait(waits_, *idle_ages_);
}

void Connection::on_wake() {
  wakes_at_ = {INT64_MAX};
  if (phase_ != Phase::serving) return;
  woken_ = true;
  if (unsent_.empty() && !undecided_) process();
  woken_ = false;
  if (phase_ == Phase::serving) note_wake();
}

// A time that is far away is approached in steps, as there is one list for each length of time.
void Connection::note_wake() {
  const base::Time at = session_->wakes_at();
  if (at >= wakes_at_) return;
  wakes_at_ = at;
  const auto rest = at.us - worker_.clock().monotonic().us;
  constexpr int64_t step_seconds_max = 1 << 16;
  const auto seconds =
      static_cast<uint64_t>(std::clamp<int64_t>(rest / 1'000'000, 1, step_seconds_max));
  worker_.begin_wait(wakes_, worker_.wake_ages(std::chrono::seconds(std::bit_floor(seconds))));
}

}  // namespace sluice::server
