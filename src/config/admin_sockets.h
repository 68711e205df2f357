// Where servers without an admin port of their own make its UNIX socket, and where commands look
// for it: `sluice-PID.sock` in the first folder that can be used of $RUNTIME_DIRECTORY,
// $XDG_RUNTIME_DIR, /run/sluice, /tmp/sluice-UID and the folder of the counters. Main thread.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "base/result.h"
#include "config/command_io.h"
#include "config/config.h"

namespace sluice::config {

// The paths of UNIX sockets where servers on this machine may have their admin ports: those that
// exist in these folders; of the folders of counters, in $SLUICE_DATA. A folder that another user
// could have made is not looked at.
std::vector<std::string> admin_sockets(const CommandIo& io);
// The folders that are looked at, for messages.
std::vector<std::string> admin_socket_folders(const CommandIo& io);

// The paths where this process would have its admin socket, the first that can be used. Empty: it
// has none, because another place was set, or `off`.
std::vector<std::string> admin_socket_paths(const Config& config, const CommandIo& io);

// The first of these paths whose folder can be used; "": there are none. Makes the folder where
// that is the server's to make, for its own user alone, and removes sockets in it that killed
// servers left. A problem: no folder can be used.
base::Result<std::string> make_admin_socket_place(const Config& config, const CommandIo& io);

// Is `path` a folder, not a link to one, that only `user` may change, and that others cannot
// replace?
base::Done check_private_folder(const std::string& path, uid_t user);

}  // namespace sluice::config
