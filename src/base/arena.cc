#include "base/arena.h"

#include <algorithm>

namespace sluice::base {

char* Arena::allocate(size_t bytes) {
  while (block_ < blocks_.size() && blocks_[block_].size - used_ < bytes) {
    ++block_;
    used_ = 0;
  }
  if (block_ == blocks_.size()) {
    const size_t size = std::max(bytes, block_bytes);
    blocks_.push_back({std::unique_ptr<char[]>(new char[size]), size});
    used_ = 0;
  }
  char* at = blocks_[block_].bytes.get() + used_;
  used_ += bytes;
  return at;
}

void Arena::clear() {
  if (block_ > 0 || (!blocks_.empty() && blocks_.front().size > block_bytes)) {
    std::erase_if(blocks_, [](const Block& block) { return block.size > block_bytes; });
  }
  block_ = used_ = 0;
}

}  // namespace sluice::base
