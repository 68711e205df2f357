// Bytes for the length of one batch: handed out from blocks that are kept, so that a settled user
// of it allocates nothing. Owned and used by one thread. What it gave lives until `clear`.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

namespace sluice::base {

class Arena {
 public:
  char* allocate(size_t bytes);
  void clear();

 private:
  static constexpr size_t block_bytes = 4096;

  struct Block {
    std::unique_ptr<char[]> bytes;
    size_t size;
  };
  std::vector<Block> blocks_;  // all but unusually large ones are kept
  size_t block_ = 0, used_ = 0;
};

}  // namespace sluice::base
