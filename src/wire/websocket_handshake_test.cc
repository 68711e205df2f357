// WebSocket's handshake at a server: what is accepted, what is refused and with which status. "The
// original" is the server of droplet 1.4.0.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/bounds.h"
#include "wire/websocket.h"

namespace sluice::wire {
namespace {

using Kind = WebsocketHandshake::Kind;

const std::string good = "Connection: Upgrade\r\nUpgrade: websocket\r\n";
const std::string key = "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n";
const std::string version = "Sec-WebSocket-Version: 13\r\n";

std::string get(const std::string& headers) {
  return "GET / HTTP/1.1\r\n" + headers + "\r\n";
}

// The answer to `bytes`; checks that each beginning of them gives the same answer, or none yet.
WebsocketHandshake answer(const std::string& bytes) {
  const WebsocketHandshake whole = read_websocket_handshake(bytes);
  for (size_t size = 0; size < bytes.size(); ++size) {
    const WebsocketHandshake part =
        read_websocket_handshake(std::string_view(bytes).substr(0, size));
    if (part.kind == Kind::incomplete) continue;
    EXPECT_EQ(part.kind, whole.kind) << bytes << size;
    EXPECT_EQ(part.status, whole.status) << bytes << size;
    EXPECT_EQ(part.bytes, whole.bytes) << bytes << size;
    EXPECT_EQ(part.why, whole.why) << bytes << size;
  }
  return whole;
}

TEST(WebsocketHandshake, TheAcceptValueMatchesTheStandard) {
  const WebsocketHandshake h = answer(get(good + version + key));
  ASSERT_EQ(h.kind, Kind::upgrade) << h.why;
  EXPECT_EQ(std::string_view(h.accept.data(), h.accept.size()), "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
  EXPECT_EQ(h.bytes, get(good + version + key).size());
  base::Buffer out;
  append_switching_protocols({h.accept.data(), h.accept.size()}, out);
  EXPECT_EQ(out.view(),
            "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            "Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n");
}

TEST(WebsocketHandshake, AcceptsValidHandshakes) {
  const std::vector<std::string> table = {
      "GET / HTTP/1.1\r\n" + good + version + key + "\r\n",
      "GET /any/path?q=1 HTTP/1.1\r\n" + good + version + key + "\r\n",
      "GET http://any/path HTTP/1.1\r\n" + good + version + key + "\r\n",
      "\r\n\r\nGET / HTTP/1.1\r\n" + good + version + key + "\r\n",
      "POST / HTTP/1.0\r\n" + good + version + key + "\r\n",
      get("connection: keep-alive ,\tUPGRADE\r\nUPGRADE:WebSocket\r\n" + version + key),
      get("Connection: keep-alive\r\nConnection: upgrade\r\nUpgrade: websocket \t\r\n" + version +
          key),
      get(good + version + "Sec-WebSocket-Key: abc\r\n"),
      get(good + version + key + "Sec-WebSocket-Protocol: a, b\r\n"),
      get(good + version + key + "Origin: http://elsewhere.example\r\nHost:\r\n"),
      get(good + version + key + "X-Bytes: \xFF\xFE\r\n"),
      get(good + version + key + "Host: ::1:3000\r\n"),  // as droplet's own client sends it
  };
  for (const std::string& bytes : table) {
    const WebsocketHandshake h = answer(bytes + "\x82\x80");
    EXPECT_EQ(h.kind, Kind::upgrade) << bytes << h.why;
    EXPECT_EQ(h.bytes, bytes.size()) << bytes;
  }
}

// The first two values end the original's process; it refuses or accepts the others.
TEST(WebsocketHandshake, DeclinesEveryExtension) {
  for (const std::string extension :
       {"__proto__", "constructor", "permessage-deflate; client_max_window_bits",
        "permessage-deflate; server_max_window_bits=99", "x-webkit-deflate-frame, toString",
        ";,=", ""}) {
    const WebsocketHandshake h =
        answer(get(good + version + key + "Sec-WebSocket-Extensions: " + extension + "\r\n"));
    EXPECT_EQ(h.kind, Kind::upgrade) << extension;
    base::Buffer out;
    append_switching_protocols({h.accept.data(), h.accept.size()}, out);
    EXPECT_EQ(out.view().find("Extensions"), std::string_view::npos);
  }
}

TEST(WebsocketHandshake, RejectsInvalidHandshakes) {
  struct {
    std::string bytes;
    uint16_t status;
  } const table[] = {
      {"HIT a=b\n", 400},
      {"\n", 400},
      {"GET / HTTP/1.1\n" + good + version + key + "\n", 400},
      {"GET * HTTP/1.1\r\n" + good + version + key + "\r\n", 400},
      {"GET /a#b HTTP/1.1\r\n" + good + version + key + "\r\n", 400},
      {"GET / HTTP/2.0\r\n", 400},
      {"GET / HTTP/1.1 \r\n", 400},
      {"GET /  HTTP/1.1\r\n", 400},
      {"GET  HTTP/1.1\r\n", 400},
      {"GET /\r\n", 400},
      {"G(T / HTTP/1.1\r\n", 400},
      {" GET / HTTP/1.1\r\n", 400},
      {"GET /\x01 HTTP/1.1\r\n", 400},
      {std::string("GET /\0 HTTP/1.1\r\n", 17), 400},
      {get("no colon\r\n"), 400},
      {get(": nameless\r\n"), 400},
      {get("Name : blank before the colon\r\n"), 400},
      {get("A: 1\r\n folded: 2\r\n"), 400},
      {get(std::string("A: \0\r\n", 6)), 400},
      {get("A: 1\r2\r\n"), 400},
      {get(good + "A: 1\n" + version + key), 400},
      {get(good + version + key + "Host: a\r\nHost: b\r\n"), 400},
      // A body would be read as frames.
      {get(good + version + key + "Content-Length: 2\r\n"), 400},
      {get(good + version + key + "Transfer-Encoding: chunked\r\n"), 400},
      {get("Connection: Upgrade\r\nUpgrade: h2c\r\n" + version + key), 400},
      {get("Connection: Upgrade\r\nUpgrade: websocket, h2c\r\n" + version + key), 400},
      {get(good + "Upgrade: websocket\r\n" + version + key), 400},
      {get(good + version), 400},
      {get(good + version + "Sec-WebSocket-Key:\r\n"), 400},
      {get(good + version + key + key), 400},
      {get(good + key), 426},
      {get(good + key + "Sec-WebSocket-Version: 8\r\n"), 426},
      {get(good + key + "Sec-WebSocket-Version: 12\r\n"), 426},
      {get(good + key + "Sec-WebSocket-Version: 13abc\r\n"), 426},
      {get(good + key + version + version), 426},
      // The handshake of hixie-76, an earlier protocol.
      {get(good + "Sec-WebSocket-Key1: 4 @1  46546xW%0l 1 5\r\nSec-WebSocket-Key2: 12998 5 Y3\r\n"),
       426},
  };
  for (const auto& row : table) {
    const WebsocketHandshake h = answer(row.bytes);
    EXPECT_EQ(h.kind, Kind::refused) << row.bytes;
    EXPECT_EQ(h.status, row.status) << row.bytes;
    EXPECT_FALSE(h.why.empty());
  }
}

TEST(WebsocketHandshake, OtherRequestsArePlainHttp) {
  for (const std::string& headers :
       {std::string(), std::string("Host: x\r\n"), std::string("Upgrade: websocket\r\n"),
        std::string("Connection: Upgrade\r\n"),
        "Connection: upgraded, x\r\nUpgrade: websocket\r\n" + key,
        std::string("Content-Length: 999999\r\n"), std::string("Transfer-Encoding: chunked\r\n")}) {
    EXPECT_EQ(answer(get(headers)).kind, Kind::plain) << headers;
    EXPECT_FALSE(answer(get(headers)).head_only);
  }
  EXPECT_TRUE(answer("HEAD /health HTTP/1.1\r\n\r\n").head_only);
}

TEST(WebsocketHandshake, HeadsHaveABound) {
  constexpr size_t bound = base::bounds::http_head_bytes_max;
  const std::string head = get(good + version + key + "X: \r\n");
  for (const size_t bytes : {bound - 1, bound, bound + 1, bound + 5, 3 * bound}) {
    std::string longer = head;
    longer.insert(longer.size() - 4, bytes - head.size(), 'x');
    ASSERT_EQ(longer.size(), bytes);
    const WebsocketHandshake h = answer(longer);
    EXPECT_EQ(h.kind, bytes <= bound ? Kind::upgrade : Kind::refused) << bytes;
    EXPECT_EQ(h.status, bytes <= bound ? 0 : 431);
  }
  EXPECT_EQ(answer(std::string(bound - 1, 'x')).kind, Kind::incomplete);
  EXPECT_EQ(answer(std::string(bound, 'x')).status, 431);
  EXPECT_EQ(answer(std::string(bound, 'x') + "\n\n").status, 431);
  EXPECT_EQ(answer("x\n" + std::string(bound, 'x')).status, 400);  // the fault is before the bound
}

TEST(WebsocketHandshake, Answers) {
  const auto text = [](uint16_t status, bool head_only) {
    base::Buffer out;
    append_http_text(status, "Why.", head_only, out);
    return std::string(out.view());
  };
  const std::string tail =
      "Connection: close\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: 5\r\n\r\n";
  EXPECT_EQ(text(200, false), "HTTP/1.1 200 OK\r\n" + tail + "Why.\n");
  EXPECT_EQ(text(200, true), "HTTP/1.1 200 OK\r\n" + tail);
  EXPECT_EQ(text(400, false), "HTTP/1.1 400 Bad Request\r\n" + tail + "Why.\n");
  EXPECT_EQ(text(431, false), "HTTP/1.1 431 Request Header Fields Too Large\r\n" + tail + "Why.\n");
  EXPECT_EQ(text(503, false), "HTTP/1.1 503 Service Unavailable\r\n" + tail + "Why.\n");
  EXPECT_EQ(text(426, false),
            "HTTP/1.1 426 Upgrade Required\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
            "Connection: Upgrade, close\r\nContent-Type: text/plain; charset=utf-8\r\n"
            "Content-Length: 5\r\n\r\nWhy.\n");
}

}  // namespace
}  // namespace sluice::wire
