// Two hashes. The keyed one of the counter table: XXH3 with a secret drawn at random for this
// process, so that no client can choose keys that meet in one stripe or chain. Immutable once
// made; any thread may call it. And the plain one that tells texts apart.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace sluice::base {

class Hash {
 public:
  // A secret from the system's random source; ends the process if there is none.
  Hash();
  // A secret derived from `seed`: the same hash in every run, for tests.
  explicit Hash(uint64_t seed);

  uint64_t operator()(uint32_t space, std::string_view key) const {
    return XXH3_64bits_withSecret(key.data(), key.size(), secret_.data(), secret_.size()) ^
           (space + uint64_t{1}) * 0x9E3779B97F4A7C15u;
  }

 private:
  alignas(64) std::array<unsigned char, XXH3_SECRET_DEFAULT_SIZE> secret_;
};

// What says whether two texts are the same: XXH3 without a secret, so that the number means the
// same in every process and is what `xxhsum -H3` prints.
uint64_t digest(std::string_view text);
// Of several texts in order, from the digest of each; of one text its own.
uint64_t digest_of(std::span<const uint64_t> digests);

}  // namespace sluice::base
