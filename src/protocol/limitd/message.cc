#include "protocol/limitd/message.h"

#include <google/protobuf/io/coded_stream.h>

#include <algorithm>
#include <cstring>
#include <limits>

namespace sluice::limitd {
namespace {

using google::protobuf::io::CodedInputStream;
using google::protobuf::io::CodedOutputStream;

enum WireType : uint8_t { varint = 0, fixed64 = 1, bytes = 2, fixed32 = 5 };

constexpr uint32_t key_of(uint32_t field, WireType type) {
  return field << 3 | type;
}

CodedInputStream stream_of(std::string_view text) {
  return CodedInputStream(reinterpret_cast<const uint8_t*>(text.data()),
                          static_cast<int>(text.size()));
}

// ---- Reading ----

// One field after the other of a message. The first that is none ends it for good.
class Reader {
 public:
  explicit Reader(std::string_view body) : body_(body), in_(stream_of(body)) {}

  bool at_end() const { return position() == body_.size(); }

  // A field's number and wire type. Protobuf knows 32 bits of it; what has more is no key.
  bool read_key(uint32_t& key) {
    uint64_t wide;
    if (!in_.ReadVarint64(&wide) || wide > UINT32_MAX) return false;
    key = static_cast<uint32_t>(wide);
    return key >> 3 != 0;
  }
  bool read_number(uint64_t& value) { return in_.ReadVarint64(&value); }
  bool read_signed(int64_t& value) {
    uint64_t bits;
    if (!in_.ReadVarint64(&bits)) return false;
    value = static_cast<int64_t>(bits);
    return true;
  }
  bool read_bool(bool& value) {
    uint64_t bits;
    if (!in_.ReadVarint64(&bits)) return false;
    value = bits != 0;
    return true;
  }
  bool read_text(std::string_view& value) {
    int size;
    if (!in_.ReadVarintSizeAsInt(&size)) return false;
    const size_t from = position();
    if (static_cast<size_t>(size) > body_.size() - from) return false;
    value = body_.substr(from, static_cast<size_t>(size));
    return in_.Skip(size);
  }
  // A varint as it stands there.
  bool read_raw_number(std::string_view& value) {
    const size_t from = position();
    uint64_t ignored;
    if (!in_.ReadVarint64(&ignored)) return false;
    value = body_.substr(from, position() - from);
    return true;
  }
  bool skip(uint32_t key) {
    uint64_t number;
    std::string_view text;
    switch (key & 7) {
      case varint:
        return in_.ReadVarint64(&number);
      case fixed64:
        return in_.Skip(8);
      case bytes:
        return read_text(text);
      case fixed32:
        return in_.Skip(4);
      default:
        return false;
    }
  }

 private:
  size_t position() const { return static_cast<size_t>(in_.CurrentPosition()); }

  std::string_view body_;
  CodedInputStream in_;
};

// ---- Writing ----

constexpr uint32_t error_field = 100, take_field = 101, put_field = 102, status_field = 103,
                   pong_field = 104, get_field = 105;

uint8_t* write_key(uint8_t* at, uint32_t field, WireType type) {
  return CodedOutputStream::WriteVarint32ToArray(key_of(field, type), at);
}

size_t bytes_of(uint64_t value) {
  return CodedOutputStream::VarintSize64(value);
}

// An int32 field: negative ones are sign-extended, and so ten bytes.
uint64_t narrow(int64_t value) {
  return static_cast<uint64_t>(std::clamp<int64_t>(value, INT32_MIN, INT32_MAX));
}

// remaining, reset and limit, which stand behind each other in every body.
size_t bytes_of(const LimitdLevel& level) {
  return 3 + bytes_of(narrow(level.remaining)) + bytes_of(level.reset) +
         bytes_of(narrow(level.limit));
}
uint8_t* write(uint8_t* at, uint32_t field, const LimitdLevel& level) {
  at = write_key(at, field, varint);
  at = CodedOutputStream::WriteVarint64ToArray(narrow(level.remaining), at);
  at = write_key(at, field + 1, varint);
  at = CodedOutputStream::WriteVarint64ToArray(level.reset, at);
  at = write_key(at, field + 2, varint);
  return CodedOutputStream::WriteVarint64ToArray(narrow(level.limit), at);
}

// One frame with room for its only body, whose size has to be known: `at` is where the body goes,
// `close` what makes the frame part of the buffer.
class Reply {
 public:
  Reply(const LimitdId& id, uint32_t field, size_t body_bytes, base::Buffer& out) : out_(out) {
    uint64_t number = 0;
    size_t id_bytes = 1 + bytes_of(id.bytes.size()) + id.bytes.size();
    if (id.numeric) {
      stream_of(id.bytes).ReadVarint64(&number);
      id_bytes = 2 + bytes_of(number);
    }
    const size_t size = id_bytes + 2 + bytes_of(body_bytes) + body_bytes;
    begin_ = reinterpret_cast<uint8_t*>(out.prepare(bytes_of(size) + size));
    at = CodedOutputStream::WriteVarint64ToArray(size, begin_);
    if (id.numeric) {
      at = write_key(at, 20, varint);
      at = CodedOutputStream::WriteVarint64ToArray(number, at);
    } else {
      at = write_key(at, 1, bytes);
      at = write_text(id.bytes);
    }
    at = write_key(at, field, bytes);
    at = CodedOutputStream::WriteVarint64ToArray(body_bytes, at);
  }
  uint8_t* write_text(std::string_view text) {
    at = CodedOutputStream::WriteVarint64ToArray(text.size(), at);
    if (!text.empty()) std::memcpy(at, text.data(), text.size());
    return at + text.size();
  }
  void close() { out_.commit(static_cast<size_t>(at - begin_)); }

