// The names of counters as HTTP shows and addresses them: whole, or by beginning, length and
// digest.
#include "wire/shown_name.h"

#include <gtest/gtest.h>

#include <string>

#include "base/bounds.h"

namespace sluice::wire {
namespace {

constexpr size_t most = base::bounds::shown_name_bytes_max;

TEST(ShownName, IsWholeUpToTheBound) {
  for (const size_t size : {size_t{0}, size_t{1}, most}) {
    const std::string name(size, 'x');
    EXPECT_TRUE(is_shown_whole(name)) << size;
    EXPECT_EQ(path_of_name(name), name);
  }
  EXPECT_FALSE(is_shown_whole(std::string(most + 1, 'x')));
  EXPECT_EQ(shown_beginning(std::string(most + 1, 'x')).size(), most);
}

TEST(ShownName, EndsWhereACharacterDoes) {
  for (size_t before = most - 4; before <= most; ++before) {
    const std::string name = std::string(before, 'x') + "\xf0\x9f\x98\x80" + std::string(9, 'y');
    const auto shown = shown_beginning(name);
    EXPECT_EQ(shown.size(), before + 4 <= most ? most : before) << before;
  }
  EXPECT_EQ(shown_beginning(std::string(1000, '\x80')).size(), most) << "no UTF-8 at all";
}

TEST(ShownName, ALongOneIsAddressedByLengthAndDigest) {
  const std::string name = "rule:" + std::string(300, '/');
  const std::string path = path_of_name(name);
  const size_t cut = path.find('?');
  ASSERT_NE(cut, path.npos);
  EXPECT_LE(path.size(), 3 * most + 100);
  bool ill_formed = true;
  const auto mark = mark_of(std::string_view(path).substr(cut + 1), ill_formed);
  ASSERT_TRUE(mark.has_value());
  EXPECT_FALSE(ill_formed);
  EXPECT_TRUE(mark->fits(name));
  EXPECT_FALSE(mark->fits(name + "/"));
  EXPECT_FALSE(mark->fits("rule:" + std::string(299, '/') + "x"));
}

TEST(ShownName, TheDigestIsSha256) {
  EXPECT_EQ(name_digest("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

TEST(ShownName, ReportsAMalformedMark) {
  bool ill_formed = true;
  EXPECT_FALSE(mark_of("", ill_formed));
  EXPECT_FALSE(ill_formed);
  const std::string digest = name_digest("x");
  for (const std::string& query :
       {std::string("bytes=300"), "digest=" + digest, "bytes=x&digest=" + digest,
        "bytes=300&digest=" + digest.substr(1), "bytes=300&digest=" + digest + "0",
        "bytes=300&digest=" + std::string(64, 'g')}) {
    EXPECT_FALSE(mark_of(query, ill_formed)) << query;
    EXPECT_TRUE(ill_formed) << query;
  }
}

}  // namespace
}  // namespace sluice::wire
