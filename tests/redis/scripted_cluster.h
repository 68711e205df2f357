// Nodes that act as a Redis Cluster in front of one real redis-server, in which all counters are:
// so a test has a node refuse a script, name another node, hold its answer back or lose it, and
// then reads what was really executed. The nodes answer CLUSTER INFO and CLUSTER SLOTS, and MOVED
// and ASK for slots that are elsewhere, as Redis does. Each connection has a thread. Trouble of the
// harness is thrown.
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
  // A script that a node was sent.
  struct Call {
    size_t node = 0;
    uint16_t slot = 0;   // of its first key
    bool takes = false;  // its first charge takes, if all charges allow it
    bool undo = false;   // it takes back
    bool asked = false;  // behind ASKING
    bool by_text = false;
    size_t bytes = 0;
  };
  // What becomes of it. `error`: it is not executed, and answered so. The connection ends before or
  // after it is executed, without an answer. `held`: like `executed`, once `release` was called.
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
  // The slot is at that node from now on; the others answer MOVED.
  void move(uint16_t slot, size_t to);
  // Its owner answers ASK, and that node executes a command that follows ASKING; to the owner: it
  // stays there.
  void migrate(uint16_t slot, size_t to);
  // Decides what becomes of each script, in threads of the nodes, one call at a time, without a
  // call of this object. Empty: all are executed.
  void decide(Decide decide);
  void release();
  // That node's connections end, and it lets none in until it is `open` again.
  void set_open(size_t node, bool open);
  // The scripts that came since the last time, in order, but for those that Redis does not know.
  std::vector<Call> take_calls();
  // Undos since the last time that were answered with NOSCRIPT.
  size_t take_unknown_undos();
  // The connection ends in place of that answer.
  void lose_unknown_undos();
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
  size_t unknown_undos_ = 0;
  bool unknown_are_lost_ = false;
  std::list<Connection> connections_;
};

}  // namespace sluice::tests
