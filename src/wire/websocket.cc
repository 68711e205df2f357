#include "wire/websocket.h"

#include <openssl/evp.h>
#include <openssl/sha.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <string>

#include "base/bounds.h"
#include "base/check.h"
#include "base/utf8.h"
#include "wire/http1_reader.h"
#include "wire/http_field.h"

namespace sluice::wire {
namespace {

using base::bounds::websocket_message_bytes_max;
using Kind = WebsocketEvent::Kind;

// The opcodes (RFC 6455, 5.2) that only the reader knows, and the codes that it closes with
// (7.4.1).
constexpr uint8_t continuation_frame = 0x0, text_frame = 0x1, ping_frame = 0x9;
constexpr uint16_t normal_closure = 1000, protocol_error = 1002, invalid_payload = 1007,
                   policy_violation = 1008, too_big = 1009;
constexpr size_t control_bytes_max = 125, reason_bytes_max = control_bytes_max - 2;
// Memory for payloads: as much as most inputs need, and what is kept while idle.
constexpr size_t memory_bytes_min = 2048, memory_bytes_kept = 4096;

WebsocketEvent broken(uint16_t code) {
  return {Kind::broken, code, 0, {}};
}

// Codes that may stand in a frame: those of RFC 6455, those registered since, and the free ranges.
bool may_be_sent(uint64_t code) {
  return (code >= 1000 && code <= 1014 && (code < 1004 || code > 1006)) ||
         (code >= 3000 && code <= 4999);
}

// Is the length in the fewest bytes that suffice?
bool is_minimal(const WebsocketHeader& header) {
  const size_t length_bytes = header.bytes - (header.masked ? 6 : 2);
  return length_bytes == 0 || header.payload_bytes >= (length_bytes == 2 ? 126 : 65'536);
}

// The code to close with for a frame that must not come, or 0. Told by the header, so that no
// caller waits for a payload that is too long.
uint16_t fault(const WebsocketHeader& header, bool fragmented, size_t bytes_so_far) {
  if (header.reserved != 0) return protocol_error;
  switch (header.opcode) {
    case continuation_frame:
      if (!fragmented) return protocol_error;
      break;
    case text_frame:
    case websocket_binary:
      if (fragmented) return protocol_error;
      break;
    case websocket_close:
    case ping_frame:
    case websocket_pong:
      return header.final && header.payload_bytes <= control_bytes_max && is_minimal(header)
                 ? 0
                 : protocol_error;
    default:
      return protocol_error;
  }
  if (header.payload_bytes >> 32 != 0) return policy_violation;
  if (header.payload_bytes + bytes_so_far > websocket_message_bytes_max) return too_big;
  return is_minimal(header) ? 0 : protocol_error;
}

// The payload of a whole frame, without its mask (RFC 6455, 5.3).
void unmask(const WebsocketHeader& header, std::string_view frame, char* to) {
  const char* const from = frame.data() + header.bytes;
  const auto size = static_cast<size_t>(header.payload_bytes);
  if (!header.masked) {
    if (size > 0) std::memcpy(to, from, size);
    return;
  }
  char mask[8];
  std::memcpy(mask, from - 4, 4);
  std::memcpy(mask + 4, from - 4, 4);
  uint64_t mask_word, word;
  std::memcpy(&mask_word, mask, 8);
  size_t i = 0;
  for (; i + 8 <= size; i += 8) {
    std::memcpy(&word, from + i, 8);
    word ^= mask_word;
    std::memcpy(to + i, &word, 8);
  }
  for (; i < size; ++i) to[i] = static_cast<char>(from[i] ^ mask[i % 4]);
}

}  // namespace

void WebsocketReader::renew() {
  used_ = 0;
  if (!joined_.empty()) [[unlikely]]
    joined_.clear();
}

void WebsocketReader::release() {
  renew();
  if (capacity_ > memory_bytes_kept) [[unlikely]] {
    memory_.reset();
    capacity_ = 0;
  }
}

size_t WebsocketReader::held_bytes() const {
  size_t bytes = capacity_ + fragments_.capacity();
  for (const std::string& message : joined_) bytes += message.capacity();
  return bytes;
}

WebsocketEvent WebsocketReader::next(std::string_view in) {
  WebsocketHeader header;
  if (!header.read(in)) return {};
  if (const uint16_t code = fault(header, fragmented_ != 0, fragments_.size()); code != 0)
    return broken(code);
  if (in.size() - header.bytes < header.payload_bytes) return {};

  const auto size = static_cast<size_t>(header.payload_bytes);
  const std::string_view frame = in.substr(0, header.bytes + size);
  const bool is_control = header.opcode >= websocket_close;
  if (!is_control && (fragmented_ != 0 || !header.final)) [[unlikely]]
    return take_fragment(header, frame);

  char* const to = room(size, in.size());
  unmask(header, frame, to);
  const std::string_view payload(to, size);
  switch (header.opcode) {
    case websocket_binary:
      return {Kind::binary, 0, frame.size(), payload};
    case text_frame:
      return {Kind::text, 0, frame.size(), payload};
    case ping_frame:
      return {Kind::ping, 0, frame.size(), payload};
    case websocket_pong:
      return {Kind::nothing, 0, frame.size(), {}};
  }
  if (payload.empty()) return {Kind::close, normal_closure, frame.size(), {}};
  const uint64_t code = websocket_number(payload.substr(0, 2));
  if (size < 2 || !may_be_sent(code)) return broken(protocol_error);
  if (!base::utf8::is_valid(payload.substr(2))) return broken(invalid_payload);
  return {Kind::close, static_cast<uint16_t>(code), frame.size(), payload.substr(2)};
}

WebsocketEvent WebsocketReader::take_fragment(const WebsocketHeader& header,
                                              std::string_view frame) {
  const size_t before = fragments_.size();
  fragments_.resize(before + static_cast<size_t>(header.payload_bytes));
  unmask(header, frame, fragments_.data() + before);
  if (fragmented_ == 0) fragmented_ = header.opcode;
  if (!header.final) return {Kind::nothing, 0, frame.size(), {}};

  const Kind kind = fragmented_ == text_frame ? Kind::text : Kind::binary;
  fragmented_ = 0;
  joined_.push_front(std::move(fragments_));
  fragments_ = {};
  return {kind, 0, frame.size(), joined_.front()};
}

// Memory for a payload. The payloads of one input together are shorter than the input, so the
// memory made for the first suffices for all, and views stay valid.
char* WebsocketReader::room(size_t bytes, size_t bytes_to_come) {
  if (used_ == 0 && capacity_ < bytes_to_come) {
    capacity_ = std::max(bytes_to_come, memory_bytes_min);
    memory_.reset(new char[capacity_]);
  }
  SLUICE_CHECK(capacity_ - used_ >= bytes);
  char* const at = memory_.get() + used_;
  used_ += bytes;
  return at;
}

namespace {

size_t header_bytes(size_t size) {
  return size < 126 ? 2 : size < 65'536 ? 4 : 10;
}

// Of a final frame; room for header_bytes(size). Returns the end.
char* write_header(char* at, uint8_t opcode, size_t size, uint8_t mask_bit) {
  const size_t length_bytes = header_bytes(size) - 2;
  *at++ = static_cast<char>(0x80 | opcode);
  *at++ = static_cast<char>(mask_bit | (length_bytes == 0   ? size
                                        : length_bytes == 2 ? size_t{126}
                                                            : 127));
  for (size_t i = length_bytes; i-- > 0;)
    *at++ = static_cast<char>(static_cast<uint64_t>(size) >> (8 * i) & 0xFF);
  return at;
}

}  // namespace

void append_websocket_frame(uint8_t opcode, std::string_view payload, base::Buffer& out) {
  const size_t size = payload.size();
  char* const at = write_header(out.prepare(header_bytes(size) + size), opcode, size, 0);
  if (size > 0) std::memcpy(at, payload.data(), size);
  out.commit(header_bytes(size) + size);
}

void append_masked_websocket_frame(uint8_t opcode, std::string_view payload,
                                   const WebsocketMask& mask, base::Buffer& out) {
  const size_t size = payload.size(), bytes = header_bytes(size) + mask.size() + size;
  char* at = write_header(out.prepare(bytes), opcode, size, 0x80);
  at = std::copy(mask.begin(), mask.end(), at);
  for (size_t i = 0; i < size; ++i) *at++ = static_cast<char>(payload[i] ^ mask[i % mask.size()]);
  out.commit(bytes);
}

void append_websocket_close(uint16_t code, std::string_view reason, base::Buffer& out) {
  char payload[control_bytes_max];
  payload[0] = static_cast<char>(code >> 8);
  payload[1] = static_cast<char>(code & 0xFF);
  size_t size = std::min(reason.size(), reason_bytes_max);
  // Does not cut a UTF-8 character.
  if (size < reason.size()) {
    while (size > 0 && (static_cast<unsigned char>(reason[size]) & 0xC0) == 0x80) --size;
  }
  if (size > 0) std::memcpy(payload + 2, reason.data(), size);
  append_websocket_frame(websocket_close, {payload, 2 + size}, out);
}

namespace {

using base::bounds::http_head_bytes_max;

std::string_view trimmed(std::string_view text) {
  const auto blank = [](char c) { return c == ' ' || c == '\t'; };
  while (!text.empty() && blank(text.front())) text.remove_prefix(1);
  while (!text.empty() && blank(text.back())) text.remove_suffix(1);
  return text;
}

// Does a list contain the word? `word`: in lower case.
bool lists(std::string_view value, std::string_view word) {
  while (true) {
    const size_t comma = value.find(',');
    if (is_http_name(trimmed(value.substr(0, comma)), word)) return true;
    if (comma == value.npos) return false;
    value.remove_prefix(comma + 1);
  }
}

// What of a head matters. A header that must not stand twice has its count.
struct Headers {
  bool wants_upgrade = false;  // Connection lists it
  size_t upgrades = 0, keys = 0, versions = 0;
  std::string_view upgrade, key, version;
};

Headers headers_of(const Http1Head& head) {
  Headers headers;
  const auto once = [](size_t& count, std::string_view& to, std::string_view value) {
    ++count;
    to = value;
  };
  for (const auto& [name, value] : head.fields) {
    if (is_http_name(name, "connection")) {
      headers.wants_upgrade |= lists(value, "upgrade");
    } else if (is_http_name(name, "upgrade")) {
      once(headers.upgrades, headers.upgrade, value);
    } else if (is_http_name(name, "sec-websocket-key")) {
      once(headers.keys, headers.key, value);
    } else if (is_http_name(name, "sec-websocket-version")) {
      once(headers.versions, headers.version, value);
    }
  }
  return headers;
}

std::array<char, 28> accept_of(std::string_view key) {
  std::string text(key);
  text += "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
  std::array<unsigned char, SHA_DIGEST_LENGTH> digest;
  std::array<unsigned char, 29> base64;  // with the NUL that OpenSSL adds
  SHA1(reinterpret_cast<const unsigned char*>(text.data()), text.size(), digest.data());
  EVP_EncodeBlock(base64.data(), digest.data(), static_cast<int>(digest.size()));
  std::array<char, 28> accept;
  std::copy_n(base64.begin(), accept.size(), accept.begin());
  return accept;
}

WebsocketHandshake refused(uint16_t status, std::string_view why) {
  WebsocketHandshake handshake{};
  handshake.kind = WebsocketHandshake::Kind::refused;
  handshake.status = status;
  handshake.why = why;
  return handshake;
}

WebsocketHandshake refused(const Http1Reader& reader) {
  if (reader.status() == 431 || reader.status() == 414)
    return refused(431, "The request's head is longer than 8192 bytes.");
  return refused(400, reader.problem());
}

}  // namespace

WebsocketHandshake read_websocket_handshake(std::string_view in) {
  WebsocketHandshake handshake{};
  Http1Reader reader({.head_bytes = http_head_bytes_max, .fields = http_head_bytes_max},
                     Http1Reader::Use::handshake);
  const Http1Reader::Result result = reader.next(in);
  if (result.found == Http1Reader::Found::broken) return refused(reader);
  if (result.found != Http1Reader::Found::request) return handshake;

  const Http1Head& head = reader.head();
  const Headers headers = headers_of(head);
  if (headers.upgrades == 0 || !headers.wants_upgrade) {
    handshake.kind = WebsocketHandshake::Kind::plain;
    handshake.head_only = head.method == "HEAD";
    return handshake;
  }
  if (headers.upgrades > 1 || !is_http_name(headers.upgrade, "websocket"))
    return refused(400, "The header Upgrade must be: websocket.");
  if (headers.versions != 1 || headers.version != "13")
    return refused(426, "The header Sec-WebSocket-Version must be: 13.");
  if (headers.keys != 1 || headers.key.empty())
    return refused(400, "One header Sec-WebSocket-Key is needed, and not empty.");
  // The body would be read as frames.
  if (head.has_body) return refused(400, "A request for WebSocket must have no body.");
  handshake.kind = WebsocketHandshake::Kind::upgrade;
  handshake.bytes = result.consumed;
  handshake.accept = accept_of(headers.key);
  return handshake;
}

void append_websocket_upgrade(std::string_view host, std::string_view key, base::Buffer& out) {
  out.append("GET / HTTP/1.1\r\nHost: ");
  out.append(host);
  out.append(
      "\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
      "Sec-WebSocket-Key: ");
  out.append(key);
  out.append("\r\n\r\n");
}

void append_switching_protocols(std::string_view accept, base::Buffer& out) {
  out.append(
      "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
      "Sec-WebSocket-Accept: ");
  out.append(accept);
  out.append("\r\n\r\n");
}

void append_http_text(uint16_t status, std::string_view text, bool head_only, base::Buffer& out) {
  const auto line = [status]() -> std::string_view {
    switch (status) {
      case 200:
        return "200 OK\r\n";
      case 400:
        return "400 Bad Request\r\n";
      case 426:
        return "426 Upgrade Required\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n";
      case 431:
        return "431 Request Header Fields Too Large\r\n";
      case 503:
        return "503 Service Unavailable\r\n";
    }
    SLUICE_CHECK(false);
    return {};
  };
  char size[20];
  const char* const size_end = std::to_chars(size, size + sizeof size, text.size() + 1).ptr;
  out.append("HTTP/1.1 ");
  out.append(line());
  out.append(status == 426 ? "Connection: Upgrade, close\r\n" : "Connection: close\r\n");
  out.append("Content-Type: text/plain; charset=utf-8\r\nContent-Length: ");
  out.append({size, static_cast<size_t>(size_end - size)});
  out.append("\r\n\r\n");
  if (head_only) return;
  out.append(text);
  out.append('\n');
}

}  // namespace sluice::wire
