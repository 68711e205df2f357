// Addresses of clients behind proxies: which peers are trusted, who of X-Forwarded-For is the
// client. Pure functions and values, any thread.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/ip_address.h"

namespace sluice::http {

using base::address_bytes_max;
using base::IpAddress;
// As base has them; the words of this folder.
inline std::optional<IpAddress> parse_address(std::string_view text) {
  return base::parse_ip_address(text);
}
inline size_t write_address(const IpAddress& address, unsigned ipv6_prefix, char* to) {
  return base::write_ip_address(address, ipv6_prefix, to);
}

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
  std::vector<base::IpNetwork> ranges_;
  bool unix_ = false;
};

// Entries of X-Forwarded-For or Forwarded that are walked through. Past it: the last one that was
// reached is the client.
inline constexpr size_t forwarded_entries_max = 128;

// The client among the values of X-Forwarded-For, joined in order by commas. From the right: what
// is trusted is skipped, the first that is not is the client; an entry that is not an address ends
// the walk with the last good one; all trusted: the leftmost. `depth` above 0: the depth-th from
// the right instead. Empty entries are none (RFC 9110, 5.6.1.2). Nothing: there is none.
std::optional<IpAddress> forwarded_client(std::string_view forwarded_for,
                                          const TrustedProxies& trusted, unsigned depth);
// The same among the elements of Forwarded (RFC 7239), each by its `for`. An element without one,
// or with one that is not an address (`unknown`, `_hidden`), is an entry that is not an address.
std::optional<IpAddress> forwarded_element_client(std::string_view forwarded,
                                                  const TrustedProxies& trusted, unsigned depth);

}  // namespace sluice::http
