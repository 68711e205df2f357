// Clients that put load on a real server over three protocols and record every answer, and a model
// of what its counters may then hold. A test owns one Record for the store's folder, and a Load for
// each life of the server. Each connection has a thread, which the Load joins.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/dice.h"
#include "tests/support/divvy_server.h"
#include "tests/support/process.h"

namespace sluice::tests {

// How long to wait for the server. A start reads the store, a stop commits it, and replies wait for
// commits: beside busy processes each takes long.
inline constexpr Milliseconds patience{120'000};

enum class Spoken : uint8_t { divvy, limitd, droplet };
inline constexpr std::array all_spoken{Spoken::divvy, Spoken::limitd, Spoken::droplet};
std::string name_of(Spoken spoken);

using Instant = std::chrono::steady_clock::time_point;

// A counter's limit. Counters are numbered from 0 in each protocol. Those with an even number are
// small, and soon used up. No unit refills within a test.
int64_t limit_of(Spoken spoken, uint32_t counter);

enum class Answer : uint8_t { none, granted, refused, failed };

// A request that takes a unit or puts one back.
struct Asked {
  uint32_t counter = 0;
  bool put = false;
  Answer answer = Answer::none;
  Instant sent{};  // just before it was sent
  Instant at{};    // when its answer was read
};

// `sluice serve` with a store in a folder that outlives it, and the three protocols on free ports.
class RecordedServer {
 public:
  // `store`: the settings at HERE in `store: { path: ..., HERE }`.
  RecordedServer(const Folder& folder, const std::string& store, Process::Options options = {});

  uint16_t port(Spoken spoken) const { return ports_.at(spoken); }
  Process& process() { return *process_; }
  std::string err() const { return process_->err(); }
  // Ends the server. Returns its exit status, -1 if it does not end in time.
  int kill() { return end(SIGKILL); }
  int stop() { return end(SIGTERM); }
  static Process::Options options(const Folder& folder, const std::string& store,
                                  Process::Options options);

 private:
  int end(int signal);
  std::unique_ptr<Process> process_;
  std::map<Spoken, uint16_t> ports_;
};

// A connection whose replies come in the order of its requests.
class Talker {
 public:
  virtual ~Talker() = default;
  // Null: the connection was refused.
  static std::unique_ptr<Talker> connect(Spoken spoken, uint16_t port);
  virtual std::string request(uint32_t counter, bool put) = 0;
  // A request that only reads the counter, or takes a unit if the protocol cannot read.
  virtual std::string look(uint32_t counter) { return request(counter, false); }
  virtual bool send(const std::string& requests) = 0;
  struct Told {
    Answer answer = Answer::none;
    int64_t used = 0;  // units, after the request
  };
  // Nothing: the connection has ended.
  virtual std::optional<Told> read(uint32_t counter) = 0;
};

// One life of the server, as its clients saw it.
class Load {
 public:
  struct Shape {
    std::map<Spoken, uint32_t> counters;  // how many each protocol has
    int connections = 2;                  // of each protocol
    size_t depth = 16;                    // the most requests that are sent together
    bool again = false;                   // connects again when a connection ends, until `stop`
  };
  Load(const RecordedServer& server, const Shape& shape, uint32_t seed);
  ~Load() { join(); }
  // Returns when the clients have stopped: all they sent is answered, or their connections have
  // ended.
  void stop();

  struct Connection {
    Spoken spoken{};
    std::vector<Asked> asked;
    std::string trouble;
    std::thread thread;
  };
  // For use when no client runs any more.
  const std::vector<std::unique_ptr<Connection>>& connections() const { return connections_; }
  // Those that were read in that time; `sent`: no earlier.
  uint64_t answers(Spoken spoken, Answer answer, Instant from = {}, Instant to = Instant::max(),
                   Instant sent = {});
  // When the latest of the answered requests was sent.
  Instant last_answered() const;
  // May be called while clients run.
  uint64_t answered_so_far() const { return answered_; }
  uint64_t granted_so_far(Spoken spoken) const { return granted_[static_cast<size_t>(spoken)]; }
  uint64_t failed_so_far(Spoken spoken) const { return failed_[static_cast<size_t>(spoken)]; }

 private:
  void join();
  void talk(Connection& connection, uint16_t port, const Shape& shape, Dice dice);
  bool converse(Connection& connection, Talker& talker, const Shape& shape, Dice& dice,
                std::map<uint32_t, int>& mine);

  std::atomic<bool> stopping_{false};
  std::atomic<uint64_t> answered_{0};
  std::array<std::atomic<uint64_t>, 3> granted_{}, failed_{};  // by protocol
  std::vector<std::unique_ptr<Connection>> connections_;
};

// A model of what the counters may hold after all answers.
class Record {
 public:
  explicit Record(std::map<Spoken, uint32_t> counters);

  // Adds a life of the server, which ended at `end`. What was answered at `forgets_from` or later
  // may be forgotten.
  void add(Load& load, std::map<Spoken, Instant> forgets_from, Instant end);
  // Compares every counter with the model, which is exact afterwards. Returns the number of errors;
  // the first few are in `told`.
  uint64_t compare(const RecordedServer& server, std::string& told);
  // When the last request of a comparison was sent.
  Instant last_looked() const { return last_looked_; }

  uint64_t answered = 0, granted = 0, forgotten = 0, compared = 0;
  std::chrono::milliseconds oldest_forgotten{0};  // how long before the end of the server

 private:
  struct Counter {
    int64_t low = 0, high = 0;                   // bounds of the used units
    int64_t told = 0;                            // used units if nothing is forgotten
    int64_t granted = 0;                         // ever granted, without what may be forgotten
    Instant looked{};                            // when a comparison took a unit
    std::vector<Instant::duration> grants = {};  // may be forgotten: how long before the end
  };
  void compare(Spoken spoken, const RecordedServer& server, std::string& told, uint64_t& wrong);

  std::map<Spoken, std::vector<Counter>> counters_;
  Instant last_looked_{};
};

}  // namespace sluice::tests
