// The bytes of a store on disk (store/log/format.h): what is written is read again, and the bytes
// are those that docs/store-format.md describes.
#include "store/log/format.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <string>
#include <vector>

#include "base/bounds.h"
#include "limit/calendar.h"
#include "store/log/reading.h"
#include "tests/support/dice.h"

namespace sluice::disk {
namespace {

using limit::Algorithm;
using limit::Limit;
using limit::State;

std::string hex(std::string_view bytes) {
  std::string text;
  for (const char byte : bytes) {
    char one[3];
    std::snprintf(one, sizeof one, "%02x", static_cast<unsigned char>(byte));
    text += one;
  }
  return text;
}

// RFC 3720, B.4, and the usual check value.
TEST(StoreFormat, ChecksumsAreCrc32c) {
  std::string rising, falling;
  for (int i = 0; i < 32; ++i) {
    rising += static_cast<char>(i);
    falling += static_cast<char>(31 - i);
  }
  for (const auto& crc : {crc32c, crc32c_by_table}) {
    EXPECT_EQ(crc(0, "123456789"), 0xE3069283u);
    EXPECT_EQ(crc(0, std::string(32, '\0')), 0x8A9136AAu);
    EXPECT_EQ(crc(0, std::string(32, '\xff')), 0x62A8AB43u);
    EXPECT_EQ(crc(0, rising), 0x46DD794Eu);
    EXPECT_EQ(crc(0, falling), 0x113FDB5Cu);
  }
  tests::Dice dice(1);
  for (int i = 0; i < 2000; ++i) {
    std::string text(static_cast<size_t>(dice(100)), '\0');
    for (char& byte : text) byte = static_cast<char>(dice(256));
    const size_t cut = static_cast<size_t>(dice(100)) % (text.size() + 1);
    const uint32_t whole = crc32c(0, text);
    EXPECT_EQ(whole, crc32c_by_table(0, text));
    EXPECT_EQ(whole, crc32c(crc32c(0, text.substr(0, cut)), text.substr(cut)));
  }
}

TEST(StoreFormat, NumbersHaveOneForm) {
  for (const uint64_t n :
       {uint64_t{0}, uint64_t{127}, uint64_t{128}, uint64_t{1} << 40, UINT64_MAX}) {
    std::string text;
    append_varint(text, n);
    uint64_t read = 1;
    Input input(text);
    EXPECT_TRUE(input.varint(read) && input.done());
    EXPECT_EQ(read, n);
    for (size_t cut = 0; cut < text.size(); ++cut) {
      Input shorter(std::string_view(text).substr(0, cut));
      EXPECT_FALSE(shorter.varint(read));
    }
  }
  for (const std::string_view longer :
       {std::string_view("\x80\x00", 2),
        std::string_view("\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02")}) {
    uint64_t read;
    Input input(longer);
    EXPECT_FALSE(input.varint(read));
  }
  for (const int64_t n : {int64_t{0}, int64_t{-1}, int64_t{1}, INT64_MIN, INT64_MAX})
    EXPECT_EQ(unzigzag(zigzag(n)), n);
}

// The example of docs/store-format.md.
TEST(StoreFormat, TheExampleOfThePage) {
  request::Spaces spaces;
  const request::Space* const ip = spaces.intern("ip:", "");
  const uint32_t limits =
      spaces.intern_limits(std::vector<Limit>{{Algorithm::fixed_window, 10, base::seconds(1), 0}});
  CountersWriter writer(spaces);
  const State cell{1'700'000'003'000'000, 7};
  writer.add({ip, limits, "10.0.0.7", {&cell, 1}, cell.fresh_at_us});
  writer.add({ip, limits, "10.0.0.8", {}, INT64_MAX});
  WrittenBlock block = writer.take();
  block.seal(mark_of(0x0123456789abcdef, 2), 52);
  EXPECT_EQ(hex(block.body) + hex(block.rest),
            "ea572090"          // checksum
            "36000000"          // 54 bytes of body
            "f1cdab8967452301"  // of the file 2 of the store 0123456789abcdef
            "3400000000000000"  // 52 bytes were synced
            "02000000"          // counters
            "c0064c18240a0600"  // base: 1,700,000,003,000,000
            "01"                // one space, of eight bytes:
            "08"
            "03"
            "69703a"
            "00"
            "00"
            "00"
            "00"
            "01"  // one list of limits, of seven bytes: one fixed_window
            "07"
            "01"
            "02"
            "14"
            "80897a"
            "00"
            "02"  // two records:
            "00"
            "08"
            "31302e302e302e37"
            "01"  // space 0, 10.0.0.7, one cell
            "02"
            "00"  // list 1, and a time to forget, which is the base
            "00"
            "0e"  // its mark is that time as well; 7 units
            "00"
            "08"
            "31302e302e302e38"
            "00");  // 10.0.0.8 is forgotten
}

TEST(StoreFormat, CountersAreReadAsTheyWereWritten) {
  tests::Dice dice(7);
  for (int round = 0; round < 200; ++round) {
    request::Spaces spaces;
    Names names(spaces);
    struct Written {
      const request::Space* space;
      uint32_t limits;
      std::string key;
      std::vector<State> cells;
      int64_t forget_us;
    };
    std::vector<Written> all;
    CountersWriter writer(spaces);
    for (int i = 1 + dice(60); i > 0; --i) {
      request::Space like;
      const bool keeps = dice(4) == 0;
      if (keeps) like.windows = {{5}, {9}};
      const std::string prefix = (keeps ? "kept" : "p") + std::to_string(dice(40));
      Written one{spaces.intern(prefix, ":s", like),
                  0,
                  std::string(static_cast<size_t>(dice(30)), 'k'),
                  {},
                  INT64_MAX};
      if (!keeps) {
        const auto count = static_cast<size_t>(1 + dice(3));
        one.limits = spaces.intern_limits(std::vector<Limit>(
            count, {Algorithm::fixed_window, 1 + dice(int64_t{5}), base::seconds(1), 0}));
        one.cells.resize(dice(5) == 0 ? 0 : count);
      } else {
        one.cells.resize(static_cast<size_t>(dice(4)));
      }
      for (State& cell : one.cells) {
        cell = {dice(3) == 0 ? INT64_MAX - dice(3) : dice(int64_t{1} << 50),
                dice(3) == 0 ? INT64_MIN + dice(3) : dice(int64_t{1000})};
      }
      if (!one.cells.empty() && dice(2) == 0) one.forget_us = dice(int64_t{1} << 55);
      writer.add({one.space, one.limits, one.key, one.cells, one.forget_us});
      all.push_back(std::move(one));
    }
    WrittenBlock block = writer.take();
    EXPECT_EQ(writer.count(), 0u);
    const std::string body = block.body.substr(block_head_bytes) + block.rest;
    BlockCounters read(names);
    ASSERT_TRUE(read.open(body));
    ASSERT_EQ(read.count(), all.size());
    for (const Written& one : all) {
      Record record;
      ASSERT_TRUE(read.next());
      ASSERT_TRUE(read.resolve(record));
      EXPECT_EQ(record.space, one.space);
      EXPECT_EQ(record.key, one.key);
      EXPECT_EQ(std::vector<State>(record.cells.begin(), record.cells.end()), one.cells);
      if (one.cells.empty()) continue;
      EXPECT_EQ(record.limits_id, one.limits);
      EXPECT_EQ(record.forget_us, one.forget_us);
    }
    EXPECT_FALSE(read.next());
    EXPECT_TRUE(read.sound());
    // A part of it is not taken for the whole.
    BlockCounters part(names);
    if (!part.open(std::string_view(body).substr(0, body.size() - 1))) continue;
    while (part.next()) continue;
    EXPECT_FALSE(part.sound());
  }
}

TEST(StoreFormat, SpacesAndLimitsThatCannotBeAreRefused) {
  request::Space space;
  space.prefix = "a";
  space.windows = {{5}, {9}};
  std::string text;
  append_space(text, space);
  request::Space read;
  EXPECT_TRUE(parse_space(text, read));
  EXPECT_EQ(read.windows, space.windows);
  space.windows = {{9}, {5}};
  text.clear();
  append_space(text, space);
  EXPECT_FALSE(parse_space(text, read));
  std::vector<Limit> limits;
  const auto is_read = [&](const Limit& limit) {
    std::string its;
    append_limits(its, std::vector<Limit>{limit});
    return parse_limits(its, limits) && limits.front() == limit;
  };
  EXPECT_TRUE(is_read({Algorithm::token_bucket, 5, {7}, 9}));
  EXPECT_TRUE(is_read({Algorithm::gcra_redis, 1, {1}, 1}));
  EXPECT_TRUE(is_read({Algorithm::concurrency, 5, {7}, 9}));
  EXPECT_FALSE(is_read({Algorithm::concurrency, 5, {7}, 6}));
  EXPECT_FALSE(is_read({Algorithm::concurrency, 0, {7}, 7}));
  EXPECT_TRUE(is_read({Algorithm::aligned_window, 0, {7}, 0}));  // which denies all, and counts
  // Windows of the calendar, also one of a zone that is not there any more.
  for (const char* window : {"hour@UTC", "month@UTC,month_day=9", "year@Europe/Atlantis"}) {
    const auto terms = *limit::parse_calendar(window);
    const Limit calendar{.algorithm = Algorithm::aligned_window,
                         .quota = 5,
                         .window = limit::Calendar::nominal(terms.unit),
                         .calendar = limit::Calendar::of_kept(terms)};
    EXPECT_TRUE(is_read(calendar)) << window;
    std::string its;
    append_limits(its, std::vector<Limit>{calendar});
    for (size_t bytes = 0; bytes < its.size(); ++bytes)
      EXPECT_FALSE(parse_limits(std::string_view(its).substr(0, bytes), limits)) << bytes;
    its[its.size() - 1] = '!';
    EXPECT_FALSE(parse_limits(its, limits));
  }
  EXPECT_FALSE(is_read({Algorithm::token_bucket, 5, {7}, 0}));
  EXPECT_FALSE(is_read({Algorithm::fixed_window, 0, {7}, 0}));
  EXPECT_FALSE(is_read({Algorithm::fixed_window, 5, {0}, 0}));
  EXPECT_FALSE(is_read({Algorithm::fixed_window, base::bounds::quota_max + 1, {7}, 0}));
}

}  // namespace
}  // namespace sluice::disk
