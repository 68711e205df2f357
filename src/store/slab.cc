#include "store/slab.h"

#include <new>

#include "base/check.h"

namespace sluice::store {

// At the start of each chunk; places follow. Offsets count units from the chunk's start.
struct Slab::Chunk {
  Ref previous, next;  // in the list of chunks with room
  uint16_t live;       // places handed out
  uint16_t cut;        // places ever cut off the front
  uint16_t free;       // first freed place; each holds the offset of the next; 0: none
  uint16_t places;     // that fit
};

namespace {

uint16_t& link_at(void* place) {
  return *static_cast<uint16_t*>(place);
}

}  // namespace

void Slab::link(Region& region, size_t size_class, Ref chunk) {
  auto& header = *static_cast<Chunk*>(region.at(chunk));
  header.previous = 0;
  header.next = open_[size_class];
  if (header.next != 0) static_cast<Chunk*>(region.at(header.next))->previous = chunk;
  open_[size_class] = chunk;
}

void Slab::unlink(Region& region, size_t size_class, Chunk& header) {
  if (header.next != 0) static_cast<Chunk*>(region.at(header.next))->previous = header.previous;
  if (header.previous != 0) {
    static_cast<Chunk*>(region.at(header.previous))->next = header.next;
  } else {
    open_[size_class] = header.next;
  }
}

Ref Slab::allocate(Region& region, size_t bytes) {
  SLUICE_CHECK(bytes > 0 && bytes <= bytes_max);
  const size_t size_class = class_of(bytes);
  Ref chunk = open_[size_class];
  if (chunk == 0) {
    chunk = region.take_chunk();
    if (chunk == 0) return 0;
    auto* header = new (region.at(chunk)) Chunk{};
    header->places =
        static_cast<uint16_t>((Region::chunk_bytes - sizeof(Chunk)) / bytes_of(size_class));
    link(region, size_class, chunk);
  }
  auto& header = *static_cast<Chunk*>(region.at(chunk));
  Ref place;
  if (header.free != 0) {
    place = chunk + header.free;
    header.free = link_at(region.at(place));
  } else {
    place = chunk + static_cast<Ref>((sizeof(Chunk) + header.cut * bytes_of(size_class)) /
                                     Region::unit_bytes);
    ++header.cut;
  }
  if (++header.live == header.places) unlink(region, size_class, header);
  return place;
}

void Slab::free(Region& region, Ref place, size_t bytes) {
  const size_t size_class = class_of(bytes);
  const Ref chunk = Region::chunk_of(place);
  auto& header = *static_cast<Chunk*>(region.at(chunk));
  if (header.live-- == header.places) link(region, size_class, chunk);
  if (header.live == 0) {
    unlink(region, size_class, header);
    region.give_back_chunk(chunk);
    return;
  }
  link_at(region.at(place)) = header.free;
  header.free = static_cast<uint16_t>(place - chunk);
}

}  // namespace sluice::store
