#include "wire/websocket_frames.h"

#include <wslay/wslay.h>

#include <algorithm>
#include <cstring>

#include "base/bounds.h"
#include "base/check.h"
#include "base/utf8.h"

namespace sluice::wire {
namespace {

using base::bounds::websocket_message_bytes_max;
using Kind = WebsocketEvent::Kind;

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

}  // namespace

struct WebsocketReader::Header : WebsocketHeader {
  bool is_control() const { return wslay_is_ctrl_frame(opcode); }

  // The code to close with for a frame that must not come, or 0. Told by the header, so that no
  // caller waits for a payload that is too long.
  uint16_t fault(bool fragmented, size_t bytes_so_far) const {
    if (reserved != 0) return WSLAY_CODE_PROTOCOL_ERROR;
    switch (opcode) {
      case WSLAY_CONTINUATION_FRAME:
        if (!fragmented) return WSLAY_CODE_PROTOCOL_ERROR;
        break;
      case WSLAY_TEXT_FRAME:
      case WSLAY_BINARY_FRAME:
        if (fragmented) return WSLAY_CODE_PROTOCOL_ERROR;
        break;
      case WSLAY_CONNECTION_CLOSE:
      case WSLAY_PING:
      case WSLAY_PONG:
        if (!final || payload_bytes > control_bytes_max) return WSLAY_CODE_PROTOCOL_ERROR;
        return 0;
      default:
        return WSLAY_CODE_PROTOCOL_ERROR;
    }
    if (payload_bytes >> 32 != 0) return WSLAY_CODE_POLICY_VIOLATION;
    if (payload_bytes + bytes_so_far > websocket_message_bytes_max)
      return WSLAY_CODE_MESSAGE_TOO_BIG;
    return 0;
  }
};

WebsocketReader::WebsocketReader() {
  const wslay_frame_callbacks callbacks{nullptr, feed, nullptr};
  wslay_frame_context_ptr context = nullptr;
  SLUICE_CHECK(wslay_frame_context_init(&context, &callbacks, this) == 0);
  wslay_.reset(context);
}

WebsocketReader::~WebsocketReader() = default;

void WebsocketReader::FreeWslay::operator()(wslay_frame_context* context) const {
  wslay_frame_context_free(context);
}

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
  Header header;
  if (!header.read(in)) return {};
  if (const uint16_t code = header.fault(fragmented_ != 0, fragments_.size()); code != 0)
    return broken(code);
  if (in.size() - header.bytes < header.payload_bytes) return {};

  const auto size = static_cast<size_t>(header.payload_bytes);
  const std::string_view frame = in.substr(0, header.bytes + size);
  if (!header.is_control() && (fragmented_ != 0 || !header.final)) [[unlikely]]
    return take_fragment(header.opcode, header.final, size, frame);

  char* const to = room(size, in.size());
  if (!unmask(frame, to, size)) return broken(WSLAY_CODE_PROTOCOL_ERROR);
  const std::string_view payload(to, size);
  switch (header.opcode) {
    case WSLAY_BINARY_FRAME:
      return {Kind::binary, 0, frame.size(), payload};
    case WSLAY_TEXT_FRAME:
      return {Kind::text, 0, frame.size(), payload};
    case WSLAY_PING:
      return {Kind::ping, 0, frame.size(), payload};
    case WSLAY_PONG:
      return {Kind::nothing, 0, frame.size(), {}};
  }
  if (payload.empty()) return {Kind::close, WSLAY_CODE_NORMAL_CLOSURE, frame.size(), {}};
  const uint64_t code = websocket_number(payload.substr(0, 2));
  if (size < 2 || !may_be_sent(code)) return broken(WSLAY_CODE_PROTOCOL_ERROR);
  if (!base::utf8::is_valid(payload.substr(2)))
    return broken(WSLAY_CODE_INVALID_FRAME_PAYLOAD_DATA);
  return {Kind::close, static_cast<uint16_t>(code), frame.size(), payload.substr(2)};
}

WebsocketEvent WebsocketReader::take_fragment(uint8_t opcode, bool final, size_t size,
                                              std::string_view frame) {
  const size_t before = fragments_.size();
  fragments_.resize(before + size);
  if (!unmask(frame, fragments_.data() + before, size)) return broken(WSLAY_CODE_PROTOCOL_ERROR);
  if (fragmented_ == 0) fragmented_ = opcode;
  if (!final) return {Kind::nothing, 0, frame.size(), {}};

  const Kind kind = fragmented_ == WSLAY_TEXT_FRAME ? Kind::text : Kind::binary;
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

// Lets wslay read one whole frame, with its payload of `bytes` to `to`. False: wslay rejects it.
bool WebsocketReader::unmask(std::string_view frame, char* to, size_t bytes) {
  feed_ = frame;
  size_t got = 0;
  do {
    wslay_frame_iocb part{};
    const ssize_t n = wslay_frame_recv(wslay_.get(), &part);
    if (n < 0) return false;
    SLUICE_CHECK(part.data_length <= bytes - got);
    if (part.data_length > 0) std::memcpy(to + got, part.data, part.data_length);
    got += part.data_length;
  } while (got < bytes);
  return true;
}

ptrdiff_t WebsocketReader::feed(uint8_t* to, size_t bytes, int, void* self) {
  std::string_view& from = static_cast<WebsocketReader*>(self)->feed_;
  const size_t n = std::min(bytes, from.size());
  if (n > 0) std::memcpy(to, from.data(), n);
  from.remove_prefix(n);
  return static_cast<ptrdiff_t>(n);
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

}  // namespace sluice::wire
