// What a worker's connections send at the end of a turn of its loop, one write for each: their
// clients then wake once the worker has decided what all of them asked, so that they do not run in
// turns with it for each reply. Belongs to the worker, and is used on its thread.
#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

#include "base/buffer.h"

namespace sluice::server {

class Connection;

class GatheredOutput {
 public:
  // Connections, and bytes, after which it is sent: the first reply must not wait for long.
  static constexpr size_t connections_max = 64;
  static constexpr size_t bytes_max = size_t{64} << 10;

  // Adds a copy of `text` behind what the connection has here, and closes none.
  void add(Connection& connection, std::string_view text);
  // Hands what one connection has here, or all of it, to `send_gathered`, each connection's in the
  // order in which it was added. A connection does so before it writes otherwise, and before it
  // closes. One that cannot take its output may have others closed.
  void send(Connection& connection);
  void send_all();
  void send_if_full();
  // It is gone.
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
