// The parts of gRPC over HTTP/2: deadlines, content types, texts of statuses, and gzip.
#include "wire/grpc.h"

#include <gtest/gtest.h>

#include <optional>
#include <random>
#include <string>

#include "wire/gzip.h"

namespace sluice::wire::grpc_test {
namespace {

TEST(Grpc, PrefixesGoBothWays) {
  for (const GrpcPrefix one : {GrpcPrefix{0, 0}, {1, 5}, {0, 0xFFFFFFFF}, {255, 0x01020304}}) {
    std::string text(grpc_prefix_bytes, 'x');
    one.write(text.data());
    const GrpcPrefix read = GrpcPrefix::read(text);
    EXPECT_EQ(read.flags, one.flags);
    EXPECT_EQ(read.bytes, one.bytes);
  }
  std::string text(grpc_prefix_bytes, 'x');
  GrpcPrefix{1, 0x01020304}.write(text.data());
  EXPECT_EQ(text, "\1\1\2\3\4");
}

TEST(Grpc, TimeoutsHaveUnits) {
  const auto us = [](std::string_view text) -> int64_t {
    const auto timeout = read_grpc_timeout(text);
    return timeout ? timeout->us : -1;
  };
  EXPECT_EQ(us("20m"), 20'000);
  EXPECT_EQ(us("1H"), 3'600'000'000);
  EXPECT_EQ(us("1M"), 60'000'000);
  EXPECT_EQ(us("1S"), 1'000'000);
  EXPECT_EQ(us("1u"), 1);
  EXPECT_EQ(us("1n"), 1);
  EXPECT_EQ(us("1000n"), 1);
  EXPECT_EQ(us("1001n"), 2);
  EXPECT_EQ(us("0n"), 0);
  EXPECT_EQ(us("00000000S"), 0);
  EXPECT_EQ(us("99999999H"), int64_t{99'999'999} * 3'600'000'000);
  for (const char* bad : {"", "1", "m", "20", "20x", "20h", " 20m", "20m ", "-1m", "+1m", "1.5S",
                          "999999999m", "1mm", "0x1m", "20s"})
    EXPECT_EQ(us(bad), -1) << bad;
}

TEST(Grpc, ContentTypesOfGrpcHaveASubtypeOrParameters) {
  EXPECT_EQ(read_grpc_content_type("application/grpc"), GrpcContent::plain);
  EXPECT_EQ(read_grpc_content_type("Application/GRPC"), GrpcContent::plain);
  EXPECT_EQ(read_grpc_content_type("application/grpc;charset=x"), GrpcContent::plain);
  EXPECT_EQ(read_grpc_content_type("application/grpc+proto"), GrpcContent::proto);
  EXPECT_EQ(read_grpc_content_type("application/grpc+proto;x"), GrpcContent::proto);
  EXPECT_EQ(read_grpc_content_type("application/grpc+json"), GrpcContent::plain);
  for (const char* other : {"", "application/grp", "application/grpc-web", "application/grpcx",
                            "text/plain", " application/grpc", "application/json"})
    EXPECT_EQ(read_grpc_content_type(other), GrpcContent::none) << other;
}

TEST(Grpc, TextsOfStatusesAreEscapedAndCut) {
  const auto escaped = [](std::string_view text) {
    std::string out = "+";
    append_grpc_text(text, out);
    return out;
  };
  EXPECT_EQ(escaped("plain ~text!"), "+plain ~text!");
  EXPECT_EQ(escaped("100% \n\x7f\xc3\xa9"), "+100%25 %0A%7F%C3%A9");
  EXPECT_EQ(escaped(std::string("\0", 1)), "+%00");
  EXPECT_EQ(escaped(std::string(10'000, 'x')).size(), 1 + grpc_text_bytes_max);
}

TEST(Grpc, StatusesAreNumbers) {
  EXPECT_EQ(grpc_status_text(GrpcStatus::ok), "0");
  EXPECT_EQ(grpc_status_text(GrpcStatus::unimplemented), "12");
  EXPECT_EQ(grpc_status_text(GrpcStatus::unauthenticated), "16");
}

// ---- gzip ----

TEST(Gzip, GoesBothWays) {
  Gzip gzip;
  std::mt19937 dice(3);
  for (const size_t bytes : {0u, 1u, 100u, 20'000u, 1'000'000u}) {
    std::string text(bytes, '\0');
    for (size_t i = 0; i < bytes; i += 3) text[i] = static_cast<char>(dice());
    std::string packed = "+", unpacked = "+";
    ASSERT_TRUE(gzip.compress(text, packed));
    EXPECT_EQ(packed.substr(1, 2), "\x1f\x8b");
    ASSERT_EQ(gzip.decompress(packed.substr(1), bytes, unpacked), Gzip::Result::done) << bytes;
    EXPECT_EQ(unpacked, "+" + text);
  }
}

TEST(Gzip, UnpacksNoMoreThanItMay) {
  Gzip gzip;
  std::string bomb;
  ASSERT_TRUE(gzip.compress(std::string(100'000'000, '\0'), bomb));
  EXPECT_LT(bomb.size(), 1'000'000u);
  std::string out;
  EXPECT_EQ(gzip.decompress(bomb, 50'000, out), Gzip::Result::too_large);
  EXPECT_LE(out.capacity(), 200'000u);
  std::string packed;
  ASSERT_TRUE(gzip.compress("12345", packed));
  out.clear();
  EXPECT_EQ(gzip.decompress(packed, 4, out), Gzip::Result::too_large);
  out.clear();
  EXPECT_EQ(gzip.decompress(packed, 5, out), Gzip::Result::done);
  EXPECT_EQ(out, "12345");
}

TEST(Gzip, RejectsTruncatedChangedAndTrailingBytes) {
  Gzip gzip;
  std::string packed;
  ASSERT_TRUE(gzip.compress("a text that is packed", packed));
  for (size_t size = 0; size < packed.size(); ++size) {
    std::string out;
    EXPECT_EQ(gzip.decompress(packed.substr(0, size), 1000, out), Gzip::Result::broken) << size;
  }
  std::string out;
  EXPECT_EQ(gzip.decompress(packed + "x", 1000, out), Gzip::Result::broken);
  std::string changed = packed;
  changed[changed.size() - 6] = static_cast<char>(changed[changed.size() - 6] ^ 1);
  EXPECT_EQ(gzip.decompress(changed, 1000, out), Gzip::Result::broken);
  EXPECT_EQ(gzip.decompress("not gzip", 1000, out), Gzip::Result::broken);
  out.clear();
  EXPECT_EQ(gzip.decompress(packed, 1000, out), Gzip::Result::done);  // usable after an error
  EXPECT_EQ(out, "a text that is packed");
}

}  // namespace
}  // namespace sluice::wire::grpc_test
