// A client of limitd's protocol for tests, by the messages of the program (the conformance vectors
// and protoc judge these); and a sluice that serves it on a free port. As TcpClient it waits for
// everything up to a deadline, and one thread uses it.
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
  std::string id;    // of field 1, or the number of field 20 behind a `#`
  std::string kind;  // error, take, put, status, pong, get
  bool conformant = false, delayed = false;
  int64_t remaining = 0, reset = 0, limit = 0;
  struct Item {
    std::string instance;
    int64_t remaining = 0, reset = 0, limit = 0;
  };
  std::vector<Item> items = {};
  std::string frame;  // as it came
};

// Throws on what is not a reply.
LimitdReply parse_limitd_reply(const std::string& frame);

class LimitdClient {
 public:
  explicit LimitdClient(TcpClient client) : tcp_(std::move(client)) {}

  bool send(std::string_view bytes) { return tcp_.send(bytes); }
  // Sends with an id of its own, which is returned.
  std::string send(const LimitdAsked& asked);
  // The reply to that id, whichever come before it are kept. Nothing: the connection ended, or it
  // did not come.
  std::optional<LimitdReply> await(const std::string& id, Deadline deadline = soon());
  // Throws where there is none.
  LimitdReply ask(const LimitdAsked& asked);
  LimitdReply take(const std::string& type, const std::string& key, int64_t count = 1) {
    return ask({LimitdMethod::take, type, key, count});
  }

  TcpClient& tcp() { return tcp_; }
  // Replies that came and were not awaited.
  size_t unclaimed() const { return kept_.size(); }

 private:
  TcpClient tcp_;
  std::multimap<std::string, LimitdReply> kept_;
  uint64_t last_id_ = 0;
};

class LimitdServer {
 public:
  // `sluice limitd` with a configuration of the test's own, called config.yml in `folder`; @DIR@
  // and @DB@ in it are the folder's path.
  explicit LimitdServer(std::string config, Process::Options options = {},
                        const std::map<std::string, std::string>& more_files = {});
  ~LimitdServer();

  uint16_t port() const { return port_; }
  Process& process() { return *process_; }
  const Folder& folder() const { return folder_; }
  std::string in_place(std::string text) const;
  LimitdClient client() const;
  // Stops it, cleanly, and starts another as it was started, on a port of its own.
  void restart();

 private:
  void start();
  Folder folder_;
  Process::Options options_;
  std::unique_ptr<Process> process_;
  uint16_t port_ = 0;
};

}  // namespace sluice::tests
