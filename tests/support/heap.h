// The bytes of memory that this process has allocated and not freed, in every build: of a
// sanitizer, which has an allocator of its own, by its count. Exact to a block's rounding. Any
// thread.
#pragma once

#include <malloc.h>

#include <cstddef>

extern "C" [[gnu::weak]] size_t __sanitizer_get_current_allocated_bytes();

namespace sluice::tests {

inline size_t heap_bytes() {
  if (__sanitizer_get_current_allocated_bytes != nullptr)
    return __sanitizer_get_current_allocated_bytes();
  const struct mallinfo2 info = mallinfo2();
  return info.uordblks + info.hblkhd;
}

}  // namespace sluice::tests
