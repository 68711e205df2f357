// Numbers of varying length as the stored format has them: seven bits a byte, the lowest first, the
// top bit set on all but the last; signed ones in zigzag. Only the shortest form of a number is
// read, so that what is read is written back the same. Pure functions.
#pragma once

#include <cstdint>
#include <cstring>
#include <string_view>

namespace sluice::disk {

inline constexpr size_t varint_bytes_max = 10;

// Room for varint_bytes_max bytes. Returns the end.
inline char* put_varint(char* at, uint64_t n) {
  while (n >= 0x80) {
    *at++ = static_cast<char>(n | 0x80);
    n >>= 7;
  }
  *at++ = static_cast<char>(n);
  return at;
}

inline uint64_t zigzag(int64_t n) {
  return (static_cast<uint64_t>(n) << 1) ^ (n < 0 ? ~uint64_t{0} : 0);
}
inline int64_t unzigzag(uint64_t n) {
  return static_cast<int64_t>((n >> 1) ^ (0 - (n & 1)));
}

// Differences wrap around, so every pair of numbers has one and it always leads back.
inline int64_t wrapped_minus(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) - static_cast<uint64_t>(b));
}
inline int64_t wrapped_plus(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
}

// Takes from the front of a text. Each call says whether it was there; after one that was not, the
// rest means nothing.
class Input {
 public:
  explicit Input(std::string_view text) : at_(text.data()), end_(text.data() + text.size()) {}

  bool done() const { return at_ == end_; }
  const char* at() const { return at_; }
  size_t left() const { return static_cast<size_t>(end_ - at_); }

  bool varint(uint64_t& n) {
    if (at_ < end_ && static_cast<signed char>(*at_) >= 0) {
      n = static_cast<uint64_t>(static_cast<unsigned char>(*at_++));
      return true;
    }
    return long_varint(n);
  }
  bool number(int64_t& n) {
    uint64_t coded;
    if (!varint(coded)) return false;
    n = unzigzag(coded);
    return true;
  }
  bool byte(uint8_t& n) {
    if (done()) return false;
    n = static_cast<uint8_t>(*at_++);
    return true;
  }
  bool fixed32(uint32_t& n) { return fixed(n); }
  bool fixed64(uint64_t& n) { return fixed(n); }
  bool text(size_t bytes, std::string_view& out) {
    if (bytes > left()) return false;
    out = {at_, bytes};
    at_ += bytes;
    return true;
  }

 private:
  bool long_varint(uint64_t& n) {
    n = 0;
    for (unsigned shift = 0; shift < 64 && at_ < end_; shift += 7) {
      const auto bits = static_cast<unsigned char>(*at_++);
      n |= static_cast<uint64_t>(bits & 0x7f) << shift;
      if (bits < 0x80) return bits != 0 && (shift < 63 || bits == 1);
    }
    return false;
  }
  template <class Integer>
  bool fixed(Integer& n) {
    std::string_view bytes;
    if (!text(sizeof n, bytes)) return false;
    n = 0;
    for (size_t i = 0; i < sizeof n; ++i)
      n |= static_cast<Integer>(static_cast<Integer>(static_cast<unsigned char>(bytes[i]))
                                << (8 * i));
    return true;
  }

  const char *at_, *end_;
};

}  // namespace sluice::disk
