#include "wire/websocket_handshake.h"

#include <openssl/evp.h>
#include <openssl/sha.h>

#include <algorithm>
#include <charconv>
#include <string>

#include "base/bounds.h"
#include "base/check.h"

namespace sluice::wire {
namespace {

using base::bounds::http_head_bytes_max;

constexpr std::string_view not_http = "This is not an HTTP/1.1 request.";
constexpr std::string_view bad_header = "A header line is not well formed.";

char lower(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
}

bool same_word(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](char x, char y) { return lower(x) == lower(y); });
}

// A character of a method or a header's name (RFC 9110, 5.6.2).
bool is_token(char c) {
  return (c >= '0' && c <= '9') || (lower(c) >= 'a' && lower(c) <= 'z') ||
         (c != '\0' && std::string_view("!#$%&'*+-.^_`|~").find(c) != std::string_view::npos);
}
bool is_token(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) { return is_token(c); });
}

bool is_control(char c) {
  return (c >= '\0' && c < ' ') || c == '\x7F';
}

std::string_view trimmed(std::string_view text) {
  const auto blank = [](char c) { return c == ' ' || c == '\t'; };
  while (!text.empty() && blank(text.front())) text.remove_prefix(1);
  while (!text.empty() && blank(text.back())) text.remove_suffix(1);
  return text;
}

// Takes a line from the front of `text`, without its LF and a CR before that.
std::string_view take_line(std::string_view& text) {
  const size_t lf = text.find('\n');
  std::string_view line = text.substr(0, lf);
  text.remove_prefix(std::min(lf, text.size() - 1) + 1);
  if (line.ends_with('\r')) line.remove_suffix(1);
  return line;
}

// Bytes up to and with the empty line that ends a head, or npos.
size_t head_bytes(std::string_view text) {
  for (size_t lf = text.find('\n'); lf != text.npos; lf = text.find('\n', lf + 1)) {
    const std::string_view behind = text.substr(lf + 1, 2);
    if (behind.starts_with('\n')) return lf + 2;
    if (behind == "\r\n") return lf + 3;
  }
  return text.npos;
}

bool is_request_line(std::string_view line) {
  const size_t method_end = line.find(' ');
  const size_t target_end = line.rfind(' ');
  if (method_end == line.npos || target_end < method_end + 2) return false;
  const std::string_view target = line.substr(method_end + 1, target_end - method_end - 1);
  const std::string_view version = line.substr(target_end + 1);
  return is_token(line.substr(0, method_end)) && (version == "HTTP/1.1" || version == "HTTP/1.0") &&
         std::none_of(target.begin(), target.end(),
                      [](char c) { return c == ' ' || is_control(c); });
}

bool lists(std::string_view value, std::string_view word) {
  while (true) {
    const size_t comma = value.find(',');
    if (same_word(trimmed(value.substr(0, comma)), word)) return true;
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

bool read_headers(std::string_view text, Headers& headers) {
  const auto once = [](size_t& count, std::string_view& to, std::string_view value) {
    ++count;
    to = value;
  };
  while (!text.empty()) {
    const std::string_view line = take_line(text);
    if (line.empty()) break;
    const size_t colon = line.find(':');
    if (colon == line.npos || !is_token(line.substr(0, colon))) return false;
    const std::string_view name = line.substr(0, colon), value = trimmed(line.substr(colon + 1));
    for (const char c : value) {
      if (is_control(c) && c != '\t') return false;
    }
    if (same_word(name, "Connection")) {
      headers.wants_upgrade |= lists(value, "upgrade");
    } else if (same_word(name, "Upgrade")) {
      once(headers.upgrades, headers.upgrade, value);
    } else if (same_word(name, "Sec-WebSocket-Key")) {
      once(headers.keys, headers.key, value);
    } else if (same_word(name, "Sec-WebSocket-Version")) {
      once(headers.versions, headers.version, value);
    }
  }
  return true;
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

}  // namespace

WebsocketHandshake read_websocket_handshake(std::string_view in) {
  WebsocketHandshake handshake{};
  const std::string_view window = in.substr(0, http_head_bytes_max);
  // Whoever speaks something else hears so at once, not when an empty line comes.
  if (window.find('\n') != window.npos) {
    std::string_view rest = window;
    if (!is_request_line(take_line(rest))) return refused(400, not_http);
  }
  const size_t bytes = head_bytes(window);
  if (bytes == window.npos) {
    if (in.size() < http_head_bytes_max) return handshake;
    return refused(431, "The request's head is longer than 8192 bytes.");
  }

  std::string_view head = window.substr(0, bytes);
  const std::string_view request_line = take_line(head);
  Headers headers;
  if (!read_headers(head, headers)) return refused(400, bad_header);
  if (headers.upgrades == 0 || !headers.wants_upgrade) {
    handshake.kind = WebsocketHandshake::Kind::plain;
    handshake.head_only = request_line.starts_with("HEAD ");
    return handshake;
  }
  if (headers.upgrades > 1 || !same_word(headers.upgrade, "websocket"))
    return refused(400, "The header Upgrade must be: websocket.");
  if (headers.versions != 1 || headers.version != "13")
    return refused(426, "The header Sec-WebSocket-Version must be: 13.");
  if (headers.keys != 1 || headers.key.empty())
    return refused(400, "One header Sec-WebSocket-Key is needed, and not empty.");
  handshake.kind = WebsocketHandshake::Kind::upgrade;
  handshake.bytes = bytes;
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
