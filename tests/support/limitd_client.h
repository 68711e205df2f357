// A client of limitd's protocol for tests, and a sluice server for it on a free port. The client
// uses the program's own code for messages, which the conformance vectors and protoc check. Like
// TcpClient, it waits in each operation up to a deadline, and is used by one thread.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "protocol/limitd/message.h"
#include "tests/support/divvy_server.h"
#include "tests/support/tcp_client.h"

namespace sluice::tests {

using limitd::LimitdMethod;

struct LimitdAsked {
  LimitdMethod method = LimitdMethod::take;
  std::string type, key;
  std::optional<int64_t> count = {};
  bool all = false, silent = false;
};

// A whole frame.
std::string limitd_frame(const LimitdAsked& asked, const std::string& id);

struct LimitdReply {
  std::string id;    // field 1, or `#` and the number of field 20
  std::string kind;  // error, take, put, status, pong, get
  bool conformant = false, delayed = false;
  int64_t remaining = 0, reset = 0, limit = 0;
  struct Item {
    std::string instance;
    int64_t remaining = 0, reset = 0, limit = 0;
  };
  std::vector<Item> items = {};
  std::string frame;  // the bytes as they arrived
};

// Throws if `frame` is not a reply.
LimitdReply parse_limitd_reply(const std::string& frame);

class LimitdClient {
 public:
  explicit LimitdClient(TcpClient client) : tcp_(std::move(client)) {}

  bool send(std::string_view bytes) { return tcp_.send(bytes); }
  // Sends a request with a new id, which it returns.
  std::string send(const LimitdAsked& asked);
  // The reply with that id. Other replies that arrive before it are kept. Nothing: the connection
  // ended, or the reply did not arrive in time.
  std::optional<LimitdReply> await(const std::string& id, Deadline deadline = soon());
  // Throws if no reply arrives.
  LimitdReply ask(const LimitdAsked& asked);
  LimitdReply take(const std::string& type, const std::string& key, int64_t count = 1) {
    return ask({LimitdMethod::take, type, key, count});
  }

  TcpClient& tcp() { return tcp_; }
  // The number of replies that arrived and were not awaited.
  size_t unclaimed() const { return kept_.size(); }

 private:
  TcpClient tcp_;
  std::multimap<std::string, LimitdReply> kept_;
  uint64_t last_id_ = 0;
};

class LimitdServer {
 public:
  // `sluice limitd` with `config` as config.yml in `folder()`, beside `more_files` (names and
  // texts). In all of these texts @DIR@ and @DB@ stand for the folder's path.
  explicit LimitdServer(std::string config, Process::Options options = {},
                        const std::map<std::string, std::string>& more_files = {});
  ~LimitdServer();

  uint16_t port() const { return port_; }
  Process& process() { return *process_; }
  const Folder& folder() const { return folder_; }
  std::string in_place(std::string text) const;
  LimitdClient client() const;
  // Stops the server, which must end cleanly, and starts it again with the same options, on a new
  // port.
  void restart();

 private:
  void start();
  Folder folder_;
  Process::Options options_;
  std::unique_ptr<Process> process_;
  uint16_t port_ = 0;
};

}  // namespace sluice::tests
