// The connections that speak this protocol, as CLIENT LIST tells of them, which of them wait, and
// where their SCANs are.
// One for the server, shared by its sessions; any thread. A session enters what it is as it
// changes, not with each command.
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

// What CLIENT LIST tells of one connection.
struct ClientFacts {
  std::string address, name, library, library_version, user;
  uint32_t database = 0;
  int version = 2;                    // of the protocol
  std::optional<base::Time> since{};  // of its first reply
};
// As a line of CLIENT LIST, with its end.
std::string client_line(int64_t id, const ClientFacts& facts, base::Time now);

class Clients {
 public:
  // How a wait was ended by another client.
  enum class Ended : uint8_t { no, timeout, error };

  // A new connection's number: unique, and rising.
  int64_t add();
  void remove(int64_t id);
  void set(int64_t id, const ClientFacts& facts);
  // All lines, in the order of the numbers.
  std::string lines(base::Time now) const;

  // Where a SCAN goes on, for a number that its client brings back, on whatever connection; of the
  // last scans_max of them.
  struct Place {
    std::string from, after;
  };
  static constexpr size_t scans_max = 1024;
  uint64_t keep(Place place);
  std::optional<Place> find(uint64_t cursor) const;

  // The client begins to wait. False: as many as `waiting_max` do.
  bool begin_wait(int64_t id, size_t waiting_max);
  // It waits no longer. Returns whether another client ended its wait.
  Ended end_wait(int64_t id);
  // Has another client ended the wait of this one?
  bool is_ended(int64_t id) const;
  // Ends the wait of a client; only of that user, unless `any`. False: it is none that waits.
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
