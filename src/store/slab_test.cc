// The memory of a stripe's entries (store/region.h): places in chunks of one bounded region.
#include <gtest/gtest.h>

#include <cstring>
#include <set>
#include <vector>

#include "store/region.h"
#include "tests/support/dice.h"

namespace sluice::store {
namespace {

struct Place {
  Ref ref;
  size_t bytes;
  unsigned char fill;
};

bool holds(const Region& region, const Place& p) {
  const auto* at = static_cast<const unsigned char*>(region.at(p.ref));
  for (size_t i = 0; i < p.bytes; ++i) {
    if (at[i] != p.fill) return false;
  }
  return true;
}

// Each place is filled with a pattern of its own: no two places overlap, and none loses its bytes
// while others are allocated and freed.
TEST(Slab, PlacesNeverOverlap) {
  Region region(size_t{64} << 20);
  Slab slab;
  sluice::tests::Dice random(7);
  std::vector<Place> places;
  for (int step = 0; step < 200'000; ++step) {
    const bool add = places.empty() || random(100) < (step / 20'000 % 2 == 0 ? 60 : 40);
    if (add) {
      Place p{0, 1 + random(random(4) == 0 ? Slab::bytes_max : 100),
              static_cast<unsigned char>(random(256))};
      p.ref = slab.allocate(region, p.bytes);
      ASSERT_NE(p.ref, 0u);
      std::memset(region.at(p.ref), p.fill, p.bytes);
      places.push_back(p);
    } else {
      std::swap(places[random(places.size())], places.back());
      const Place p = places.back();
      places.pop_back();
      ASSERT_TRUE(holds(region, p));
      slab.free(region, p.ref);
    }
  }
  for (const auto& p : places) {
    ASSERT_TRUE(holds(region, p));
    slab.free(region, p.ref);
  }
  EXPECT_EQ(region.bytes(), 0u);  // every chunk was given back
}

TEST(Slab, PlacesOfOneSizeFillAChunk) {
  Region region(size_t{16} << 20);
  Slab slab;
  std::set<Ref> chunks;
  const size_t count = (Region::chunk_bytes - 16) / 44;
  for (size_t i = 0; i < count; ++i) chunks.insert(Region::chunk_of(slab.allocate(region, 44)));
  EXPECT_EQ(chunks.size(), 1u);
  EXPECT_NE(Region::chunk_of(slab.allocate(region, 44)), *chunks.begin());
  EXPECT_EQ(region.bytes(), 2 * Region::chunk_bytes);
}

// Without a free chunk a place of a larger size is used, of at most twice the size that was asked
// for.
TEST(Slab, UsesALargerPlaceWithoutAFreeChunk) {
  Region region(size_t{16} << 20);
  Slab slab;
  while (region.bytes() + 2 * Region::chunk_bytes < region.bytes_max())
    ASSERT_NE(region.take_chunk(), 0u);
  const Ref large = slab.allocate(region, 80);
  ASSERT_NE(large, 0u);
  EXPECT_EQ(region.take_chunk(), 0u);
  EXPECT_EQ(slab.allocate(region, 36), 0u);
  const Ref small = slab.allocate(region, 40);
  EXPECT_EQ(Region::chunk_of(small), Region::chunk_of(large));
  EXPECT_EQ((small - large) * Region::unit_bytes, 80u);
  slab.free(region, small);
  EXPECT_EQ(slab.allocate(region, 80), small);
  slab.free(region, small);
  slab.free(region, large);
  EXPECT_NE(slab.allocate(region, 36), 0u);  // the chunk was given back
}

TEST(Region, ItsBoundIsExactAndChunksAreUsedAgain) {
  Region region(size_t{16} << 20);
  std::vector<Ref> chunks;
  while (const Ref chunk = region.take_chunk()) chunks.push_back(chunk);
  EXPECT_EQ(chunks.size(), (size_t{16} << 20) / Region::chunk_bytes - 1);  // place 0 is unused
  EXPECT_EQ(region.bytes(), chunks.size() * Region::chunk_bytes);
  EXPECT_EQ(std::set<Ref>(chunks.begin(), chunks.end()).size(), chunks.size());
  region.give_back_chunk(chunks.back());
  EXPECT_EQ(region.take_chunk(), chunks.back());
  EXPECT_EQ(region.take_chunk(), 0u);
}

TEST(Region, MemoryOutsideOfItCounts) {
  Region region(size_t{16} << 20);
  EXPECT_TRUE(region.charge(size_t{16} << 20));
  EXPECT_EQ(region.take_chunk(), 0u);
  EXPECT_FALSE(region.charge(1));
  region.release(Region::chunk_bytes);
  EXPECT_NE(region.take_chunk(), 0u);
}

}  // namespace
}  // namespace sluice::store
