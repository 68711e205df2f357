// Counts what a thread allocates with operator new, which this folder's tests replace for that.
#pragma once

#include <cstddef>

namespace sluice::tests {

// Since the thread began.
size_t allocations();

}  // namespace sluice::tests
