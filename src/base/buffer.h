// A growable run of bytes for output: appended at the end, handed out whole, cleared without giving
// memory back. Owned and used by one thread. Views of it live until the next append or clear.
#pragma once

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

  std::string_view view() const { return {bytes_.get(), size_}; }
  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  void clear() { size_ = 0; }

 private:
  void grow(size_t n);

  std::unique_ptr<char[]> bytes_;
  size_t size_ = 0, capacity_ = 0;
};

}  // namespace sluice::base
