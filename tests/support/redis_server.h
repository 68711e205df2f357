// A real redis-server on loopback for one test, started on a free port and ended with it, and a
// blocking client of it. Keeps nothing on disk unless told to. Trouble of the harness is thrown.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tests/support/process.h"

struct redisContext;

namespace sluice::tests {

// A port that was free a moment ago.
uint16_t free_port();

// What Redis replied, as a tree.
struct RedisReply {
  enum class Type { text, number, nil, error, list } type = Type::nil;
  std::string text;  // also of an error, and of a number
  int64_t number = 0;
  std::vector<RedisReply> list{};
  bool is_error() const { return type == Type::error; }
};

class RedisClient {
 public:
  // Throws where no process listens.
  explicit RedisClient(uint16_t port);
  RedisClient(RedisClient&&) = default;
  RedisReply operator()(const std::vector<std::string>& words);
  // Bytes as they are, then the next reply.
  RedisReply raw(const std::string& bytes);

 private:
  struct Free {
    void operator()(redisContext* context) const;
  };
  std::unique_ptr<redisContext, Free> context_;
};

// A folder of a test's own, which goes with it.
class ScratchFolder {
 public:
  ScratchFolder();
  ~ScratchFolder();
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

class RedisServer {
 public:
  // `settings`: further words of its command line.
  explicit RedisServer(std::vector<std::string> settings = {});
  // A sentinel, with that file, which it writes to.
  struct Sentinel {
    std::string file;
  };
  explicit RedisServer(const Sentinel& sentinel);
  ~RedisServer();

  uint16_t port() const { return port_; }
  std::string address() const { return "127.0.0.1:" + std::to_string(port_); }
  RedisClient client() const { return RedisClient(port_); }
  pid_t pid() const { return process_->pid(); }
  void signal(int number) const { process_->signal(number); }
  // Ends it; starts it again on the same port.
  void stop();
  void start();

 private:
  std::vector<std::string> words() const;
  // Its own: a replica leaves a file there, which the next server of that folder would load.
  ScratchFolder folder_;
  const std::vector<std::string> settings_;
  const std::string sentinel_;
  uint16_t port_ = 0;
  std::unique_ptr<Process> process_;
};

}  // namespace sluice::tests
