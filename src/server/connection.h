// One client's connection: its socket, its session, and its unfinished input and output. Belongs to
// one worker, which keeps it alive, and lives on its thread. Idle it holds a small input buffer and
// nothing else; a larger one is lent by the worker while a request does not fit into it.
#pragma once

#include <sys/socket.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/engine.h"
#include "net/event_loop.h"
#include "net/stream.h"
#include "request/session.h"
#include "server/age_list.h"
#include "server/options.h"

namespace sluice::server {

class Worker;

// What a worker must know of a socket that it is given.
struct Accepted {
  protocol::Protocol protocol{};
  net::Timeouts timeouts = {};
  std::shared_ptr<net::TlsContext> tls = {};  // null: without TLS
  request::Peer peer = {};                    // what its session knows of the client
  request::Unmatched unmatched = {};
};

class Connection;
// A handshake of TLS that is under way: in its worker's list of them, by age.
struct Handshake {
  Handshake(Connection& its, uint64_t its_client, request::Peer its_peer)
      : member(its), client(its_client), peer(std::move(its_peer)) {}
  AgeList<Connection>::Member member;
  const uint64_t client;  // of `client_number`
  request::Peer peer;     // for the session, which is made at the end
};

// The same number for the addresses that one client may have to itself: one of IPv4, mapped or not,
// or a network of IPv6 of 64 bits. Never 0.
uint64_t client_number(const sockaddr_storage& address);

class Connection final : public engine::ReplySink,
                         public net::EventLoop::SocketOwner,
                         public std::enable_shared_from_this<Connection> {
 public:
  // Takes the socket, which must be non-blocking.
  Connection(Worker& worker, int fd, const Accepted& accepted);
  ~Connection() override;

  // Serves until the client leaves or is refused. False: the system refuses to watch the socket.
  bool start();
  // Answers the client's first request with the reason why it is not served. An unasked line would
  // break the protocol, so a client without a request is closed silently.
  bool turn_away(std::string_view why);
  protocol::Protocol protocol() const { return protocol_; }
  bool is_turned_away() const { return !turned_away_.empty(); }
  // A request has not arrived whole in time; the client has read no output for too long; the client
  // has sent nothing for too long, and waits for nothing.
  void on_request_timeout();
  void on_send_timeout();
  void on_idle_timeout();
  // Replies are withheld by the client's flow control for as long as it may take nothing.
  void on_withheld_timeout();
  // The time at which its session wanted to be called, although nothing has arrived.
  void on_wake();
  // Whose handshake is under way; 0: it has none.
  uint64_t handshaking_client() const { return handshake_ == nullptr ? 0 : handshake_->client; }
  // Has its client sent a part of the handshake that is not read yet?
  bool awaits_turn() const { return readable_; }
  void end_handshake();
  // May its unfinished request be dropped, which closes it, to make room for others? Not while the
  // store has requests of it.
  bool can_give_way() const {
    return phase_ == Phase::serving && under_way_.empty() && !undecided_;
  }
  void give_way();
  // Bytes that it holds beside its small buffer: for a request that has not arrived whole; and for
  // replies that wait to be sent, or that its session keeps.
  size_t unfinished_bytes() const;
  size_t unsent_bytes() const {
    return unsent_.size() + (keeping_ == nullptr ? 0 : keeping_->bytes);
  }
  // Is there output that the socket has not taken, or that waits for its commit?
  bool is_sending() const { return !unsent_.empty(); }
  // The server stops: answers the requests that have arrived, then closes.
  void finish();
  // As `finish`, once a request that arrives from here on is answered and nothing has arrived of
  // the next.
  void finish_behind_answer() {
    if (stop_ == Stop::no) stop_ = Stop::behind_answer;
  }
  // May a request be on its way: are there bytes to read, has the client begun a request, or sent
  // nothing yet since it connected?
  bool may_owe() const;
  // Closes now.
  void abort();
  // Output that was held back up to this number (Worker::wait_for_commit) may be sent. Not
  // `committed`: it could not be committed, and only output that does not depend on the commit may
  // be sent.
  void on_durable(uint64_t commit_seq, bool committed);
  // Writes the text that the worker gathered for this connection, all of it.
  void send_gathered(std::string_view text);
  void end_gathered() { has_gathered_ = false; }

  void reply_late(const request::Request& request, const request::Verdict& verdict,
                  base::Time now) override;
  void flush_late(bool needs_commit) override;
  void resume(engine::Batch& batch) override;
  bool has_unsent() const override { return !unsent_.empty() || !late_.empty(); }
  bool is_leaving() const override { return ending_; }
  std::string_view certificate() const override {
    return certificate_ == nullptr ? std::string_view() : *certificate_;
  }
  uint64_t client() const override;
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
  // While it serves:
  //
  // stop           what happens in it                              next
  // no             the server does not stop                        behind_answer, finishing
  // behind_answer  it is told to, and a request may be on its way  answering: one has arrived
  //                                                                finishing
  // answering      that request is served                          finishing: none is on its way
  // finishing      what had arrived is answered, and nothing else  flushing
  enum class Stop : uint8_t { no, behind_answer, answering, finishing };

  void read();
  void read_more();
  void note_handshake();
  void open_session(request::Peer peer);
  void look_at_session();
  // Decides the requests that have arrived, then starts what comes next: a read, a timeout or the
  // end.
  void process();
  bool decide();
  size_t receive_batch(engine::Served& served, bool& progressed);
  engine::Served resume_batch();
  void keep_input();
  void drop_batches();
  void report_fault(const request::Fault& fault) const;
  void end_session(request::Ending ending, std::string_view why = {});
  bool awaits_late_replies();
  bool receive_last();
  // Is there room for one more batch, and is its input free to be read into?
  bool can_receive() const;
  bool may_read() const { return phase_ == Phase::serving && unsent_.empty() && can_receive(); }
  bool give_up(request::Overdue what, engine::Closed cause);
  void refuse(std::string_view why);
  void refuse_behind_replies(std::string_view why);
  bool refuse_answered();
  void end_wait();
  void release_input();
  bool is_unfinished() const;
  void note_unfinished();
  void note_idle();
  void note_wake();
  void note_kept();
  void release_kept();
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
  AgeList<Connection>& withheld_ages_;
  AgeList<Connection>* const idle_ages_;  // null: it may be idle for ever
  // In the worker's request list while a request is incomplete, in its send list while the socket
  // takes no output, in its idle list while there is no request; in none while the client waits for
  // the server.
  AgeList<Connection>::Member waits_{*this};
  AgeList<Connection>::Member wakes_{*this};  // while its session wants to be called at a time
  base::Time wakes_at_{INT64_MAX};            // that time
  AgeList<Connection>::Member lent_{*this};   // while it holds more than the small buffer
  std::unique_ptr<Handshake> handshake_;      // null: it has none under way
  std::unique_ptr<const std::string> certificate_;  // the name in the client's; null: none
  mutable uint64_t client_ = 0;                     // client_number; 0: nothing has asked for it
  // What its session keeps (request::SessionState::kept_bytes), and its unfinished requests if
  // there may be several; null: nothing since the connection began.
  struct Keeping {
    explicit Keeping(Connection& its) : withheld(its), keeps(its) {}
    AgeList<Connection>::Member withheld;  // while there are replies that it withholds
    AgeList<Connection>::Member keeps;     // while it keeps something
    size_t bytes = 0;
    uint64_t oldest_unfinished = 0;  // of the session, at the last look at it
  };
  std::unique_ptr<Keeping> keeping_;
  net::Stream stream_;
  // The state that its sessions share, if they hold memory together; else null.
  const request::WorkerState* const shared_;
  std::unique_ptr<request::Session> session_;  // null: during a handshake, and after its end
  request::SessionState state_;                // of the session, since its last call
  std::unique_ptr<net::Timer> linger_;         // while draining
  std::unique_ptr<char[]> in_;
  size_t in_capacity_ = 0, in_size_ = 0;  // in_size_: bytes that are not consumed
  size_t held_ = 0;     // bytes of an unfinished request that the session has consumed
  size_t arrived_ = 0;  // read since the socket was empty
  size_t at_ = 0;       // consumed bytes of in_, while its requests are being decided
  // A batch that waits for the store. Its requests point into `input`; or into in_, if there was no
  // room for another buffer: then nothing is read until the batch has its answer.
  struct UnderWay {
    engine::Batch* batch = nullptr;
    std::unique_ptr<char[]> input;
    size_t input_capacity = 0;
  };
  void release(UnderWay& one);
  std::vector<UnderWay> under_way_;
  std::vector<engine::Batch*> resumable_;  // those that can be resumed
  // Output that the socket did not take, or that waits for a commit; while there is some nothing is
  // read.
  std::string unsent_;
  size_t unsent_at_ = 0;
  bool has_gathered_ = false;  // the worker holds output of it, to be sent at the end of the turn
  uint64_t commit_seq_ = 0;    // not 0: unsent_ waits for this commit
  // unsent_ has a reply that must not be sent if it cannot be committed
  bool needs_commit_ = false;
  size_t drained_ = 0;
  const protocol::Protocol protocol_;
  Phase phase_ = Phase::serving;
  Stop stop_ = Stop::no;
  bool leaving_ = false;   // the session has announced the close; nothing more is received
  bool readable_ = false;  // there may be something to read
  // the client has ended its side; a short read does not mean that the socket is empty
  bool ending_ = false;
  std::string late_;              // late replies that are about to be sent
  bool end_ = false;              // the client will send no more
  bool heard_ = false;            // it has sent a byte of a request
  bool sends_much_ = false;       // the last input filled the small buffer
  bool woken_ = false;            // called without input, as its session wanted it
  bool undecided_ = false;        // input that was read waits for its turn
  bool worked_ = false;           // the last `receive` did work beside its requests
  bool completed_ = false;        // the unfinished request began after the last look at it
  size_t last_bytes_ = 0;         // with Stop::finishing: that had arrived and are not read yet
  std::string_view turned_away_;  // why it is not served; a literal
  // with leaving_: why the client is refused; a literal
  std::string_view refusal_;
};

}  // namespace sluice::server
