// A protocol for the load generator and its floor (tools/load.cc, tools/floor.cc): how to write a
// request for one unit of a key, find the end of a reply and its meaning, and answer with the least
// work that a server of the protocol can do. Each folder defines `load` in a load.cc, with the same
// messages as its session; the program does not link it. One thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace sluice::protocol {

enum class LoadOutcome { allowed, denied, error };

// The result of reading a server's bytes.
struct LoadRead {
  size_t bytes = 0;       // that were consumed; 0: more bytes are needed
  bool is_reply = false;  // they end a reply; false: they are between replies
  LoadOutcome outcome = LoadOutcome::error;
  uint64_t request = 0;  // the index of the connection's request that it answers
};

// A client's connection.
class LoadConnection {
 public:
  virtual ~LoadConnection() = default;

  // May so many requests be sent now? If not, the caller asks again after it has read more.
  virtual bool has_room(size_t /*requests*/) const { return true; }
  // Appends a request of LoadClient::append_request, in the form for this connection.
  virtual void append(std::string_view request, std::string& out) { out += request; }
  // Reads from the front of `text`, and appends bytes that must be sent in return to `out`.
  virtual LoadRead read(std::string_view text, std::string& out) = 0;
};

class LoadClient {
 public:
  virtual ~LoadClient() = default;

  // The bytes that open a connection; empty: it begins with a request. And a text that the head of
  // the answer must contain, which ends with an empty line; empty: there is no such head.
  virtual std::string_view greeting() const { return {}; }
  virtual std::string_view welcome() const { return {}; }

  // Appends a request. A key has at most 32 bytes.
  virtual void append_request(std::string_view key, std::string& out) = 0;

  // Makes the state of an open connection. The client outlives it.
  virtual std::unique_ptr<LoadConnection> connect() const = 0;
};

// For a protocol whose requests depend only on the key, and whose replies have the order of the
// requests (sluice keeps it for requests that it answers at once).
class OrderedLoadClient : public LoadClient {
 public:
  // The size of the reply at the front of `text`, and its meaning; 0: bytes are missing.
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

// The complete requests at the beginning of a text.
struct LoadRequests {
  size_t count = 0;
  size_t bytes = 0;  // of all of them; the rest is the beginning of another request
};

// Counts frames. `frame_bytes` returns the size of the frame at the front of a text; 0: a part of
// its header is missing.
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
  // For the floor, a server that reads only the framing and gives each request the same reply:
  // granted, of the same size as sluice's. Null: replies depend on the connection, so there is no
  // floor.
  LoadRequests (*count_requests)(std::string_view text) = nullptr;
  std::string_view reply{};
  std::string_view greeting_reply{};        // the answer to `greeting`; empty: there is none
  std::span<const LoadVariant> variants{};  // other kinds of requests: PROTOCOL/NAME
};

struct LoadVariant {
  std::string_view name;
  Load load;
};

}  // namespace sluice::protocol
