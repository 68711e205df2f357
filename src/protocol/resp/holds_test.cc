// Reservations with the engine, holds and table in memory, under a clock that the test sets. A
// session without sockets.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "access/users.h"
#include "protocol/resp/commands_world_test.h"
#include "tests/support/dice.h"

namespace sluice::resp::holds_test {
namespace {

using namespace commands_test;

const std::string id = "hold-0000-0000-1";
const std::string rule =
    "- { match: { tenant: '*' }, actor: tenant, name: tok, limit: { quota: 100, window: 1h, "
    "algorithm: fixed_window } }\n";

// A world with a rule of 100 units an hour, or with these rules.
struct Holds : World {
  explicit Holds(const std::string& rules = rule) : World({}, rules) {}

  std::string reserve(int64_t n, const std::string& more = " ID " + id) {
    return numbers("SLUICE.RESERVE 60 tenant=a N " + std::to_string(n) + more);
  }
  std::string of_id(const std::string& command, const std::string& more = "") {
    return numbers("SLUICE." + command + " " + id + more);
  }
  // What a look tells.
  int64_t left() {
    const std::string five = numbers("SLUICE.PEEK tenant=a N 0");
    return std::stoll(five.substr(five.find(' ', 2) + 1));
  }
};

TEST(RespHold, IsTakenAtOnceAndSettled) {
  Holds world;
  EXPECT_EQ(world.say("SLUICE.RESERVE 60 tenant=a N 40 ID " + id + "\n"),
            "*5\r\n:1\r\n$16\r\n" + id + "\r\n:100\r\n:60\r\n:60000\r\n");
  EXPECT_EQ(world.left(), 60);
  EXPECT_TRUE(world.numbers("SLUICE.TAKE tenant=a N 61").starts_with("0 100 60 "));
  EXPECT_EQ(world.of_id("EXTEND", " N 5"), "1 100 55 60000");
  EXPECT_EQ(world.of_id("EXTEND", " N 56"), "0 100 55 3600000");
  EXPECT_EQ(world.of_id("RENEW", " 7.5"), "7500");
  EXPECT_EQ(world.of_id("EXTEND", " TTL 9"), "1 9000");
  EXPECT_EQ(world.of_id("COMMIT", " N 12"), "1 0 33 0 88");
  EXPECT_EQ(world.left(), 88);
  EXPECT_EQ(world.of_id("COMMIT", " N 12"), "0 0 33 0 88") << "repeated";
  EXPECT_TRUE(world.of_id("COMMIT", " N 13").starts_with("-SETTLED "));
  EXPECT_TRUE(world.of_id("RELEASE").starts_with("-SETTLED "));
  EXPECT_TRUE(world.of_id("EXTEND", " N 1").starts_with("-SETTLED "));
  EXPECT_TRUE(world.reserve(40).starts_with("-SETTLED "));
  EXPECT_EQ(world.left(), 88);
}

TEST(RespHold, IsReleasedWhole) {
  Holds world;
  EXPECT_EQ(world.reserve(40), "1 100 60 60000");
  EXPECT_EQ(world.of_id("RELEASE"), "40");
  EXPECT_EQ(world.left(), 100);
  EXPECT_EQ(world.of_id("RELEASE"), "0");
  EXPECT_TRUE(world.of_id("RENEW").starts_with("-ENDED "));
  EXPECT_EQ(world.of_id("COMMIT", " N 12"), "1 1 0 12 88") << "late: all is charged";
}

TEST(RespHold, EndsAtItsMicrosecond) {
  Holds world;
  EXPECT_EQ(world.numbers("SLUICE.RESERVE 1.5 tenant=a N 100 ID " + id), "1 100 0 1500");
  now_us += 1'499'999;
  EXPECT_EQ(world.left(), 0);
  now_us += 1;
  EXPECT_EQ(world.left(), 100);
  EXPECT_TRUE(world.of_id("EXTEND", " N 1").starts_with("-ENDED "));
}

TEST(RespHold, WithoutAnIdHasOneOfTheServer) {
  Holds world;
  const std::string reply = world.say("SLUICE.RESERVE 0 tenant=a N 40\n");
  const size_t at = reply.find("\r\n", reply.find('$')) + 2;
  const std::string its = reply.substr(at, reply.find("\r\n", at) - at);
  EXPECT_EQ(world.numbers("SLUICE.COMMIT " + its + " N 50"), "1 0 0 10 50") << its;
}

TEST(RespHold, SentAgainIsTheSameUntilItsContentIsAnother) {
  Holds world;
  EXPECT_EQ(world.reserve(40), "1 100 60 60000");
  now_us += 20 * second;
  EXPECT_EQ(world.numbers("SLUICE.RESERVE 9 tenant=a HOLDER h N 40 ID " + id), "1 100 60 40000");
  for (const std::string other : {"tenant=a N 41", "tenant=b N 40", "KEY k LIMIT 50 1m N 40"})
    EXPECT_TRUE(world.numbers("SLUICE.RESERVE 60 " + other + " ID " + id).starts_with("-IDINUSE "))
        << other;
  EXPECT_EQ(world.left(), 60);
}

TEST(RespHold, OfSeveralSubjectsIsAllOrNone) {
  Holds world;
  EXPECT_EQ(world.say("SLUICE.MRESERVE 60 2 tenant=a N 40 tenant=b N 101\n"),
            "*2\r\n:0\r\n$-1\r\n");
  EXPECT_EQ(world.left(), 100);
  const std::string both = "SLUICE.MRESERVE 60 2 tenant=a N 40 KEY k LIMIT 9 1m N 2 ID " + id;
  EXPECT_EQ(world.say(both + "\n"),
            "*4\r\n:1\r\n$16\r\n" + id + "\r\n*2\r\n:100\r\n:60\r\n*2\r\n:9\r\n:7\r\n");
  EXPECT_EQ(world.numbers(both), "1 100 60 9 7") << "repeated";
  EXPECT_EQ(world.of_id("COMMIT", " N 12"),
            "-ERR N must have one number for each subject of the reservation: 2");
  EXPECT_EQ(world.of_id("EXTEND", " N 1 1 WITHUNITS"), "1 9 6 60000 41 3");
  EXPECT_EQ(world.of_id("COMMIT", " N 12 9"), "1 0 29 6 0");
  EXPECT_EQ(world.left(), 88);
}

TEST(RespHold, ThatIsUnknownIsChargedIfItsSubjectComesAlong) {
  Holds world;
  EXPECT_TRUE(world.of_id("COMMIT", " N 30").starts_with("-NOID "));
  EXPECT_EQ(world.of_id("COMMIT", " N 30 SUBJECT tenant=a"), "1 1 0 30 70");
  EXPECT_EQ(world.say("SLUICE.COMMIT " + id + " N 30 SUBJECT tenant=a\n"),
            "*5\r\n:0\r\n:1\r\n:0\r\n:30\r\n:70\r\n")
      << "once";
  EXPECT_EQ(world.left(), 70);
  EXPECT_TRUE(world.of_id("COMMIT", " N 30 SUBJECT x=y").starts_with("0 1 ")) << "it is known";
  EXPECT_TRUE(world.numbers("SLUICE.COMMIT hold-0000-0000-2 N 30 SUBJECT x=y").starts_with("-NOID"))
      << "no rule applies";
}

// The counters of a subject in debt refuse; a renewal looks at none.
TEST(RespHold, IsRenewedInDebtToo) {
  Holds world;
  EXPECT_EQ(world.reserve(40), "1 100 60 60000");
  EXPECT_TRUE(world.numbers("SLUICE.CHARGE tenant=a N 70").starts_with("0 "));
  EXPECT_TRUE(world.of_id("EXTEND", " N 0").starts_with("0 100 0 "));
  EXPECT_EQ(world.of_id("EXTEND", " TTL 9"), "1 9000");
  EXPECT_EQ(world.of_id("RENEW", " 8"), "8000");
}

TEST(RespHold, IsCutToThePartThatARuleAllowsAndTellsIt) {
  Holds world(
      "- { match: { tenant: '*' }, actor: tenant, limit: { quota: 100, window: 1h, algorithm: "
      "fixed_window }, reserve: { max_fraction: 0.25, max_ttl: 30s } }\n");
  EXPECT_EQ(world.reserve(40, " WITHUNITS"), "1 100 75 30000 25");
}

TEST(RespHold, WithoutARuleIsAnError) {
  World world;
  EXPECT_EQ(world.numbers("SLUICE.RESERVE 60 x=y N 1"), "-NORULE no rule applies");
  EXPECT_EQ(world.numbers("SLUICE.MRESERVE 60 2 x=y N 1 user=u N 1"), "-NORULE no rule applies");
  EXPECT_EQ(world.numbers("SLUICE.PEEK user=u N 0"), "1 7 7 0 0");
}

// Without a connection nothing can wait: so the engine decides it at once.
TEST(RespHold, ThatCannotWaitIsRefusedAtOnce) {
  Holds world;
  EXPECT_EQ(world.reserve(60, " WAIT 5"), "1 100 40 60000");
  EXPECT_EQ(world.numbers("SLUICE.RESERVE 60 tenant=a N 60 WAIT 5"), "0 100 40 3600000");
  EXPECT_FALSE(world.session.state().holds_back);
  EXPECT_EQ(world.options.connections->waiting, 0u);
}

TEST(RespHold, InATransactionAndSilentlyIsDecidedInItsPlace) {
  Holds world;
  EXPECT_EQ(world.say("MULTI\nSLUICE.RESERVE 60 tenant=a N 90 WAIT 9 ID " + id +
                      "\nSLUICE.TAKE tenant=a N 11\nSLUICE.RELEASE " + id +
                      "\nSLUICE.TAKE tenant=a N 11\nEXEC\n"),
            "+OK\r\n+QUEUED\r\n+QUEUED\r\n+QUEUED\r\n+QUEUED\r\n*4\r\n*5\r\n:1\r\n$16\r\n" + id +
                "\r\n:100\r\n:10\r\n:60000\r\n*5\r\n:0\r\n:100\r\n:10\r\n:3600000\r\n:3600000\r\n"
                ":90\r\n*5\r\n:1\r\n:100\r\n:89\r\n:0\r\n:3600000\r\n");
  EXPECT_EQ(world.say("CLIENT REPLY SKIP\nSLUICE.RESERVE 60 tenant=a N 9\nPING\n"), "+PONG\r\n");
  EXPECT_EQ(world.left(), 80);
}

TEST(RespHold, IsTheUsersOwn) {
  Holds world;
  const auto user = [](const char* name) {
    return access::User{name, {access::Right::take}, access::digest_of(name)};
  };
  const access::Access access{
      std::make_shared<const access::Users>(std::vector<access::User>{user("one"), user("two")})};
  request::Peer peer = world.peer();
  peer.access = &access;
  const auto say = [&](const std::string& name, const std::string& command) {
    RespSession session(peer);
    world.say(session, "AUTH " + name + "\n");
    return world.say(session, command + "\n");
  };
  const std::string reserve = "SLUICE.RESERVE 60 tenant=a N 40 ID " + id;
  EXPECT_TRUE(say("one", reserve).starts_with("*5\r\n:1\r\n"));
  EXPECT_TRUE(say("two", "SLUICE.RELEASE " + id).starts_with("-NOID "));
  EXPECT_TRUE(say("two", reserve).ends_with(":20\r\n:60000\r\n")) << "a hold of its own";
  EXPECT_EQ(say("one", "SLUICE.RELEASE " + id), ":40\r\n");
}

// Random commands of three holds on one window: what is left is what a naive model says.
TEST(RespHold, RandomCommandsLeaveWhatANaiveModelSays) {
  tests::Dice dice(23);
  for (int round = 0; round < 20; ++round) {
    Holds world;
    struct Modelled {
      enum { none, held, committed, released } state = none;
      int64_t reserved = 0, used = 0;
    };
    std::array<Modelled, 3> holds;
    int64_t used = 0;
    for (int step = 0; step < 60; ++step) {
      const size_t which = dice(holds.size());
      Modelled& hold = holds[which];
      const std::string its = "hold-0000-0000-" + std::to_string(which);
      const auto ask = [&](const std::string& command, const std::string& more) {
        return world.numbers("SLUICE." + command + " " + its + more);
      };
      const int64_t n = dice(int64_t{60});
      const std::string units = " N " + std::to_string(n);
      const bool fits = used + n <= 100;
      switch (dice(4)) {
        case 0:
          if (hold.state != Modelled::none) break;
          EXPECT_EQ(world.numbers("SLUICE.RESERVE 60 tenant=a" + units + " ID " + its)[0] == '1',
                    fits);
          if (!fits) break;
          hold = {Modelled::held, n, 0};
          used += n;
          break;
        case 1: {
          const std::string reply = ask("EXTEND", units);
          if (hold.state != Modelled::held) {
            EXPECT_EQ(reply[0], '-') << reply;
            break;
          }
          EXPECT_EQ(reply[0] == '1', fits);
          if (!fits) break;
          hold.reserved += n;
          used += n;
          break;
        }
        case 2: {
          const std::string reply = ask("COMMIT", units);
          const bool settles = hold.state == Modelled::held || hold.state == Modelled::released;
          EXPECT_EQ(reply[0] == '1', settles) << reply;
          if (!settles) break;
          const int64_t before = hold.state == Modelled::held ? hold.reserved : 0;
          EXPECT_EQ(reply.substr(2),
                    (hold.state == Modelled::held ? "0 " : "1 ") +
                        std::to_string(std::max<int64_t>(before - n, 0)) + " " +
                        std::to_string(std::max<int64_t>(n - before, 0)) + " " +
                        std::to_string(std::max<int64_t>(100 - (used + n - before), 0)));
          used += n - before;
          hold = {Modelled::committed, 0, n};
          break;
        }
        default: {
          const std::string reply = ask("RELEASE", "");
          if (hold.state != Modelled::held && hold.state != Modelled::released) {
            EXPECT_EQ(reply[0], '-') << reply;
            break;
          }
          const int64_t back = hold.state == Modelled::held ? hold.reserved : 0;
          EXPECT_EQ(reply, std::to_string(back));
          used -= back;
          hold = {Modelled::released, 0, 0};
        }
      }
      ASSERT_EQ(world.left(), std::max<int64_t>(100 - used, 0)) << round << " " << step;
    }
  }
}

}  // namespace
}  // namespace sluice::resp::holds_test
