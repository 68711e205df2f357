// Digests of texts (base/hash.h).
#include "base/hash.h"

#include <gtest/gtest.h>

#include <array>

namespace sluice::base {
namespace {

// The numbers that xxhsum prints for XXH3.
TEST(Digest, IsXxh3OfTheText) {
  EXPECT_EQ(digest(""), 0x2d06800538d394c2u);
  EXPECT_EQ(digest("a"), 0xe6c632b61e964e1fu);
}

TEST(Digest, DiffersByTheOrderAndBordersOfItsParts) {
  const auto of = [](std::string_view a, std::string_view b) {
    return digest_of(std::array{digest(a), digest(b)});
  };
  EXPECT_EQ(digest_of(std::array{digest("one")}), digest("one"));
  EXPECT_EQ(of("one", "two"), of("one", "two"));
  EXPECT_NE(of("one", "two"), of("two", "one"));
  EXPECT_NE(of("one", "two"), of("onet", "wo"));
  EXPECT_NE(of("one", ""), digest("one"));
}

}  // namespace
}  // namespace sluice::base
