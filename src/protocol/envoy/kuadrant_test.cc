// Kuadrant's service: its messages, and what its methods do to counters. A gRPC client, engine and
// table in memory, without sockets.
#include "protocol/envoy/kuadrant.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "access/users_by_rights_test.h"
#include "protocol/envoy/kuadrant_world_test.h"
#include "tests/support/dice.h"

namespace sluice::envoy::kuadrant_test {
namespace {

using namespace kuadrant_world;

// ---- Messages ----

TEST(KuadrantMessages, AReserveAndACommitAreReadAsByProtobuf) {
  tests::Dice dice(1);
  for (int round = 0; round < 2'000; ++round) {
    const uint64_t amount = dice(UINT64_MAX) >> dice(64);
    const int64_t seconds = dice(int64_t{100}) - 10;
    const auto nanos = dice(int32_t{1'000'000'000});
    const bool has_ttl = dice(2) == 0;
    wire_kuadrant::ReserveRequest reserve;
    set_subjects({{{{"k", "v"}}, 3, true}, {{{"a", "b"}, {"c", "d"}}}}, "d", reserve);
    reserve.set_amount(amount);
    if (has_ttl) {
      reserve.mutable_ttl()->set_seconds(seconds);
      reserve.mutable_ttl()->set_nanos(nanos);
    }
    KuadrantCall call{.method = Method::reserve};
    RateLimitRequest message;
    const std::string bytes = reserve.SerializeAsString();
    ASSERT_EQ(read_kuadrant(bytes, message, call), ReadProblem::none);
    const auto capped = static_cast<int64_t>(std::min<uint64_t>(amount, limit::used_max));
    ASSERT_EQ(call.amount, capped);
    const int64_t us = seconds * 1'000'000 + nanos / 1'000;
    ASSERT_EQ(call.ttl.us, has_ttl && us > 0 ? us : 0);
    ASSERT_EQ(message.domain, "d");
    ASSERT_EQ(message.descriptors.size(), 2u);
    ASSERT_EQ(message.entries.size(), 3u);
    ASSERT_EQ(message.hits_addend, 0u);
    ASSERT_FALSE(message.descriptors[0].is_negative_hits);
    ASSERT_FALSE(message.descriptors[0].hits_addend);

    wire_kuadrant::CommitRequest commit;
    set_subjects({{{{"k", "v"}}}}, "d", commit);
    commit.set_reservation_id(std::string(dice(size_t{70}), 'x'));
    commit.set_actual_amount(amount);
    call = {.method = Method::commit};
    const std::string committed = commit.SerializeAsString();
    ASSERT_EQ(read_kuadrant(committed, message, call), ReadProblem::none);
    ASSERT_EQ(call.id, commit.reservation_id());
    ASSERT_EQ(call.amount, capped);
  }
}

TEST(KuadrantMessages, WhatIsBrokenIsRefused) {
  const auto problem_of = [](Method method, const std::string& bytes) {
    KuadrantCall call{.method = method};
    RateLimitRequest message;
    return read_kuadrant(bytes, message, call);
  };
  EXPECT_EQ(problem_of(Method::commit, "\x1A\x02\xFF\xFE"), ReadProblem::not_utf8);
  EXPECT_EQ(problem_of(Method::commit, "\x1A\x05x"), ReadProblem::malformed);
  EXPECT_EQ(problem_of(Method::reserve, "\x22\x02\x08"), ReadProblem::malformed);
  EXPECT_EQ(problem_of(Method::reserve, "\x22\x01\x08"), ReadProblem::malformed);
  EXPECT_EQ(problem_of(Method::report, "\x0A\x02\xFF\xFE"), ReadProblem::not_utf8);
  // The fields of the other message have other types.
  EXPECT_EQ(problem_of(Method::reserve, "\x1A\x01x\x20\x01"), ReadProblem::none);
}

TEST(KuadrantMessages, AnswersAreThoseOfProtobuf) {
  const auto bytes_of = [](const KuadrantCall& call) {
    base::Buffer out;
    append_kuadrant_response(call, out);
    return std::string(out.view());
  };
  for (const Code code : {Code::unknown, Code::ok, Code::over_limit})
    for (const std::string id : {"", "abcdefghijklmnop"}) {
      wire_kuadrant::ReserveResponse reserved;
      reserved.set_code(static_cast<proto::RateLimitResponse::Code>(code));
      reserved.set_reservation_id(id);
      EXPECT_EQ(bytes_of({.method = Method::reserve, .code = code, .made_id = id}),
                reserved.SerializeAsString());
      proto::RateLimitResponse checked;
      checked.set_overall_code(reserved.code());
      EXPECT_EQ(bytes_of({.method = Method::check_rate_limit, .code = code}),
                checked.SerializeAsString());
    }
  for (const bool released : {false, true}) {
    wire_kuadrant::CommitResponse committed;
    committed.set_reservation_released(released);
    EXPECT_EQ(bytes_of({.method = Method::commit, .code = Code::ok, .released = released}),
              committed.SerializeAsString());
  }
}

// ---- The service ----

constexpr const char* limits = R"(
domain: d
descriptors:
  - { key: k, rate_limit: { unit: day, requests_per_unit: 100 } }
  - { key: h, rate_limit: { unit: hour, requests_per_unit: 10 } }
  - { key: w, rate_limit: { window: 30s, requests_per_unit: 100 } }
  - { key: b, rate_limit: { unit: minute, requests_per_unit: 100, algorithm: token_bucket } }
  - { key: s, shadow_mode: true, rate_limit: { unit: day, requests_per_unit: 10 } }
  - { key: u, rate_limit: { unlimited: true } }
)";
constexpr const char* native = R"(
rules:
  - { name: n, match: { n: "*" }, actor: n, limit: { quota: 50, window: 1h } }
  - { name: strict, match: { strict: "*" }, actor: strict, limit: { quota: 50, window: 1h },
      reserve: { max_fraction: 0.2, max_ttl: 10s, late_commit: ignore } }
)";

const std::vector<Wish> of_k = {{{{"k", "a"}}}}, of_h = {{{{"h", "a"}}}}, of_n = {{{{"n", "a"}}}},
                        of_none = {{{{"none", "a"}}}};

class KuadrantService : public testing::Test {
 protected:
  KuadrantService() { EXPECT_TRUE(world.load({{"limits.yaml", limits}}, {}, {}, native)); }
  // How many of so many calls with one hit each fit.
  int fitting(const std::vector<Wish>& wishes) {
    int n = 0;
    while (n < 1'000 && gateway.check(wishes) == "OK") {
      gateway.report(wishes);
      ++n;
    }
    return n;
  }
  static constexpr const char* unknown_id = "0123456789abcdefghij";

