// What the load generator and its floor (tools/load.cc, tools/floor.cc) say and understand of a
// protocol: a request that takes one unit of a key, where a reply ends and what it means, and the
// least that a server of the protocol does. Each folder defines `load` in a load.cc; the program
// does not link it; it speaks by the same messages as the session does. One thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace sluice::protocol {

enum class LoadOutcome { allowed, denied, error };

// What was read of what a server sends.
struct LoadRead {
  size_t bytes = 0;       // that are done with; 0: what is there is not whole
  bool is_reply = false;  // they end a reply; else they are something between replies
  LoadOutcome outcome = LoadOutcome::error;
  uint64_t request = 0;  // which one it answers of this connection's, from 0 on
};

// One connection of a client.
class LoadConnection {
 public:
  virtual ~LoadConnection() = default;

  // May so many requests be sent now? If not, then once more has been read.
  virtual bool has_room(size_t /*requests*/) const { return true; }
  // Appends a request, as LoadClient::append_request has made it, as this connection's next.
  virtual void append(std::string_view request, std::string& out) { out += request; }
  // Reads what `text` begins with, and appends what must be sent in return.
  virtual LoadRead read(std::string_view text, std::string& out) = 0;
};

class LoadClient {
 public:
  virtual ~LoadClient() = default;

  // What opens a connection; empty where connections begin with a request. And what must be in the
  // head that answers it, which ends with an empty line; empty: no head is awaited.
  virtual std::string_view greeting() const { return {}; }
  virtual std::string_view welcome() const { return {}; }

  // Appends a request. A key has at most 32 bytes.
  virtual void append_request(std::string_view key, std::string& out) = 0;

  // A connection that has been opened. The client outlives it.
  virtual std::unique_ptr<LoadConnection> connect() const = 0;
};

// Of a protocol whose requests depend on nothing but the key, and whose replies come in their
// order, which sluice keeps for requests that it answers at once.
class OrderedLoadClient : public LoadClient {
 public:
  // The size of the reply that `text` begins with, and what it says; 0: its end has not come.
  virtual size_t read_reply(std::string_view text, LoadOutcome& outcome) const = 0;

  std::unique_ptr<LoadConnection> connect() const final {
    return std::make_unique<Connection>(*this);
  }

 private:
  class Connection final : public LoadConnection {
   public:
    explicit Connection(const OrderedLoadClient& client) : client_(client) {}

    LoadRead read(std::string_view text, std::string&) override {
      LoadRead read;
      read.bytes = client_.read_reply(text, read.outcome);
      read.is_reply = read.bytes > 0;
      if (read.is_reply) read.request = replies_++;
      return read;
    }

   private:
    const OrderedLoadClient& client_;
    uint64_t replies_ = 0;
  };
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

struct LoadVariant;

struct Load {
  std::unique_ptr<LoadClient> (*make_client)();
  // Of a server that reads nothing but the framing, and gives each request the same reply: granted,
  // as long as sluice's own. Null where replies differ by the connection: there is no such server.
  LoadRequests (*count_requests)(std::string_view text) = nullptr;
  std::string_view reply{};
  std::string_view greeting_reply{};  // to the head that opens a connection; empty: there is none
  std::span<const LoadVariant> variants{};  // other kinds of requests: PROTOCOL/NAME
};

struct LoadVariant {
  std::string_view name;
  Load load;
};

}  // namespace sluice::protocol
