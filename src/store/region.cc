#include "store/region.h"

#include <sys/mman.h>

#include <new>
#include <utility>

#include "base/bounds.h"
#include "base/check.h"

namespace sluice::store {

void* reserve(size_t bytes) {
  void* at = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (at == MAP_FAILED) throw std::bad_alloc();
  // Lookups touch memory at random, so with small pages address translation takes most of their
  // time. A system without huge pages refuses this call, and is only slower.
  madvise(at, bytes, MADV_HUGEPAGE);
  return at;
}

Region::Region(size_t bytes_max)
    : bytes_max_(bytes_max), base_(static_cast<std::byte*>(reserve(bytes_max))) {
  SLUICE_CHECK(bytes_max >= 2 * chunk_bytes && bytes_max <= base::bounds::table_bytes_max);
}

Region::~Region() {
  munmap(base_, bytes_max_);
}

Ref Region::take_chunk() {
  if (!charge(chunk_bytes)) return 0;
  const std::lock_guard lock(mutex_);
  if (free_ != 0) return std::exchange(free_, *static_cast<const Ref*>(at(free_)));
  if (fresh_ + chunk_bytes > bytes_max_) {
    release(chunk_bytes);
    return 0;
  }
  const Ref chunk = static_cast<Ref>(fresh_ / unit_bytes);
  fresh_ += chunk_bytes;
  return chunk;
}

void Region::give_back_chunk(Ref chunk) {
  const std::lock_guard lock(mutex_);
  new (at(chunk)) Ref(std::exchange(free_, chunk));
  release(chunk_bytes);
}

bool Region::charge(size_t bytes) {
  size_t used = used_.load(std::memory_order_relaxed);
  do {
    if (bytes > bytes_max_ - used) return false;
  } while (!used_.compare_exchange_weak(used, used + bytes, std::memory_order_relaxed));
  return true;
}

void Region::release(size_t bytes) {
  used_.fetch_sub(bytes, std::memory_order_relaxed);
}

Heads::Heads(Region& region, uint32_t chains_max)
    : region_(region),
      chains_max_((chains_max + per_row - 1) / per_row * per_row),
      heads_(static_cast<Ref*>(reserve(chains_max_ / per_row * row_bytes))) {}

Heads::~Heads() {
  const size_t rows = chains_max_ / per_row;
  munmap(heads_, rows * row_bytes);
  region_.release(rows_ * row_bytes);
}

bool Heads::reach(uint32_t chains) {
  if (chains > chains_max_) return false;
  const uint32_t needed = (chains + per_row - 1) / per_row;
  uint32_t rows = rows_.load(std::memory_order_relaxed);
  while (rows < needed) {
    if (!region_.charge(row_bytes)) return false;
    if (rows_.compare_exchange_strong(rows, rows + 1, std::memory_order_relaxed)) {
      ++rows;
    } else {
      region_.release(row_bytes);  // another stripe was first
    }
  }
  return true;
}

// The header of each chunk; its places follow. Offsets are in units, from the chunk's start.
struct Slab::Chunk {
  Ref previous, next;   // in the list of chunks with room
  uint16_t live;        // places handed out
  uint16_t cut;         // places that were ever handed out from the front
  uint16_t free;        // offset of the first freed place, which holds the next one's; 0: none
  uint16_t size_class;  // of all its places

  static constexpr size_t places_of(size_t size_class) {
    return (Region::chunk_bytes - sizeof(Chunk)) / bytes_of(size_class);
  }
  bool is_full() const {
    static constexpr auto by_class = [] {
      std::array<uint16_t, classes> table{};
      for (size_t i = 0; i < classes; ++i) table[i] = static_cast<uint16_t>(places_of(i));
      return table;
    }();
    return live == by_class[size_class];
  }
};

namespace {

uint16_t& link_at(void* place) {
  return *static_cast<uint16_t*>(place);
}

}  // namespace

// The size class, by the number of units that are needed.
size_t Slab::class_of(size_t bytes) {
  static constexpr auto by_units = [] {
    std::array<uint8_t, bytes_max / unit + 1> table{};
    size_t size_class = 0;
    for (size_t units = 1; units < table.size(); ++units) {
      while (bytes_of(size_class) < units * unit) ++size_class;
      table[units] = static_cast<uint8_t>(size_class);
    }
    return table;
  }();
  return by_units[(bytes + unit - 1) / unit];
}

void Slab::link(Region& region, size_t size_class, Ref chunk) {
  auto& header = *static_cast<Chunk*>(region.at(chunk));
  header.previous = 0;
  header.next = open_[size_class];
  if (header.next != 0) static_cast<Chunk*>(region.at(header.next))->previous = chunk;
  open_[size_class] = chunk;
}

void Slab::unlink(Region& region, Chunk& header) {
  if (header.next != 0) static_cast<Chunk*>(region.at(header.next))->previous = header.previous;
  if (header.previous != 0) {
    static_cast<Chunk*>(region.at(header.previous))->next = header.next;
  } else {
    open_[header.size_class] = header.next;
  }
}

// Takes a chunk for the size class. False: the region is full.
bool Slab::open_chunk(Region& region, size_t size_class) {
  const Ref chunk = region.take_chunk();
  if (chunk == 0) return false;
  auto* header = new (region.at(chunk)) Chunk{};
  header->size_class = static_cast<uint16_t>(size_class);
  link(region, size_class, chunk);
  return true;
}

// The next larger class, up to twice the size, that has a free place; `classes`: none has.
size_t Slab::larger_class(size_t size_class) const {
  const size_t bytes_most = 2 * bytes_of(size_class);
  while (++size_class < classes && bytes_of(size_class) <= bytes_most)
    if (open_[size_class] != 0) return size_class;
  return classes;
}

Ref Slab::allocate(Region& region, size_t bytes) {
  SLUICE_CHECK(bytes > 0 && bytes <= bytes_max);
  std::unique_lock lock(mutex_, std::defer_lock);
  if (shared_) lock.lock();
  size_t size_class = class_of(bytes);
  if (open_[size_class] == 0 && !open_chunk(region, size_class)) {
    size_class = larger_class(size_class);
    if (size_class == classes) return 0;
  }
  const Ref chunk = open_[size_class];
  auto& header = *static_cast<Chunk*>(region.at(chunk));
  Ref place;
  if (header.free != 0) {
    place = chunk + header.free;
    header.free = link_at(region.at(place));
  } else {
    place = chunk + static_cast<Ref>((sizeof(Chunk) + header.cut * bytes_of(size_class)) / unit);
    ++header.cut;
  }
  ++header.live;
  if (header.is_full()) unlink(region, header);
  return place;
}

void Slab::free(Region& region, Ref place) {
  std::unique_lock lock(mutex_, std::defer_lock);
  if (shared_) lock.lock();
  const Ref chunk = Region::chunk_of(place);
  auto& header = *static_cast<Chunk*>(region.at(chunk));
  if (header.is_full()) link(region, header.size_class, chunk);
  if (--header.live == 0) {
    unlink(region, header);
    region.give_back_chunk(chunk);
    return;
  }
  link_at(region.at(place)) = header.free;
  header.free = static_cast<uint16_t>(place - chunk);
}

}  // namespace sluice::store
