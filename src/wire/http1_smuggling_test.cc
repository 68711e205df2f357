// Request smuggling: texts that two servers divide into requests differently (CL.TE, TE.CL, TE.TE,
// CL.CL and the errors of single products), as published by Heled, Linhart, Kettle, Grenfeldt and
// others, and in the tests of proxies. Http1Reader must refuse them.
#include <gtest/gtest.h>

#include <string>

#include "wire/http1_reader.h"
#include "wire/http1_reader_model.h"
#include "wire/http1_told_test.h"

namespace sluice::wire::http1_smuggling_test {
namespace {

// Each vector contains this where one of the two readings sees a request. It must not be reported.
const std::string smuggled = "GET /smuggled HTTP/1.1\r\nHost: h\r\n\r\n";

// A body that is empty if it is chunked, and has five bytes if it is not.
std::string post(const std::string& fields) {
  return "POST / HTTP/1.1\r\nHost: h\r\n" + fields + "\r\n0\r\n\r\n" + smuggled;
}
// For vectors in which the head itself is read differently.
std::string raw(const std::string& head) {
  return head + smuggled;
}
std::string chunks(const std::string& body) {
  return "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n" + body + smuggled;
}

void expect_refused(const std::string& vector) {
  const Http1Transcript transcript = http1_test::told(vector);
  EXPECT_GE(transcript.status, 400u) << vector << transcript.text();
  EXPECT_TRUE(transcript.requests.empty()) << vector << transcript.text();
}

TEST(Http1Smuggling, TwoLengthsAreRefused) {
  const std::string cl = "Content-Length: 5\r\n", te = "Transfer-Encoding: chunked\r\n";
  for (const std::string& fields :
       {cl + te, te + cl, "Content-Length: 0\r\n" + te, te + "content-length: 0\r\n", cl + cl,
        cl + "Content-Length: 0\r\n", "Content-Length: 0\r\n" + cl, cl + "CONTENT-LENGTH: 5\r\n",
        std::string("Content-Length: 5, 5\r\n"), std::string("Content-Length: 5,0\r\n"),
        std::string("Content-Length: 0\r\nA: b\r\nContent-Length: 5\r\n"), te + te,
        te + "Transfer-Encoding: identity\r\n", "Transfer-Encoding: identity\r\n" + te,
        te + "Transfer-Encoding:\r\n", "Transfer-Encoding:\r\n" + te,
        te + "Transfer-encoding: x\r\n", cl + "Transfer-Encoding: xchunked\r\n",
        cl + "Transfer-Encoding: identity\r\n"})
    expect_refused(post(fields));
}

TEST(Http1Smuggling, LengthsThatAreNotPlainNumbersAreRefused) {
  for (const std::string value : {"+5",
                                  "-5",
                                  "0x5",
                                  "5 5",
                                  "5 ,5",
                                  "5;",
                                  "5a",
                                  "5.",
                                  "5e0",
                                  "'5'",
                                  "\"5\"",
                                  "5_0",
                                  "0b101",
                                  "\t5",
                                  "5\t",
                                  "\v5",
                                  "5\v",
                                  "5\f",
                                  " ",
                                  "",
                                  "4294967301x",
                                  "18446744073709551621",
                                  "9223372036854775813",
                                  "000000000000000000005",
                                  "\xEF\xBC\x95",
                                  "5#0",
                                  "5\x1F"})
    expect_refused(post("Content-Length: " + value + "\r\n"));
  expect_refused(post(std::string("Content-Length: 5\0\r\n", 20)));
  expect_refused(
      post(std::string("Content-Length: \0"
                       "5\r\n",
                       20)));
}

std::vector<std::string> codings_in_disguise() {
  return {"Transfer-Encoding : chunked",
          "Transfer-Encoding\t: chunked",
          "Transfer-Encoding\v: chunked",
          " Transfer-Encoding: chunked",
          "\tTransfer-Encoding: chunked",
          "\vTransfer-Encoding: chunked",
          "Transfer Encoding: chunked",
          "Transfer-Encoding: xchunked",
          "Transfer-Encoding: chunkedx",
          "Transfer-Encoding:\vchunked",
          "Transfer-Encoding:\x0C"
          "chunked",
          "Transfer-Encoding: chunked\v",
          "Transfer-Encoding:\tchunked",
          "Transfer-Encoding: chunked\t",
          "Transfer-Encoding: \"chunked\"",
          "Transfer-Encoding: 'chunked'",
          "Transfer-Encoding: chunked, identity",
          "Transfer-Encoding: identity, chunked",
          "Transfer-Encoding: chunked, chunked",
          "Transfer-Encoding: , chunked",
          "Transfer-Encoding: chunked,",
          "Transfer-Encoding: ,",
          "Transfer-Encoding: gzip, chunked",
          "Transfer-Encoding: chunked;q=1",
          "Transfer-Encoding: chunked; a=b",
          "Transfer-Encoding: chunked identity",
          "Transfer-Encoding: chu\tnked",
          "Transfer-Encoding: chu nked",
          "Transfer-Encoding: cow",
          "Transfer-Encoding: ",
          "Transfer-Encoding:",
          "Transfer-Encoding",
          "Transfer-Encoding: chunked\rA: b",
          "Transfer-Encoding: chunked\nA: b",
          "A: b\nTransfer-Encoding: chunked",
          "A: b\rTransfer-Encoding: chunked",
          "A:\r\n Transfer-Encoding: chunked",
          "Transfer-Encoding:\r\n chunked",
          "Transfer-Encoding:\n chunked",
          "Transfer-Encoding: chunked\r\n x",
          "Transfer-\r\n Encoding: chunked",
          "Transfer-Encoding: \x7F"
          "chunked",
          "Transfer-Encoding: \xFF"
          "chunked",
          "Transfer-Encoding: chunked\xA0",
          "Transfer-Encoding: \xE2\x84\xAA",
          "X: x\n\nA: b",
          "\rTransfer-Encoding: chunked",
          "Transfer-Encoding\r: chunked",
          ": chunked",
          "\x01Transfer-Encoding: chunked",
          "Transfer-Encoding\xA0: chunked",
          "Transfer-Encoding;: chunked",
          "Transfer-Encoding\x85: chunked"};
}

TEST(Http1Smuggling, RejectsDisguisedCodings) {
  for (const std::string& field : codings_in_disguise()) {
    expect_refused(post(field + "\r\n"));
    expect_refused(post("Content-Length: 5\r\n" + field + "\r\n"));
  }
  expect_refused(post(std::string("Transfer-Encoding\0: chunked\r\n", 29)));
  expect_refused(post(std::string("Transfer-Encoding: chunked\0\r\n", 29)));
  expect_refused(post(std::string("Transfer-Encoding: \0chunked\r\n", 29)));
  expect_refused(post(std::string("A\0Transfer-Encoding: chunked\r\n", 30)));
}

TEST(Http1Smuggling, RejectsACodingInAnOldVersion) {
  expect_refused(raw("POST / HTTP/1.0\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"));
  expect_refused(
      raw("POST / HTTP/1.0\r\nHost: h\r\nConnection: keep-alive\r\n"
          "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n"));
  for (const std::string version : {"HTTP/1.2", "HTTP/1.", "HTTP/1.01", "HTTP/ 1.1", "HTTP/1 .1",
                                    "HTTP/2.0", "HTTP/0.9", "HTTP/1.1\t", "http/1.1", "HTTP/1,1"})
    expect_refused(raw("GET / " + version + "\r\nHost: h\r\n\r\n"));
}

TEST(Http1Smuggling, RejectsOtherLineEnds) {
  for (const char* head :
       {"GET / HTTP/1.1\nHost: h\n\n", "GET / HTTP/1.1\r\nHost: h\n\r\n",
        "GET / HTTP/1.1\r\nHost: h\r\n\n", "GET / HTTP/1.1\r\nHost: h\r\r\n\r\n",
        "GET / HTTP/1.1\r\r\nHost: h\r\n\r\n", "GET / HTTP/1.1\r\nHost: h\r\n\r\r\n",
        "GET / HTTP/1.1\rHost: h\r\r", "GET / HTTP/1.1\r\nHost: h\r\nA: b\n\nGET /x HTTP/1.1\r\n",
        "GET / HTTP/1.1\r\nHost: h\r\nA: b\r\rGET /x HTTP/1.1\r\n", "GET / HTTP/1.1\r\n\n",
        "\nGET / HTTP/1.1\r\nHost: h\r\n\r\n", "\rGET / HTTP/1.1\r\nHost: h\r\n\r\n",
        "GET /\nHost: h HTTP/1.1\r\n\r\n", "GET /\r\nGET / HTTP/1.1\r\nHost: h\r\n\r\n"})
    expect_refused(raw(head));
}

TEST(Http1Smuggling, RejectsHostsThatDifferFromTheTarget) {
  for (const char* head : {"GET http://other/ HTTP/1.1\r\nHost: h\r\n\r\n",
                           "GET http://h:81/ HTTP/1.1\r\nHost: h\r\n\r\n",
                           "GET http://h@other/ HTTP/1.1\r\nHost: other\r\n\r\n",
                           "GET http://h%00other/ HTTP/1.1\r\nHost: h\r\n\r\n",
                           "GET http://h\\other/ HTTP/1.1\r\nHost: h\r\n\r\n",
                           "GET http://h#other/ HTTP/1.1\r\nHost: h\r\n\r\n",
                           "GET http:///x HTTP/1.1\r\nHost: h\r\n\r\n",
                           "GET h:80 HTTP/1.1\r\nHost: h\r\n\r\n",
                           "GET @other/ HTTP/1.1\r\nHost: h\r\n\r\n",
                           "GET / HTTP/1.1\r\nHost: h\r\nHost: i\r\n\r\n",
                           "GET / HTTP/1.1\r\nHost: h\r\n Host: i\r\n\r\n",
                           "GET / HTTP/1.1\r\nHost: h\r\nHost : i\r\n\r\n",
                           "GET / HTTP/1.1\r\nHost: h i\r\n\r\n",
                           "GET / HTTP/1.1\r\nHost: h, i\r\n\r\n",
                           "GET / HTTP/1.1\r\nHost: h,i\r\n\r\n",
                           "GET / HTTP/1.1\r\nHost: h/i\r\n\r\n",
                           "GET / HTTP/1.1\r\nHost: h@i\r\n\r\n",
                           "GET / HTTP/1.1\r\nHost: h:80@i\r\n\r\n",
                           "GET / HTTP/1.1\r\nHost: h#i\r\n\r\n",
                           "GET / HTTP/1.1\r\nHost: h?i\r\n\r\n",
                           "GET / HTTP/1.1\r\n\r\n",
                           "GET / HTTP/1.1\r\nA: b\r\n\r\n",
                           "GET / HTTP/1.1\r\nHost h\r\n\r\n",
                           "CONNECT h:80 HTTP/1.1\r\nHost: h\r\n\r\n",
                           "GET /a /smuggled HTTP/1.1\r\nHost: h\r\n\r\n",
                           "GET / HTTP/1.1 HTTP/1.1\r\nHost: h\r\n\r\n",
                           "GET\t/\tHTTP/1.1\r\nHost: h\r\n\r\n",
                           "GET / \tHTTP/1.1\r\nHost: h\r\n\r\n",
                           "GET /\x0BHTTP/1.1\r\nHost: h\r\n\r\n",
                           "GET /\xA0 HTTP/1.1\r\nHost: h\r\n\r\n",
                           "GE\rT / HTTP/1.1\r\nHost: h\r\n\r\n",
                           "G\"ET / HTTP/1.1\r\nHost: h\r\n\r\n"})
    expect_refused(raw(head));
}

TEST(Http1Smuggling, RejectsDisguisedChunks) {
  for (const char* body : {"0x5\r\nabcde\r\n0\r\n\r\n",
                           "+5\r\nabcde\r\n0\r\n\r\n",
                           "-1\r\n\r\n",
                           " 5\r\nabcde\r\n0\r\n\r\n",
                           "5 \r\nabcde\r\n0\r\n\r\n",
                           "5\t\r\nabcde\r\n0\r\n\r\n",
                           "5 ;a\r\nabcde\r\n0\r\n\r\n",
                           "5;\nabcde\r\n0\r\n\r\n",
                           "5;a\nabcde\r\n0\r\n\r\n",
                           "5;\rabcde\r\n0\r\n\r\n",
                           "5;a=\"\r\nabcde\r\n0\r\n\r\n",
                           "5\nabcde\r\n0\r\n\r\n",
                           "5\rabcde\r\n0\r\n\r\n",
                           "5\r\r\nabcde\r\n0\r\n\r\n",
                           "5\r\nabcde\n0\r\n\r\n",
                           "5\r\nabcde\r0\r\n\r\n",
                           "5\r\nabcdeXX0\r\n\r\n",
                           "5\r\nabcdef\r\n0\r\n\r\n",
                           "5\r\nabcd\r\n0\r\n\r\n",
                           "5\r\nabcde0\r\n\r\n",
                           "\r\n0\r\n\r\n",
                           "0\n\n",
                           "0\r\n\n",
                           "0\n\r\n",
                           "0\r\r\n\r\n",
                           "0\r\nX\r\n\r\n",
                           "0\r\n X: y\r\n\r\n",
                           "0\r\nX: y\n\r\n",
                           "0 \r\n\r\n",
                           "00000000000000000\r\n\r\n",
                           "100000000000000000\r\n",
                           "10000000000000005\r\nabcde\r\n0\r\n\r\n",
                           "FFFFFFFFFFFFFFFF\r\n",
                           "fffffffffffffff0\r\n",
                           "5,5\r\nabcde\r\n0\r\n\r\n",
                           "5.0\r\nabcde\r\n0\r\n\r\n",
                           "0x\r\n\r\n",
                           "G\r\n\r\n",
                           "\"5\"\r\nabcde\r\n0\r\n\r\n",
                           ";a\r\n\r\n",
                           "0;\r\n\r\n",
                           "\xEF\xBC\x90\r\n\r\n",
                           "0_0\r\n\r\n"})
    expect_refused(chunks(body));
  expect_refused(chunks(std::string("0\0\r\n\r\n", 6)));
  expect_refused(chunks(std::string("0;\0\r\n\r\n", 7)));
}

// Plain requests are read, and the text after them is another request.
TEST(Http1Smuggling, AcceptsPlainRequests) {
  for (const std::string& plain :
       {post("Content-Length: 5\r\n"), post("Content-Length:5\r\n"),
        post("Content-Length:  5 \r\n"), post("Transfer-Encoding: chunked\r\n"),
        post("transfer-encoding:CHUNKED \r\n"), post("Content_Length: 9\r\nContent-Length: 5\r\n"),
        raw("GET / HTTP/1.1\r\nHost: h\r\n\r\n"), raw("GET http://h/ HTTP/1.1\r\nHost: H\r\n\r\n"),
        chunks("5\r\nabcde\r\n0\r\n\r\n"), chunks("05;a\r\nabcde\r\n000\r\nX: y\r\n\r\n")}) {
    const Http1Transcript transcript = http1_test::told(plain);
    EXPECT_EQ(transcript.status, 0u) << plain << transcript.text();
    EXPECT_EQ(transcript.requests.size(), 2u) << plain << transcript.text();
  }
}

}  // namespace
}  // namespace sluice::wire::http1_smuggling_test
