// Memory for many small objects that are looked up at random places. It uses huge pages where the
// system has them, because such a lookup mostly waits for address translation. Internal to
// policy/overrides.cc; one thread at a time.
#pragma once

#include <sys/mman.h>

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <new>
#include <utility>
#include <vector>

#include "base/check.h"

namespace sluice::policy {

inline constexpr size_t huge_page_bytes = size_t{2} << 20;

// Returns zeroed memory; it is given back with the same `bytes`.
inline void* map_memory(size_t bytes) {
  const bool huge = bytes >= huge_page_bytes;
  bytes = (bytes + (huge ? huge_page_bytes : 4096) - 1) & ~((huge ? huge_page_bytes : 4096) - 1);
  // Some more, so that it can begin at the start of a huge page.
  const size_t room = bytes + (huge ? huge_page_bytes : 0);
  void* const at = mmap(nullptr, room, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (at == MAP_FAILED) throw std::bad_alloc();
  if (!huge) return at;
  char* const begin = static_cast<char*>(at);
  const size_t skip =
      (huge_page_bytes - reinterpret_cast<size_t>(at) % huge_page_bytes) % huge_page_bytes;
  if (skip > 0) munmap(begin, skip);
  if (skip < huge_page_bytes) munmap(begin + skip + bytes, huge_page_bytes - skip);
  madvise(begin + skip, bytes, MADV_HUGEPAGE);
  return begin + skip;
}

inline void unmap_memory(void* at, size_t bytes) {
  const size_t page = bytes >= huge_page_bytes ? huge_page_bytes : 4096;
  munmap(at, (bytes + page - 1) & ~(page - 1));
}

// A pool for objects of one type, which are taken and given back one at a time. Its memory returns
// to the system only when the pool is destroyed.
template <class T>
class Pool {
 public:
  Pool() = default;
  ~Pool() {
    for (const auto& [at, bytes] : chunks_) unmap_memory(at, bytes);
  }
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;

  template <class... Parts>
  T* make(Parts&&... parts) {
    static_assert(sizeof(T) >= sizeof(void*) && alignof(T) <= 4096);
    if (free_ == nullptr && next_ == end_) grow();
    void* place = free_;
    if (place != nullptr)
      free_ = *static_cast<void**>(free_);
    else
      place = std::exchange(next_, next_ + sizeof(T));
    return new (place) T{std::forward<Parts>(parts)...};
  }
  void free(T* one) {
    one->~T();
    *reinterpret_cast<void**>(one) = free_;
    free_ = one;
  }

 private:
  void grow() {
    const size_t bytes =
        chunks_.empty() ? size_t{64} << 10 : std::min(chunks_.back().second * 4, size_t{16} << 20);
    char* const at = static_cast<char*>(map_memory(bytes));
    chunks_.emplace_back(at, bytes);
    next_ = at;
    end_ = at + bytes / sizeof(T) * sizeof(T);
  }

  std::vector<std::pair<void*, size_t>> chunks_;
  char *next_ = nullptr, *end_ = nullptr;
  void* free_ = nullptr;
};

}  // namespace sluice::policy
