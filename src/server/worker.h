// One thread with its event loop and the connections it serves. Made, started and joined by the
// server; `adopt`, `on_new_policy`, `on_new_overrides`, `run_query`, `visit_top_keys`, `stop` and
// the numbers of connections may be called from any thread, all other functions on the worker's own
// thread only.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "base/buffer.h"
#include "engine/admin_query.h"
#include "engine/engine.h"
#include "net/event_loop.h"
#include "protocol/protocol.h"
#include "request/peer.h"
#include "server/age_list.h"
#include "server/connection.h"

namespace sluice::server {

class Connection;

// Output of a worker's connections that is sent at the end of a turn of its loop, with one write
// for each connection. Clients on the same processors then wake after the worker has decided all of
// their requests, and do not interrupt it for each reply. Belongs to the worker, and is used on its
// thread.
class GatheredOutput {
 public:
  // With so many connections or bytes the output is sent before the turn ends: the first reply must
  // not wait for long.
  static constexpr size_t connections_max = 64;
  static constexpr size_t bytes_max = size_t{64} << 10;

  // Appends a copy of `text` to the connection's output here. Closes no connection.
  void add(Connection& connection, std::string_view text);
  // Hands the output of one connection, or of all, to Connection::send_gathered, in the order in
  // which it was added. A connection calls this before it writes in another way, and before it
  // closes. A connection whose socket takes no output may cause others to be closed
  // (Worker::add_unsent).
  void send(Connection& connection);
  void send_all();
  void send_if_full();
  // The connection is gone: drops its output.
  void forget(const Connection& connection);

 private:
  struct Run {
    Connection* connection;  // null: it is gone
    size_t at, size;         // 0: it is sent
  };
  void send(Run& run);

  base::Buffer texts_;
  std::vector<Run> runs_;
};

class Worker {
 public:
  static constexpr size_t small_buffer_bytes = 2048;

  // Where its decisions are reported. All of these outlive the worker.
  struct Watch {
    engine::WorkerStats& stats;
    engine::DenialSampler& denials;
    const base::Hash* keys_hash = nullptr;  // for its top keys; null: top keys are off
    otlp::Spans* spans = nullptr;           // null: its requests are not traced
  };
  // What requests are matched by beside the live policy; outlives the worker. Each may be null:
  // then there are no overrides, requests cannot bring limits that replace a rule's, or the
  // algorithms of such limits are not collected.
  struct Matching {
    const policy::Overrides* overrides = nullptr;
    request::Spaces* spaces = nullptr;
    store::HoldBook* holds = nullptr;
  };
  Worker(store::Store& store, base::Clock& clock, const live::Live& live,
         engine::TableScanner& scanner, const Watch& watch, const Matching& matching,
         std::shared_ptr<spdlog::logger> log);
  ~Worker();

  // Starts the thread, which calls `ended` as its last action.
  void start(std::function<void()> ended);
  // Takes over a connected socket. `why` not empty: the client is refused for that reason, which
  // must be a literal.
  void adopt(int fd, const Accepted& accepted, std::string_view why);
  // Another policy is live: the worker takes it at once. Without this an idle worker would hold the
  // old one until a request arrives.
  void on_new_policy();
  // A handshake of TLS begins and ends. Past a bound the oldest one is closed.
  void begin_handshake(Handshake& handshake);
  void end_handshake(Handshake& handshake);
  // Overrides have changed: waiting requests are matched again.
  void on_new_overrides() { on_new_policy(); }
  // Runs a query of the admin port. A worker that has ended does not answer it.
  void run_query(std::shared_ptr<engine::AdminQuery> query);
  // Answers the requests that have arrived and ends. Connections that are not done after `limit`
  // are closed.
  void stop(std::chrono::milliseconds limit);
  void join();
  // Calls `visit` with its top keys on the worker's thread; not if the worker has ended.
  void visit_top_keys(std::function<void(engine::TopKeys&)> visit);

  // Connections of this worker: those that are served, and those that are being refused.
  size_t connections() const { return connections_.load(std::memory_order_relaxed); }
  size_t turned_away() const { return turned_away_.load(std::memory_order_relaxed); }

