// Text that is put together from many short pieces, behind what a buffer has: the room is asked for
// once, and each piece is then a copy of a known size. One thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "base/buffer.h"
#include "base/check.h"
#include "base/decimal.h"

namespace sluice::base {

class TextWriter {
 public:
  // `room`: bytes that are written at most. The buffer must not be touched until `finish`.
  TextWriter(Buffer& out, size_t room)
      : out_(out), begin_(out.prepare(room)), end_(begin_), limit_(begin_ + room) {}
  TextWriter(const TextWriter&) = delete;
  TextWriter& operator=(const TextWriter&) = delete;

  // A literal.
  template <size_t size>
  void put(const char (&text)[size]) {
    std::memcpy(end_, text, size - 1);
    end_ += size - 1;
  }
  void put(std::string_view text) {
    if (text.empty()) return;
    std::memcpy(end_, text.data(), text.size());
    end_ += text.size();
  }
  void put(char c) { *end_++ = c; }
  void put_number(uint64_t number) { end_ = write_decimal(number, end_); }

  // Makes what was written part of the buffer. Once.
  void finish() {
    SLUICE_CHECK(end_ <= limit_);
    out_.commit(static_cast<size_t>(end_ - begin_));
  }

 private:
  Buffer& out_;
  char* const begin_;
  char* end_;
  const char* const limit_;
};

}  // namespace sluice::base
