// Which keys of a Redis are recognized as redis-cell's, and the options of `sluice store
// import-redis-cell`. tests/redis/redis_cell_import_test.cc imports from a real Redis.
#include "protocol/resp/import.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "cli/command_test.h"

namespace sluice::resp::import_test {
namespace {

constexpr int64_t read_at_us = 1'700'000'000'000'000;
constexpr int64_t second_ms = 1'000;

// The key's text and remaining life (in ms) were read within 100 ms.
CellKey read_key(std::string_view text, int64_t life_ms) {
  return read_cell_key(text, life_ms, {read_at_us}, {read_at_us + 100'000});
}
std::string tat_in(int64_t seconds) {
  return std::to_string((read_at_us + seconds * 1'000'000) * 1'000);
}

TEST(CellKeys, AcceptsNumbersWhoseKeysExpireAtTheirTime) {
  const CellKey read = read_key(tat_in(60), 60 * second_ms);
  EXPECT_FALSE(read.skip);
  EXPECT_EQ(read.tat, (read_at_us + 60'000'000) * 1'000);
  EXPECT_EQ(cell_state(read.tat), (limit::State{read_at_us + 60'000'000, read.tat}));
  // The largest number that is read.
  EXPECT_EQ(read_key("9223372036854775807", (INT64_MAX / 1'000 - read_at_us) / 1'000).skip,
            std::nullopt);
}

TEST(CellKeys, AcceptsLifetimesWithinFiveSecondsOfTheNumber) {
  // By its number the key lives for another 59.9 to 60 s. Up to 5 s less or more are accepted.
  EXPECT_EQ(read_key(tat_in(60), 54'900).skip, std::nullopt);
  EXPECT_EQ(read_key(tat_in(60), 54'899).skip, CellSkip::other_life);
  EXPECT_EQ(read_key(tat_in(60), 65'000).skip, std::nullopt);
  EXPECT_EQ(read_key(tat_in(60), 65'001).skip, CellSkip::other_life);
  EXPECT_EQ(read_key(tat_in(60), -1).skip, CellSkip::no_life);
  EXPECT_EQ(read_key("123456789012345678", 60 * second_ms).skip, CellSkip::other_life);
  // The number is a time that has passed when the reading ends.
  EXPECT_EQ(read_key(tat_in(0), 1).skip, CellSkip::expired);
  EXPECT_EQ(read_key(tat_in(-1), 1).skip, CellSkip::expired);
  EXPECT_EQ(read_key(tat_in(1), 1).skip, std::nullopt);
  EXPECT_EQ(read_key(tat_in(60), -2).skip, CellSkip::expired);
  const std::string now_ns = std::to_string((read_at_us + 100'000) * 1'000);
  EXPECT_EQ(read_key(now_ns, 1).skip, CellSkip::expired);
  EXPECT_EQ(read_key(std::to_string((read_at_us + 100'000) * 1'000 + 1), 1).skip, std::nullopt);
}

TEST(CellKeys, RejectsOtherNumbersAndTexts) {
  for (const char* text : {"", "abc", "12345678901234567", "-1234567890123456789",
                           "+1700000060000000000", " 1700000060000000000", "1700000060000000000 ",
                           "17000000600000000x0", "9223372036854775808", "17000000600000000000",
                           "170000006000000000000", "1.70000006000000000"})
    EXPECT_EQ(read_key(text, 60 * second_ms).skip, CellSkip::no_number) << text;
}

using ImportCell = cli::CommandTest;

TEST_F(ImportCell, RequiresARedisAndAPattern) {
  const std::string dir = folder_ + "/db";
  EXPECT_EQ(command({"store", "import-redis-cell", dir}), 2);
  EXPECT_TRUE(said(err, "wants --redis HOST:PORT[/DB], which has the keys")) << err;
  EXPECT_EQ(command({"store", "import-redis-cell", "--redis", "localhost", dir}), 2);
  EXPECT_TRUE(said(err, "wants --match PATTERN")) << err;
  const auto of = [&](const std::string& redis) {
    return command({"store", "import-redis-cell", "--redis", redis, "--match", "*", dir});
  };
  for (const char* redis : {"localhost/16", "localhost/-1", "localhost/", "localhost/x"}) {
    EXPECT_EQ(of(redis), 2) << redis;
    EXPECT_TRUE(said(err, "--redis: the database must be 0 to 15")) << err;
  }
  EXPECT_EQ(of("::1:80"), 2);
  EXPECT_EQ(command({"store", "import-redis-cell", "--redis", "a", "--match", "*"}), 2);
  EXPECT_EQ(
      command({"store", "import-redis-cell", "--config", "f", "--redis", "a", "--match", "*", dir}),
      2);
  EXPECT_TRUE(said(err, "--config is for import-limitd")) << err;
  EXPECT_EQ(command({"store", "stats", "--dry-run", dir}), 2);
  EXPECT_TRUE(said(err, "--dry-run is for import-redis-cell")) << err;
  EXPECT_FALSE(std::filesystem::exists(dir));
}

}  // namespace
}  // namespace sluice::resp::import_test
