// How the client library speaks limitd's protocol: what it sends, what it makes of replies, when it
// connects again, and how it divides keys among shards. The test plays the servers and sets the
// time.
#include <gtest/gtest.h>

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "protocol/limitd/message.h"
#include "testing/client_world.h"

namespace sluice::limitd {
extern const calls::Dialect client_dialect;

namespace client_dialect_test {
namespace {

using calls::ClientWorld;
using namespace std::chrono_literals;

client_request asks(client_verb verb, std::string_view key, std::optional<int64_t> n = {}) {
  client_request request;
  request.verb = verb;
  request.subject.type = "ip";
  request.subject.key = key;
  request.n = n;
  return request;
}

// The requests in the bytes that the client sent.
std::vector<LimitdRequest> requests_of(std::string_view text) {
  std::vector<LimitdRequest> requests;
  std::string_view body;
  for (size_t bytes = 0; !text.empty(); text.remove_prefix(bytes)) {
    if (find_limitd_frame(text, 1 << 20, body, bytes) != LimitdFrame::whole) break;
    read_limitd_request(body, requests.emplace_back());
  }
  return requests;
}

std::string take_reply(const LimitdId& id, bool conformant, int64_t remaining) {
  base::Buffer out;
  append_limitd_take(id, conformant, false, {remaining, 1'425'920'268, 10}, out);
  return std::string(out.view());
}

TEST(LimitdClientDialect, SendsTheBytesOfTheRealClient) {
  ClientWorld world(client_dialect);
  EXPECT_EQ(world.tries.size(), 1u);  // the client connects before the first call
  world.accept(0);
  world.submit(asks(client_verb::take, "a"), "take");
  world.submit(asks(client_verb::wait, "a", 3), "wait");
  world.submit(asks(client_verb::put, "a"), "put");
  world.submit(asks(client_verb::put, "a", 2), "put 2");
  world.submit(asks(client_verb::reset, "a"), "reset");
  world.submit(asks(client_verb::peek, "a"), "get");
  world.submit(asks(client_verb::list, "a"), "status");
  world.submit(asks(client_verb::ping, ""), "ping");
  const std::string sent = world.take_sent(0);
  const auto requests = requests_of(sent);
  ASSERT_EQ(requests.size(), 8u);
  const LimitdMethod methods[] = {LimitdMethod::take,   LimitdMethod::wait, LimitdMethod::put,
                                  LimitdMethod::put,    LimitdMethod::put,  LimitdMethod::get,
                                  LimitdMethod::status, LimitdMethod::ping};
  for (size_t i = 0; i < requests.size(); ++i) EXPECT_EQ(requests[i].method, methods[i]) << i;
  EXPECT_EQ(requests[0].count, 1);
  EXPECT_EQ(requests[1].count, 3);
  EXPECT_TRUE(requests[2].all);
  EXPECT_EQ(requests[3].count, 2);
  EXPECT_FALSE(requests[3].all);
  EXPECT_TRUE(requests[4].all);
}

TEST(LimitdClientDialect, MatchesRepliesByTheirIdsAndDropsRepeatedOnes) {
  ClientWorld world(client_dialect);
  world.accept(0);
  world.submit(asks(client_verb::take, "a"), "a");
  world.submit(asks(client_verb::take, "b"), "b");
  const std::string sent = world.take_sent(0);
  const auto requests = requests_of(sent);
  ASSERT_EQ(requests.size(), 2u);
  const std::string b = take_reply(requests[1].id, false, 2),
                    a = take_reply(requests[0].id, true, 9);
  world.receive(0, b + b + a + a);
  EXPECT_FALSE(world.results["b"].allowed);
  EXPECT_EQ(world.results["b"].remaining, 2);
  EXPECT_TRUE(world.results["a"].allowed);
  EXPECT_EQ(world.results["a"].limit, 10);
  EXPECT_EQ(world.results["a"].reset_at, 1'425'920'268);
  EXPECT_EQ(world.closed.count(0), 0u);
}

TEST(LimitdClientDialect, AnUnknownTypeIsAnErrorAndTheConnectionStays) {
  ClientWorld world(client_dialect);
  world.accept(0);
  world.submit(asks(client_verb::take, "a"), "a");
  const std::string sent = world.take_sent(0);
  base::Buffer out;
  append_limitd_unknown_type(requests_of(sent).at(0).id, out);
  world.receive(0, out.view());
  EXPECT_EQ(world.results["a"].error, client_errc::no_rule);
  EXPECT_EQ(world.closed.count(0), 0u);
}

TEST(LimitdClientDialect, OnlyAWaitHasNoDeadline) {
  ClientWorld world(client_dialect);
  world.accept(0);
  world.submit(asks(client_verb::take, "a"), "take");
  world.submit(asks(client_verb::wait, "a"), "wait");
  world.advance(base::milliseconds(499));
  EXPECT_EQ(world.ended.count("take"), 0u);
  world.advance(base::milliseconds(1));
  EXPECT_EQ(world.results["take"].error, client_errc::timeout);
  world.advance(base::seconds(3'600));
  EXPECT_EQ(world.ended.count("wait"), 0u);
}

TEST(LimitdClientDialect, APutWithoutAnAnswerEndsWhenItIsSent) {
  ClientWorld world(client_dialect);
  client_request request = asks(client_verb::put, "a");
  request.no_answer = true;
  world.submit(request, "early");
  EXPECT_EQ(world.ended.count("early"), 0u);
  world.accept(0);
  EXPECT_EQ(world.results["early"].error, client_errc::none);
  EXPECT_TRUE(requests_of(world.take_sent(0)).at(0).silent);
  world.submit(request, "late");
  EXPECT_EQ(world.ended["late"], 1);
  EXPECT_EQ(world.core.pending(), 0u);
}

// As limitd's own client, which uses reconnect-core: the waits are a Fibonacci sequence from 200 ms
// up to 1 s, and the tries never end.
TEST(LimitdClientDialect, RetriesWithoutEnd) {
  ClientWorld world(client_dialect);
  world.refuses = true;
  world.fail(0);
  world.advance(base::seconds(6));
  std::vector<ClientWorld::Try> expected;
  for (const int64_t ms : {0, 200, 400, 800, 1'400, 2'400, 3'400, 4'400, 5'400})
    expected.push_back({0, ms});
  EXPECT_EQ(world.tries, expected);
}

TEST(LimitdClientDialect, TheFirstLiveHostOfTheListIsAsked) {
  ClientWorld world(client_dialect, 2);
  EXPECT_EQ(world.tries.size(), 2u);
  world.accept(0);
  world.accept(1);
  world.submit(asks(client_verb::take, "a"), "a");
  EXPECT_EQ(requests_of(world.take_sent(0)).size(), 1u);
  world.fail(0);
  EXPECT_EQ(world.results["a"].error, client_errc::disconnected);
  world.submit(asks(client_verb::take, "b"), "b");
  EXPECT_EQ(requests_of(world.take_sent(1)).size(), 1u);
}

TEST(LimitdClientDialect, AListOverShardsTakesFromEachItsOwnKeys) {
  client_options options;
  options.shard = true;
  ClientWorld world(client_dialect, 3, options);
  for (uint32_t link = 0; link < 3; ++link) world.accept(link);
  std::vector<size_t> shard_of;
  for (int i = 0; i < 30; ++i) {
    const std::string key = "k" + std::to_string(i);
    world.submit(asks(client_verb::take, key), key);
    for (uint32_t link = 0; link < 3; ++link)
      if (!requests_of(world.take_sent(link)).empty()) shard_of.push_back(link);
  }
  ASSERT_EQ(shard_of.size(), 30u);
  world.submit(asks(client_verb::list, "k"), "all", {.timeout = 1s});
  // Two shards answer, each with all keys; the third does not answer.
  for (uint32_t link = 0; link < 2; ++link) {
    const std::string sent = world.take_sent(link);
    std::string items;
    LimitdRequest request = requests_of(sent).at(0);
    base::Buffer out;
    for (int i = 0; i < 30; ++i) {
      const std::string name = "k" + std::to_string(i);
      items += std::string("\x0a") + static_cast<char>(2 + name.size()) + "\x0a" +
               static_cast<char>(name.size()) + name;
    }
    std::string body = std::string("\x0a") + static_cast<char>(request.id.bytes.size()) +
                       std::string(request.id.bytes) + "\xba\x06";
    for (size_t size = items.size(); size > 0; size >>= 7)
      body += static_cast<char>((size & 0x7F) | (size > 0x7F ? 0x80 : 0));
    body += items;
    std::string frame;
    for (size_t size = body.size(); size > 0; size >>= 7)
      frame += static_cast<char>((size & 0x7F) | (size > 0x7F ? 0x80 : 0));
    world.receive(link, frame + body);
  }
  EXPECT_EQ(world.ended.count("all"), 0u);
  world.advance(base::seconds(1));
  const client_result& all = world.results["all"];
  EXPECT_EQ(all.error, client_errc::none);
  EXPECT_EQ(all.missing_hosts, 1u);
  size_t expected = 0;
  for (const size_t shard : shard_of) expected += shard < 2 ? 1 : 0;
  EXPECT_EQ(all.levels.size(), expected);
}

}  // namespace
}  // namespace client_dialect_test
}  // namespace sluice::limitd
