// The addresses of clients behind proxies: the trusted peers, and the client's address in
// X-Forwarded-For or Forwarded. Pure functions and values, any thread.
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
// The functions of base under the names of this folder.
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

  // Adds "10.0.0.0/8", "::1", "127.0.0.1" or "unix". False: the text is not one of these, and
  // nothing is added. Address bits beyond the range's length are ignored. A range of IPv4-mapped
  // addresses is a range of IPv4.
  bool add(std::string_view text);
  bool contains(const IpAddress& address) const;
  bool contains_unix() const { return unix_; }
  bool empty() const { return ranges_.empty() && !unix_; }
  // The texts that were added, in their order, "unix" last.
  std::vector<std::string> texts() const;

 private:
  std::vector<base::IpNetwork> ranges_;
  bool unix_ = false;
};

// The most entries of X-Forwarded-For or Forwarded that are examined. Beyond it the last one that
// was reached is the client.
inline constexpr size_t forwarded_entries_max = 128;

// The client's address in the values of X-Forwarded-For, joined in order by commas. From the right,
// trusted addresses are skipped, and the first one that is not trusted is the client; if all are
// trusted, the leftmost is. An entry that is not an address ends the search with the last address
// before it. If `depth` is above 0, the client is the depth-th entry from the right instead. Empty
// entries are skipped (RFC 9110, 5.6.1.2). Empty: there is no address.
std::optional<IpAddress> forwarded_client(std::string_view forwarded_for,
                                          const TrustedProxies& trusted, unsigned depth);
// The same for the elements of Forwarded (RFC 7239), by their `for`. The field's lines are in order
// with a line feed between them, as each proxy that adds one has ended it. An element without
// `for`, or with one that is not an address (`unknown`, `_hidden`), counts as an entry that is not
// an address. A quoted text without an end makes the whole field empty: what a proxy has appended
// to it would be a part of the client's text.
std::optional<IpAddress> forwarded_element_client(std::string_view forwarded,
                                                  const TrustedProxies& trusted, unsigned depth);

}  // namespace sluice::http
