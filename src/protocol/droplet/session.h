// droplet's protocol (docs/droplet-protocol.md): one protobuf request a WebSocket message in, one
// response a message out. One per connection, owned by it, used by its thread. Before the handshake
// it keeps nothing; after it the WebSocket reader, a few KiB, and between `receive` and the last
// reply owed the unmasked requests.
//
// The handshake's answer and pongs are not requests: the session writes them, pongs in their turn
// among the replies. Views in requests point into the session; they live until the next `receive`
// and also end with the reply to the last request that is owed one.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "request/session.h"
#include "wire/websocket_frames.h"

namespace sluice::droplet {

class DropletSession final : public request::Session {
 public:
  // A message becomes a take, or a peek without cost and limits; its descriptor is one entry
  // `bucket`, its tag the request's id, as much of it as a tag may have. Frames that have not
  // arrived whole are left in `in`. Once closing, everything is consumed and nothing is asked.
  request::Received receive(std::string_view in, bool end, request::Requests& requests,
                            base::Buffer& out) override;

  // Always true: an error is a refusal without periods, as the protocol has no word for it.
  bool reply(const request::Request& request, const request::Verdict& verdict, base::Time now,
             base::Buffer& out) override;
  std::string_view fault() const override { return fault_; }
  size_t unfinished_bytes() const override {
    return frames_ == nullptr ? 0 : frames_->unfinished_bytes();
  }
  std::string_view id_of(const request::Request& request) const override;

  // The Close frame, or the answer to what was not a handshake.
  void farewell(base::Buffer& out) override;

  // 503 before the handshake, Close 1013 after it; nothing when the farewell is due or was given.
  void refuse(std::string_view why, base::Buffer& out) override;

  // Close 1001 after the handshake. Nothing before it, nor when the farewell is due or was given.
  void goodbye(base::Buffer& out) override;

  // Memory beyond the object itself and wslay's 4 KiB: grows only with unanswered requests and with
  // a message of which fragments are missing.
  size_t held_bytes() const { return frames_ == nullptr ? 0 : frames_->held_bytes(); }

 private:
  enum class Phase : uint8_t { head, open, closed };

  request::Received receive_head(std::string_view in, base::Buffer& out);
  bool ask(std::string_view message, request::Requests& requests);
  request::Received close(uint16_t code, std::string_view reason, size_t consumed);

  std::unique_ptr<wire::WebsocketReader> frames_;  // since the handshake
  size_t owed_ = 0;                                // requests without a reply yet
  std::string reason_;                             // of the farewell; views end before it is given
  uint16_t status_ = 0;  // of the farewell: a Close code, or that of HTTP; 0: nothing to say
  std::string_view fault_{};
  bool head_only_ = false;  // of an HTTP farewell
  Phase phase_ = Phase::head;
  bool pongs_ = false;  // `pong_` is owed behind the last reply owed
  std::string pong_;    // what the ping carried, at most 125 bytes
};

}  // namespace sluice::droplet
