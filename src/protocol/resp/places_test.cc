// SLUICE.ACQUIRE: places by id, given back by a release, their end, or the end of their connection;
// while others wait, in transactions, and at random against a list of who holds what. Sessions,
// engine, holds and table in memory, without sockets.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "protocol/resp/commands_world_test.h"
#include "tests/support/dice.h"

namespace sluice::resp::places_test {
namespace {

using namespace commands_test;

// Stands in for the connection of a client, which sends inline commands and goes away.
class Client final : public engine::ReplySink {
 public:
  explicit Client(World& world) : world_(world), session_(world.peer()) {}
  ~Client() override { world_.engine->forget(*this); }

  // The replies; nothing of a command that waits.
  std::string say(std::string text) {
    text += "\n";
    while (!text.empty()) {
      engine::Batch& batch = world_.engine->next_batch();
      base::Buffer out;
      const auto received = session_.receive(text, false, batch.requests, out);
      const bool asks = batch.requests.size() > 0;
      if (asks) {
        EXPECT_EQ(world_.engine->serve(batch, world_.protocol, session_, out, this),
                  engine::Served::all);
      }
      out_ += out.view();
      text.erase(0, received.consumed);
      if (!asks) break;
      if (session_.state().holds_back) break;
    }
    world_.engine->advance();
    return heard();
  }
  // The integers of the reply, separated by blanks; or the line of its error.
  std::string numbers(const std::string& command) { return numbers_in(say(command)); }
  // Replies that came late.
  std::string heard() { return std::exchange(out_, {}); }

  static std::string numbers_in(const std::string& reply) {
    std::string words;
    for (size_t at = reply.find("\r\n:"); at != reply.npos; at = reply.find("\r\n:", at + 3))
      words += (words.empty() ? "" : " ") + reply.substr(at + 3, reply.find('\r', at + 3) - at - 3);
    if (reply.starts_with('-')) return reply.substr(0, reply.find('\r'));
    return reply.starts_with(':') ? reply.substr(1, reply.find('\r') - 1) : words;
  }

  void resume(engine::Batch&) override { ADD_FAILURE() << "the table in memory answers at once"; }
  void reply_late(const request::Request& request, const request::Verdict& verdict,
                  base::Time now) override {
    base::Buffer out;
    session_.reply(request, verdict, now, out);
    late_ += out.view();
  }
  void flush_late(bool) override { out_ += std::exchange(late_, {}); }
  bool has_unsent() const override { return !late_.empty(); }

