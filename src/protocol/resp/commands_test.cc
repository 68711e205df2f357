// The commands that charge counters, through the engine and the table in memory, at a time that the
// test sets.
#include <gtest/gtest.h>
#include <spdlog/sinks/null_sink.h>

#include <map>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/hash.h"
#include "engine/engine.h"
#include "limit/gcra_model.h"
#include "policy/inline_limits.h"
#include "policy/read/native.h"
#include "protocol/resp/dialect.h"
#include "protocol/resp/session.h"
#include "request/peer.h"
#include "request/space.h"
#include "store/embedded_store.h"

namespace sluice::resp {
namespace {

using limit::Algorithm;

constexpr int64_t second = 1'000'000;

int64_t now_us;  // of all worlds, one at a time

// Tells nothing of a server but the lists of algorithms that were met.
struct View final : request::ServerView {
  explicit View(const policy::InlineLists& its_lists) : lists(its_lists) {}
  std::string_view version() const override { return "1.2.3"; }
  request::ServerFigures figures() const override { return {}; }
  std::span<const std::vector<limit::Limit>> inline_lists() const override { return lists.all(); }
  void interrupt() const override {}

  const policy::InlineLists& lists;
};

struct World {
  // `more_rules`: items of a policy's list of rules, behind those below.
  explicit World(const RespOptions& its_options = {}, const std::string& more_rules = "")
      : options(its_options), session({.server = &view, .options = &options}) {
    now_us = 1'795'000'000 * second;
    static const protocol::Protocol number = protocol::find("resp").value();
    protocol = number;
    auto rules = std::make_shared<policy::RuleSet>(protocol::dialects());
    base::Diagnostics diagnostics;
    policy::read_native(
        "rules:\n"
        "- { name: login, match: { path: /login }, actor: ip, limit: { quota: 3, window: 1m, "
        "algorithm: fixed_window } }\n"
        "- { name: vip, match: { command: cl.throttle, key: 'vip*' }, actor: key, limit: { quota: "
        "2, window: 10s, algorithm: fixed_window } }\n"
        "- { match: { command: '*', key: 'no*' }, deny: true }\n"
        "- { match: { command: cl.throttle, key: 'jar*' }, actor: key, limit: { quota: 1, "
        "algorithm: fixed_bucket } }\n"
        "- { match: { user: '*' }, actor: user, limit: { quota: 7, window: 1h } }\n" +
            more_rules,
        "test.yaml", spaces, *rules, diagnostics);
    EXPECT_FALSE(base::has_errors(diagnostics));
    add_throttle_rules(spaces, *rules, options);
    live = std::make_unique<live::Live>(live::LivePolicy{std::move(rules)});
    engine = std::make_unique<engine::Engine>(
        engine::Engine::Deps{.store = store,
                             .clock = clock,
                             .live = *live,
                             .spaces = &spaces,
                             .inline_lists = &inline_lists},
        std::make_shared<spdlog::logger>("test", std::make_shared<spdlog::sinks::null_sink_mt>()));
  }

  // What the session replies to inline commands.
  std::string say(RespSession& session, std::string text) {
    base::Buffer replies;
    while (!text.empty()) {
      engine::Batch& batch = engine->next_batch();
      base::Buffer out;
      const auto received = session.receive(text, false, batch.requests, out);
      const size_t asked = batch.requests.size();
      if (received.consumed == 0 && asked == 0) break;
      // A command may be of several requests, of which the last reaches the bound.
      EXPECT_LT(asked, base::bounds::batch_requests_max + 64);
      if (asked > 0) {
        EXPECT_EQ(engine->serve(batch, protocol, session, out), engine::Served::all);
      }
      replies.append(out.view());
      text.erase(0, received.consumed);
    }
    return std::string(replies.view());
  }
  std::string say(const std::string& text) { return say(session, text); }
  // A reply of integers as words.
  std::string numbers(const std::string& command) {
    const std::string reply = say(command + "\n");
    std::string words;
    for (size_t at = reply.find(':'); at != reply.npos; at = reply.find(':', at + 1))
      words += (words.empty() ? "" : " ") + reply.substr(at + 1, reply.find('\r', at) - at - 1);
    return reply.starts_with('-') ? reply.substr(0, reply.find('\r')) : words;
  }

