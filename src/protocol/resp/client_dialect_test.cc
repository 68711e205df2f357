// How the client library speaks RESP: what it sends, what it makes of replies, how it logs in, and
// when it connects again. The test plays the server and sets the time.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <string>
#include <vector>

#include "testing/client_world.h"

namespace sluice::resp {
extern const calls::Dialect client_dialect;

namespace client_dialect_test {
namespace {

using calls::ClientWorld;
using namespace std::chrono_literals;

// The words of a command that was sent, with blanks between them.
std::string typed(std::string_view command) {
  std::string words;
  for (size_t at = command.find('$'); at != command.npos; at = command.find('$', at)) {
    const size_t begin = command.find("\r\n", at) + 2;
    const size_t end = command.find("\r\n", begin);
    words.append(words.empty() ? "" : " ").append(command.substr(begin, end - begin));
    at = end;
  }
  return words;
}

client_request keyed(client_verb verb) {
  client_request request;
  request.verb = verb;
  request.subject.key = "user:17";
  request.subject.limits = {{100, 1500ms}};
  return request;
}

class RespClientDialect : public testing::Test {
 protected:
  RespClientDialect() {
    world_.submit(keyed(client_verb::ping), "first");
    world_.accept(0);
    world_.take_sent(0);
    world_.receive(0, "+PONG\r\n");
  }
  std::string said(const client_request& request) {
    world_.submit(request, "call");
    std::string sent;
    for (uint32_t link = 0; link < world_.core.link_count(); ++link) {
      if (world_.core.phase(link) == calls::Link::Phase::connecting) world_.accept(link);
      sent += world_.take_sent(link);
    }
    return typed(sent);
  }
  ClientWorld world_{client_dialect};
};

TEST_F(RespClientDialect, CommandsMatchTheManual) {
  client_request request = keyed(client_verb::take);
  EXPECT_EQ(said(request), "SLUICE.TAKE KEY user:17 LIMIT 100 1.5 WITHNAME");
  request.n = 3;
  request.subject.limits = {{5, 1h, client_algorithm::fixed_window},
                            {7, 60s, client_algorithm::token_bucket, 9}};
  EXPECT_EQ(said(request),
            "SLUICE.TAKE KEY user:17 LIMIT 5 3600 ALGORITHM fixed_window LIMIT 7 60 BURST 9 N 3 "
            "WITHNAME");
  request.subject.limits = {
      {.quota = 2, .window = 30s, .algorithm = client_algorithm::concurrency, .max_lease = 300s}};
  EXPECT_EQ(said(request),
            "SLUICE.TAKE KEY user:17 LIMIT 2 30 ALGORITHM concurrency MAXLEASE 300 N 3 WITHNAME");
  EXPECT_EQ(said(keyed(client_verb::peek)), "SLUICE.PEEK KEY user:17 LIMIT 100 1.5 WITHNAME");
  request = keyed(client_verb::put);
  request.all = true;
  EXPECT_EQ(said(request), "SLUICE.PUT KEY user:17 LIMIT 100 1.5 ALL");
  EXPECT_EQ(said(keyed(client_verb::reset)), "SLUICE.RESET KEY user:17 LIMIT 100 1.5");
  request = keyed(client_verb::wait);
  request.wait_for = 250us;
  EXPECT_EQ(said(request), "SLUICE.WAIT 0.00025 KEY user:17 LIMIT 100 1.5");
  request = {};
  request.several = {keyed(client_verb::take).subject, {}};
  request.several[1].entries = {{"method", "POST"}, {"path", "/a=b"}};
  request.each = true;
  EXPECT_EQ(said(request),
            "SLUICE.MTAKE 2 KEY user:17 LIMIT 100 1.5 ENTRIES 2 method=POST path=/a=b EACH");
}

TEST_F(RespClientDialect, AChargeHasItsIdAndReportsItsDebt) {
  client_request request = keyed(client_verb::charge);
  request.n = 25;
  EXPECT_EQ(said(request), "SLUICE.CHARGE KEY user:17 LIMIT 100 1.5 N 25 WITHNAME");
  request.id = "charge-0000-0001";
  EXPECT_EQ(said(request),
            "SLUICE.CHARGE KEY user:17 LIMIT 100 1.5 N 25 ID charge-0000-0001 WITHNAME");
  world_.submit(request, "last");
  world_.receive(0,
                 "*7\r\n:0\r\n:100\r\n:0\r\n:9500\r\n:9500\r\n:15\r\n$3\r\ntok\r\n"
                 "-IDINUSE the id was used with another charge\r\n"
                 "*8\r\n:1\r\n:100\r\n:99\r\n:0\r\n:10\r\n:0\r\n$-1\r\n:25\r\n");
  EXPECT_EQ(world_.results["call"].error, client_errc::refused) << "the second of that name";
  const client_result& last = world_.results["last"];
  EXPECT_EQ(last.error, client_errc::none);
  EXPECT_FALSE(last.over);
  EXPECT_TRUE(last.is_allowed());
  EXPECT_EQ(last.debt, 0);
  EXPECT_EQ(last.remaining, 99);
  EXPECT_EQ(last.charged, 25);
  request.verb = client_verb::take;
  world_.submit(request, "take");
  EXPECT_EQ(world_.results["take"].error, client_errc::bad_request);
  request.verb = client_verb::acquire;
  world_.submit(request, "acquire");
  EXPECT_EQ(world_.results["acquire"].text,
            "reservations and places are made over http, or by their commands");
}

TEST_F(RespClientDialect, PassesACommandAndItsReplyThroughUnchanged) {
  client_request request;
  request.verb = client_verb::command;
  request.words = {"CL.THROTTLE", "user 17", "", "1\r\n", "60"};
  world_.submit(request, "first");
  EXPECT_EQ(world_.take_sent(0),
            "*5\r\n$11\r\nCL.THROTTLE\r\n$7\r\nuser 17\r\n$0\r\n\r\n$3\r\n1\r\n\r\n$2\r\n60\r\n");
  world_.submit(request, "second");
  world_.take_sent(0);
  world_.receive(0, "*2\r\n:1\r\n+x\r\n>1\r\n+push\r\n-ERR no\r\n");
  EXPECT_EQ(world_.results["first"].reply, "*2\r\n:1\r\n+x\r\n");
  EXPECT_EQ(world_.results["second"].reply, "-ERR no\r\n");
  EXPECT_EQ(world_.results["second"].error, client_errc::none);
  request.words.clear();
  world_.submit(request, "empty");
  EXPECT_EQ(world_.results["empty"].error, client_errc::bad_request);
  EXPECT_EQ(world_.take_sent(0), "");
}

TEST_F(RespClientDialect, ReadsRepliesByTheCommandThatWasSent) {
  for (const auto& [verb, name] : {std::pair{client_verb::take, "take"},
                                   {client_verb::put, "put"},
                                   {client_verb::reset, "reset"},
                                   {client_verb::take, "error"}})
    world_.submit(keyed(verb), name);
  world_.receive(0,
                 "*6\r\n:0\r\n:100\r\n:60\r\n:-1\r\n:1440000\r\n$6\r\ninline\r\n"
                 ">2\r\n+push\r\n+x\r\n*2\r\n:7\r\n:9\r\n:1\r\n-TRYAGAIN store\r\n");
  const client_result& take = world_.results["take"];
  EXPECT_FALSE(take.allowed);
  EXPECT_EQ(take.remaining, 60);
  EXPECT_EQ(take.retry_after, client_never);
  EXPECT_EQ(take.reset_after, 1'440s);
  EXPECT_EQ(take.rule, "inline");
  EXPECT_EQ(world_.results["put"].remaining, 7);
  EXPECT_EQ(world_.results["reset"].counters, 1);
  EXPECT_EQ(world_.results["error"].error, client_errc::unavailable);
}

TEST_F(RespClientDialect, AReplyToAnotherCommandEndsTheConnection) {
  world_.submit(keyed(client_verb::put), "put");
  world_.submit(keyed(client_verb::take), "take");
  world_.receive(0, ":1\r\n*2\r\n:7\r\n:9\r\n");
  EXPECT_EQ(world_.results["put"].error, client_errc::bad_reply);
  EXPECT_EQ(world_.results["take"].error, client_errc::bad_reply);
  EXPECT_EQ(world_.closed[0], 1);
}

TEST_F(RespClientDialect, EachWaitHasAConnectionWhichIsUsedAgain) {
  client_request wait = keyed(client_verb::wait);
  world_.submit(wait, "a");
  world_.submit(wait, "b");
  ASSERT_EQ(world_.core.link_count(), 3u);
  world_.accept(1);
  world_.accept(2);
  world_.receive(2, "*6\r\n:1\r\n:1\r\n:0\r\n:0\r\n:5\r\n:20\r\n");
  EXPECT_TRUE(world_.results["b"].is_allowed());
  EXPECT_TRUE(world_.results["b"].delayed);
  EXPECT_EQ(world_.results["b"].waited, 20ms);
  world_.receive(1, "*-1\r\n");
  EXPECT_EQ(world_.results["a"].error, client_errc::none);
  EXPECT_FALSE(world_.results["a"].allowed);
  world_.submit(wait, "c");
  EXPECT_EQ(world_.core.link_count(), 3u);
}

TEST_F(RespClientDialect, ACancelledWaitClosesItsConnection) {
  const auto id = world_.submit(keyed(client_verb::wait), "a");
  world_.accept(1);
  EXPECT_TRUE(world_.cancel(id));
  EXPECT_EQ(world_.closed[1], 1);
  EXPECT_EQ(world_.results["a"].error, client_errc::cancelled);
  EXPECT_EQ(world_.core.pending(), 0u);
}

// The waits between the first tries of a client whose server is unreachable, in milliseconds.
std::vector<int64_t> first_waits(uint64_t seed, size_t count) {
  ClientWorld world(client_dialect, 1, {}, seed);
  world.refuses = true;
  world.submit(keyed(client_verb::take), "a");
  while (world.tries.size() <= count) world.advance(base::seconds(1));
  std::vector<int64_t> waits;
  for (size_t i = 1; i <= count; ++i) waits.push_back(world.tries[i].ms - world.tries[i - 1].ms);
  return waits;
}

// The longest wait is 100 ms at first and doubles up to 2 s; the tries never end. Each wait is a
// random time between half of the longest and the longest.
TEST(RespClientTries, GrowUpToTwoSeconds) {
  const std::vector<int64_t> longest = {100, 200, 400, 800, 1'600, 2'000, 2'000, 2'000};
  for (uint64_t seed = 1; seed <= 100; ++seed) {
    const std::vector<int64_t> waits = first_waits(seed, longest.size());
    for (size_t i = 0; i < longest.size(); ++i) {
      EXPECT_GE(waits[i], longest[i] / 2 - 1) << seed << " " << i;
      EXPECT_LE(waits[i], longest[i] + 1) << seed << " " << i;
    }
    EXPECT_EQ(waits, first_waits(seed, longest.size())) << "the seed determines the waits";
  }
}

// Clients that lose a server at the same time spread their tries evenly. The first wait is 50 to
// 100 ms, so each 5 ms get about a tenth of the tries of 4,000 clients.
TEST(RespClientTries, AreSpreadEvenlyOverManyClients) {
  std::vector<int> tenths(10);
  for (uint64_t client = 1; client <= 4'000; ++client) {
    const int64_t wait = first_waits(client * 0x9E3779B97F4A7C15, 1).front();
    ++tenths[static_cast<size_t>(std::min<int64_t>((wait - 50) / 5, 9))];
  }
  for (const int count : tenths) EXPECT_NEAR(count, 400, 80);
}

TEST(RespClientTries, FailACallBetweenTwoTriesAtOnce) {
  ClientWorld world(client_dialect);
  world.refuses = true;
  for (const char* name : {"a", "b"}) {
    world.submit(keyed(client_verb::take), name);
    EXPECT_EQ(world.results[name].error, client_errc::unavailable);
  }
}

constexpr const char* wrong = "-WRONGPASS invalid username-password pair\r\n";

// A client that logs in with a user and a token.
class RespClientUsers : public testing::Test {
 protected:
  static std::vector<calls::Target> host_with_user() {
    std::vector<calls::Target> hosts = ClientWorld::make_hosts(1);
    hosts[0].user = "app";
    hosts[0].token = "swordfish";
    return hosts;
  }
  static client_options writing_to(std::vector<std::string>& events) {
    client_options options;
    options.on_connection = [&events](const client_connection_report& report) {
      using event = client_connection_report::event;
      events.emplace_back(report.what == event::connected        ? "connected"
                          : report.what == event::attempt_failed ? "failed"
                          : report.what == event::gave_up        ? "gave up"
                                                                 : "lost");
    };
    return options;
  }
  // Accepts the connection of `link`, and answers its AUTH with `reply`.
  void answer_login(uint32_t link, std::string_view reply) {
    world_.accept(link);
    EXPECT_EQ(typed(world_.take_sent(link)), "AUTH app swordfish");
    world_.receive(link, reply);
  }

  std::vector<std::string> events_;
  ClientWorld world_{client_dialect, host_with_user(), writing_to(events_)};
};

TEST_F(RespClientUsers, AreNotTriedAgainByTheClientItself) {
  world_.submit(keyed(client_verb::take), "a");
  answer_login(0, wrong);
  EXPECT_EQ(world_.results["a"].error, client_errc::refused);
  EXPECT_EQ(world_.results["a"].text,
            "the server does not accept the user and token (WRONGPASS invalid "
            "username-password pair): correct them, or add the user at the server");
  EXPECT_EQ(events_, (std::vector<std::string>{"failed", "gave up"}));
  world_.advance(base::seconds(3'600));
  EXPECT_EQ(world_.tries.size(), 1u);
}

TEST_F(RespClientUsers, AreTriedAgainAtACallThatComesLater) {
  world_.submit(keyed(client_verb::take), "a");
  answer_login(0, wrong);
  for (const client_verb verb : {client_verb::take, client_verb::wait}) {
    world_.submit(keyed(verb), "b");
    EXPECT_EQ(world_.results["b"].error, client_errc::refused);
    EXPECT_EQ(world_.results["b"].text, world_.results["a"].text);
    world_.advance(base::milliseconds(4'999));
  }
  EXPECT_EQ(world_.tries.size(), 1u) << "9.998 s";
  world_.advance(base::milliseconds(2));
  world_.submit(keyed(client_verb::take), "c");
  EXPECT_EQ(world_.tries.size(), 2u);
  answer_login(0, "+OK\r\n");
  EXPECT_FALSE(typed(world_.take_sent(0)).empty());
  world_.receive(0, "*6\r\n:1\r\n:5\r\n:4\r\n:0\r\n:1000\r\n$1\r\nr\r\n");
  EXPECT_TRUE(world_.results["c"].is_allowed());
  world_.fail(0);
  world_.advance(base::seconds(1));
  EXPECT_EQ(world_.tries.size(), 3u) << "a connection that is lost is tried again as usual";
}

TEST_F(RespClientUsers, AreRetriedIfTheServerCannotCheckThem) {
  world_.submit(keyed(client_verb::take), "a");
  answer_login(0, "-TRYAGAIN too many clients\r\n");
  EXPECT_EQ(world_.results["a"].error, client_errc::unavailable);
  EXPECT_EQ(world_.results["a"].text,
            "the server cannot check the token: TRYAGAIN too many clients");
  world_.advance(base::seconds(1));
  EXPECT_GE(world_.tries.size(), 2u);
}

// The replies of sluice and of Redis to a connection beyond their bound. They do not mean that the
// token is wrong.
constexpr const char* at_bound[] = {
    "-ERR too many connections; this server has reached its bound\r\n",
    "-ERR max number of clients reached\r\n"};

TEST(RespClientBound, IsNotTreatedAsAWrongPassword) {
  for (const char* reply : at_bound) {
    std::vector<calls::Target> hosts = ClientWorld::make_hosts(1);
    hosts[0].user = "app";
    hosts[0].token = "swordfish";
    ClientWorld world(client_dialect, hosts, {});
    world.submit(keyed(client_verb::take), "a");
    world.accept(0);
    world.receive(0, reply);
    EXPECT_EQ(world.results["a"].error, client_errc::unavailable) << reply;
    world.advance(base::seconds(1));
    EXPECT_GE(world.tries.size(), 2u) << reply;
  }
}

TEST(RespClientBound, IsUnavailableAlsoWithoutAUser) {
  for (const char* reply : at_bound) {
    ClientWorld world(client_dialect);
    world.submit(keyed(client_verb::take), "a");
    world.accept(0);
    world.receive(0, reply);
    EXPECT_EQ(world.results["a"].error, client_errc::unavailable) << reply;
  }
}

TEST_F(RespClientUsers, AreRefusedWhateverTheWordsOfTheServer) {
  for (const char* reply :
       {"-ERR AUTH <password> called without any password configured\r\n",
        "-ERR invalid password\r\n", "-ERR Client sent AUTH, but no password is set\r\n",
        "-ERR wrong number of arguments for 'auth' command\r\n", "-NOPERM no\r\n"}) {
    world_.submit(keyed(client_verb::take), "a");
    answer_login(0, reply);
    EXPECT_EQ(world_.results["a"].error, client_errc::refused) << reply;
    world_.advance(base::seconds(11));
  }
}

// All links are tried again, so that none stays unused because another one is ready.
TEST(RespClientRefusedLinks, AreAllTriedAgainByTheNextCall) {
  std::vector<calls::Target> hosts = ClientWorld::make_hosts(1);
  hosts[0].user = "app";
  hosts[0].token = "swordfish";
  client_options options;
  options.connections = 4;
  ClientWorld world(client_dialect, hosts, options);
  world.submit(keyed(client_verb::take), "a");
  for (uint32_t link = 0; link < 4; ++link) {
    world.accept(link);
    world.receive(link, wrong);
  }
  ASSERT_EQ(world.tries.size(), 4u);
  world.advance(base::seconds(11));
  EXPECT_EQ(world.tries.size(), 4u);
  world.submit(keyed(client_verb::take), "b");
  EXPECT_EQ(world.tries.size(), 8u);
  for (uint32_t link = 0; link < 4; ++link) {
    world.accept(link);
    world.receive(link, "+OK\r\n");
  }
  EXPECT_EQ(world.core.ready_links(), 4u);
}

TEST(RespClientRefusedLinks, AreTriedAgainWhileAnotherHostIsReady) {
  std::vector<calls::Target> hosts = ClientWorld::make_hosts(2);
  for (calls::Target& host : hosts) {
    host.user = "app";
    host.token = "swordfish";
  }
  ClientWorld world(client_dialect, hosts, {});
  world.submit(keyed(client_verb::take), "a");
  for (uint32_t link = 0; link < 2; ++link) {
    world.accept(link);
    world.receive(link, link == 0 ? wrong : "+OK\r\n");
  }
  world.advance(base::seconds(9));
  world.submit(keyed(client_verb::take), "b");
  EXPECT_EQ(world.tries.size(), 2u) << "the refused link is in its pause";
  world.advance(base::seconds(2));
  world.submit(keyed(client_verb::take), "c");
  EXPECT_EQ(world.tries.size(), 3u);
  world.accept(0);
  world.receive(0, "+OK\r\n");
  EXPECT_EQ(world.core.ready_links(), 2u);
}

// The server removes the user, and adds it again.
TEST_F(RespClientUsers, LogInAgainIfTheServerHasForgottenThem) {
  world_.submit(keyed(client_verb::take), "a");
  answer_login(0, "+OK\r\n");
  world_.submit(keyed(client_verb::take), "b");
  world_.receive(0, "-NOAUTH Authentication required.\r\n");
  EXPECT_EQ(world_.results["a"].error, client_errc::refused);
  EXPECT_EQ(world_.results["b"].error, client_errc::disconnected);
  EXPECT_EQ(world_.closed[0], 1);
  world_.advance(base::seconds(1));
  ASSERT_EQ(world_.tries.size(), 2u);
  answer_login(0, "+OK\r\n");
  EXPECT_EQ(world_.core.ready_links(), 1u);
}

TEST(RespClientWithoutAUser, KeepsItsConnectionIfTheServerRequiresAUser) {
  ClientWorld world(client_dialect);
  world.submit(keyed(client_verb::take), "a");
  world.accept(0);
  world.receive(0, "-NOAUTH Authentication required.\r\n");
  EXPECT_EQ(world.results["a"].error, client_errc::refused);
  EXPECT_EQ(world.closed[0], 0);
}

TEST_F(RespClientUsers, AWaitThatIsRefusedIsNotTriedAgainAtOnce) {
  world_.submit(keyed(client_verb::wait), "a");
  ASSERT_EQ(world_.core.link_count(), 2u);
  answer_login(1, wrong);
  answer_login(0, wrong);
  EXPECT_EQ(world_.results["a"].error, client_errc::refused);
  world_.submit(keyed(client_verb::wait), "b");
  EXPECT_EQ(world_.results["b"].error, client_errc::refused);
  EXPECT_EQ(world_.tries.size(), 2u);
}

}  // namespace
}  // namespace client_dialect_test
}  // namespace sluice::resp
