#include "protocol/limitd/message.h"

#include <algorithm>
#include <limits>

#include "wire/protobuf.h"

namespace sluice::limitd {
namespace {

using Reader = wire::ProtobufReader<uint64_t>;
using wire::bytes;
using wire::protobuf_key;
using wire::varint;

enum RequestField : uint32_t {
  id_field = 1,
  type_field,
  key_field,
  method_field,
  count_field,
  all_field,
  silent_field,
  id2_field = 20
};
// The field of the body of an error reply; the fields of the other kinds follow in their order.
constexpr uint32_t error_field = 100;

constexpr uint32_t field_of(LimitdReply::Kind kind) {
  return error_field + static_cast<uint32_t>(kind);
}

// ---- Reading ----

// In protobuf a field's number and wire type together have 32 bits; a longer number is not a key.
bool read_key(Reader& in, uint32_t& key) {
  uint64_t wide;
  if (!in.read_number(wide) || wide > UINT32_MAX) return false;
  key = static_cast<uint32_t>(wide);
  return key >> 3 != 0;
}

bool skip(Reader& in, uint32_t key) {
  return in.skip(key, 0);
}

bool read_signed(Reader& in, int64_t& value) {
  uint64_t bits;
  if (!in.read_number(bits)) return false;
  value = static_cast<int64_t>(bits);
  return true;
}

bool read_bool(Reader& in, bool& value) {
  uint64_t bits;
  if (!in.read_number(bits)) return false;
  value = bits != 0;
  return true;
}

// Reads the field if it is an id. `good`: its value could be read.
bool is_id(Reader& in, uint32_t key, LimitdId& id, bool& good) {
  const bool numeric = key == protobuf_key(id2_field, varint);
  if (!numeric && key != protobuf_key(id_field, bytes)) return false;
  id.numeric = numeric;
  good = numeric ? in.read_raw_number(id.bytes) : in.read_text(id.bytes);
  return true;
}

// Reads remaining, reset and limit, whose fields have consecutive numbers from `first` on. Calls
// `other(in, key)` for every other field.
template <class Other>
bool read_level(std::string_view body, uint32_t first, LimitdLevel& level, Other&& other) {
  for (Reader in(body); !in.at_end();) {
    uint32_t key;
    if (!read_key(in, key)) return false;
    const bool good = key == protobuf_key(first, varint)       ? read_signed(in, level.remaining)
                      : key == protobuf_key(first + 1, varint) ? in.read_number(level.reset)
                      : key == protobuf_key(first + 2, varint) ? read_signed(in, level.limit)
                                                               : other(in, key);
    if (!good) return false;
  }
  return true;
}

bool read_item(std::string_view body, LimitdReply::Item& item) {
  return read_level(body, 2, item.level, [&](Reader& in, uint32_t key) {
    return key == protobuf_key(1, bytes) ? in.read_text(item.key) : skip(in, key);
  });
}

bool read_items(std::string_view body, std::vector<LimitdReply::Item>& items) {
  for (Reader in(body); !in.at_end();) {
    uint32_t key;
    if (!read_key(in, key)) return false;
    std::string_view item;
    const bool good = key == protobuf_key(1, bytes)
                          ? in.read_text(item) && read_item(item, items.emplace_back())
                          : skip(in, key);
    if (!good) return false;
  }
  return true;
}

bool read_body(std::string_view body, LimitdReply& reply) {
  switch (reply.kind) {
    case LimitdReply::Kind::take:
      return read_level(body, 3, reply.level, [&](Reader& in, uint32_t key) {
        return key == protobuf_key(1, varint)   ? read_bool(in, reply.conformant)
               : key == protobuf_key(2, varint) ? read_bool(in, reply.delayed)
                                                : skip(in, key);
      });
    case LimitdReply::Kind::put:
    case LimitdReply::Kind::get:
      return read_level(body, 1, reply.level, skip);
    case LimitdReply::Kind::status:
      return read_items(body, reply.items);
    case LimitdReply::Kind::error:
    case LimitdReply::Kind::pong:
      return true;
  }
  return false;
}

// ---- Writing ----

// An int32 field's value. Negative values are sign-extended, so they take ten bytes.
uint64_t narrow(int64_t value) {
  return static_cast<uint64_t>(std::clamp<int64_t>(value, INT32_MIN, INT32_MAX));
}

// remaining, reset and limit, which have consecutive numbers in every body. Their keys take one
// byte each.
size_t bytes_of(const LimitdLevel& level) {
  return 3 + wire::varint_bytes(narrow(level.remaining)) + wire::varint_bytes(level.reset) +
         wire::varint_bytes(narrow(level.limit));
}
void write(uint32_t first, const LimitdLevel& level, wire::ProtobufWriter& to) {
  to.number(first, narrow(level.remaining));
  to.number(first + 1, level.reset);
  to.number(first + 2, narrow(level.limit));
}

// Appends a frame with an id and `rest_bytes` more bytes, which `write(to)` writes.
template <class Write>
void append_frame(const LimitdId& id, size_t rest_bytes, base::Buffer& out, Write&& write) {
  uint64_t number = 0;
  if (id.numeric) Reader(id.bytes).read_number(number);
  const size_t size = rest_bytes + (id.numeric ? wire::number_bytes(id2_field, number)
                                               : wire::text_bytes(id_field, id.bytes.size()));
  char* const begin = out.prepare(wire::varint_bytes(size) + size);
  wire::ProtobufWriter to(begin);
  to.varint(size);
  if (id.numeric)
    to.number(id2_field, number);
  else
    to.text(id_field, id.bytes);
  write(to);
  out.commit(static_cast<size_t>(to.end() - begin));
}

// Appends a frame with one body of the given kind; `write(to)` writes its contents.
template <class Write>
void append_reply(const LimitdId& id, LimitdReply::Kind kind, size_t body_bytes, base::Buffer& out,
                  Write&& write) {
  const uint32_t field = field_of(kind);
  append_frame(id, wire::text_bytes(field, body_bytes), out, [&](wire::ProtobufWriter& to) {
    to.open(field, body_bytes);
    write(to);
  });
}

void append_level(const LimitdId& id, LimitdReply::Kind kind, const LimitdLevel& level,
                  base::Buffer& out) {
  append_reply(id, kind, bytes_of(level), out,
               [&](wire::ProtobufWriter& to) { write(1, level, to); });
}

LimitdLevel level_of(const limit::Decision& decision, base::Time now) {
  return {decision.remaining, limitd_reset(decision.reset_after, now), decision.limit};
}

size_t item_bytes(const request::Listed& item, const LimitdLevel& level) {
  return (item.key.empty() ? 0 : wire::text_bytes(1, item.key.size())) + bytes_of(level);
}

}  // namespace

bool read_limitd_request(std::string_view body, LimitdRequest& request) {
  request = {};
  bool has_method = false;
  uint64_t method = 0;
  for (Reader in(body); !in.at_end();) {
    uint32_t key;
    if (!read_key(in, key)) return false;
    bool good;
    switch (key) {
      case protobuf_key(type_field, bytes):
        good = in.read_text(request.type);
        break;
      case protobuf_key(key_field, bytes):
        good = in.read_text(request.key);
        break;
      case protobuf_key(method_field, varint):
        has_method = true;
        good = in.read_number(method);
        break;
      case protobuf_key(count_field, varint):
        request.has_count = true;
        good = read_signed(in, request.count);
        break;
      case protobuf_key(all_field, varint):
        good = read_bool(in, request.all);
        break;
      case protobuf_key(silent_field, varint):
        good = read_bool(in, request.silent);
        break;
      default:
        if (!is_id(in, key, request.id, good)) good = skip(in, key);
    }
    if (!good) return false;
  }
  // Proto3 encoders leave out a method TAKE, because its value is 0.
  if (!has_method && request.type.empty()) return false;
  if (method > static_cast<uint64_t>(LimitdMethod::get)) return false;
  request.method = static_cast<LimitdMethod>(method);
  return true;
}

void append_limitd_request(const LimitdRequest& request, base::Buffer& out) {
  const auto count = static_cast<uint64_t>(request.count);
  const auto method = static_cast<uint64_t>(request.method);
  const size_t size = wire::text_bytes(type_field, request.type.size()) +
                      wire::text_bytes(key_field, request.key.size()) +
                      wire::number_bytes(method_field, method) +
                      (request.has_count ? wire::number_bytes(count_field, count) : 0) +
                      (request.all ? wire::number_bytes(all_field, 1) : 0) +
                      (request.silent ? wire::number_bytes(silent_field, 1) : 0);
  append_frame(request.id, size, out, [&](wire::ProtobufWriter& to) {
    to.text(type_field, request.type);
    to.text(key_field, request.key);
    to.number(method_field, method);
    if (request.has_count) to.number(count_field, count);
    if (request.all) to.number(all_field, 1);
    if (request.silent) to.number(silent_field, 1);
  });
}

bool read_limitd_reply(std::string_view body, LimitdReply& reply) {
  reply = {};
  bool has_body = false;
  for (Reader in(body); !in.at_end();) {
    uint32_t key;
    if (!read_key(in, key)) return false;
    bool good;
    std::string_view inner;
    if (is_id(in, key, reply.id, good)) {
    } else if (key >= protobuf_key(error_field, bytes) && (key & 7) == bytes &&
               key <= protobuf_key(field_of(LimitdReply::Kind::get), bytes)) {
      has_body = true;
      reply.kind = static_cast<LimitdReply::Kind>((key >> 3) - error_field);
      good = in.read_text(inner) && read_body(inner, reply);
    } else {
      good = skip(in, key);
    }
    if (!good) return false;
  }
  return has_body;
}

uint64_t limitd_reset(base::Duration after, base::Time now) {
  if (after == base::never) return 0;
  int64_t at;
  if (__builtin_add_overflow(now.us, after.us, &at)) at = std::numeric_limits<int64_t>::max();
  if (at <= 0) return 0;
  return (static_cast<uint64_t>(at) + 999'999) / 1'000'000;
}

void append_limitd_unknown_type(const LimitdId& id, base::Buffer& out) {
  constexpr uint64_t unknown_bucket_type = 1;
  append_reply(id, LimitdReply::Kind::error, wire::number_bytes(1, unknown_bucket_type), out,
               [](wire::ProtobufWriter& to) { to.number(1, unknown_bucket_type); });
}

void append_limitd_pong(const LimitdId& id, base::Buffer& out) {
  append_reply(id, LimitdReply::Kind::pong, 0, out, [](wire::ProtobufWriter&) {});
}

void append_limitd_take(const LimitdId& id, bool conformant, bool delayed, const LimitdLevel& level,
                        base::Buffer& out) {
  const size_t size = 2 + (delayed ? 2u : 0u) + bytes_of(level);
  append_reply(id, LimitdReply::Kind::take, size, out, [&](wire::ProtobufWriter& to) {
    to.number(1, conformant);
    if (delayed) to.number(2, 1);
    write(3, level, to);
  });
}

void append_limitd_put(const LimitdId& id, const LimitdLevel& level, base::Buffer& out) {
  append_level(id, LimitdReply::Kind::put, level, out);
}

void append_limitd_get(const LimitdId& id, const LimitdLevel& level, base::Buffer& out) {
  append_level(id, LimitdReply::Kind::get, level, out);
}

void append_limitd_status(const LimitdId& id, std::span<const request::Listed> listed,
                          base::Time now, base::Buffer& out) {
  size_t size = 0;
  for (const request::Listed& item : listed)
    size += wire::text_bytes(1, item_bytes(item, level_of(item.decision, now)));
  append_reply(id, LimitdReply::Kind::status, size, out, [&](wire::ProtobufWriter& to) {
    for (const request::Listed& item : listed) {
      const LimitdLevel level = level_of(item.decision, now);
      to.open(1, item_bytes(item, level));
      if (!item.key.empty()) to.text(1, item.key);
      write(2, level, to);
    }
  });
}

}  // namespace sluice::limitd
