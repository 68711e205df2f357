#include "tests/timed/allocations.h"

#include <atomic>
#include <cerrno>
#include <cstdlib>

namespace {

std::atomic<bool> counting{false};
std::atomic<size_t> allocations{0}, allocated_bytes{0};

void count(size_t bytes) {
  if (!counting.load(std::memory_order_relaxed)) return;
  allocations.fetch_add(1, std::memory_order_relaxed);
  allocated_bytes.fetch_add(bytes, std::memory_order_relaxed);
}

}  // namespace

// All allocations of this process call these functions, which call the C library's own by their
// other names.
extern "C" {
void* __libc_malloc(size_t);
void* __libc_calloc(size_t, size_t);
void* __libc_realloc(void*, size_t);
void* __libc_memalign(size_t, size_t);

void* malloc(size_t n) {
  count(n);
  return __libc_malloc(n);
}
void* calloc(size_t n, size_t m) {
  count(n * m);
  return __libc_calloc(n, m);
}
void* realloc(void* p, size_t n) {
  count(n);
  return __libc_realloc(p, n);
}
void* aligned_alloc(size_t alignment, size_t n) {
  count(n);
  return __libc_memalign(alignment, n);
}
int posix_memalign(void** p, size_t alignment, size_t n) {
  count(n);
  *p = __libc_memalign(alignment, n);
  return *p == nullptr ? ENOMEM : 0;
}
}

namespace sluice::tests {

Allocations::Allocations() {
  allocations = 0;
  allocated_bytes = 0;
  counting = true;
}
Allocations::~Allocations() {
  counting = false;
}

size_t Allocations::count() const {
  return allocations;
}
size_t Allocations::bytes() const {
  return allocated_bytes;
}

}  // namespace sluice::tests
