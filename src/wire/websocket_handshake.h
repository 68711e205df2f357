// The opening of a WebSocket connection (RFC 6455, 4): a client's request head out, or one HTTP/1.x
// request head in and what to answer out. Plain functions over bytes without state; any thread.
// Path, Host and Origin are ignored, extensions and subprotocols are declined by silence.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/buffer.h"

namespace sluice::wire {

struct WebsocketHandshake {
  enum class Kind : uint8_t {
    incomplete,  // more bytes are needed
    upgrade,     // to be answered with `accept`; frames follow behind `bytes`
    plain,       // a request that wants no WebSocket
    refused,     // to be answered with `status` and `why`
  };
  Kind kind = Kind::incomplete;
  bool head_only = false;       // plain: a HEAD request, whose answer has no body
  uint16_t status = 0;          // refused: 400, 426 or 431
  size_t bytes = 0;             // upgrade: of the request's head
  std::string_view why;         // refused: a literal for the client
  std::array<char, 28> accept;  // upgrade: the value of Sec-WebSocket-Accept
};

// Looks at the front of `in`, all that has arrived. However the bytes are cut, the answer that is
// not `incomplete` is the same.
WebsocketHandshake read_websocket_handshake(std::string_view in);

// Appends what a client opens with. `key`: 16 bytes of its choice in base64.
void append_websocket_upgrade(std::string_view host, std::string_view key, base::Buffer& out);

// Appends the 101 with a WebsocketHandshake's `accept`.
void append_switching_protocols(std::string_view accept, base::Buffer& out);

// Appends a whole response with a line of text, after which the connection closes. `status`: 200,
// 400, 426, 431 or 503.
void append_http_text(uint16_t status, std::string_view text, bool head_only, base::Buffer& out);

}  // namespace sluice::wire
