// One thread with its event loop and the connections it serves. Made and joined by the server;
// `adopt`, `on_new_policy`, `on_new_overrides`, `interrupt`, `run_query` and `stop` may be called
// from any thread, all else belongs to the worker's own.
#pragma once

#include <array>
#include <atomic>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
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
#include <unordered_set>
#include <vector>

#include "engine/admin_query.h"
#include "engine/engine.h"
#include "net/poller.h"
#include "policy/inline_limits.h"
#include "protocol/protocol.h"
#include "request/peer.h"
#include "server/age_list.h"
#include "server/connection.h"
#include "server/gathered_output.h"

namespace sluice::server {

// More than twenty members: its loop, and the memory, ages and held replies of all its connections,
// in the order in which they must end.
class Worker {
 public:
  static constexpr size_t small_buffer_bytes = 2048;

  // What is reported of its decisions. All of it outlives the worker.
  struct Watch {
    engine::WorkerStats& stats;
    engine::DenialSampler& denials;
    const base::Hash* keys_hash = nullptr;  // for its top keys; null: they are not asked for
  };
  // What requests are matched by beside the live policy; outlives the worker. Null: there are no
  // overrides, requests bring no limits along in place of a rule's, their algorithms are not
  // collected, or requests cannot log in.
  struct Matching {
    const policy::Overrides* overrides = nullptr;
    request::Spaces* spaces = nullptr;
    policy::InlineLists* inline_lists = nullptr;
    access::Access* access = nullptr;
  };
  Worker(store::Store& store, base::Clock& clock, const live::Live& live,
         engine::TableScanner& scanner, const Watch& watch, const Matching& matching,
         std::shared_ptr<spdlog::logger> log);
  ~Worker();

  // `ended` is called on the worker's thread as the last thing it does.
  void start(std::function<void()> ended);
  // Takes over a connected socket. `why` not empty: to be refused for that reason; it must be a
  // literal.
  void adopt(int fd, const Accepted& accepted, std::string_view why);
  // Another policy is live: takes it at once, as an idle worker would otherwise hold the old one
  // until a request arrives.
  void on_new_policy();
  // Overrides have changed: what waits may no longer have to.
  void on_new_overrides() { on_new_policy(); }
  // Sessions of its own that are interrupted wait no longer.
  void interrupt();
  // Has the store answer it; not once the worker has ended: then it is not answered.
  void run_query(std::shared_ptr<engine::AdminQuery> query);
  // Answers what has arrived and ends; what is not done by `limit` from now is cut off.
  void stop(std::chrono::milliseconds limit);
  void join();
  // Calls `visit` with its top keys on its own thread; never, if it has ended.
  void visit_top_keys(std::function<void(const engine::TopKeys&)> visit);

  // Handed to this worker and not gone: those that are served, and those that are turned away.
  size_t connections() const { return connections_.load(std::memory_order_relaxed); }
  size_t turned_away() const { return turned_away_.load(std::memory_order_relaxed); }

  // For its connections.
  struct Lent {
    std::unique_ptr<char[]> bytes;
    size_t capacity;
  };
  // At most base::bounds::unfinished_bytes_max in all, small ones aside. Past it the request that
  // has been unfinished for the longest gives way; nothing: that is the one that `by` has.
  std::optional<Lent> lend(size_t bytes, const Connection& by);
  void give_back(Lent buffer);
  // As `lend`, for the input of a batch that waits for the store, and for what a client that sends
  // much at once has sent until its turn: no request gives way for it, and half of the bound is
  // left to these. `beside`: what the caller holds besides, as by `account`.
  std::optional<Lent> lend_aside(size_t bytes, size_t beside);
  // A session holds `now` bytes in place of `before`, under the same bound. False: as above.
  bool account(const Connection& by, size_t before, size_t now);
  // Bytes that wait to be sent. Past base::bounds::unsent_bytes_max the connections that have taken
  // nothing for the longest are closed.
  void add_unsent(const Connection& by, size_t bytes);
  void remove_unsent(size_t bytes) { unsent_bytes_ -= bytes; }
  // Connections of which a request is unfinished, that take nothing, and that wait for nothing:
  // until they time out.
  using Ages = AgeList<Connection>;
  Ages& request_ages(const net::Timeouts& timeouts);
  Ages& send_ages(const net::Timeouts& timeouts);
  Ages* idle_ages(const net::Timeouts& timeouts);  // null: they may be idle for ever
  Ages& wake_ages(std::chrono::seconds length);    // of those that want to be woken
  void begin_wait(Ages::Member& member, Ages& ages);
  void begin_lent(Ages::Member& member);
  void leave(const std::shared_ptr<Connection>& connection);
  // Calls the connection's on_durable once what was decided up to `commit_seq` is committed.
  void wait_for_commit(std::shared_ptr<Connection> connection, uint64_t commit_seq);
  // Empty texts, which keep their memory where it is little.
  std::string lend_text();
  void give_back_text(std::string text);
  // Null: sessions of that protocol share nothing.
  request::WorkerState* state_of(protocol::Protocol protocol);
  base::Clock& clock() { return clock_; }
  engine::Engine& engine() { return engine_; }
  // Null: nothing that is sent has to wait.
  const store::Committer* committer() const { return committer_; }
  engine::WorkerStats& stats() { return stats_; }
  net::Poller& poller() { return poller_; }
  boost::asio::io_context::executor_type executor() { return io_.get_executor(); }
  base::Buffer& out() { return out_; }
  // Is output gathered until the end of the turn?
  bool gathers() const { return poller_.is_in_turn(); }
  GatheredOutput& gathered() { return gathered_; }
  base::Buffer& late_out() { return late_out_; }

 private:
  void end_if_idle();
  void advance();
  void release_durable();
  bool make_room_for(const Connection& by, size_t bytes);
  Lent take_buffer(size_t bytes);
  void wake_at(Ages::Time when);
  void end_waits();

  size_t lent_bytes_ = 0;  // small buffers aside, what sessions hold included
  size_t unsent_bytes_ = 0;
  // By their lengths in us.
  std::map<int64_t, Ages> request_ages_, send_ages_, idle_ages_, wake_ages_;
  Ages lent_ages_;                      // outlive what io_ still holds, as buffers do
  std::optional<Ages::Time> wakes_at_;  // of waits_timer_
  // By protocol, each once there is a session; outlive sessions that io_ still holds.
  std::array<std::unique_ptr<request::WorkerState>, protocol::protocols_max> states_;
  base::Clock& clock_;
  store::Store& store_;
  store::Committer* const committer_;
  std::vector<std::unique_ptr<char[]>> idle_small_, idle_large_;  // outlive what io_ still holds
  boost::asio::io_context io_{BOOST_ASIO_CONCURRENCY_HINT_UNSAFE_IO};
  boost::asio::executor_work_guard<boost::asio::io_context::executor_type> work_;
  boost::asio::steady_timer deadline_, due_, waits_timer_;
  net::Poller poller_;
  engine::WorkerStats& stats_;
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
  std::deque<Held> held_;  // by rising commit_seq
  std::vector<std::string> idle_texts_;
  std::atomic<size_t> connections_{0}, turned_away_{0};
  bool stopping_ = false, detached_ = false;
  std::thread thread_;
};

}  // namespace sluice::server
