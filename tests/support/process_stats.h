// A process's memory and processor time, as the kernel reports them, and this process's limit of
// open files.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstddef>
#include <cstdint>

namespace sluice::tests {

// Resident memory in bytes.
int64_t resident_bytes(pid_t pid);
// The processor time of all its threads, in user and kernel mode.
std::chrono::milliseconds processor_time(pid_t pid);

// Lets this process have `count` descriptors. False: its hard limit is lower.
bool allow_open_files(size_t count);

}  // namespace sluice::tests
