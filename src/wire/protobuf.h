// Protobuf's wire format: reads the fields of a message one after the other, and writes fields to
// memory. The caller knows the fields of a message. Inlined, because each request and reply of a
// protocol on protobuf goes through it. Views point into the text that is read.
#pragma once

#include <google/protobuf/io/coded_stream.h>

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <type_traits>

namespace sluice::wire {

// The low three bits of a field's key; the other bits are the field's number.
enum ProtobufType : uint8_t {
  varint = 0,
  fixed64 = 1,
  bytes = 2,
  group = 3,
  group_end = 4,
  fixed32 = 5
};

constexpr uint32_t protobuf_key(uint32_t field, ProtobufType type) {
  return field << 3 | type;
}

// Which keys of fields are accepted. any: the low 32 bits count. valid: only those that protobuf
// allows, whose field number is 1 to 2^29 - 1.
enum class ProtobufKeys { any, valid };

// Number: uint64_t; or uint32_t if only the low 32 bits of a number, or of a length, count. False
// from any function: the message is broken, and no function may be called again.
template <class Number, ProtobufKeys keys = ProtobufKeys::any>
class ProtobufReader {
  static_assert(std::is_same_v<Number, uint64_t> || std::is_same_v<Number, uint32_t>);

 public:
  explicit ProtobufReader(std::string_view body)
      : body_(body),
        in_(reinterpret_cast<const uint8_t*>(body.data()), static_cast<int>(body.size())) {}

  bool at_end() const { return position() == body_.size(); }

  bool read_key(uint32_t& key) {
    if constexpr (keys == ProtobufKeys::any) return in_.ReadVarint32(&key);
    uint64_t wide;
    if (!in_.ReadVarint64(&wide) || wide < protobuf_key(1, varint) || wide > UINT32_MAX)
      return false;
    key = static_cast<uint32_t>(wide);
    return true;
  }
  // Reads a varint: a key or a number.
  bool read_number(Number& value) {
    if constexpr (std::is_same_v<Number, uint32_t>)
      return in_.ReadVarint32(&value);
    else
      return in_.ReadVarint64(&value);
  }
  bool read_fixed64(uint64_t& bits) { return in_.ReadLittleEndian64(&bits); }
  // Reads the bytes of a varint, without decoding it.
  bool read_raw_number(std::string_view& value) {
    const size_t from = position();
    uint64_t ignored;
    if (!in_.ReadVarint64(&ignored)) return false;
    value = body_.substr(from, position() - from);
    return true;
  }
  // Reads a length, and as many bytes.
  bool read_text(std::string_view& value) {
    if constexpr (std::is_same_v<Number, uint32_t>) {
      uint32_t size;
      return in_.ReadVarint32(&size) && read_bytes(size, value);
    } else {
      int size;
      return in_.ReadVarintSizeAsInt(&size) && read_bytes(static_cast<size_t>(size), value);
    }
  }
  // Skips the value of an unknown key. `groups_max`: the most groups within one another.
  bool skip(uint32_t key, int groups_max) {
    uint64_t number;
    std::string_view text;
    switch (key & 7) {
      case varint:
        return in_.ReadVarint64(&number);
      case fixed64:
        return in_.Skip(8);
      case bytes:
        return read_text(text);
      case group:
        return groups_max > 0 && skip_group(key >> 3, groups_max - 1);
      case fixed32:
        return in_.Skip(4);
      default:
        return false;
    }
  }

 private:
  size_t position() const { return static_cast<size_t>(in_.CurrentPosition()); }

  bool read_bytes(size_t size, std::string_view& value) {
    const void* data = nullptr;
    int left = 0;
    in_.GetDirectBufferPointerInline(&data, &left);
    if (size > static_cast<size_t>(left)) return false;
    value = {static_cast<const char*>(data), size};
    return in_.Skip(static_cast<int>(size));
  }
  bool skip_group(uint32_t field, int groups_max) {
    uint32_t key;
    while (read_key(key)) {
      if ((key & 7) == group_end) return key >> 3 == field;
      if (!skip(key, groups_max)) return false;
    }
    return false;
  }

  std::string_view body_;
  google::protobuf::io::CodedInputStream in_;
};

inline size_t varint_bytes(uint64_t value) {
  return google::protobuf::io::CodedOutputStream::VarintSize64(value);
}
// The size in bytes of a field: its key, and a number or a text.
inline size_t number_bytes(uint32_t field, uint64_t value) {
  return varint_bytes(uint64_t{field} << 3) + varint_bytes(value);
}
inline size_t text_bytes(uint32_t field, size_t size) {
  return number_bytes(field, size) + size;
}

// Writes to memory that has enough room.
class ProtobufWriter {
 public:
  explicit ProtobufWriter(char* at) : at_(reinterpret_cast<uint8_t*>(at)) {}

  void varint(uint64_t value) {
    at_ = google::protobuf::io::CodedOutputStream::WriteVarint64ToArray(value, at_);
  }
  void number(uint32_t field, uint64_t value) {
    key(field, wire::varint);
    varint(value);
  }
  void text(uint32_t field, std::string_view value) {
    open(field, value.size());
    if (!value.empty()) std::memcpy(at_, value.data(), value.size());
    at_ += value.size();
  }
  void fixed64(uint32_t field, uint64_t bits) {
    key(field, wire::fixed64);
    at_ = google::protobuf::io::CodedOutputStream::WriteLittleEndian64ToArray(bits, at_);
  }
  // Begins a message within the message; its `size` bytes must follow.
  void open(uint32_t field, size_t size) {
    key(field, bytes);
    varint(size);
  }
  char* end() const { return reinterpret_cast<char*>(at_); }

 private:
  void key(uint32_t field, ProtobufType type) {
    at_ = google::protobuf::io::CodedOutputStream::WriteVarint32ToArray(protobuf_key(field, type),
                                                                        at_);
  }

  uint8_t* at_;
};

// Append a field to a message that is not measured first: of what is within one another, the inner
// message is written by itself and then appended as a text.
inline void append_number(uint32_t field, uint64_t value, std::string& to) {
  const size_t begin = to.size();
  to.resize(begin + number_bytes(field, value));
  ProtobufWriter(to.data() + begin).number(field, value);
}
inline void append_text(uint32_t field, std::string_view value, std::string& to) {
  const size_t begin = to.size();
  to.resize(begin + text_bytes(field, value.size()));
  ProtobufWriter(to.data() + begin).text(field, value);
}
inline void append_fixed64(uint32_t field, uint64_t bits, std::string& to) {
  const size_t begin = to.size();
  to.resize(begin + varint_bytes(uint64_t{field} << 3) + sizeof bits);
  ProtobufWriter(to.data() + begin).fixed64(field, bits);
}
inline void append_double(uint32_t field, double value, std::string& to) {
  append_fixed64(field, std::bit_cast<uint64_t>(value), to);
}

}  // namespace sluice::wire
