// Addresses of clients behind proxies: which peers are trusted, who of X-Forwarded-For is the
// client, and the one way in which an address is written. Pure functions and values, any thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace sluice::http {

// An address of IPv4 or IPv6. IPv4-mapped IPv6 (::ffff:1.2.3.4) is IPv4.
struct IpAddress {
  std::array<unsigned char, 16> bytes{};  // of IPv4 the first four
  bool is_v6 = false;
  friend bool operator==(const IpAddress&, const IpAddress&) = default;
};

// "1.2.3.4", "::1", "[::1]", and these with ":PORT" behind them (IPv6 with brackets then); a zone
// (%eth0) is dropped. The numbers of IPv4 are decimal and have no leading zeros. Nothing: it is
// none.
std::optional<IpAddress> parse_address(std::string_view text);

inline constexpr size_t address_bytes_max = 45;
// As RFC 5952 has it, without port or brackets, at `to`, which has room for address_bytes_max;
// returns the number of bytes. `ipv6_prefix`: bits of an IPv6 address that are kept, 1 to 128; the
// rest is 0. IPv4 keeps all of its bits.
size_t write_address(const IpAddress& address, unsigned ipv6_prefix, char* to);

class TrustedProxies {
 public:
  TrustedProxies() = default;
  // 127.0.0.0/8 and ::1.
  static TrustedProxies loopback();

  // "10.0.0.0/8", "::1", "127.0.0.1", or "unix". False: it is none, and nothing is added. Bits
  // behind those that the range has do not count. A range of IPv4-mapped addresses is one of IPv4.
  bool add(std::string_view text);
  bool contains(const IpAddress& address) const;
  bool contains_unix() const { return unix_; }
  bool empty() const { return ranges_.empty() && !unix_; }
  // As `add` takes them, in their order, "unix" last.
  std::vector<std::string> texts() const;

 private:
  struct Range {
    IpAddress address;
    unsigned bits;
  };
  std::vector<Range> ranges_;
  bool unix_ = false;
};

// Entries of X-Forwarded-For or Forwarded that are walked through. Past it: the last one that was
// reached is the client.
inline constexpr size_t forwarded_entries_max = 128;

// The client among the values of X-Forwarded-For, joined in order by commas. From the right: what
// is trusted is skipped, the first that is not is the client; an entry that is no address ends the
// walk with the last good one; all trusted: the leftmost. `depth` above 0: the depth-th from the
// right instead. Empty entries are none (RFC 9110, 5.6.1.2). Nothing: there is none.
std::optional<IpAddress> forwarded_client(std::string_view forwarded_for,
                                          const TrustedProxies& trusted, unsigned depth);
// The same among the elements of Forwarded (RFC 7239), each by its `for`. An element without one,
// or with one that is no address (`unknown`, `_hidden`), is an entry that is no address.
std::optional<IpAddress> forwarded_element_client(std::string_view forwarded,
                                                  const TrustedProxies& trusted, unsigned depth);

}  // namespace sluice::http
