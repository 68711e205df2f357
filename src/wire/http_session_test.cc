// HttpSession, the HTTP of the admin port: requests however they are cut, what is refused, bounds,
// and responses; also queries and percent-encoding.
#include "wire/http_session.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <boost/beast/http/parser.hpp>
#include <cstdio>
#include <string>

#include "base/bounds.h"

namespace sluice::wire {
namespace {

using Found = HttpSession::Found;

constexpr size_t body_max = 1000;

// Feeds a session with `text` in pieces of `step` bytes; returns a line for each request and
// refusal.
std::string told(std::string_view text, size_t step) {
  HttpSession session(body_max);
  std::string out, in;
  while (true) {
    const auto [consumed, found] = session.receive(in);
    in.erase(0, consumed);
    if (found == Found::request) {
      const HttpRequest& r = session.request();
      out += r.method + " " + r.path + " ? " + r.query + " : " + r.body + " @ " + r.host + "\n";
      std::string bytes;
      if (!session.reply({}, false, bytes)) return out + "end\n";
      continue;
    }
    if (found == Found::broken) return out + std::to_string(session.refusal_status()) + "\n";
    if (found == Found::head && session.awaits_go_ahead()) out += "go ahead\n";
    if (found == Found::head) continue;
    if (text.empty()) return out + (in.empty() ? "" : "rest " + in);
    in += text.substr(0, step);
    text.remove_prefix(std::min(step, text.size()));
  }
}

TEST(HttpSession, ReadsRequestsHoweverTheyAreSplit) {
  const std::string text =
      "\r\nGET /metrics?a=b%20c HTTP/1.1\r\nHost: x\r\n\r\n"
      "POST /v1/reload HTTP/1.1\r\nHost: y\r\nContent-Length: 5\r\n\r\nhello"
      "POST http://z:1/c HTTP/1.1\r\nHost: z:1\r\nContent-Length: 5\r\n\r\nabcde"
      "PUT /d HTTP/1.1\r\nHost: y\r\nTransfer-Encoding: "
      "chunked\r\n\r\n3\r\nabc\r\n2;x\r\nde\r\n0\r\n\r\n"
      "HEAD / HTTP/1.0\r\n\r\nGET /never HTTP/1.1\r\n\r\n";
  const std::string all =
      "GET /metrics ? a=b%20c :  @ x\n"
      "POST /v1/reload ?  : hello @ y\n"
      "POST /c ?  : abcde @ z:1\n"
      "PUT /d ?  : abcde @ y\n"
      "HEAD / ?  :  @ \nend\n";
  for (size_t step = 1; step <= text.size(); ++step) ASSERT_EQ(told(text, step), all) << step;
}

TEST(HttpSession, RejectsTooLongAndInvalidInput) {
  const std::string longest(base::bounds::http_head_bytes_max, 'x');
  EXPECT_EQ(told("GET / HTTP/1.1\r\nHost: x\r\nA: " + longest + "\r\n\r\n", 100), "431\n");
  EXPECT_EQ(told("GET /" + longest + " HTTP/1.1\r\n\r\n", 99'999), "431\n");
  EXPECT_EQ(told("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1001\r\n\r\n", 7), "413\n");
  EXPECT_EQ(told("POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n3e9\r\n", 7),
            "413\n");
  EXPECT_EQ(told("HIT a=b\r\n\r\n", 3), "400\n");
  EXPECT_EQ(told("GET / HTTP/2.0\r\n\r\n", 3), "505\n");
  EXPECT_EQ(told("GET / HTTP/1.1\r\nHost: x\r\nExpect: 200-ok\r\n\r\n", 3), "417\n");
  EXPECT_EQ(told("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n", 3),
            "400\n");
}

// Texts that a proxy before the server could divide into other requests than the server.
TEST(HttpSession, RejectsAmbiguousRequests) {
  const auto head = [](const std::string& fields) {
    return "POST / HTTP/1.1\r\n" + fields + "\r\nGET /smuggled HTTP/1.1\r\nHost: x\r\n\r\n";
  };
  for (const char* coding : {"gzip", "identity", "xchunked"}) {
    const std::string field = "Host: x\r\nTransfer-Encoding: " + std::string(coding) + "\r\n";
    EXPECT_EQ(told(head(field), 50), "501\n") << coding;
  }
  for (const char* coding : {"chunked, gzip", "gzip, chunked", "\tchunked", "\"chunked\"", ""}) {
    const std::string field = "Host: x\r\nTransfer-Encoding: " + std::string(coding) + "\r\n";
    EXPECT_EQ(told(head(field), 50), "400\n") << coding;
  }
  const std::string length = "Host: x\r\nContent-Length: 3\r\n",
                    coding = "Transfer-Encoding: chunked\r\n";
  EXPECT_EQ(told(head(length + coding), 50), "400\n");
  EXPECT_EQ(told(head(length + "Transfer-Encoding: x\r\n"), 50), "501\n");
  EXPECT_EQ(told(head("Host: x\r\n" + coding + "Content-Length: 3\r\n"), 50), "400\n");
  for (const char* value : {"3, 4", "+3", "-3", "0x3", "3 4", "", "99999999999999999999"})
    EXPECT_EQ(told(head("Host: x\r\nContent-Length: " + std::string(value) + "\r\n"), 50), "400\n")
        << value;
  EXPECT_EQ(told(head("Host : x\r\n"), 50), "400\n");
  EXPECT_EQ(told(head("Host: x\r\nHost: y\r\n"), 50), "400\n");
  EXPECT_EQ(told(head("Host: x\r\nhost: x\r\n"), 50), "400\n");
  EXPECT_EQ(told(head("A: b\r\n"), 50), "400\n");
  EXPECT_EQ(told("GET / HTTP/1.0\r\nHost: x\r\nHost: y\r\n\r\n", 50), "400\n");
}

TEST(HttpSession, KnowsHowLongABodyWillBe) {
  HttpSession session(body_max);
  EXPECT_EQ(session
                .receive("PUT / HTTP/1.1\r\nHost: x\r\nContent-Length: 77\r\n"
                         "Sec-Fetch-Site: cross-site\r\nSec-Fetch-Mode: navigate\r\n"
                         "Sec-Fetch-Dest: document\r\n\r\n")
                .found,
            Found::head);
  EXPECT_EQ(session.request().body_bytes, 77u);
  EXPECT_EQ(session.request().sec_fetch_site, "cross-site");
  EXPECT_EQ(session.request().sec_fetch_mode, "navigate");
  EXPECT_EQ(session.request().sec_fetch_dest, "document");
  HttpSession other(body_max);
  EXPECT_EQ(other.receive("GET http://h:1?a HTTP/1.1\r\nHost: h:1\r\n\r\n").found, Found::request);
  EXPECT_EQ(other.request().body_bytes, 0u);
  EXPECT_EQ(other.request().path, "/");
  EXPECT_EQ(other.request().query, "a");
}

// The length of a chunked body is not known until it has arrived, so it counts as its bound.
TEST(HttpSession, BoundsChunkedBodiesSeparately) {
  const std::string head = "PUT / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n";
  const auto chunk = [](size_t bytes) {
    char size[20];
    std::snprintf(size, sizeof size, "%zx\r\n", bytes);
    return size + std::string(bytes, 'b') + "\r\n";
  };
  for (const size_t most :
       {size_t{5}, http_chunked_body_bytes_max, 2 * http_chunked_body_bytes_max}) {
    const size_t taken = std::min(most, http_chunked_body_bytes_max);
    HttpSession session(most);
    ASSERT_EQ(session.receive(head).found, Found::head);
    EXPECT_EQ(session.request().body_bytes, taken);
    EXPECT_EQ(session.receive(chunk(taken) + "0\r\n\r\n").found, Found::request);
    EXPECT_EQ(session.request().body_bytes, taken);
    EXPECT_EQ(session.request().body.size(), taken);
    std::string bytes;
    EXPECT_TRUE(session.reply({}, false, bytes));
    EXPECT_EQ(session.receive(head + chunk(taken + 1) + "0\r\n\r\n").found, Found::broken);
    EXPECT_EQ(session.refusal_status(), 413u);
  }
}

TEST(HttpSession, HasBegunIsTrueFromTheFirstByteToTheResponse) {
  HttpSession session(body_max);
  EXPECT_FALSE(session.has_begun());
  EXPECT_EQ(session.receive("\r\n\r").consumed, 2u);
  EXPECT_FALSE(session.has_begun());
  session.receive("G");
  EXPECT_TRUE(session.has_begun());
  EXPECT_EQ(session.receive("GET / HTTP/1.1\r\nHost: x\r\n\r\n").found, Found::request);
  EXPECT_TRUE(session.has_begun());
  std::string bytes;
  EXPECT_TRUE(session.reply({}, false, bytes));
  EXPECT_FALSE(session.has_begun());
}

TEST(HttpSession, NamesItsBoundsInARefusal) {
  HttpSession session(body_max);
  EXPECT_EQ(session.receive("PUT / HTTP/1.1\r\nHost: x\r\nContent-Length: 1001\r\n\r\n").found,
            Found::broken);
  EXPECT_EQ(
      session.refusal(),
      "the body of the request is too long: 1000 bytes are taken, 1000 of one that is chunked");
}

// The body of the refused request must not be read as a request, so the connection ends.
TEST(HttpSession, EndsWhereARequestIsRefusedBeforeItsBody) {
  HttpSession session(body_max);
  ASSERT_EQ(session.receive("PUT / HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n").found,
            Found::head);
  std::string bytes;
  EXPECT_FALSE(session.reply({}, false, bytes));
  EXPECT_NE(bytes.find("Connection: close\r\n"), std::string::npos);
}

TEST(HttpSession, TakesLongBodiesInOnePieceOrMany) {
  const std::string body(50'000, 'b');
  const std::string text = "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 50000\r\n\r\n" + body;
  for (const size_t step : {text.size(), size_t{9'000}, size_t{1'000}}) {
    HttpSession session(body.size());
    std::string in;
    HttpSession::Received received;
    for (size_t at = 0; at < text.size(); at += step) {
      in += text.substr(at, step);
      received = session.receive(in);
      in.erase(0, received.consumed);
    }
    ASSERT_EQ(received.found, Found::request) << step;
    EXPECT_EQ(session.request().body, body);
  }
}

TEST(HttpSession, Sends100ContinueOnce) {
  EXPECT_EQ(
      told("POST / HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\nab", 1),
      "go ahead\nPOST / ?  : ab @ x\n");
  EXPECT_EQ(told("POST / HTTP/1.0\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\nab", 1),
            "POST / ?  : ab @ \nend\n");
}

TEST(HttpSession, RefusesFieldsOfTheAskerThatAreThereTwice) {
  for (const std::string name :
       {"Authorization", "origin", "Sec-Fetch-Site", "sec-fetch-mode", "SEC-FETCH-DEST"}) {
    for (const std::string body : {"", "Content-Length: 2\r\n"}) {
      HttpSession session(body_max);
      EXPECT_EQ(session
                    .receive("POST / HTTP/1.1\r\nHost: x\r\n" + name + ": a\r\n" + body + name +
                             ": a\r\n\r\n")
                    .found,
                Found::broken)
          << name;
      EXPECT_EQ(session.refusal_status(), 400u);
      EXPECT_NE(session.refusal().find(" is there twice; send it once"), std::string::npos)
          << session.refusal();
    }
  }
  HttpSession session(body_max);
  EXPECT_EQ(session.receive("GET / HTTP/1.1\r\nHost: x\r\nAccept: a\r\nAccept: b\r\n\r\n").found,
            Found::request);
}

TEST(HttpSession, WritesResponses) {
  const auto reply = [](std::string_view request, bool last) {
    HttpSession session(body_max);
    EXPECT_EQ(session.receive(request).found, Found::request);
    std::string out;
    session.reply({404, "text/plain", "gone", {{"Allow", "GET"}}}, last, out);
    return out;
  };
  const std::string head =
      "HTTP/1.1 404 Not Found\r\nContent-Type: text/plain\r\nContent-Length: 4\r\nAllow: GET\r\n";
  EXPECT_EQ(reply("GET / HTTP/1.1\r\nHost: x\r\n\r\n", false),
            head + "Connection: keep-alive\r\n\r\ngone");
  EXPECT_EQ(reply("GET / HTTP/1.1\r\nHost: x\r\n\r\n", true),
            head + "Connection: close\r\n\r\ngone");
  EXPECT_EQ(reply("HEAD / HTTP/1.1\r\nHost: x\r\n\r\n", false),
            head + "Connection: keep-alive\r\n\r\n");
  EXPECT_EQ(reply("GET / HTTP/1.0\r\n\r\n", false), head + "Connection: close\r\n\r\ngone");
}

TEST(HttpReasons, MatchBeast) {
  for (unsigned status = 0; status < 1'000; ++status) {
    const auto reason =
        boost::beast::http::obsolete_reason(boost::beast::http::int_to_status(status));
    EXPECT_EQ(http_reason(status), std::string(reason.data(), reason.size())) << status;
  }
}

TEST(HttpQueries, AreDecoded) {
  EXPECT_EQ(query_value("a=1&b=x%2By+z&c", "b"), "x+y z");
  EXPECT_EQ(query_value("a=1&b=x%2By+z&c", "c"), "");
  EXPECT_EQ(query_value("a=1&b=%zz", "b"), std::nullopt);
  EXPECT_EQ(query_value("", "b"), std::nullopt);
  EXPECT_EQ(percent_decoded("a+%2f", false), "a+/");
  EXPECT_EQ(percent_decoded("%2", false), std::nullopt);
}

TEST(PercentEncoded, EncodesAllButUnreservedCharacters) {
  EXPECT_EQ(percent_encoded("aZ09-._~"), "aZ09-._~");
  EXPECT_EQ(percent_encoded("a b/*%+:\xff\n"), "a%20b%2F%2A%25%2B%3A%FF%0A");
}

}  // namespace
}  // namespace sluice::wire
