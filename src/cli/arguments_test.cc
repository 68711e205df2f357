// How words are parsed into options and positional words, and how long lines of help are wrapped
// (cli/arguments.h).
#include "cli/arguments.h"

#include <gtest/gtest.h>

#include <sstream>

namespace sluice::cli::arguments_test {
namespace {

class ArgumentsTest : public testing::Test {
 protected:
  ArgumentsTest() {
    arguments.add_option("--list", list, "Words, repeatable", "WORD");
    arguments.add_option("-t,--text", text, "A word", "WORD");
    arguments.add_option("--port", port, "A port", "N");
    arguments.add_flag("--yes", yes, "Yes");
    arguments.add_flag("--empty", empty, "Empty");
  }
  std::optional<int> parse(const Words& words) {
    config::CommandIo io{out, err, false, false, {}};
    return arguments.parse(words, io);
  }

  std::ostringstream out, err;
  Words list;
  std::optional<std::string> text, empty;
  std::optional<uint16_t> port;
  bool yes = false;
  Arguments arguments{"test", "Tests.", ""};
};

TEST_F(ArgumentsTest, AnOptionTakesOneWordEachTime) {
  EXPECT_EQ(parse({"--list", "a", "b", "--list=c", "d", "-t", "e", "f"}), std::nullopt)
      << err.str();
  EXPECT_EQ(list, (Words{"a", "c"}));
  EXPECT_EQ(text, "e");
  EXPECT_EQ(arguments.positional(), (Words{"b", "d", "f"}));
  EXPECT_EQ(arguments.given(), (Words{"--list", "--text"}));
}

TEST_F(ArgumentsTest, FlagsTakeNone) {
  EXPECT_EQ(parse({"--yes", "a", "--empty", "b"}), std::nullopt) << err.str();
  EXPECT_TRUE(yes);
  EXPECT_EQ(empty, "");
  EXPECT_EQ(arguments.positional(), (Words{"a", "b"}));
}

TEST_F(ArgumentsTest, OptionsThatAreNotGivenKeepTheirValues) {
  EXPECT_EQ(parse({"a"}), std::nullopt);
  EXPECT_TRUE(list.empty());
  EXPECT_FALSE(text || empty || port || yes);
  EXPECT_EQ(arguments.given(), Words());
  EXPECT_FALSE(arguments.is_given("--list"));
}

TEST_F(ArgumentsTest, WrongUsageIsReported) {
  for (const Words& words : {Words{"--text", "a", "--text", "b"}, Words{"--port", "70000"},
                             Words{"--list"}, Words{"--other"}}) {
    err.str("");
    EXPECT_EQ(parse(words), config::exit_usage) << words.front();
    EXPECT_NE(err.str().find("Usage: test"), std::string::npos) << err.str();
  }
}

TEST_F(ArgumentsTest, AFlagMayBeTwo) {
  arguments.add_flag("--yes", "Also this");
  EXPECT_EQ(parse({"--help"}), config::exit_ok);
  EXPECT_NE(out.str().find("Also this"), std::string::npos) << out.str();
  EXPECT_LT(out.str().find("Also this"), out.str().find("Yes\n"));
  EXPECT_EQ(parse({"--yes"}), std::nullopt);
  EXPECT_TRUE(yes);
  EXPECT_TRUE(arguments.is_given("--yes"));
}

TEST_F(ArgumentsTest, ShortHelpMayBeAnOption) {
  arguments.free_short_help();
  std::optional<std::string> host;
  arguments.add_option("-h,--host", host, "A host", "HOST");
  EXPECT_EQ(parse({"-h", "a"}), std::nullopt);
  EXPECT_EQ(host, "a");
}

TEST(Wrapped, LinesBreakAtBlanksBeforeTheyAreTooLong) {
  EXPECT_EQ(wrapped(""), "");
  EXPECT_EQ(wrapped("a few words"), "a few words");
  const std::string half(37, 'x'), less(36, 'y'), most(74, 'z');
  EXPECT_EQ(wrapped(half + " " + less), half + " " + less);
  EXPECT_EQ(wrapped(half + " " + half), half + "\n" + half);
  EXPECT_EQ(wrapped("a " + most + "z b c"), "a\n" + most + "z\nb c");
}

}  // namespace
}  // namespace sluice::cli::arguments_test
