// The ring of shards of limitd-client: MD5, 40 x 4 points for each host (ketama), with lookups by
// `type:key`. Immutable; any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace sluice::limitd {

class Ring {
 public:
  // `hosts`: "10.0.0.1:9231"; at least one, all different. Throws std::runtime_error if OpenSSL has
  // no MD5.
  explicit Ring(std::span<const std::string> hosts);

  // The index in `hosts` of the host for the key.
  size_t host_of(std::string_view key) const;

 private:
  struct Point {
    uint32_t value;
    uint32_t host;
  };
  std::vector<Point> points_;
};

}  // namespace sluice::limitd