  // From here on: for its connections.
  struct Lent {
    std::unique_ptr<char[]> bytes;
    size_t capacity;
  };
  // Lends a buffer for an unfinished request. All together hold base::bounds::unfinished_bytes_max
  // at most, small buffers aside. Past that the connection whose request has been unfinished for
  // the longest is closed; nothing: that is `by` itself.
  std::optional<Lent> lend(size_t bytes, const Connection& by);
  void give_back(Lent buffer);
  // As `lend`, for the input of a batch that waits for the store, and for input that waits for its
  // turn. No connection is closed for it, and half of the bound is left to unfinished requests.
  // `beside`: bytes that the caller holds besides, as in `account`.
  std::optional<Lent> lend_aside(size_t bytes, size_t beside);
  // A session now holds `now` bytes in place of `before`, under the bound of `lend`. False: `by`
  // itself has to be closed.
  bool account(const Connection& by, size_t before, size_t now);
  // Adds bytes that wait to be sent. Past base::bounds::unsent_bytes_max in all, connections are
  // closed: of those that have more than their share the ones whose clients have taken nothing for
  // the longest.
  void add_unsent(const Connection& by, size_t bytes);
  void remove_unsent(size_t bytes) { unsent_bytes_ -= bytes; }
  // Connections by age until they time out: those with an unfinished request, those whose client
  // reads nothing, those whose session withholds replies, and idle ones.
  using Ages = AgeList<Connection>;
  Ages& request_ages(const net::Timeouts& timeouts);
  Ages& send_ages(const net::Timeouts& timeouts);
  Ages& withheld_ages(const net::Timeouts& timeouts);
  Ages* idle_ages(const net::Timeouts& timeouts);  // null: without an idle timeout
  // of connections that want to be called after that time
  Ages& wake_ages(std::chrono::seconds length);
  void begin_wait(Ages::Member& member, Ages& ages);
  void begin_lent(Ages::Member& member);
  void begin_keeping(Ages::Member& member);
  void leave(const std::shared_ptr<Connection>& connection);
  // Calls the connection's on_durable once all decisions up to `commit_seq` are committed.
  void wait_for_commit(std::shared_ptr<Connection> connection, uint64_t commit_seq);
  // Lends an empty text. A small one keeps its memory when it is given back.
  std::string lend_text();
  void give_back_text(std::string text);
  // The state that this worker's sessions of that protocol share; null: none.
  request::WorkerState* state_of(protocol::Protocol protocol);
  base::Clock& clock() { return clock_; }
  engine::Engine& engine() { return engine_; }
  // Null: replies never wait for a commit.
  const store::Committer* committer() const { return committer_; }
  engine::WorkerStats& stats() { return stats_; }
  otlp::Spans* spans() const { return spans_; }
  net::EventLoop& loop() { return loop_; }
  base::Buffer& out() { return out_; }
  // Is output gathered until the end of the loop's turn?
  bool gathers() const { return loop_.is_in_turn(); }
  GatheredOutput& gathered() { return gathered_; }
  base::Buffer& late_out() { return late_out_; }

 private:
  void finish_owing();
  void end_if_idle();
  void close_late();
  void advance();
  void release_durable();
  bool make_room_for(const Connection& by, size_t bytes);
  void make_room_for_unsent(const Connection& by);
  Lent take_buffer(size_t bytes);
  void wake_at(net::Timer::Time when);
  void end_waits();

  size_t lent_bytes_ = 0;    // small buffers not counted, bytes held by sessions counted
  size_t unsent_bytes_ = 0;  // those that sessions keep counted
  bool makes_room_ = false;  // for unsent bytes
  // By their limit in us.
  std::map<int64_t, Ages> request_ages_, send_ages_, withheld_ages_, idle_ages_, wake_ages_;
  Ages handshake_ages_, lent_ages_, keeping_ages_;      // outlive the connections
  std::unordered_map<uint64_t, size_t> handshakes_of_;  // by Handshake::client
  // By protocol, made for the first session; outlive the sessions.
  std::array<std::unique_ptr<request::WorkerState>, protocol::protocols_max> states_;
  base::Clock& clock_;
  store::Store& store_;
  store::Committer* const committer_;
  std::vector<std::unique_ptr<char[]>> idle_small_, idle_large_;  // outlive the connections
  net::EventLoop loop_;
  net::Timer deadline_, grace_timer_, due_, waits_timer_;
  engine::WorkerStats& stats_;
  otlp::Spans* const spans_;
  std::unique_ptr<engine::TopKeys> top_keys_;
  engine::Engine engine_;
  base::Buffer out_, late_out_;
  GatheredOutput gathered_;
  std::unordered_set<std::shared_ptr<Connection>> all_;
  struct Held {
    base::Time since;
    uint64_t commit_seq;
    std::shared_ptr<Connection> connection;
  };
  std::deque<Held> held_;  // in the order of commit_seq
  std::vector<std::string> idle_texts_;
  std::atomic<size_t> connections_{0}, turned_away_{0};
  // phase     what happens in it                                        next
  // serving   connections are taken over and served                     stopping: `stop`
  // stopping  a new connection is closed; the others end when no        ended: all have ended
  //           request can be on its way to them, all at their limit
  // ended     the loop ends, and queries have no answer                 -
  enum class Phase : uint8_t { serving, stopping, ended };
  Phase phase_ = Phase::serving;
  // While it stops: the connections that are not told yet, and when they are at the latest.
  std::vector<std::shared_ptr<Connection>> owing_;
  std::chrono::steady_clock::time_point grace_ends_{};
  std::thread thread_;
};

}  // namespace sluice::server
