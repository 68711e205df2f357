// Http1Reader: which requests it reads and as what, which it refuses and with which status, chunked
// bodies, and random changes of all of these cut in random places.
#include "wire/http1_reader.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tests/support/dice.h"
#include "wire/http1_reader_model.h"
#include "wire/http1_told_test.h"

namespace sluice::wire::http1_reader_test {
namespace {

using tests::Dice;
using Bounds = Http1Reader::Bounds;
using Found = Http1Reader::Found;
using Use = Http1Reader::Use;
using http1_test::chunked;
using http1_test::get;
using http1_test::told;

std::string get_target(const std::string& target) {
  return "GET " + target + " HTTP/1.1\r\nHost: h\r\n\r\n";
}
unsigned status_of(const std::string& text, const Bounds& bounds = {}) {
  return told(text, bounds).status;
}

// The only request in `text`, without the place where it ends.
std::string request_of(const std::string& text, const Bounds& bounds = {}) {
  const Http1Transcript transcript = told(text, bounds);
  if (transcript.requests.size() != 1 || transcript.status != 0) return transcript.text();
  EXPECT_EQ(transcript.ends[0], text.size());
  return transcript.requests[0].substr(0, transcript.requests[0].find(" until "));
}

// ---- Requests that are read ----

TEST(Http1Reader, ARequestInOnePieceIsShownWhereItStands) {
  const std::string in = "POST /a/b?c=d HTTP/1.1\r\nHost: h:80\r\nContent-Length: 3\r\n\r\nabcGET";
  Http1Reader reader;
  const Http1Reader::Result result = reader.next(in);
  ASSERT_EQ(result.found, Found::request);
  EXPECT_EQ(result.consumed, in.size() - 3);
  const auto lies_in = [&](std::string_view part) {
    return part.data() >= in.data() && part.data() + part.size() <= in.data() + in.size() - 3;
  };
  const Http1Head& head = reader.head();
  for (const std::string_view part :
       {head.method, head.path, head.query, head.host, head.fields[1].name, head.fields[1].value})
    EXPECT_TRUE(lies_in(part)) << part;
  EXPECT_TRUE(lies_in(reader.body()));
  EXPECT_EQ(reader.body(), "abc");
  EXPECT_EQ(shown(head), "POST /a/b?c=d host=h:80 1.1 body=3\n  Host: h:80\n  Content-Length: 3\n");
}

TEST(Http1Reader, AcceptsValidHeads) {
  const struct {
    std::string in, head;
  } table[] = {
      {"GET / HTTP/1.1\r\nHost:\r\n\r\n", "GET / host= 1.1\n  Host: \n"},
      {"GET / HTTP/1.0\r\n\r\n", "GET / host= 1.0 close\n"},
      {"\r\n\r\nGET /?  HTTP/1.1\r\nHost: x\r\n\r\n", "refused: 400"},
      {"\r\n\r\nGET /? HTTP/1.1\r\nHost: x\r\n\r\n", "GET /? host=x 1.1\n  Host: x\n"},
      {"!#$%&'*+-.^_`|~09azAZ / HTTP/1.1\r\nhOsT:x\r\n\r\n",
       "!#$%&'*+-.^_`|~09azAZ / host=x 1.1\n  hOsT: x\n"},
      {get("A:  \t b\t c \t\r\nB:\r\nC:\t\r\n"),
       "GET / host=x 1.1\n  Host: x\n  A: b\t c\n  B: \n  C: \n"},
      {get("A: \x80\xFF~\r\n"), "GET / host=x 1.1\n  Host: x\n  A: \x80\xFF~\n"},
      {get_target("//a//?b?c&d=%zz{}|\"<>^`"),
       "GET //a//?b?c&d=%zz{}|\"<>^` host=h 1.1\n  Host: h\n"},
      {get_target("http://h"), "GET / host=h 1.1\n  Host: h\n"},
      {get_target("HTTPS://H?a"), "GET /?a host=H 1.1\n  Host: h\n"},
      {get_target("http://h/p?/q"), "GET /p?/q host=h 1.1\n  Host: h\n"},
      {"GET http://[::1]:80/ HTTP/1.0\r\n\r\n", "GET / host=[::1]:80 1.0 close\n"},
      {"OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n", "OPTIONS * host=x 1.1\n  Host: x\n"},
      {get("Content-Length: 0\r\n"), "GET / host=x 1.1\n  Host: x\n  Content-Length: 0\n"},
      {get("Upgrade: h2c\r\nTE: trailers\r\n"),
       "GET / host=x 1.1\n  Host: x\n  Upgrade: h2c\n  TE: trailers\n"},
  };
  for (const auto& row : table)
    EXPECT_EQ(request_of(row.in).substr(0, row.head.size()), row.head) << row.in;
}

TEST(Http1Reader, AcceptsValidHostsAndRejectsOthers) {
  const auto status = [](const std::string& host) {
    return status_of("GET / HTTP/1.1\r\nHost: " + host + "\r\n\r\n");
  };
  for (const char* host : {"a", "a.b-c_d~", "1.2.3.4:0", "[::1]", "[::ffff:1.2.3.4]:65535",
                           "a:", "%41%c3x", "!$&'()*+;="})
    EXPECT_EQ(status(host), 0u) << host;
  for (const char* host : {"a b",
                           "a,b",
                           "a/b",
                           "a?b",
                           "a@b",
                           "a#b",
                           "a\\b",
                           "[::1",
                           "::1",
                           "[]",
                           "[a",
                           "[::1]a",
                           "[fe80::1%25eth0]",
                           "[v1.x]",
                           "a:65536",
                           "a:1:2",
                           "a:x",
                           "a:-1",
                           ":80",
                           "%4",
                           "%4x",
                           "%",
                           "a\xC3\xA9",
                           "\"a\"",
                           "<a>",
                           "a^",
                           "http://a"})
    EXPECT_EQ(status(host), 400u) << host;
}

TEST(Http1Reader, KeepsConnectionsAsTheRequestSays) {
  const auto is_kept = [](const char* version, const std::string& fields) {
    const std::string head =
        "GET / HTTP/" + std::string(version) + "\r\nHost: x\r\n" + fields + "\r\n";
    const std::string shown_head = request_of(head);
    return shown_head.substr(0, shown_head.find('\n')).find(" close") == std::string::npos;
  };
  EXPECT_TRUE(is_kept("1.1", ""));
  EXPECT_TRUE(is_kept("1.1", "Connection: keep-alive\r\n"));
  EXPECT_TRUE(is_kept("1.1", "Connection: closed, x-close\r\n"));
  EXPECT_TRUE(is_kept("1.1", "Connection:\r\n"));
  EXPECT_FALSE(is_kept("1.1", "Connection: close\r\n"));
  EXPECT_FALSE(is_kept("1.1", "connection: upgrade ,\tCLOSE\r\n"));
  EXPECT_FALSE(is_kept("1.1", "Connection: close, keep-alive\r\n"));
  EXPECT_FALSE(is_kept("1.1", "Connection: close\r\nConnection: keep-alive\r\n"));
  EXPECT_FALSE(is_kept("1.0", ""));
  EXPECT_FALSE(is_kept("1.0", "Connection: close, keep-alive\r\n"));
  EXPECT_TRUE(is_kept("1.0", "Connection: x,, Keep-Alive\r\n"));
}

TEST(Http1Reader, ReportsExpect100Continue) {
  const std::string fields = "Expect: 100-Continue\r\nContent-Length: 1\r\n\r\na";
  EXPECT_NE(request_of("PUT / HTTP/1.1\r\nHost: x\r\n" + fields).find(" expects"),
            std::string::npos);
  EXPECT_EQ(request_of("PUT / HTTP/1.0\r\nHost: x\r\n" + fields).find(" expects"),
            std::string::npos);
}

TEST(Http1Reader, RequestsFollowEachOtherInOnePiece) {
  const Http1Transcript all = told(
      "GET /1 HTTP/1.1\r\nHost: x\r\n\r\n"
      "\r\nPOST /2 HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\nab" +
      chunked("3;x\r\nabc\r\n0\r\n\r\n") + "GET /4 HTTP/1.1\r\nHost: y\r\n\r\n\r\n\r\nGET");
  ASSERT_EQ(all.requests.size(), 4u) << all.text();
  EXPECT_TRUE(all.has_begun);
  EXPECT_TRUE(all.requests[1].starts_with("POST /2 host=x 1.1 body=2\n")) << all.requests[1];
  EXPECT_NE(all.requests[2].find("[abc]"), std::string::npos);
  EXPECT_TRUE(all.requests[3].starts_with("GET /4 host=y 1.1\n"));
  EXPECT_FALSE(told(get("") + "\r\n\r\n\r").has_begun);
}

TEST(Http1Reader, ARequestThatWasNotConsumedIsReadAgain) {
  const std::string in = "\r\nPUT / HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\nab";
  Http1Reader reader;
  for (int i = 0; i < 3; ++i) {
    const Http1Reader::Result result = reader.next(in);
    ASSERT_EQ(result.found, Found::request);
    EXPECT_EQ(result.consumed, in.size());
    EXPECT_EQ(reader.body(), "ab");
    EXPECT_EQ(reader.head().fields.size(), 2u);
  }
}

TEST(Http1Reader, OnlyTheHeadOfAHandshakeIsRead) {
  for (const std::string& fields :
       {std::string("Content-Length: 999999999999\r\n"), std::string("Content-Length: 3\r\n"),
        std::string("Transfer-Encoding: chunked\r\n"), std::string()}) {
    const std::string head = "GET / HTTP/1.1\r\n" + fields + "\r\n";
    Http1Reader reader({}, Use::handshake);
    const Http1Reader::Result result = reader.next(head + "\x81\x82zzz");
    EXPECT_EQ(result.found, Found::request) << head;
    EXPECT_EQ(result.consumed, head.size()) << head;
    EXPECT_EQ(reader.head().has_body, !fields.empty());
  }
  EXPECT_EQ(told("GET / HTTP/1.1\r\nHost: ::1:3000\r\n\r\n").status, 400u);
  EXPECT_EQ(told("GET / HTTP/1.1\r\nHost: ::1:3000\r\n\r\n", {}, Use::handshake).status, 0u);
}

// ---- Requests that are refused ----

struct Refusal {
  std::string in;
  unsigned status;
};

const std::vector<Refusal>& refusals() {
  static const std::vector<Refusal> all = {
      // The request line.
      {"HIT a=b\r\n", 400},
      {"\n", 400},
      {"\rG", 400},
      {"\r\r\n", 400},
      {" GET / HTTP/1.1\r\n", 400},
      {"GE(T / HTTP/1.1\r\n", 400},
      {"GET\t/ HTTP/1.1\r\n", 400},
      {"GET\r\n", 400},
      {"GET /\r\n", 400},
      {"GET \r\n", 400},
      {"GET  / HTTP/1.1\r\n", 400},
      {"GET /  HTTP/1.1\r\n", 400},
      {"GET / HTTP/1.1 \r\n", 400},
      {"GET / HTTP/1.1\n", 400},
      {"GET / HTTP/1.1\rX", 400},
      {"GET / http/1.1\r\n", 400},
      {"GET / HTTP/11\r\n", 400},
      {"GET / HTTP/1.10\r\n", 400},
      {"GET / HTTP/01.1\r\n", 400},
      {"GET / HTTP/x.1\r\n", 400},
      {"GET / HTTQ/1.1\r\n", 400},
      {"GET / HTTP/1.1;a\r\n", 400},
      {"GET / HTTP/1.2\r\n", 505},
      {"GET / HTTP/0.9\r\n", 505},
      {"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505},
      {"\x16\x03\x01\x02\x00\x01", 400},
      {"*1\r\n$4\r\nPING\r\n", 400},
      // Targets.
      {get_target("/a#b"), 400},
      {get_target("/a\\b"), 400},
      {get_target("/a\tb"), 400},
      {get_target("/a\x7F"), 400},
      {get_target("/\xC3\xA9"), 400},
      {get_target(std::string("/\0", 2)), 400},
      {get_target("a/b"), 400},
      {get_target("*"), 400},
      {get_target("**"), 400},
      {get_target("h:80"), 400},
      {get_target("?a"), 400},
      {get_target("http:/h/"), 400},
      {get_target("http://"), 400},
      {get_target("http:///a"), 400},
      {get_target("http://?a"), 400},
      {get_target("http://:80/"), 400},
      {get_target("http://u@h/"), 400},
      {get_target("http://u:p@h/"), 400},
      {get_target("http://a,b/"), 400},
      {get_target("ftp://h/"), 400},
      {get_target("http://other/"), 400},
      {get_target("http://h:80/"), 400},
      {"CONNECT h:80 HTTP/1.1\r\nHost: h:80\r\n\r\n", 400},
      {"CONNECT / HTTP/1.1\r\nHost: h\r\n\r\n", 400},
      {"OPTIONS ** HTTP/1.1\r\nHost: h\r\n\r\n", 400},
      // Lines.
      {get("A: b\n"), 400},
      {get("A: b\rc\r\n"), 400},
      {get("A: b\r\r\n"), 400},
      {get("\rA: b\r\n"), 400},
      {get("A\r\n"), 400},
      {get("A\r: b\r\n"), 400},
      {get(" A: b\r\n"), 400},
      {get("A: b\r\n\tc\r\n"), 400},
      {get("A : b\r\n"), 400},
      {get("A\t: b\r\n"), 400},
      {get("A b: c\r\n"), 400},
      {get(": b\r\n"), 400},
      {get("A(: b\r\n"), 400},
      {get("\x80: b\r\n"), 400},
      {get(std::string("A\0: b\r\n", 8)), 400},
      {get(std::string("A: \0\r\n", 6)), 400},
      {get("A: \x1F\r\n"), 400},
      {get("A: \x0B\r\n"), 400},
      {get("A: \x7F\r\n"), 400},
      {get("\n"), 400},
      // Host.
      {"GET / HTTP/1.1\r\n\r\n", 400},
      {"GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n", 400},
      {"GET / HTTP/1.0\r\nHost: a\r\nhost: b\r\n\r\n", 400},
      {"GET http://a/ HTTP/1.1\r\nHost:\r\n\r\n", 400},
      // Lengths and codings.
      {get("Content-Length:\r\n"), 400},
      {get("Content-Length: +1\r\n"), 400},
      {get("Content-Length: -1\r\n"), 400},
      {get("Content-Length: 0x1\r\n"), 400},
      {get("Content-Length: 1 1\r\n"), 400},
      {get("Content-Length: 1,1\r\n"), 400},
      {get("Content-Length: 1.0\r\n"), 400},
      {get("Content-Length:\t1\r\n"), 400},
      {get("Content-Length: 1 \t \r\n"), 400},
      {get("Content-Length: 9223372036854775808\r\n"), 400},
      {get("Content-Length: 18446744073709551617\r\n"), 400},
      {get("Content-Length: 00000000000000000001\r\n"), 400},
      {get("Content-Length: 1\r\ncontent-length: 1\r\n"), 400},
      {get("Content-Length: 9223372036854775807\r\n"), 413},
      {get("Transfer-Encoding: chunked\r\nContent-Length: 1\r\n"), 400},
      {get("Content-Length: 1\r\nTransfer-Encoding: chunked\r\n"), 400},
      {get("Transfer-Encoding:\r\n"), 400},
      {get("Transfer-Encoding: chunked, chunked\r\n"), 400},
      {get("Transfer-Encoding: gzip, chunked\r\n"), 400},
      {get("Transfer-Encoding: chunked;a=b\r\n"), 400},
      {get("Transfer-Encoding: \"chunked\"\r\n"), 400},
      {get("Transfer-Encoding:\tchunked\r\n"), 400},
      {get("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n"), 400},
      {get("Transfer-Encoding: gzip\r\n"), 501},
      {get("Transfer-Encoding: identity\r\n"), 501},
      {get("Transfer-Encoding: xchunked\r\n"), 501},
      {"GET / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400},
      // Other fields.
      {get("Connection: a/b\r\n"), 400},
      {get("Connection: close;x\r\n"), 400},
      {get("Expect: 200-ok\r\n"), 417},
      {get("Expect:\r\n"), 417},
      {get("Expect: 100-continue, x\r\n"), 417},
  };
  return all;
}

TEST(Http1Reader, RejectsInvalidRequests) {
  const std::string behind = "GET /behind HTTP/1.1\r\nHost: h\r\n\r\n";
  for (const Refusal& refusal : refusals()) {
    const Http1Transcript transcript = told(refusal.in + behind);
    EXPECT_EQ(transcript.status, refusal.status) << refusal.in << transcript.text();
    EXPECT_TRUE(transcript.requests.empty()) << refusal.in;
    EXPECT_FALSE(transcript.problem.empty());
  }
}

TEST(Http1Reader, StaysBrokenAndConsumesAllInput) {
  Http1Reader reader;
  EXPECT_EQ(reader.next("\x01").found, Found::broken);
  const Http1Reader::Result again = reader.next(get(""));
  EXPECT_EQ(again.found, Found::broken);
  EXPECT_EQ(again.consumed, get("").size());
  EXPECT_FALSE(reader.has_begun());
  EXPECT_EQ(reader.unfinished_bytes(), 0u);
}

// A client of another protocol is refused before it sends a line end.
TEST(Http1Reader, TheFirstBadByteIsRefusedAtOnce) {
  for (const auto& [good, bad] : std::vector<std::pair<std::string, std::string>>{
           {"HELO", "\r"},
           {"", "\x16"},
           {"", "{"},
           {"GET", "\t"},
           {"GET /", "\r"},
           {"GET /a", "\x80"},
           {"GET / ", "h"},
           {"GET / HTTP/1.", "x"},
           {"GET / HTTP/1.1\r\n", " "},
           {"GET / HTTP/1.1\r\nA", " "},
           {"GET / HTTP/1.1\r\nA: b\t", "\x01"},
           {"GET / HTTP/1.1\r\nA: b\r", "c"},
           {"PUT / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n1", " "}}) {
    const Http1Transcript before = told(good), now = told(good + bad);
    EXPECT_EQ(before.status, 0u) << good;
    EXPECT_EQ(now.status, 400u) << good << bad;
  }
}

// ---- Chunked bodies ----

TEST(Http1Reader, AcceptsValidChunkedBodies) {
  const struct {
    std::string in, body;
  } table[] = {
      {"0\r\n\r\n", ""},
      {"3\r\nabc\r\n0\r\n\r\n", "abc"},
      {"a\r\n0123456789\r\n00A\r\nabcdefghij\r\n0000000000000000\r\n\r\n", "0123456789abcdefghij"},
      {"2\r\n\r\n\r\n1\r\n\n\r\n0\r\n\r\n", "\r\n\n"},
      {"1;a\r\nx\r\n1;a=b;c=\"d ;\\\"\\\\\";e\r\ny\r\n0;f=g\r\n\r\n", "xy"},
      {"1\r\nx\r\n0\r\nA: b\r\nContent-Length: 9\r\nC:\r\n\r\n", "x"},
  };
  for (const auto& row : table) {
    const std::string request = request_of(chunked(row.in));
    EXPECT_TRUE(request.ends_with("  [" + row.body + "]")) << row.in << request;
    EXPECT_TRUE(request.starts_with("POST / host=x 1.1 body=0 chunked\n")) << request;
  }
}

TEST(Http1Reader, RejectsInvalidChunkedBodies) {
  const struct {
    std::string in;
    unsigned status = 400;
  } table[] = {
      {"\r\n"},
      {"\n"},
      {"g\r\n"},
      {"-1\r\n"},
      {"+1\r\nx\r\n"},
      {" 1\r\nx\r\n"},
      {"1 \r\nx\r\n"},
      {"1\t;a\r\nx\r\n"},
      {"0x1\r\nx\r\n"},
      {"1_0\r\n"},
      {"1\nx\r\n"},
      {"1\rx\r\n"},
      {"1\r\r\nx\r\n"},
      {"00000000000000001\r\nx\r\n"},
      {"10000000000000001\r\nx\r\n"},
      {"ffffffffffffffff\r\nx\r\n", 413},
      {"100001\r\n", 413},
      {"1;\r\nx\r\n"},
      {"1; a\r\nx\r\n"},
      {"1;a=\r\nx\r\n"},
      {"1;a=b=c\r\nx\r\n"},
      {"1;a=\"b\r\nx\r\n"},
      {"1;a=\"b\"c\r\nx\r\n"},
      {"1;a=\"\x01\"\r\nx\r\n"},
      {"1;a\n\r\nx\r\n"},
      {"1;a\rb\r\nx\r\n"},
      {"1;\xC3\r\nx\r\n"},
      {"1,a\r\nx\r\n"},
      {"1\r\nxy\r\n"},
      {"1\r\nx\n"},
      {"1\r\nx0\r\n\r\n"},
      {"1\r\nx\rx"},
      {"0\r\n\n"},
      {"0\n\r\n"},
      {"0\r\n\rG"},
      {"0\r\nA\r\n\r\n"},
      {"0\r\nA : b\r\n\r\n"},
      {"0\r\n A: b\r\n\r\n"},
      {"0\r\n: b\r\n\r\n"},
      {"0\r\nA: b\n\r\n"},
      {"0\r\nA: b\rc\r\n\r\n"},
      {"0\r\nA: \x7F\r\n\r\n"},
      {std::string("0\r\nA: \0\r\n\r\n", 11)},
  };
  for (const auto& row : table) {
    const Http1Transcript transcript = told(chunked(row.in + "0\r\n\r\n" + get("")));
    EXPECT_EQ(transcript.status, row.status) << row.in << transcript.text();
    EXPECT_TRUE(transcript.requests.empty()) << row.in;
  }
}

// ---- Pieces ----

TEST(Http1Reader, RandomInputReadsTheSameForAnySplit) {
  std::vector<std::string> texts;
  for (const Refusal& refusal : refusals()) texts.push_back(refusal.in);
  texts.push_back(chunked("1;a=b\r\nx\r\n0\r\nA: b\r\n\r\n") + get(""));
  texts.push_back(
      "PUT http://h/?a HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\n"
      "Connection: a, close\r\nContent-Length: 7\r\n\r\nabcdefg" +
      get("A: b\r\nC: d\r\n"));
  for (uint32_t seed = 0; seed < 4'000; ++seed) {
    Dice dice(seed);
    std::string text = texts[dice(texts.size())] + texts[dice(texts.size())];
    for (size_t changes = dice(size_t{4}); changes > 0; --changes) {
      const size_t at = dice(text.size());
      const std::string_view bytes = "\r\n :;,\t/0159aGHx\"\\#*\x00\x7F\x80";
      if (dice(3) == 0)
        text.erase(at, 1 + dice(size_t{3}));
      else if (dice(2) == 0)
        text.insert(at, 1, bytes[dice(bytes.size())]);
      else
        text[at] = bytes[dice(bytes.size())];
      if (text.empty()) text = "x";
    }
    const Bounds bounds = dice(2) == 0 ? Bounds{} : Bounds{100, 5, 6, 30, 5};
    const Http1Transcript whole = http1_transcript(text, bounds);
    for (const size_t longest : {size_t{1}, 1 + dice(size_t{40})}) {
      const auto split = http1_transcript(text, bounds, [&] { return 1 + dice(longest); });
      ASSERT_EQ(split.text(), whole.text()) << "seed " << seed << ":\n" << text;
      ASSERT_EQ(split.fault + whole.fault, "") << "seed " << seed << ":\n" << text;
    }
  }
}

// A reader of many fields takes the list that another reader has left.
TEST(Http1Reader, ReadersShareTheListOfManyFields) {
  std::string text = "GET / HTTP/1.1\r\nHost: h\r\n";
  for (int i = 0; i < 30; ++i) text += "a" + std::to_string(i) + ": " + std::to_string(i) + "\r\n";
  text += "\r\n";
  Http1FieldList spare;
  Http1Reader one({}, Use::requests, &spare), other({}, Use::requests, &spare);
  const HttpField* list = nullptr;
  for (Http1Reader* const reader : {&one, &other, &one}) {
    ASSERT_EQ(reader->next(text).found, Found::request);
    const auto fields = reader->head().fields;
    ASSERT_EQ(fields.size(), 31u);
    for (size_t i = 1; i < fields.size(); ++i) {
      ASSERT_EQ(fields[i].name, "a" + std::to_string(i - 1));
      ASSERT_EQ(fields[i].value, std::to_string(i - 1));
    }
    EXPECT_TRUE(spare.empty());
    EXPECT_TRUE(list == nullptr || fields.data() == list);
    list = fields.data();
    EXPECT_EQ(reader->next({}).found, Found::incomplete);
    EXPECT_GE(spare.capacity(), 31u);
  }
}

}  // namespace
}  // namespace sluice::wire::http1_reader_test
