#include "base/hash.h"

#include <sys/random.h>

#include "base/check.h"

namespace sluice::base {

Hash::Hash() {
  SLUICE_CHECK(getrandom(secret_.data(), secret_.size(), 0) ==
               static_cast<ssize_t>(secret_.size()));
}

Hash::Hash(uint64_t seed) {
  XXH3_generateSecret_fromSeed(secret_.data(), seed);
}

}  // namespace sluice::base
