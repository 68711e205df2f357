// What this process may use of its machine. Read at the start, by the main thread.
#pragma once

#include <cstddef>

namespace sluice::base {

// Processors: the lesser of the affinity mask and the cgroup's quota (rounded up), at least 1.
unsigned processors();

// Raises the limit of open files to its hard maximum; returns what it is then.
size_t raise_open_files();

// Descriptors that this process may have, and that it has now.
size_t open_files_max();
size_t open_files();

}  // namespace sluice::base
