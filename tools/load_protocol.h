// What load says and understands of each protocol: a request that takes one unit of a key, and
// where a reply ends and what it means. floor shares the constants, as its replies are fixed.
// One thread at a time.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

namespace sluice::tools {

// The same in every request: replies are matched by their order, which sluice keeps for requests
// that it answers at once.
inline constexpr std::string_view limitd_id = "1";

// The key and its answer in RFC 6455's example. With a key that never changes nobody here needs a
// SHA-1.
inline constexpr std::string_view websocket_key = "dGhlIHNhbXBsZSBub25jZQ==";
inline constexpr std::string_view websocket_accept = "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=";

enum class Outcome { allowed, denied, error };

class LoadProtocol {
 public:
  virtual ~LoadProtocol() = default;

  // What opens a connection, and what must be in the head that answers it; both empty where
  // connections begin with a request. The head ends with an empty line.
  virtual std::string_view greeting() const { return {}; }
  virtual std::string_view welcome() const { return {}; }

  // Appends a request. A key has at most 32 bytes.
  virtual void append_request(std::string_view key, std::string& out) = 0;

  // The size of the reply that `text` begins with, and what it says; 0: its end has not come.
  virtual size_t read_reply(std::string_view text, Outcome& outcome) const = 0;
};

// nullptr: there is none of that name.
std::unique_ptr<LoadProtocol> load_protocol(std::string_view name);

}  // namespace sluice::tools
