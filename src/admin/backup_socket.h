// A running server's ear for `sluice store backup`: a socket in the store's directory that only its
// owner can open. One line in, `backup TARGET`, one line out, `ok` or `error WHY`; one client at a
// time, served by a thread of its own. Owned by the owner of the store that it copies.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "base/result.h"

namespace sluice::admin {

// DIR/sluice.sock
std::string backup_socket_path(const std::string& dir);

class BackupSocket {
 public:
  // Makes the copy. Called by the socket's thread.
  using Backup = std::function<base::Done(const std::string& target)>;

  // The caller has the store's lock, so what is there of an earlier server is removed.
  static base::Result<std::unique_ptr<BackupSocket>> open(const std::string& dir, Backup backup);
  // Waits for the copy that is being made.
  ~BackupSocket();
  BackupSocket(const BackupSocket&) = delete;
  BackupSocket& operator=(const BackupSocket&) = delete;

 private:
  BackupSocket(std::string path, int listener, int wake, Backup backup);
  void run();
  void serve(int client);

  const std::string path_;
  const int listener_, wake_;
  const Backup backup_;
  std::thread thread_;
};

// The client's side.
enum class BackupAnswer : uint8_t {
  done,
  no_server,  // no server has the store
};
base::Result<BackupAnswer> ask_for_backup(const std::string& dir, const std::string& target);

}  // namespace sluice::admin
