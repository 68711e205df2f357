// A growable run of bytes for output: appended at the end, handed out whole, cleared without giving
// memory back. Owned and used by one thread. Views of it live until the next append, clear or
// release.
#pragma once

#include <charconv>
#include <cstddef>
#include <cstring>
#include <memory>
#include <string_view>

namespace sluice::base {

class Buffer {
 public:
  // Room for `n` more bytes, written by the caller and then made part of the buffer by `commit`.
  char* prepare(size_t n) {
    if (capacity_ - size_ < n) grow(n);
    return bytes_.get() + size_;
  }
  void commit(size_t n) { size_ += n; }

  void append(std::string_view text) {
    if (text.empty()) return;
    std::memcpy(prepare(text.size()), text.data(), text.size());
    size_ += text.size();
  }
  void append(char c) {
    *prepare(1) = c;
    ++size_;
  }
  template <class Integer>
  void append_decimal(Integer value) {
    char* at = prepare(24);
    size_ += static_cast<size_t>(std::to_chars(at, at + 24, value).ptr - at);
  }

  std::string_view view() const { return {bytes_.get(), size_}; }
  size_t size() const { return size_; }
  size_t capacity() const { return capacity_; }
  bool empty() const { return size_ == 0; }
  void clear() { size_ = 0; }
  void release() {
    bytes_.reset();
    size_ = capacity_ = 0;
  }

 private:
  void grow(size_t n);

  std::unique_ptr<char[]> bytes_;
  size_t size_ = 0, capacity_ = 0;
};

}  // namespace sluice::base
