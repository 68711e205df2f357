// A sluice that serves Divvy's protocol on a free port, listening when the constructor returns. One
// that still runs when it is destroyed has to end cleanly on SIGTERM. The thread that makes it
// outlives it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "tests/support/process.h"
#include "tests/support/tcp_client.h"

namespace sluice::tests {

// A new folder, removed with all that is in it at the end.
class Folder {
 public:
  Folder();
  ~Folder();
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;

  // Writes a file, and makes the folders that its name has, and returns its path.
  std::string write(const std::string& name, std::string_view text) const;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

class DivvyServer {
 public:
  // With the whole command line, as {"serve", "--listen", "divvy=[::]:0"}. Where nothing else is
  // said, the environment has PORT=0 and the log holds warnings only.
  explicit DivvyServer(Process::Options options);
  // `sluice divvy` with a policy of the test's own. `file`: its name, which says its format;
  // `options`: what is added to the command line and the environment.
  DivvyServer(const std::string& file, std::string_view policy, Process::Options options = {});
  ~DivvyServer();

  uint16_t port() const { return port_; }
  Process& process() { return *process_; }
  // Throws when it is refused.
  TcpClient client(const std::string& host = "127.0.0.1") const;

 private:
  void start(Process::Options options);

  Folder folder_;
  std::unique_ptr<Process> process_;
  uint16_t port_ = 0;
};

// Reads lines of standard output until the one that says where `protocol` listens. Throws when the
// process ends before.
uint16_t await_listening(Process& process, const std::string& protocol = "divvy");

}  // namespace sluice::tests
