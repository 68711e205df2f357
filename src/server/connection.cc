#include "server/connection.h"

#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/bounds.h"
#include "base/hash.h"
#include "protocol/protocol.h"
#include "server/worker.h"

namespace sluice::server {

namespace {

// After the last reply the client's remaining bytes are read and dropped: to close with unread
// bytes would send a reset, which can destroy the reply on its way. Bounded in time (linger_of) and
// in bytes.
constexpr size_t linger_bytes_max = 1 << 20;

// Input up to this size is decided at once. While other connections wait for their turn, larger
// input waits as well, so that short requests come first.
constexpr size_t short_input_bytes = 1024;

uint64_t client_of(int fd) {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  return ::getpeername(fd, reinterpret_cast<sockaddr*>(&address), &size) == 0
             ? client_number(address)
             : 1;
}

const request::WorkerState* shared_of(Worker& worker, protocol::Protocol protocol) {
  const request::WorkerState* const state = worker.state_of(protocol);
  return state != nullptr && state->held().most > 0 ? state : nullptr;
}

}  // namespace

uint64_t client_number(const sockaddr_storage& address) {
  std::string_view its;
  if (address.ss_family == AF_INET) {
    const auto& ipv4 = reinterpret_cast<const sockaddr_in&>(address);
    its = {reinterpret_cast<const char*>(&ipv4.sin_addr), sizeof ipv4.sin_addr};
  } else if (address.ss_family == AF_INET6) {
    const auto& ipv6 = reinterpret_cast<const sockaddr_in6&>(address).sin6_addr;
    const char* const bytes = reinterpret_cast<const char*>(&ipv6);
    its =
        IN6_IS_ADDR_V4MAPPED(&ipv6) ? std::string_view(bytes + 12, 4) : std::string_view(bytes, 8);
  }
  return base::digest(its) | 1;
}

Connection::Connection(Worker& worker, int fd, const Accepted& accepted)
    : worker_(worker),
      request_ages_(worker.request_ages(accepted.timeouts)),
      send_ages_(worker.send_ages(accepted.timeouts)),
      withheld_ages_(worker.withheld_ages(accepted.timeouts)),
      idle_ages_(worker.idle_ages(accepted.timeouts)),
      stream_(net::Stream::accepted(fd, accepted.tls.get())),
      shared_(shared_of(worker, accepted.protocol)),
      protocol_(accepted.protocol) {
  if (stream_.is_tls())
    handshake_ = std::make_unique<Handshake>(*this, client(), accepted.peer);
  else
    open_session(accepted.peer);
  set_unmatched(accepted.unmatched);
  set_listener(accepted.peer.listener);
  auto small = worker_.lend(Worker::small_buffer_bytes, *this);
  in_ = std::move(small->bytes);
  in_capacity_ = small->capacity;
}

Connection::~Connection() {
  drop_batches();
  worker_.remove_unsent(unsent_.size());
  release_kept();
  worker_.give_back({std::move(in_), in_capacity_});
  worker_.account(*this, held_, 0);
  if (shared_ == nullptr) return;
  session_.reset();
  worker_.stats().holds(protocol_, shared_->held());
}

uint64_t Connection::client() const {
  if (client_ == 0) client_ = client_of(stream_.fd());
  return client_;
}

void Connection::open_session(request::Peer peer) {
  peer.worker = worker_.state_of(protocol_);
  peer.clock = &worker_.clock();
  peer.spans = worker_.spans();
  session_ = protocol::make_session(protocol_, peer);
  state_ = session_->state();
}

bool Connection::start() {
  if (handshake_ != nullptr) {
    worker_.begin_handshake(*handshake_);
    note_handshake();
  } else {
    note_idle();
  }
  return worker_.loop().watch(stream_.fd(), *this);
}

bool Connection::turn_away(std::string_view why) {
  turned_away_ = why;
  await_linger();
  return start();
}

void Connection::on_ready(bool readable, bool writable, bool ended) {
  const auto self = shared_from_this();  // the connection may be closed on the way
  worker_.gathered().send_if_full();
  readable_ |= readable || (writable && stream_.read_wants_write());
  if (ended && !std::exchange(ending_, true)) worker_.engine().drop_lists(*this);
  if (phase_ == Phase::closed) return;
  if (ended && phase_ == Phase::serving) end_wait();
  if (phase_ == Phase::draining) {
    if (writable) stream_.end();
    if (readable_) drain();
    return;
  }
  if (!unsent_.empty() && (writable || (readable && stream_.write_wants_read()))) write_more();
  if (!readable_ || undecided_) return;
  if (phase_ == Phase::draining) {
    drain();
  } else if (may_read() && stop_ != Stop::finishing) {
    // A handshake costs more than hundreds of decisions.
    if (handshake_ != nullptr) return worker_.loop().after_others(*this);
    read_more();
  }
}

void Connection::on_turn() {
  const auto self = shared_from_this();
  worker_.gathered().send_if_full();
  if (phase_ == Phase::draining && readable_) return drain();
  if (!may_read()) return;  // once it may be read, it is processed
  if (undecided_ || stop_ == Stop::finishing) return process();
  if (readable_) read_more();
}

void Connection::refuse(std::string_view why) {
  end_session(request::Ending::refused, why);
}

// Sends the session's last bytes, and closes behind them.
void Connection::end_session(request::Ending ending, std::string_view why) {
  start_flushing();
  worker_.out().clear();
  session_->end(ending, why, worker_.out());
  release_input();
  if (flush()) close_gently();
}

// The client sends nothing more and may be gone, so its wait ends and no units are kept for it.
// Requests that it sent after the waiting one are answered, as it may still read.
void Connection::end_wait() {
  if (state_.waits_for_units) worker_.engine().interrupt(*this);
}

// Its input is not decided any more, so its buffer is given back for others.
void Connection::release_input() {
  waits_.leave();
  wakes_.leave();
  lent_.leave();
  release_kept();
  drop_batches();
  at_ = in_size_ = 0;
  undecided_ = false;
  if (in_capacity_ > Worker::small_buffer_bytes) swap_buffer(Worker::small_buffer_bytes);
  session_.reset();
  state_ = {};
  worker_.account(*this, std::exchange(held_, 0), 0);
}

// Batches under way may be charged already, and a wait may have its units, so they are answered
// before the refusal; nothing more is received.
void Connection::refuse_behind_replies(std::string_view why) {
  if (under_way_.empty() && !worker_.engine().has_late(*this)) return refuse(why);
  leaving_ = true;
  refusal_ = why;
  waits_.leave();
  worker_.engine().interrupt(*this);
}

// Sends the refusal that refuse_behind_replies has put off, if the last reply is written. Returns
// whether it did.
bool Connection::refuse_answered() {
  if (refusal_.empty() || phase_ != Phase::serving || !under_way_.empty() ||
      worker_.engine().has_late(*this))
    return false;
  refuse(refusal_);
  return true;
}

// Its requests are not decided any more, so the engine forgets them.
void Connection::start_flushing() {
  if (std::exchange(phase_, Phase::flushing) == Phase::flushing) return;
  send_what_is_gathered();
  worker_.engine().forget(*this);
  drop_batches();
}

// Bytes that are in the socket already are read after the other connections have had their turn.
void Connection::read() {
  if (readable_) worker_.loop().again(*this);
}

void Connection::read_more() {
  if (sends_much_) widen_input();
  const size_t room = std::min(in_capacity_ - in_size_, base::bounds::read_bytes_max);
  const ssize_t n = stream_.read(in_.get() + in_size_, room);
  if (n < 0) {
    readable_ = false;
    arrived_ = 0;
    if (errno == EAGAIN) return stream_.is_tls() ? note_handshake() : void();
    if (errno == ETIMEDOUT) worker_.stats().closed(protocol_, engine::Closed::send_timeout);
    // What the client has sent behind it would make the close a reset, and destroy the alert that
    // says why the handshake failed.
    if (handshake_ != nullptr && stream_.fault() != net::TlsFault::none) {
      worker_.end_handshake(*handshake_);
      handshake_.reset();
      return close_gently();
    }
    return abort();
  }
  end_ = n == 0;
  if (handshake_ != nullptr) [[unlikely]] {
    note_handshake();
    if (handshake_ != nullptr) return close_gently();  // the client has ended it
  }
  // A short read has emptied the socket: the loop reports new bytes.
  if (!ending_ && !stream_.may_have_more(static_cast<size_t>(n), room)) readable_ = false;
  heard_ = true;
  in_size_ += static_cast<size_t>(n);
  arrived_ += static_cast<size_t>(n);
  sends_much_ = arrived_ >= Worker::small_buffer_bytes;
  if (!readable_) arrived_ = 0;
  worker_.stats().received(protocol_, static_cast<size_t>(n));
  if (is_turned_away()) return refuse(turned_away_);
  if (static_cast<size_t>(n) > short_input_bytes && worker_.loop().has_others()) {
    undecided_ = true;
    return worker_.loop().again(*this);
  }
  process();
}

// A TLS handshake may take as long as a request, and times out like an incomplete one.
void Connection::note_handshake() {
  if (handshake_ != nullptr && !stream_.is_handshaking()) {
    worker_.end_handshake(*handshake_);
    request::Peer& peer = handshake_->peer;
    peer.certificate = stream_.peer_name();
    if (!peer.certificate.empty())
      certificate_ = std::make_unique<const std::string>(peer.certificate);
    open_session(std::move(peer));
    handshake_.reset();
  }
  if (stream_.is_handshaking()) {
    if (!waits_.is_in(request_ages_)) worker_.begin_wait(waits_, request_ages_);
  } else if (in_size_ == 0 && held_ == 0 && waits_.is_in(request_ages_)) {
    waits_.leave();
    note_idle();
  }
}

void Connection::process() {
  if (resumable_.empty() && !can_receive()) return;
  undecided_ = completed_ = false;
  while (decide()) {
    if (phase_ == Phase::flushing) return close_gently();
    if (end_) return under_way_.empty() ? close_gently() : void();
    if (!account()) return give_way();
    if (stop_ != Stop::finishing) {
      if (stop_ == Stop::answering && !may_owe()) return finish();
      // Few bytes need no large buffer; a request that fills the buffer needs a larger one.
      if (in_capacity_ > Worker::small_buffer_bytes && in_size_ <= Worker::small_buffer_bytes / 2) {
        swap_buffer(Worker::small_buffer_bytes);
      } else if (!make_room()) {
        return give_way();
      }
      note_unfinished();
      return read();
    }
    if (!make_room()) return give_way();
    if (!receive_last()) {
      if (worker_.engine().has_lists(*this)) return;  // on_lists_done continues
      if (!under_way_.empty()) return;                // resume continues
      if (awaits_late_replies()) return;              // on_turn continues
      return end_session(request::Ending::stopping);
    }
  }
}

bool Connection::is_unfinished() const {
  return in_size_ > at_ || (held_ > 0 && !state_.may_pause);
}

// Starts the timeout of an incomplete request, and lets others have its buffer if it is a large
// one.
void Connection::note_unfinished() {
  const bool unfinished = is_unfinished();
  const bool lends = in_capacity_ > Worker::small_buffer_bytes || held_ > 0;
  const uint64_t oldest = state_.oldest_unfinished;
  bool begun = completed_;
  if (oldest != 0) {
    if (keeping_ == nullptr) keeping_ = std::make_unique<Keeping>(*this);
    begun = oldest != keeping_->oldest_unfinished;
  }
  if (keeping_ != nullptr) keeping_->oldest_unfinished = oldest;
  // Such a look does not end the client's idle time either.
  const bool stays_idle = woken_ && idle_ages_ != nullptr && waits_.is_in(*idle_ages_);
  if (!unfinished && !stays_idle) {
    waits_.leave();
    note_idle();
  }
  if (!lends) lent_.leave();
  if (unfinished && (begun || !waits_.is_in(request_ages_)))
    worker_.begin_wait(waits_, request_ages_);
  if (lends && (begun || !lent_.is_member())) worker_.begin_lent(lent_);
}

bool Connection::can_receive() const {
  // Only the newest batch may point into in_ (UnderWay).
  return !leaving_ && !state_.holds_back &&
         under_way_.size() < base::bounds::batches_per_connection_max &&
         (under_way_.empty() || under_way_.back().input != nullptr);
}

// Called after each `receive`, and the replies behind it.
void Connection::look_at_session() {
  state_ = session_->state();
  if (state_.has_ended_waits && phase_ == Phase::serving) [[unlikely]]
    worker_.engine().interrupt(*this, session_.get());
  note_wake();
}

// Takes one batch of complete requests from the buffer and serves it. Returns the number of its
// requests, or the number that its work counts as.
size_t Connection::receive_batch(engine::Served& served, bool& progressed) {
  engine::Engine& engine = worker_.engine();
  base::Buffer& out = worker_.out();
  engine::Batch& batch = engine.next_batch();
  const request::Received received =
      session_->receive({in_.get() + at_, in_size_ - at_}, end_, batch.requests, out);
  const size_t count = batch.requests.size();
  at_ += received.consumed;
  leaving_ = received.closing;
  worked_ = received.work > 0;
  progressed = received.consumed > 0 || count > 0 || received.work > 0;
  // Work that the session does of its own accord does not bring a request nearer to its end.
  if (progressed && !woken_) completed_ |= held_ == 0 || count > 0;
  if (count == 0) {
    // Output of the session itself may be as much as that of a batch, so it counts as a whole
    // batch: a flood of it ends the connection's turn.
    const size_t work =
        std::max(out.view().empty() ? 0 : base::bounds::batch_requests_max, received.work);
    worker_.loop().add_work(work);
    return work;
  }
  worker_.loop().add_work(count + received.work);
  if (stop_ == Stop::behind_answer) [[unlikely]]
    stop_ = Stop::answering;
  served = engine.serve(batch, protocol_, *session_, out, this);
  if (served == engine::Served::later) [[unlikely]]
    under_way_.push_back({&batch, nullptr, 0});
  return count + received.work;
}

// Continues the first of the batches that can be resumed.
engine::Served Connection::resume_batch() {
  engine::Batch* const batch = resumable_.front();
  resumable_.erase(resumable_.begin());
  const engine::Served served = worker_.engine().resume(*batch, worker_.out());
  if (served == engine::Served::later) return served;
  const auto its = std::find_if(under_way_.begin(), under_way_.end(),
                                [&](const UnderWay& one) { return one.batch == batch; });
  release(*its);
  under_way_.erase(its);
  return served;
}

// The requests of the newest batch point into in_: hands that buffer to the batch, and copies the
// bytes after the batch into a new one. The buffer counts under the bound of incomplete requests,
// but no connection gives way for it; without room this connection is not read until the batch has
// its answer.
void Connection::keep_input() {
  const size_t rest = in_size_ - at_;
  const size_t bytes = rest < Worker::small_buffer_bytes     ? Worker::small_buffer_bytes
                       : rest < base::bounds::read_bytes_max ? base::bounds::read_bytes_max
                                                             : in_capacity_;
  const bool small = in_capacity_ == Worker::small_buffer_bytes;
  auto lent = worker_.lend_aside(bytes, small ? in_capacity_ : 0);
  if (!lent) return;
  std::memcpy(lent->bytes.get(), in_.get() + at_, rest);
  UnderWay& its = under_way_.back();
  its.input = std::exchange(in_, std::move(lent->bytes));
  its.input_capacity = std::exchange(in_capacity_, lent->capacity);
  in_size_ = rest;
  at_ = 0;
}

void Connection::release(UnderWay& one) {
  if (one.input == nullptr) return;
  if (one.input_capacity == Worker::small_buffer_bytes)
    worker_.account(*this, one.input_capacity, 0);
  worker_.give_back({std::move(one.input), one.input_capacity});
}

// Drops the batches under way; the engine has forgotten them.
void Connection::drop_batches() {
  for (UnderWay& one : under_way_) release(one);
  under_way_.clear();
  resumable_.clear();
}

// Decides the complete requests of the buffer, at most one turn's. False: replies wait for the
// socket or the store, or the rest waits for its turn; `process` is called again then.
bool Connection::decide() {
  auto& out = worker_.out();
  bool closing = phase_ == Phase::flushing, turn_over = false;
  size_t decided = 0;
  while (!closing) {
    out.clear();
    bool progressed = true;
    engine::Served served = engine::Served::all;
    if (resumable_.empty()) [[likely]]
      decided += receive_batch(served, progressed);
    else
      served = resume_batch();
    look_at_session();
    closing = served == engine::Served::ended;
    if (leaving_ && !closing && under_way_.empty() &&
        (refusal_.empty() || !worker_.engine().has_late(*this))) {
      const request::Fault fault = session_->fault();
      if (!fault.code.empty()) {
        worker_.stats().fault(protocol_, fault.code);
        report_fault(fault);
      }
      session_->end(refusal_.empty() ? request::Ending::announced : request::Ending::refused,
                    refusal_, out);
      closing = true;
    }
    const bool needs_commit = worker_.engine().needs_commit();
    const bool sent = closing ? flush(needs_commit) : flush_at_turn_end(needs_commit);
    if (shared_ != nullptr) note_kept();
    if (served == engine::Served::later && state_.takes_several_batches &&
        under_way_.back().input == nullptr) [[unlikely]]
      keep_input();
    if (!closing && resumable_.empty() && !can_receive()) [[unlikely]] {
      if (!waits_.is_in(send_ages_)) waits_.leave();
      if (ending_) end_wait();
      if (stop_ == Stop::finishing && !leaving_ && under_way_.empty() && !awaits_late_replies())
        end_session(request::Ending::stopping);
      return false;
    }
    if (!sent || !progressed) break;
    // The usual case: without input the session need not be called.
    if (at_ == in_size_ && !end_ && resumable_.empty() && !(worked_ && state_.has_more)) break;
    turn_over = !closing && decided >= base::bounds::turn_requests_max;
    if (turn_over) break;
  }
  // A batch without a buffer of its own points into in_, which would move.
  if (!closing && !under_way_.empty() && under_way_.back().input == nullptr) return false;
  in_size_ -= at_;
  if (at_ > 0 && in_size_ > 0) std::memmove(in_.get(), in_.get() + at_, in_size_);
  at_ = 0;
  if (closing) start_flushing();
  if (turn_over && unsent_.empty()) {
    waits_.leave();
    undecided_ = true;
    worker_.loop().again(*this);
    return false;
  }
  return unsent_.empty();
}

void Connection::report_fault(const request::Fault& fault) const {
  if (listener() == nullptr) return;
  std::string example(fault.code);
  if (!fault.text.empty()) example.append(": ").append(fault.text);
  listener()->refused(request::malformed_code, example);
}

void Connection::resume(engine::Batch& batch) {
  const auto self = shared_from_this();
  if (std::find(resumable_.begin(), resumable_.end(), &batch) == resumable_.end())
    resumable_.push_back(&batch);
  if (unsent_.empty()) process();
}

void Connection::on_lists_done() {
  const auto self = shared_from_this();
  if (stop_ == Stop::finishing && may_read()) process();
}

void Connection::finish() {
  if (stop_ == Stop::finishing || phase_ != Phase::serving) return;
  if (handshake_ != nullptr) return abort();  // it has had its time
  stop_ = Stop::finishing;
  last_bytes_ = stream_.unread_bytes();
  const bool awaits = awaits_late_replies();
  // Batches under way may be charged already, so they are answered first.
  if (!awaits && state_.holds_back && under_way_.empty())
    return end_session(request::Ending::stopping);
  if (unsent_.empty()) process();
}

bool Connection::may_owe() const {
  if (stop_ == Stop::finishing || phase_ != Phase::serving || is_turned_away()) return false;
  const bool has_begun = stream_.is_tls() ? heard_ : stream_.has_received();
  return is_unfinished() || stream_.unread_bytes() > 0 || !has_begun;
}

// Called while the server stops: ends the waits of this connection. True: there are late replies,
// and the connection ends behind them.
bool Connection::awaits_late_replies() {
  engine::Engine& engine = worker_.engine();
  if (!engine.has_late(*this)) return false;
  engine.stop_waits(*this);
  return true;
}

// Reads bytes that had arrived before the stop began. False: all are read.
bool Connection::receive_last() {
  if (is_turned_away()) return false;
  const size_t room = std::min(std::max<size_t>(last_bytes_, 1), in_capacity_ - in_size_);
  const ssize_t n = stream_.read(in_.get() + in_size_, room);
  if (n < 0) return false;
  end_ = n == 0;  // the last line may be incomplete
  in_size_ += static_cast<size_t>(n);
  const bool more = last_bytes_ > 0;
  last_bytes_ -= std::min(last_bytes_, static_cast<size_t>(n));
  return more || end_;
}

// Called while the worker serves another connection, or none.
void Connection::reply_late(const request::Request& request, const request::Verdict& verdict,
                            base::Time now) {
  if (phase_ != Phase::serving) return;
  base::Buffer& out = worker_.late_out();
  out.clear();
  session_->reply(request, verdict, now, out);
  state_ = session_->state();
  late_.append(out.view());
}

void Connection::flush_late(bool needs_commit) {
  if (phase_ != Phase::serving) return;
  if (late_.size() + unsent_.size() > base::bounds::late_bytes_max) {
    worker_.stats().closed(protocol_, engine::Closed::send_memory);
    return abort();
  }
  worker_.out().clear();
  worker_.out().append(late_);
  late_ = std::string();
  const bool sent = flush(needs_commit);
  if (shared_ != nullptr) note_kept();
  if (sent && refuse_answered()) return;
  if (!sent || !may_read()) return;
  note_idle();
  // Input that the session held back, if there is any.
  if (in_size_ > at_ || state_.has_more)
    undecided_ = true;
  else
    in_size_ = at_ = 0;
  worker_.loop().again(*this);
}

void Connection::close_gently() {
  send_what_is_gathered();
  if (end_) {  // the client has ended its side; none of its requests can be under way
    stream_.notify_end();
    return abort();
  }
  phase_ = Phase::draining;
  worker_.engine().forget(*this);
  release_input();
  stream_.end();
  await_linger();
  drain();
}

void Connection::await_linger() {
  linger_ = std::make_unique<net::Timer>(worker_.loop(), [this] { abort(); });
  linger_->set_after(protocol::linger_of(protocol_));
}

void Connection::drain() {
  for (;;) {
    const ssize_t n = stream_.discard(in_.get(), in_capacity_);
    if (n < 0 && errno == EAGAIN) break;
    if (n <= 0) return abort();
    drained_ += static_cast<size_t>(n);
    if (drained_ > linger_bytes_max) return abort();
  }
  readable_ = false;
}

void Connection::abort() {
  if (phase_ == Phase::closed) return;
  send_what_is_gathered();
  if (has_gathered_) worker_.gathered().forget(*this);
  phase_ = Phase::closed;
  worker_.engine().forget(*this);
  drop_batches();
  waits_.leave();
  wakes_.leave();
  lent_.leave();
  if (handshake_ != nullptr) {
    worker_.end_handshake(*handshake_);
    handshake_.reset();
  }
  release_kept();
  release_unsent();
  worker_.loop().remove(*this);
  stream_.close();
  linger_.reset();
  worker_.leave(shared_from_this());
}

// Accounts for the bytes that the session holds. False: the worker has no room for them.
bool Connection::account() {
  if (state_.unfinished_bytes == held_) return true;
  if (!worker_.account(*this, held_, state_.unfinished_bytes)) return false;
  held_ = state_.unfinished_bytes;
  return true;
}

bool Connection::make_room() {
  return in_size_ < in_capacity_ ||
         swap_buffer(std::max(base::bounds::read_bytes_max, in_capacity_ * 2));
}

// Lends a large buffer to a client whose last input filled the small one: one read in place of
// several, and no request cut in two. No other connection gives way for it; without room the small
// buffer is used.
void Connection::widen_input() {
  if (in_capacity_ == Worker::small_buffer_bytes) swap_buffer(base::bounds::read_bytes_max, true);
}

bool Connection::swap_buffer(size_t bytes, bool aside) {
  auto lent = aside ? worker_.lend_aside(bytes, 0) : worker_.lend(bytes, *this);
  if (!lent) return false;
  std::memcpy(lent->bytes.get(), in_.get(), in_size_);
  worker_.give_back(
      {std::exchange(in_, std::move(lent->bytes)), std::exchange(in_capacity_, lent->capacity)});
  return true;
}

// What a connection sends: at once, at the end of the worker's turn, or once the socket takes it or
// the store has committed what it says.

// Writes the worker's output buffer. False: the socket is full, or a decision is not committed yet;
// the rest waits in unsent_.
bool Connection::flush(bool needs_commit) {
  send_what_is_gathered();
  auto& out = worker_.out();
  const uint64_t commit_seq = commit_seq_of(out.view(), needs_commit);
  if (!unsent_.empty() || commit_seq != 0) [[unlikely]]  // it has to wait for what came before
    wait_for_commit(out.view(), commit_seq, needs_commit);
  else
    write(out.view());
  out.clear();
  return unsent_.empty();
}

// As flush. But if the worker gathers output and this output need not wait, it is sent at the end
// of the turn.
bool Connection::flush_at_turn_end(bool needs_commit) {
  auto& out = worker_.out();
  if (out.empty() || out.size() >= GatheredOutput::bytes_max || !worker_.gathers() ||
      stop_ == Stop::finishing || !unsent_.empty() || commit_seq_of(out.view(), needs_commit) != 0)
    return flush(needs_commit);
  has_gathered_ = true;
  worker_.gathered().add(*this, out.view());
  out.clear();
  return true;
}

void Connection::send_what_is_gathered() {
  if (has_gathered_) worker_.gathered().send(*this);
}

void Connection::send_gathered(std::string_view text) {
  if (unsent_.empty())
    write(text);
  else
    wait_for_commit(text, 0, false);
}

// The commit that the text has to wait for; 0: none.
uint64_t Connection::commit_seq_of(std::string_view text, bool needs_commit) const {
  const store::Committer* const committer = worker_.committer();
  return text.empty() || committer == nullptr ? 0 : committer->commit_seq(needs_commit);
}

// Writes text; the part that the socket does not take waits in unsent_.
void Connection::write(std::string_view text) {
  while (!text.empty()) {
    const ssize_t n = stream_.write(text);
    if (n >= 0) {
      worker_.stats().sent(protocol_, static_cast<size_t>(n));
      text.remove_prefix(static_cast<size_t>(n));
    } else {
      if (errno == EAGAIN) wait_for_commit(text, 0, false);
      return;  // full, or the client is gone, which a read will show
    }
  }
}

void Connection::wait_for_commit(std::string_view text, uint64_t commit_seq, bool needs_commit) {
  if (unsent_.empty()) {
    unsent_ = worker_.lend_text();
    unsent_at_ = 0;
  }
  unsent_.append(text);
  worker_.add_unsent(*this, text.size());
  if (commit_seq == 0) {
    if (commit_seq_ == 0 && !waits_.is_in(send_ages_)) worker_.begin_wait(waits_, send_ages_);
    return;
  }
  waits_.leave();
  commit_seq_ = commit_seq;
  needs_commit_ |= needs_commit;
  worker_.wait_for_commit(shared_from_this(), commit_seq);
}

// Called when all of unsent_ is sent, or never will be.
void Connection::release_unsent() {
  if (unsent_.empty()) return;
  worker_.remove_unsent(unsent_.size());
  unsent_at_ = 0;
  worker_.give_back_text(std::exchange(unsent_, std::string()));
}

void Connection::on_durable(uint64_t commit_seq, bool committed) {
  if (phase_ == Phase::closed || commit_seq_ != commit_seq)
    return;  // the rest waits for a later commit
  commit_seq_ = 0;
  if (std::exchange(needs_commit_, false) && !committed) return abort();
  write_more();
}

void Connection::write_more() {
  if (commit_seq_ != 0) return;
  const size_t before = unsent_at_;
  while (unsent_at_ < unsent_.size()) {
    const ssize_t n = stream_.write(std::string_view(unsent_).substr(unsent_at_));
    if (n >= 0) {
      worker_.stats().sent(protocol_, static_cast<size_t>(n));
      unsent_at_ += static_cast<size_t>(n);
    } else if (errno == EAGAIN) {
      if (unsent_at_ > before || !waits_.is_in(send_ages_)) worker_.begin_wait(waits_, send_ages_);
      return;
    } else {
      return abort();
    }
  }
  waits_.leave();
  release_unsent();
  if (phase_ == Phase::flushing) return close_gently();
  if (refuse_answered()) return;
  worker_.engine().continue_lists(*this);
  process();
}

// Timeouts of connections, and connections that are closed because others need their memory.

namespace {

constexpr std::string_view too_slow =
    "the request did not arrive whole in time; see request_timeout of the listener";
constexpr std::string_view no_room =
    "too much memory is held by requests that have not arrived whole; send shorter ones, or later";

}  // namespace

// Has the session give up what is overdue. False: the connection must end.
bool Connection::give_up(request::Overdue what, engine::Closed cause) {
  if (handshake_ != nullptr) return false;
  worker_.out().clear();
  const std::optional<size_t> ended = session_->give_up(what, worker_.out());
  state_ = session_->state();
  if (!ended) return false;
  worker_.stats().ended(protocol_, cause, *ended);
  flush();
  return true;
}

void Connection::on_request_timeout() {
  // Input that waits for its turn may be a whole request; note_unfinished is called after the turn.
  if (phase_ != Phase::serving || undecided_) return;
  if (give_up(request::Overdue::unfinished, engine::Closed::request_timeout)) {
    account();  // holds less than before
    // Output that the socket does not take has its own timeout.
    if (unsent_.empty()) note_unfinished();
    return;
  }
  worker_.stats().closed(protocol_, engine::Closed::request_timeout);
  // during a handshake the client could not read the reason
  if (handshake_ != nullptr) return abort();
  refuse_behind_replies(too_slow);
}

// There are too many handshakes, and this is the oldest of them.
void Connection::end_handshake() {
  worker_.stats().closed(protocol_, engine::Closed::handshakes);
  abort();
}

void Connection::on_send_timeout() {
  worker_.stats().closed(protocol_, engine::Closed::send_timeout);
  abort();
}

void Connection::on_withheld_timeout() {
  if (phase_ != Phase::serving) return;
  // What it has sent is still on its way, and has a time of its own.
  if (is_sending()) return note_kept();
  if (!give_up(request::Overdue::withheld, engine::Closed::send_timeout)) return on_send_timeout();
  note_kept();
}

void Connection::on_idle_timeout() {
  if (phase_ != Phase::serving) return;
  const bool idle = !undecided_ && in_size_ == 0 && held_ == 0 && under_way_.empty() &&
                    unsent_.empty() && late_.empty() && !state_.holds_back &&
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
  if (keeping_ == nullptr) {
    if (state_.kept_bytes == 0 && !state_.withholds) return;
    keeping_ = std::make_unique<Keeping>(*this);
  }
  if (!state_.withholds)
    keeping_->withheld.leave();
  else if (!keeping_->withheld.is_member())
    worker_.begin_wait(keeping_->withheld, withheld_ages_);
  if (state_.kept_bytes == 0)
    keeping_->keeps.leave();
  else if (!keeping_->keeps.is_member())
    worker_.begin_keeping(keeping_->keeps);
  const size_t before = std::exchange(keeping_->bytes, state_.kept_bytes);
  if (keeping_->bytes > before)
    worker_.add_unsent(*this, keeping_->bytes - before);
  else
    worker_.remove_unsent(before - keeping_->bytes);
}

void Connection::release_kept() {
  if (keeping_ == nullptr) return;
  keeping_->withheld.leave();
  keeping_->keeps.leave();
  worker_.remove_unsent(std::exchange(keeping_->bytes, 0));
}

// From here on the client is idle: it has sent nothing, and waits for nothing.
void Connection::note_idle() {
  if (idle_ages_ == nullptr || is_turned_away() || !under_way_.empty() || state_.holds_back) return;
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
  const base::Time at = state_.wakes_at;
  if (at >= wakes_at_) return;
  wakes_at_ = at;
  const auto rest = at.us - worker_.clock().monotonic().us;
  constexpr int64_t step_seconds_max = 1 << 16;
  const auto seconds =
      static_cast<uint64_t>(std::clamp<int64_t>(rest / 1'000'000, 1, step_seconds_max));
  worker_.begin_wait(wakes_, worker_.wake_ages(std::chrono::seconds(std::bit_floor(seconds))));
}

}  // namespace sluice::server
