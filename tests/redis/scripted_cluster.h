// Nodes that act as a Redis Cluster. One real redis-server behind them has all counters. So a test
// can make a node refuse a script, name another node, hold its answer back or lose it, and then
// read what was really executed. As Redis does, the nodes answer CLUSTER INFO and CLUSTER SLOTS,
// and MOVED and ASK for slots that are elsewhere. Each connection has a thread. Errors of the nodes
// themselves are thrown.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <list>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/redis_server.h"

namespace sluice::tests {

class ScriptedCluster {
 public:
  // A call of a script that a node has received.
  struct Call {
    size_t node = 0;
    uint16_t slot = 0;     // of its first key
    bool takes = false;    // its first charge takes, if all charges allow it
    bool undo = false;     // it takes units back
    bool asked = false;    // it follows ASKING
    bool by_text = false;  // EVAL, not EVALSHA
    int64_t cost = 0;      // of its first charge, if it takes or is an undo
    size_t bytes = 0;      // of the whole command
  };
  // A call that Redis has executed, and its answer. Calls that Redis answered with an error, as
  // with NOSCRIPT, are not among them.
  struct Executed {
    Call call;
    std::string answer;
    bool lost = false;  // the answer was not sent
  };
  // What happens to a call. `error`: it is not executed, and this error is the answer.
  // `lost_before`, `lost_after`: the connection ends without an answer before or after the call is
  // executed. `held`: it is executed once `release` was called.
  enum class Fate { executed, error, lost_before, lost_after, held };
  struct Act {
    Fate fate = Fate::executed;
    std::string error{};
  };
  using Decide = std::function<Act(const Call&)>;

  explicit ScriptedCluster(size_t nodes);
  ~ScriptedCluster();
  ScriptedCluster(const ScriptedCluster&) = delete;
  ScriptedCluster& operator=(const ScriptedCluster&) = delete;

  uint16_t port(size_t node) const { return nodes_[node].port; }
  size_t size() const { return nodes_.size(); }
  size_t owner_of(uint16_t slot);
  // Gives the slot to that node; the others answer MOVED.
  void move(uint16_t slot, size_t to);
  // Begins to move the slot: its owner answers ASK, and node `to` executes a command that follows
  // ASKING. With its owner or `size()` for `to` the slot stays at its owner.
  void migrate(uint16_t slot, size_t to);
  // Sets the function that decides what happens to each call of a script. It runs in threads of the
  // nodes, for one call at a time, and must not call this object. Empty: all calls are executed.
  void decide(Decide decide);
  // Lets the nodes execute the calls that are held.
  void release();
  // Closes a node: its connections end, and it accepts none until it is open again.
  void set_open(size_t node, bool open);
  // The calls of scripts since the last time, in order, without those that the node answered with
  // NOSCRIPT.
  std::vector<Call> take_calls();
  // What Redis has executed since the last time. A call is here before its answer is sent.
  std::vector<Executed> take_executed();
  // How many undos were answered with NOSCRIPT since the last time.
  size_t take_unknown_undos();
  // From now on the connection ends where an undo would be answered with NOSCRIPT.
  void lose_unknown_undos();
  // How many calls are held.
  size_t held();
  RedisServer& redis() { return redis_; }

 private:
  struct Node {
    int listener = -1;
    uint16_t port = 0;
    bool open = true;  // guarded by mutex_
    std::thread acceptor;
  };
  struct Connection {
    size_t node = 0;
    int socket = -1;
    bool ends = false;
    std::thread thread;
  };
  void accept_of(size_t node, int listener);
  void serve(Connection& connection);
  bool answer(Connection& connection, RedisClient& redis, const std::string& bytes,
              const std::vector<std::string>& words, bool& asking);
  Act act_of(const Call& call);
  void note_executed(const Executed& executed);
  bool answers_unknown(const Call& call);
  std::string redirect_of(const Call& call);
  std::string slots();

  RedisServer redis_;
  std::vector<Node> nodes_;
  std::mutex mutex_;  // guards all below
  std::condition_variable released_;
  bool ends_ = false;
  uint64_t releases_ = 0;
  size_t held_ = 0;
  std::vector<size_t> owners_, migrates_to_;  // by slot
  Decide decide_;
  std::vector<Call> calls_;
  std::vector<Executed> executed_;
  size_t unknown_undos_ = 0;
  bool unknown_are_lost_ = false;
  std::list<Connection> connections_;
};

}  // namespace sluice::tests
