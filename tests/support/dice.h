// Seeded random numbers of any integer type for tests: the same numbers in every run.
#pragma once

#include <cstdint>
#include <random>

namespace sluice::tests {

class Dice {
 public:
  explicit Dice(uint32_t seed) : random_(seed) {}

  // 0 to n - 1.
  template <class Integer>
  Integer operator()(Integer n) {
    return static_cast<Integer>(random_() % static_cast<uint64_t>(n));
  }

 private:
  std::mt19937_64 random_;
};

}  // namespace sluice::tests
