// The session of droplet's protocol (docs/droplet-protocol.md): each WebSocket message is one
// protobuf request or response. One for each connection, owned by it and used by its thread. Before
// the handshake it holds no memory; after it the WebSocket reader, a few KiB, and between `receive`
// and the last outstanding reply the unmasked requests.
//
// The session itself writes the handshake's answer and pongs, the latter in their order among the
// replies. Views in requests point into the session; they are valid until the next `receive`, and
// end with the last outstanding reply.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "request/session.h"
#include "wire/websocket.h"

namespace sluice::droplet {

class DropletSession final : public request::Session {
 public:
  // A message becomes a take, or for a query a peek without cost and limits. The request has one
  // entry, `bucket`; its tag is the message's id, cut to the maximum size of a tag. Incomplete
  // frames are not consumed. After the close was announced everything is consumed and ignored.
  request::Received receive(std::string_view in, bool end, request::Requests& requests,
                            base::Buffer& out) override;

  // Always returns true. An error is sent as a refusal without periods, because the protocol cannot
  // express it.
  bool reply(const request::Request& request, const request::Verdict& verdict, base::Time now,
             base::Buffer& out) override;
  request::SessionState state() const override {
    return {.unfinished_bytes = frames_ == nullptr ? 0 : frames_->unfinished_bytes()};
  }
  request::Fault fault() const override { return {fault_, reason_}; }

  // Appends the announced Close frame, or the answer to a request that is not a handshake. If no
  // close was announced: at a refusal 503 before the handshake, Close 1013 after it; when the
  // server stops Close 1001 after the handshake.
  void end(request::Ending ending, std::string_view why, base::Buffer& out) override;

  // Bytes of memory besides the object itself. They grow only with unanswered requests and with an
  // incomplete message.
  size_t held_bytes() const { return frames_ == nullptr ? 0 : frames_->held_bytes(); }

 private:
  //   from   to      when
  //   head   open    a handshake is complete; its answer is written
  //   head   closed  another or a bad request, or `end`: an HTTP answer ends it
  //   open   closed  the peer's Close, a breach of the protocol, or `end`: a Close frame ends it
  //
  // head: reads the request head. open: reads frames. closed: ignores all input.
  enum class Phase : uint8_t { head, open, closed };

  request::Received receive_head(std::string_view in, base::Buffer& out);
  bool ask(std::string_view message, request::Requests& requests);
  request::Received close(uint16_t code, std::string_view reason, size_t consumed);

  std::unique_ptr<wire::WebsocketReader> frames_;  // null before the handshake
  size_t owed_ = 0;                                // requests that have no reply yet
  std::string reason_;                             // of the close; a copy, as views end before
  uint16_t status_ = 0;  // of the close: a Close code or an HTTP status; 0: it has none
  std::string_view fault_{};
  bool head_only_ = false;  // the HTTP answer is to a HEAD request
  Phase phase_ = Phase::head;
  bool pongs_ = false;  // `pong_` must be sent after the last outstanding reply
  std::string pong_;    // the payload of the ping, at most 125 bytes
};

}  // namespace sluice::droplet
