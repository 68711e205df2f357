// How test support reports a failed system call. Called by the code for processes, sockets and
// terminals, on the test's thread.
#pragma once

#include <cerrno>
#include <system_error>

namespace sluice::tests {

// Throws std::system_error with errno. `what`: the call that failed.
[[noreturn]] inline void fail(const char* what) {
  throw std::system_error(errno, std::generic_category(), what);
}

}  // namespace sluice::tests
