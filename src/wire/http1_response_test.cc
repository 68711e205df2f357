// Http1ResponseReader: responses of servers, cut in pieces of all sizes.
#include "wire/http1_response.h"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <string_view>
#include <vector>

namespace sluice::wire {
namespace {

using Found = Http1ResponseReader::Found;

// What the reader finds in `bytes`, a line for each, if they arrive in pieces of `piece` bytes.
std::string told(std::string_view bytes, size_t piece) {
  Http1ResponseReader reader({.head_bytes = 200, .body_bytes = 50});
  std::string in, out;
  for (size_t at = 0; at < bytes.size(); at += piece) {
    in += bytes.substr(at, piece);
    for (;;) {
      const std::string exact = in;
      const auto result = reader.next(exact);
      if (result.found == Found::broken) return out + "broken\n";
      if (result.found == Found::response || result.found == Found::switching)
        out += std::to_string(reader.status()) + " " + std::string(reader.body()) + " " +
               std::string(reader.field("x-name")) + "\n";
      in.erase(0, result.consumed);
      if (result.found == Found::switching) return out + "switched\n";
      if (result.found == Found::incomplete) break;
    }
  }
  return out + "left " + std::to_string(in.size()) + "\n";
}

void expect_told(std::string_view bytes, const std::string& expected) {
  for (size_t piece = 1; piece <= bytes.size(); ++piece)
    EXPECT_EQ(told(bytes, piece), expected) << piece << " bytes at a time of " << bytes;
}

TEST(Http1Response, BodiesEndByTheirLengthOrTheirLastChunk) {
  expect_told(
      "HTTP/1.1 200 OK\r\nContent-Length: 3\r\nX-Name: a \r\n\r\nabcHTTP/1.1 404 \r\n"
      "content-length:0\r\n\r\n",
      "200 abc a\n404  \nleft 0\n");
  expect_told(
      "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nX-Name: b\r\n\r\n2\r\nab\r\n1;x=y\r\nc"
      "\r\n0\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n",
      "200 abc b\n204  \nleft 0\n");
}

TEST(Http1Response, SkipsInterimResponses) {
  expect_told(
      "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early\r\nLink: x\r\n\r\n"
      "HTTP/1.0 200 OK\r\nContent-Length: 1\r\n\r\nz",
      "200 z \nleft 0\n");
}

TEST(Http1Response, SwitchingProtocolsEndsTheReading) {
  Http1ResponseReader reader;
  const std::string bytes = "HTTP/1.1 101 Switching Protocols\r\nX-Name: v\r\n\r\nframes";
  const auto result = reader.next(bytes);
  EXPECT_EQ(result.found, Found::switching);
  EXPECT_EQ(result.consumed, bytes.size() - 6);
  EXPECT_EQ(reader.field("x-name"), "v");
}

TEST(Http1Response, RejectsAmbiguousResponses) {
  for (const char* head :
       {"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\na",
        "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: +1\r\n\r\na", "HTTP/1.1 200 OK\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length : 1\r\n\r\na", "HTTP/1.1 200 OK\r\n folded\r\n\r\n",
        "HTTP/1.1 20 OK\r\nContent-Length: 0\r\n\r\n", "HTTP/1.1 2000\r\nContent-Length: 0\r\n\r\n",
        "HTTP/2 200 OK\r\nContent-Length: 0\r\n\r\n", "SSH-2.0-OpenSSH\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 51\r\n\r\n",
        "HTTP/1.1 200 OK\r\nX: a\nb\r\nContent-Length: 0\r\n\r\n"})
    expect_told(head, "broken\n");
  expect_told("HTTP/1.1 200 OK\r\nX: " + std::string(200, 'x') + "\r\nContent-Length: 0\r\n\r\n",
              "broken\n");
}

TEST(Http1Response, ReportsWhyItIsMalformed) {
  using Fault = Http1ResponseReader::Fault;
  const auto fault_of = [](const std::string& bytes) {
    Http1ResponseReader reader({.head_bytes = 100, .body_bytes = 5});
    reader.next(bytes);
    return reader.fault();
  };
  const std::string head = "HTTP/1.1 200 OK\r\n";
  EXPECT_EQ(fault_of(head), Fault::none);
  EXPECT_EQ(fault_of(head + "Content-Length: 5\r\n\r\nwhole"), Fault::none);
  EXPECT_EQ(fault_of("SSH-2.0"), Fault::malformed);
  EXPECT_EQ(fault_of(head + std::string(100, 'x')), Fault::head_size);
  EXPECT_EQ(fault_of(head + "X: " + std::string(100, 'x') + "\r\n\r\n"), Fault::head_size);
  EXPECT_EQ(fault_of(head + "Content-Length: 6\r\n\r\n"), Fault::body_size);
  EXPECT_EQ(fault_of(head + "\r\n"), Fault::no_length);
}

}  // namespace
}  // namespace sluice::wire
