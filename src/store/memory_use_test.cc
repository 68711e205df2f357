// The share of the memory bound that counters can use, for keys of any lengths, and which counters
// still get memory when it is full. Filled to the first refusal; deterministic.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "limit/decide.h"
#include "store/asking_test.h"
#include "store/embedded_store.h"
#include "tests/support/dice.h"

namespace sluice::store::memory_use_test {
namespace {

using base::Time;
using sluice::tests::Dice;
using namespace tests;

constexpr size_t MiB = size_t{1} << 20;
constexpr int64_t second = 1'000'000;

// A table that is filled with counters of one limit; the caller draws the lengths of their keys.
struct Filled {
  explicit Filled(size_t memory_bytes) : store(memory_bytes, base::Hash(1), spaces) {
    space = spaces.intern("t/", "");
    limits = {window(1, 10 * second)};
    limits_id = spaces.intern_limits(limits);
    key.resize(1'000, 'k');
  }

  // False: refused. A key begins with its number, so it has at least 8 bytes.
  bool add(size_t length, Time now) {
    const uint64_t number = numbers++;
    for (size_t i = 0; i < 8; ++i) key[i] = static_cast<char>(number >> 8 * i);
    Charge charge;
    charge.space = space;
    charge.key = std::string_view(key).substr(0, length);
    charge.limits = limits;
    charge.limits_id = limits_id;
    Group group{.charge_count = 1};
    Decision decision;
    store.apply({{&group, 1}, {&charge, 1}, {&decision, 1}}, now);
    return group.error == request::Error::none;
  }

  // Fills the table to the first refusal. Returns the share of its memory that the entries take
  // without any overhead: a header, a cell and the key each.
  double fill(const std::function<size_t()>& length, Time now) {
    size_t bytes = 0;
    for (;;) {
      const size_t next = length();
      if (!add(next, now)) break;
      bytes += 32 + next;
    }
    const Stats stats = store.stats();
    EXPECT_LE(stats.memory_bytes, stats.memory_bytes_max);
    EXPECT_LE(bytes, stats.memory_bytes);
    return static_cast<double>(bytes) / static_cast<double>(stats.memory_bytes_max);
  }
  void sweep(Time now) { store.sweep(now, 4 * store.chains() + 4 * EmbeddedStore::stripes); }

  request::Spaces spaces;
  EmbeddedStore store;
  const Space* space;
  std::vector<Limit> limits;
  uint32_t limits_id;
  std::string key;
  uint64_t numbers = 0;
};

struct Table {
  size_t bytes;
  double least;  // the share of it that entries must reach
};
constexpr Table tables[] = {{16 * MiB, 0.60}, {64 * MiB, 0.80}};

// Lengths of 8 to 500 bytes, all equally frequent.
void expect_mixed(const Table& table) {
  Filled filled(table.bytes);
  Dice dice(1);
  const double share = filled.fill([&] { return 8 + dice(size_t{493}); }, {0});
  EXPECT_GE(share, table.least) << table.bytes / MiB << " MiB";
  testing::Test::RecordProperty("share", std::to_string(share));
}

TEST(MemoryUse, LengthsThatAreMixedEvenly) {
  for (const Table& table : tables) expect_mixed(table);
}

TEST(MemoryUse, LengthsThatAreMixedEvenlyInAGigabyte) {
  expect_mixed({1'024 * MiB, 0.80});
}

// Most keys are short: the logarithm of the length is evenly spread.
TEST(MemoryUse, LengthsOfWhichMostAreShort) {
  for (const Table& table : tables) {
    Filled filled(table.bytes);
    Dice dice(2);
    const auto length = [&] {
      const double share = static_cast<double>(dice(1'000'000)) / 1e6;
      return static_cast<size_t>(8 * std::pow(500.0 / 8, share));
    };
    const double share = filled.fill(length, {0});
    EXPECT_GE(share, table.least) << table.bytes / MiB << " MiB";
    RecordProperty("share", std::to_string(share));
  }
}

// Memory of short keys is used for long ones after the short ones have expired, and the same with
// long and short exchanged. (The heads of chains stay: up to an eighth of the memory.)
TEST(MemoryUse, LengthsThatChange) {
  for (const Table& table : tables) {
    Filled filled(table.bytes);
    Dice dice(3);
    Time now{0};
    for (int round = 0; round < 6; ++round) {
      const size_t least = round % 2 == 0 ? 8 : 300, most = round % 2 == 0 ? 40 : 500;
      EXPECT_GE(filled.fill([&] { return least + dice(most - least + 1); }, now), 0.70)
          << table.bytes / MiB << " MiB, round " << round;
      now.us += 20 * second;
      filled.sweep(now);
      EXPECT_EQ(filled.store.stats().counters, 0u);
      EXPECT_EQ(filled.store.stats().memory_bytes % (64 << 10), 0u);  // rows of heads alone
      EXPECT_LE(filled.store.stats().memory_bytes, table.bytes / 8);
    }
  }
}

TEST(MemoryUse, KeysOf16BytesTake56Each) {
  for (const Table& table : tables) {
    Filled filled(table.bytes);
    filled.fill([] { return size_t{16}; }, {0});
    const Stats stats = filled.store.stats();
    EXPECT_LE(stats.memory_bytes, stats.counters * 56);
    EXPECT_GE(stats.counters * 56, table.bytes / 100 * 97);
  }
}

}  // namespace
}  // namespace sluice::store::memory_use_test