  uint8_t* at;

 private:
  base::Buffer& out_;
  uint8_t* begin_;
};

void append_level(const LimitdId& id, uint32_t field, const LimitdLevel& level, base::Buffer& out) {
  Reply reply(id, field, bytes_of(level), out);
  reply.at = write(reply.at, 1, level);
  reply.close();
}

LimitdLevel level_of(const limit::Decision& decision, base::Time now) {
  return {decision.remaining, limitd_reset(decision.reset_after, now), decision.limit};
}

size_t item_bytes(const request::Listed& item, const LimitdLevel& level) {
  const size_t instance = item.key.empty() ? 0 : 1 + bytes_of(item.key.size()) + item.key.size();
  return instance + bytes_of(level);
}

}  // namespace

bool read_limitd_request(std::string_view body, LimitdRequest& request) {
  request = {};
  bool has_method = false;
  uint64_t method = 0;
  for (Reader in(body); !in.at_end();) {
    uint32_t key;
    if (!in.read_key(key)) return false;
    bool good;
    switch (key) {
      case key_of(1, bytes):
        request.id.numeric = false;
        good = in.read_text(request.id.bytes);
        break;
      case key_of(2, bytes):
        good = in.read_text(request.type);
        break;
      case key_of(3, bytes):
        good = in.read_text(request.key);
        break;
      case key_of(4, varint):
        has_method = true;
        good = in.read_number(method);
        break;
      case key_of(5, varint):
        good = in.read_signed(request.count);
        break;
      case key_of(6, varint):
        good = in.read_bool(request.all);
        break;
      case key_of(7, varint):
        good = in.read_bool(request.silent);
        break;
      case key_of(20, varint):
        request.id.numeric = true;
        good = in.read_raw_number(request.id.bytes);
        break;
      default:
        good = in.skip(key);
    }
    if (!good) return false;
  }
  // Encoders of the proto3 generation leave TAKE out, as it is 0.
  if (!has_method && request.type.empty()) return false;
  if (method > static_cast<uint64_t>(LimitdMethod::get)) return false;
  request.method = static_cast<LimitdMethod>(method);
  return true;
}

uint64_t limitd_reset(base::Duration after, base::Time now) {
  if (after == base::never) return 0;
  int64_t at;
  if (__builtin_add_overflow(now.us, after.us, &at)) at = std::numeric_limits<int64_t>::max();
  if (at <= 0) return 0;
  return (static_cast<uint64_t>(at) + 999'999) / 1'000'000;
}

void append_limitd_unknown_type(const LimitdId& id, base::Buffer& out) {
  Reply reply(id, error_field, 2, out);
  reply.at = write_key(reply.at, 1, varint);
  *reply.at++ = 1;  // UNKNOWN_BUCKET_TYPE
  reply.close();
}

void append_limitd_pong(const LimitdId& id, base::Buffer& out) {
  Reply(id, pong_field, 0, out).close();
}

void append_limitd_take(const LimitdId& id, bool conformant, bool delayed, const LimitdLevel& level,
                        base::Buffer& out) {
  Reply reply(id, take_field, 2 + (delayed ? 2u : 0u) + bytes_of(level), out);
  reply.at = write_key(reply.at, 1, varint);
  *reply.at++ = conformant;
  if (delayed) {
    reply.at = write_key(reply.at, 2, varint);
    *reply.at++ = 1;
  }
  reply.at = write(reply.at, 3, level);
  reply.close();
}

void append_limitd_put(const LimitdId& id, const LimitdLevel& level, base::Buffer& out) {
  append_level(id, put_field, level, out);
}

void append_limitd_get(const LimitdId& id, const LimitdLevel& level, base::Buffer& out) {
  append_level(id, get_field, level, out);
}

void append_limitd_status(const LimitdId& id, std::span<const request::Listed> listed,
                          base::Time now, base::Buffer& out) {
  size_t size = 0;
  for (const request::Listed& item : listed) {
    const size_t one = item_bytes(item, level_of(item.decision, now));
    size += 1 + bytes_of(one) + one;
  }
  Reply reply(id, status_field, size, out);
  for (const request::Listed& item : listed) {
    const LimitdLevel level = level_of(item.decision, now);
    reply.at = write_key(reply.at, 1, bytes);
    reply.at = CodedOutputStream::WriteVarint64ToArray(item_bytes(item, level), reply.at);
    if (!item.key.empty()) {
      reply.at = write_key(reply.at, 1, bytes);
      reply.at = reply.write_text(item.key);
    }
    reply.at = write(reply.at, 2, level);
  }
  reply.close();
}

}  // namespace sluice::limitd
