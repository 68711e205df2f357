#include "wire/http_authority.h"

#include <cstdint>

#include "wire/http1_reader.h"
#include "wire/http_field.h"

namespace sluice::wire {
namespace {

constexpr HttpByteSet make_host_bytes() {
  HttpByteSet set{};
  for (size_t i = 0; i < set.size(); ++i) {
    const char c = static_cast<char>(i), letter = http_lower(c);
    set[i] = (c >= '0' && c <= '9') || (letter >= 'a' && letter <= 'z') ||
             (c != '\0' && std::string_view("-._~!$&'()*+;=").find(c) != std::string_view::npos);
  }
  return set;
}
// The bytes of a registered name (RFC 3986, 3.2.2), except `%`, and the comma, which some programs
// read as the end of a value.
constexpr HttpByteSet host_bytes = make_host_bytes();

bool is_port_digit(char c) {
  return c >= '0' && c <= '9';
}

bool is_host_hex(char c) {
  const char lower = http_lower(c);
  return is_port_digit(c) || (lower >= 'a' && lower <= 'f');
}

// The size of the address in brackets at the front, including them; 0: there is none.
size_t bracketed_bytes(std::string_view host) {
  const size_t end = host.find(']');
  if (end == host.npos || end < 3) return 0;
  for (const char c : host.substr(1, end - 1))
    if (!is_host_hex(c) && c != ':' && c != '.') return 0;
  return end + 1;
}

// The size of the name or address without brackets at the front; 0: there is none.
size_t registered_bytes(std::string_view host) {
  for (size_t at = 0;;) {
    at = skip_set(host_bytes, host, at);
    if (at < host.size() && host[at] == '%' && host.size() - at >= 3 && is_host_hex(host[at + 1]) &&
        is_host_hex(host[at + 2])) {
      at += 3;
    } else {
      return at;
    }
  }
}

}  // namespace

bool is_http_authority(std::string_view text) {
  const size_t host = text.starts_with('[') ? bracketed_bytes(text) : registered_bytes(text);
  if (host == 0) return false;
  if (host == text.size()) return true;
  const std::string_view port = text.substr(host + 1);
  if (text[host] != ':' || port.size() > 5) return false;
  uint32_t number = 0;
  for (const char c : port) {
    if (!is_port_digit(c)) return false;
    number = number * 10 + static_cast<uint32_t>(c - '0');
  }
  return number <= 65535;
}

size_t http_scheme_bytes(std::string_view target) {
  for (const std::string_view scheme : {"http://", "https://"})
    if (is_http_name(target.substr(0, scheme.size()), scheme)) return scheme.size();
  return 0;
}

std::string_view http_authority_of(std::string_view target) {
  target.remove_prefix(http_scheme_bytes(target));
  return target.substr(0, target.find_first_of("/?"));
}

}  // namespace sluice::wire
