// What a request costs a worker in system calls.
#include "tests/support/system_calls.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <cstring>
#include <optional>

#include "tests/e2e/policies.h"
#include "tests/support/divvy_server.h"
#include "tests/support/patience.h"

namespace sluice::tests {
namespace {

constexpr size_t requests = 1'000;

// A wait, a read and a write; a twentieth more for what has nothing to do with the requests.
TEST(SystemCalls, ARequestThatComesAloneTakesThree) {
  if (sanitized) GTEST_SKIP() << "the sanitizer makes calls of its own";
  DivvyServer server("rules.ini", hundred_policy);
  auto client = server.client();
  ASSERT_TRUE(client.ask("HIT a=b").starts_with("OK true "));
  const std::optional<size_t> calls = count_system_calls(server.process().pid(), [&] {
    for (size_t i = 0; i < requests; ++i)
      ASSERT_TRUE(client.ask("HIT a=b").starts_with("OK ")) << i;
  });
  if (!calls) GTEST_SKIP() << "this process may not trace: " << std::strerror(errno);
  EXPECT_GE(*calls, 2 * requests) << "they are not counted";
  EXPECT_LE(*calls, requests * 305 / 100);
  RecordProperty("calls", static_cast<int>(*calls));
}

}  // namespace
}  // namespace sluice::tests
