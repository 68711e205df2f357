// A connection's bytes to requests, and verdicts to reply lines, against the naive model in
// session_model.h and against recorded answers of Divvy's server (tests/conformance/divvy.json).
#include "protocol/divvy/session.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <random>

#include "base/bounds.h"
#include "base/utf8.h"
#include "protocol/divvy/session_model.h"
#include "tests/support/paths.h"

namespace sluice::divvy {
namespace {

using model::Pairs;
using model::Transcript;

Transcript whole(std::string_view bytes, bool end = true) {
  DivvySession session;
  return model::run(session, bytes, {}, end);
}

Transcript cut(std::string_view bytes, const std::vector<size_t>& cuts) {
  DivvySession session;
  return model::run(session, bytes, cuts, true);
}

// ---- One line ----

struct Good {
  std::string_view line;
  Pairs pairs;
};

TEST(DivvySession, ReadsRequests) {
  const Good table[] = {
      {"HIT", {}},
      {"HIT ", {}},
      {"HIT \t\xC2\xA0", {}},
      {"hit k=v", {{"k", "v"}}},
      {"hIt k=v", {{"k", "v"}}},
      {"\"HIT\" k=v", {{"k", "v"}}},
      {"\"hit\"k=v", {{"k", "v"}}},
      {"HIT=foo k=v", {{"", "foo"}, {"k", "v"}}},
      {"HIT=", {{"", ""}}},
      {"HIT method=GET path=/bench ip=12345",
       {{"method", "GET"}, {"path", "/bench"}, {"ip", "12345"}}},
      {"HIT \"method\"=\"GET\" \"a b\"=\"c=d e\"", {{"method", "GET"}, {"a b", "c=d e"}}},
      {"HIT k= x=1", {{"k", ""}, {"x", "1"}}},
      {"HIT k=", {{"k", ""}}},
      {"HIT k=\"\"", {{"k", ""}}},
      {"HIT =v \"\"=w", {{"", "v"}, {"", "w"}}},
      {"HIT k=a k=b", {{"k", "a"}, {"k", "b"}}},
      {"HIT k=a\"b j=x\" {\"x\":[1,\"y\"]}=1",
       {{"k", "a\"b"}, {"j", "x\""}, {"{\"x\":[1,\"y\"]}", "1"}}},
      {"HIT k=\"a\\\" j=\\n", {{"k", "a\\"}, {"j", "\\n"}}},
      {"HIT \t k=v \t who=1 \t", {{"k", "v"}, {"who", "1"}}},
      {"HIT k=v\vwho=1\fx=2\ry=3", {{"k", "v"}, {"who", "1"}, {"x", "2"}, {"y", "3"}}},
      {"HIT\xC2\xA0k=v\xE3\x80\x80who=1\xE2\x80\x83x=2", {{"k", "v"}, {"who", "1"}, {"x", "2"}}},
      {"HIT k=a\xC2\x85"
       "b\xE2\x80\x8B"
       "c\xE1\xA0\x8E"
       "d",
       {{"k",
         "a\xC2\x85"
         "b\xE2\x80\x8B"
         "c\xE1\xA0\x8E"
         "d"}}},
      {"HIT u=caf\xC3\xA9 j=\xE6\x97\xA5\xF0\x9F\x98\x80",
       {{"u", "caf\xC3\xA9"}, {"j", "\xE6\x97\xA5\xF0\x9F\x98\x80"}}},
      {"HIT k=\xC3", {{"k", "\xEF\xBF\xBD"}}},
      {"HIT k=\xED\xA0\x80 \xFF=\xC0",
       {{"k", "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD"}, {"\xEF\xBF\xBD", "\xEF\xBF\xBD"}}},
      {"HIT k=\xE2\x80 j=1", {{"k", "\xEF\xBF\xBD"}, {"j", "1"}}},
      {std::string_view("HIT k=a\0b j=\"\0\"", 15),
       {{"k", std::string("a\0b", 3)}, {"j", std::string(1, '\0')}}},
      {"HIT __proto__=x", {{"__proto__", "x"}}},
  };
  for (const Good& good : table) {
    for (const char* line_end : {"\n", "\r\n", "", "\r"}) {
      const Transcript t = whole(std::string(good.line) + line_end);
      ASSERT_EQ(t.requests.size(), 1u) << good.line << t.farewell;
      EXPECT_EQ(t.requests[0], good.pairs) << good.line;
      EXPECT_FALSE(t.closing);
      EXPECT_EQ(t.farewell, "");
    }
  }
}

struct Bad {
  std::string_view line, error;
};

TEST(DivvySession, ReportsErrorsAsTheOriginal) {
  const Bad table[] = {
      {"", R"(ERR unknown-command "Unrecognized command: ")"},
      {"   ", R"(ERR unknown-command "Unrecognized command: ")"},
      {"=", R"(ERR unknown-command "Unrecognized command: ")"},
      {" HIT k=v", R"(ERR unknown-command "Unrecognized command: ")"},
      {"\xEF\xBB\xBFHIT k=v", R"(ERR unknown-command "Unrecognized command: ")"},
      {"\"\" k=v", R"(ERR unknown-command "Unrecognized command: ")"},
      {"quit", R"(ERR unknown-command "Unrecognized command: QUIT")"},
      {"HITS k=v", R"(ERR unknown-command "Unrecognized command: HITS")"},
      {"HI", R"(ERR unknown-command "Unrecognized command: HI")"},
      {"\"foo bar\" k=v", R"(ERR unknown-command "Unrecognized command: FOO BAR")"},
      {"HIT\"k\"=v", R"(ERR unknown-command "Unrecognized command: HIT"K"")"},
      {"\"FO\rO\"", "ERR unknown-command \"Unrecognized command: FO\rO\""},
      {"h\xFFt", "ERR unknown-command \"Unrecognized command: H\xEF\xBF\xBDT\""},
      {"\"HIT k=v", R"(ERR unknown "Unexpected end of quoted string.")"},
      {"HIT k=\"v", R"(ERR unknown "Unexpected end of quoted string.")"},
      {"HIT \"k=v", R"(ERR unknown "Unexpected end of quoted string.")"},
      {"HIT k=v \"", R"(ERR unknown "Unexpected end of quoted string.")"},
      {"HIT k=v foo", R"(ERR unknown "Unexpected end of input string.")"},
      {"HIT k=v foo  ", R"(ERR unknown "Unexpected end of input string.")"},
      {"HIT foo\xE2\x80\xA8", R"(ERR unknown "Unexpected end of input string.")"},
      {"HIT k\"v", R"(ERR unknown "Unexpected end of input string.")"},
      {"HIT foo k=v", R"(ERR unknown "Expected '=', found ' '")"},
      {"HIT foo\tk=v", "ERR unknown \"Expected '=', found '\t'\""},
      {"HIT foo\xC2\xA0k=v", "ERR unknown \"Expected '=', found '\xC2\xA0'\""},
      {"HIT \"k\"x=v", R"(ERR unknown "Expected '=', found 'x'")"},
      {"HIT k=v=w", R"(ERR unknown "Expected whitespace, found '='")"},
      {"HIT k=\"v\"x", R"(ERR unknown "Expected whitespace, found 'x'")"},
      {"HIT k=\"v\"\xC3\xA9", "ERR unknown \"Expected whitespace, found '\xC3\xA9'\""},
      {"HIT k=\"v\"\xF0\x9F\x98\x80", "ERR unknown \"Expected whitespace, found '\xEF\xBF\xBD'\""},
      {"HIT k=\"v\"\xF0\x9F", "ERR unknown \"Expected whitespace, found '\xEF\xBF\xBD'\""},
  };
  for (const Bad& bad : table) {
    for (const char* behind : {"\n", "\r\n", "\nHIT a=1\n"}) {
      const Transcript t = whole("HIT a=1\n" + std::string(bad.line) + behind);
      EXPECT_EQ(t.requests.size(), 1u) << bad.line;
      EXPECT_EQ(t.replies, "OK true 0 0\n") << bad.line;
      EXPECT_TRUE(t.closing) << bad.line;
      EXPECT_EQ(t.farewell, std::string(bad.error) + "\n") << bad.line;
    }
  }
}

// Each character of JavaScript's \s separates words, and no other character does.
TEST(DivvySession, WhiteSpaceIsJavaScripts) {
  for (char32_t c = 1; c < 0x10000; ++c) {
    if (c == '\n' || c == '"' || c == '=' || (c >= 0xD800 && c < 0xE000)) continue;
    const auto unit = static_cast<char16_t>(c);
    const std::string text = model::encode({&unit, 1});
    const Transcript t = whole("HIT a=1" + text + "b=2" + text + "\n");
    if (model::is_space(unit)) {
      ASSERT_EQ(t.requests, (std::vector<Pairs>{{{"a", "1"}, {"b", "2"}}})) << uint32_t{c};
    } else {
      ASSERT_EQ(t.farewell, "ERR unknown \"Expected whitespace, found '='\"\n") << uint32_t{c};
    }
  }
}

// ---- Replies ----

std::string reply_to(const request::Verdict& verdict, bool& open) {
  DivvySession session;
  base::Buffer out;
  open = session.reply({}, verdict, {}, out);
  return std::string(out.view());
}

// `decision` outlives it.
request::Verdict verdict_of(const limit::Decision& decision) {
  request::Verdict verdict;
  verdict.allowed = decision.allowed;
  verdict.tightest = &decision;
  return verdict;
}

request::Verdict failed(std::string_view error) {
  request::Verdict verdict;
  verdict.error = error;
  return verdict;
}

TEST(DivvySession, Replies) {
  struct {
    limit::Decision decision;
    std::string_view text;
  } const table[] = {
      {{true, 3, 2, base::seconds(3600), {}}, "OK true 2 3600\n"},
      {{false, 3, 0, base::seconds(3599), base::seconds(1)}, "OK false 0 3599\n"},
      {{false, 0, 0, base::never, base::never}, "OK false 0 -1\n"},
      {{true, 50, 50, {}, {}}, "OK true 50 0\n"},
      {{true, 3, 2, {499'999}, {}}, "OK true 2 0\n"},
      {{true, 3, 2, {500'000}, {}}, "OK true 2 1\n"},
      {{true, 3, 2, {1'499'999}, {}}, "OK true 2 1\n"},
      {{true, 3, 2, {1'500'000}, {}}, "OK true 2 2\n"},
      {{false, 3, -5, {1}, {}}, "OK false 0 1\n"},
      {{true, 3, INT64_MAX, {INT64_MAX - 1}, {}}, "OK true 9223372036854775807 9223372036855\n"},
      {{false, 3, INT64_MAX, {INT64_MAX - 1}, {}}, "OK false 9223372036854775807 9223372036855\n"},
      {{false, 3, INT64_MIN, {INT64_MIN}, {}}, "OK false 0 1\n"},
  };
  bool open = false;
  for (const auto& row : table) {
    limit::Decision decision = row.decision;
    decision.retry_after = decision.reset_after;
    EXPECT_EQ(reply_to(verdict_of(decision), open), row.text);
    EXPECT_TRUE(open);
  }
  EXPECT_EQ(reply_to({}, open), "OK false 0 -1\n");
  EXPECT_TRUE(open);
}

TEST(DivvySession, SecondsRoundAsRedisDoes) {
  bool open = false;
  std::mt19937_64 random(6);
  for (int i = 0; i < 20'000; ++i) {
    const int64_t us = static_cast<int64_t>(random() >> (11 + random() % 50));
    const limit::Decision d{true, 1, 0, {us}, {}};
    ASSERT_EQ(reply_to(verdict_of(d), open),
              "OK true 0 " + std::to_string((us / 1000 + 500) / 1000) + "\n");
  }
}

// A refusal's seconds are rounded up, so that a client that repeats the request then is not too
// early. For counters in Divvy's own format they are rounded as Divvy rounds, but to 1 at least.
TEST(DivvySession, ARefusalNeverHasAResetOfZero) {
  bool open = false;
  const auto reply = [&](int64_t us, bool of_divvy) {
    const limit::Decision d{false, 1, 0, {us}, {us}};
    request::Space space;
    if (of_divvy) space.encoding = request::KeyEncoding::remaining_text;
    const limit::Limit limit;
    request::Charge charge;
    charge.space = &space;
    charge.limits = {&limit, 1};
    request::Verdict verdict = verdict_of(d);
    verdict.charges = {&charge, 1};
    verdict.decisions = &d;
    return reply_to(verdict, open);
  };
  EXPECT_EQ(reply(0, false), "OK false 0 1\n");
  for (const bool of_divvy : {false, true}) {
    EXPECT_EQ(reply(1, of_divvy), "OK false 0 1\n");
    EXPECT_EQ(reply(499'999, of_divvy), "OK false 0 1\n");
    EXPECT_EQ(reply(1'000'000, of_divvy), "OK false 0 1\n");
  }
  EXPECT_EQ(reply(1'100'000, false), "OK false 0 2\n");
  EXPECT_EQ(reply(1'100'000, true), "OK false 0 1\n");
  EXPECT_EQ(reply(1'500'000, true), "OK false 0 2\n");
}

TEST(DivvySession, AnErrorIsSentAndClosesTheConnection) {
  bool open = true;
  EXPECT_EQ(reply_to(failed("out of memory"), open), "ERR Internal Error: out of memory\n");
  EXPECT_FALSE(open);
  EXPECT_EQ(reply_to(failed("a\nb"), open), "ERR Internal Error: Message contained newlines\n");
  EXPECT_FALSE(open);
}

TEST(DivvySession, RefusesWithTheReason) {
  DivvySession session;
  base::Buffer out;
  session.end(request::Ending::announced, {}, out);
  EXPECT_EQ(out.view(), "");
  session.end(request::Ending::refused, "too many connections", out);
  EXPECT_EQ(out.view(), "ERR Internal Error: too many connections\n");
}

// ---- Framing ----

TEST(DivvySession, LeavesAnUnfinishedLine) {
  DivvySession session;
  request::Requests requests;
  base::Buffer out;
  const std::string_view bytes = "HIT a=1\nHIT b=2";
  request::Received received = session.receive(bytes, false, requests, out);
  EXPECT_EQ(received.consumed, 8u);
  EXPECT_EQ(requests.size(), 1u);
  requests.clear();
  received = session.receive(bytes.substr(8), false, requests, out);
  EXPECT_EQ(received.consumed, 0u);
  EXPECT_EQ(requests.size(), 0u);
  received = session.receive(bytes.substr(8), true, requests, out);
  EXPECT_EQ(received.consumed, 7u);
  EXPECT_EQ(requests.size(), 1u);
  requests.clear();
  received = session.receive({}, true, requests, out);
  EXPECT_EQ(received.consumed, 0u);
  EXPECT_FALSE(received.closing);
  EXPECT_EQ(requests.size(), 0u);
}

TEST(DivvySession, AnEndWithoutALineIsIgnored) {
  EXPECT_EQ(whole(""), Transcript{});
  EXPECT_EQ(whole("HIT\n").requests.size(), 1u);
  EXPECT_EQ(whole("\r").farewell, "ERR unknown-command \"Unrecognized command: \"\n");
}

TEST(DivvySession, EntriesOfPlainLinesPointIntoTheInput) {
  DivvySession session;
  request::Requests requests;
  base::Buffer out;
  const std::string in = "HIT key=value \"k 2\"=\"v 2\" u=\xC3\xA9\n";
  session.receive(in, false, requests, out);
  ASSERT_EQ(requests.size(), 1u);
  for (const request::Entry& e : requests.descriptor(requests.items()[0])) {
    for (const std::string_view view : {e.key, e.value}) {
      EXPECT_GE(view.data(), in.data());
      EXPECT_LE(view.data() + view.size(), in.data() + in.size());
    }
  }
}

TEST(DivvySession, RewrittenLinesOfABatchStay) {
  using base::bounds::batch_requests_max;
  std::string in;
  for (size_t i = 0; i < batch_requests_max; ++i)
    in += "HIT k=\xFF" + std::to_string(i) + " j=\xC0\n";
  DivvySession session;
  request::Requests requests;
  base::Buffer out;
  EXPECT_EQ(session.receive(in, false, requests, out).consumed, in.size());
  in.assign(in.size(), '?');  // the entries of rewritten lines do not point into it
  ASSERT_EQ(requests.size(), batch_requests_max);
  for (size_t i = 0; i < batch_requests_max; ++i) {
    const auto descriptor = requests.descriptor(requests.items()[i]);
    ASSERT_EQ(descriptor.size(), 2u);
    EXPECT_EQ(descriptor[0].value, "\xEF\xBF\xBD" + std::to_string(i));
    EXPECT_EQ(descriptor[1].value, "\xEF\xBF\xBD");
    session.reply({}, {}, {}, out);
  }
}

TEST(DivvySession, ReadsOneBatchAtATime) {
  using base::bounds::batch_requests_max;
  std::string in;
  for (size_t i = 0; i < 2 * batch_requests_max + 5; ++i) in += "HIT\n";
  DivvySession session;
  request::Requests requests;
  base::Buffer out;
  std::vector<size_t> sizes;
  for (std::string_view rest = in; !rest.empty();) {
    requests.clear();
    rest.remove_prefix(session.receive(rest, true, requests, out).consumed);
    sizes.push_back(requests.size());
  }
  EXPECT_EQ(sizes, (std::vector<size_t>{batch_requests_max, batch_requests_max, 5}));
  // Requests that other connections have added do not make the batch smaller.
  session.receive(in, false, requests, out);
  EXPECT_EQ(requests.size(), batch_requests_max + 5);
}

TEST(DivvySession, ReadsNothingAfterAnInvalidLine) {
  DivvySession session;
  request::Requests requests;
  base::Buffer out;
  const std::string in = "HIT a=1\nHIT b=2\nBAD\nHIT c=3\nHIT d=4";
  request::Received received = session.receive(in, false, requests, out);
  EXPECT_TRUE(received.closing);
  EXPECT_EQ(received.consumed, in.size());
  EXPECT_EQ(requests.size(), 2u);
  requests.clear();
  received = session.receive("HIT e=5\n", true, requests, out);
  EXPECT_TRUE(received.closing);
  EXPECT_EQ(requests.size(), 0u);
  // A bad line leaves no entries in `requests`.
  DivvySession other;
  other.receive("HIT a=1 b=2 c\nHIT\n", false, requests, out);
  EXPECT_EQ(requests.open_entries(), 0u);
}

// ---- Bounds ----

TEST(DivvySession, LinesHaveABound) {
  using base::bounds::line_bytes_max;
  const std::string longest = "HIT k=" + std::string(line_bytes_max - 6, 'x');
  for (const std::string end : {"\n", ""}) {
    const Transcript t = whole(longest + end);
    ASSERT_EQ(t.requests.size(), 1u) << t.farewell;
    EXPECT_EQ(t.requests[0][0].second.size(), line_bytes_max - 6);
  }
  EXPECT_EQ(whole(longest, false), Transcript{});
  for (const std::string rest : {"x", "x\n", "\r\n", "x\nHIT\n"}) {
    const Transcript t = whole("HIT\n" + longest + rest, false);
    EXPECT_EQ(t.requests.size(), 1u);
    EXPECT_EQ(t.farewell, "ERR unknown \"Line is longer than 1048576 bytes.\"\n");
    EXPECT_TRUE(t.closing);
    EXPECT_EQ(cut("HIT\n" + longest + rest, {line_bytes_max, 5}), t);
  }
}

TEST(DivvySession, RequestsHaveABoundOfPairs) {
  std::string line = "HIT";
  for (size_t i = 0; i < base::bounds::descriptor_entries_max; ++i)
    line += " k=" + std::to_string(i);
  EXPECT_EQ(whole(line + "\n").requests.at(0).size(), base::bounds::descriptor_entries_max);
  const Transcript t = whole(line + " one=more\n");
  EXPECT_EQ(t.requests.size(), 0u);
  EXPECT_EQ(t.farewell, "ERR unknown \"More than 256 pairs in one request.\"\n");
}

// Shown without measuring time: the session does not read bytes again in which it found no line
// end, so it does not notice when the test puts one there.
TEST(DivvySession, SearchesEachByteOnce) {
  DivvySession session;
  request::Requests requests;
  base::Buffer out;
  std::string in = "HIT k=" + std::string(1000, 'x');
  session.receive(in, false, requests, out);
  const std::string without_lf = in;
  in[10] = '\n';  // a search that begins again would find it
  in += "yy";
  EXPECT_EQ(session.receive(in, false, requests, out).consumed, 0u);
  in = without_lf + "yyz\n";
  EXPECT_EQ(session.receive(in, false, requests, out).consumed, in.size());
  // Bytes fewer than those that were left are others, and are searched from the first.
  requests.clear();
  session.receive(without_lf, false, requests, out);
  EXPECT_EQ(session.receive("HIT a=1\n", false, requests, out).consumed, 8u);
  EXPECT_EQ(requests.size(), 1u);
}

TEST(DivvySession, IsSmallWhenIdle) {
  EXPECT_LE(sizeof(DivvySession), 64u);
}

// ---- Any split gives the same ----

class Lines {
 public:
  explicit Lines(uint64_t seed) : random_(seed) {}

  std::string next() {
    std::string line =
        pick({"HIT", "HIT", "HIT", "HIT", "hit", "\"hit\"", "HIT=", "BAD", "", "\"H"}, 40);
    for (uint64_t n = random_() % 6; n > 0; --n) line += pair();
    line += pick({"", "", "", " ", "\t\xE2\x80\x89", "\xC2"});
    return line + pick({"\n", "\n", "\n", "\r\n", "\r\r\n"});
  }

  uint64_t below(uint64_t n) { return random_() % n; }

 private:
  // One of `words`, usually one of the first four; one time in `rarely`, any of them.
  std::string pick(const std::vector<std::string>& words, uint64_t rarely = 1) {
    const bool rare = random_() % rarely == 0;
    return words[random_() % (rare ? words.size() : std::min<size_t>(words.size(), 4))];
  }

  std::string space() {
    return pick(
        {" ", " ", " ", "  ", "\t", "\xC2\xA0", "\xE3\x80\x80", "\r", "\xEF\xBB\xBF", "", "\xC2"},
        10);
  }
  std::string text() {
    std::string out;
    for (uint64_t n = random_() % 12; n > 0; --n)
      out += pick({"a", "Z", "/", "9", "\xC3\xA9", "\xE6\x97\xA5", "\xF0\x9F\x98\x80", "\xFF",
                   "\xC3", "\xE2\x80", "\xED\xA0\x80", "\xF0\x9F", "\xF4\x90\x80\x80",
                   "\xE1\x9A\x81", std::string(1, '\0'), "a\""},
                  8);
    return out;
  }
  std::string string() {
    switch (random_() % 8) {
      case 0:
        return "\"" + text() + " =" + text() + "\"";
      case 1:
        return std::string(random_() % 200, 'x');
      default:
        return text();
    }
  }
  std::string pair() {
    return space() + string() + pick({"=", "=", "=", "=", " =", ""}, 60) + string();
  }

  std::mt19937_64 random_;
};

TEST(DivvySession, AnswersLikeTheNaiveModelForAnySplit) {
  Lines lines(1);
  size_t requests = 0, errors = 0;
  for (int round = 0; round < 3'000; ++round) {
    std::string bytes;
    for (uint64_t n = lines.below(8) + 1; n > 0; --n) bytes += lines.next();
    if (lines.below(3) == 0) bytes.resize(bytes.size() - lines.below(bytes.size()));

    const Transcript expected = model::expected(bytes, true);
    requests += expected.requests.size();
    errors += expected.closing;
    ASSERT_EQ(whole(bytes), expected)
        << bytes << "|" << expected.farewell << "|" << whole(bytes).farewell;
    ASSERT_EQ(whole(bytes, false), model::expected(bytes, false)) << bytes;
    ASSERT_EQ(cut(bytes, std::vector<size_t>(bytes.size(), 1)), expected) << bytes;
    std::vector<size_t> cuts;
    for (size_t left = bytes.size(); left > 0;) {
      cuts.push_back(lines.below(std::min<size_t>(left, 40)) + 1);
      left -= cuts.back();
    }
    ASSERT_EQ(cut(bytes, cuts), expected) << bytes;
    if (round % 20 == 0) {
      for (size_t at = 0; at <= bytes.size(); ++at)
        ASSERT_EQ(cut(bytes, {at}), expected) << bytes << at;
    }
  }
  // The generator made enough of both.
  EXPECT_GT(requests, 5'000u);
  EXPECT_GT(errors, 500u);
}

// The session searches blocks of bytes for the end of a string, so strings of all lengths and
// places around the size of a block are tried.
TEST(DivvySession, StringsOfEveryLengthAndPlace) {
  for (size_t before = 0; before < 150; ++before) {
    for (size_t size = 0; size < 140; ++size) {
      for (const char quote : {'\0', '"'}) {
        const std::string mark = quote == '\0' ? "" : std::string(1, quote);
        const std::string a(before, 'a'), b(size, 'b');
        const Transcript t =
            whole("HIT x=" + mark + a + mark + " y=" + b + " z=" + mark + "\xC3\xA9" + mark);
        ASSERT_EQ(t.requests, (std::vector<Pairs>{{{"x", a}, {"y", b}, {"z", "\xC3\xA9"}}}))
            << before << " " << size;
      }
    }
  }
}

// ---- The recorded vectors ----

std::string bytes_of_base64(std::string_view text) {
  static constexpr std::string_view digits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  uint32_t bits = 0;
  int count = 0;
  for (const char c : text) {
    const size_t digit = digits.find(c);
    if (digit == digits.npos) break;
    bits = (bits << 6) | static_cast<uint32_t>(digit);
    if ((count += 6) >= 8) out.push_back(static_cast<char>(bits >> (count -= 8) & 0xFF));
  }
  return out;
}

std::vector<std::string> sent_by(const nlohmann::json& step) {
  if (step.contains("send")) return {step["send"].get<std::string>()};
  if (step.contains("send_b64")) return {bytes_of_base64(step["send_b64"].get<std::string>())};
  std::string all;
  if (step.contains("send_parts")) {
    for (const auto& part : step["send_parts"])
      for (size_t n = part[1].get<size_t>(); n > 0; --n) all += part[0].get<std::string>();
  }
  if (step.contains("chunks")) return step["chunks"].get<std::vector<std::string>>();
  return {all};
}

// No counters are involved. So only two things of each connection are compared: how many requests
// are answered OK, and the exact bytes of its error.
TEST(DivvySession, RecordedVectors) {
  std::ifstream file(tests::source_path("tests/conformance/divvy.json"));
  const nlohmann::json all = nlohmann::json::parse(file);
  size_t checked = 0, errors = 0;
  for (const auto& vector : all["cases"]) {
    if (vector.value("unicode_case", false) || vector.value("racy", false)) continue;
    struct Side {
      std::vector<std::string> sent;
      size_t answered = 0;
      std::string error;
    };
    std::map<int, Side> sides;
    bool usable = true;
    for (const auto& step : vector["steps"]) {
      if (step.value("half_close", false)) usable = false;
      Side& side = sides[step.value("conn", 0)];
      for (std::string& piece : sent_by(step)) side.sent.push_back(std::move(piece));
      std::vector<std::string> expect;
      for (const auto& line : step.value("expect", nlohmann::json::array())) expect.push_back(line);
      for (const auto& line : step.value("expect_b64", nlohmann::json::array()))
        expect.push_back(bytes_of_base64(line.get<std::string>()));
      for (const std::string& line : expect) {
        if (line.starts_with("OK ")) {
          ++side.answered;
        } else if (line.starts_with("ERR unknown")) {
          side.error = line + "\n";
        } else {
          usable = false;
        }
      }
    }
    if (!usable) continue;
    for (const auto& [number, side] : sides) {
      DivvySession session;
      std::string bytes;
      std::vector<size_t> cuts;
      for (const std::string& piece : side.sent) {
        bytes += piece;
        cuts.push_back(piece.size());
      }
      const Transcript t = model::run(session, bytes, cuts, false);
      EXPECT_EQ(t.requests.size(), side.answered) << vector["name"];
      EXPECT_EQ(t.farewell, side.error) << vector["name"];
      EXPECT_EQ(t, model::expected(bytes, false)) << vector["name"];
      ++checked;
      errors += !side.error.empty();
    }
  }
  EXPECT_GT(checked, 90u);
  EXPECT_GT(errors, 25u);
}

}  // namespace
}  // namespace sluice::divvy