 private:
  World& world_;
  RespSession session_;
  std::string out_, late_;
};

struct Places : World {
  explicit Places(int64_t quota)
      : World({}, "- { match: { pool: '*' }, actor: pool, name: pool, limit: { quota: " +
                      std::to_string(quota) +
                      ", algorithm: concurrency, lease: 30s, max_lease: 5m } }\n") {}
  void pass(int64_t us) {
    now_us += us;
    engine->advance();
  }
  size_t out() { return holds.figures().places; }
};

std::string id_of(int64_t number) {
  return "place-holder-" + std::to_string(1000 + number);
}
std::string acquire(int64_t number, const std::string& more = {}, const std::string& ttl = "0") {
  return "SLUICE.ACQUIRE " + ttl + " pool=a ID " + id_of(number) + " " + more;
}

TEST(RespPlace, IsHeldForItsLeaseAndReleased) {
  Places world(2);
  Client client(world);
  EXPECT_EQ(client.say(acquire(1, "HOLDER w-1")),
            "*5\r\n:1\r\n$17\r\n" + id_of(1) + "\r\n:2\r\n:1\r\n:30000\r\n");
  EXPECT_EQ(client.numbers(acquire(1)), "1 2 1 30000") << "sent again";
  EXPECT_EQ(client.numbers(acquire(2, "", "3600")), "1 2 0 300000") << "the longest lease";
  EXPECT_EQ(client.numbers(acquire(3)), "0 2 0 30000");
  EXPECT_EQ(world.out(), 2u);
  EXPECT_EQ(client.numbers("SLUICE.RELEASE " + id_of(1)), "1");
  EXPECT_EQ(client.numbers("SLUICE.RELEASE " + id_of(1)), "0");
  EXPECT_EQ(client.numbers(acquire(3)), "1 2 0 30000");
  EXPECT_EQ(client.numbers(acquire(4, "N 3")), "0 2 0 -1") << "more than there are";
}

TEST(RespPlace, EndsAtItsMicrosecondAndIsNeverRevived) {
  Places world(1);
  Client client(world);
  EXPECT_EQ(client.numbers(acquire(1, "", "1.5")), "1 1 0 1500");
  world.pass(1'499'999);
  EXPECT_EQ(client.numbers(acquire(2)), "0 1 0 1");
  world.pass(1);
  EXPECT_TRUE(client.numbers("SLUICE.RENEW " + id_of(1)).starts_with("-ENDED "))
      << "nobody took it";
  EXPECT_TRUE(client.numbers("SLUICE.COMMIT " + id_of(1) + " N 1").starts_with("-ENDED "));
  EXPECT_EQ(client.numbers("SLUICE.RELEASE " + id_of(1)), "0");
  EXPECT_EQ(client.numbers(acquire(2)), "1 1 0 30000");
}

TEST(RespPlace, WithCloseEndsWithItsConnection) {
  Places world(3);
  Client stays(world);
  EXPECT_EQ(stays.numbers(acquire(9, "CLOSE")), "1 3 2 30000");
  {
    Client gone(world);
    EXPECT_EQ(gone.numbers(acquire(1, "CLOSE")), "1 3 1 30000");
    EXPECT_EQ(gone.numbers(acquire(2)), "1 3 0 30000");
  }
  EXPECT_EQ(world.out(), 2u);
  EXPECT_TRUE(stays.numbers("SLUICE.RENEW " + id_of(1)).starts_with("-ENDED "));
  EXPECT_EQ(stays.numbers("SLUICE.RENEW " + id_of(2)), "30000");
  EXPECT_EQ(stays.numbers("SLUICE.RENEW " + id_of(9)), "30000");
  // A reset of the connection's state is not its end.
  EXPECT_EQ(stays.say("RESET"), "+RESET\r\n");
  EXPECT_EQ(stays.numbers("SLUICE.RENEW " + id_of(9)), "30000");
}

TEST(RespPlace, GoesToWhoWaitsInOrderOfArrival) {
  Places world(1);
  Client holder(world), next(world), last(world);
  auto gone = std::make_unique<Client>(world);
  EXPECT_EQ(holder.numbers(acquire(1)), "1 1 0 30000");
  EXPECT_EQ(gone->say(acquire(2, "WAIT 60 CLOSE")), "");
  EXPECT_EQ(next.say(acquire(3, "WAIT 60", "5")), "");
  EXPECT_EQ(last.say(acquire(4, "WAIT 60")), "");
  gone.reset();
  EXPECT_EQ(holder.numbers("SLUICE.RELEASE " + id_of(1)), "1");
  world.engine->advance();
  EXPECT_EQ(Client::numbers_in(next.heard()), "1 1 0 5000") << "not the one that is gone";
  world.pass(5 * second - 1);
  EXPECT_EQ(last.heard(), "");
  world.pass(1);
  EXPECT_EQ(Client::numbers_in(last.heard()), "1 1 0 30000");
  EXPECT_EQ(holder.say(acquire(5, "WAIT 2")), "");
  world.pass(2 * second);
  EXPECT_EQ(holder.heard(), "*-1\r\n") << "its wait is over";
  EXPECT_EQ(world.out(), 1u);
}

// The places of a granted wait end with its connection too.
TEST(RespPlace, ThatWasWaitedForEndsWithItsConnection) {
  Places world(1);
  Client holder(world);
  EXPECT_EQ(holder.numbers(acquire(1)), "1 1 0 30000");
  {
    Client waits(world);
    EXPECT_EQ(waits.say(acquire(2, "WAIT 60 CLOSE")), "");
    EXPECT_EQ(holder.numbers("SLUICE.RELEASE " + id_of(1)), "1");
    world.engine->advance();
    EXPECT_EQ(Client::numbers_in(waits.heard()), "1 1 0 30000");
  }
  EXPECT_EQ(world.out(), 0u);
  EXPECT_EQ(holder.numbers(acquire(3)), "1 1 0 30000");
}

TEST(RespPlace, InATransactionDoesNotWait) {
  Places world(1);
  {
    Client client(world);
    client.say("MULTI\n" + acquire(1, "CLOSE") + "\n" + acquire(2, "WAIT 60"));
    const std::string replies = client.say("EXEC");
    EXPECT_TRUE(replies.starts_with("*2\r\n*5\r\n:1\r\n")) << replies;
    EXPECT_TRUE(replies.ends_with("*5\r\n:0\r\n$-1\r\n:1\r\n:0\r\n:30000\r\n")) << replies;
    EXPECT_EQ(world.out(), 1u);
  }
  EXPECT_EQ(world.out(), 0u);
}

TEST(RespPlace, OfALimitThatCameWithTheCommand) {
  Places world(1);
  Client client(world);
  const std::string its = "KEY k LIMIT 2 10 ALGORITHM concurrency MAXLEASE 1m LIMIT 3 1h";
  EXPECT_EQ(client.numbers("SLUICE.ACQUIRE 0 " + its), "1 2 1 10000");
  EXPECT_EQ(client.numbers("SLUICE.ACQUIRE 600 " + its), "1 2 0 60000");
}

TEST(RespPlace, NeedsALimitThatHasThem) {
  Places world(1);
  Client client(world);
  EXPECT_TRUE(client.numbers("SLUICE.ACQUIRE 0 user=u").starts_with("-NOPLACES no limit"));
  EXPECT_EQ(client.numbers("SLUICE.ACQUIRE 0 x=y"), "-NORULE no rule applies");
  EXPECT_TRUE(client.numbers("SLUICE.PEEK user=u N 0").starts_with("1 7 7 0"));
}

// Clients of one pool that acquire, renew, release, go away and let leases end: each reply is what
// a list of who holds what says, and never more than the quota are out.
TEST(RespPlace, RandomCommandsAreAsANaiveListSays) {
  tests::Dice dice(31);
  for (int round = 0; round < 30; ++round) {
    const int64_t quota = 1 + dice(int64_t{4});
    Places world(quota);
    struct Held {
      int64_t number, n, end_us;
      size_t client;
      bool closes;
    };
    std::vector<std::unique_ptr<Client>> clients;
    for (int i = 0; i < 4; ++i) clients.push_back(std::make_unique<Client>(world));
    std::vector<Held> held;
    int64_t numbers = 0;
    for (int step = 0; step < 120; ++step) {
      const size_t who = dice(clients.size());
      Client& client = *clients[who];
      const auto used = [&] {
        std::erase_if(held, [](const Held& one) { return one.end_us <= now_us; });
        int64_t n = 0;
        for (const Held& one : held) n += one.n;
        return n;
      };
      const int64_t before = used();
      ASSERT_LE(before, quota);
      const int64_t named = dice(numbers + 1);
      const auto at = std::find_if(held.begin(), held.end(),
                                   [&](const Held& one) { return one.number == named; });
      switch (dice(5)) {
        case 0:
        case 1: {
          const int64_t n = 1 + dice(int64_t{2}), ttl = 1 + dice(int64_t{60});
          const bool closes = dice(2) == 0;
          const std::string reply = client.numbers(acquire(
              ++numbers, "N " + std::to_string(n) + (closes ? " CLOSE" : ""), std::to_string(ttl)));
          const bool fits = before + n <= quota;
          ASSERT_EQ(reply.substr(0, 1), fits ? "1" : "0") << round << " " << step << ": " << reply;
          if (fits) held.push_back({numbers, n, now_us + ttl * second, who, closes});
          break;
        }
        case 2: {
          const std::string reply = client.numbers("SLUICE.RELEASE " + id_of(named));
          if (at == held.end()) {
            ASSERT_TRUE(reply == "0" || reply.starts_with("-NOID ")) << reply;
            break;
          }
          ASSERT_EQ(reply, std::to_string(at->n));
          held.erase(at);
          break;
        }
        case 3: {
          const std::string reply = client.numbers("SLUICE.RENEW " + id_of(named) + " 20");
          ASSERT_EQ(reply == "20000", at != held.end()) << reply;
          if (at != held.end()) at->end_us = now_us + 20 * second;
          break;
        }
        default:
          world.pass(dice(20 * second));
          if (dice(3) != 0) break;
          clients[who] = std::make_unique<Client>(world);
          std::erase_if(held, [&](const Held& one) { return one.client == who && one.closes; });
      }
      const std::string five = clients[who]->numbers("SLUICE.PEEK pool=a N 0");
      ASSERT_TRUE(five.starts_with("1 " + std::to_string(quota) + " " +
                                   std::to_string(quota - used()) + " "))
          << round << " " << step << ": " << five;
    }
  }
}

}  // namespace
}  // namespace sluice::resp::places_test
