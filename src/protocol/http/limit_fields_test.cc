// The header fields about limits in all styles; structured fields are read back with wire's parser.
#include "protocol/http/limit_fields.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/bounds.h"
#include "base/buffer.h"
#include "base/time.h"
#include "limit/decide.h"
#include "limit/limit.h"
#include "tests/support/dice.h"
#include "wire/structured_fields_model.h"

namespace sluice::http::limit_fields_test {
namespace {

using limit::Algorithm;
using limit::Decision;
using limit::Limit;
namespace sf = wire::sf_model;

constexpr base::Duration minute = base::seconds(60), day = base::seconds(86'400);
constexpr base::Time now{1'700'000'000'250'000};
constexpr HeaderOptions ietf{.retry_after = false}, retry_after_only{.ietf = false},
    x_ratelimit{.ietf = false, .x_ratelimit = true, .retry_after = false};

constexpr Limit bucket(int64_t quota, base::Duration window, int64_t burst) {
  return {Algorithm::token_bucket, quota, window, burst};
}
constexpr Limit window_of(Algorithm algorithm, int64_t quota, base::Duration window) {
  return {algorithm, quota, window, 0};
}
constexpr Limit fixed_bucket(int64_t quota) {
  return {Algorithm::fixed_bucket, quota, {}, quota};
}

constexpr Decision granted(int64_t limit, int64_t remaining, base::Duration reset_after) {
  return {true, limit, remaining, reset_after, {}};
}
constexpr Decision refused(int64_t limit, int64_t remaining, base::Duration reset_after,
                           base::Duration retry_after) {
  return {false, limit, remaining, reset_after, retry_after};
}

std::string text_of(const FieldList& fields) {
  std::string text;
  for (size_t i = 0; i < fields.size(); ++i)
    text += std::string(fields[i].name) + ": " + std::string(fields[i].value) + "\n";
  return text;
}

std::string written(const LimitFields& what, const HeaderOptions& options = {}) {
  FieldList fields;
  append_limit_fields(what, options, fields);
  return text_of(fields);
}

// The fields for an answer that shows one limit.
std::string written(const ShownLimit& one, const HeaderOptions& options = {}) {
  LimitFields what;
  what.limits = {&one, 1};
  what.denied = !one.decision.allowed;
  what.retry_after = one.decision.retry_after;
  return written(what, options);
}

// 37 of 100 units are left; the minute ends in 11.5 s.
ShownLimit burst() {
  return {"burst", window_of(Algorithm::fixed_window, 100, minute),
          granted(100, 37, base::milliseconds(11'500))};
}
// None of 200 units is left; 100 come back per minute.
ShownLimit empty_bucket() {
  return {"tokens", bucket(100, minute, 200),
          refused(200, 0, base::seconds(120), base::milliseconds(600))};
}
// All units are left.
ShownLimit fresh_day() {
  return {"daily", window_of(Algorithm::aligned_window, 1000, day), granted(1000, 1000, {})};
}
ShownLimit places() {
  return {"places", fixed_bucket(5), refused(5, 0, base::never, base::never)};
}

TEST(LimitFields, PlacesHaveAUnitInPlaceOfAWindow) {
  base::Buffer out;
  const Limit pool{Algorithm::concurrency, 10, base::seconds(30), 300'000'000};
  append_policy_member("pool", "", pool, out);
  EXPECT_EQ(out.view(), "\"pool\";q=10;qu=\"concurrent-requests\"");
  out.clear();
  append_policy_member("pool", "tokens", pool, out);
  EXPECT_EQ(out.view(), "\"pool\";q=10;qu=\"concurrent-requests\"") << "also beside a rate";
}

TEST(LimitFields, TellWhatTheQuotaCounts) {
  base::Buffer out;
  append_policy_member("a", "tokens", bucket(100, minute, 200), out);
  EXPECT_EQ(out.view(), "\"a\";q=100;w=60;qu=\"tokens\";sluice-burst=200");
  ShownLimit one = burst();
  one.unit = "tokens";
  EXPECT_EQ(written(one, ietf),
            "RateLimit-Policy: \"burst\";q=100;w=60;qu=\"tokens\"\n"
            "RateLimit: \"burst\";r=37;t=12\n");
}

struct StyleCase {
  HeaderOptions style;
  std::string of_burst, of_bucket, of_day, of_places;
};

const std::vector<StyleCase>& style_cases() {
  static const std::vector<StyleCase> all = {
      {ietf, "RateLimit-Policy: \"burst\";q=100;w=60\nRateLimit: \"burst\";r=37;t=12\n",
       "RateLimit-Policy: \"tokens\";q=100;w=60;sluice-burst=200\nRateLimit: \"tokens\";r=0;t=1\n",
       "RateLimit-Policy: \"daily\";q=1000;w=86400\nRateLimit: \"daily\";r=1000\n",
       "RateLimit-Policy: \"places\";q=5\nRateLimit: \"places\";r=0\n"},
      {x_ratelimit, "X-RateLimit-Limit: 100\nX-RateLimit-Remaining: 37\nX-RateLimit-Reset: 12\n",
       "X-RateLimit-Limit: 200\nX-RateLimit-Remaining: 0\nX-RateLimit-Reset: 1\n",
       "X-RateLimit-Limit: 1000\nX-RateLimit-Remaining: 1000\nX-RateLimit-Reset: 0\n",
       "X-RateLimit-Limit: 5\nX-RateLimit-Remaining: 0\n"},
      {retry_after_only, "", "Retry-After: 1\n", "", ""},
  };
  return all;
}

TEST(LimitFields, MatchTheExamplesOfEveryStyle) {
  ASSERT_EQ(style_cases().size(), header_styles.size());
  for (size_t i = 0; i < header_styles.size(); ++i) {
    const StyleCase& one = style_cases()[i];
    EXPECT_TRUE(one.style.*header_styles[i].is_sent);
    EXPECT_EQ(written(burst(), one.style), one.of_burst);
    EXPECT_EQ(written(empty_bucket(), one.style), one.of_bucket);
    EXPECT_EQ(written(fresh_day(), one.style), one.of_day);
    EXPECT_EQ(written(places(), one.style), one.of_places);
  }
}

TEST(LimitFields, ByDefaultFollowTheDraftWithRetryAfter) {
  EXPECT_EQ(written(empty_bucket()), style_cases()[0].of_bucket + style_cases()[2].of_bucket);
}

TEST(LimitFields, ComeInTheOrderOfTheStyles) {
  EXPECT_EQ(written(empty_bucket(), {.x_ratelimit = true}),
            style_cases()[0].of_bucket + style_cases()[1].of_bucket + style_cases()[2].of_bucket);
}

TEST(LimitFields, HaveAMemberForEachLimit) {
  const std::vector<ShownLimit> limits = {burst(), fresh_day(), places()};
  LimitFields what;
  what.limits = limits;
  what.shown = 2;
  HeaderOptions options;
  const std::string policy =
      "RateLimit-Policy: \"burst\";q=100;w=60, \"daily\";q=1000;w=86400, \"places\";q=5\n";
  EXPECT_EQ(written(what, options), policy + "RateLimit: \"places\";r=0\n");
  what.shown = 0;
  EXPECT_EQ(written(what, options), policy + "RateLimit: \"burst\";r=37;t=12\n");
  what.shown = 3;
  EXPECT_EQ(written(what, options), policy);
  options.ratelimit_all = true;
  EXPECT_EQ(written(what, options),
            policy + "RateLimit: \"burst\";r=37;t=12, \"daily\";r=1000, \"places\";r=0\n");
  EXPECT_EQ(written(what, x_ratelimit), "");
}

TEST(LimitFields, WriteOnlyRetryAfterWithoutALimit) {
  LimitFields what;
  for (HeaderOptions options : {ietf, x_ratelimit, retry_after_only}) {
    EXPECT_EQ(written(what, options), "");
    options.ratelimit_all = true;
    EXPECT_EQ(written(what, options), "");
  }
  what.denied = true;
  what.retry_after = base::milliseconds(1'500);
  EXPECT_EQ(written(what), "Retry-After: 2\n");
}

TEST(LimitFields, BoundTheirMembers) {
  const std::vector<ShownLimit> limits(limit_members_max + 1, burst());
  LimitFields what;
  what.limits = limits;
  HeaderOptions options;
  options.ratelimit_all = true;
  FieldList fields;
  append_limit_fields(what, options, fields);
  ASSERT_EQ(fields.size(), 2u);
  for (size_t i = 0; i < 2; ++i) {
    const std::optional<sf::List> list = sf::parse_list(fields[i].value);
    ASSERT_TRUE(list);
    EXPECT_EQ(list->size(), limit_members_max);
  }
}

TEST(LimitFields, NamesAreQuoted) {
  ShownLimit one = burst();
  for (const auto& [name, member] :
       std::vector<std::array<std::string, 2>>{{"", R"("default")"},
                                               {"api/v1:per-tenant-2", R"("api/v1:per-tenant-2")"},
                                               {R"(a"b\c)", R"("a\"b\\c")"},
                                               {"f\xC3\xBC\n", R"("f___")"}}) {
    one.name = name;
    EXPECT_EQ(written(one, ietf),
              "RateLimit-Policy: " + member + ";q=100;w=60\nRateLimit: " + member + ";r=37;t=12\n");
  }
}

TEST(LimitFields, UseACachedPolicyMemberUnchanged) {
  base::Buffer text;
  append_policy_member("tokens", "", empty_bucket().limit, text);
  EXPECT_EQ(text.view(), R"("tokens";q=100;w=60;sluice-burst=200)");
  ShownLimit one = empty_bucket();
  one.policy_member = text.view();
  EXPECT_EQ(written(one), written(empty_bucket()));
  one.policy_member = "\"cached\"";
  EXPECT_TRUE(written(one).starts_with("RateLimit-Policy: \"cached\"\n"));
}

TEST(LimitFields, ShowThePartitionInBothFields) {
  ShownLimit one = burst();
  one.partition = "foobar";
  EXPECT_EQ(written(one),
            "RateLimit-Policy: \"burst\";q=100;w=60;pk=:Zm9vYmFy:\n"
            "RateLimit: \"burst\";r=37;t=12;pk=:Zm9vYmFy:\n");
}

TEST(LimitFields, SecondsOfAWindowAreRoundedUp) {
  for (const auto& [us, text] : std::vector<std::pair<int64_t, std::string>>{
           {1, "1"}, {999'999, "1"}, {1'000'000, "1"}, {1'000'001, "2"}, {90'000'000, "90"}}) {
    base::Buffer out;
    append_policy_member("a", "", bucket(7, {us}, 7), out);
    EXPECT_EQ(out.view(), "\"a\";q=7;w=" + text);
  }
}

TEST(LimitFields, NumbersHaveFifteenDigitsAtMost) {
  constexpr int64_t most = base::bounds::quota_max;
  const ShownLimit one = {"a", bucket(most, {1}, most), granted(most, most, {})};
  const std::string cut = "999999999999999";
  EXPECT_EQ(written(one),
            "RateLimit-Policy: \"a\";q=" + cut + ";w=1\nRateLimit: \"a\";r=" + cut + "\n");
  EXPECT_EQ(written(one, x_ratelimit), "X-RateLimit-Limit: " + cut + "\nX-RateLimit-Remaining: " +
                                           cut + "\nX-RateLimit-Reset: 0\n");
}

TEST(LimitFields, ShowDebtAsZeroRemaining) {
  const ShownLimit one = {"a", window_of(Algorithm::aligned_window, 10, minute),
                          refused(10, -5, base::seconds(30), base::seconds(30))};
  EXPECT_EQ(written(one),
            "RateLimit-Policy: \"a\";q=10;w=60\nRateLimit: \"a\";r=0;t=30\nRetry-After: 30\n");
  EXPECT_EQ(written(one, x_ratelimit),
            "X-RateLimit-Limit: 10\nX-RateLimit-Remaining: 0\nX-RateLimit-Reset: 30\n");
}

TEST(LimitFields, AQuotaOfZeroHasNoResetTime) {
  const ShownLimit one = {"a", window_of(Algorithm::aligned_window, 0, minute),
                          refused(0, 0, base::seconds(30), base::never)};
  EXPECT_EQ(written(one), "RateLimit-Policy: \"a\";q=0;w=60\nRateLimit: \"a\";r=0\n");
  EXPECT_EQ(written(one, x_ratelimit),
            "X-RateLimit-Limit: 0\nX-RateLimit-Remaining: 0\nX-RateLimit-Reset: 30\n");
}

// The value of Retry-After in a denial; empty if the field is left out.
std::string retry_after(base::Duration wait, const ShownLimit& one) {
  LimitFields what;
  what.limits = {&one, 1};
  what.denied = true;
  what.retry_after = wait;
  return written(what, retry_after_only);
}

TEST(RetryAfter, IsRoundedUpAndASecondAtLeast) {
  const ShownLimit one = places();
  EXPECT_EQ(retry_after({}, one), "Retry-After: 1\n");
  EXPECT_EQ(retry_after({1}, one), "Retry-After: 1\n");
  EXPECT_EQ(retry_after({1'000'000}, one), "Retry-After: 1\n");
  EXPECT_EQ(retry_after({1'000'001}, one), "Retry-After: 2\n");
  EXPECT_EQ(retry_after({base::never.us - 1}, one), "Retry-After: 9223372036855\n");
  EXPECT_EQ(retry_after(base::never, one), "");
}

TEST(RetryAfter, IsNotBeforeMoreIsAvailable) {
  EXPECT_EQ(retry_after(base::seconds(2), burst()), "Retry-After: 12\n");
  EXPECT_EQ(retry_after(base::seconds(20), burst()), "Retry-After: 20\n");
  EXPECT_EQ(retry_after(base::never, burst()), "");
}

TEST(RetryAfter, IsWrittenForDenialsOnly) {
  LimitFields what;
  what.retry_after = base::seconds(5);
  EXPECT_EQ(written(what), "");
}

TEST(RetryAfter, CanBeWrittenWithoutOtherFields) {
  FieldList fields;
  append_retry_after(base::milliseconds(1), {}, fields);
  append_retry_after(base::never, {}, fields);
  append_retry_after(base::seconds(1), ietf, fields);
  EXPECT_EQ(text_of(fields), "Retry-After: 1\n");
}

TEST(FieldList, IsUsedAgain) {
  const HeaderOptions options;
  FieldList fields;
  for (int i = 0; i < 3; ++i) {
    fields.clear();
    EXPECT_EQ(fields.size(), 0u);
    append_retry_after(base::seconds(i + 7), options, fields);
    fields.begin("Empty");
    fields.end();
    EXPECT_EQ(text_of(fields), "Retry-After: " + std::to_string(i + 7) + "\nEmpty: \n");
  }
}

// A random value from 0 to `most`, of any number of digits.
int64_t any_of(tests::Dice& dice, int64_t most) {
  return std::min(most, dice(INT64_MAX) >> dice(63));
}

Limit any_limit(tests::Dice& dice) {
  constexpr Algorithm algorithms[] = {Algorithm::fixed_window, Algorithm::aligned_window,
                                      Algorithm::token_bucket, Algorithm::sliding_window,
                                      Algorithm::sliding_log,  Algorithm::fixed_bucket,
                                      Algorithm::concurrency};
  const Algorithm algorithm = algorithms[dice(std::size(algorithms))];
  const int64_t quota = 1 + any_of(dice, base::bounds::quota_max - 1);
  if (algorithm == Algorithm::fixed_bucket) return fixed_bucket(quota);
  const base::Duration window{1 + any_of(dice, base::bounds::window_us_max - 1)};
  if (algorithm == Algorithm::concurrency) return {algorithm, quota, window, window.us};
  if (algorithm != Algorithm::token_bucket) return window_of(algorithm, quota, window);
  return bucket(quota, window,
                dice(2) == 0 ? quota : 1 + any_of(dice, base::bounds::quota_max - 1));
}

int64_t cut(int64_t value) {
  return std::clamp<int64_t>(value, 0, 999'999'999'999'999);
}

// The integer of the parameter `name`; nothing if the item does not have it.
std::optional<int64_t> parameter(const sf::Item& item, std::string_view name) {
  const sf::Bare* const bare = item.find(name);
  if (bare == nullptr) return {};
  EXPECT_EQ(bare->type, sf::Bare::Type::integer) << name;
  return bare->number;
}

void check_policy(const sf::Item& item, const ShownLimit& one) {
  EXPECT_EQ(item.value, (sf::Bare{sf::Bare::Type::string, 0, std::string(one.name)}));
  EXPECT_EQ(parameter(item, "q"), cut(one.limit.quota));
  const bool is_places = one.limit.algorithm == Algorithm::concurrency;
  const bool has_window = one.limit.algorithm != Algorithm::fixed_bucket && !is_places;
  std::optional<int64_t> w, more;
  if (has_window) w = (one.limit.window.us + 999'999) / 1'000'000;
  if (has_window && one.limit.burst != 0 && one.limit.burst != one.limit.quota)
    more = cut(one.limit.burst);
  EXPECT_EQ(parameter(item, "w"), w);
  EXPECT_EQ(parameter(item, "sluice-burst"), more);
  EXPECT_EQ(item.parameters.size(), 1u + w.has_value() + more.has_value() + is_places);
}

void check_state(const sf::Item& item, const ShownLimit& one) {
  EXPECT_EQ(item.value, (sf::Bare{sf::Bare::Type::string, 0, std::string(one.name)}));
  EXPECT_EQ(parameter(item, "r"), cut(one.decision.remaining));
  const base::Duration more = time_to_more(one.limit, one.decision);
  std::optional<int64_t> t;
  if (more != base::never) t = more.us / 1'000'000 + (more.us % 1'000'000 != 0);
  EXPECT_EQ(parameter(item, "t"), t);
  EXPECT_EQ(item.parameters.size(), 1u + t.has_value());
}

TEST(LimitFields, RandomLimitsParseBackTheSame) {
  const HeaderOptions options{.x_ratelimit = true, .ratelimit_all = true};
  FieldList fields;
  for (uint32_t seed = 1; seed <= 5'000 && !testing::Test::HasFailure(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    tests::Dice dice(seed);
    std::vector<ShownLimit> limits(1 + dice(size_t{4}));
    for (ShownLimit& one : limits) {
      constexpr std::string_view names[] = {"a", "b\"c", "d\\", "e, f;g=\"h\"", "0123456789"};
      one.name = names[dice(std::size(names))];
      one.limit = any_limit(dice);
      std::array<limit::State, limit::limit_cells_max> state{};
      const int64_t cost = 1 + any_of(dice, limit::units_max(one.limit));
      limit::decide(state.data(), one.limit, cost, now, state.data());
      const int64_t next = any_of(dice, cost);
      one.decision = limit::decide(state.data(), one.limit, next, now, state.data());
    }
    LimitFields what;
    what.limits = limits;
    what.shown = dice(limits.size());
    fields.clear();
    append_limit_fields(what, options, fields);
    const Decision& shown = limits[what.shown].decision;
    ASSERT_GE(fields.size(), 4u);
    const auto policy = sf::parse_list(fields[0].value), state = sf::parse_list(fields[1].value);
    ASSERT_TRUE(policy && state) << text_of(fields);
    ASSERT_EQ(policy->size(), limits.size());
    ASSERT_EQ(state->size(), limits.size());
    for (size_t i = 0; i < limits.size(); ++i) {
      check_policy((*policy)[i], limits[i]);
      check_state((*state)[i], limits[i]);
    }
    const auto limit = sf::parse_item(fields[2].value), left = sf::parse_item(fields[3].value);
    EXPECT_EQ(limit, (sf::Item{{sf::Bare::Type::integer, cut(shown.limit)}}));
    EXPECT_EQ(left, (sf::Item{{sf::Bare::Type::integer, cut(shown.remaining)}}));
  }
}

std::string written_plainly(const ShownLimit& one, const HeaderOptions& options) {
  base::Buffer name, member;
  append_member_name(one.name, name);
  append_policy_member(one.name, one.unit, one.limit, member);
  FieldList fields;
  append_plain_fields({member.view(), name.view(), one.limit, one.decision}, options, fields);
  return text_of(fields);
}

TEST(LimitFields, TheShortWayWritesTheSameFields) {
  for (uint32_t seed = 1; seed <= 5'000; ++seed) {
    tests::Dice dice(seed);
    const HeaderOptions options{
        .ietf = dice(8) > 0, .retry_after = dice(8) > 0, .ratelimit_all = dice(2) == 0};
    ShownLimit one;
    one.name = dice(2) == 0 ? "" : "a\"b";
    one.limit = any_limit(dice);
    std::array<limit::State, limit::limit_cells_max> state{};
    one.decision = limit::decide(state.data(), one.limit, any_of(dice, limit::units_max(one.limit)),
                                 now, state.data());
    if (dice(8) == 0) one.decision.remaining = -1 - any_of(dice, 1'000);
    LimitFields what;
    what.limits = {&one, 1};
    ASSERT_EQ(written_plainly(one, options), written(what, options)) << "seed " << seed;
  }
}

TEST(FieldList, HasLinesOfHttp1) {
  FieldList fields;
  fields.begin("A").append("1");
  fields.end();
  fields.begin("Bc");
  fields.end();
  EXPECT_EQ(fields.lines(), "A: 1\r\nBc: \r\n");
  EXPECT_EQ(text_of(fields), "A: 1\nBc: \n");
  fields.clear();
  EXPECT_EQ(fields.lines(), "");
}

}  // namespace
}  // namespace sluice::http::limit_fields_test
