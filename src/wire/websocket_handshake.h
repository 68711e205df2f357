// The opening handshake of WebSocket (RFC 6455, 4): writes a client's request; reads a request and
// tells the answer to it. Functions without state; any thread. Path, Host and Origin are ignored,
// and no extension or subprotocol is accepted.
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
    upgrade,     // answer with `accept`; frames follow after `bytes`
    plain,       // a request that does not ask for WebSocket
    refused,     // answer with `status` and `why`
  };
  Kind kind = Kind::incomplete;
  bool head_only = false;       // plain: a HEAD request, whose answer has no body
  uint16_t status = 0;          // refused: 400, 426 or 431
  size_t bytes = 0;             // upgrade: the size of the request's head
  std::string_view why;         // refused: a literal for the client
  std::array<char, 28> accept;  // upgrade: the value of Sec-WebSocket-Accept
};

// Reads the request at the front of `in`, which must be all bytes that have arrived. The result,
// other than `incomplete`, does not depend on how the bytes arrive.
WebsocketHandshake read_websocket_handshake(std::string_view in);

// Appends a client's request. `key`: 16 bytes of its choice in base64.
void append_websocket_upgrade(std::string_view host, std::string_view key, base::Buffer& out);

// Appends the response 101 with a WebsocketHandshake's `accept`.
void append_switching_protocols(std::string_view accept, base::Buffer& out);

// Appends a whole response with a line of text, after which the connection closes. `status`: 200,
// 400, 426, 431 or 503.
void append_http_text(uint16_t status, std::string_view text, bool head_only, base::Buffer& out);

}  // namespace sluice::wire
