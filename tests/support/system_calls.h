// Counts the system calls of a child process, by ptrace(2).
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <functional>
#include <optional>

namespace sluice::tests {

// Runs `work`, and returns how many system calls the thread of that process that has sent most
// often (sendto) has made meanwhile: the one that answers, whatever others read at their start. The
// process must be a child of this one; its threads run slower for that time. Nothing: the system
// does not let this process trace (errno), and `work` has not run.
std::optional<size_t> count_system_calls(pid_t pid, const std::function<void()>& work);

}  // namespace sluice::tests