  const RespOptions options;
  policy::InlineLists inline_lists;
  const View view{inline_lists};
  protocol::Protocol protocol{};
  request::Spaces spaces;
  base::Clock clock{{[] { return now_us; }, [] { return now_us; }}};
  store::EmbeddedStore store{0, base::Hash(1), spaces};
  std::unique_ptr<live::Live> live;
  std::unique_ptr<engine::Engine> engine;
  RespSession session;
};

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

TEST(Throttle, ResetIsTheTimeUntilTheBucketIsFullWhereThatIsWanted) {
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
  // A bucket of one, which is empty for an emission.
  EXPECT_EQ(world.numbers("THROTTLE one 1 1 60 0"), "1 1 1 0 0");
  EXPECT_EQ(world.numbers("THROTTLE one 1 1 60"), "1 1 0 60 0");
  EXPECT_EQ(world.numbers("THROTTLE one 1 1 60"), "0 1 0 60 60");
  now_us += 59 * second + 1;
  EXPECT_EQ(world.numbers("THROTTLE one 1 1 60 0"), "1 1 0 1 0");
  // The others are as ever.
  EXPECT_EQ(world.numbers("CL.THROTTLE k 4 1 60"), "0 5 4 -1 60");
  EXPECT_EQ(World().numbers("THROTTLE k 5 1 60"), "1 5 4 240 0");
}

// Of other databases the name is a part, which redis-cell knows nothing of.
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

// Every reply of a random sequence, against the naive model.
TEST(Throttle, AnswersAsTheModelDoes) {
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

// The numbers of commands are not interned.
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

TEST(Throttle, WorksWithinATransaction) {
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

// Each in memory of its own while its requests are decided.
TEST(Throttle, TransactionsInOneWriteChargeTheirOwnKeys) {
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

// A batch of it at a time, as of commands outside of it.
TEST(Throttle, ALongTransactionIsExecutedInParts) {
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
  // Nothing is left of it.
  EXPECT_EQ(world.say("EXEC\nMULTI\nPING\nEXEC\n"),
            "-ERR EXEC without MULTI\r\n+OK\r\n+QUEUED\r\n*1\r\n+PONG\r\n");
}

// What changes how replies are written, or what one tells, holds from its own place on.
TEST(Throttle, WithinATransactionEachReplyIsOfItsTime) {
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

TEST(Throttle, SilenceWithinATransactionIsRefused) {
  World world;
  for (const char* how : {"SKIP", "OFF"})
    EXPECT_EQ(world.say("MULTI\nCLIENT REPLY " + std::string(how) + "\nPING\nEXEC\nPING\n"),
              "+OK\r\n-ERR CLIENT REPLY is not allowed in transactions\r\n+QUEUED\r\n"
              "-EXECABORT Transaction discarded because of previous errors.\r\n+PONG\r\n");
}

// A rule or an override of another algorithm refuses, and never comes; it is no error.
TEST(Throttle, WhatNeverComesIsMinusOne) {
  World world;
  EXPECT_EQ(world.numbers("CL.THROTTLE no1 3 1 60"), "1 0 0 -1 -1");
  EXPECT_EQ(world.numbers("CL.THROTTLE jar1 3 1 60"), "0 1 0 -1 -1");
  EXPECT_EQ(world.numbers("CL.THROTTLE jar1 3 1 60"), "1 1 0 -1 -1");
  EXPECT_EQ(world.numbers("THROTTLE no1 3 1 60"), "0 0 0 -1 -1");
  EXPECT_EQ(world.numbers("GCRA no1 3 1 60"), "1 0 0 -1 -1");
}

TEST(Throttle, ATransactionIsBounded) {
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
  EXPECT_GT(world.session.unfinished_bytes(), 17u * 60'000);
  EXPECT_TRUE(world.say("ECHO " + word + "\n").starts_with("-ERR too many commands"));
  world.say("DISCARD\n");
  EXPECT_EQ(world.session.unfinished_bytes(), 0u);
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

TEST(SluiceCommands, InlineLimitsAreOneCounterForKeyAndAlgorithms) {
  World world;
  EXPECT_EQ(world.numbers("SLUICE.TAKE KEY k LIMIT 10 60 N 4"), "1 10 6 0 24000");
  EXPECT_EQ(world.numbers("SLUICE.TAKE KEY k LIMIT 5 60"), "1 5 0 0 60000") << "4 of 10 were used";
  EXPECT_EQ(world.numbers("SLUICE.TAKE KEY k LIMIT 10 60 ALGORITHM fixed_window"),
            "1 10 9 0 60000");
  EXPECT_EQ(world.numbers("SLUICE.TAKE KEY j LIMIT 10 1s LIMIT 15 1h N 10"), "1 10 0 0 1000");
  now_us += second;
  EXPECT_EQ(world.numbers("SLUICE.TAKE KEY j LIMIT 10 1s LIMIT 15 1h N 10"),
            "0 15 5 1199000 2399000");
  EXPECT_EQ(world.numbers("SLUICE.RESET KEY j LIMIT 10 1s LIMIT 15 1h"), "1");
  EXPECT_EQ(world.numbers("SLUICE.PEEK KEY j LIMIT 10 1s LIMIT 15 1h N 10"), "1 10 0 0 1000");
}

// Lists that came with requests are given back.
TEST(SluiceCommands, InlineLimitsAreBounded) {
  World world;
  for (int i = 1; i <= 3 * static_cast<int>(base::bounds::inline_limits_kept_max); ++i)
    world.say("SLUICE.TAKE KEY k LIMIT " + std::to_string(i) + " 60\n");
  EXPECT_GT(world.spaces.known_lists(), 10'000u);
  // A round of the collector over a store whose counters name the last one alone.
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

// A rule of the policy takes part where units are taken, and is looked at with what would be; what
// is given back to a key, or reset, is the key's own.
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
  // The rule's counter has a subject of its own.
  EXPECT_EQ(world.numbers("SLUICE.PUT command=inline key=r1"), "1 2");
  EXPECT_EQ(world.numbers("SLUICE.TAKE " + subject), "1 2 0 0 3600000");
  EXPECT_EQ(world.numbers("SLUICE.RESET command=inline key=r1"), "1");
  EXPECT_EQ(world.numbers("SLUICE.PEEK " + subject + " N 2"), "1 2 0 0 3600000");
}

TEST(SluiceCommands, SubjectsOfEntriesMeetTheRulesOfThePolicyAlone) {
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

TEST(SluiceCommands, WhatNoRuleAppliesToIsToldWithANameAsWithoutOne) {
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
  EXPECT_EQ(world.numbers("SLUICE.MTAKE 2 " + three + "KEY s LIMIT 4 1h"),
            "-ERR a key comes twice, with different limits along for the same counter");
  EXPECT_EQ(world.numbers("SLUICE.MTAKE 2 " + three + "KEY s LIMIT 4 1h EACH").substr(0, 1), "1");
}

TEST(Keys, AreTheCountersOfTheCommandsThatThrottle) {
  World world;
  EXPECT_EQ(world.say("TTL k\nPTTL k\nEXISTS k\nTYPE k\nDEL k\n"),
            ":-2\r\n:-2\r\n:0\r\n+none\r\n:0\r\n");
  world.say("CL.THROTTLE k 4 1 60\n");
  now_us += 500'000;
  EXPECT_EQ(world.say("TTL k\nPTTL k\nEXISTS k nothing k\nTYPE k\n"),
            ":60\r\n:59500\r\n:2\r\n+string\r\n");
  world.say("THROTTLE k 4 1 600\n");
  EXPECT_EQ(world.say("TTL k\nEXISTS k\n"), ":600\r\n:2\r\n");
  EXPECT_EQ(world.say("SELECT 1\nEXISTS k\nSELECT 0\nDEL k nothing\nEXISTS k\nTTL k\n"),
            "+OK\r\n:0\r\n+OK\r\n:2\r\n:0\r\n:-2\r\n");
  EXPECT_EQ(world.numbers("CL.THROTTLE k 4 1 60"), "0 5 4 -1 60");
}

// A policy's rule that all keys share, or that decides in place of a key's counter, is no key's.
TEST(Keys, AreNotTheCountersOfAPolicysRules) {
  World world({},
              "- { match: { command: throttle }, limit: { quota: 3, window: 1h, algorithm: "
              "fixed_window }, then: continue }\n");
  for (const char* key : {"a", "b", "c"})
    EXPECT_EQ(world.numbers("THROTTLE " + std::string(key) + " 9 1 60").substr(0, 1), "1");
  EXPECT_EQ(world.say("EXISTS never\nTTL never\nTYPE never\nDEL never\n"),
            ":0\r\n:-2\r\n+none\r\n:0\r\n");
  EXPECT_EQ(world.numbers("THROTTLE d 9 1 60"), "0 3 0 3600 3600") << "the rule's counter is full";
  EXPECT_EQ(world.say("EXISTS a\nDEL a\nEXISTS a\n"), ":1\r\n:1\r\n:0\r\n");
  EXPECT_EQ(world.numbers("THROTTLE d 9 1 60").substr(0, 1), "0");
  // Of these a rule of the policy decides.
  EXPECT_EQ(world.numbers("CL.THROTTLE vip1 99 1 60 2"), "0 2 0 -1 10");
  EXPECT_EQ(world.say("EXISTS vip1\nDEL vip1\n"), ":0\r\n:0\r\n");
  EXPECT_EQ(world.numbers("CL.THROTTLE vip1 99 1 60"), "1 2 0 10 10");
}

TEST(Keys, ABucketThatFillsByPutsAloneIsThereWhileItLacksUnits) {
  World world;
  const std::string bucket = "KEY x LIMIT 5 0 ALGORITHM fixed_bucket";
  const std::string all = "EXISTS x\nTTL x\nPTTL x\nTYPE x\n";
  world.say("SLUICE.TAKE KEY other LIMIT 5 0 ALGORITHM fixed_bucket\n");
  EXPECT_EQ(world.numbers("SLUICE.PEEK " + bucket), "1 5 4 0 -1");
  EXPECT_EQ(world.say(all + "DEL x\n"), ":0\r\n:-2\r\n:-2\r\n+none\r\n:0\r\n");
  EXPECT_EQ(world.numbers("SLUICE.RESET " + bucket), "0");
  EXPECT_EQ(world.numbers("SLUICE.TAKE " + bucket), "1 5 4 0 -1");
  EXPECT_EQ(world.say(all), ":1\r\n:-1\r\n:-1\r\n+string\r\n");
  EXPECT_EQ(world.numbers("SLUICE.PUT " + bucket), "5 5");
  EXPECT_EQ(world.say(all), ":0\r\n:-2\r\n:-2\r\n+none\r\n");
  world.numbers("SLUICE.TAKE " + bucket);
  EXPECT_EQ(world.numbers("SLUICE.RESET " + bucket), "1");
  EXPECT_EQ(world.numbers("SLUICE.RESET " + bucket), "0");
  world.numbers("SLUICE.TAKE " + bucket);
  world.numbers("SLUICE.TAKE KEY x LIMIT 5 1m");
  EXPECT_EQ(world.say("EXISTS x\nTTL x\nDEL x\nEXISTS x\n"), ":2\r\n:-1\r\n:2\r\n:0\r\n");
}

// SLUICE commands for that key with each of so many lists of algorithms.
std::string lists_of(const std::string& command, const std::string& key, size_t count) {
  static constexpr const char* algorithms[] = {"aligned_window", "fixed_window", "sliding_log",
                                               "token_bucket"};
  std::string all;
  for (size_t i = 0; i < count; ++i) {
    all += command + " KEY " + key;
    for (size_t at = 0, rest = i; at < 3; ++at, rest /= 4)
      all += std::string(" LIMIT 5 1h ALGORITHM ") + algorithms[rest % 4];
    all += '\n';
  }
  return all;
}

TEST(Keys, AreFoundWhateverOtherListsWereLookedAtBy) {
  World world;
  world.say("SLUICE.TAKE KEY u LIMIT 5 1h\n");
  for (const char* look : {"SLUICE.PEEK", "SLUICE.EXPLAIN", "SLUICE.PUT", "SLUICE.RESET"})
    world.say(lists_of(look, "other", 40));
  EXPECT_EQ(world.inline_lists.all().size(), 1u);
  EXPECT_EQ(world.say("EXISTS u\nTTL u\nDEL u\nEXISTS u\n"), ":1\r\n:720\r\n:1\r\n:0\r\n");
  EXPECT_EQ(world.numbers("SLUICE.TAKE KEY u LIMIT 5 1h"), "1 5 4 0 720000");
}

TEST(Keys, AreFoundByTheFirstListsThatWereCharged) {
  World world;
  constexpr size_t most = base::bounds::inline_lists_max;
  world.say(lists_of("SLUICE.TAKE", "u", most + 5));
  EXPECT_EQ(world.inline_lists.all().size(), most);
  EXPECT_EQ(world.numbers("EXISTS u"), std::to_string(most));
  EXPECT_EQ(world.numbers("DEL u"), std::to_string(most));
  EXPECT_EQ(world.numbers("EXISTS u"), "0");
  // The others are still reached by what they are.
  size_t left = 0;
  const std::string resets = world.say(lists_of("SLUICE.RESET", "u", most + 5));
  for (size_t at = resets.find(":1"); at != resets.npos; at = resets.find(":1", at + 1)) ++left;
  EXPECT_EQ(left, 5u);
}

TEST(Keys, AreBoundedInACommand) {
  World world;
  const auto command = [](const std::string& name, size_t keys) {
    std::string text = name;
    for (size_t i = 0; i < keys; ++i) text += " k" + std::to_string(i);
    return text + "\n";
  };
  world.say("CL.THROTTLE k127 0 1 60\n");
  EXPECT_EQ(world.say(command("EXISTS", 128)), ":1\r\n");
  for (const char* name : {"EXISTS", "DEL", "UNLINK"})
    EXPECT_EQ(world.say(command(name, 129)), "-ERR a command takes at most 128 keys\r\n");
  EXPECT_EQ(world.say(command("DEL", 128)), ":1\r\n");
  EXPECT_EQ(world.say("EXISTS k127\n"), ":0\r\n");
}

}  // namespace
}  // namespace sluice::resp
