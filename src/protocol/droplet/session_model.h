// The naive model of DropletSession, for tests and fuzzing only: reads and writes droplet's frames
// and messages byte by byte, without protobuf and without regard for speed. Also makes
// what a client sends, and stands in for the connection that feeds a session in pieces.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/bounds.h"
#include "protocol/droplet/message.h"
#include "request/session.h"
#include "testing/utf8_model.h"

namespace sluice::droplet::model {

// ---- What a client sends ----

inline constexpr std::string_view handshake =
    "GET / HTTP/1.1\r\nHost: localhost:3000\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
    "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
    "Sec-WebSocket-Extensions: permessage-deflate; client_max_window_bits\r\n\r\n";
inline constexpr std::string_view switching =
    "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    "Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n";

struct Shape {
  bool final = true;
  uint8_t reserved = 0;  // ORed into the first byte
  std::optional<uint32_t> mask = 0xA1B2C3D4;
  int length_bytes = -1;  // of the extended length: 0, 2 or 8; -1: the fewest that suffice
};

inline std::string frame(uint8_t opcode, std::string_view payload, const Shape& shape = {}) {
  const auto byte = [](uint64_t value) { return static_cast<char>(value & 0xFF); };
  const uint64_t size = payload.size();
  const int length_bytes = shape.length_bytes >= 0 ? shape.length_bytes
                           : size < 126            ? 0
                           : size < 65'536         ? 2
                                                   : 8;
  std::string out(1, byte((shape.final ? 0x80u : 0u) | shape.reserved | opcode));
  const uint64_t small = length_bytes == 0 ? size : length_bytes == 2 ? 126 : 127;
  out += byte((shape.mask ? 0x80u : 0u) | small);
  for (int i = length_bytes - 1; i >= 0; --i) out += byte(size >> (8 * i));
  if (!shape.mask) return out += payload;
  for (int i = 3; i >= 0; --i) out += byte(*shape.mask >> (8 * i));
  for (size_t i = 0; i < payload.size(); ++i)
    out += byte(static_cast<unsigned char>(payload[i]) ^ (*shape.mask >> (8 * (3 - i % 4))));
  return out;
}

// A frame as the server sends it, without a mask.
inline std::string sent(uint8_t opcode, std::string_view payload) {
  return frame(opcode, payload, {.mask = std::nullopt});
}
inline std::string sent_close(uint16_t code, std::string_view reason = {}) {
  std::string payload{static_cast<char>(code >> 8), static_cast<char>(code & 0xFF)};
  return sent(8, payload.append(reason));
}

inline std::string varint(uint64_t value) {
  std::string out;
  for (; value > 127; value >>= 7) out += static_cast<char>((value & 127) | 128);
  return out += static_cast<char>(value);
}
inline std::string number_field(uint32_t field, uint64_t value) {
  return varint(field << 3) + varint(value);
}
inline std::string bytes_field(uint32_t field, std::string_view value) {
  return varint(field << 3 | 2) + varint(value.size()) + std::string(value);
}

inline std::string unhex(const std::string& hex) {
  std::string out;
  for (size_t i = 0; i + 1 < hex.size(); i += 2)
    out += static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16));
  return out;
}

// ---- Messages ----

// Reads from `at` and moves it behind the number. Nothing: the bytes end within the number, or it
// has more than ten.
inline std::optional<uint64_t> take_varint(std::string_view in, size_t& at) {
  uint64_t value = 0;
  for (unsigned i = 0; i < 10 && at < in.size(); ++i) {
    const auto byte = static_cast<unsigned char>(in[at++]);
    value |= uint64_t{byte & 127u} << (7 * i);
    if (byte < 128) return value;
  }
  return std::nullopt;
}

inline bool skip_field(std::string_view in, size_t& at, uint32_t tag, int depth) {
  switch (tag & 7) {
    case 0:
      return take_varint(in, at).has_value();
    case 1:
    case 5: {
      const size_t size = (tag & 7) == 1 ? 8 : 4;
      at += size;
      return at <= in.size();
    }
    case 2: {
      const auto size = take_varint(in, at);
      if (!size || static_cast<uint32_t>(*size) > in.size() - at) return false;
      at += static_cast<uint32_t>(*size);
      return true;
    }
    case 3:
      while (depth < 100) {
        const auto inner = take_varint(in, at);
        if (!inner) return false;
        const auto inner_tag = static_cast<uint32_t>(*inner);
        if ((inner_tag & 7) == 4) return inner_tag >> 3 == tag >> 3;
        if (!skip_field(in, at, inner_tag, depth + 1)) return false;
      }
      return false;
  }
  return false;
}

