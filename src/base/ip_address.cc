#include "base/ip_address.h"

#include <arpa/inet.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "base/decimal.h"

namespace sluice::base {
namespace {

constexpr size_t v4_bytes = 4, v6_bytes = 16;
constexpr unsigned mapped_bits = 96;
constexpr unsigned char mapped_front[] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};

bool is_address_digit(char c) {
  return c >= '0' && c <= '9';
}

// A decimal number without leading zeros at `at`, which is moved behind it. More than `most`: none
// is there, or it is larger.
unsigned take_address_number(std::string_view text, size_t& at, unsigned most) {
  const size_t begin = at;
  unsigned value = 0;
  while (at < text.size() && is_address_digit(text[at]) && value <= most)
    value = value * 10 + static_cast<unsigned>(text[at++] - '0');
  const bool is_one = at > begin && (text[begin] != '0' || at == begin + 1);
  return is_one ? value : most + 1;
}

// The address of IPv4 at the front of a text; returns its length, 0: there is none.
size_t take_v4(std::string_view text, IpAddress& to) {
  const char* at = text.data();
  const char* const end = at + text.size();
  // 10 or more: none is there.
  const auto digit = [&] { return at == end ? 10u : static_cast<unsigned>(*at) - '0'; };
  for (size_t i = 0; i < v4_bytes; ++i) {
    if (i > 0 && (at == end || *at++ != '.')) return 0;
    unsigned value = digit();
    if (value > 9) return 0;
    ++at;
    for (unsigned next; (next = digit()) <= 9; ++at) {
      if (value == 0) return 0;  // a leading zero, which some take for octal
      value = value * 10 + next;
      if (value > 255) return 0;
    }
    to.bytes[i] = static_cast<unsigned char>(value);
  }
  to.is_v6 = false;
  return static_cast<size_t>(at - text.data());
}

// An address of IPv6 as it stands, IPv4-mapped ones too.
std::optional<IpAddress> parse_v6(std::string_view text) {
  // inet_pton wants a NUL behind it, and would stop at one in it.
  char copy[address_bytes_max + 1];
  if (text.size() > address_bytes_max || text.find('\0') != text.npos) return std::nullopt;
  copy[text.copy(copy, text.size())] = '\0';
  IpAddress address;
  address.is_v6 = true;
  if (::inet_pton(AF_INET6, copy, address.bytes.data()) != 1) return std::nullopt;
  return address;
}

bool is_mapped(const IpAddress& address) {
  return address.is_v6 &&
         std::equal(std::begin(mapped_front), std::end(mapped_front), address.bytes.begin());
}

IpAddress as_v4(const IpAddress& mapped) {
  IpAddress address;
  std::copy_n(mapped.bytes.begin() + sizeof mapped_front, v4_bytes, address.bytes.begin());
  return address;
}

// What stands between brackets, or alone: it may have a zone.
std::optional<IpAddress> parse_v6_with_zone(std::string_view text) {
  const size_t zone = std::min(text.find('%'), text.size());
  if (zone + 1 == text.size()) return std::nullopt;  // it has no name
  auto address = parse_v6(text.substr(0, zone));
  if (address && is_mapped(*address)) return as_v4(*address);
  return address;
}

// What may follow an address: nothing, or a port.
bool is_port_or_end(std::string_view text) {
  if (text.empty()) return true;
  size_t at = 1;
  return text.front() == ':' && take_address_number(text, at, UINT16_MAX) <= UINT16_MAX &&
         at == text.size();
}

void clear_behind(IpAddress& address, unsigned bits) {
  const size_t whole = bits / 8;
  if (whole >= address.bytes.size()) return;
  address.bytes[whole] = static_cast<unsigned char>(address.bytes[whole] & (0xff00u >> bits % 8));
  std::fill(address.bytes.begin() + static_cast<ptrdiff_t>(whole) + 1, address.bytes.end(),
            static_cast<unsigned char>(0));
}

size_t write_v4(const IpAddress& address, char* to) {
  char* at = to;
  for (size_t i = 0; i < v4_bytes; ++i) {
    if (i > 0) *at++ = '.';
    at = base::write_decimal(address.bytes[i], at);
  }
  return static_cast<size_t>(at - to);
}

using AddressGroups = std::array<uint16_t, v6_bytes / 2>;

// The longest run of at least two groups that are 0, of equal ones the first (RFC 5952, 4.2).
struct ZeroRun {
  size_t first = 0, count = 0;
};
ZeroRun longest_zeros(const AddressGroups& groups) {
  ZeroRun best, run;
  for (size_t i = 0; i < groups.size(); ++i) {
    run = groups[i] != 0 ? ZeroRun{i + 1, 0} : ZeroRun{run.first, run.count + 1};
    if (run.count > best.count) best = run;
  }
  return best.count > 1 ? best : ZeroRun{groups.size(), 0};
}

char* write_group(uint16_t group, char* to) {
  static constexpr char hex[] = "0123456789abcdef";
  int shift = 12;
  while (shift > 0 && group >> shift == 0) shift -= 4;
  for (; shift >= 0; shift -= 4) *to++ = hex[(group >> shift) & 15];
  return to;
}

size_t write_v6(const IpAddress& address, char* to) {
  AddressGroups groups;
  for (size_t i = 0; i < groups.size(); ++i)
    groups[i] = static_cast<uint16_t>(address.bytes[2 * i] << 8 | address.bytes[2 * i + 1]);
  const ZeroRun zeros = longest_zeros(groups);
  char* at = to;
  for (size_t i = 0; i < groups.size();) {
    if (i == zeros.first) {
      *at++ = ':';
      *at++ = ':';
      i += zeros.count;
      continue;
    }
    if (i > 0 && i != zeros.first + zeros.count) *at++ = ':';
    at = write_group(groups[i++], at);
  }
  return static_cast<size_t>(at - to);
}

}  // namespace

