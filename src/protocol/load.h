// What the load generator and its floor (tools/load.cc, tools/floor.cc) say and understand of a
// protocol: a request that takes one unit of a key, where a reply ends and what it means, and the
// least that a server of the protocol does. Each folder defines `load` in a load.cc; the program
// does not link it; it speaks by the same messages as the session does. One thread at a time.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

namespace sluice::protocol {

enum class LoadOutcome { allowed, denied, error };

class LoadClient {
 public:
  virtual ~LoadClient() = default;

  // What opens a connection, and what must be in the head that answers it; both empty where
  // connections begin with a request. The head ends with an empty line.
  virtual std::string_view greeting() const { return {}; }
  virtual std::string_view welcome() const { return {}; }

  // Appends a request. A key has at most 32 bytes.
  virtual void append_request(std::string_view key, std::string& out) = 0;

  // The size of the reply that `text` begins with, and what it says; 0: its end has not come.
  // Replies are matched by their order, which sluice keeps for requests that it answers at once.
  virtual size_t read_reply(std::string_view text, LoadOutcome& outcome) const = 0;
};

// Complete requests at the beginning of a text.
struct LoadRequests {
  size_t count = 0;
  size_t bytes = 0;  // of all of them; what is left is the beginning of another
};

// Counts frames. `frame_bytes` has the size of the frame that a text begins with, 0 if its header
// is not all there.
template <class FrameBytes>
LoadRequests count_frames(std::string_view text, FrameBytes frame_bytes) {
  LoadRequests requests;
  for (;;) {
    const std::string_view rest = text.substr(requests.bytes);
    const size_t bytes = frame_bytes(rest);
    if (bytes == 0 || bytes > rest.size()) return requests;
    requests.bytes += bytes;
    ++requests.count;
  }
}

struct Load {
  std::unique_ptr<LoadClient> (*make_client)();
  // Of a server that reads nothing but the framing, and gives each request the same reply: granted,
  // as long as sluice's own.
  LoadRequests (*count_requests)(std::string_view text);
  std::string_view reply;
  std::string_view greeting_reply{};  // to the head that opens a connection; empty: there is none
};

}  // namespace sluice::protocol
