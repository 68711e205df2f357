// `limiter_stand_in`: the program's own limiter decides while no server answers. It is called by a
// client whose server is silent, and directly.
#include <gtest/gtest.h>
#include <sluice/limiter_stand_in.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "tests/client/peers.h"

namespace sluice::tests::limiter_stand_in_test {
namespace {

using namespace std::chrono_literals;

constexpr auto policy =
    "rules:\n"
    "  - { name: by-ip, match: { ip: '*' }, actor: ip,\n"
    "      limit: { quota: 2, window: 1m, algorithm: fixed_window } }\n";

std::shared_ptr<limiter> local() {
  options how;
  how.memory_bytes = size_t{16} << 20;
  how.clock = [] { return time_point(duration(1'700'000'000'000'000)); };
  auto made = limiter::from_policy_text(policy, std::move(how));
  EXPECT_TRUE(made.has_value());
  return std::make_shared<limiter>(std::move(*made));
}

client_request of_ip(std::string_view ip, client_verb verb = client_verb::take) {
  client_request request;
  request.verb = verb;
  request.subject.entries = {{"ip", ip}};
  return request;
}

client_subject keyed(std::string_view key, int64_t quota) {
  client_subject subject;
  subject.key = key;
  subject.limits = {{quota, 60s, client_algorithm::fixed_window}};
  return subject;
}

client_result decide(limiter_stand_in& stand_in, const client_request& request) {
  return stand_in.decide(request, client_errc::unavailable);
}

TEST(LimiterStandIn, DecidesForAClientWhoseServerIsSilent) {
  const Peer peer([](int fd, int) { Peer::be_silent(fd); });
  client_options options;
  options.stand_in = std::make_shared<limiter_stand_in>(local());
  options.timeout = 10ms;
  client one(peer.address("resp"), options);
  for (int i = 0; i < 3; ++i) {
    const client_result result = one.call(of_ip("10.0.0.7"));
    EXPECT_EQ(result.origin, client_origin::stand_in);
    EXPECT_EQ(result.is_allowed(), i < 2);
    EXPECT_EQ(result.limit, 2);
    EXPECT_EQ(result.remaining, i == 0 ? 1 : 0);
    EXPECT_EQ(result.retry_after, i < 2 ? 0s : 60s);
  }
  EXPECT_TRUE(one.call(of_ip("10.0.0.8")).is_allowed());
}

TEST(LimiterStandIn, DecidesByRulesTypesAndLimits) {
  limiter_stand_in stand_in(local());
  EXPECT_TRUE(decide(stand_in, of_ip("1")).is_allowed());
  client_request typed;
  typed.subject.type = "by-ip";
  typed.subject.key = "1";  // the same counter
  EXPECT_EQ(decide(stand_in, typed).remaining, 0);
  EXPECT_FALSE(decide(stand_in, of_ip("1", client_verb::wait)).is_allowed());
  typed.subject.type = "other";
  EXPECT_EQ(decide(stand_in, typed).error, client_errc::no_rule);
  client_request unmatched;
  unmatched.subject.entries = {{"path", "/"}};
  EXPECT_EQ(decide(stand_in, unmatched).error, client_errc::no_rule);
  client_request limits;
  limits.subject = keyed("k", 3);
  limits.n = 2;
  EXPECT_TRUE(decide(stand_in, limits).is_allowed());
  EXPECT_FALSE(decide(stand_in, limits).is_allowed());
  EXPECT_EQ(decide(stand_in, limits).remaining, 1);
}

TEST(LimiterStandIn, GrantsItsShareOfLimitsThatComeWithARequest) {
  constexpr int clients = 3;
  client_request request;
  int granted = 0;
  for (int i = 0; i < clients; ++i) {
    limiter_stand_in stand_in(local(), clients);
    request.subject = keyed("k", 10);
    for (int j = 0; j < 10; ++j) granted += decide(stand_in, request).is_allowed();
    request.subject = keyed("few", clients - 1);
    const client_result none = decide(stand_in, request);
    EXPECT_EQ(none.error, client_errc::none);
    EXPECT_FALSE(none.is_allowed());
    EXPECT_EQ(none.retry_after, client_never);
  }
  EXPECT_EQ(granted, 9);
}

TEST(LimiterStandIn, DecidesSeveralTogetherOrEachSeparately) {
  limiter_stand_in stand_in(local());
  client_request request;
  request.several = {keyed("a", 1), keyed("b", 1)};
  EXPECT_TRUE(decide(stand_in, request).is_allowed());
  request.several = {keyed("a", 1), keyed("c", 1)};
  EXPECT_FALSE(decide(stand_in, request).is_allowed());
  request.each = true;  // the refusal above took nothing
  const client_result each = decide(stand_in, request);
  EXPECT_FALSE(each.is_allowed());
  ASSERT_EQ(each.levels.size(), 2u);
  EXPECT_FALSE(each.levels[0].allowed);
  EXPECT_TRUE(each.levels[1].allowed);
}

TEST(LimiterStandIn, KeepsTheErrorOfARequestItCannotDecide) {
  limiter_stand_in stand_in(local());
  client_request request;
  const auto expect_undecided = [&] {
    const client_result result = decide(stand_in, request);
    EXPECT_EQ(result.error, client_errc::unavailable);
    EXPECT_FALSE(result.is_allowed());
    EXPECT_NE(result.text, "");
  };
  request.subject = keyed("k", 1);
  request.n = 0;
  expect_undecided();
  request.n = -1;
  expect_undecided();
  request.n = 1;
  request.reset_first = true;
  expect_undecided();
  request.reset_first = false;
  request.subject.limits[0].window = 0s;
  expect_undecided();
  request.several = {of_ip("1").subject, keyed("k", 1)};
  for (const bool each : {false, true}) {
    request.each = each;
    expect_undecided();
  }
  request.several = {keyed("k", 1)};
  request.each = false;
  EXPECT_TRUE(decide(stand_in, request).is_allowed());
}

}  // namespace
}  // namespace sluice::tests::limiter_stand_in_test
