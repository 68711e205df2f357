// A connection to Redis that asks one thing after another and waits for each answer, as long as
// Options::patience. Blocks: for a thread that may, and belongs to it.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <chrono>
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

bool is_error(const Answer& answer);  // also of none
// Of a string or an error; empty: it is neither.
std::string_view text_of(const redisReply& reply);

class BlockingConnection {
 public:
  // `stop`: once it is true nothing is waited for any more.
  explicit BlockingConnection(const std::atomic<bool>* stop = nullptr);
  ~BlockingConnection();
  BlockingConnection(const BlockingConnection&) = delete;
  BlockingConnection& operator=(const BlockingConnection&) = delete;

  // Connects and greets, once. False: it does not come about, or does not let us in; see `problem`.
  bool open(const Options& options, net::TlsContext* tls, const net::Address& address);
  // Null: the connection is lost.
  Answer ask(std::span<const std::string_view> words);
  Answer ask(std::initializer_list<std::string_view> words) {
    return ask(std::span(words.begin(), words.size()));
  }
  // Asks commands, which are in RESP already, all at once; their answers in their order. They must
  // not be so long, nor so many, that Redis stops reading until its answers are read: a MiB of both
  // is fine. False: the connection is lost; `answers` has what came before.
  bool ask_all(std::span<const std::string> commands, std::vector<Answer>& answers);
  // What is said next without being asked. Null: nothing is in that time, or the connection is
  // lost.
  Answer next(std::chrono::milliseconds patience, bool& is_lost);
  // Why the last call failed, for people.
  const std::string& problem() const { return problem_; }

 private:
  using Clock = std::chrono::steady_clock;
  // Once it is possible: false, if it fails or its time is up. At least a byte of it.
  bool write_some(std::string_view& text);
  bool read_some(char* to, size_t room, size_t& got);
  bool await(bool writable);
  bool greet(std::initializer_list<std::string_view> words);
  Answer lost(const std::string& why);
  Answer receive();

  const std::atomic<bool>* const stop_;
  std::chrono::microseconds patience_{0};  // of the options that it was opened with
  std::string name_;
  net::Stream stream_;
  struct FreeReader {
    void operator()(redisReader* reader) const;
  };
  std::unique_ptr<redisReader, FreeReader> reader_;
  Clock::time_point due_;
  std::string problem_;
};

}  // namespace sluice::redis
