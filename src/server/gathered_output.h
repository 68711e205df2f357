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
  // Connections, and bytes, after which it is sent at once: the first reply must not wait for long.
  static constexpr size_t connections_max = 64;
  static constexpr size_t bytes_max = size_t{64} << 10;

  // Adds a copy of `text` behind what the connection has here. It is told by `send_gathered`, once
  // for each run of it.
  void add(Connection& connection, std::string_view text);
  // Sends what one connection has here, or all of it, each connection's in the order in which it
  // was added. A connection does so before it writes otherwise, and before it closes.
  void send(Connection& connection);
  void send_all();

 private:
  struct Run {
    Connection* connection;  // null: it is sent
    size_t at, size;
  };
  void send(Run& run);

  base::Buffer texts_;
  std::vector<Run> runs_;
};

}  // namespace sluice::server
