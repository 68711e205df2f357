#include "store/slab.h"

#include <new>

#include "base/check.h"

namespace sluice::store {

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
