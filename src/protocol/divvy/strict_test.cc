// What a listener with `strict: true` refuses, also against a naive model, and what is reported of
// likely mistakes in Divvy's files.
#include <gtest/gtest.h>

#include <string>

#include "protocol/divvy/line.h"
#include "protocol/divvy/rules.h"
#include "tests/support/dice.h"

namespace sluice::divvy::strict_test {
namespace {

// "" if the line is a request, else the error line that answers it.
std::string answer_to(std::string_view line, bool strict) {
  request::Requests requests;
  std::string error;
  const bool taken = parse_divvy_line(line, requests, error, strict);
  EXPECT_EQ(requests.size(), taken ? 1u : 0u);
  EXPECT_EQ(requests.open_entries(),
            0u + (taken ? requests.descriptor(requests.items()[0]).size() : 0));
  return error;
}

TEST(DivvyStrict, RejectsAmbiguousLines) {
  const std::pair<std::string_view, const char*> refused[] = {
      {"HIT ip=1 ip=2", "ERR unknown \"Key 'ip' is given twice.\""},
      {"HIT \"ip\"=1 user=x \"ip\"=\"1\"", "ERR unknown \"Key 'ip' is given twice.\""},
      {"HIT = =", "ERR unknown \"Key '' is given twice.\""},
      {"HIT k=a\"b", "ERR unknown \"Stray quote in a string; there are no escapes.\""},
      {"HIT k\"=a", "ERR unknown \"Stray quote in a string; there are no escapes.\""}};
  for (const auto& [line, answer] : refused) {
    EXPECT_EQ(answer_to(line, true), answer) << line;
    EXPECT_EQ(answer_to(line, false), "") << line;
  }
  for (const std::string_view line :
       {"HIT", "HIT a=1 b=1", "HIT \"a b\"=\"c=d\" a=", "hit K=1 k=1"})
    EXPECT_EQ(answer_to(line, true), "") << line;
  // Lines that are errors without `strict` give the same error with it.
  for (const std::string_view line : {"HIT ip", "HIT k=\"a", "PUT k=v", "HIT k=\"a\"b"})
    EXPECT_EQ(answer_to(line, true), answer_to(line, false)) << line;
}

// Random lines with one-letter keys: with `strict` a line is refused exactly if it has a key twice
// or a stray quote.
TEST(DivvyStrict, AgreesWithAModel) {
  for (uint32_t seed = 0; seed < 2'000; ++seed) {
    tests::Dice dice(seed);
    std::string line = "HIT", keys;
    bool doubtful = false;
    for (size_t i = dice(size_t{6}); i > 0; --i) {
      const char key = static_cast<char>('a' + dice(8));
      const bool stray = dice(12) == 0;
      doubtful = doubtful || stray || keys.find(key) != keys.npos;
      keys += key;
      const bool quoted = !stray && dice(2) == 0;
      line += std::string(" ") + key + "=" + (quoted ? "\"" : "") + "v" + (stray ? "\"" : "") +
              (quoted ? "\"" : "");
    }
    ASSERT_EQ(answer_to(line, true).empty(), !doubtful) << line;
    ASSERT_EQ(answer_to(line, false), "") << line;
  }
}

std::string told_of_ini(const std::string& text) {
  request::Spaces spaces;
  policy::RuleSet rules;
  base::Diagnostics diagnostics;
  read_divvy(text, DivvyFormat::ini, DivvyMatching::code, "r.ini", spaces, rules, diagnostics);
  std::string all;
  for (const auto& d : diagnostics) all += to_string(d) + "\n";
  return all;
}

TEST(DivvyMistakes, ADurationWithAUnitIsNotReadAsItsDigits) {
  const auto told = [](const std::string& seconds) {
    return told_of_ini("[default]\ncreditLimit = 1\nresetSeconds = " + seconds + "\n");
  };
  EXPECT_EQ(told("1m"),
            "r.ini:3: error: rule [default]: resetSeconds `1m` must be a number of seconds "
            "without a unit; write `60`\n");
  EXPECT_NE(told("24h").find("write `86400`"), std::string::npos);
  EXPECT_NE(told("1500ms").find("write `2`"), std::string::npos);
  // Where the unit is seconds, the digits are the number that was meant: only a warning.
  EXPECT_NE(told("60s").find("warning: rule [default]: resetSeconds `60s` is read as 60"),
            std::string::npos);
  EXPECT_EQ(told("60"), "");
}

TEST(DivvyMistakes, ReportsAHeaderWithoutItsEnd) {
  EXPECT_EQ(told_of_ini("[ip=*\ncreditLimit = 1\n[default]\ncreditLimit = 0\n")
                .find("r.ini:1: error: `[ip=*` has no `]`; end the section's header with it\n"
                      "r.ini:2: error: creditLimit = 1: this "),
            0u);
  EXPECT_NE(told_of_ini("[default]\ncreditLimit = 0\n[ip=*\n")
                .find("r.ini:3: warning: rule [default]: `[ip=*` has no `]`, so it is a field of "
                      "this rule"),
            std::string::npos);
}

}  // namespace
}  // namespace sluice::divvy::strict_test