  World world;
  Gateway gateway{world};
};

TEST_F(KuadrantService, CheckAsksWhetherOneHitFitsAndTakesNothing) {
  for (const auto& wishes :
       {of_h, std::vector<Wish>{{{{"h", "b"}}, 1'000}}, std::vector<Wish>{{{{"h", "c"}}, 0}}}) {
    for (int i = 0; i < 20; ++i) EXPECT_EQ(gateway.check(wishes), "OK");
    EXPECT_EQ(gateway.report({{wishes[0].entries, 9}}), "OK");
    EXPECT_EQ(gateway.check(wishes), "OK");
    EXPECT_EQ(gateway.report({{wishes[0].entries}}), "OK");
    EXPECT_EQ(gateway.check(wishes), "OVER_LIMIT");
  }
  EXPECT_EQ(gateway.check({of_k[0], of_h[0]}), "OVER_LIMIT");
  // Each descriptor by itself.
  EXPECT_EQ(gateway.report({{{{"h", "d"}}, 9}}), "OK");
  EXPECT_EQ(gateway.check({{{{"h", "d"}}}, {{{"h", "d"}}}}), "OK");
}

TEST_F(KuadrantService, CheckIsOverWhereANativeRuleRefuses) {
  EXPECT_EQ(gateway.check(of_n), "OK");
  EXPECT_EQ(gateway.report(of_n, 50), "OK");
  EXPECT_EQ(gateway.check(of_n), "OVER_LIMIT");
  EXPECT_EQ(gateway.check({{{{"b", "a"}}}}), "OK");
  EXPECT_EQ(gateway.report({{{{"b", "a"}}, 100}}), "OK");
  EXPECT_EQ(gateway.check({{{{"b", "a"}}}}), "OVER_LIMIT");
}

TEST_F(KuadrantService, ReportChargesPastTheLimitAndIsAlwaysOk) {
  EXPECT_EQ(gateway.report(of_k), "OK");
  EXPECT_EQ(gateway.should_rate_limit(of_k), "OK: OK 98/100 DAY 57877s");
  EXPECT_EQ(gateway.report(of_k, 5), "OK");
  EXPECT_EQ(gateway.report({{of_k[0].entries, 0}}, 5), "OK");  // 0 is 1, also of a descriptor
  EXPECT_EQ(gateway.should_rate_limit({{of_k[0].entries, 2}}), "OK: OK 90/100 DAY 57877s");
  EXPECT_EQ(gateway.report(of_k, 1'000), "OK");
  EXPECT_EQ(gateway.report(of_n, 1'000), "OK");
  EXPECT_EQ(gateway.report({{{{"b", "a"}}, 1'000}}), "OK");
  for (const auto& wishes : {of_k, of_n, std::vector<Wish>{{{{"b", "a"}}}}})
    EXPECT_EQ(gateway.check(wishes), "OVER_LIMIT");
}

TEST_F(KuadrantService, ReportGivesHitsBack) {
  EXPECT_EQ(gateway.report(of_h, 10), "OK");
  EXPECT_EQ(gateway.check(of_h), "OVER_LIMIT");
  EXPECT_EQ(gateway.report({{of_h[0].entries, 4, true}}), "OK");
  EXPECT_EQ(fitting(of_h), 4);
}

TEST_F(KuadrantService, WithoutADomainTheCodeIsUnknown) {
  EXPECT_EQ(gateway.check(of_k, ""), "UNKNOWN");
  EXPECT_EQ(gateway.report(of_k, 1, ""), "UNKNOWN");
  EXPECT_EQ(gateway.reserve(of_k, 1, {}, ""), "UNKNOWN");
  EXPECT_EQ(gateway.id, "");
  EXPECT_EQ(gateway.commit(of_k, unknown_id, 1, ""), "charged");
  EXPECT_EQ(fitting(of_k), 100);
}

TEST_F(KuadrantService, WhereNoLimitAppliesEverythingIsOk) {
  for (const auto& [wishes, domain] :
       std::vector<std::pair<std::vector<Wish>, std::string>>{{of_none, "d"},
                                                              {of_k, "elsewhere"},
                                                              {{}, "d"},
                                                              {{{{}}}, "d"},
                                                              {{{{{"u", "a"}}}}, "d"}}) {
    EXPECT_EQ(gateway.check(wishes, domain), "OK");
    EXPECT_EQ(gateway.report(wishes, 1'000, domain), "OK");
    EXPECT_EQ(gateway.reserve(wishes, 1'000, {}, domain), "OK");
    ASSERT_NE(gateway.id, "");
    EXPECT_EQ(gateway.commit(wishes, gateway.id, 5, domain), "released");
    EXPECT_EQ(gateway.commit(wishes, gateway.id, 5, domain), "charged");
    EXPECT_EQ(gateway.commit(wishes, unknown_id + domain, 5, domain), "charged");
    EXPECT_EQ(gateway.commit(wishes, "", 5, domain), "charged");
  }
}

TEST_F(KuadrantService, AReserveTakesAndACommitGivesBackWhatWasNotUsed) {
  for (const std::vector<Wish>& wishes :
       {of_k, std::vector<Wish>{{{{"w", "a"}}}}, std::vector<Wish>{{{{"b", "a"}}}}}) {
    EXPECT_EQ(gateway.reserve(wishes, 50), "OK");
    const std::string first = gateway.id;
    EXPECT_EQ(gateway.reserve(wishes, 40), "OK");
    const std::string second = gateway.id;
    EXPECT_EQ(gateway.reserve(wishes, 11), "OVER_LIMIT");
    EXPECT_EQ(gateway.id, "");
    EXPECT_EQ(gateway.commit(wishes, first, 20), "released");   // 40 are left
    EXPECT_EQ(gateway.commit(wishes, second, 70), "released");  // 10 are left
    EXPECT_EQ(fitting(wishes), 10);
  }
}

TEST_F(KuadrantService, NativeRulesHoldAsWell) {
  EXPECT_EQ(gateway.reserve(of_n, 25), "OK");
  EXPECT_EQ(gateway.reserve(of_n, 26), "OK");  // cut to 25
  EXPECT_EQ(gateway.reserve(of_n, 1), "OVER_LIMIT");
  EXPECT_EQ(gateway.check(of_n), "OVER_LIMIT");
}

TEST_F(KuadrantService, AnsweredTakesSeeWhatIsHeld) {
  EXPECT_EQ(gateway.reserve(of_h, 5), "OK");
  EXPECT_EQ(gateway.should_rate_limit({{of_h[0].entries, 5}}), "OK: OK 0/10 HOUR 277s");
  EXPECT_EQ(gateway.should_rate_limit(of_h), "OVER_LIMIT: OVER_LIMIT 0/10 HOUR 277s");
}

TEST_F(KuadrantService, AllDescriptorsAreHeldOrNone) {
  EXPECT_EQ(gateway.report(of_h, 8), "OK");
  EXPECT_EQ(gateway.reserve({of_k[0], of_h[0]}, 3), "OVER_LIMIT");
  EXPECT_EQ(gateway.reserve({of_k[0], of_h[0]}, 2), "OK");
  const std::string id = gateway.id;
  EXPECT_EQ(gateway.check(of_h), "OVER_LIMIT");
  EXPECT_EQ(gateway.commit(of_k, id, 1),
            "3 the reservation has 2 descriptors; commit it with as many");
  EXPECT_EQ(gateway.commit({of_k[0], of_h[0]}, id, 1), "released");
  EXPECT_EQ(fitting(of_h), 1);
  EXPECT_EQ(fitting(of_k), 99);
  // Two with one counter take from it twice.
  EXPECT_EQ(gateway.reserve({{{{"h", "b"}}}, {{{"h", "b"}}}}, 4), "OK");
  EXPECT_EQ(fitting({{{{"h", "b"}}}}), 2);
}

TEST_F(KuadrantService, AnEstimateIsCutToThePartOfEachLimit) {
  EXPECT_EQ(gateway.reserve({of_k[0], of_h[0]}, 1'000'000), "OK");  // 50 and 5
  EXPECT_EQ(fitting(of_h), 5);
  EXPECT_EQ(fitting(of_k), 50);
  EXPECT_EQ(gateway.reserve({{{{"strict", "a"}}}}, 40), "OK");  // the rule says 0.2
  EXPECT_EQ(fitting({{{{"strict", "a"}}}}), 40);
  world.options.holds.terms.fraction = 10'000;
  EXPECT_EQ(gateway.reserve({{{{"strict", "b"}}}}, 40), "OK");  // a hundredth of 50 is 0
  ASSERT_NE(gateway.id, "");
  EXPECT_EQ(fitting({{{{"strict", "b"}}}}), 50);
  EXPECT_EQ(gateway.commit({{{{"strict", "b"}}}}, gateway.id, 7), "released");
  world.options.holds.terms.fraction = request::HoldTerms::whole;
  EXPECT_EQ(gateway.reserve({{{{"k", "b"}}}}, 101), "OVER_LIMIT");
  EXPECT_EQ(gateway.reserve({{{{"k", "b"}}}}, 100), "OK");
}

TEST_F(KuadrantService, NothingCanBeHeldAndIsTracked) {
  EXPECT_EQ(gateway.reserve(of_h, 0), "OK");
  ASSERT_NE(gateway.id, "");
  EXPECT_EQ(gateway.commit(of_h, gateway.id, 4), "released");
  EXPECT_EQ(fitting(of_h), 6);
}

// ---- Ends ----

TEST_F(KuadrantService, AHoldEndsByItselfAtTheLatestWhenTheServerSays) {
  const std::pair<std::optional<int64_t>, int64_t> cases[] = {
      {std::nullopt, 60'000}, {0, 60'000},        {-5'000, 60'000}, {10, 10},
      {59'000, 59'000},       {3'600'000, 60'000}};
  for (const auto& [asked_ms, held_ms] : cases) {
    EXPECT_EQ(gateway.reserve(of_k, 50, asked_ms), "OK");
    world.sleep_us(held_ms * 1'000 - 1);
    EXPECT_EQ(gateway.reserve(of_k, 51, 1), "OK");  // cut to 50
    EXPECT_EQ(gateway.check(of_k), "OVER_LIMIT");
    world.sleep_us(1);
    EXPECT_EQ(gateway.check(of_k), "OK");
    world.sleep_us(1'000);
  }
  EXPECT_EQ(gateway.reserve({{{{"strict", "a"}}}}, 10, 50'000), "OK");  // the rule says 10 s
  world.sleep_us(10'000'000);
  EXPECT_EQ(fitting({{{{"strict", "a"}}}}), 50);
}

// What becomes of a Commit by what has become of the hold: the answer, and how many of 10 are left.
TEST_F(KuadrantService, EachStateAnswersACommitAsItsLineSays) {
  struct Line {
    const char* state;
    uint64_t amount;
    const char* answer;
    int left;
  };
  constexpr Line lines[] = {
      {"held", 0, "released", 10},
      {"held", 3, "released", 7},
      {"held", 5, "released", 5},
      {"held", 9, "released", 1},
      {"held", 12, "released", 0},
      {"committed with 2", 2, "charged", 8},
      {"committed with 2", 3,
       "9 the reservation is committed with another amount; nothing was charged", 8},
      {"ended", 3, "charged", 7},
      {"ended", 0, "charged", 10},
      {"ended, committed with 2", 2, "charged", 8},
      {"ended, committed with 2", 3,
       "9 the reservation is committed with another amount; nothing was charged", 8},
      {"forgotten", 3, "charged", 7},
      {"unknown", 3, "charged", 7},
      {"unknown, committed with 2", 2, "charged", 8},
      {"unknown, committed with 2", 3,
       "9 the reservation is committed with another amount; nothing was charged", 8},
      {"no id", 3, "charged", 7},
      {"no id, committed with 2", 2, "charged", 6},
      {"not an id", 3, "charged", 7},
  };
  int number = 0;
  for (const Line& line : lines) {
    const std::vector<Wish> wishes = {{{{"h", std::to_string(++number)}}}};
    const std::string state = line.state;
    std::string id;
    if (state.starts_with("unknown")) {
      id = "unknown-to-the-server-" + std::to_string(number);
    } else if (state == "not an id") {
      id = "not an id";
    } else if (!state.starts_with("no id")) {
      ASSERT_EQ(gateway.reserve(wishes, 5), "OK");
      id = gateway.id;
    }
    if (state.starts_with("ended") || state == "forgotten") world.sleep_us(60'000'000);
    if (state == "forgotten") {
      EXPECT_EQ(gateway.check(wishes), "OK");
      world.sleep_us(600'000'000);
    }
    if (state.ends_with("committed with 2")) gateway.commit(wishes, id, 2);
    EXPECT_EQ(gateway.commit(wishes, id, line.amount), line.answer) << state;
    EXPECT_EQ(fitting(wishes), line.left) << state << " " << line.amount;
    world.sleep_us(3'600'000'000);
  }
}

TEST_F(KuadrantService, ALateCommitIsIgnoredWhereTheRuleSaysSo) {
  const std::vector<Wish> wishes = {{{{"strict", "a"}}}};
  EXPECT_EQ(gateway.reserve(wishes, 10), "OK");
  world.sleep_us(10'000'000);
  EXPECT_EQ(gateway.commit(wishes, gateway.id, 10), "charged");
  EXPECT_EQ(fitting(wishes), 50);
}

// ---- Limits that refuse nothing, limits that come along ----

TEST_F(KuadrantService, LimitsInShadowHoldAndRefuseNothing) {
  const std::vector<Wish> wishes = {{{{"s", "a"}}}};
  EXPECT_EQ(gateway.reserve(wishes, 6), "OK");
  const std::string id = gateway.id;
  EXPECT_EQ(gateway.reserve(wishes, 6), "OK");
  EXPECT_EQ(gateway.check(wishes), "OK");
  EXPECT_EQ(gateway.commit(wishes, id, 1), "released");
  EXPECT_EQ(gateway.should_rate_limit(wishes), "OK: OK 8/10 DAY 57877s");
}

TEST_F(KuadrantService, WithShadowModeOfTheServiceARefusalPassesUnheld) {
  world.options.response.shadow = true;
  EXPECT_EQ(gateway.report(of_h, 10), "OK");
  EXPECT_EQ(gateway.check(of_h), "OK");
  EXPECT_EQ(gateway.reserve(of_h, 5), "OK");
  EXPECT_EQ(gateway.id, "");
}

std::string with_limit(const std::vector<std::pair<std::string, uint32_t>>& limits_of,
                       int unit = 2) {
  wire_kuadrant::ReserveRequest request;
  request.set_domain("d");
  request.set_amount(5);
  for (const auto& [value, quota] : limits_of) {
    auto* const descriptor = request.add_descriptors();
    auto* const entry = descriptor->add_entries();
    entry->set_key("o");
    entry->set_value(value);
    descriptor->mutable_limit()->set_requests_per_unit(quota);
    descriptor->mutable_limit()->set_unit(static_cast<proto::RateLimitUnit>(unit));
  }
  return request.SerializeAsString();
}

TEST_F(KuadrantService, LimitsOfTheMessageHoldAsWell) {
  const auto code_of = [&](const std::string& message) {
    const GrpcAnswer answer = gateway.call("Reserve", message);
    wire_kuadrant::ReserveResponse response;
    EXPECT_TRUE(response.ParseFromString(answer.message));
    return answer.code == 0 ? proto::RateLimitResponse::Code_Name(response.code())
                            : std::to_string(answer.code) + " " + answer.text;
  };
  EXPECT_EQ(code_of(with_limit({{"a", 10}})), "OK");
  EXPECT_EQ(code_of(with_limit({{"a", 10}, {"b", 10}})), "OK");
  EXPECT_EQ(code_of(with_limit({{"a", 10}, {"b", 10}})), "OVER_LIMIT");
  EXPECT_EQ(code_of(with_limit({{"c", 10}, {"c", 11}})),
            "3 two descriptors bring different limits for one counter");
  EXPECT_EQ(code_of(with_limit({{"c", 10}, {"c", 10}})), "OK");
  EXPECT_EQ(code_of(with_limit({{"c", 10}}, 99)), "3 descriptors[0].limit.unit: 99 is not a unit");
}

// ---- What is refused ----

TEST_F(KuadrantService, AReservationHasABoundedNumberOfDescriptors) {
  std::vector<Wish> wishes;
  for (int i = 0; i < 64; ++i) wishes.push_back({{{"k", std::to_string(i)}}});
  EXPECT_EQ(gateway.reserve(wishes, 50), "OK");
  EXPECT_EQ(gateway.commit(wishes, gateway.id, 1), "released");
  wishes.push_back(of_k[0]);
  const std::string too_many =
      "3 a reservation has at most 64 descriptors, as they are held all or nothing";
  EXPECT_EQ(gateway.reserve(wishes, 1), too_many);
  EXPECT_EQ(gateway.commit(wishes, "", 1), too_many);
  EXPECT_EQ(gateway.report(wishes), "OK");
  EXPECT_EQ(gateway.check(wishes), "OK");
}

TEST_F(KuadrantService, AStoreThatCannotDecideIsUnavailable) {
  EXPECT_EQ(gateway.reserve(of_k, 5), "OK");
  const std::string id = gateway.id;
  world.table.fails = true;
  for (const std::string& answer :
       {gateway.check(of_k), gateway.report(of_k), gateway.reserve(of_k, 1),
        gateway.commit(of_k, id, 1), gateway.commit(of_k, unknown_id, 1),
        gateway.commit(of_k, "", 1)})
    EXPECT_EQ(answer.substr(0, 3), "14 ") << answer;
  world.table.fails = false;
  EXPECT_EQ(gateway.commit(of_k, unknown_id, 1), "charged");
  EXPECT_EQ(gateway.commit(of_k, id, 1), "released");
  EXPECT_EQ(fitting(of_k), 98);
}

TEST_F(KuadrantService, ReservationsCanBeSwitchedOff) {
  world.options.holds.enabled = false;
  const std::string off =
      "12 reservations are switched off: `envoy: { holds: { enabled: false } }`";
  EXPECT_EQ(gateway.reserve(of_k, 1), off);
  EXPECT_EQ(gateway.commit(of_k, "", 1), off);
  EXPECT_EQ(gateway.check(of_k), "OK");
  EXPECT_EQ(gateway.report(of_k), "OK");
}

TEST_F(KuadrantService, ACallPastItsDeadlineChargesNothing) {
  gateway.more.emplace_back("grpc-timeout", "0m");
  EXPECT_EQ(gateway.report(of_h, 10), "4 the caller's deadline has passed");
  EXPECT_EQ(gateway.reserve(of_h, 5), "4 the caller's deadline has passed");
  EXPECT_EQ(gateway.reserve({of_h[0], of_k[0]}, 5), "4 the caller's deadline has passed");
  // But for what has happened.
  EXPECT_EQ(gateway.commit(of_h, unknown_id, 4), "charged");
  gateway.more.clear();
  EXPECT_EQ(fitting(of_h), 6);
}

TEST_F(KuadrantService, AnUnknownMethodIsUnimplemented) {
  const GrpcAnswer answer = gateway.call("Release", {});
  EXPECT_EQ(answer.code, 12u);
  EXPECT_EQ(answer.text,
            "unknown method Release for service kuadrant.service.ratelimit.v1.RateLimitService");
}

TEST_F(KuadrantService, IdsAreOfTheirUser) {
  std::vector<access::User> two;
  for (const std::string name : {"ann", "bob"})
    two.push_back({name, tests::every_right, access::digest_of(name)});
  world.access.set(std::make_shared<const access::Users>(std::move(two)));
  Gateway ann(world, "ann"), bob(world, "bob");
  EXPECT_EQ(ann.reserve(of_h, 5), "OK");
  EXPECT_EQ(bob.commit(of_h, ann.id, 1), "charged");  // unknown to bob
  EXPECT_EQ(ann.commit(of_h, ann.id, 2), "released");
  const auto left = [&] {
    int n = 0;
    while (ann.check(of_h) == "OK" && n < 20) ann.report(of_h), ++n;
    return n;
  };
  EXPECT_EQ(left(), 7);
}

TEST_F(KuadrantService, CallsAreCountedByTheirMethodsAndReportsByTheirHits) {
  world.options.metrics = std::make_shared<LimitMetrics>(LimitMetrics::Options{});
  World& its = world;
  its.worker.metrics = &its.options.metrics->add_worker();
  const WorkerMetrics& counted = *its.worker.metrics;
  gateway.check(of_k);
  gateway.report(of_k, 7);
  gateway.reserve(of_k, 7);
  gateway.commit(of_k, gateway.id, 7);
  gateway.commit(of_k, gateway.id, 7);
  for (const auto& [method, n] :
       std::vector<std::pair<Method, uint64_t>>{{Method::should_rate_limit, 0},
                                                {Method::check, 0},
                                                {Method::check_rate_limit, 1},
                                                {Method::report, 1},
                                                {Method::reserve, 1},
                                                {Method::commit, 2}})
    EXPECT_EQ(counted.requests(method), n);
  const MetricPaths& paths = its.options.metrics->paths();
  for (uint32_t path = 0; path < paths.size(); ++path) {
    const uint64_t hits = paths.at(path) == "d.k" ? 7 : 0;
    EXPECT_EQ(counted.read(path, PathStat::total_hits), hits) << paths.at(path);
    EXPECT_EQ(counted.read(path, PathStat::within_limit), hits) << paths.at(path);
  }
}

}  // namespace
}  // namespace sluice::envoy::kuadrant_test
