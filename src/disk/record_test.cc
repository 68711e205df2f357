// The bytes of records, blocks and dictionary entries (disk/record.h): what is written is read
// back, and damage is noticed or harmless.
#include "disk/record.h"

#include <gtest/gtest.h>

#include <map>

#include "tests/support/dice.h"

namespace sluice::disk {
namespace {

using limit::Algorithm;
using limit::Limit;
using limit::State;

struct Plain {
  uint32_t space, limits;
  std::string key;
  std::vector<State> cells;
  int64_t forget_us;
  friend bool operator==(const Plain&, const Plain&) = default;
};

Plain plain_of(const StoredCounter& c) {
  const auto cells = c.state();
  return {c.space, c.limits, std::string(c.key), {cells.begin(), cells.end()}, c.forget_us};
}

// A number of any size, often one at the end of the range.
int64_t any(tests::Dice& dice) {
  switch (dice(6)) {
    case 0:
      return INT64_MAX;
    case 1:
      return INT64_MIN;
    case 2:
      return 0;
    default: {
      const auto bits = static_cast<int64_t>(dice(UINT64_MAX));
      return bits >> dice(64);
    }
  }
}

Plain random_record(tests::Dice& dice) {
  Plain p{dice(3u) + 1, dice(4u), std::string(dice(40u), 'k'), {}, any(dice)};
  for (char& c : p.key) c = static_cast<char>(dice(256));
  const size_t cells = dice(4) == 0 ? dice(limit::cells_max + 1) : dice(4u);
  for (size_t i = 0; i < cells; ++i) p.cells.push_back({any(dice), any(dice)});
  if (cells == 0) {
    p.limits = 0;
    p.forget_us = INT64_MAX;
  }
  return p;
}

std::string block_of(const std::vector<Plain>& records) {
  BlockWriter writer;
  for (const Plain& p : records) writer.add(p.space, p.limits, p.key, p.cells, p.forget_us);
  EXPECT_EQ(writer.count(), records.size());
  return writer.take();
}

TEST(Record, ReadsBackRandomRecords) {
  tests::Dice dice(1);
  for (int round = 0; round < 2000; ++round) {
    std::vector<Plain> records;
    for (int n = dice(20) + 1; n > 0; --n) records.push_back(random_record(dice));
    const std::string block = block_of(records);

    BlockReader reader(block);
    EXPECT_EQ(reader.count(), records.size());
    StoredCounter stored;
    for (const Plain& p : records) {
      ASSERT_TRUE(reader.next(stored));
      ASSERT_EQ(plain_of(stored), p);
    }
    EXPECT_FALSE(reader.next(stored));
    EXPECT_TRUE(reader.sound());

    // The keys and values that a fold makes of the block are read back as well.
    BlockReader packed(block);
    PackedCounter counter;
    for (const Plain& p : records) {
      ASSERT_TRUE(packed.next(counter));
      std::string key, value;
      append_key(key, counter.space, counter.key);
      append_value(value, packed.base_us(), counter.state);
      ASSERT_TRUE(parse_key(key, stored.space, stored.key));
      ASSERT_EQ(counter.state.empty(), p.cells.empty());
      if (p.cells.empty()) continue;
      ASSERT_TRUE(parse_value(value, stored));
      ASSERT_EQ(plain_of(stored), p);
      ASSERT_EQ(forget_us_of(value), p.forget_us);
    }
    EXPECT_TRUE(!packed.next(counter) && packed.sound());
  }
}

TEST(Record, AWriterReusesTheMemoryItIsGiven) {
  BlockWriter writer;
  const State cell{5, 6};
  for (int round = 0; round < 5; ++round) {
    for (int i = 0; i < 10; ++i) writer.add(1, 1, "key" + std::to_string(i), {&cell, 1}, 7);
    std::string block = writer.take();
    EXPECT_EQ(block_of(std::vector<Plain>(1, Plain{1, 1, "x", {cell}, 7})).size() > 0, true);
    BlockReader reader(block);
    StoredCounter stored;
    int n = 0;
    while (reader.next(stored)) EXPECT_EQ(stored.key, "key" + std::to_string(n++));
    EXPECT_EQ(n, 10);
    EXPECT_TRUE(reader.sound());
    writer.give(std::string(100'000, 'z'));
  }
}

// A block that is cut anywhere is refused; one with any single bit flipped is read without harm.
TEST(Record, ACutBlockIsReportedAndAFlippedBitIsHarmless) {
  tests::Dice dice(2);
  std::vector<Plain> records;
  for (int n = 0; n < 6; ++n) records.push_back(random_record(dice));
  const std::string block = block_of(records);
  StoredCounter stored;
  for (size_t bytes = 0; bytes < block.size(); ++bytes) {
    BlockReader reader(std::string_view(block).substr(0, bytes));
    while (reader.next(stored)) {
    }
    EXPECT_FALSE(reader.sound()) << bytes;
  }
  for (size_t bit = 0; bit < block.size() * 8; ++bit) {
    std::string other = block;
    other[bit / 8] = static_cast<char>(other[bit / 8] ^ (1 << (bit % 8)));
    BlockReader reader(other);
    while (reader.next(stored)) EXPECT_LE(stored.cell_count, limit::cells_max);
  }
  const std::string more = block + "x";
  BlockReader longer(more);
  while (longer.next(stored)) {
  }
  EXPECT_FALSE(longer.sound());
}

TEST(Record, OnlyTheShortestFormOfANumberIsRead) {
  for (const std::string_view bytes :
       {std::string_view("\x80\x00", 2), std::string_view("\x80"),
        std::string_view("\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02")}) {
    uint64_t n;
    EXPECT_FALSE(Input(bytes).varint(n));
  }
  for (unsigned shift = 0; shift < 64; ++shift) {
    for (const uint64_t n : {uint64_t{1} << shift, (uint64_t{1} << shift) - 1}) {
      char bytes[varint_bytes_max];
      const char* const end = put_varint(bytes, n);
      uint64_t again = 0;
      EXPECT_TRUE(Input({bytes, static_cast<size_t>(end - bytes)}).varint(again));
      EXPECT_EQ(again, n);
    }
  }
}

TEST(Record, ReadsBackSpacesAndLimits) {
  request::Space space{.prefix = std::string("a\0b", 3), .suffix = ":x"};
  space.carry = limit::CarryOver::left;
  space.keep_fresh_for = base::seconds(120);
  space.windows = {{1}, {5}, base::seconds(60)};
  std::string bytes;
  append_space(bytes, space);
  request::Space again;
  ASSERT_TRUE(parse_space(bytes, again));
  EXPECT_EQ(again.prefix, space.prefix);
  EXPECT_EQ(again.suffix, space.suffix);
  EXPECT_EQ(again.carry, space.carry);
  EXPECT_EQ(again.keep_fresh_for, space.keep_fresh_for);
  EXPECT_EQ(again.windows, space.windows);
  for (size_t n = 0; n < bytes.size(); ++n) EXPECT_FALSE(parse_space(bytes.substr(0, n), again));
  EXPECT_FALSE(parse_space(bytes + '\0', again));

  const std::vector<Limit> limits{{Algorithm::token_bucket, 10, base::seconds(1), 20},
                                  {Algorithm::sliding_log, 3, base::seconds(60), 0},
                                  {Algorithm::fixed_bucket, 7, {}, 7}};
  bytes.clear();
  append_limits(bytes, limits);
  std::vector<Limit> limits_again;
  ASSERT_TRUE(parse_limits(bytes, limits_again));
  EXPECT_EQ(limits_again, limits);
  for (size_t n = 0; n < bytes.size(); ++n)
    EXPECT_FALSE(parse_limits(bytes.substr(0, n), limits_again));
  // Limits that no algorithm could decide with are refused.
  bytes.clear();
  append_limits(bytes, std::vector<Limit>{{Algorithm::token_bucket, 0, base::seconds(1), 20}});
  EXPECT_FALSE(parse_limits(bytes, limits_again));
}

// The example of docs/store-format.md.
TEST(Record, TheExampleOfTheManual) {
  const State cell{1'700'000'003'000'000, 7};
  BlockWriter writer;
  writer.add(1, 2, "10.0.0.7", {&cell, 1}, 1'700'000'003'000'000);
  writer.add(1, 0, "10.0.0.8", {}, INT64_MAX);
  EXPECT_EQ(writer.take(), std::string("\x01\x02\x00\x00\x00\xc0\x06\x4c\x18\x24\x0a\x06\x00"
                                       "\x01\x08"
                                       "10.0.0.7"
                                       "\x05\x04\x00\x01\x00\x0e"
                                       "\x01\x08"
                                       "10.0.0.8"
                                       "\x00",
                                       40));
}

}  // namespace
}  // namespace sluice::disk
