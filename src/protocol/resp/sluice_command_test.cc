// The parser of SLUICE.* commands, against the cases of sluice_command_cases_test.h and random
// commands of the naive writer in sluice_command_model.h.
#include "protocol/resp/sluice_command.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "limit/limit.h"
#include "protocol/resp/sluice_command_cases_test.h"
#include "protocol/resp/sluice_command_model.h"
#include "tests/support/dice.h"

namespace sluice::resp::sluice_command_test {
namespace {

using sluice_model::Asked;
using Words = std::vector<std::string>;

// The words of `text`, which blanks separate; '' is an empty word.
Words split(std::string_view text) {
  Words words;
  while (!text.empty()) {
    const size_t end = std::min(text.find(' '), text.size());
    words.emplace_back(text.substr(0, end) == "''" ? "" : text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return words;
}

bool parse(const Words& words, SluiceCommand& command) {
  const std::vector<std::string_view> views(words.begin(), words.end());
  const bool sound = parse_sluice_command(views, command);
  EXPECT_EQ(sound, command.error.empty());
  EXPECT_TRUE(sound || command.error.starts_with("ERR ")) << command.error;
  return sound;
}

// What a command is read as, in one line without defaults; or its error.
std::string read(const Words& words) {
  SluiceCommand command;
  if (!parse(words, command)) return command.error;
  std::string text = sluice_model::name_of(command.verb).substr(7);
  if (command.n != 1) text += " N=" + std::to_string(command.n);
  if (command.now) text += " NOW=" + std::to_string(command.now->us) + "us";
  if (command.timeout.us != 0) text += " timeout=" + std::to_string(command.timeout.us) + "us";
  if (command.all) text += " ALL";
  if (command.each) text += " EACH";
  if (command.with_name) text += " WITHNAME";
  if (command.with_units) text += " WITHUNITS";
  if (command.closes) text += " CLOSE";
  if (!command.id.empty()) (text += " ID=") += command.id;
  if (!command.holder.empty()) (text += " HOLDER=") += command.holder;
  if (command.ttl.us != 0) text += " ttl=" + std::to_string(command.ttl.us) + "us";
  for (size_t i = 0; i < command.units.size(); ++i)
    text += (i == 0 ? " units=" : ",") + std::to_string(command.units[i]);
  for (const SluiceSubject& subject : command.subjects) {
    text += " |";
    if (subject.is_inline) text += " key(" + std::string(subject.key) + ")";
    for (const auto& [key, value] : command.entries_of(subject))
      (((text += " ") += key) += "->") += value;
    const auto limits = command.limits_of(subject);
    for (size_t i = 0; i < limits.size(); ++i) {
      const limit::Limit& limit = limits[i];
      text += " " + std::string(limit::name_of(limit.algorithm)) + ":";
      text += std::to_string(limit.quota) + "/" + std::to_string(limit.window.us) + "us";
      if (limit.burst != 0) text += "+" + std::to_string(limit.burst);
      if (limit::has(subject.counts, i)) text += " counts";
      const int64_t overdraft = command.overdrafts_of(subject).most[i];
      if (overdraft < limit::Overdrafts::none) text += " owes " + std::to_string(overdraft);
    }
  }
  return text;
}
std::string read_text(std::string_view text) {
  return read(split(text));
}

// The window of a limit in microseconds, or the error.
std::string window(const std::string& text) {
  const std::string all = read({"SLUICE.TAKE", "KEY", "k", "LIMIT", "1", text});
  const std::string head = "TAKE | key(k) token_bucket:1/", tail = "us+1";
  if (!all.starts_with(head) || !all.ends_with(tail)) return all;
  return all.substr(head.size(), all.size() - head.size() - tail.size());
}

std::string timeout(const std::string& text) {
  SluiceCommand command;
  return parse({"SLUICE.WAIT", text, "a=1"}, command) ? std::to_string(command.timeout.us)
                                                      : command.error;
}

std::string times(int64_t n, const std::string& text) {
  std::string all;
  for (; n > 0; --n) all += text;
  return all;
}

TEST(SluiceCommand, AcceptsAndRejects) {
  for (const Case& c : accepted) EXPECT_EQ(read_text(c.text), c.expected) << c.text;
  for (const Case& c : rejected) EXPECT_EQ(read_text(c.text), c.expected) << c.text;
}

TEST(SluiceCommand, HoldsItsBounds) {
  const std::string take = "SLUICE.TAKE";
  EXPECT_TRUE(read_text(take + times(64, " a=1")).starts_with("TAKE | a->1 a->1"));
  EXPECT_EQ(read_text(take + times(65, " a=1")), "ERR a subject has at most 64 entries");
  EXPECT_TRUE(read_text(take + " ENTRIES 64" + times(64, " a=1")).starts_with("TAKE | a->1"));
  EXPECT_TRUE(read_text(take + " KEY k" + times(8, " LIMIT 1 1")).starts_with("TAKE | key(k)"));
  EXPECT_EQ(read_text(take + " KEY k" + times(9, " LIMIT 1 1")),
            "ERR a subject has at most 8 limits");
  const std::string log = " LIMIT 32 1 ALGORITHM sliding_log",
                    few = " LIMIT 31 1 ALGORITHM sliding_log";
  EXPECT_TRUE(read_text(take + " KEY k" + times(2, log)).starts_with("TAKE | key(k)"));
  EXPECT_TRUE(
      read_text(take + " KEY k" + times(2, few) + " LIMIT 1 1 LIMIT 1 1").starts_with("TAKE |"));
  EXPECT_EQ(read_text(take + " KEY k" + log + few + " LIMIT 1 1 LIMIT 1 1"), at_most_two);
  // The bounds hold for each subject of an MTAKE by itself.
  const std::string subjects =
      times(32, " ENTRIES 4" + times(4, " a=1")) + times(32, " KEY k" + times(2, log));
  SluiceCommand command;
  EXPECT_TRUE(parse(split("SLUICE.MTAKE 64" + subjects + " N 2"), command)) << command.error;
  EXPECT_EQ(command.subjects.size(), 64u);
  EXPECT_EQ(command.entries.size(), 128u);
  EXPECT_EQ(command.limits_of(command.subjects[63]).size(), 2u);
  EXPECT_EQ(read_text("SLUICE.MTAKE 63" + subjects), syntax);
}

TEST(SluiceCommand, HoldsTheBoundsOfReservations) {
  const std::string id = "hold-0000-0000-1";
  EXPECT_TRUE(read_text("SLUICE.MRESERVE 1 64" + times(64, " a=1 N 1")).starts_with("MRESERVE"));
  EXPECT_EQ(read_text("SLUICE.MRESERVE 1 64" + times(63, " a=1 N 1")), syntax);
  EXPECT_TRUE(read_text("SLUICE.COMMIT " + id + " N" + times(64, " 1") + times(64, " SUBJECT a=1"))
                  .starts_with("COMMIT"));
  for (const std::string command : {"SLUICE.COMMIT ", "SLUICE.EXTEND "})
    EXPECT_EQ(read_text(command + id + " N" + times(65, " 1")), "ERR N has at most 64 numbers");
  EXPECT_EQ(read_text("SLUICE.COMMIT " + id + " N 1" + times(65, " SUBJECT a=1")), syntax);
  const auto holder = [](size_t bytes) {
    return read({"SLUICE.RESERVE", "1", "a=1", "N", "1", "HOLDER", std::string(bytes, 'x')});
  };
  EXPECT_TRUE(holder(255).starts_with("RESERVE HOLDER=xxx"));
  EXPECT_EQ(holder(256), "ERR HOLDER has at most 255 bytes");
}

TEST(SluiceCommand, ReadsWindows) {
  const std::pair<std::string, std::string_view> cases[] = {
      {"250ms", "250000"},
      {"60s", "60000000"},
      {"1h", "3600000000"},
      {"7us", "7"},
      {"2m", "120000000"},
      {"1d", "86400000000"},
      {"1_000ms", "1000000"},
      {"60", "60000000"},
      {"0.5", "500000"},
      {"1.25", "1250000"},
      {"0.000001", "1"},
      {"0.0000010", "1"},
      {"007.100", "7100000"},
      {"3162240000", "3162240000000000"},
      {"3162240000.0", "3162240000000000"},
      {"0.1", "100000"},
      {"4503599.627371", "4503599627371"},
      {"3162240000.000001", "ERR window is longer than 36600d"},
      {"36601d", "ERR window is longer than 36600d"},
      {"9223372036854.775807", "ERR window is longer than 36600d"},
      {"0", "ERR window must be positive"},
      {"0.000000", "ERR window must be positive"},
      {"0ms", "ERR window must be positive"}};
  for (const auto& [text, expected] : cases) EXPECT_EQ(window(text), expected) << text;
  for (const std::string text : {"",
                                 ".",
                                 "1.",
                                 ".5",
                                 "-1",
                                 "+1",
                                 "1e3",
                                 "1.5s",
                                 "1.5.5",
                                 "1 s",
                                 " 1",
                                 "1h30m",
                                 "abc",
                                 "1w",
                                 "1_0",
                                 "0.0000001",
                                 "1.0000005",
                                 "0x10",
                                 "nan",
                                 "inf",
                                 "s",
                                 "1S",
                                 "9223372036854.775808",
                                 "18446744073710",
                                 "99999999999999999999",
                                 "9999999999999999999999s",
                                 "60\n",
                                 "1.00000000000000000001"})
    EXPECT_EQ(window(text), no_window) << text;
  EXPECT_EQ(window(std::string("60\0", 3)), no_window);
}

// Redis 7.0.15 reads the timeouts of BLPOP in the same way, with two differences: it reads a
// negative timeout of less than half a millisecond as 0, and a timeout that overflows as negative.
TEST(SluiceCommand, ReadsTimeouts) {
  const std::pair<std::string, std::string_view> cases[] = {
      {"0", "0"},
      {"-0", "0"},
      {"-0.0", "0"},
      {"0.1", "100000"},
      {"1e-9", "1"},
      {"0.0000004", "1"},
      {"0.0000014", "1"},
      {"+0.01", "10000"},
      {"0x0.8", "500000"},
      {"0x1p-3", "125000"},
      {".01", "10000"},
      {"1.", "1000000"},
      {"1e-2", "10000"},
      {"1E2", "100000000"},
      {"00.01", "10000"},
      {"4611686018427.387903", "4611686018427387903"},
      {"9007199254.740993", "9007199254740993"}};
  for (const auto& [text, expected] : cases) EXPECT_EQ(timeout(text), expected) << text;
  for (const std::string text :
       {"4611686018427.387904", "9223372036854775807", "1e400", "inf", "Infinity"})
    EXPECT_EQ(timeout(text), "ERR timeout is out of range") << text;
  for (const std::string text : {"-1", "-0.0001", "-1e-30", "-inf", "-1e400"})
    EXPECT_EQ(timeout(text), "ERR timeout is negative") << text;
  for (const std::string text : {"", "abc", "1e", "1e5000", "-1e5000", "1e-5000", "nan", "nan(1)",
                                 " 1", "\t1", "1 ", "0,1", "1s", "--1"})
    EXPECT_EQ(timeout(text), no_float) << text;
  EXPECT_EQ(timeout(std::string("1\0", 2)), no_float);
  EXPECT_EQ(timeout(std::string(5118, '0') + "1"), "1000000");
  EXPECT_EQ(timeout(std::string(5119, '0') + "1"), no_float);
}

TEST(SluiceCommand, KnowsWordsInAnyCase) {
  EXPECT_EQ(
      read_text("sLuIcE.tAkE kEy K lImIt 5 1h AlGoRiThM Token_Bucket bUrSt 6 n 2 nOw 3 wItHnAmE"),
      "TAKE N=2 NOW=3000us WITHNAME | key(K) token_bucket:5/3600000000us+6");
  EXPECT_EQ(read_text("sluice.mtake 1 entries 1 A=B each"), "MTAKE EACH | A->B");
  EXPECT_EQ(read_text("sluice.put a=1 all"), "PUT ALL | a->1");
  // Only letters have two cases: other bytes that differ in the same bit are different.
  EXPECT_EQ(read_text("SLUICE\x0etake a=1"), "ERR unknown command 'SLUICE\x0etake'");
  EXPECT_EQ(read_text("SLUICE.TAKE KEY k LIMIT 1 1 ALGORITHM TOKEN\x7f"
                      "BUCKET"),
            "ERR unknown algorithm 'TOKEN\x7f"
            "BUCKET'");
}

TEST(SluiceCommand, ShortensQuotedWordsInErrors) {
  const std::string most(128, 'x'), more(200, 'x');
  for (const std::string& word : {most, more}) {
    EXPECT_EQ(read({word}), "ERR unknown command '" + most + "'");
    EXPECT_EQ(read({"SLUICE.TAKE", word}), "ERR entry '" + most + "' has no '='");
    EXPECT_EQ(read({"SLUICE.TAKE", "KEY", "k", "LIMIT", "1", "1", "ALGORITHM", word}),
              "ERR unknown algorithm '" + most + "'");
  }
  EXPECT_EQ(read({"SLUICE.TAKE", "=" + more}), "ERR entry '=" + most.substr(1) + "' has no key");
}

// All beginnings of a command are another command or an error.
TEST(SluiceCommand, ReadsEveryBeginning) {
  for (const Case& c : accepted) {
    const Words words = split(c.text);
    for (size_t n = 0; n < words.size(); ++n) {
      SluiceCommand command;
      parse({words.begin(), words.begin() + static_cast<ptrdiff_t>(n)}, command);
      for (size_t bytes = 0; bytes < words[n].size(); ++bytes) {
        Words cut(words.begin(), words.begin() + static_cast<ptrdiff_t>(n));
        cut.push_back(words[n].substr(0, bytes));
        parse(cut, command);
      }
    }
  }
}

// One object reads all commands, which shows that no part of an earlier command is left in it.
TEST(SluiceCommand, ReadsBackRandomCommands) {
  tests::Dice dice(17);
  const auto choose = [&](size_t n) { return dice(n); };
  SluiceCommand command;
  std::set<size_t> verbs;
  for (int round = 0; round < 20'000; ++round) {
    const Asked asked = sluice_model::AnyCommand(dice).make();
    verbs.insert(static_cast<size_t>(asked.verb));
    const Words words = sluice_model::Writer(choose).write(asked);
    ASSERT_TRUE(parse(words, command)) << command.error << "\n" << testing::PrintToString(words);
    ASSERT_TRUE(sluice_model::asked_of(command) == asked) << testing::PrintToString(words);
  }
  EXPECT_EQ(verbs.size(), 17u);
}

TEST(SluiceCommand, KeepsItsMemory) {
  SluiceCommand command;
  const Words mtake = split("SLUICE.MTAKE 2 ENTRIES 2 a=1 b=2 KEY k LIMIT 1 1 LIMIT 2 2");
  const Words none = {"SLUICE.TAKE", std::string(300, 'x')};
  ASSERT_TRUE(parse(split("SLUICE.EXTEND hold-0000-0000-1 N 1 2 3"), command));
  ASSERT_TRUE(parse(mtake, command));
  ASSERT_FALSE(parse(none, command));
  const auto places = [&] {
    return std::vector<const void*>{command.subjects.data(), command.entries.data(),
                                    command.limits.data(), command.units.data(),
                                    command.error.data()};
  };
  const auto before = places();
  for (const Words& words : {mtake, none, split("SLUICE.INFO"), split("SLUICE.TAKE"),
                             split("SLUICE.COMMIT hold-0000-0000-1 N 3 4"), mtake}) {
    parse(words, command);
    EXPECT_EQ(places(), before);
  }
}

TEST(SluiceCommand, KnowsAlgorithmsByTheirNames) {
  using enum limit::Algorithm;
  for (const limit::Algorithm algorithm :
       {token_bucket, fixed_window, aligned_window, sliding_window, sliding_log, fixed_bucket,
        concurrency}) {
    EXPECT_EQ(algorithm_named(limit::name_of(algorithm)), algorithm);
    SluiceCommand command;
    const std::string window = algorithm == fixed_bucket ? "0" : "1";
    const std::string text = "SLUICE.TAKE KEY k LIMIT 1 " + window + " ALGORITHM " +
                             std::string(limit::name_of(algorithm));
    ASSERT_TRUE(parse(split(text), command)) << command.error;
    EXPECT_EQ(command.limits.at(0).algorithm, algorithm);
  }
  EXPECT_EQ(algorithm_named("TOKEN_bucket"), token_bucket);
  for (const char* const other : {"gcra", "gcra_cell", "unlimited", "deny", "", "token"})
    EXPECT_FALSE(algorithm_named(other)) << other;
}

TEST(SluiceCommand, Helps) {
  std::set<std::string> told;
  for (const std::string_view line : help_lines()) {
    EXPECT_LE(line.size(), 100u);
    if (!line.starts_with("SLUICE.") || line.starts_with("SLUICE.<")) continue;
    const std::string name(line.substr(0, line.find(' ')));
    EXPECT_TRUE(told.insert(name).second) << name;
  }
  std::set<std::string> all;
  for (size_t verb = 0; verb < 17; ++verb)
    all.insert(sluice_model::name_of(static_cast<SluiceVerb>(verb)));
  EXPECT_EQ(told, all);
}

}  // namespace
}  // namespace sluice::resp::sluice_command_test
