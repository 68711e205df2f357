// One connection of a worker to Redis: commands go out pipelined, all of a loop's turn in one
// write, and answers come in their order. It sends the password and the database before anything
// else, reports when it is lost, and reconnects by itself, after a pause that grows and has a
// random part. Belongs to a worker's thread.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "base/time.h"
#include "metrics/cells.h"
#include "net/loop.h"
#include "net/resolver.h"
#include "net/stream.h"
#include "net/tls.h"
#include "redis/options.h"
#include "redis/ring.h"
#include "redis/send_window.h"

namespace sluice::redis {

// How long calls of one connection take, from written to answered. One write is timed as a whole,
// unless another one was timed in the last millisecond or still is; calls that are not timed count
// with the next time that is measured. The worker's thread; `add_to` on any.

inline constexpr std::array<uint64_t, 13> call_bounds_us{
    50, 100, 200, 500, 1'000, 2'000, 5'000, 10'000, 20'000, 50'000, 100'000, 200'000, 500'000};
using CallDistribution = metrics::Distribution<call_bounds_us.size()>;

class CallTimes {
 public:
  // A call will be written; `at_us`: the time that its worker read last.
  void queued(int64_t at_us) {
    ++queued_;
    at_us_ = at_us;
  }
  // All queued calls are written; there was at least one.
  void written() {
    if (until_ != 0 || queued_ == answered_) return;
    if (timed_ && static_cast<uint64_t>(at_us_) - static_cast<uint64_t>(timed_us_) < period_us)
      return;
    timed_ = true;
    timed_us_ = at_us_;
    until_ = queued_;
    began_ = Clock::now();
  }
  void answered() {
    if (++answered_ != until_) [[likely]]
      return;
    const auto took = std::chrono::duration_cast<std::chrono::microseconds>(Clock::now() - began_);
    times_.observe(static_cast<uint64_t>(took.count()), answered_ - counted_);
    counted_ = answered_;
    until_ = 0;
  }
  // The calls under way are lost.
  void lost() {
    answered_ = counted_ = queued_;
    until_ = 0;
  }

  void add_to(CallDistribution& all) const { times_.add_to(all); }

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr uint64_t period_us = 1'000;

  uint64_t queued_ = 0, answered_ = 0, counted_ = 0;
  uint64_t until_ = 0;  // the call whose answer ends the measurement; 0: none is under way
  int64_t at_us_ = 0, timed_us_ = 0;
  bool timed_ = false;  // a time was measured so far
  Clock::time_point began_{};
  metrics::Histogram<call_bounds_us.size()> times_{call_bounds_us};
};

}  // namespace sluice::redis

struct redisReader;

namespace sluice::redis {

// nil: Redis' nil; its text is empty.
enum class Reply : uint8_t { text, nil, error };

// `silent`: connected, an answer is overdue, and none has come for a deadline. `refused`: Redis
// refused the greeting.
enum class ConnectionState : uint8_t { down, refused, silent, up };
inline constexpr size_t connection_states = 4;

// Identifies a command to the owner that sent it.
struct Sender {
  uint32_t kind = 0, slot = 0, serial = 0, index = 0;
};

// The microseconds of a clock that does not go back.
using Ticks = int64_t (*)();
int64_t steady_us();

class AsyncConnection final : public net::Watcher {
 public:
  class Owner {
   public:
    virtual ~Owner() = default;
    virtual void on_answer(const Sender& sender, Reply reply, std::string_view text) = 0;
    // A command has no answer by its deadline. True: an answer that comes later is dropped; false:
    // the owner still gets it, or `on_lost`.
    virtual bool on_late(const Sender& sender) = 0;
    // The connection is lost with a command under way, which Redis may have executed.
    virtual void on_lost(const Sender& sender) = 0;
    // `advance` must be called soon.
    virtual void on_change() = 0;
    // A message for the log: what happened to the connection.
    virtual void on_news(bool good, const std::string& text) = 0;
    // The addresses to connect to; empty: the names are not resolved yet.
    virtual std::vector<net::Address> addresses() = 0;
  };

  // The arguments outlive the connection. `tls`: null: without TLS.
  AsyncConnection(const Options& options, net::TlsContext* tls, net::Loop& loop, Owner& owner,
                  uint64_t seed, Ticks ticks = steady_us);
  ~AsyncConnection() override;
  AsyncConnection(const AsyncConnection&) = delete;
  AsyncConnection& operator=(const AsyncConnection&) = delete;

  // May a command be sent? Not while the connection is down or silent, nor while it is behind.
  bool takes() const;
  // It is up, and the answer of one command more would be late: Redis is asked for more than it can
  // do, or has been silent until now.
  bool is_behind() const;
  bool is_up() const { return phase_ == Phase::up; }
  // It is down because Redis refused it: a wrong password, or a user without the right.
  bool is_refused() const { return refused_; }
  bool is_full() const;  // a bound of base/bounds.h is reached
  // The output: append a command, then call `sent`. It is written at the end of the loop's turn.
  std::string& out() { return out_; }
  // `due`: the time after which its answer is late.
  void sent(const Sender& sender, base::Time due);

