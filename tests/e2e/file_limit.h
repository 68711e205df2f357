// A full disk, as a process sees it: its files may not grow beyond a size.
#pragma once

#include <gtest/gtest.h>
#include <sys/resource.h>

#include "tests/support/process.h"

namespace sluice::tests {

inline void limit_files(const Process& process, rlim_t bytes) {
  rlimit limit{};
  ASSERT_EQ(::prlimit(process.pid(), RLIMIT_FSIZE, nullptr, &limit), 0);
  limit.rlim_cur = bytes;
  ASSERT_EQ(::prlimit(process.pid(), RLIMIT_FSIZE, &limit, nullptr), 0);
}

}  // namespace sluice::tests
