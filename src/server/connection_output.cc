// What a connection sends: at once, at the end of the worker's turn, or once the socket takes it or
// the store has committed what it says.
#include <cerrno>
#include <string>
#include <string_view>
#include <utility>

#include "server/connection.h"
#include "server/worker.h"

namespace sluice::server {

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
  if (out.empty() || out.size() >= GatheredOutput::bytes_max || !worker_.gathers() || finishing_ ||
      !unsent_.empty() || commit_seq_of(out.view(), needs_commit) != 0)
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
  worker_.engine().continue_lists(*this);
  process();
}

}  // namespace sluice::server
