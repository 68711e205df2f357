// The latest states of counters in blocks (disk/latest.h), against a map.
#include "disk/latest.h"

#include <gtest/gtest.h>

#include <map>
#include <optional>

#include "tests/support/dice.h"

namespace sluice::disk {
namespace {

using limit::State;

// The map is filled from the oldest block to the newest.
TEST(Latest, MatchesAMap) {
  tests::Dice dice(3);
  const base::Hash hash(7);
  Latest latest(hash);
  for (int round = 0; round < 300; ++round) {
    std::map<std::string, std::optional<State>> model;
    std::vector<std::string> blocks;
    const unsigned keys = 1u << dice(13);
    for (int n = dice(5) + 1; n > 0; --n) {
      BlockWriter writer;
      for (unsigned i = dice(3000u) + 1; i > 0; --i) {
        // Keys with common beginnings, keys that are the beginning of others, and keys with zero
        // bytes.
        std::string key(dice(4u) * 7, dice(2) == 0 ? 'a' : '\0');
        const unsigned number = dice(keys);
        if (number % 3 > 0) key += std::to_string(number);
        const uint32_t space = number % 200 + 1;
        const State cell{static_cast<int64_t>(dice(1u << 30)), static_cast<int64_t>(dice(9))};
        const bool forgotten = dice(5) == 0;
        writer.add(space, 1, key, {&cell, forgotten ? 0u : 1u}, cell.fresh_at_us);
        std::string stored;
        append_key(stored, space, key);
        model[stored] = forgotten ? std::nullopt : std::optional(cell);
      }
      blocks.push_back(writer.take());
    }
    for (auto at = blocks.rbegin(); at != blocks.rend(); ++at) {
      latest.open(*at);
      while (latest.step()) {
      }
    }
    ASSERT_TRUE(latest.sound());
    latest.sort();
    ASSERT_EQ(latest.size(), model.size());
    size_t i = 0;
    for (const auto& [key, cell] : model) {
      ASSERT_EQ(latest.key(i), key);
      ASSERT_EQ(latest.forgotten(i), !cell.has_value());
      if (cell) {
        std::string value;
        latest.append_value(i, value);
        StoredCounter stored;
        ASSERT_TRUE(parse_value(value, stored));
        ASSERT_EQ(stored.cell_count, 1u);
        ASSERT_EQ(stored.cells[0], *cell);
        ASSERT_EQ(stored.forget_us, cell->fresh_at_us);
      }
      ++i;
    }
    latest.clear();
  }
}

TEST(Latest, DetectsADamagedBlock) {
  const base::Hash hash(7);
  Latest latest(hash);
  latest.open(std::string_view("\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x01", 14));
  while (latest.step()) {
  }
  EXPECT_FALSE(latest.sound());
}

}  // namespace
}  // namespace sluice::disk