  // From now on one WAIT follows the commands of each turn: their answers are delivered once so
  // many replicas have the writes, or after `timeout`.
  void wait_for_replicas(unsigned replicas, base::Duration timeout);

  // The clock has gone back by so much: moves all deadlines and pauses back with it.
  void step_back(base::Duration by);

  // Handles deadlines and pauses that are reached. Returns when it must be called again.
  std::optional<base::Time> advance(base::Time now);
  // Connects to the next node, as this one takes no writes.
  void leave_node();
  size_t under_way() const { return sent_.size(); }

  // The number of turns whose writes too few replicas had in time; their answers were delivered all
  // the same. Any thread.
  uint64_t wait_timeouts() const { return wait_timeouts_.load(std::memory_order_relaxed); }
  // For metrics: any thread.
  const CallTimes& call_times() const { return call_times_; }
  ConnectionState state() const { return state_.load(std::memory_order_relaxed); }
  uint64_t connects() const { return connects_.load(std::memory_order_relaxed); }
  // The number of lost connections and failed attempts.
  uint64_t losses() const { return losses_.load(std::memory_order_relaxed); }

  void on_ready(bool readable, bool writable, bool ended) override;
  void on_turn_end() override;

 private:
  // phase       what happens in it                       next
  // down        the pause before the next attempt        connecting: the pause is over
  // connecting  the socket and TLS are being connected   greeting: connected
  // greeting    AUTH, SELECT and PING wait for their     up: all were answered without an error
  //             answers; commands wait behind them
  // up          commands leave at the end of each turn   -
  // From each phase `lose` leads to down: an error, the end, a bad answer, a deadline of the phase
  // (connecting, greeting) or a silence (up). ConnectionState is what metrics show of it: up is
  // `silent` while no overdue answer comes, down is `refused` after an error of the greeting.
  enum class Phase : uint8_t { down, connecting, greeting, up };
  struct Sent {
    Sender sender;
    int64_t due_us;
    bool dropped = false;  // its answer is not needed any more
    bool waits = false;    // a WAIT that follows a turn's commands
  };
  // An answer that waits for its turn's WAIT; its text is in held_texts_.
  struct Held {
    Sender sender;
    Reply reply;
    uint32_t size;
  };

  void connect(base::Time now);
  bool open(const net::Address& address);
  void greet();
  void on_greeted(Reply reply, std::string_view text);
  void log_up();
  void confirm_up();
  void lose(const std::string& why);
  void forget_unsent();
  void drop_all();
  void close();
  void flush();
  void read();
  void take(Reply reply, std::string_view text);
  void append_wait();
  void deliver_held();
  std::string name() const;
  void publish();
  bool is_overdue(base::Time now);

  const Options& options_;
  net::TlsContext* const tls_context_;
  net::Loop& loop_;
  Owner& owner_;
  std::minstd_rand random_;
  net::Stream stream_;  // open: connected, or connecting
  Phase phase_ = Phase::down;
  // since the last trouble; commands that are sent meanwhile wait for the connection
  bool was_up_ = false;
  bool first_ = true;  // nothing has gone wrong yet
  bool refused_ = false;
  bool doubtful_ = false;  // a node took no writes, and nothing has been decided since
  bool lost_ = false;      // the next `advance` reports the loss to the owner
  bool heard_ = false;     // a reply came since the last `advance`
  bool ended_ = false;     // the peer sends no more: the rest is read to the end
  size_t greetings_ = 0;   // answers of the greeting that are still missing
  std::string greeting_error_, why_;
  std::string out_, greeting_out_;
  size_t out_at_ = 0;
  Ring<Sent> sent_;
  CallTimes call_times_;
  const Ticks ticks_;
  SendWindow window_;
  int64_t answered_ticks_ = 0;  // when the last answers came, or the connection was made
  bool silent_ = false;
  size_t late_ = 0;  // how many of sent_, from the front, are overdue
  unsigned wait_replicas_ = 0;
  std::string wait_ms_, wait_count_;
  bool wait_wanted_ = false;  // something was sent since the last WAIT
  std::vector<Held> held_;
  std::string held_texts_;
  std::atomic<uint64_t> wait_timeouts_{0};
  int64_t heard_us_ = 0, retry_us_ = 0, phase_due_us_ = 0, pause_us_ = 0;
  size_t next_address_ = 0, node_ = 0;
  size_t untried_ = 0;  // addresses still to be tried before the next pause
  std::atomic<ConnectionState> state_{ConnectionState::down};
  std::atomic<uint64_t> connects_{0}, losses_{0};
  std::string told_;  // the last bad news, so that it is reported once
  struct FreeReader {
    void operator()(redisReader* reader) const;
  };
  std::unique_ptr<redisReader, FreeReader> reader_;
};

}  // namespace sluice::redis
