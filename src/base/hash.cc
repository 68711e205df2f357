#include "base/hash.h"

#include <sys/random.h>

#include <string>

#include "base/check.h"

namespace sluice::base {

Hash::Hash() {
  SLUICE_CHECK(getrandom(secret_.data(), secret_.size(), 0) ==
               static_cast<ssize_t>(secret_.size()));
}

Hash::Hash(uint64_t seed) {
  XXH3_generateSecret_fromSeed(secret_.data(), seed);
}

uint64_t digest(std::string_view text) {
  return XXH3_64bits(text.data(), text.size());
}

uint64_t digest_of(std::span<const uint64_t> digests) {
  if (digests.size() == 1) return digests.front();
  std::string bytes;
  for (const uint64_t one : digests)
    for (int shift = 56; shift >= 0; shift -= 8) bytes += static_cast<char>(one >> shift & 0xff);
  return digest(bytes);
}

}  // namespace sluice::base
