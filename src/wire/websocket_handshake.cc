#include "wire/websocket_handshake.h"

#include <openssl/evp.h>
#include <openssl/sha.h>

#include <algorithm>
#include <charconv>
#include <string>

#include "base/bounds.h"
#include "base/check.h"
#include "wire/http1_reader.h"
#include "wire/http_field.h"

namespace sluice::wire {
namespace {

using base::bounds::http_head_bytes_max;

std::string_view trimmed(std::string_view text) {
  const auto blank = [](char c) { return c == ' ' || c == '\t'; };
  while (!text.empty() && blank(text.front())) text.remove_prefix(1);
  while (!text.empty() && blank(text.back())) text.remove_suffix(1);
  return text;
}

// Does a list contain the word? `word`: in lower case.
bool lists(std::string_view value, std::string_view word) {
  while (true) {
    const size_t comma = value.find(',');
    if (is_http_name(trimmed(value.substr(0, comma)), word)) return true;
    if (comma == value.npos) return false;
    value.remove_prefix(comma + 1);
  }
}

// What of a head matters. A header that must not stand twice has its count.
struct Headers {
  bool wants_upgrade = false;  // Connection lists it
  size_t upgrades = 0, keys = 0, versions = 0;
  std::string_view upgrade, key, version;
};

Headers headers_of(const Http1Head& head) {
  Headers headers;
  const auto once = [](size_t& count, std::string_view& to, std::string_view value) {
    ++count;
    to = value;
  };
  for (const auto& [name, value] : head.fields) {
    if (is_http_name(name, "connection")) {
      headers.wants_upgrade |= lists(value, "upgrade");
    } else if (is_http_name(name, "upgrade")) {
      once(headers.upgrades, headers.upgrade, value);
    } else if (is_http_name(name, "sec-websocket-key")) {
      once(headers.keys, headers.key, value);
    } else if (is_http_name(name, "sec-websocket-version")) {
      once(headers.versions, headers.version, value);
    }
  }
  return headers;
}

std::array<char, 28> accept_of(std::string_view key) {
  std::string text(key);
  text += "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
  std::array<unsigned char, SHA_DIGEST_LENGTH> digest;
  std::array<unsigned char, 29> base64;  // with the NUL that OpenSSL adds
  SHA1(reinterpret_cast<const unsigned char*>(text.data()), text.size(), digest.data());
  EVP_EncodeBlock(base64.data(), digest.data(), static_cast<int>(digest.size()));
  std::array<char, 28> accept;
  std::copy_n(base64.begin(), accept.size(), accept.begin());
  return accept;
}

WebsocketHandshake refused(uint16_t status, std::string_view why) {
  WebsocketHandshake handshake{};
  handshake.kind = WebsocketHandshake::Kind::refused;
  handshake.status = status;
  handshake.why = why;
  return handshake;
}

WebsocketHandshake refused(const Http1Reader& reader) {
  if (reader.status() == 431 || reader.status() == 414)
    return refused(431, "The request's head is longer than 8192 bytes.");
  return refused(400, reader.problem());
}

}  // namespace

WebsocketHandshake read_websocket_handshake(std::string_view in) {
  WebsocketHandshake handshake{};
  Http1Reader reader({.head_bytes = http_head_bytes_max, .fields = http_head_bytes_max},
                     Http1Reader::Use::handshake);
  const Http1Reader::Result result = reader.next(in);
  if (result.found == Http1Reader::Found::broken) return refused(reader);
  if (result.found != Http1Reader::Found::request) return handshake;

  const Http1Head& head = reader.head();
  const Headers headers = headers_of(head);
  if (headers.upgrades == 0 || !headers.wants_upgrade) {
    handshake.kind = WebsocketHandshake::Kind::plain;
    handshake.head_only = head.method == "HEAD";
    return handshake;
  }
  if (headers.upgrades > 1 || !is_http_name(headers.upgrade, "websocket"))
    return refused(400, "The header Upgrade must be: websocket.");
  if (headers.versions != 1 || headers.version != "13")
    return refused(426, "The header Sec-WebSocket-Version must be: 13.");
  if (headers.keys != 1 || headers.key.empty())
    return refused(400, "One header Sec-WebSocket-Key is needed, and not empty.");
  // The body would be read as frames.
  if (head.has_body) return refused(400, "A request for WebSocket must have no body.");
  handshake.kind = WebsocketHandshake::Kind::upgrade;
  handshake.bytes = result.consumed;
  handshake.accept = accept_of(headers.key);
  return handshake;
}

void append_websocket_upgrade(std::string_view host, std::string_view key, base::Buffer& out) {
  out.append("GET / HTTP/1.1\r\nHost: ");
  out.append(host);
  out.append(
      "\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
      "Sec-WebSocket-Key: ");
  out.append(key);
  out.append("\r\n\r\n");
}

void append_switching_protocols(std::string_view accept, base::Buffer& out) {
  out.append(
      "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
      "Sec-WebSocket-Accept: ");
  out.append(accept);
  out.append("\r\n\r\n");
}

void append_http_text(uint16_t status, std::string_view text, bool head_only, base::Buffer& out) {
  const auto line = [status]() -> std::string_view {
    switch (status) {
      case 200:
        return "200 OK\r\n";
      case 400:
        return "400 Bad Request\r\n";
      case 426:
        return "426 Upgrade Required\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n";
      case 431:
        return "431 Request Header Fields Too Large\r\n";
      case 503:
        return "503 Service Unavailable\r\n";
    }
    SLUICE_CHECK(false);
    return {};
  };
  char size[20];
  const char* const size_end = std::to_chars(size, size + sizeof size, text.size() + 1).ptr;
  out.append("HTTP/1.1 ");
  out.append(line());
  out.append(status == 426 ? "Connection: Upgrade, close\r\n" : "Connection: close\r\n");
  out.append("Content-Type: text/plain; charset=utf-8\r\nContent-Length: ");
  out.append({size, static_cast<size_t>(size_end - size)});
  out.append("\r\n\r\n");
  if (head_only) return;
  out.append(text);
  out.append('\n');
}

}  // namespace sluice::wire
