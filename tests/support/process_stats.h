// What the kernel says of a process: memory and processor time. And what this one may open.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstddef>
#include <cstdint>

namespace sluice::tests {

// Memory that is in RAM, in bytes.
int64_t resident_bytes(pid_t pid);
// Of all its threads, in user and kernel mode.
std::chrono::milliseconds processor_time(pid_t pid);

// Lets this process have `count` descriptors. False: its hard limit is lower.
bool allow_open_files(size_t count);

}  // namespace sluice::tests
