// WebSocket frames (RFC 6455, 5): a reader that gives whole messages and control frames, and
// writers of a server's frames and a client's. One reader per connection, owned by its session,
// used by its thread. What protocol the messages carry is not its matter.
//
// A frame that has not arrived whole stays with the caller; the reader itself holds only the
// fragments of a message whose last one is missing. wslay parses and unmasks; the payloads that it
// hands out are views into the reader and live until `renew` or `release`.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <forward_list>
#include <memory>
#include <string>
#include <string_view>

#include "base/buffer.h"

struct wslay_frame_context;

namespace sluice::wire {

struct WebsocketEvent {
  enum class Kind : uint8_t {
    incomplete,  // the frame has not arrived whole
    nothing,     // a fragment, an unsolicited pong: go on behind it
    binary,      // a message
    text,        // a message, not checked to be UTF-8
    ping,        // to be answered with a pong of the same payload
    close,       // the peer's; `code` and `payload` (the reason) must be echoed
    broken,      // not a frame that may come: close with `code`
  };
  Kind kind = Kind::incomplete;
  uint16_t code = 0;
  size_t consumed = 0;
  std::string_view payload{};
};

// What a frame begins with.
struct WebsocketHeader {
  bool final = false, masked = false;
  uint8_t reserved = 0, opcode = 0;
  size_t bytes = 0;  // of itself
  uint64_t payload_bytes = 0;

  // False: not all of it is there.
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
  WebsocketReader();
  ~WebsocketReader();
  WebsocketReader(const WebsocketReader&) = delete;
  WebsocketReader& operator=(const WebsocketReader&) = delete;

  // Ends the views given so far. To be called before each run of `next` over one input.
  void renew();
  // Reads one frame from the front of `in`; until `renew`, each call is given the rest of the same
  // input. After `close` or `broken` it must not be called again.
  WebsocketEvent next(std::string_view in);
  // Ends the views given so far, and gives back memory beyond what small messages need.
  void release();

  // Memory of its own, the fragments of an unfinished message included; and those alone.
  size_t held_bytes() const;
  size_t unfinished_bytes() const { return fragmented_ == 0 ? 0 : fragments_.capacity(); }

 private:
  struct Header;
  struct FreeWslay {
    void operator()(wslay_frame_context* context) const;
  };

  WebsocketEvent take_fragment(uint8_t opcode, bool final, size_t size, std::string_view frame);
  bool unmask(std::string_view frame, char* to, size_t bytes);
  char* room(size_t bytes, size_t bytes_to_come);
  static ptrdiff_t feed(uint8_t* to, size_t bytes, int flags, void* self);

  std::unique_ptr<wslay_frame_context, FreeWslay> wslay_;
  std::string_view feed_;           // of the frame that wslay reads: what it has not got
  std::unique_ptr<char[]> memory_;  // unmasked payloads
  size_t capacity_ = 0, used_ = 0;
  uint8_t fragmented_ = 0;                 // opcode of the unfinished message; 0: there is none
  std::string fragments_;                  // its payload so far
  std::forward_list<std::string> joined_;  // finished ones; nodes, so that views stay
};

// Opcodes of what is sent here.
inline constexpr uint8_t websocket_binary = 0x2, websocket_close = 0x8, websocket_pong = 0xA;

// Appends one frame, unmasked and final. `payload`: of a control frame at most 125 bytes.
void append_websocket_frame(uint8_t opcode, std::string_view payload, base::Buffer& out);

// The same as a client sends it.
using WebsocketMask = std::array<char, 4>;
void append_masked_websocket_frame(uint8_t opcode, std::string_view payload,
                                   const WebsocketMask& mask, base::Buffer& out);

// Appends a Close with a code and of the reason as much as fits.
void append_websocket_close(uint16_t code, std::string_view reason, base::Buffer& out);

}  // namespace sluice::wire
