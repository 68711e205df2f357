// SLUICE.CHARGE: units that were used are counted past the limit too, and once for each id. A
// session is served by an engine with the store in memory.
#include <gtest/gtest.h>

#include <string>

#include "protocol/resp/commands_world_test.h"

namespace sluice::resp::commands_test {
namespace {

const std::string id = " ID charge-0000-0001";

TEST(SluiceCharge, PassesTheLimitAndShowsTheDebt) {
  World world;
  EXPECT_EQ(world.numbers("SLUICE.CHARGE path=/login ip=a N 2"), "1 3 1 0 60000 0 2");
  EXPECT_EQ(world.numbers("SLUICE.CHARGE path=/login ip=a N 5"), "0 3 0 60000 60000 4 5");
  EXPECT_EQ(world.numbers("SLUICE.CHARGE path=/login ip=a N 0"), "0 3 0 60000 60000 4 0");
  EXPECT_EQ(world.numbers("SLUICE.PEEK path=/login ip=a N 0"), "0 3 0 60000 60000");
  EXPECT_EQ(world.say("SLUICE.CHARGE path=/login ip=a WITHNAME\n"),
            "*8\r\n:0\r\n:3\r\n:0\r\n:60000\r\n:60000\r\n:5\r\n$5\r\nlogin\r\n:1\r\n");
  now_us += 60 * second;
  EXPECT_EQ(world.numbers("SLUICE.CHARGE path=/login ip=a"), "1 3 2 0 60000 0 1");
}

// 8 of 10 used, then "look, work, charge 5" until the look refuses.
TEST(SluiceCharge, ALookBeforeTheWorkRefusesAfterTheFirstChargePastEachLimit) {
  World world;
  for (const char* algorithm : {"token_bucket", "fixed_window", "aligned_window", "sliding_window",
                                "sliding_log", "fixed_bucket"}) {
    const std::string subject = "KEY k LIMIT 10 " +
                                std::string(algorithm == std::string("fixed_bucket") ? "0" : "1h") +
                                " ALGORITHM " + algorithm;
    world.numbers("SLUICE.TAKE " + subject + " N 8");
    int streams = 0;
    while (streams < 10 && world.numbers("SLUICE.PEEK " + subject).starts_with("1 ")) {
      ++streams;
      world.numbers("SLUICE.CHARGE " + subject + " N 5");
    }
    EXPECT_EQ(streams, 1) << algorithm;
    EXPECT_TRUE(world.numbers("SLUICE.TAKE " + subject + " N 0").starts_with("0 ")) << algorithm;
  }
}

TEST(SluiceTake, ALimitThatCountsIsChargedWhatItRefuses) {
  World world;
  const std::string counts = "KEY k LIMIT 10 1h ALGORITHM fixed_window OVER COUNT",
                    refuses = "KEY j LIMIT 10 1h ALGORITHM fixed_window OVER REFUSE";
  for (const std::string& subject : {counts, refuses}) {
    EXPECT_TRUE(world.numbers("SLUICE.TAKE " + subject + " N 8").starts_with("1 10 2 "));
    EXPECT_TRUE(world.numbers("SLUICE.TAKE " + subject + " N 5").starts_with("0 10 "));
  }
  EXPECT_EQ(world.numbers("SLUICE.CHARGE " + counts + " N 0"), "0 10 0 3600000 3600000 3 0");
  EXPECT_EQ(world.numbers("SLUICE.CHARGE " + refuses + " N 0"), "1 10 2 0 3600000 0 0");
  // Of two limits the one that counts alone is charged.
  const std::string both =
      "KEY b LIMIT 3 1h ALGORITHM fixed_window LIMIT 5 1m ALGORITHM "
      "fixed_window OVER COUNT";
  EXPECT_TRUE(world.numbers("SLUICE.TAKE " + both + " N 7").starts_with("0 "));
  EXPECT_EQ(world.numbers("SLUICE.CHARGE " + both + " N 0"), "0 5 0 60000 60000 2 0");
  now_us += 60 * second;
  EXPECT_EQ(world.numbers("SLUICE.CHARGE " + both + " N 0"), "1 3 3 0 0 0 0");
  // One command cannot take of one counter in two ways.
  EXPECT_TRUE(
      world.numbers("SLUICE.MTAKE 2 " + counts + " KEY k LIMIT 10 1h ALGORITHM fixed_window")
          .starts_with("-ERR "));
}

TEST(SluiceCharge, OwesNoMoreThanTheOverdraft) {
  World world;
  const std::string owes = "KEY k LIMIT 10 1h ALGORITHM fixed_window OVERDRAFT 5",
                    drains = "KEY j LIMIT 10 1h ALGORITHM fixed_window OVER COUNT OVERDRAFT 0";
  EXPECT_EQ(world.numbers("SLUICE.CHARGE " + owes + " N 40"), "0 10 0 3600000 3600000 5 15");
  EXPECT_EQ(world.numbers("SLUICE.CHARGE " + owes + " N 40"), "0 10 0 3600000 3600000 5 0");
  // Another overdraft: the same counter, whose debt stays.
  EXPECT_EQ(
      world.numbers("SLUICE.CHARGE KEY k LIMIT 10 1h ALGORITHM fixed_window OVERDRAFT 1 N 40"),
      "0 10 0 3600000 3600000 5 0");
  EXPECT_TRUE(world.numbers("SLUICE.TAKE " + drains + " N 25").starts_with("0 10 0 "));
  EXPECT_TRUE(world.numbers("SLUICE.TAKE " + drains + " N 0").starts_with("1 10 0 "));
}

TEST(SluiceCharge, WithoutARuleIsAnErrorUnlessUnmatchedSaysOtherwise) {
  World world;
  EXPECT_EQ(world.numbers("SLUICE.CHARGE x=y"), "-NORULE no rule applies");
  RespOptions options;
  options.unmatched = Unmatched::allow;
  EXPECT_EQ(World(options).numbers("SLUICE.CHARGE x=y"), "1 0 0 0 0 0 0");
  options.unmatched = Unmatched::deny;
  EXPECT_EQ(World(options).numbers("SLUICE.CHARGE x=y"), "1 0 0 -1 0 0 0");
  EXPECT_EQ(World(options).say("SLUICE.CHARGE x=y WITHNAME\n"),
            "*8\r\n:1\r\n:0\r\n:0\r\n:-1\r\n:0\r\n:0\r\n$-1\r\n:0\r\n");
}

TEST(SluiceCharge, ADeniedSubjectIsNotCharged) {
  World world({}, "- { match: { banned: '*' }, deny: true }\n");
  EXPECT_EQ(world.numbers("SLUICE.CHARGE banned=a N 5"), "1 0 0 -1 -1 0 0");
}

TEST(SluiceCharge, WithAnIdIsCountedOnceAndAnsweredAsTheFirstTime) {
  World world;
  const std::string charge = "SLUICE.CHARGE path=/login ip=a N 5" + id;
  EXPECT_EQ(world.numbers(charge), "0 3 0 60000 60000 2 5");
  now_us += second;
  world.numbers("SLUICE.CHARGE path=/login ip=a");
  EXPECT_EQ(world.numbers(charge), "0 3 0 60000 60000 2 5");
  EXPECT_EQ(world.say(charge + " WITHNAME\n"),
            "*8\r\n:0\r\n:3\r\n:0\r\n:60000\r\n:60000\r\n:2\r\n$5\r\nlogin\r\n:5\r\n");
  EXPECT_EQ(world.numbers("SLUICE.CHARGE path=/login ip=a N 0"), "0 3 0 59000 59000 3 0");
  now_us += 600 * second;
  EXPECT_EQ(world.numbers(charge), "0 3 0 60000 60000 2 5") << "a new charge";
  EXPECT_EQ(world.numbers(charge), "0 3 0 60000 60000 2 5");
  EXPECT_EQ(world.numbers("SLUICE.CHARGE path=/login ip=a N 0"), "0 3 0 60000 60000 2 0");
}

TEST(SluiceCharge, AnIdWithAnotherContentIsAnError) {
  World world;
  world.numbers("SLUICE.CHARGE path=/login ip=a" + id);
  for (const std::string other : {"path=/login ip=b", "path=/login ip=a N 2", "KEY a LIMIT 3 1m"})
    EXPECT_EQ(world.numbers("SLUICE.CHARGE " + other + id),
              "-IDINUSE the id was used with another charge");
  EXPECT_EQ(world.numbers("SLUICE.PEEK path=/login ip=b N 0"), "1 3 3 0 0");
  // The same in another order is the same charge.
  EXPECT_EQ(world.numbers("SLUICE.CHARGE ip=a path=/login N 1" + id), "1 3 2 0 60000 0 1");
}

TEST(SluiceCharge, PipelinedAndWithinATransactionIsCountedOnce) {
  World world;
  const std::string charge = "SLUICE.CHARGE path=/login ip=a" + id + "\n";
  const std::string six = "*7\r\n:1\r\n:3\r\n:2\r\n:0\r\n:60000\r\n:0\r\n:1\r\n";
  EXPECT_EQ(world.say(charge + charge + "PING\n" + charge), six + six + "+PONG\r\n" + six);
  EXPECT_EQ(world.say("MULTI\n" + charge + "EXEC\n"), "+OK\r\n+QUEUED\r\n*1\r\n" + six);
  EXPECT_EQ(world.numbers("SLUICE.CHARGE path=/login ip=a N 0"), "1 3 2 0 60000 0 0");
}

TEST(SluiceCharge, ASilentChargeIsRememberedToo) {
  World world;
  const std::string charge = "SLUICE.CHARGE path=/login ip=a" + id + "\n";
  EXPECT_EQ(world.say("CLIENT REPLY OFF\n" + charge + charge + "CLIENT REPLY ON\n"), "+OK\r\n");
  EXPECT_EQ(world.say(charge), "*7\r\n:1\r\n:3\r\n:2\r\n:0\r\n:60000\r\n:0\r\n:1\r\n");
  EXPECT_EQ(world.numbers("SLUICE.CHARGE path=/login ip=a N 0"), "1 3 2 0 60000 0 0");
}

TEST(SluiceCharge, AnIdOfAChargeThatFailedMayBeUsedAgain) {
  World world;
  EXPECT_EQ(world.numbers("SLUICE.CHARGE x=y" + id), "-NORULE no rule applies");
  EXPECT_EQ(world.numbers("SLUICE.CHARGE path=/login ip=a" + id), "1 3 2 0 60000 0 1");
  EXPECT_EQ(world.ids->figures().under_way, 0u);
}

TEST(SluiceCharge, ServersWithoutAMemoryOfIdsRefuseThem) {
  World world;
  RespSession other({.server = &world.view, .options = &world.options, .clock = &world.clock});
  EXPECT_EQ(world.say(other, "SLUICE.CHARGE path=/login ip=a" + id + "\n"),
            "-ERR this server remembers no ids of charges\r\n");
}

}  // namespace
}  // namespace sluice::resp::commands_test
