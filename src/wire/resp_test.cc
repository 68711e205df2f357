// RESP: the reader of commands against the naive reader in resp_model.h, and the writer and reader
// of replies.
#include "wire/resp.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "wire/resp_model.h"

namespace sluice::wire::resp_test {
namespace {

using Words = std::vector<std::string>;
using Commands = std::vector<Words>;
using resp_model::Transcript;

// A command as an array of bulk strings.
std::string array(const Words& words) {
  std::string text = "*" + std::to_string(words.size()) + "\r\n";
  for (const std::string& word : words)
    text += "$" + std::to_string(word.size()) + "\r\n" + word + "\r\n";
  return text;
}

Transcript read_in(const std::vector<size_t>& pieces, const std::string& text,
                   const RespBounds& bounds = {}) {
  std::string failure;
  const Transcript found = resp_model::run(text, pieces, bounds, failure);
  EXPECT_EQ(failure, "") << text;
  return found;
}

Transcript read(const std::string& text, const RespBounds& bounds = {}) {
  return read_in({text.size() + 1}, text, bounds);
}

struct Vector {
  std::string text;
  Commands commands;
  std::string end = {};
};

const std::vector<Vector>& vectors() {
  static const std::vector<Vector> all = {
      {"*1\r\n$4\r\nPING\r\n", {{"PING"}}},
      {"*2\r\n$4\r\nECHO\r\n$0\r\n\r\n", {{"ECHO", ""}}},
      {"*2\r\n$4\r\nECHO\r\n$5\r\n\r\n$*\0\r\n" + std::string(1, 'x'), {}},
      {array({"a", "\r\n", std::string("\0\xff", 2)}), {{"a", "\r\n", std::string("\0\xff", 2)}}},
      {array({"a"}) + array({"b", "c"}), {{"a"}, {"b", "c"}}},
      {"*0\r\n*-1\r\n*-7\r\n\r\n\n  \t\r\nPING\r\n", {{"PING"}}},
      {"PING\n", {{"PING"}}},
      {"PING\r\n", {{"PING"}}},
      {"  SET\ta \v\f b  \r\n", {{"SET", "a", "b"}}},
      {"a\rb\r\r\n", {{"a", "b"}}},
      {"$4\r\n+OK\r\n:1\r\n", {{"$4"}, {"+OK"}, {":1"}}},
      {"ECHO \"\" ''\n", {{"ECHO", "", ""}}},
      {"ECHO \"a b\" 'c d'\n", {{"ECHO", "a b", "c d"}}},
      {R"(ECHO "\n\r\t\b\a\\\"\q\x41\xfF\x4g\x4")"
       "\n",
       {{"ECHO", "\n\r\t\b\a\\\"qA\xffx4gx4"}}},
      {R"(ECHO 'it\'s' '\n\\ ' '"' "'")"
       "\n",
       {{"ECHO", "it's", "\\n\\\\ ", "\"", "'"}}},
      {"a\"b c\" d'e'\n", {{"ab c", "de"}}},
      {"a\\n\n", {{"a\\n"}}},
      {"*5\r\n$8\r\nTHROTTLE\r\n$1\r\nk\r\n:5\r\n:-1\r\n:+060\r\n",
       {{"THROTTLE", "k", "5", "-1", "+060"}}},
      {"*1\rx$4\rxPINGxx*1\r\n$1\r\na\r\n", {{"PING"}, {"a"}}},
      // Incomplete commands.
      {"*", {}},
      {"*1\r", {}},
      {"*2\r\n$1\r\na\r\n", {}},
      {"*2\r\n$1\r\na\r\n$1\r\nb\r", {}},
      {"PING\nPIN", {{"PING"}}},
      // Texts that are not commands.
      {"PING\n*x\r\nPING\n", {{"PING"}}, "ERR Protocol error: invalid multibulk length"},
      {"*\r\n", {}, "ERR Protocol error: invalid multibulk length"},
      {"*+1\r\n", {}, "ERR Protocol error: invalid multibulk length"},
      {"*01\r\n", {}, "ERR Protocol error: invalid multibulk length"},
      {"*-0\r\n", {}, "ERR Protocol error: invalid multibulk length"},
      {"*1 \r\n", {}, "ERR Protocol error: invalid multibulk length"},
      {"*1048577\r\n", {}, "ERR Protocol error: invalid multibulk length"},
      {"*18446744073709551617\r\n", {}, "ERR Protocol error: invalid multibulk length"},
      {"*1\r\n$x\r\n", {}, "ERR Protocol error: invalid bulk length"},
      {"*1\r\n$\r\n", {}, "ERR Protocol error: invalid bulk length"},
      {"*1\r\n$-1\r\n", {}, "ERR Protocol error: invalid bulk length"},
      {"*1\r\n$00\r\n", {}, "ERR Protocol error: invalid bulk length"},
      {"*1\r\n$536870913\r\n", {}, "ERR Protocol error: invalid bulk length"},
      {"*1\r\n$9223372036854775808\r\n", {}, "ERR Protocol error: invalid bulk length"},
      {"*1\r\nPING\r\n", {}, "ERR Protocol error: expected '$', got 'P'"},
      {"*1\r\n+PING\r\n", {}, "ERR Protocol error: expected '$', got '+'"},
      {"*2\r\n$1\r\na\r\n*1\r\n", {}, "ERR Protocol error: expected '$', got '*'"},
      {"*1\r\n:\r\n", {}, "ERR Protocol error: expected '$', got ':'"},
      {"*1\r\n:5\r\n", {}, "ERR Protocol error: expected '$', got ':'"},
      {"*1\r\n:1.5\r\n", {}, "ERR Protocol error: expected '$', got ':'"},
      {"*1\r\n:-\r\n", {}, "ERR Protocol error: expected '$', got ':'"},
      {"*1\r\n\r\n", {}, "ERR Protocol error: expected '$', got ' '"},
      {"*1\r\n\na\r\n", {}, "ERR Protocol error: expected '$', got ' '"},
      {"PING \"abc\r\n", {}, "ERR Protocol error: unbalanced quotes in request"},
      {"PING 'abc\\'\r\n", {}, "ERR Protocol error: unbalanced quotes in request"},
      {"PING \"abc\\\r\n", {}, "ERR Protocol error: unbalanced quotes in request"},
      {"PING \"a\"b\r\n", {}, "ERR Protocol error: unbalanced quotes in request"},
      {"PING 'a''b'\r\n", {}, "ERR Protocol error: unbalanced quotes in request"},
      {"POST / HTTP/1.1\r\nPING\r\n", {}, "http"},
      {"PING\nGET / HTTP/1.1\r\nhOsT: a\r\n", {{"PING"}, {"GET", "/", "HTTP/1.1"}}, "http"},
      {"\"post\"\r\n", {}, "http"},
      {"POSTS Host\r\n", {{"POSTS", "Host"}}},
      {array({"POST"}), {{"POST"}}},
  };
  return all;
}

TEST(RespCommandReader, ReadsWhatTheProtocolSays) {
  for (const Vector& vector : vectors()) {
    const Transcript found = read(vector.text);
    EXPECT_EQ(found.commands, vector.commands) << vector.text;
    EXPECT_EQ(found.end, vector.end) << vector.text;
    EXPECT_EQ(found, resp_model::expected(vector.text, {})) << vector.text;
  }
}

TEST(RespCommandReader, ReadsTheSameForAnySplit) {
  for (const Vector& vector : vectors()) {
    const Transcript whole = resp_model::expected(vector.text, {});
    EXPECT_EQ(read_in({1}, vector.text), whole) << vector.text;
    for (size_t cut = 1; cut < vector.text.size(); ++cut) {
      EXPECT_EQ(read_in({cut, vector.text.size()}, vector.text), whole)
          << cut << " " << vector.text;
      EXPECT_EQ(read_in({cut, 1}, vector.text), whole) << cut << " " << vector.text;
    }
  }
}

// Random sequences of parts that have a meaning in RESP; half of them with bounds that are soon
// reached.
TEST(RespCommandReader, ReadsRandomTextsLikeTheNaiveReader) {
  std::mt19937 random(16);
  const std::vector<std::string> parts = {
      "*1\r\n", "*2\r\n", "*3\r\n", "*4\r\n", "*0\r\n", "*",   "$",    "$1\r\na\r\n", "$8\r\n",
      "$9\r\n", ":1\r\n", "\r\n",   "\r",     "\n",     "\"",  "'",    "\\",          "\\x4",
      "1",      "abc",    " ",      "PING\n", "-1",     "x\r", "post", "$2\r\n",      "12345678"};
  const RespBounds small{3, 8, 40};
  size_t commands = 0, ends = 0, https = 0, unfinished = 0;
  for (int round = 0; round < 30'000; ++round) {
    std::string text;
    for (size_t n = random() % 14; n > 0; --n) text += parts[random() % parts.size()];
    const RespBounds bounds = round % 2 == 0 ? small : RespBounds{};
    const Transcript whole = resp_model::expected(text, bounds);
    EXPECT_EQ(read(text, bounds), whole) << text;
    EXPECT_EQ(read_in({1}, text, bounds), whole) << text;
    const std::vector<size_t> pieces = {random() % 9 + 1, random() % 9 + 1, random() % 5 + 1};
    EXPECT_EQ(read_in(pieces, text, bounds), whole) << text;
    if (HasFailure()) return;
    commands += whole.commands.size();
    https += whole.end == "http";
    ends += !whole.end.empty();
    unfinished += whole.end.empty() && whole.consumed < text.size();
  }
  EXPECT_GT(commands, 10'000u);
  EXPECT_GT(ends, 5'000u);
  EXPECT_GT(https, 20u);
  EXPECT_GT(unfinished, 1'000u);
}

TEST(RespCommandReader, HoldsItsBounds) {
  const RespBounds bounds;
  const auto end_of = [&](const std::string& text) {
    const Transcript whole = resp_model::expected(text, bounds);
    EXPECT_EQ(read(text), whole);
    EXPECT_EQ(read_in({1000, 1, 4096}, text), whole);
    return whole.end.empty() ? std::to_string(whole.commands.size()) : whole.end.substr(20);
  };
  EXPECT_EQ(end_of(array(Words(1024, "a"))), "1");
  EXPECT_EQ(end_of("*1025\r\n"), "invalid multibulk length");
  EXPECT_EQ(end_of(array({std::string(65'536, 'a')})), "1");
  EXPECT_EQ(end_of("*1\r\n$65537\r\n"), "invalid bulk length");

  // The array's header has 5 bytes, and each of these words 10 bytes besides its own.
  Words full(15, std::string(65'536, 'a'));
  full.push_back(std::string(65'371, 'b'));
  EXPECT_EQ(end_of(array(full)), "1");
  EXPECT_EQ(array(full).size(), size_t{1} << 20);
  full.back() += 'b';
  EXPECT_EQ(end_of(array(full)), "invalid bulk length");

  EXPECT_EQ(end_of(std::string(65'536, 'a') + "\n"), "1");
  EXPECT_EQ(end_of(std::string(65'536, 'a')), "0");
  EXPECT_EQ(end_of(std::string(65'537, 'a')), "too big inline request");
  std::string line;
  for (int i = 0; i < 1024; ++i) line += "a ";
  EXPECT_EQ(end_of(line + "\n"), "1");
  EXPECT_EQ(end_of(line + "a\n"), "invalid multibulk length");
  EXPECT_EQ(end_of("*" + std::string(65'535, '1')), "0");
  EXPECT_EQ(end_of("*" + std::string(65'535, '1') + "\r\n"), "invalid multibulk length");
  EXPECT_EQ(end_of("*" + std::string(65'536, '1')), "too big mbulk count string");
  EXPECT_EQ(end_of("*1\r\n$" + std::string(65'535, '1')), "0");
  EXPECT_EQ(end_of("*1\r\n$" + std::string(65'536, '1')), "too big bulk count string");
}

// The test overwrites bytes that were read before it hands over more, so a second reading would
// fail.
TEST(RespCommandReader, ReadsNoByteTwice) {
  base::Arena texts;
  const Words words = {"CL.THROTTLE", std::string(300, 'k'), "15"};
  const std::string text = array(words);
  std::vector<size_t> headers;  // where the header of each word begins
  for (size_t i = 0, at = 4; i < words.size(); ++i) {
    headers.push_back(at);
    at = text.find('\n', at) + 1 + words[i].size() + 2;
  }
  RespCommandReader reader;
  for (size_t n = 1; n <= text.size(); ++n) {
    std::string in = text.substr(0, n);
    size_t read_to = 0;
    for (const size_t header : headers)
      if (n > header) read_to = header;
    for (size_t i = 1; i < read_to; ++i) in[i] = "*$1\r\n"[i % 5];
    // The digits of the current header are read when it is complete, and never again.
    const size_t lf = text.find('\n', read_to);
    if (read_to > 0 && n > lf + 1) std::fill(in.begin() + 1, in.begin() + ptrdiff_t(lf) + 1, '$');
    const auto result = reader.next(in, texts);
    if (n < text.size()) {
      ASSERT_EQ(result.found, RespCommandReader::Found::incomplete) << n;
      ASSERT_EQ(result.consumed, 0u);
      continue;
    }
    ASSERT_EQ(result.found, RespCommandReader::Found::command);
    ASSERT_EQ(reader.words().size(), words.size());
    for (size_t i = 0; i < words.size(); ++i) {
      EXPECT_EQ(reader.words()[i].size(), words[i].size());
      EXPECT_EQ(reader.words()[i].data() - in.data(), ptrdiff_t(text.find('\n', headers[i])) + 1);
    }
  }

  // The reader does not search for a line end in bytes in which it found none.
  for (const std::string& line :
       {"ECHO " + std::string(300, 'a') + "\n", "*" + std::string(300, '1') + "\r\n"}) {
    RespCommandReader of_line;
    const char end = line[0] == '*' ? '\r' : '\n';
    for (size_t n = 1; n + 2 < line.size(); ++n) {
      std::string in = line.substr(0, n);
      std::fill(in.begin() + 1, in.end() - (n > 1), end);
      ASSERT_EQ(of_line.next(in, texts).found, RespCommandReader::Found::incomplete) << n;
    }
    EXPECT_NE(of_line.next(line, texts).found, RespCommandReader::Found::incomplete);
  }
}

TEST(RespCommandReader, CopiesOnlyEscapedWords) {
  base::Arena texts;
  RespCommandReader reader;
  const std::string in = "a \"b c\" 'd' \"e\\n\" f\"g\"\n";
  ASSERT_EQ(reader.next(in, texts).found, RespCommandReader::Found::command);
  ASSERT_EQ(reader.words().size(), 5u);
  for (size_t i = 0; i < 5; ++i) {
    const bool within =
        reader.words()[i].data() >= in.data() && reader.words()[i].data() < in.data() + in.size();
    EXPECT_EQ(within, i < 3) << i;
  }
}

TEST(RespCommandReader, ReturnsTheMemoryOfALongList) {
  base::Arena texts;
  RespCommandReader reader;
  const std::string in = array(Words(1000, "a"));
  ASSERT_EQ(reader.next(in, texts).found, RespCommandReader::Found::command);
  reader.release();
  EXPECT_EQ(reader.words().size(), 0u);
  ASSERT_EQ(reader.next(in.substr(0, 500), texts).found, RespCommandReader::Found::incomplete);
  reader.release();  // a command that is being read stays
  ASSERT_EQ(reader.next(in, texts).found, RespCommandReader::Found::command);
  EXPECT_EQ(reader.words().size(), 1000u);
}

TEST(RespCommands, ReadBackTheSame) {
  std::mt19937 random(17);
  base::Buffer out;
  Commands commands;
  for (int i = 0; i < 300; ++i) {
    Words words(random() % 6 + 1);
    for (std::string& word : words)
      for (size_t n = random() % 20; n > 0; --n) word += static_cast<char>(random());
    append_resp_command(std::vector<std::string_view>(words.begin(), words.end()), out);
    commands.push_back(words);
  }
  EXPECT_EQ(read_in({7}, std::string(out.view())).commands, commands);
}

TEST(RespNumber, IsStrict) {
  int64_t value = 0;
  for (const int64_t n : {int64_t{0}, int64_t{1}, int64_t{-1}, INT64_MAX, INT64_MIN}) {
    EXPECT_TRUE(read_resp_number(std::to_string(n), value));
    EXPECT_EQ(value, n);
  }
  for (const char* text : {"", "-", "+1", "01", "-0", "1 ", " 1", "1.0", "9223372036854775808"})
    EXPECT_FALSE(read_resp_number(text, value)) << text;
}

// ---- Replies ----

void write_all(RespWriter& out) {
  out.simple("OK");
  out.simple("a\r\nb");
  out.error("ERR a\nb");
  out.integer(0);
  out.integer(INT64_MIN);
  out.bulk("");
  out.bulk("a\r\nb");
  out.null();
  out.null_list();
  out.list(2);
  out.map(1);
  out.bulk("k");
  out.list(0);
  out.boolean(true);
  out.boolean(false);
  out.number(1.5);
  out.number(-0.1);
  out.number(std::numeric_limits<double>::infinity());
  out.number(-std::nan(""));
  const int64_t five[] = {0, 16, 15, -1, INT64_MAX};
  out.integers(five);
}

constexpr std::string_view in_resp2 =
    "+OK\r\n+a  b\r\n-ERR a b\r\n:0\r\n:-9223372036854775808\r\n$0\r\n\r\n$4\r\na\r\nb\r\n$-1\r\n"
    "*-1\r\n*2\r\n*2\r\n$1\r\nk\r\n*0\r\n:1\r\n:0\r\n$3\r\n1.5\r\n$4\r\n-0.1\r\n$3\r\ninf\r\n"
    "$3\r\nnan\r\n*5\r\n:0\r\n:16\r\n:15\r\n:-1\r\n:9223372036854775807\r\n";
constexpr std::string_view in_resp3 =
    "+OK\r\n+a  b\r\n-ERR a b\r\n:0\r\n:-9223372036854775808\r\n$0\r\n\r\n$4\r\na\r\nb\r\n_\r\n"
    "_\r\n*2\r\n%1\r\n$1\r\nk\r\n*0\r\n#t\r\n#f\r\n,1.5\r\n,-0.1\r\n,inf\r\n"
    ",nan\r\n*5\r\n:0\r\n:16\r\n:15\r\n:-1\r\n:9223372036854775807\r\n";

TEST(RespWriter, WritesEachTypeInBothVersions) {
  base::Buffer out;
  RespWriter second(out, RespVersion::resp2);
  write_all(second);
  EXPECT_EQ(out.view(), in_resp2);
  out.clear();
  RespWriter third(out, RespVersion::resp3);
  write_all(third);
  EXPECT_EQ(out.view(), in_resp3);
}

// An item as a text, with the items that it contains in brackets.
std::string show(RespItems& items) {
  using Kind = RespItem::Kind;
  RespItem item;
  if (!items.next(item)) return "?";
  const auto heads = [&](size_t count) {
    std::string text = item.push ? ">[" : "[";
    for (; count > 0; --count) text += show(items) + (count > 1 ? "," : "");
    return text + "]";
  };
  switch (item.kind) {
    case Kind::simple:
      return "+" + std::string(item.text);
    case Kind::error:
      return "-" + std::string(item.text);
    case Kind::integer:
      return ":" + std::to_string(item.number);
    case Kind::bulk:
      return "'" + std::string(item.text) + "'";
    case Kind::null:
      return "null";
    case Kind::boolean:
      return item.number != 0 ? "true" : "false";
    case Kind::real:
      return "," + std::to_string(item.real);
    case Kind::big_number:
      return "(" + std::string(item.text);
    case Kind::list:
      return heads(item.count);
    case Kind::map:
      return "map" + heads(2 * item.count);
    case Kind::attributes: {
      const std::string about = "about" + heads(2 * item.count);
      return about + show(items);
    }
  }
  return "?";
}

std::vector<std::string> read_replies(const std::string& text, size_t step,
                                      const RespReplyBounds& bounds = {}) {
  std::vector<std::string> all;
  RespReplyReader reader(bounds);
  size_t consumed = 0;
  for (size_t arrived = 0; arrived < text.size();) {
    arrived = std::min(text.size(), arrived + step);
    while (true) {
      const std::string in = text.substr(consumed, arrived - consumed);
      const auto result = reader.next(in);
      if (result.found == RespReplyReader::Found::broken) {
        EXPECT_EQ(reader.next("+OK\r\n").found, RespReplyReader::Found::broken);
        all.emplace_back("broken");
        return all;
      }
      if (result.found == RespReplyReader::Found::incomplete) break;
      RespItems items(std::string_view(in).substr(0, result.consumed));
      all.push_back(show(items));
      RespItem none;
      EXPECT_FALSE(items.next(none)) << text;
      consumed += result.consumed;
    }
  }
  return all;
}

TEST(RespReplyReader, ReadsWhatTheWriterWrites) {
  const std::vector<std::string> first = {
      "+OK", "+a  b", "-ERR a b", ":0", ":-9223372036854775808", "''", "'a\r\nb'", "null", "null"};
  std::vector<std::string> second = first, third = first;
  second.insert(second.end(), {"[['k',[]],:1]", ":0", "'1.5'", "'-0.1'", "'inf'", "'nan'",
                               "[:0,:16,:15,:-1,:9223372036854775807]"});
  third.insert(third.end(), {"[map['k',[]],true]", "false", ",1.500000", ",-0.100000", ",inf",
                             ",nan", "[:0,:16,:15,:-1,:9223372036854775807]"});
  for (const size_t step : {1u, 2u, 3u, 7u, 50u, 1000u}) {
    EXPECT_EQ(read_replies(std::string(in_resp2), step), second) << step;
    EXPECT_EQ(read_replies(std::string(in_resp3), step), third) << step;
  }
}

TEST(RespReplyReader, ReadsWhatOtherServersWrite) {
  const std::string text =
      "=7\r\ntxt:abc\r\n!5\r\nERR x\r\n(-12345678901234567890\r\n~2\r\n:1\r\n:+2\r\n>2\r\n+a\r\n"
      "_\r\n|1\r\n+k\r\n*0\r\n%1\r\n+a\r\n~0\r\n*1\r\n*1\r\n*-1\r\n,1e3\r\n";
  const std::vector<std::string> expected = {"'abc'",    "-ERR x",      "(-12345678901234567890",
                                             "[:1,:2]",  ">[+a,null]",  "about[+k,[]]map[+a,[]]",
                                             "[[null]]", ",1000.000000"};
  for (size_t step = 1; step < text.size(); ++step)
    EXPECT_EQ(read_replies(text, step), expected) << step;
}

TEST(RespReplyReader, RejectsInvalidReplies) {
  for (const char* text :
       {"PONG\r\n", "\r\n", ":\r\n", ":x\r\n", "$-2\r\n", "$x\r\n", "*-2\r\n", "%-1\r\n", "~-1\r\n",
        "#x\r\n", "_x\r\n", ",x\r\n", "$?\r\n", "*?\r\n", "+a\rb", "=3\r\nabc\r\n", "@1\r\n",
        "*99999999999\r\n", "*2\r\n+a\r\nb\r\n"})
    EXPECT_EQ(read_replies(text, 1), std::vector<std::string>{"broken"}) << text;
}

TEST(RespReplyReader, HoldsItsBounds) {
  const std::vector<std::string> broken = {"broken"};
  EXPECT_EQ(read_replies("$20\r\n12345678901234567890\r\n", 5, {27, 2}).size(), 1u);
  EXPECT_EQ(read_replies("$20\r\n12345678901234567890\r\n", 5, {27, 2})[0],
            "'12345678901234567890'");
  EXPECT_EQ(read_replies("$20\r\n", 5, {26, 2}), broken);
  EXPECT_EQ(read_replies("*1\r\n*1\r\n+\r\n", 5, {27, 2}), std::vector<std::string>{"[[+]]"});
  EXPECT_EQ(read_replies("*2\r\n*1\r\n", 5, {27, 2}), broken);
  EXPECT_EQ(read_replies("*1048577\r\n", 100), broken);
  EXPECT_EQ(read_replies("+" + std::string(70'000, 'a'), 1000), broken);
}

}  // namespace
}  // namespace sluice::wire::resp_test
