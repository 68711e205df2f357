// The user who sends the requests of a connection, from the field Authorization, if the server has
// users. A password is checked once for each connection, by another thread than the workers, and
// again after the list of users has changed. One for each session, used by its thread.
//
//   Basic   base64 of NAME:PASSWORD (RFC 7617)
//   Bearer  the same, or NAME:PASSWORD itself (RFC 6750)
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
  // The most credentials that are remembered for a connection; beyond it those that were not used
  // for the longest time are forgotten.
  static constexpr size_t remembered_max = 8;

  // `peer` outlives this object.
  explicit Client(const request::Peer& peer);

  enum class Known : uint8_t {
    yes,      // the user is `identity()`, or the server has no users
    no,       // the server has users, and the credentials are not those of one of them
    busy,     // too many passwords are being checked
    unknown,  // call `ask`, pass the verdict to `learn`, then call `know` again
  };
  Known know(std::string_view authorization);
  // Adds a request with the verb `log_in` and the note. One at a time.
  void ask(uint32_t note, request::Requests& requests);
  void learn(const request::Verdict& verdict);
  bool is_asking() const { return asking_; }

  const access::Identity& identity() const { return identity_; }
  // Whether the server has users now, so that only a login proves the client's name.
  bool needs_login() {
    identity_.refresh();
    return identity_.is_needed();
  }

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
  uint64_t version_ = 0;          // the version of the list of users for `checked_`
  std::vector<Checked> checked_;  // the last element was used last
  // The credentials that are being checked, or could not be checked.
  Digest digest_{};
  std::string user_, password_;
  bool asking_ = false, busy_ = false;
};

}  // namespace sluice::http
