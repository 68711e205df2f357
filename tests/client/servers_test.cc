// The client library against the real server, over divvy, limitd, droplet, RESP and HTTP.
#include <gtest/gtest.h>
#include <sluice/client.h>

#include <algorithm>
#include <chrono>
#include <future>
#include <string>
#include <utility>
#include <vector>

#include "tests/client/peers.h"

namespace sluice::tests::client_servers_test {
namespace {

using namespace std::chrono_literals;

constexpr client_call_options patient{.timeout = 60s};

client_request about(client_verb verb, client_subject subject, std::optional<int64_t> n = {}) {
  client_request request;
  request.verb = verb;
  request.subject = std::move(subject);
  request.n = n;
  return request;
}

client_subject bucket(std::string_view type, std::string_view key) {
  client_subject subject;
  subject.type = type;
  subject.key = key;
  return subject;
}

client_subject keyed(std::string_view key, int64_t quota, std::chrono::microseconds window) {
  client_subject subject;
  subject.key = key;
  subject.limits = {{quota, window}};
  return subject;
}

client_subject entries(std::string_view ip) {
  client_subject subject;
  subject.entries = {{"ip", ip}};
  return subject;
}

class ClientOfServers : public testing::Test {
 protected:
  ServerOfAll server_;
};

TEST_F(ClientOfServers, Divvy) {
  client one(server_.address("divvy"));
  for (int64_t left = 4; left >= 0; --left) {
    const client_result result = one.call(about(client_verb::take, entries("1")), patient);
    EXPECT_TRUE(result.is_allowed()) << result.text;
    EXPECT_EQ(result.remaining, left);
  }
  EXPECT_FALSE(one.call(about(client_verb::take, entries("1")), patient).is_allowed());
  EXPECT_TRUE(one.call(about(client_verb::take, entries("2")), patient).is_allowed());
}

TEST_F(ClientOfServers, Limitd) {
  client one(server_.address("limitd"));
  const auto ask = [&](client_verb verb, const client_subject& subject,
                       std::optional<int64_t> n = {}) {
    return one.call(about(verb, subject, n), patient);
  };
  EXPECT_EQ(ask(client_verb::take, bucket("ip", "10.0.0.7")).remaining, 9);
  EXPECT_EQ(ask(client_verb::take, bucket("fixed", "a"), 3).remaining, 0);
  const client_result refused = ask(client_verb::take, bucket("fixed", "a"));
  EXPECT_EQ(refused.error, client_errc::none);
  EXPECT_FALSE(refused.allowed);
  EXPECT_EQ(refused.limit, 3);
  EXPECT_EQ(ask(client_verb::put, bucket("fixed", "a"), 1).remaining, 1);
  EXPECT_EQ(ask(client_verb::peek, bucket("fixed", "a")).remaining, 1);
  EXPECT_EQ(ask(client_verb::reset, bucket("fixed", "a")).remaining, 3);
  ask(client_verb::take, bucket("fixed", "list-1"));
  ask(client_verb::take, bucket("fixed", "list-2"), 2);
  const client_result list = ask(client_verb::list, bucket("fixed", "list-"));
  ASSERT_EQ(list.levels.size(), 2u);
  EXPECT_EQ(list.levels[1].name, "list-2");
  EXPECT_EQ(list.levels[1].remaining, 1);
  EXPECT_EQ(ask(client_verb::ping, {}).error, client_errc::none);
  EXPECT_EQ(ask(client_verb::take, bucket("unknown", "k")).error, client_errc::no_rule);
  EXPECT_EQ(ask(client_verb::take, bucket("fixed", "k")).remaining, 2);
}

// A wait is answered when a put frees its units. Other calls of the client are answered meanwhile.
TEST_F(ClientOfServers, LimitdsWaitIsReleasedByAPut) {
  client one(server_.address("limitd"));
  one.call(about(client_verb::take, bucket("fixed", "w"), 3), patient);
  auto waiting = one.ask(about(client_verb::wait, bucket("fixed", "w"), 2), patient);
  EXPECT_EQ(one.call(about(client_verb::ping, {}), patient).error, client_errc::none);
  EXPECT_NE(waiting.wait_for(0s), std::future_status::ready);
  one.call(about(client_verb::put, bucket("fixed", "w"), 2), patient);
  while (waiting.wait_for(0s) != std::future_status::ready) one.poll(100ms);
  const client_result result = waiting.get();
  EXPECT_TRUE(result.is_allowed());
  EXPECT_TRUE(result.delayed);
}

TEST_F(ClientOfServers, LimitdsShardsAreAskedByTheirKeys) {
  ServerOfAll second;
  const std::string both =
      server_.address("limitd") + "," + second.address("limitd").substr(sizeof "limitd://" - 1);
  client_options options;
  options.shard = true;
  client one(both, options);
  for (int i = 0; i < 40; ++i)
    EXPECT_TRUE(
        one.call(about(client_verb::take, bucket("fixed", "k" + std::to_string(i))), patient)
            .is_allowed());
  size_t told = 0;
  for (const ServerOfAll* server : {&std::as_const(server_), &std::as_const(second)}) {
    client single(server->address("limitd"));
    const auto list = single.call(about(client_verb::list, bucket("fixed", "k")), patient);
    EXPECT_LT(list.levels.size(), 40u);
    told += list.levels.size();
  }
  EXPECT_EQ(told, 40u);
  EXPECT_EQ(one.call(about(client_verb::list, bucket("fixed", "k")), patient).levels.size(), 40u);
  EXPECT_EQ(one.call(about(client_verb::ping, {}), patient).error, client_errc::none);
}

TEST_F(ClientOfServers, LimitdsSecondHostAnswersWhenTheFirstIsStopped) {
  auto first = std::make_unique<ServerOfAll>();
  client one(first->address("limitd") + "," +
             server_.address("limitd").substr(sizeof "limitd://" - 1));
  EXPECT_EQ(one.call(about(client_verb::take, bucket("fixed", "f"), 2), patient).remaining, 1);
  first.reset();
  client_result result;
  // The client learns of the first server's end when the socket reports it.
  do result = one.call(about(client_verb::take, bucket("fixed", "f"), 1), patient);
  while (result.error == client_errc::disconnected);
  EXPECT_EQ(result.remaining, 2);
}

TEST_F(ClientOfServers, Droplet) {
  client one(server_.address("droplet", "ws"));
  client_subject subject = keyed("b", 10, 1h);
  subject.limits.push_back({100, 24h});
  const client_result taken = one.call(about(client_verb::take, subject, 3), patient);
  EXPECT_TRUE(taken.is_allowed()) << taken.text;
  ASSERT_EQ(taken.levels.size(), 2u);
  EXPECT_EQ(taken.levels[0].name, "lh");
  EXPECT_EQ(taken.levels[0].remaining, 7);
  EXPECT_EQ(taken.levels[1].remaining, 97);
  const client_result refused = one.call(about(client_verb::take, subject, 8), patient);
  EXPECT_FALSE(refused.is_allowed());
  EXPECT_EQ(refused.remaining, -1);
  client_subject name;
  name.key = "b";
  EXPECT_EQ(one.call(about(client_verb::peek, name), patient).remaining, 7);
  client_request again = about(client_verb::take, subject);
  again.reset_first = true;
  EXPECT_EQ(one.call(again, patient).remaining, 9);
}

class ClientOfVerbs : public ClientOfServers, public testing::WithParamInterface<const char*> {};
INSTANTIATE_TEST_SUITE_P(Protocols, ClientOfVerbs, testing::Values("resp", "http"));

TEST_P(ClientOfVerbs, TakePeekPutReset) {
  client one(server_.address(GetParam()));
  const client_subject subject = keyed("a", 5, 1h);
  const client_result taken = one.call(about(client_verb::take, subject, 3), patient);
  EXPECT_TRUE(taken.is_allowed()) << taken.text;
  EXPECT_EQ(taken.limit, 5);
  EXPECT_EQ(taken.remaining, 2);
  EXPECT_EQ(taken.retry_after, 0s);
  EXPECT_GT(taken.reset_after, 30min);
  const client_result peeked = one.call(about(client_verb::peek, subject, 3), patient);
  EXPECT_EQ(peeked.error, client_errc::none);
  EXPECT_FALSE(peeked.allowed);
  EXPECT_GT(peeked.retry_after, 0s);
  EXPECT_EQ(one.call(about(client_verb::take, subject, 6), patient).retry_after, client_never);
  EXPECT_EQ(one.call(about(client_verb::put, subject, 1), patient).remaining, 3);
  EXPECT_EQ(one.call(about(client_verb::reset, subject), patient).counters, 1);
  EXPECT_EQ(one.call(about(client_verb::peek, subject, 0), patient).remaining, 5);
  EXPECT_EQ(one.call(about(client_verb::ping, {}), patient).error, client_errc::none);
}

TEST_F(ClientOfServers, CommandsPassThroughIfTheProtocolHasThem) {
  client_request command;
  command.verb = client_verb::command;
  command.words = {"CL.THROTTLE", "commanded", "4", "10", "60"};
  client resp(server_.address("resp"));
  EXPECT_EQ(resp.call(command, patient).reply.substr(0, 18), "*5\r\n:0\r\n:5\r\n:4\r\n:-");
  command.words = {"NO.SUCH", "thing"};
  EXPECT_EQ(resp.call(command, patient).reply.substr(0, 20), "-ERR unknown command");
  client http(server_.address("http"));
  command.words = {"POST", "/v1/take", R"({"entries": {"ip": "commanded"}, "n": 6})"};
  const client_result denied = http.call(command, patient);
  EXPECT_EQ(denied.status, 429u) << denied.text;
  EXPECT_NE(denied.reply.find(R"("rule": "by-ip")"), std::string::npos) << denied.reply;
  client limitd(server_.address("limitd"));
  EXPECT_EQ(limitd.call(command, patient).error, client_errc::bad_request);
  EXPECT_EQ(client(server_.address("divvy")).call(command, patient).error,
            client_errc::bad_request);
  EXPECT_EQ(client(server_.address("droplet", "ws")).call(command, patient).error,
            client_errc::bad_request);
}

TEST_P(ClientOfVerbs, RulesDecideEntries) {
  client one(server_.address(GetParam()));
  const client_result result = one.call(about(client_verb::take, entries("7")), patient);
  EXPECT_TRUE(result.is_allowed()) << result.text;
  EXPECT_EQ(result.rule, "by-ip");
  client_subject other;
  other.entries = {{"path", "/"}};
  EXPECT_EQ(one.call(about(client_verb::take, other), patient).error, client_errc::no_rule);
}

TEST_P(ClientOfVerbs, AChargeIsCountedPastTheLimitAndOnceForItsId) {
  client one(server_.address(GetParam()));
  client_request charge = about(client_verb::charge, keyed("c", 5, 24h), 4);
  EXPECT_TRUE(one.call(charge, patient).is_allowed());
  charge.n = 7;
  charge.id = "charge-0000-0001";
  for (int i = 0; i < 3; ++i) {
    const client_result over = one.call(charge, patient);
    EXPECT_EQ(over.error, client_errc::none) << over.text;
    EXPECT_TRUE(over.over);
    EXPECT_FALSE(over.is_allowed());
    EXPECT_EQ(over.debt, 6) << "counted once";
    EXPECT_EQ(over.remaining, 0);
    EXPECT_GT(over.retry_after, 0s);
    EXPECT_EQ(over.repeated, i > 0 && GetParam() == std::string("http"));
  }
  charge.n = 8;
  EXPECT_EQ(one.call(charge, patient).error, client_errc::refused) << "another content";
  EXPECT_FALSE(one.call(about(client_verb::take, keyed("c", 5, 24h), 0), patient).is_allowed());
}

// A charge that no server counted would be lost, so nothing stands in for the server.
TEST_P(ClientOfVerbs, AChargeThatReachesNoServerIsAnError) {
  client_options options;
  options.on_unavailable = client_policy::allow;
  client one(std::string(GetParam()) + "://127.0.0.1:1", options);
  const client_result result = one.call(about(client_verb::charge, keyed("c", 5, 24h), 4), patient);
  EXPECT_EQ(result.error, client_errc::unavailable);
  EXPECT_FALSE(result.is_allowed());
}

TEST_F(ClientOfServers, AReservationIsSettledOnce) {
  client one(server_.address("http"));
  client_request reserve = about(client_verb::reserve, keyed("r", 50, 24h), 40);
  reserve.ttl = 90s;
  reserve.holder = "a test";
  const client_result held = one.call(reserve, patient);
  ASSERT_TRUE(held.is_allowed()) << held.text;
  EXPECT_EQ(held.remaining, 10);
  EXPECT_EQ(held.ttl, 90s);
  EXPECT_EQ(held.reserved, std::vector<int64_t>{40});
  EXPECT_FALSE(one.call(about(client_verb::take, keyed("r", 50, 24h), 11), patient).is_allowed());

  client_request its;
  its.id = held.id;
  its.n = 20;
  its.verb = client_verb::extend;
  EXPECT_FALSE(one.call(its, patient).is_allowed());
  its.n = 5;
  EXPECT_EQ(one.call(its, patient).reserved, std::vector<int64_t>{45});
  its.verb = client_verb::renew;
  its.ttl = 30s;
  EXPECT_EQ(one.call(its, patient).ttl, 30s);
  its.ttl = {};
  its.verb = client_verb::commit;
  its.n = 12;
  for (const bool again : {false, true}) {
    const client_result done = one.call(its, patient);
    EXPECT_TRUE(done.is_allowed()) << done.text;
    EXPECT_EQ(done.returned, 33);
    EXPECT_EQ(done.remaining, 38);
    EXPECT_EQ(done.repeated, again);
  }
  its.n = 13;
  const client_result other = one.call(its, patient);
  EXPECT_EQ(other.error, client_errc::already_settled);
  EXPECT_EQ(other.used, std::vector<int64_t>{12});

  client_request both;
  both.verb = client_verb::reserve;
  both.several = {keyed("r", 50, 24h), keyed("s", 50, 24h)};
  both.units = {8, 9};
  both.id = "several-reserved-1";
  EXPECT_EQ(one.call(both, patient).reserved, (std::vector<int64_t>{8, 9}));
  client_request gone;
  gone.verb = client_verb::release;
  gone.id = both.id;
  EXPECT_EQ(one.call(gone, patient).returned, 17);
  gone.verb = client_verb::renew;
  EXPECT_EQ(one.call(gone, patient).error, client_errc::hold_ended);
  gone.id = "never-was-reserved";
  EXPECT_EQ(one.call(gone, patient).error, client_errc::no_such_hold);
  // Its subject is charged.
  both.verb = client_verb::commit;
  both.id = "unknown-reserved-1";
  const client_result late = one.call(both, patient);
  EXPECT_TRUE(late.late) << late.text;
  EXPECT_EQ(late.charged, 17);
}

TEST_F(ClientOfServers, PlacesAndReservationsAreWaitedFor) {
  client one(server_.address("http"));
  client_request acquire;
  acquire.verb = client_verb::acquire;
  acquire.subject.key = "pool";
  acquire.subject.limits = {{1, 1h, client_algorithm::concurrency}};
  const client_result first = one.call(acquire, patient);
  ASSERT_TRUE(first.is_allowed()) << first.text;
  acquire.wait_for = 1ms;
  const client_result late = one.call(acquire, patient);
  EXPECT_EQ(late.error, client_errc::none) << late.text;
  EXPECT_FALSE(late.allowed);
  EXPECT_EQ(late.id, "");
  acquire.wait_for = 50s;
  auto waiting = one.ask(acquire, patient);
  client_request release;
  release.verb = client_verb::release;
  release.id = first.id;
  EXPECT_EQ(one.call(release, patient).returned, 1);
  while (waiting.wait_for(0s) != std::future_status::ready) one.poll(100ms);
  const client_result second = waiting.get();
  EXPECT_TRUE(second.is_allowed()) << second.text;
  EXPECT_NE(second.id, "");

  client_request reserve = about(client_verb::reserve, keyed("w", 50, 24h), 40);
  const client_result held = one.call(reserve, patient);
  ASSERT_TRUE(held.is_allowed()) << held.text;
  reserve.wait_for = 50s;
  waiting = one.ask(reserve, patient);
  release.id = held.id;
  EXPECT_EQ(one.call(release, patient).returned, 40);
  while (waiting.wait_for(0s) != std::future_status::ready) one.poll(100ms);
  EXPECT_EQ(waiting.get().reserved, std::vector<int64_t>{40});
}

TEST_F(ClientOfServers, ReservationsAreOfHttp) {
  for (const auto& [protocol, scheme] :
       {std::pair{"resp", ""}, {"limitd", ""}, {"divvy", ""}, {"droplet", "ws"}}) {
    client one(server_.address(protocol, scheme));
    client_request reserve = about(client_verb::reserve, keyed("r", 50, 1h), 1);
    EXPECT_EQ(one.call(reserve, patient).error, client_errc::bad_request) << protocol;
  }
}

TEST_P(ClientOfVerbs, SeveralAllOrNoneOrEach) {
  client one(server_.address(GetParam()));
  client_request request;
  request.several = {keyed("s1", 2, 1h), keyed("s2", 1, 1h)};
  const client_result both = one.call(request, patient);
  EXPECT_TRUE(both.is_allowed()) << both.text;
  ASSERT_EQ(both.levels.size(), 2u);
  EXPECT_EQ(both.levels[0].remaining, 1);
  const client_result none = one.call(request, patient);
  EXPECT_FALSE(none.is_allowed());
  EXPECT_EQ(none.levels[0].remaining, 1);
  EXPECT_FALSE(none.levels[1].allowed);
  request.each = true;
  const client_result first = one.call(request, patient);
  EXPECT_FALSE(first.is_allowed());
  EXPECT_TRUE(first.levels[0].allowed);
  EXPECT_EQ(first.levels[0].remaining, 0);
}

TEST_P(ClientOfVerbs, AWaitDoesNotDelayOtherCallsAndAPutEndsIt) {
  client one(server_.address(GetParam()));
  const client_subject subject = keyed("w", 1, 24h);
  one.call(about(client_verb::take, subject), patient);
  client_request wait = about(client_verb::wait, subject);
  wait.wait_for = 9s;
  auto waiting = one.ask(wait, patient);
  EXPECT_EQ(one.call(about(client_verb::ping, {}), patient).error, client_errc::none);
  EXPECT_NE(waiting.wait_for(0s), std::future_status::ready);
  // The put may arrive before the wait is parked or after that: in both cases the wait is granted.
  one.call(about(client_verb::put, subject, 1), patient);
  while (waiting.wait_for(0s) != std::future_status::ready) one.poll(100ms);
  const client_result result = waiting.get();
  EXPECT_TRUE(result.is_allowed()) << result.text;
  EXPECT_TRUE(result.waited.has_value());
}

TEST_P(ClientOfVerbs, AWaitEndsWithItsTimeOrByBeingCancelled) {
  client one(server_.address(GetParam()));
  const client_subject subject = keyed("c", 1, 24h);
  one.call(about(client_verb::take, subject), patient);
  client_request wait = about(client_verb::wait, subject);
  wait.wait_for = 50ms;
  const client_result late = one.call(wait, patient);
  EXPECT_EQ(late.error, client_errc::none) << late.text;
  EXPECT_FALSE(late.allowed);
  wait.wait_for = 9s;
  bool ended = false;
  const auto id = one.submit(
      wait,
      [&](client_result&& result) {
        ended = true;
        EXPECT_EQ(result.error, client_errc::cancelled);
      },
      patient);
  one.call(about(client_verb::ping, {}), patient);
  EXPECT_TRUE(one.cancel(id));
  while (!ended) one.poll(100ms);
  // The server forgets the cancelled wait, so units that are put back later go to other requests.
  client_result got;
  do {
    one.call(about(client_verb::put, subject, 1), patient);
    got = one.call(about(client_verb::take, subject), patient);
  } while (got.error == client_errc::none && !got.allowed);
  EXPECT_TRUE(got.is_allowed());
}

}  // namespace
}  // namespace sluice::tests::client_servers_test
