// One stripe of the table (store/stripe.h), against a map: finding, growing, sweeping, and a full
// region.
#include "store/stripe.h"

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "tests/support/dice.h"

namespace sluice::store {
namespace {

struct Fixture {
  explicit Fixture(size_t bytes = size_t{64} << 20) : region(bytes), heads(region, 1 << 20) {
    stripe.open(heads, 3, slab);
  }
  ~Fixture() { stripe.close(region); }

  Entry* find(uint32_t space, std::string_view key) {
    return stripe.find(region, hash(space, key), space, key);
  }
  Entry* insert(uint32_t space, std::string_view key, size_t cells, int64_t fresh_at_us) {
    Entry* entry = stripe.insert(region, hash, hash(space, key), space, key, cells);
    std::vector<limit::State> state;
    for (size_t cell = 0; cell < cells; ++cell)
      state.push_back({fresh_at_us, static_cast<int64_t>(cell) + 1});
    if (entry != nullptr) entry->store(state.data());
    return entry;
  }
  size_t sweep(int64_t now_us) {
    size_t dropped = 0;
    for (uint32_t chain = 0; chain < stripe.chains(); chain += 64) {
      dropped += stripe.sweep(region, {.now = {now_us}}, chain, 64);
    }
    return dropped;
  }

  base::Hash hash{1};
  Region region;
  Heads heads;
  Slab slab;
  Stripe stripe;
};

TEST(Stripe, IsAMap) {
  Fixture f;
  struct ScanPage {
    size_t cells;
    int64_t fresh_at_us;
  };
  std::map<std::pair<uint32_t, std::string>, ScanPage> model;
  sluice::tests::Dice random(11);
  int64_t now_us = 0;
  for (int step = 0; step < 300'000; ++step) {
    const uint32_t space = random(3u);
    std::string key = std::to_string(random(3'000));
    if (random(200) == 0) key.resize(random(size_t{5'000}), 'x');  // long keys are stored apart
    if (random(50) == 0) key.clear();
    Entry* entry = f.find(space, key);
    const auto at = model.find({space, key});
    ASSERT_EQ(entry != nullptr, at != model.end());
    if (entry != nullptr) {
      ASSERT_EQ(entry->key(), key);
      ASSERT_EQ(entry->cells(), at->second.cells);
      for (size_t cell = 0; cell < entry->cells(); ++cell) {
        ASSERT_EQ(entry->cell(cell),
                  (limit::State{at->second.fresh_at_us, static_cast<int64_t>(cell) + 1}));
      }
      if (random(3) == 0) {
        f.stripe.erase(f.region, f.hash(space, key), entry);
        model.erase(at);
      }
    } else {
      const ScanPage stored{1 + random(limit::cells_max), now_us + 1 + random(int64_t{100'000})};
      ASSERT_NE(f.insert(space, key, stored.cells, stored.fresh_at_us), nullptr);
      model[{space, key}] = stored;
    }
    ASSERT_EQ(f.stripe.entries(), model.size());
    if (step % 30'000 == 29'999) {
      now_us += 60'000;
      f.sweep(now_us);
      std::erase_if(model, [&](const auto& item) { return item.second.fresh_at_us <= now_us; });
      ASSERT_EQ(f.stripe.entries(), model.size());
    }
  }
}

TEST(Stripe, GrowsByOneChainAndShrinksWithItsSweep) {
  Fixture f;
  uint32_t chains = 0;
  for (uint32_t i = 0; i < 10'000; ++i) {
    ASSERT_NE(f.insert(0, std::to_string(i), 1, i < 100 ? 1'000 : 10), nullptr);
    ASSERT_LE(f.stripe.chains() - chains, chains == 0 ? 8u : 2u);
    chains = f.stripe.chains();
  }
  EXPECT_NEAR(chains, 12'500, 10);
  EXPECT_EQ(f.sweep(10), 9'900u);
  for (int i = 0; i < 100; ++i) f.sweep(10);
  EXPECT_LE(f.stripe.chains(), 100u * 5 / 2 + 1);
  for (uint32_t i = 0; i < 200; ++i)
    EXPECT_EQ(f.find(0, std::to_string(i)) != nullptr, i < 100) << i;
  for (uint32_t i = 0; i < 5'000; ++i) ASSERT_NE(f.insert(1, std::to_string(i), 2, 50), nullptr);
  for (uint32_t i = 0; i < 5'000; ++i) ASSERT_NE(f.find(1, std::to_string(i)), nullptr);
}

TEST(Stripe, KeepsAnEntryUntilAllItsLimitsAreFresh) {
  Fixture f;
  Entry* entry = f.insert(0, "k", 3, 10);
  const limit::State one_later[] = {{10, 1}, {11, 2}, {10, 3}};
  entry->store(one_later);
  EXPECT_EQ(f.sweep(10), 0u);
  EXPECT_EQ(f.sweep(11), 1u);
  EXPECT_EQ(f.find(0, "k"), nullptr);
}

TEST(Stripe, AnInsertWithoutMemoryFailsAndChangesNothing) {
  Fixture f(size_t{16} << 20);
  uint32_t count = 0;
  while (f.insert(0, std::to_string(count), 1, 1) != nullptr) ++count;
  EXPECT_GT(count, 3'000u);
  EXPECT_EQ(f.insert(0, std::string(100'000, 'x'), 1, 1), nullptr);
  for (uint32_t i = 0; i < count; ++i) ASSERT_NE(f.find(0, std::to_string(i)), nullptr);
  EXPECT_EQ(f.sweep(1), count);
  EXPECT_NE(f.insert(0, std::string(100'000, 'x'), 1, 1), nullptr);
}

TEST(Stripe, ReturnsMemoryAfterASweep) {
  Fixture f;
  for (size_t i = 0; i < 1'000; ++i) f.insert(0, std::string(2'000 + i, 'x'), 1, 1);
  EXPECT_GT(f.region.bytes(), 2'000'000u);
  EXPECT_EQ(f.sweep(1), 1'000u);
  EXPECT_EQ(f.region.bytes() % (64 << 10), 0u);  // rows of heads alone are kept
}

}  // namespace
}  // namespace sluice::store
