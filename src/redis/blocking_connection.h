// A connection to Redis that sends one command after another, and waits up to Options::patience for
// each answer. Blocks, so it is for a thread that may, and belongs to that thread.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "net/stream.h"
#include "redis/async_connection.h"
#include "redis/options.h"

struct redisReader;
struct redisReply;

namespace sluice::redis {

struct FreeReply {
  void operator()(redisReply* reply) const;
};
using Answer = std::unique_ptr<redisReply, FreeReply>;

bool is_error(const Answer& answer);  // true also for no answer
// The text of a string or an error; empty: the reply is neither.
std::string_view text_of(const redisReply& reply);
// The number that its text begins with; 0: it begins with none.
int64_t number_of(const redisReply& reply);

class BlockingConnection {
 public:
  // `stop`: once it is true, calls return without waiting any longer.
  explicit BlockingConnection(const std::atomic<bool>* stop = nullptr);
  ~BlockingConnection();
  BlockingConnection(const BlockingConnection&) = delete;
  BlockingConnection& operator=(const BlockingConnection&) = delete;

  // Tries once to connect and log in. False: it failed, or Redis refused; see `problem`.
  bool open(const Options& options, net::TlsContext* tls, const net::Address& address);
  // Sends a command and returns its answer. Null: the connection is lost.
  Answer ask(std::span<const std::string_view> words);
  Answer ask(std::initializer_list<std::string_view> words) {
    return ask(std::span(words.begin(), words.size()));
  }
  // Waits for a message that Redis sends by itself. Null: none came in that time, or the connection
  // is lost.
  Answer next(std::chrono::milliseconds patience, bool& is_lost);
  // Why the last call failed, for the log.
  const std::string& problem() const { return problem_; }
  // What Redis answered to `open` when it refused; empty: it did not.
  const std::string& refusal() const { return refusal_; }

 private:
  using Clock = std::chrono::steady_clock;
  // Waits until it can write at least a byte of `text`. False: it failed, or its time is up.
  bool write_some(std::string_view& text);
  bool read_some(char* to, size_t room, size_t& got);
  bool await(bool writable);
  bool greet(std::initializer_list<std::string_view> words);
  Answer lost(const std::string& why);
  Answer receive();

  const std::atomic<bool>* const stop_;
  std::chrono::microseconds patience_{0};  // Options::patience of `open`
  std::string name_;
  net::Stream stream_;
  struct FreeReader {
    void operator()(redisReader* reader) const;
  };
  std::unique_ptr<redisReader, FreeReader> reader_;
  Clock::time_point due_;
  std::string problem_, refusal_;
};

}  // namespace sluice::redis
