#include "wire/http2_pool.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

namespace sluice::wire {
namespace {

#if defined(__SANITIZE_ADDRESS__)
constexpr bool keeps_blocks = false;
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
constexpr bool keeps_blocks = false;
#else
constexpr bool keeps_blocks = true;
#endif
#else
constexpr bool keeps_blocks = true;
#endif

// The usable bytes of a block of each class. nghttp2's streams and queued frames need 64 to 320.
constexpr std::array<size_t, 11> class_bytes{48,   112,  176,  240,  368,   496,
                                             1008, 2032, 4080, 8176, 20'464};

// The class for each size up to small_bytes, in steps of 16 bytes, because most blocks are small.
constexpr size_t small_bytes = 1008;
using SmallClasses = std::array<uint8_t, small_bytes / 16 + 1>;

constexpr SmallClasses make_small_classes() {
  SmallClasses made{};
  size_t index = 0;
  for (size_t i = 0; i < made.size(); ++i) {
    while (class_bytes[index] < 16 * i) ++index;
    made[i] = static_cast<uint8_t>(index);
  }
  return made;
}
constexpr SmallClasses small_classes = make_small_classes();

}  // namespace

// Precedes each block.
struct alignas(16) Http2Pool::Header {
  size_t capacity;
  Header* next;  // the next free block of the class
};

size_t Http2Pool::class_of(size_t bytes) {
  if (bytes <= small_bytes) return small_classes[(bytes + 15) / 16];
  size_t index = small_classes.back();
  while (index < class_count && class_bytes[index] < bytes) ++index;
  return index;
}

Http2Pool::~Http2Pool() {
  for (Header* first : free_) {
    while (first != nullptr) {
      Header* const next = first->next;
      std::free(first);
      first = next;
    }
  }
}

void* Http2Pool::allocate(size_t bytes) {
  const size_t index = class_of(bytes);
  if (keeps_blocks && index < class_count && free_[index] != nullptr) {
    Header* const block = free_[index];
    free_[index] = block->next;
    kept_ -= block->capacity;
    ++blocks_;
    used_ += sizeof(Header) + block->capacity;
    return block + 1;
  }
  if (bytes > SIZE_MAX - sizeof(Header)) return nullptr;
  const size_t capacity = keeps_blocks && index < class_count ? class_bytes[index] : bytes;
  auto* const block = static_cast<Header*>(std::malloc(sizeof(Header) + capacity));
  if (block == nullptr) return nullptr;
  block->capacity = capacity;
  ++blocks_;
  ++system_blocks_;
  used_ += sizeof(Header) + capacity;
  return block + 1;
}

void Http2Pool::release(void* block) {
  if (block == nullptr) return;
  Header* const header = static_cast<Header*>(block) - 1;
  --blocks_;
  used_ -= sizeof(Header) + header->capacity;
  const size_t index = class_of(header->capacity);
  if (!keeps_blocks || index == class_count || kept_ + header->capacity > kept_bytes_max) {
    std::free(header);
    return;
  }
  header->next = free_[index];
  free_[index] = header;
  kept_ += header->capacity;
}

size_t Http2Pool::capacity(const void* block) {
  return (static_cast<const Header*>(block) - 1)->capacity;
}

void* Http2Pool::reallocate(void* block, size_t bytes) {
  if (block == nullptr) return allocate(bytes);
  const size_t before = capacity(block);
  if (bytes <= before && (keeps_blocks || bytes == before)) return block;
  void* const larger = allocate(bytes);
  if (larger == nullptr) return nullptr;
  std::memcpy(larger, block, std::min(before, bytes));
  release(block);
  return larger;
}

}  // namespace sluice::wire