std::optional<IpAddress> parse_ip_address(std::string_view text) {
  if (IpAddress address; const size_t size = take_v4(text, address)) {
    if (!is_port_or_end(text.substr(size))) return std::nullopt;
    return address;
  }
  if (!text.starts_with('[')) return parse_v6_with_zone(text);
  const size_t end = text.find(']');
  if (end == text.npos || !is_port_or_end(text.substr(end + 1))) return std::nullopt;
  return parse_v6_with_zone(text.substr(1, end - 1));
}

size_t write_ip_address(const IpAddress& address, unsigned ipv6_prefix, char* to) {
  if (!address.is_v6) return write_v4(address, to);
  IpAddress cut = address;
  clear_behind(cut, ipv6_prefix);
  return write_v6(cut, to);
}

std::optional<IpNetwork> parse_ip_network(std::string_view text, bool* bits_behind) {
  const size_t slash = std::min(text.find('/'), text.size());
  const std::string_view name = text.substr(0, slash);
  IpAddress address;
  if (const size_t size = take_v4(name, address); size == 0 || size < name.size()) {
    const auto v6 = parse_v6(name);
    if (!v6) return std::nullopt;
    address = *v6;
  }
  const auto most = static_cast<unsigned>(address.is_v6 ? v6_bytes : v4_bytes) * 8;
  unsigned bits = most;
  if (slash < text.size()) {
    size_t at = slash + 1;
    bits = take_address_number(text, at, most);
    if (bits > most || at < text.size()) return std::nullopt;
  }
  if (is_mapped(address)) {
    // A wider network has IPv6 addresses too; written so, only a part of it could be meant.
    if (bits < mapped_bits) return std::nullopt;
    address = as_v4(address);
    bits -= mapped_bits;
  }
  const IpNetwork network{first_of(address, bits), bits};
  if (bits_behind != nullptr) *bits_behind = !(network.address == address);
  return network;
}

IpAddress first_of(const IpAddress& address, unsigned bits) {
  IpAddress first = address;
  clear_behind(first, bits);
  return first;
}

bool IpNetwork::contains(const IpAddress& one) const {
  const size_t whole = bits / 8;
  if (address.is_v6 != one.is_v6 || std::memcmp(address.bytes.data(), one.bytes.data(), whole) != 0)
    return false;
  const unsigned rest = bits % 8;
  return rest == 0 || (address.bytes[whole] ^ one.bytes[whole]) >> (8 - rest) == 0;
}

std::string to_text(const IpNetwork& network) {
  char text[address_bytes_max];
  std::string out(text, write_ip_address(network.address, 128, text));
  if (network.bits < (network.address.is_v6 ? v6_bytes : v4_bytes) * 8)
    out += "/" + std::to_string(network.bits);
  return out;
}

}  // namespace sluice::base
