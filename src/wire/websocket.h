// WebSocket frames (RFC 6455, 5): a reader of complete messages and control frames, and writers of
// frames for servers and clients. Each connection has a reader, owned by its session and used by
// its thread. The caller knows the protocol within the messages.
//
// The bytes of an incomplete frame stay with the caller; the reader only holds the fragments of an
// incomplete message. Payloads are views into the reader, which are valid until `renew` or
// `release`.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <forward_list>
#include <memory>
#include <string>
#include <string_view>

#include "base/buffer.h"

namespace sluice::wire {

struct WebsocketEvent {
  enum class Kind : uint8_t {
    incomplete,  // bytes of the frame are missing
    nothing,     // a fragment or an unsolicited pong: continue with the next frame
    binary,      // a binary message
    text,        // a text message, not checked to be UTF-8
    ping,        // answer with a pong of the same payload
    close,       // the peer closes: echo `code` and `payload` (the reason)
    broken,      // not a frame that is allowed here: close with `code`
  };
  Kind kind = Kind::incomplete;
  uint16_t code = 0;
  size_t consumed = 0;
  std::string_view payload{};
};

// The header of a frame.
struct WebsocketHeader {
  bool final = false, masked = false;
  uint8_t reserved = 0, opcode = 0;
  size_t bytes = 0;  // the size of the header itself
  uint64_t payload_bytes = 0;

  // False: bytes of the header are missing.
  bool read(std::string_view in);
};

// Numbers in frames are big-endian.
inline uint64_t websocket_number(std::string_view bytes) {
  uint64_t value = 0;
  for (const char c : bytes) value = value << 8 | static_cast<unsigned char>(c);
  return value;
}

inline bool WebsocketHeader::read(std::string_view in) {
  if (in.size() < 2) return false;
  const auto first = static_cast<unsigned char>(in[0]), second = static_cast<unsigned char>(in[1]);
  final = (first & 0x80) != 0;
  reserved = first & 0x70;
  opcode = first & 0x0F;
  masked = (second & 0x80) != 0;
  const size_t length_bytes = (second & 0x7F) == 127 ? 8 : (second & 0x7F) == 126 ? 2 : 0;
  bytes = 2 + length_bytes + (masked ? 4 : 0);
  if (in.size() < bytes) return false;
  payload_bytes = length_bytes == 0 ? second & 0x7F : websocket_number(in.substr(2, length_bytes));
  return true;
}

class WebsocketReader {
 public:
  WebsocketReader() = default;
  WebsocketReader(const WebsocketReader&) = delete;
  WebsocketReader& operator=(const WebsocketReader&) = delete;

  // Makes the earlier views void. Must be called before the first `next` for an input.
  void renew();
  // Reads one frame from the front of `in`. Until `renew`, each call must be given the rest of the
  // same input. Must not be called again after `close` or `broken`.
  WebsocketEvent next(std::string_view in);
  // Makes the earlier views void, and frees memory beyond the needs of small messages.
  void release();

  // Bytes of memory that the reader holds, including the fragments of an incomplete message; and
  // the bytes of those fragments.
  size_t held_bytes() const;
  size_t unfinished_bytes() const { return fragmented_ == 0 ? 0 : fragments_.capacity(); }

 private:
  WebsocketEvent take_fragment(const WebsocketHeader& header, std::string_view frame);
  char* room(size_t bytes, size_t bytes_to_come);

  std::unique_ptr<char[]> memory_;  // unmasked payloads
  size_t capacity_ = 0, used_ = 0;
  uint8_t fragmented_ = 0;                 // opcode of the unfinished message; 0: there is none
  std::string fragments_;                  // its payload so far
  std::forward_list<std::string> joined_;  // complete messages; nodes do not move, so views stay
};

// The opcodes of the frames that are written here.
inline constexpr uint8_t websocket_binary = 0x2, websocket_close = 0x8, websocket_pong = 0xA;

// Appends one frame, unmasked and final. The payload of a control frame has at most 125 bytes.
void append_websocket_frame(uint8_t opcode, std::string_view payload, base::Buffer& out);

// The same, masked, as clients send it.
using WebsocketMask = std::array<char, 4>;
void append_masked_websocket_frame(uint8_t opcode, std::string_view payload,
                                   const WebsocketMask& mask, base::Buffer& out);

// Appends a Close frame with the code, and as much of the reason as fits.
void append_websocket_close(uint16_t code, std::string_view reason, base::Buffer& out);

// The opening handshake of WebSocket (RFC 6455, 4): writes a client's request; reads a request and
// tells the answer to it. Functions without state; any thread. Path, Host and Origin are ignored,
// and no extension or subprotocol is accepted.

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
