// Answers that are kept by their Idempotency-Key (draft-ietf-httpapi-idempotency-key-header), so
// that a request that is sent again is answered again and charges once. In memory, one for the
// server, forgotten when it ends. Thread-safe: workers hold a lock for a lookup alone.
//
//   life      An entry is begun, then finished with an answer or forgotten. From `finish` on it is
//             kept for the time to live; answers from it do not prolong that. Nothing is evicted
//             before its time: when all is in use a new key is refused.
//   bytes     An entry counts idempotent_entry_bytes, and its answer's; idempotent_answer_bytes_max
//             until it has one. What has expired is dropped by later calls of `begin`, some at a
//             time, and counts until then; none is refused on its account.
//   hashes    User, key and request are known by keyed hashes of 128 bits (SipHash-2-4 with a key
//             drawn at random for each memory); equal hashes are taken for equal texts.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "base/time.h"

namespace sluice::http {

// What is kept of an answer; past it the request must be refused before it is decided.
inline constexpr size_t idempotent_answer_bytes_max = 4096;
inline constexpr size_t idempotency_key_bytes_max = 255;
// What an entry takes beside its answer: its hashes, links and places in tables, its user's record.
inline constexpr size_t idempotent_entry_bytes = 384;
// What a new key takes until it has its answer. Where the bound of bytes, or a user's part of it,
// is smaller, no key is ever taken.
inline constexpr size_t idempotent_begun_bytes =
    idempotent_entry_bytes + idempotent_answer_bytes_max;

// The key of a field's value: a string of structured fields (RFC 9651, 3.3.3), whose parameters are
// ignored, or the text itself without quotes; 1 to 255 printable characters of ASCII. In `to`,
// which is cleared. False: it is none.
bool parse_idempotency_key(std::string_view value, std::string& to);

class IdempotencyMemory {
 public:
  struct Bounds {
    base::Duration ttl = base::seconds(60);
    size_t bytes = size_t{64} << 20;
    size_t user_part = 8;  // one user may use the bytes divided by this; 0 counts as 1
  };
  // Names an entry that was begun; 0: none. Not used again.
  using Ticket = uint64_t;
  enum class Found : uint8_t {
    begun,      // it is new: execute it, then `finish` or `forget` its ticket
    kept,       // `answer` is what was answered
    under_way,  // the first one has no answer yet
    reused,     // the key was used with another request
    full,       // there is no room for a new one: `retry_after`
  };
  struct Result {
    Found found = Found::full;
    Ticket ticket = 0;
    // Until enough of what is kept expires, 1 ms at least; where that is not enough, because of
    // what is under way, 1 s.
    base::Duration retry_after{};
  };

  explicit IdempotencyMemory(const Bounds& bounds);
  ~IdempotencyMemory();
  IdempotencyMemory(const IdempotencyMemory&) = delete;
  IdempotencyMemory& operator=(const IdempotencyMemory&) = delete;

  // `request`: method, path and body, put together by the caller as three texts. Both key and
  // request are compared by a keyed hash of 128 bits. `user`: empty where the server has none, so
  // that all keys are of one, which may use all bytes. `now`: monotonic. `answer` is set where it
  // is kept: the bytes given to `finish`.
  Result begin(std::string_view user, std::string_view key, std::array<std::string_view, 3> request,
               base::Time now, std::string& answer);
  // The answer, kept for the time to live from `now` on. Of one that is longer than
  // idempotent_answer_bytes_max, for which there is no room, an empty text is kept in its place.
  void finish(Ticket ticket, std::string_view answer, base::Time now);
  // It was not executed, or its answer is not one to keep: the key is as new.
  void forget(Ticket ticket);
  // Neither does anything with the ticket of what was finished or forgotten before.

  struct Held {
    size_t entries = 0, bytes = 0;
    size_t users = 0;  // that have an entry
  };
  // What counts at the moment.
  Held held() const;

 private:
  struct State;
  const std::unique_ptr<State> state_;
};

}  // namespace sluice::http