inline std::optional<DropletRequest> read(std::string_view in) {
  DropletRequest request;
  bool named = false, identified = false;
  for (size_t at = 0; at < in.size();) {
    const auto tag64 = take_varint(in, at);
    if (!tag64) return std::nullopt;
    const auto tag = static_cast<uint32_t>(*tag64);
    const uint32_t field = tag >> 3;
    if (field < 1 || field > 11) {
      if (!skip_field(in, at, tag, 0)) return std::nullopt;
      continue;
    }
    if ((tag & 7) != (field < 3 ? 2u : 0u)) return std::nullopt;
    const auto value64 = take_varint(in, at);
    if (!value64) return std::nullopt;
    const auto value = static_cast<uint32_t>(*value64);
    if (field < 3) {
      if (value > in.size() - at) return std::nullopt;
      (field == 1 ? request.bucket : request.id) = in.substr(at, value);
      (field == 1 ? named : identified) = true;
      at += value;
    }
    if (field == 3) request.count = static_cast<int32_t>(value);
    if (field == 4) request.reset = value != 0;
    if (field >= 5 && field <= 10) request.limits[field - 5] = value;
    if (field == 11) request.type = value;
  }
  if (!named || !identified) return std::nullopt;
  return request;
}

inline std::string response(bool accept, uint32_t mask, const std::vector<limit::Decision>& slots) {
  std::string out = number_field(1, accept ? 1 : 0);
  size_t next = 0;
  for (uint32_t i = 0; i < 6; ++i) {
    if ((mask >> i & 1) == 0) continue;
    const int64_t left = slots[next++].remaining;
    const int64_t shown = left < INT32_MIN ? INT32_MIN : left > INT32_MAX ? INT32_MAX : left;
    out += number_field(i + 2, static_cast<uint64_t>(shown));
  }
  return out;
}

// ---- Connections ----

struct Asked {
  bool peek = false, reset_first = false;
  int64_t cost = 1;
  std::string bucket, tag;
  std::vector<limit::Limit> limits;
  friend bool operator==(const Asked&, const Asked&) = default;
};

// What a session made of one connection's bytes.
struct Transcript {
  std::vector<Asked> requests;
  std::string replies;  // with the numbers of `answer_of`, and what the session sends by itself
  std::string farewell;
  bool closing = false;
  friend bool operator==(const Transcript&, const Transcript&) = default;
};

// The charge of the bucket with a decision for each period of the mask, as the verdict shows it.
// Must outlive the verdict, and not move.
struct BucketCharge {
  BucketCharge(uint32_t mask, std::span<const limit::Decision> decisions,
               request::Verdict& verdict) {
    charge.keeps_limits = true;
    charge.slot_mask = mask;
    verdict.charges = {&charge, 1};
    verdict.decisions = decisions.data();
  }
  BucketCharge(const BucketCharge&) = delete;
  BucketCharge& operator=(const BucketCharge&) = delete;

  request::Charge charge;
};

// The verdict for the n-th request of a connection; over many n, replies of all shapes.
struct Answer {
  bool allowed, failed;
  uint32_t mask;
  std::vector<limit::Decision> slots;
};
inline Answer answer_of(size_t n) {
  Answer answer{n % 3 != 2, n % 13 == 12, static_cast<uint32_t>(n * 11 % 64), {}};
  static constexpr int64_t left[] = {
      0,         1,    127, 128,           -1, INT32_MAX, INT32_MIN, INT32_MAX + 1L, INT64_MAX,
      INT64_MIN, -128, 300, INT32_MIN - 1L};
  for (uint32_t i = 0; i < 6; ++i) {
    if ((answer.mask >> i & 1) != 0)
      answer.slots.push_back({answer.allowed, 9, left[(n + i * i) % std::size(left)], {}, {}});
  }
  return answer;
}

