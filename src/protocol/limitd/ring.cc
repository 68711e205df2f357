#include "protocol/limitd/ring.h"

#include <openssl/evp.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <stdexcept>

namespace sluice::limitd {
namespace {

using Digest = std::array<unsigned char, 16>;

Digest md5(std::string_view text) {
  Digest digest;
  unsigned size = 0;
  const int good = EVP_Digest(text.data(), text.size(), digest.data(), &size, EVP_md5(), nullptr);
  if (good != 1 || size != digest.size())
    throw std::runtime_error("limitd's shards need MD5, which OpenSSL refuses");
  return digest;
}

uint32_t point_of(const Digest& digest, size_t at) {
  return uint32_t{digest[at + 3]} << 24 | uint32_t{digest[at + 2]} << 16 |
         uint32_t{digest[at + 1]} << 8 | digest[at];
}

// Uses the same floating-point arithmetic as limitd-client, whose result may be 39.
int digests_of_a_host(size_t hosts) {
  const double share = 1.0 / static_cast<double>(hosts);
  return static_cast<int>(std::floor(share * 40.0 * static_cast<double>(hosts)));
}

}  // namespace

Ring::Ring(std::span<const std::string> hosts) {
  const int digests = digests_of_a_host(hosts.size());
  points_.reserve(hosts.size() * 160);
  for (size_t host = 0; host < hosts.size(); ++host)
    for (int i = 0; i < digests; ++i) {
      const Digest digest = md5(hosts[host] + "-" + std::to_string(i));
      for (size_t at = 0; at < digest.size(); at += 4)
        points_.push_back({point_of(digest, at), static_cast<uint32_t>(host)});
    }
  std::stable_sort(points_.begin(), points_.end(),
                   [](const Point& a, const Point& b) { return a.value < b.value; });
}

size_t Ring::host_of(std::string_view key) const {
  const uint32_t value = point_of(md5(key), 0);
  const auto at = std::lower_bound(points_.begin(), points_.end(), value,
                                   [](const Point& a, uint32_t b) { return a.value < b; });
  return at == points_.end() ? points_.front().host : at->host;
}

}  // namespace sluice::limitd
