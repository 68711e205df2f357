// Answers that are kept by their Idempotency-Key (draft-ietf-httpapi-idempotency-key-header), so
// that a request that is repeated gets the same answer and is charged once. In memory; one object
// for the server, lost when it ends. Thread-safe: workers hold a lock only for a lookup.
//
//   state     from        to          when
//             (none)      under way   `begin` with a new key
//             under way   kept        `finish` with the answer
//             under way   (none)      `forget`
//             kept        (none)      the time to live after `finish` has passed; repeated requests
//                                     do not prolong it
//             No entry is evicted earlier: if there is no room, a new key is refused.
//   bytes     An entry counts idempotent_entry_bytes and the bytes of its answer;
//             idempotent_answer_bytes_max until it has one. Later calls of `begin` drop expired
//             entries, some at a time. They count until then, but no key is refused because of
//             them.
//   hashes    User, key and request are compared by keyed hashes of 128 bits (SipHash-2-4 with a
//             random key for each object); equal hashes count as equal texts.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "base/time.h"

namespace sluice::http {

// The most bytes of an answer that are kept. If an answer may be longer, the request must be
// refused before it is decided.
inline constexpr size_t idempotent_answer_bytes_max = 4096;
inline constexpr size_t idempotency_key_bytes_max = 255;
// The bytes that an entry takes besides its answer: hashes, links, places in tables, the user's
// record.
inline constexpr size_t idempotent_entry_bytes = 384;
// The bytes that a new key takes until it has its answer. If the bound of bytes, or a user's part
// of it, is smaller, every key is refused.
inline constexpr size_t idempotent_begun_bytes =
    idempotent_entry_bytes + idempotent_answer_bytes_max;

// Reads the key of a field's value into `to`: a string of structured fields (RFC 9651, 3.3.3),
// whose parameters are ignored, or a text without quotes; 1 to 255 printable ASCII characters.
// False: the value is not a key.
bool parse_idempotency_key(std::string_view value, std::string& to);

class IdempotencyMemory {
 public:
  struct Bounds {
    base::Duration ttl = base::seconds(60);
    size_t bytes = size_t{64} << 20;
    size_t user_part = 8;  // a user may use the bytes divided by this; 0 counts as 1
  };
  // The name of an entry that was begun; 0: none. A ticket is never used again.
  using Ticket = uint64_t;
  enum class Found : uint8_t {
    begun,      // the key is new: execute the request, then call `finish` or `forget`
    kept,       // `answer` is the answer of the first request
    under_way,  // the first request has no answer yet
    reused,     // the key was used with another request
    full,       // there is no room for a new key: see `retry_after`
  };
  struct Result {
    Found found = Found::full;
    Ticket ticket = 0;
    // The time until enough entries expire, at least 1 ms; if entries under way take the room, 1 s.
    base::Duration retry_after{};
  };

  explicit IdempotencyMemory(const Bounds& bounds);
  ~IdempotencyMemory();
  IdempotencyMemory(const IdempotencyMemory&) = delete;
  IdempotencyMemory& operator=(const IdempotencyMemory&) = delete;

  // Looks up a key. `request`: method, path and body. `user`: empty if the server has no users;
  // then all keys belong to one user, which may use all bytes. `now`: monotonic. `answer`: set if
  // the result is `kept`, to the bytes that were given to `finish`.
  Result begin(std::string_view user, std::string_view key, std::array<std::string_view, 3> request,
               base::Time now, std::string& answer);
  // Keeps the answer for the time to live from `now` on. In place of an answer longer than
  // idempotent_answer_bytes_max an empty text is kept.
  void finish(Ticket ticket, std::string_view answer, base::Time now);
  // Forgets the key, because the request was not executed, or its answer must not be kept.
  void forget(Ticket ticket);
  // `finish` and `forget` ignore a ticket that was finished or forgotten before.

  struct Held {
    size_t entries = 0, bytes = 0;
    size_t users = 0;  // with at least one entry
  };
  // The current counts.
  Held held() const;

 private:
  struct State;
  const std::unique_ptr<State> state_;
};

}  // namespace sluice::http
