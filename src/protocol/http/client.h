// Who sends the requests of a connection: as Authorization says, where the server has users. A
// password is checked once for each connection, off the workers, as long as the list of users stays
// the same. One for each session, used by its thread.
//
//   Basic   base64 of NAME:PASSWORD (RFC 7617)
//   Bearer  the same, or NAME:PASSWORD as it stands (RFC 6750)
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "access/identity.h"
#include "request/peer.h"
#include "request/session.h"

namespace sluice::http {

class Client {
 public:
  // Credentials of a connection that are remembered; past it the ones that were used longest ago
  // are checked again.
  static constexpr size_t remembered_max = 8;

  // `peer` outlives it.
  explicit Client(const request::Peer& peer);

  enum class Known : uint8_t {
    yes,      // it is `identity()`, or need not be anybody
    no,       // there are users, and it is none of them
    busy,     // too many passwords are being checked
    unknown,  // `ask` first; the verdict goes to `learn`, and then `know` knows
  };
  Known know(std::string_view authorization);
  // Adds a request of the verb `log_in` with that note. One at a time.
  void ask(uint32_t note, request::Requests& requests);
  void learn(const request::Verdict& verdict);
  bool is_asking() const { return asking_; }

  const access::Identity& identity() const { return identity_; }

 private:
  using Digest = std::array<unsigned char, 32>;
  struct Checked {
    Digest digest;
    std::string user;
    bool right;
  };

  Known take(const Checked& checked);

  const request::Peer& peer_;
  access::Identity identity_;
  uint64_t version_ = 0;          // of the list of users that `checked_` is of
  std::vector<Checked> checked_;  // the one that was used last at the end
  // That are being checked, or could not be.
  Digest digest_{};
  std::string user_, password_;
  bool asking_ = false, busy_ = false;
};

}  // namespace sluice::http
