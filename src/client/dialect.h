// What the client needs of a protocol: how a request is written, how replies are read, and when a
// lost connection is tried again. A protocol's folder defines one such dialect; the core
// (client/core.h) knows no protocol. Nothing here does input or output, or reads a clock.
#pragma once

#include <sluice/client.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/buffer.h"
#include "base/result.h"
#include "base/time.h"

namespace sluice::calls {

// A request that owns its bytes, for what is decided after its caller has gone on. Immutable.

class OwnedRequest {
 public:
  explicit OwnedRequest(const client_request& request) : request_(request) {
    own(request_.subject);
    own(request_.id);
    own(request_.holder);
    for (client_subject& one : request_.several) own(one);
    for (std::string_view& word : request_.words) own(word);
  }
  OwnedRequest(const OwnedRequest&) = delete;
  OwnedRequest& operator=(const OwnedRequest&) = delete;

  const client_request& request() const { return request_; }

 private:
  void own(std::string_view& text) { text = texts_.emplace_back(text); }
  void own(client_subject& subject) {
    own(subject.type);
    own(subject.key);
    for (client_entry& entry : subject.entries) {
      own(entry.key);
      own(entry.value);
    }
  }

  client_request request_;
  std::deque<std::string> texts_;  // which stay where they are
};

// One host of an address.
struct Target {
  std::string host;  // without brackets
  uint16_t port = 0;
  std::string user, token;  // decoded
  std::string name;         // "127.0.0.1:8321", "[::1]:8321"
};

// What a reply answers.
struct Expected {
  client_verb verb = client_verb::take;
  bool each = false;
  uint32_t several = 0;  // subjects; 0: one that is not in a list
};

// Where a codec puts the replies that it reads.
class Replies {
 public:
  virtual ~Replies() = default;
  // Dialects that answer in order: the oldest request without a reply; null: there is none.
  virtual const Expected* oldest() = 0;
  virtual void answer_oldest(client_result&& result) = 0;
  // Others: null where no call under way has this id.
  virtual const Expected* find(uint64_t id) = 0;
  virtual void answer(uint64_t id, client_result&& result) = 0;
};

// How much of the input was read, and what is wrong with it. After a problem the connection is
// closed.
struct CodecRead {
  size_t consumed = 0;
  // Of the calls that have no reply yet. `refused` before the codec is open: the server does not
  // accept the token, and is tried again at a later call alone.
  client_errc error = client_errc::none;
  std::string problem{};  // for people; empty: nothing is wrong
};

// The state of one connection. Reads what a peer sends, whatever that is.
class Codec {
 public:
  virtual ~Codec() = default;
  // Appends what the connection begins with.
  virtual void open(base::Buffer& /*out*/) {}
  // May requests be sent? Not before a handshake is done.
  virtual bool is_open() const { return true; }
  // Reads from the front of `in`, all that was not consumed. May append to `out`.
  virtual CodecRead read(std::string_view in, Replies& replies, base::Buffer& out) = 0;
  // Appends what a connection ends with in peace.
  virtual void goodbye(base::Buffer& /*out*/) {}
};

// What encoding a request may use.
struct EncodeContext {
  const Target& target;
  uint64_t id = 0;       // of the call, not 0
  uint32_t entropy = 0;  // fresh for each request
  std::vector<std::string_view>& words;
  std::string& text;
};

// When a connection that failed or was lost is tried again.
struct Reconnect {
  enum class Growth : uint8_t { none, exponential, fibonacci };
  enum class GivenUp : uint8_t {
    never_gives_up,
    until_the_next_call,
    for_ever,
  };
  base::Duration first{};  // wait
  base::Duration longest{};
  Growth growth = Growth::none;
  double factor = 1;         // of exponential growth; a wait is a whole number of milliseconds
  bool grows_first = false;  // the first wait has grown already
  bool spread = false;       // each wait is drawn between its half and the whole of it
  unsigned tries = 0;        // in a row, behind the one that failed or the loss
  GivenUp given_up = GivenUp::never_gives_up;
};

// What becomes of requests while a host is not connected.
struct WhileAway {
  bool queue_while_waiting = false;     // else a call fails at once between two tries
  bool keep_on_failed_attempt = false;  // else what is queued fails with the attempt
};

// Which host a subject belongs to. Constant; any thread.
class Sharder {
 public:
  virtual ~Sharder() = default;
  virtual size_t shard_of(std::string_view type, std::string_view key) const = 0;
};

struct Dialect {
  std::span<const std::string_view> schemes;
  uint16_t port = 0;
  base::Duration timeout{};
  bool waits_have_timeout = true;  // else a wait has one only where the caller says so
  size_t pending_max = 1'000'000;
  // Of a connection: past it, requests wait in the queue until the socket has taken some.
  size_t output_bytes_max = size_t{1} << 20;
  bool in_order = true;           // replies come in the order of requests
  bool wait_blocks = false;       // a wait holds up what follows on its connection
  bool connects_at_once = false;  // not with the first call
  bool has_users = false;         // an address may name a user
  bool has_silent = false;        // a request may ask for no answer
  Reconnect reconnect{};
  WhileAway away{};
  std::unique_ptr<Codec> (*make_codec)(const Target& target) = nullptr;
  // Appends the request's bytes. A problem: the protocol cannot express the request, and `out` is
  // unchanged.
  base::Done (*encode)(const client_request& request, EncodeContext& context,
                       base::Buffer& out) = nullptr;
  std::unique_ptr<Sharder> (*make_sharder)(std::span<const Target> hosts) = nullptr;
};

// Those of all protocols, and the one of a scheme; null: there is none. Defined beside the list of
// protocols.
std::span<const Dialect* const> all_dialects();
const Dialect* find_dialect(std::string_view scheme);

}  // namespace sluice::calls
