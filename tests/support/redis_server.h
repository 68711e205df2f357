// A real redis-server on loopback for one test, on a free port, and a blocking client of it. The
// destructor ends the server. It keeps nothing on disk by default. Failures of the harness are
// thrown. The environment variable SLUICE_REDIS_SERVER may name another program to start.
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

// A port that was free a moment ago: another process may take it before the caller.
uint16_t free_port();

// A reply of Redis as a tree.
struct RedisReply {
  enum class Type { text, number, nil, error, list } type = Type::nil;
  std::string text;  // also of an error, and of a number
  int64_t number = 0;
  std::vector<RedisReply> list{};
  bool is_error() const { return type == Type::error; }
};

class RedisClient {
 public:
  // Throws if no process listens.
  explicit RedisClient(uint16_t port);
  RedisClient(RedisClient&&) = default;
  RedisReply operator()(const std::vector<std::string>& words);
  // Sends bytes unchanged, and reads the next reply.
  RedisReply raw(const std::string& bytes);

 private:
  struct Free {
    void operator()(redisContext* context) const;
  };
  std::unique_ptr<redisContext, Free> context_;
};

// A new temporary folder. The destructor removes it with its contents.
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
  // `settings`: further words of the server's command line.
  explicit RedisServer(std::vector<std::string> settings = {});
  // A sentinel with this configuration file, which the sentinel writes to.
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
  // Ends the server; starts it again on the same port.
  void stop();
  void start();

 private:
  std::vector<std::string> words() const;
  // For this server alone: a replica leaves a file there, which the next server in that folder
  // would load.
  ScratchFolder folder_;
  const std::vector<std::string> settings_;
  const std::string sentinel_;
  uint16_t port_ = 0;
  std::unique_ptr<Process> process_;
};

}  // namespace sluice::tests
