// Output of a worker's connections that is sent at the end of a turn of its loop, with one write
// for each connection. Clients on the same processors then wake after the worker has decided all of
// their requests, and do not interrupt it for each reply. Belongs to the worker, and is used on its
// thread.
#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

#include "base/buffer.h"

namespace sluice::server {

class Connection;

class GatheredOutput {
 public:
  // With so many connections or bytes the output is sent before the turn ends: the first reply must
  // not wait for long.
  static constexpr size_t connections_max = 64;
  static constexpr size_t bytes_max = size_t{64} << 10;

  // Appends a copy of `text` to the connection's output here. Closes no connection.
  void add(Connection& connection, std::string_view text);
  // Hands the output of one connection, or of all, to Connection::send_gathered, in the order in
  // which it was added. A connection calls this before it writes in another way, and before it
  // closes. A connection whose socket takes no output may cause others to be closed
  // (Worker::add_unsent).
  void send(Connection& connection);
  void send_all();
  void send_if_full();
  // The connection is gone: drops its output.
  void forget(const Connection& connection);

 private:
  struct Run {
    Connection* connection;  // null: it is gone
    size_t at, size;         // 0: it is sent
  };
  void send(Run& run);

  base::Buffer texts_;
  std::vector<Run> runs_;
};

}  // namespace sluice::server
