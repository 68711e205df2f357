// The commands that charge counters: CL.THROTTLE, THROTTLE and GCRA (also against the naive model
// of limit/), and SLUICE.*. A session is served by an engine with the store in memory.
#include <gtest/gtest.h>

#include <map>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "limit/gcra_model.h"
#include "protocol/resp/commands_world_test.h"

namespace sluice::resp::commands_test {
namespace {

using limit::Algorithm;

TEST(Throttle, TheThreeCommandsCountApart) {
  World world;
  EXPECT_EQ(world.numbers("CL.THROTTLE k 1 1 60"), "0 2 1 -1 60");
  EXPECT_EQ(world.numbers("cl.throttle k 1 1 60"), "0 2 0 -1 120");
  EXPECT_EQ(world.numbers("CL.THROTTLE k 1 1 60"), "1 2 0 60 120");
  EXPECT_EQ(world.numbers("THROTTLE k 3 1 60"), "1 3 2 120 0");
  EXPECT_EQ(world.numbers("GCRA k 1 1 60"), "0 2 1 -1 60");
  now_us += 60 * second;
  EXPECT_EQ(world.numbers("CL.THROTTLE k 1 1 60"), "0 2 0 -1 120");
}

TEST(Throttle, ResetIsTheTimeUntilTheBucketIsFullWithTrueReset) {
  RespOptions options;
  options.throttle_true_reset = true;
  World world(options);
  EXPECT_EQ(world.numbers("THROTTLE k 5 1 60 0"), "1 5 5 0 0");
  EXPECT_EQ(world.numbers("THROTTLE k 5 1 60"), "1 5 4 60 0");
  EXPECT_EQ(world.numbers("THROTTLE k 5 1 60 4"), "1 5 0 300 0");
  now_us += 1;
  EXPECT_EQ(world.numbers("THROTTLE k 5 1 60"), "0 5 0 300 60");
  now_us += second - 1;
  EXPECT_EQ(world.numbers("THROTTLE k 5 1 60"), "0 5 0 299 59");
  // A bucket of one unit is empty for one emission interval after a take.
  EXPECT_EQ(world.numbers("THROTTLE one 1 1 60 0"), "1 1 1 0 0");
  EXPECT_EQ(world.numbers("THROTTLE one 1 1 60"), "1 1 0 60 0");
  EXPECT_EQ(world.numbers("THROTTLE one 1 1 60"), "0 1 0 60 60");
  now_us += 59 * second + 1;
  EXPECT_EQ(world.numbers("THROTTLE one 1 1 60 0"), "1 1 0 1 0");
  // The setting changes neither CL.THROTTLE nor servers without it.
  EXPECT_EQ(world.numbers("CL.THROTTLE k 4 1 60"), "0 5 4 -1 60");
  EXPECT_EQ(World().numbers("THROTTLE k 5 1 60"), "1 5 4 240 0");
}

// The stored name of a key in another database contains the database. redis-cell does not use such
// names, so only keys of database 0 can be shared with it.
TEST(Throttle, KeysThatRedisCellSharesAreOfOneDatabase) {
  RespOptions options;
  options.cell_shared = true;
  World world(options);
  EXPECT_EQ(world.numbers("CL.THROTTLE k 0 1 60"), "0 1 0 -1 60");
  EXPECT_EQ(world.say("EXISTS k\n"), ":1\r\n");
  EXPECT_EQ(world.say("SELECT 3\n"), "+OK\r\n");
  EXPECT_EQ(world.numbers("CL.THROTTLE k 0 1 60"),
            "-ERR the keys that CL.THROTTLE shares with redis-cell (resp.cell_shared) are those of "
            "database 0 alone");
  EXPECT_EQ(world.say("EXISTS k\n"), ":0\r\n");
  EXPECT_EQ(world.numbers("THROTTLE k 1 1 60"), "1 1 0 0 0");
  EXPECT_EQ(world.say("SELECT 0\n"), "+OK\r\n");
  EXPECT_EQ(world.say("DEL k\n"), ":1\r\n");
  EXPECT_EQ(world.numbers("CL.THROTTLE k 0 1 60"), "0 1 0 -1 60");
}

TEST(Throttle, DatabasesCountApart) {
  World world;
  EXPECT_EQ(world.numbers("CL.THROTTLE k 0 1 60"), "0 1 0 -1 60");
  EXPECT_EQ(world.say("SELECT 3\n"), "+OK\r\n");
  EXPECT_EQ(world.numbers("CL.THROTTLE k 0 1 60"), "0 1 0 -1 60");
  EXPECT_EQ(world.numbers("CL.THROTTLE k 0 1 60"), "1 1 0 60 60");
}

// The replies to random sequences of commands are those of the naive model.
TEST(Throttle, AnswersLikeTheModel) {
  std::mt19937_64 random(5);
  for (const auto& [algorithm, name] :
       {std::pair(Algorithm::gcra_cell, "CL.THROTTLE"), std::pair(Algorithm::gcra_crab, "THROTTLE"),
        std::pair(Algorithm::gcra_redis, "GCRA")}) {
    World world;
    std::map<int, limit::gcra_model::Key> keys;
    size_t allowed = 0, denied = 0, errors = 0;
    for (int step = 0; step < 4000; ++step) {
      const int key = static_cast<int>(random() % 5);
      limit::gcra_model::Call call{
          algorithm, static_cast<int64_t>(random() % 6), static_cast<int64_t>(random() % 9 + 1),
          static_cast<int64_t>(random() % 100 + 1), static_cast<int64_t>(random() % 4)};
      if (algorithm == Algorithm::gcra_redis) call.quantity = std::max<int64_t>(1, call.quantity);
      if (algorithm == Algorithm::gcra_cell && random() % 4 == 0) call.quantity = -1;
      if (random() % 50 == 0) call.quantity = INT64_MAX;
      const std::string text =
          std::string(name) + " k" + std::to_string(key) + " " + std::to_string(call.max_burst) +
          " " + std::to_string(call.count) + " " + std::to_string(call.period) +
          (algorithm == Algorithm::gcra_redis ? " TOKENS " : " ") + std::to_string(call.quantity);
      if (algorithm == Algorithm::gcra_redis) call.period *= second;
      const auto expected = keys[key].ask(call, now_us);
      std::string words = "-ERR";
      if (expected) {
        words.clear();
        for (const int64_t n : *expected) words += (words.empty() ? "" : " ") + std::to_string(n);
        ++((*expected)[0] == (algorithm == Algorithm::gcra_crab ? 1 : 0) ? allowed : denied);
      } else {
        ++errors;
      }
      ASSERT_EQ(world.numbers(text).substr(0, expected ? std::string::npos : 4), words) << text;
      if (random() % 3 == 0) now_us += static_cast<int64_t>(random() % (20 * second));
    }
    EXPECT_GT(allowed, 500u) << name;
    EXPECT_GT(denied, 500u) << name;
    EXPECT_GT(errors, 20u) << name;
  }
}

// Limits that come as the numbers of a command are not interned, so they need no memory.
TEST(Throttle, DistinctNumbersAreNotRemembered) {
  World world;
  const size_t known = world.spaces.known();
  for (int i = 1; i < 5000; ++i)
    world.say("CL.THROTTLE k" + std::to_string(i % 10) + " " + std::to_string(i) + " 5 60\n");
  EXPECT_EQ(world.spaces.known(), known);
}

TEST(Throttle, ANativeRuleComesFirst) {
  World world;
  EXPECT_EQ(world.numbers("CL.THROTTLE vip1 99 1 60"), "0 2 1 -1 10");
  EXPECT_EQ(world.numbers("CL.THROTTLE vip1 99 1 60"), "0 2 0 -1 10");
  EXPECT_EQ(world.numbers("CL.THROTTLE vip1 99 1 60"), "1 2 0 10 10");
  EXPECT_EQ(world.numbers("CL.THROTTLE v 99 1 60"), "0 100 99 -1 60");
}

TEST(Throttle, SilentCommandsCharge) {
  World world;
  EXPECT_EQ(world.say("CLIENT REPLY SKIP\nCL.THROTTLE k 1 1 60\nPING\n"), "+PONG\r\n");
  EXPECT_EQ(world.numbers("CL.THROTTLE k 1 1 60"), "0 2 0 -1 120");
}

// A rule that never allows (`deny`, or a bucket that only puts fill) gives -1 as the time to wait.
// It is not an error.
TEST(Throttle, ATimeThatNeverComesIsMinusOne) {
  World world;
  EXPECT_EQ(world.numbers("CL.THROTTLE no1 3 1 60"), "1 0 0 -1 -1");
  EXPECT_EQ(world.numbers("CL.THROTTLE jar1 3 1 60"), "0 1 0 -1 -1");
  EXPECT_EQ(world.numbers("CL.THROTTLE jar1 3 1 60"), "1 1 0 -1 -1");
  EXPECT_EQ(world.numbers("THROTTLE no1 3 1 60"), "0 0 0 -1 -1");
  EXPECT_EQ(world.numbers("GCRA no1 3 1 60"), "1 0 0 -1 -1");
}

TEST(SluiceCommands, TakeByThePolicy) {
  World world;
  EXPECT_EQ(world.numbers("SLUICE.TAKE path=/login ip=10.0.0.1"), "1 3 2 0 60000");
  EXPECT_EQ(world.numbers("SLUICE.TAKE path=/login ip=10.0.0.1 N 2"), "1 3 0 0 60000");
  now_us += 1;
  EXPECT_EQ(world.numbers("SLUICE.TAKE path=/login ip=10.0.0.1"), "0 3 0 60000 60000");
  EXPECT_EQ(world.numbers("SLUICE.TAKE path=/login ip=10.0.0.1 N 4"), "0 3 0 -1 60000");
  EXPECT_EQ(world.numbers("SLUICE.TAKE path=/login ip=10.0.0.1 N 0"), "1 3 0 0 60000");
  EXPECT_EQ(world.numbers("SLUICE.PEEK path=/login ip=10.0.0.1"), "0 3 0 60000 60000");
  EXPECT_EQ(world.numbers("SLUICE.PEEK path=/login ip=10.0.0.2"), "1 3 2 0 60000");
  EXPECT_EQ(world.numbers("SLUICE.PEEK path=/login ip=10.0.0.2"), "1 3 2 0 60000");
  EXPECT_EQ(world.numbers("SLUICE.TAKE nothing=x"), "-NORULE no rule applies");
  EXPECT_EQ(world.say("SLUICE.TAKE path=/login ip=10.0.0.3 WITHNAME\n"),
            "*6\r\n:1\r\n:3\r\n:2\r\n:0\r\n:60000\r\n$5\r\nlogin\r\n");
  EXPECT_EQ(world.say("SLUICE.TAKE user=u WITHNAME\n").substr(0, 8), "*6\r\n:1\r\n");
}

TEST(SluiceCommands, PutAndReset) {
  World world;
  world.numbers("SLUICE.TAKE path=/login ip=a N 3");
  EXPECT_EQ(world.numbers("SLUICE.PUT path=/login ip=a"), "1 3");
  EXPECT_EQ(world.numbers("SLUICE.PUT path=/login ip=a N 9"), "3 3");
  world.numbers("SLUICE.TAKE path=/login ip=a N 2");
  EXPECT_EQ(world.numbers("SLUICE.RESET path=/login ip=a"), "1");
  EXPECT_EQ(world.numbers("SLUICE.RESET path=/login ip=a"), "0");
  EXPECT_EQ(world.numbers("SLUICE.TAKE path=/login ip=a"), "1 3 2 0 60000");
  EXPECT_EQ(world.numbers("SLUICE.PUT path=/login ip=a ALL"), "3 3");
  EXPECT_EQ(world.numbers("SLUICE.RESET nothing=x"), "-NORULE no rule applies");
}

// The key names the counter: another list changes its limits as a reload does.
TEST(SluiceCommands, InlineLimitsAreOneCounterForAKey) {
  World world;
  EXPECT_EQ(world.numbers("SLUICE.TAKE KEY k LIMIT 10 60 N 4"), "1 10 6 0 24000");
  EXPECT_EQ(world.numbers("SLUICE.TAKE KEY k LIMIT 5 60"), "1 5 0 0 60000") << "4 of 10 were used";
  EXPECT_EQ(world.numbers("SLUICE.TAKE KEY k LIMIT 10 60 LIMIT 20 1h ALGORITHM fixed_window N 2"),
            "1 10 3 0 42000")
      << "5 of 10, and a window that begins";
  EXPECT_EQ(world.numbers("SLUICE.TAKE KEY k LIMIT 20 1h ALGORITHM fixed_window N 8"),
            "1 20 10 0 3600000");
  EXPECT_EQ(world.numbers("SLUICE.PEEK KEY k LIMIT 20 1h ALGORITHM fixed_window LIMIT 10 60 N 0"),
            "1 10 3 0 42000")
      << "while another list is in force a limit is kept, and not charged";
  EXPECT_EQ(world.numbers("EXISTS k"), "1");
  EXPECT_EQ(world.numbers("SLUICE.TAKE KEY j LIMIT 10 1s LIMIT 15 1h N 10"), "1 10 0 0 1000");
  now_us += second;
  EXPECT_EQ(world.numbers("SLUICE.TAKE KEY j LIMIT 10 1s LIMIT 15 1h N 10"),
            "0 15 5 1199000 2399000");
  EXPECT_EQ(world.numbers("SLUICE.RESET KEY j LIMIT 10 1s LIMIT 15 1h"), "1");
  EXPECT_EQ(world.numbers("SLUICE.PEEK KEY j LIMIT 10 1s LIMIT 15 1h N 10"), "1 10 0 0 1000");
}

// Lists of limits that came with requests are forgotten when no counter names them.
TEST(SluiceCommands, InlineLimitsAreBounded) {
  World world;
  for (int i = 1; i <= 3 * static_cast<int>(base::bounds::inline_limits_kept_max); ++i)
    world.say("SLUICE.TAKE KEY k LIMIT " + std::to_string(i) + " 60\n");
  EXPECT_GT(world.spaces.known_lists(), 10'000u);
  // A round of the limits collector; the only counter of the store names the last list.
  request::Marks marks = world.spaces.begin_round();
  bool first = true;
  while (!world.store.catalog().mark_named(marks, first)) first = false;
  world.spaces.end_round(marks);
  EXPECT_LT(world.spaces.known_lists(), 2 * base::bounds::inline_limits_kept_max);
}

TEST(SluiceCommands, SeveralAllOrNothing) {
  World world;
  const std::string login = "ENTRIES 2 path=/login ip=a ", key = "KEY k LIMIT 10 60 ";
  EXPECT_EQ(world.numbers("SLUICE.MTAKE 2 " + login + key + "N 2"),
            "1 1 3 1 0 60000 1 10 8 0 12000");
  EXPECT_EQ(world.numbers("SLUICE.MTAKE 2 " + login + key + "N 2"),
            "0 0 3 1 60000 60000 1 10 8 0 12000");
  EXPECT_EQ(world.numbers("SLUICE.PEEK " + key + "N 8"), "1 10 0 0 60000") << "nothing was charged";
  EXPECT_EQ(world.numbers("SLUICE.MTAKE 2 " + login + key + "EACH N 2"),
            "0 0 3 1 60000 60000 1 10 6 0 24000");
  EXPECT_EQ(world.numbers("SLUICE.MTAKE 1 ENTRIES 1 nothing=x"), "-NORULE no rule applies");
  EXPECT_EQ(world.say("SLUICE.MTAKE 2 ENTRIES 1 nothing=x " + key + "\n"),
            "*3\r\n:1\r\n*-1\r\n*5\r\n:1\r\n:10\r\n:5\r\n:0\r\n:30000\r\n");
  EXPECT_EQ(world.say("SLUICE.MTAKE 2 ENTRIES 1 nothing=x " + key + "EACH\n"),
            "*3\r\n:0\r\n-NORULE no rule applies\r\n*5\r\n:1\r\n:10\r\n:4\r\n:0\r\n:36000\r\n");
}

TEST(SluiceCommands, ExplainNamesCountersAndLimits) {
  World world;
  const std::string reply = world.say("SLUICE.EXPLAIN path=/login ip=10.0.0.1\n");
  for (const char* part : {"$5\r\nlogin\r\n", "$12\r\nfixed_window\r\n", "10.0.0.1"})
    EXPECT_NE(reply.find(part), reply.npos) << reply;
  EXPECT_TRUE(reply.starts_with("*6\r\n")) << reply;
  world.say("HELLO 3\n");
  EXPECT_TRUE(world.say("SLUICE.EXPLAIN path=/login ip=10.0.0.1\n").starts_with("%3\r\n"));
  EXPECT_EQ(world.numbers("SLUICE.TAKE path=/login ip=10.0.0.1"), "1 3 2 0 60000")
      << "nothing taken";
}

// For a subject with KEY and LIMIT, a take also charges the rules of the policy that match it, and
// a peek shows them. A put or a reset changes only the key's own counter.
TEST(SluiceCommands, APolicysRulesForKeySubjectsKeepTheirCounters) {
  World world({},
              "- { match: { command: inline, key: 'r*' }, actor: key, limit: { quota: 2, window: "
              "1h, algorithm: fixed_window }, then: continue }\n");
  const std::string subject = "KEY r1 LIMIT 5 100s";
  EXPECT_EQ(world.numbers("SLUICE.TAKE " + subject + " N 2"), "1 2 0 0 3600000");
  EXPECT_EQ(world.numbers("SLUICE.PEEK " + subject), "0 2 0 3600000 3600000");
  EXPECT_EQ(world.numbers("SLUICE.PUT " + subject), "4 5");
  EXPECT_EQ(world.numbers("SLUICE.TAKE " + subject), "0 2 0 3600000 3600000");
  EXPECT_EQ(world.numbers("SLUICE.RESET " + subject), "1");
  EXPECT_EQ(world.numbers("SLUICE.RESET " + subject), "0");
  EXPECT_EQ(world.numbers("SLUICE.TAKE " + subject), "0 2 0 3600000 3600000");
  // The rule's counter is put to and reset under the entries that the rule matches.
  EXPECT_EQ(world.numbers("SLUICE.PUT command=inline key=r1"), "1 2");
  EXPECT_EQ(world.numbers("SLUICE.TAKE " + subject), "1 2 0 0 3600000");
  EXPECT_EQ(world.numbers("SLUICE.RESET command=inline key=r1"), "1");
  EXPECT_EQ(world.numbers("SLUICE.PEEK " + subject + " N 2"), "1 2 0 0 3600000");
}

TEST(SluiceCommands, EntriesMatchOnlyTheRulesOfThePolicy) {
  for (const Unmatched unmatched : {Unmatched::error, Unmatched::deny, Unmatched::allow}) {
    RespOptions options;
    options.unmatched = unmatched;
    World world(options);
    const std::string no_rule = "-NORULE no rule applies";
    const std::string taken = unmatched == Unmatched::error  ? no_rule
                              : unmatched == Unmatched::deny ? "0 0 0 -1 0"
                                                             : "1 0 0 0 0";
    EXPECT_EQ(world.numbers("CL.THROTTLE x 0 1 60"), "0 1 0 -1 60");
    EXPECT_EQ(world.numbers("SLUICE.TAKE KEY x LIMIT 1 1m"), "1 1 0 0 60000");
    for (const std::string subject :
         {"command=cl.throttle db=0 key=x", "command=throttle db=0 key=x",
          "command=gcra db=0 key=x", "command=inline key=x"}) {
      EXPECT_EQ(world.numbers("SLUICE.TAKE " + subject), taken) << subject;
      EXPECT_EQ(world.numbers("SLUICE.PEEK " + subject), taken);
      EXPECT_EQ(world.numbers("SLUICE.WAIT 1 " + subject),
                unmatched == Unmatched::error ? no_rule : taken + " 0");
      for (const char* command : {"SLUICE.PUT ", "SLUICE.RESET ", "SLUICE.EXPLAIN "})
        EXPECT_EQ(world.numbers(command + subject), no_rule) << command << subject;
    }
    EXPECT_EQ(world.numbers("SLUICE.MTAKE 1 ENTRIES 3 command=cl.throttle db=0 key=x"), no_rule);
    EXPECT_EQ(world.numbers("CL.THROTTLE x 0 1 60"), "1 1 0 60 60");
    EXPECT_EQ(world.numbers("SLUICE.PEEK KEY x LIMIT 1 1m"), "0 1 0 60000 60000");
  }
}

TEST(SluiceCommands, WithnameDoesNotChangeAnUnmatchedAnswer) {
  RespOptions options;
  options.unmatched = Unmatched::allow;
  World allows(options);
  for (const std::string command : {"SLUICE.TAKE", "SLUICE.PEEK"}) {
    EXPECT_EQ(allows.say(command + " x=1\n"), "*5\r\n:1\r\n:0\r\n:0\r\n:0\r\n:0\r\n");
    EXPECT_EQ(allows.say(command + " x=1 WITHNAME\n"),
              "*6\r\n:1\r\n:0\r\n:0\r\n:0\r\n:0\r\n$-1\r\n");
  }
  options.unmatched = Unmatched::deny;
  World denies(options);
  denies.say("HELLO 3\n");
  EXPECT_EQ(denies.say("SLUICE.TAKE x=1 WITHNAME\n"), "*6\r\n:0\r\n:0\r\n:0\r\n:-1\r\n:0\r\n_\r\n");
  EXPECT_EQ(World().say("SLUICE.TAKE x=1 WITHNAME\n"), "-NORULE no rule applies\r\n");
}

TEST(SluiceCommands, AKeyThatComesTwiceIsChargedBothUnderOneListOfLimits) {
  World world;
  const std::string three = "KEY s LIMIT 3 1h ";
  EXPECT_EQ(world.numbers("SLUICE.MTAKE 2 " + three + three + "N 2").substr(0, 1), "0") << "4 of 3";
  EXPECT_EQ(world.numbers("SLUICE.MTAKE 2 " + three + three).substr(0, 1), "1");
  for (const char* other :
       {"LIMIT 4 1h", "LIMIT 3 1h BURST 4", "LIMIT 3 1h OVER COUNT", "LIMIT 9 1s LIMIT 4 1h"})
    EXPECT_EQ(world.numbers("SLUICE.MTAKE 2 " + three + "KEY s " + other),
              "-ERR a key comes twice, with two different limits of one algorithm and window")
        << other;
  EXPECT_EQ(world.numbers("SLUICE.MTAKE 2 " + three + "KEY s LIMIT 4 1h EACH").substr(0, 1), "1");
}

// Requests and tokens of one tenant: each part is charged to the limits that it brings.
TEST(SluiceCommands, AKeyThatComesWithTwoListsIsOneCounterWithBoth) {
  World world;
  const std::string requests = "KEY t LIMIT 3 1h ALGORITHM fixed_window ";
  const std::string tokens = "KEY t LIMIT 100 1m ALGORITHM fixed_window LIMIT 500 1d ";
  const auto take = [&](const std::string& parts, const std::string& n) {
    return world.numbers("SLUICE.MTAKE 2 " + parts + "N " + n);
  };
  EXPECT_EQ(take(requests + tokens, "2"), "1 1 3 1 0 3600000 1 100 98 0 60000");
  EXPECT_EQ(take(tokens + requests, "2"), "0 1 100 98 0 60000 0 3 1 3600000 3600000")
      << "nothing is charged";
  EXPECT_EQ(world.numbers("SLUICE.MTAKE 3 " + tokens + requests + tokens + "N 1"),
            "1 1 100 96 0 60000 1 3 0 0 3600000 1 100 96 0 60000");
  EXPECT_EQ(world.numbers("EXISTS t"), "1");
  EXPECT_EQ(world.numbers("SLUICE.PEEK " + tokens + "N 0"), "1 100 96 0 60000");
  EXPECT_EQ(world.numbers("SLUICE.TAKE " + requests), "0 3 0 3600000 3600000");
  EXPECT_EQ(world.numbers("SLUICE.TAKE " + tokens + "N 96"), "1 100 0 0 60000");
  EXPECT_EQ(world.numbers("DEL t"), "1");
  EXPECT_EQ(take(requests + tokens, "1"), "1 1 3 2 0 3600000 1 100 99 0 60000");
}

// Whatever limits come along.
TEST(SluiceCommands, AResetEmptiesAllThatAKeyHas) {
  World world;
  const std::string other = "KEY q LIMIT 20 1h ALGORITHM fixed_window";
  EXPECT_EQ(world.numbers("SLUICE.TAKE KEY q LIMIT 10 60 N 4"), "1 10 6 0 24000");
  EXPECT_EQ(world.numbers("SLUICE.RESET " + other), "1");
  EXPECT_EQ(world.numbers("SLUICE.RESET " + other), "0");
  EXPECT_EQ(world.numbers("SLUICE.PEEK KEY q LIMIT 10 60 N 0"), "1 10 10 0 0");
}

TEST(SluiceCommands, TwoListsWhereOneCounts) {
  World world;
  const std::string strict = "KEY t LIMIT 3 1h ALGORITHM fixed_window ";
  const std::string counts = "KEY t LIMIT 3 1m ALGORITHM fixed_window OVER COUNT ";
  const std::string both = "SLUICE.MTAKE 2 " + strict + counts;
  EXPECT_EQ(world.numbers(both + "N 2"), "1 1 3 1 0 3600000 1 3 1 0 60000");
  EXPECT_EQ(world.numbers(both + "N 2").substr(0, 1), "0");
  EXPECT_EQ(world.numbers("SLUICE.PEEK " + strict + "N 0"), "1 3 1 0 3600000");
  EXPECT_EQ(world.numbers("SLUICE.CHARGE " + counts + "N 0"), "0 3 0 60000 60000 1 0")
      << "the one that counts has been charged the refused 2";
}

TEST(SluiceCommands, ListsOfOneKeyHaveABoundTogether) {
  World world;
  std::string nine = "SLUICE.MTAKE 9";
  for (int i = 1; i <= 9; ++i) nine += " KEY t LIMIT 5 " + std::to_string(i) + "s";
  EXPECT_EQ(world.numbers(nine).substr(0, 30), "-ERR a key comes several times");
  const std::string logs =
      "SLUICE.MTAKE 3 KEY t LIMIT 99 1s ALGORITHM sliding_log "
      "KEY t LIMIT 99 2s ALGORITHM sliding_log "
      "KEY t LIMIT 99 3s ALGORITHM sliding_log";
  EXPECT_EQ(world.numbers(logs).substr(0, 30), "-ERR a key comes several times");
  EXPECT_EQ(world.numbers("EXISTS t"), "0");
}

// The window begins with the first request, and no later one lengthens it.
TEST(Increx, WithEnxIsAFixedWindow) {
  World world;
  EXPECT_EQ(world.numbers("INCREX k UBOUND 5 EX 60 ENX"), "1 1");
  EXPECT_EQ(world.numbers("increx k enx px 60000 ubound 5 byint 3"), "4 3");
  now_us += 59 * second;
  EXPECT_EQ(world.numbers("INCREX k BYINT 2 UBOUND 5 EX 60 ENX"), "4 0");
  EXPECT_EQ(world.numbers("INCREX k BYINT 0 UBOUND 5 EX 60 ENX"), "4 0");
  EXPECT_EQ(world.numbers("INCREX k BYINT 1 UBOUND 5 EX 60 ENX"), "5 1");
  EXPECT_EQ(world.numbers("INCREX k UBOUND 5 EX 60 ENX"), "5 0");
  EXPECT_EQ(world.numbers("INCREX other UBOUND 5 EX 60 ENX"), "1 1");
  // It is the counter of the same limit in sluice's own words.
  EXPECT_EQ(world.numbers("SLUICE.PEEK KEY k LIMIT 5 60s ALGORITHM fixed_window"),
            "0 5 0 1000 1000");
  now_us += second;
  EXPECT_EQ(world.numbers("INCREX k UBOUND 5 EX 60 ENX"), "1 1");
  EXPECT_EQ(world.say("INCREX k UBOUND 5 EX 60 ENX\n"), "*2\r\n:2\r\n:1\r\n");
}

TEST(Increx, RefusesWhatIsNoWindowByName) {
  World world;
  for (const std::string option :
       {"BYFLOAT 1", "LBOUND 0", "SATURATE", "EXAT 1", "PXAT 1", "PERSIST", "NX", "XX"}) {
    const std::string name = option.substr(0, option.find(' '));
    EXPECT_EQ(world.numbers("INCREX k UBOUND 5 EX 60 ENX " + option),
              "-ERR INCREX with " + name +
                  " is not supported: it is answered as a fixed window, with UBOUND, EX or PX, ENX "
                  "and BYINT");
  }
  for (const char* words :
       {"INCREX k", "INCREX k EX 60 ENX", "INCREX k UBOUND 5 ENX", "INCREX k UBOUND 5 EX 60"})
    EXPECT_EQ(world.numbers(words),
              "-ERR INCREX needs UBOUND, ENX, and EX or PX here: it is answered as a fixed window");
  for (const char* words : {"INCREX k UBOUND 5 EX 60 ENX MORE", "INCREX k UBOUND 5 ENX EX",
                            "INCREX k EX 1 PX 1 ENX", "INCREX k UBOUND 5 UBOUND 5 EX 1 ENX"})
    EXPECT_EQ(world.numbers(words), "-ERR syntax error");
  for (const char* time : {"0", "-1", "9223372036854775807"})
    EXPECT_EQ(world.numbers("INCREX k UBOUND 5 ENX EX " + std::string(time)),
              "-ERR invalid expire time in 'increx' command");
  EXPECT_EQ(world.numbers("INCREX k UBOUND x EX 60 ENX"),
            "-ERR value is not an integer or out of range");
  EXPECT_EQ(world.numbers("INCREX k UBOUND 0 EX 60 ENX"),
            "-ERR UBOUND must be 1 to 9007199254740991");
  EXPECT_EQ(world.numbers("INCREX k BYINT -1 UBOUND 5 EX 60 ENX"),
            "-ERR BYINT must not be negative: SLUICE.PUT gives units back");
  EXPECT_EQ(world.numbers("INCREX"), "-ERR wrong number of arguments for 'increx' command");
  RespOptions options;
  options.inline_limits = false;
  World without(options);
  EXPECT_TRUE(without.numbers("INCREX k UBOUND 5 EX 60 ENX").starts_with("-ERR unknown command"));
}

}  // namespace
}  // namespace sluice::resp::commands_test
