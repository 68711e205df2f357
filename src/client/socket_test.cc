// Blocking sockets with deadlines (client/socket.h).
#include "client/socket.h"

#include <gtest/gtest.h>

#include "base/result_test.h"
#include "testing/fake_server.h"

namespace sluice::calls {
namespace {

using std::chrono::milliseconds;

TEST(Socket, WorksAgainOnceItsDeadlineIsExtended) {
  FakeServer server({"answer\n"});
  std::string problem, got;
  auto socket = Socket::connect("127.0.0.1", server.port(), milliseconds(20));
  ASSERT_TRUE(socket) << socket.problem().text;
  // The server waits for a line before it answers.
  EXPECT_FALSE(succeeds(socket->receive(got), problem));
  EXPECT_EQ(problem, "no reply in time");
  EXPECT_FALSE(socket->receive(got));
  socket->renew(milliseconds(20'000));
  EXPECT_TRUE(socket->send("question\n"));
  EXPECT_TRUE(succeeds(socket->receive(got), problem)) << problem;
  EXPECT_EQ(got, "answer\n");
}

}  // namespace
}  // namespace sluice::calls
