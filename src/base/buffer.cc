#include "base/buffer.h"

#include <algorithm>

namespace sluice::base {

void Buffer::grow(size_t n) {
  const size_t capacity = std::max<size_t>({256, capacity_ * 2, size_ + n});
  std::unique_ptr<char[]> bytes(new char[capacity]);
  if (size_ > 0) std::memcpy(bytes.get(), bytes_.get(), size_);
  bytes_ = std::move(bytes);
  capacity_ = capacity;
}

}  // namespace sluice::base
