// Signals of the process as events of a loop.
#include "net/signals.h"

#include <gtest/gtest.h>

#include <csignal>
#include <vector>

#include "tests/support/comes.h"

namespace sluice::net {
namespace {

TEST(Signals, AreReportedInTheLoopAndLeftToTheSystemAfterwards) {
  EventLoop loop;
  std::vector<int> came;
  {
    const Signals signals(loop, {SIGUSR1, SIGHUP}, [&](int number) { came.push_back(number); });
    for (const int number : {SIGUSR1, SIGHUP, SIGUSR1}) EXPECT_EQ(::raise(number), 0);
    EXPECT_TRUE(came.empty());
    EXPECT_TRUE(tests::comes([&] {
      loop.run_ready();
      return came.size() >= 3;
    }));
    EXPECT_EQ(came, (std::vector{SIGUSR1, SIGHUP, SIGUSR1}));
  }
  for (const int number : {SIGUSR1, SIGHUP}) {
    struct sigaction action {};
    ASSERT_EQ(::sigaction(number, nullptr, &action), 0);
    EXPECT_EQ(action.sa_handler, SIG_DFL);
  }
}

// More than the pipe holds: none blocks the thread that it interrupts.
TEST(Signals, AFloodBlocksNobody) {
  EventLoop loop;
  size_t came = 0;
  const Signals signals(loop, {SIGUSR1}, [&](int) { ++came; });
  constexpr size_t flood = 200'000;
  for (size_t i = 0; i < flood; ++i) ::raise(SIGUSR1);
  EXPECT_TRUE(tests::comes([&] {
    loop.run_ready();
    return came > 1'000;
  }));
  EXPECT_LT(came, flood);
}

}  // namespace
}  // namespace sluice::net
