#include "wire/allocations_test.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <new>
#include <string>

namespace {

thread_local size_t count = 0;

void* counted(size_t bytes) {
  ++count;
  if (void* const memory = std::malloc(bytes == 0 ? 1 : bytes)) return memory;
  throw std::bad_alloc();
}

}  // namespace

void* operator new(size_t bytes) {
  return counted(bytes);
}
void* operator new[](size_t bytes) {
  return counted(bytes);
}
void operator delete(void* memory) noexcept {
  std::free(memory);
}
void operator delete[](void* memory) noexcept {
  std::free(memory);
}
void operator delete(void* memory, size_t) noexcept {
  std::free(memory);
}
void operator delete[](void* memory, size_t) noexcept {
  std::free(memory);
}

namespace sluice::tests {

size_t allocations() {
  return count;
}

TEST(Allocations, AreCounted) {
  const size_t before = allocations();
  delete new std::string(100, 'x');
  EXPECT_EQ(allocations() - before, 2u);
}

}  // namespace sluice::tests
