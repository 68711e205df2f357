// How long lines of help are wrapped (cli/arguments.h).
#include "cli/arguments.h"

#include <gtest/gtest.h>

namespace sluice::cli {
namespace {

TEST(Wrapped, LinesBreakAtBlanksBeforeTheyAreTooLong) {
  EXPECT_EQ(wrapped(""), "");
  EXPECT_EQ(wrapped("a few words"), "a few words");
  const std::string half(37, 'x'), less(36, 'y'), most(74, 'z');
  EXPECT_EQ(wrapped(half + " " + less), half + " " + less);
  EXPECT_EQ(wrapped(half + " " + half), half + "\n" + half);
  EXPECT_EQ(wrapped("a " + most + "z b c"), "a\n" + most + "z\nb c");
}

}  // namespace
}  // namespace sluice::cli
