// Counts the allocations of the whole process, of any thread and library, while an object of this
// class exists. Only one may exist at a time.
#pragma once

#include <cstddef>

namespace sluice::tests {

class Allocations {
 public:
  Allocations();
  ~Allocations();
  Allocations(const Allocations&) = delete;
  Allocations& operator=(const Allocations&) = delete;

  // Since the object was made.
  size_t count() const;
  size_t bytes() const;  // allocated; freed ones are included
};

}  // namespace sluice::tests
