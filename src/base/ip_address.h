// Addresses of IPv4 and IPv6 and networks of them: how they are read, written and compared, in one
// way for every room. Values and pure functions, which allocate nothing but texts; any thread.
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace sluice::base {

// An address of IPv4 or IPv6. IPv4-mapped IPv6 (::ffff:1.2.3.4) is IPv4.
struct IpAddress {
  std::array<unsigned char, 16> bytes{};  // of IPv4 the first four
  bool is_v6 = false;
  friend bool operator==(const IpAddress&, const IpAddress&) = default;
};

// "1.2.3.4", "::1", "[::1]", and these with ":PORT" behind them (IPv6 with brackets then); a zone
// (%eth0) is dropped. The numbers of IPv4 are decimal and have no leading zeros. Nothing: it is
// none.
std::optional<IpAddress> parse_ip_address(std::string_view text);

inline constexpr size_t address_bytes_max = 45;
// As RFC 5952 has it, without port or brackets, at `to`, which has room for address_bytes_max;
// returns the number of bytes. `ipv6_prefix`: bits of an IPv6 address that are kept, 1 to 128; the
// rest is 0. IPv4 keeps all of its bits.
size_t write_ip_address(const IpAddress& address, unsigned ipv6_prefix, char* to);

// The address with all bits behind the first `bits` cleared.
IpAddress first_of(const IpAddress& address, unsigned bits);

// The addresses whose first bits are those of `address`, of the same family.
struct IpNetwork {
  IpAddress address;  // its bits behind the first `bits` are 0
  unsigned bits = 0;  // 0 to 32 for IPv4, 0 to 128 for IPv6

  bool contains(const IpAddress& one) const;
  friend bool operator==(const IpNetwork&, const IpNetwork&) = default;
};

// "10.0.0.0/8", "2001:db8::/32", or an address alone, without port, brackets or zone. A network of
// IPv4-mapped addresses is one of IPv4. Bits behind the first `bits` do not count; `bits_behind`
// says whether there were any. Nothing: the text is not a network.
std::optional<IpNetwork> parse_ip_network(std::string_view text, bool* bits_behind = nullptr);
// As `parse_ip_network` takes it; a single address without its number of bits.
std::string to_text(const IpNetwork& network);

}  // namespace sluice::base
