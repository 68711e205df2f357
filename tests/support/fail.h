// How a test's tools give up when the system refuses what they need. Called by what drives
// processes, sockets and terminals, on the test's thread.
#pragma once

#include <cerrno>
#include <system_error>

namespace sluice::tests {

// Throws errno under the name of the call that failed.
[[noreturn]] inline void fail(const char* what) {
  throw std::system_error(errno, std::generic_category(), what);
}

}  // namespace sluice::tests
