// One client's connection: its socket, its session and the few bytes that are under way. Belongs to
// one worker, which keeps it alive, and lives on its thread. Idle it holds a
// small input buffer and nothing else; a larger one is lent by the
// worker while a request does not fit into it.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "engine/engine.h"
#include "net/poller.h"
#include "net/stream.h"
#include "request/session.h"
#include "request/unmatched.h"
#include "server/age_list.h"
#include "server/options.h"

namespace sluice::server {

class Worker;

// What is known of a socket when it is handed to a worker.
struct Accepted {
  protocol::Protocol protocol{};
  net::Timeouts timeouts = {};
  net::TlsContext* tls = nullptr;  // outlives the worker; null: the bytes are plain
  request::Peer peer = {};         // what its session knows
  request::Unmatched unmatched = {};
};

using Timer = boost::asio::basic_waitable_timer<std::chrono::steady_clock,
                                                boost::asio::wait_traits<std::chrono::steady_clock>,
                                                boost::asio::io_context::executor_type>;

// More than twenty members: the socket, its input, its batches, its output and the phase in which
// each is; each event of the loop may move all of them, and a connection is one allocation.
class Connection final : public engine::ReplySink,
                         public net::Poller::Client,
                         public std::enable_shared_from_this<Connection> {
 public:
  // Owns the socket, which does not block.
  Connection(Worker& worker, int fd, const Accepted& accepted);
  ~Connection() override;

  // Serves until the client leaves or is sent away. False: the system refuses to watch the socket.
  bool start();
  // Tells the client why it is not served, once it asks for something: a line without a request
  // would break it. If it asks for nothing, it is closed silently.
  bool turn_away(std::string_view why);
  protocol::Protocol protocol() const { return protocol_; }
  bool is_turned_away() const { return !turned_away_.empty(); }
  // What the client began to ask has not arrived whole in time; it has taken nothing of what it is
  // sent for too long; it has sent nothing for too long, and waits for nothing.
  void on_request_timeout();
  void on_send_timeout();
  void on_idle_timeout();
  // Its session wants to be asked, though nothing has arrived.
  void on_wake();
  // Gives what it holds of an unfinished request to others, which ends it. Not while the store has
  // its requests.
  bool can_give_way() const {
    return phase_ == Phase::serving && under_way_.empty() && !undecided_;
  }
  void give_way();
  // If its session is interrupted, what that waits for is not waited for any longer.
  void interrupt();
  // Answers what has arrived, then closes: the server is stopping.
  void finish();
  // Closes now.
  void abort();
  // What it must hold back up to this number (Worker::wait_for_commit) may leave; or it is
  // not committed, and may leave only if nothing relies on that.
  void on_durable(uint64_t commit_seq, bool committed);
  // Writes what the worker has gathered for it; then there is nothing of it there.
  void send_gathered(std::string_view text);
  void end_gathered() { has_gathered_ = false; }

  void reply_late(const request::Request& request, const request::Verdict& verdict,
                  base::Time now) override;
  void flush_late(bool needs_commit) override;
  void resume(engine::Batch& batch) override;
  bool has_unsent() const override { return !unsent_.empty() || !late_.empty(); }
  bool is_leaving() const override { return ending_; }
  void on_lists_done() override;
  void on_ready(bool readable, bool writable, bool ended) override;
  void on_turn() override;

 private:
  // phase      what happens in it                         next
  // serving    requests are read, decided and answered    flushing: the session or the server ends
  // flushing   nothing is decided any more; unsent_ has   draining: all is sent
  //            what the socket has not taken              closed: the client said that it is done
  // draining   our side has ended; what arrives is read   closed: the client ends, sends too much,
  //            and dropped, so that no reset destroys     or the linger time is over
  //            what was sent
  // closed     the socket is closed; the worker has       -
  //            forgotten the connection
  // From each phase `abort` leads to closed: an error of the socket, a timeout, no memory for
  // output. No phase leads back.
  enum class Phase { serving, flushing, draining, closed };

  void read();
  void read_more();
  void note_handshake();
  // Decides what has arrived and sees to what comes next.
  void process();
  bool decide();
  size_t receive_batch(engine::Served& served, bool& progressed);
  engine::Served resume_batch();
  void keep_input();
  void drop_batches();
  void say_goodbye();
  bool receive_last();
  // Is there room for one more batch, and is its input free to be read into?
  bool can_receive() const;
  bool may_read() const { return phase_ == Phase::serving && unsent_.empty() && can_receive(); }
  void refuse(std::string_view why);
  void refuse_behind_replies(std::string_view why);
  void end_wait();
  void release_input();
  void note_unfinished();
  void note_idle();
  void note_wake();
  void start_flushing();
  bool flush(bool needs_commit = false);
  bool flush_at_turn_end(bool needs_commit);
  uint64_t commit_seq_of(std::string_view text, bool needs_commit) const;
  void write(std::string_view text);
  void send_what_is_gathered();
  void write_more();
  void wait_for_commit(std::string_view text, uint64_t commit_seq, bool needs_commit);
  void release_unsent();
  void close_gently();
  void await_linger();
  void drain();
  bool account();
  bool make_room();
  void widen_input();
  bool swap_buffer(size_t bytes, bool aside = false);

  Worker& worker_;
  AgeList<Connection>& request_ages_;
  AgeList<Connection>& send_ages_;
  AgeList<Connection>* const idle_ages_;  // null: it may be idle for ever
  // In the first while a request has not arrived whole, in the second while the socket takes no
  // more, in the third while it waits for nothing; in none while the server is what it waits for.
  AgeList<Connection>::Member waits_{*this};
  AgeList<Connection>::Member wakes_{*this};  // while its session wants to be woken
  base::Time wakes_at_{INT64_MAX};            // when it wanted that
  AgeList<Connection>::Member lent_{*this};   // while it holds more than the small buffer
  net::Stream stream_;
  std::unique_ptr<request::Session> session_;
  std::unique_ptr<Timer> linger_;  // while draining
  std::unique_ptr<char[]> in_;
  size_t in_capacity_ = 0, in_size_ = 0;  // in_size_: bytes that are not consumed
  size_t held_ = 0;     // bytes that the session has consumed of an unfinished request
  size_t arrived_ = 0;  // read since the socket was empty
  size_t at_ = 0;       // consumed of what is in in_, while its requests are being decided
  // Batches that wait for the store. The requests of one point into `input`, or into in_ where that
  // could not be set aside: then nothing is read before it has its answer.
  struct UnderWay {
    engine::Batch* batch = nullptr;
    std::unique_ptr<char[]> input;
    size_t input_capacity = 0;
  };
  void release(UnderWay& one);
  std::vector<UnderWay> under_way_;
  std::vector<engine::Batch*> resumable_;  // those of them that can go on
  // Output that the socket did not take, or that is held back; while it is there nothing is read.
  std::string unsent_;
  size_t unsent_at_ = 0;
  bool has_gathered_ = false;  // the worker knows of output to be sent at the end of its turn
  uint64_t commit_seq_ = 0;    // not 0: of unsent_ nothing leaves before it is passed
  bool needs_commit_ = false;  // it holds a reply that must not leave if it cannot be committed
  size_t drained_ = 0;
  const protocol::Protocol protocol_;
  Phase phase_ = Phase::serving;
  bool leaving_ = false;     // the session has announced the close; nothing more is received
  bool readable_ = false;    // there may be something to read
  bool ending_ = false;      // the client has sent its last; a short read is not a sign of anything
  std::string late_;         // late replies that are about to be sent
  bool end_ = false;         // the client will send no more
  bool sends_much_ = false;  // what arrived last fills the small buffer, or more
  bool woken_ = false;       // nothing has arrived since it was looked at last
  bool undecided_ = false;   // what it has read waits for its turn
  bool completed_ = false;   // what is unfinished began after the last look
  bool finishing_ = false;   // the server is stopping; what had arrived by then is still answered
  size_t last_bytes_ = 0;    // of that
  std::string_view turned_away_;  // why; a literal
  std::string_view refusal_;      // leaving_: why, in place of the session's farewell; a literal
};

}  // namespace sluice::server
