// Messages about files (base/diagnostic.h), and suggestions for mistyped words.
#include "base/diagnostic.h"

#include <gtest/gtest.h>

namespace sluice::base {
namespace {

TEST(Diagnostic, PrintsAllItsPartsInOneLine) {
  Diagnostic d{
      Diagnostic::Severity::error, "rules.ini", 12, 3, "rule [ip=*]", "creditLimit is missing",
      "add `creditLimit = N`"};
  EXPECT_EQ(to_string(d),
            "rules.ini:12:3: error: rule [ip=*]: creditLimit is missing; add `creditLimit = N`");
  d.column = 0;
  d.remedy.clear();
  d.severity = Diagnostic::Severity::warning;
  EXPECT_EQ(to_string(d), "rules.ini:12: warning: rule [ip=*]: creditLimit is missing");
  d.line = 0;
  d.subject.clear();
  EXPECT_EQ(to_string(d), "rules.ini: warning: creditLimit is missing");
  d.file.clear();
  d.message = "a\nb\x1B[0m\x7F";
  EXPECT_EQ(to_string(d), "warning: a\\nb\\x1b[0m\\x7f");
}

TEST(Diagnostic, HasErrorsIsTrueForOneError) {
  Diagnostics all(2);
  all[0].severity = all[1].severity = Diagnostic::Severity::warning;
  EXPECT_FALSE(has_errors(all));
  EXPECT_FALSE(has_errors({}));
  all[1].severity = Diagnostic::Severity::error;
  EXPECT_TRUE(has_errors(all));
}

TEST(NearestWord, FindsTypingMistakes) {
  const std::vector<std::string_view> known = {"creditLimit", "resetSeconds", "ip", "label"};
  EXPECT_EQ(nearest_word("ip&", known), "ip");
  EXPECT_EQ(nearest_word("creditlimit", known), "creditLimit");
  EXPECT_EQ(nearest_word("creditLimits", known), "creditLimit");
  EXPECT_EQ(nearest_word("reset_seconds", known), "resetSeconds");
  EXPECT_EQ(nearest_word("lable", known), "label");
  EXPECT_EQ(nearest_word("lbel", known), "label");
  EXPECT_EQ(nearest_word("colour", known), "");
  EXPECT_EQ(nearest_word("5", {"n"}), "");
  EXPECT_EQ(nearest_word("", known), "");
  EXPECT_EQ(nearest_word("x", {}), "");
  EXPECT_EQ(nearest_word(std::string(100'000, 'x'), {std::string_view("x")}), "");
}

}  // namespace
}  // namespace sluice::base
