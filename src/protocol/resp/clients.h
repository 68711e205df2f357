// The connections of this protocol: their data for CLIENT LIST, which of them wait, and the
// positions of their SCANs. The server has one such object, which its sessions share; any thread. A
// session updates its data when they change, not with each command.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "base/time.h"

namespace sluice::resp {

// The data of one connection for CLIENT LIST.
struct ClientFacts {
  std::string address, name, library, library_version, user;
  uint32_t database = 0;
  int version = 2;                    // of the protocol
  std::optional<base::Time> since{};  // the time of its first reply
};
// The connection's line of CLIENT LIST, with its line end.
std::string client_line(int64_t id, const ClientFacts& facts, base::Time now);

class Clients {
 public:
  // How another client ended a wait.
  enum class Ended : uint8_t { no, timeout, error };

  // Adds a connection, and returns its number; numbers are unique and ascend.
  int64_t add();
  void remove(int64_t id);
  void set(int64_t id, const ClientFacts& facts);
  // All lines, in the order of the numbers.
  std::string lines(base::Time now) const;

  // The position at which a SCAN continues, found by its cursor, which the client may send on any
  // connection. The last scans_max positions are kept.
  struct Place {
    std::string from, after;
  };
  static constexpr size_t scans_max = 1024;
  uint64_t keep(Place place);
  std::optional<Place> find(uint64_t cursor) const;

  // The client begins to wait. False: `waiting_max` clients wait already.
  bool begin_wait(int64_t id, size_t waiting_max);
  // The client's wait has ended. Returns whether another client ended it, and how.
  Ended end_wait(int64_t id);
  // Has another client ended the wait of this one?
  bool is_ended(int64_t id) const;
  // Ends the wait of a client if it belongs to that user or `any` is true. False: there was no such
  // wait.
  bool unblock(int64_t id, Ended how, std::string_view user, bool any);

 private:
  struct Client {
    ClientFacts facts;
    bool waits = false;
    Ended ended = Ended::no;
  };

  mutable std::mutex mutex_;
  std::map<int64_t, Client> clients_;
  int64_t last_ = 0;
  size_t waiting_ = 0;
  std::map<uint64_t, Place> places_;
  uint64_t last_cursor_ = 0;
};

}  // namespace sluice::resp
