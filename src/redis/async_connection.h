// One connection of a worker to Redis: commands go out pipelined, all of a loop's turn in one
// write, and answers come in their order. It greets (password, database) before anything else, says
// when it is lost, and comes back by itself, after a pause that grows and is never the same.
// Belongs to a worker's thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "base/time.h"
#include "net/loop.h"
#include "net/resolver.h"
#include "net/stream.h"
#include "net/tls.h"
#include "redis/call_times.h"
#include "redis/options.h"
#include "redis/ring.h"

struct redisReader;

namespace sluice::redis {

// nil: there is nothing; its text is empty.
enum class Reply : uint8_t { text, nil, error };

// `silent`: connected, and an answer is overdue. `refused`: it was sent away.
enum class ConnectionState : uint8_t { down, refused, silent, up };
inline constexpr size_t connection_states = 4;

// Whose a command is; means something to the one who sent it.
struct Sender {
  uint32_t kind = 0, slot = 0, serial = 0, index = 0;
};

// More than twenty members: a connection that is made, greets, is up, is silent and is lost keeps
// what each phase needs, and what is reported of it from one phase to the next.
class AsyncConnection final : public net::Watcher {
 public:
  class Owner {
   public:
    virtual ~Owner() = default;
    virtual void on_answer(const Sender& sender, Reply reply, std::string_view text) = 0;
    // No answer by its deadline. True: one that comes later is dropped; else the sender hears of
    // it, or of its loss.
    virtual bool on_late(const Sender& sender) = 0;
    // The connection is gone, and with it the calls under way: it may have been done.
    virtual void on_lost(const Sender& sender) = 0;
    // `advance` must be called soon.
    virtual void on_change() = 0;
    // For people: what became of the connection.
    virtual void on_news(bool good, const std::string& text) = 0;
    // Where to connect to; none: the names have not been resolved.
    virtual std::vector<net::Address> addresses() = 0;
  };

  // All of it outlives the connection. `tls`: null where it is not wanted.
  AsyncConnection(const Options& options, net::TlsContext* tls, net::Loop& loop, Owner& owner,
                  uint64_t seed);
  ~AsyncConnection() override;
  AsyncConnection(const AsyncConnection&) = delete;
  AsyncConnection& operator=(const AsyncConnection&) = delete;

  // May something be sent? Not while it is down, nor while an answer is overdue: what is asked then
  // would only wait behind it.
  bool takes() const;
  // It is down because it was sent away: a wrong password, a user who may not.
  bool is_refused() const { return refused_; }
  bool is_full() const;  // as much is under way as may be
  // To append a command to, followed by `sent`. It leaves when the turn ends.
  std::string& out() { return out_; }
  // `due`: when its answer is late.
  void sent(const Sender& sender, base::Time due);

  // From now on what a turn sends is followed by one WAIT: an answer is delivered once so many
  // replicas have what was written for it, or after that time.
  void wait_for_replicas(unsigned replicas, base::Duration timeout);

  // The clock has gone back by so much: no deadline and no pause is further away for it.
  void step_back(base::Duration by);

  // Sees to deadlines and pauses. Returns when to be called again.
  std::optional<base::Time> advance(base::Time now);
  // Has the next node tried: this one takes no writes.
  void leave_node();
  size_t under_way() const { return sent_.size(); }

  // Turns whose writes too few replicas had in time; the answers were delivered all the same. Any
  // thread.
  uint64_t wait_timeouts() const { return wait_timeouts_.load(std::memory_order_relaxed); }
  // For metrics: any thread.
  const CallTimes& call_times() const { return call_times_; }
  ConnectionState state() const { return state_.load(std::memory_order_relaxed); }
  uint64_t connects() const { return connects_.load(std::memory_order_relaxed); }
  // Connections that were lost, and attempts that failed.
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
  // `silent` while an answer is overdue, down is `refused` after an error of the greeting.
  enum class Phase : uint8_t { down, connecting, greeting, up };
  struct Sent {
    Sender sender;
    int64_t due_us;
    bool dropped = false;  // its answer is not needed any more
    bool waits = false;    // a WAIT of ours
  };
  // An answer that stands behind a WAIT; its text is in held_texts_.
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

  const Options& options_;
  net::TlsContext* const tls_context_;
  net::Loop& loop_;
  Owner& owner_;
  std::minstd_rand random_;
  net::Stream stream_;  // open: of a connection, or of one that is being made
  Phase phase_ = Phase::down;
  bool was_up_ = false;  // since the last trouble; what is asked meanwhile waits for the connection
  bool first_ = true;    // nothing has gone wrong yet
  bool refused_ = false;
  bool doubtful_ = false;  // a node took no writes, and nothing has been decided since
  bool lost_ = false;      // to be reported to the owner at the next advance
  bool heard_ = false;     // a reply came since the last advance
  bool ended_ = false;     // the peer sends no more: the rest is read to the end
  size_t greetings_ = 0;   // answers that are still to come
  std::string greeting_error_, why_;
  std::string out_, greeting_out_;
  size_t out_at_ = 0;
  Ring<Sent> sent_;
  CallTimes call_times_;
  size_t late_ = 0;  // of sent_, from the front: overdue
  unsigned wait_replicas_ = 0;
  std::string wait_ms_, wait_count_;
  bool wait_wanted_ = false;  // something was sent since the last WAIT
  std::vector<Held> held_;
  std::string held_texts_;
  std::atomic<uint64_t> wait_timeouts_{0};
  int64_t heard_us_ = 0, retry_us_ = 0, phase_due_us_ = 0, pause_us_ = 0;
  size_t next_address_ = 0, node_ = 0;
  size_t untried_ = 0;  // addresses that are tried before the next pause
  std::atomic<ConnectionState> state_{ConnectionState::down};
  std::atomic<uint64_t> connects_{0}, losses_{0};
  std::string told_;  // the last bad news, so that it is reported once
  struct FreeReader {
    void operator()(redisReader* reader) const;
  };
  std::unique_ptr<redisReader, FreeReader> reader_;
};

}  // namespace sluice::redis
