// A sluice server for Divvy's protocol on a free port; it listens when the constructor returns. If
// it still runs, the destructor sends SIGTERM and expects a clean exit. The thread that makes a
// server must outlive it (process.h).
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "tests/support/process.h"
#include "tests/support/tcp_client.h"

namespace sluice::tests {

// A new temporary folder. The destructor removes it with its contents.
class Folder {
 public:
  Folder();
  ~Folder();
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;

  // Writes a file, after making the folders in its name, and returns its path.
  std::string write(const std::string& name, std::string_view text) const;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

class DivvyServer {
 public:
  // `options` have the whole command line, for example {"serve", "--listen", "divvy=[::]:0"}. By
  // default the environment has PORT=0, and only warnings are logged.
  explicit DivvyServer(Process::Options options);
  // `sluice divvy` with a policy file. `file`: the file's name, whose extension says the format;
  // `options`: additions to the command line and the environment.
  DivvyServer(const std::string& file, std::string_view policy, Process::Options options = {});
  ~DivvyServer();

  uint16_t port() const { return port_; }
  Process& process() { return *process_; }
  // Throws if the connection is refused.
  TcpClient client(const std::string& host = "127.0.0.1") const;

 private:
  void start(Process::Options options);

  Folder folder_;
  std::unique_ptr<Process> process_;
  uint16_t port_ = 0;
};

// Reads lines of standard output up to the one that says where `protocol` listens, and returns the
// port. Throws if the process ends before that.
uint16_t await_listening(Process& process, const std::string& protocol = "divvy");

}  // namespace sluice::tests
