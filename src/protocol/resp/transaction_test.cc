// MULTI and EXEC: what is executed, when, and how its replies are written. A session is served by
// an engine with the store in memory.
#include <gtest/gtest.h>

#include <string>
#include <string_view>

#include "base/bounds.h"
#include "protocol/resp/commands_world_test.h"
#include "protocol/resp/session.h"

namespace sluice::resp::commands_test {
namespace {

TEST(Transactions, WorksWithinATransaction) {
  World world;
  EXPECT_EQ(world.say("MULTI\nCL.THROTTLE k 0 1 60\nPING\nCL.THROTTLE k 0 1 60\nEXEC\n"),
            "+OK\r\n+QUEUED\r\n+QUEUED\r\n+QUEUED\r\n*3\r\n*5\r\n:0\r\n:1\r\n:0\r\n:-1\r\n:60\r\n"
            "+PONG\r\n*5\r\n:1\r\n:1\r\n:0\r\n:60\r\n:60\r\n");
  EXPECT_EQ(world.say("MULTI\nNOSUCH\nCL.THROTTLE k9 0 1 60\nEXEC\nEXEC\n"),
            "+OK\r\n-ERR unknown command 'NOSUCH', with args beginning with: \r\n+QUEUED\r\n"
            "-EXECABORT Transaction discarded because of previous errors.\r\n"
            "-ERR EXEC without MULTI\r\n");
  EXPECT_EQ(world.numbers("CL.THROTTLE k9 0 1 60"), "0 1 0 -1 60") << "it was not executed";
  EXPECT_EQ(
      world.say("MULTI\nMULTI\nWATCH k\nDISCARD\nDISCARD\nWATCH k\nUNWATCH\n"),
      "+OK\r\n-ERR MULTI calls can not be nested\r\n-ERR WATCH inside MULTI is not allowed\r\n"
      "+OK\r\n-ERR DISCARD without MULTI\r\n+OK\r\n+OK\r\n");
}

// Each transaction keeps its words in memory of its own while its requests are decided.
TEST(Transactions, TransactionsInOneWriteChargeTheirOwnKeys) {
  World world;
  const std::string a(200, 'a'), b(200, 'b');
  std::string all;
  for (const std::string& key : {a, b, a, b})
    all += "MULTI\nCL.THROTTLE " + key + " 3 1 600\nEXEC\n";
  const std::string one = "+OK\r\n+QUEUED\r\n*1\r\n*5\r\n:0\r\n:4\r\n:";
  EXPECT_EQ(world.say(all), one + "3\r\n:-1\r\n:600\r\n" + one + "3\r\n:-1\r\n:600\r\n" + one +
                                "2\r\n:-1\r\n:1200\r\n" + one + "2\r\n:-1\r\n:1200\r\n");
  EXPECT_EQ(world.numbers("CL.THROTTLE " + a + " 3 1 600 0"), "0 4 2 -1 1200");
  EXPECT_EQ(world.numbers("CL.THROTTLE " + b + " 3 1 600 0"), "0 4 2 -1 1200");
}

// A batch has no more requests than outside a transaction.
TEST(Transactions, ALongTransactionIsExecutedInParts) {
  World world;
  std::string all = "MULTI\n", expected = "+OK\r\n", replies;
  for (int i = 0; i < 2000; ++i) {
    all += "CL.THROTTLE k" + std::to_string(i % 3) + " 9999 1 1\nECHO " + std::to_string(i) + "\n";
    expected += "+QUEUED\r\n+QUEUED\r\n";
    const std::string n = std::to_string(i);
    replies += "*5\r\n:0\r\n:10000\r\n:" + std::to_string(9999 - i / 3) +
               "\r\n:-1\r\n:" + std::to_string(i / 3 + 1) + "\r\n$" + std::to_string(n.size()) +
               "\r\n" + n + "\r\n";
  }
  EXPECT_EQ(world.say(all + "EXEC\nPING\n"), expected + "*4000\r\n" + replies + "+PONG\r\n");
  EXPECT_LE(world.most_asked, base::bounds::batch_requests_max);
  EXPECT_EQ(world.session.state().unfinished_bytes, 0u) << "its memory is given back";
  // The connection can begin another transaction.
  EXPECT_EQ(world.say("EXEC\nMULTI\nPING\nEXEC\n"),
            "-ERR EXEC without MULTI\r\n+OK\r\n+QUEUED\r\n*1\r\n+PONG\r\n");
}

// A command that changes how later replies are written, or what they contain, has its effect from
// its place in the transaction on.
TEST(Transactions, RepliesInATransactionReflectTheStateAtTheirPlace) {
  World world;
  const std::string told = world.say(
      "MULTI\nCLIENT GETNAME\nCLIENT INFO\nCLIENT SETNAME later\nHELLO 3\nCLIENT GETNAME\nSELECT "
      "3\nEXEC\nCLIENT INFO\nSELECT 4\n");
  const size_t before = told.find("name= "), after = told.find("name=later");
  EXPECT_NE(before, told.npos) << told;
  EXPECT_LT(before, after);
  EXPECT_NE(told.find("*6\r\n$-1\r\n"), told.npos) << "the null of RESP2";
  EXPECT_NE(told.find(" db=3 "), told.npos) << told;
  EXPECT_EQ(told.find(" db=4 "), told.npos) << told;
}

TEST(Transactions, RejectsClientReplyWithinATransaction) {
  World world;
  for (const char* how : {"SKIP", "OFF"})
    EXPECT_EQ(world.say("MULTI\nCLIENT REPLY " + std::string(how) + "\nPING\nEXEC\nPING\n"),
              "+OK\r\n-ERR CLIENT REPLY is not allowed in transactions\r\n+QUEUED\r\n"
              "-EXECABORT Transaction discarded because of previous errors.\r\n+PONG\r\n");
}

TEST(Transactions, ATransactionWithoutRepliesIsExecuted) {
  World world;
  for (const std::string commands : {"PING\n", "PING\nCL.THROTTLE k 1 1 60\n", ""}) {
    EXPECT_EQ(world.say("CLIENT REPLY OFF\nMULTI\n" + commands + "EXEC\n"), "");
    EXPECT_EQ(world.session.state().unfinished_bytes, 0u);
    EXPECT_EQ(world.say("CLIENT REPLY ON\nPING\n"), "+OK\r\n+PONG\r\n");
  }
  EXPECT_EQ(world.numbers("CL.THROTTLE k 1 1 60 0"), "0 2 1 -1 60") << "it was executed once";
}

TEST(Transactions, ATransactionIsBounded) {
  World world;
  world.say("MULTI\n");
  std::string all;
  for (size_t i = 0; i < Transaction::commands_max; ++i) all += "PING\n";
  const std::string queued = world.say(all);
  EXPECT_EQ(queued.size(), Transaction::commands_max * std::string_view("+QUEUED\r\n").size());
  EXPECT_TRUE(world.say("PING\n").starts_with("-ERR too many commands"));
  EXPECT_TRUE(world.say("EXEC\n").starts_with("-EXECABORT"));
  world.say("MULTI\n");
  const std::string word(60'000, 'x');
  for (int i = 0; i < 17; ++i) EXPECT_EQ(world.say("ECHO " + word + "\n"), "+QUEUED\r\n");
  EXPECT_GT(world.session.state().unfinished_bytes, 17u * 60'000);
  EXPECT_LE(world.session.state().unfinished_bytes, Transaction::bytes_max);
  EXPECT_TRUE(world.say("ECHO " + word + "\n").starts_with("-ERR too many commands"));
  world.say("DISCARD\n");
  EXPECT_EQ(world.session.state().unfinished_bytes, 0u);
  world.say("MULTI\n");
  const std::string small = "PING " + std::string(200, 'x') + "\n";
  for (std::string told = "+QUEUED\r\n"; told == "+QUEUED\r\n"; told = world.say(small)) {
    EXPECT_LE(world.session.state().unfinished_bytes, Transaction::bytes_max);
    EXPECT_FALSE(world.session.state().may_pause) << "the client owes EXEC";
  }
  world.say("DISCARD\n");
  EXPECT_TRUE(world.session.state().may_pause);
}

}  // namespace
}  // namespace sluice::resp::commands_test
