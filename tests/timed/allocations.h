// Counts every malloc of this process, whatever thread and library it comes from, while an object
// of this class lives. One at a time.
#pragma once

#include <cstddef>

namespace sluice::tests {

class Allocations {
 public:
  Allocations();
  ~Allocations();
  Allocations(const Allocations&) = delete;
  Allocations& operator=(const Allocations&) = delete;

  // So far.
  size_t count() const;
  size_t bytes() const;  // that were asked for, given back or not
};

}  // namespace sluice::tests