inline Asked asked(const DropletRequest& r) {
  Asked asked;
  asked.peek = r.type != 0;
  asked.bucket = r.bucket;
  asked.tag = r.id.substr(0, 64 << 10);
  if (asked.peek) return asked;
  asked.reset_first = r.reset;
  asked.cost = r.count;
  const int64_t seconds[] = {1, 60, 3'600, 86'400, 604'800, 2'592'000};
  for (size_t i = 0; i < 6; ++i) {
    const int64_t n = r.limits[i];
    if (n > 0)
      asked.limits.push_back({limit::Algorithm::token_bucket, n, base::seconds(seconds[i]), n});
  }
  return asked;
}

// What a session must make of a connection that sends `bytes` after its handshake. Most faults of a
// frame are found as soon as its header is complete.
inline Transcript expected(std::string_view bytes) {
  Transcript t;
  t.replies = switching;
  const auto close = [&t](uint16_t code, std::string_view reason = {}) {
    t.closing = true;
    t.farewell = sent_close(code, reason);
  };
  bool fragmented = false, text = false;
  std::string message;
  while (!t.closing) {
    if (bytes.size() < 2) break;
    const auto at = [&bytes](size_t i) { return static_cast<unsigned char>(bytes[i]); };
    const unsigned opcode = at(0) & 15u, small = at(1) & 127u;
    const bool final = at(0) >= 128, masked = at(1) >= 128;
    const size_t length_bytes = small == 127 ? 8 : small == 126 ? 2 : 0;
    const size_t header = 2 + length_bytes + (masked ? 4 : 0);
    if (bytes.size() < header) break;
    uint64_t size = length_bytes == 0 ? small : 0;
    for (size_t i = 0; i < length_bytes; ++i) size = size * 256 + at(2 + i);

    const bool control = opcode >= 8;
    if ((at(0) & 0x70) != 0 || (opcode > 2 && opcode < 8) || opcode > 10 ||
        (control && (!final || size > 125)) || (!control && fragmented != (opcode == 0))) {
      close(1002);
      break;
    }
    if (size > UINT32_MAX) {
      close(1008);
      break;
    }
    if (!control && message.size() + size > (1 << 20)) {
      close(1009);
      break;
    }
    if ((length_bytes == 2 && size < 126) || (length_bytes == 8 && size < 65'536)) {
      close(1002);
      break;
    }
    if (bytes.size() - header < size) break;
    std::string payload(bytes.substr(header, size));
    for (size_t i = 0; masked && i < size; ++i)
      payload[i] = static_cast<char>(payload[i] ^ bytes[header - 4 + i % 4]);
    bytes.remove_prefix(header + size);

    if (opcode == 9) t.replies += sent(10, payload);
    if (opcode == 8) {
      const unsigned code = size < 2 ? 0u
                                     : static_cast<unsigned char>(payload[0]) * 256u +
                                           static_cast<unsigned char>(payload[1]);
      const bool known = (code >= 1000 && code <= 1003) || (code >= 1007 && code <= 1014) ||
                         (code >= 3000 && code <= 4999);
      const std::string reason = payload.substr(std::min<size_t>(size, 2));
      if (size == 0) {
        close(1000);
      } else if (!known) {
        close(1002);
      } else if (base::utf8::model::encode(base::utf8::model::decode(reason)) != reason) {
        close(1007);
      } else {
        close(static_cast<uint16_t>(code), reason);
      }
    }
    if (control) continue;
    if (!fragmented) text = opcode == 1;
    message += payload;
    fragmented = !final;
    if (fragmented) continue;
    const auto request = text ? std::nullopt : read(message);
    if (!request) {
      close(1000);
      break;
    }
    const Answer answer = answer_of(t.requests.size());
    t.requests.push_back(asked(*request));
    const bool accept = request->type != 0 || (answer.allowed && !answer.failed);
    t.replies += sent(
        2, answer.failed ? response(accept, 0, {}) : response(accept, answer.mask, answer.slots));
    message.clear();
  }
  return t;
}

// Feeds `session` as a connection does: `cuts` are the sizes of the pieces that arrive one by one,
// the rest arrives last. Each call gets its bytes in memory of their own, freed before the replies
// are made, so that a sanitizer finds views that are kept too long.
inline Transcript run(request::Session& session, std::string_view bytes,
                      const std::vector<size_t>& cuts) {
  Transcript t;
  request::Requests requests;
  base::Buffer out;
  std::string rest;
  const auto receive = [&] {
    while (!t.closing) {
      std::unique_ptr<char[]> memory(new char[rest.size()]);
      std::copy(rest.begin(), rest.end(), memory.get());
      requests.clear();
      const request::Received received =
          session.receive({memory.get(), rest.size()}, false, requests, out);
      memory.reset();
      t.closing = received.closing;
      for (const request::Request& request : requests.items()) {
        const Answer answer = answer_of(t.requests.size());
        Asked& asked = t.requests.emplace_back();
        asked.peek = request.verb == request::Verb::peek;
        asked.reset_first = request.verb == request::Verb::take_anew;
        asked.cost = request.cost;
        asked.tag = request.tag;
        for (const request::Entry& e : requests.descriptor(request))
          asked.bucket.append(e.key == "bucket" ? "" : "?").append(e.value);
        const auto limits = requests.limits(request);
        asked.limits.assign(limits.begin(), limits.end());
        request::Verdict verdict;
        verdict.allowed = answer.allowed;
        verdict.error = answer.failed ? "no memory" : "";
        const BucketCharge bucket(answer.mask, answer.slots, verdict);
        session.reply(request, verdict, {}, out);
      }
      if (received.consumed == 0) break;
      rest.erase(0, received.consumed);
    }
  };
  for (size_t i = 0; i <= cuts.size() && !t.closing; ++i) {
    const size_t size = i < cuts.size() ? std::min(cuts[i], bytes.size()) : bytes.size();
    rest += bytes.substr(0, size);
    bytes.remove_prefix(size);
    receive();
  }
  t.replies = out.view();
  out.clear();
  session.end(request::Ending::announced, {}, out);
  t.farewell = out.view();
  return t;
}

}  // namespace sluice::droplet::model
