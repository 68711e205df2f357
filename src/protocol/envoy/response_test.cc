// How verdicts of descriptors become a response: statuses, the overall code, header fields,
// metadata and errors, also against a naive model; and the times of windows.
#include "protocol/envoy/response.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "protocol/envoy/call.h"
#include "protocol/envoy/json.h"
#include "protocol/envoy/window.h"
#include "tests/support/dice.h"

namespace sluice::envoy::response_test {
namespace {

using Kind = DescriptorResult::Kind;
using tests::Dice;

DescriptorResult limited(uint32_t limit, int64_t count, std::string_view name = "") {
  DescriptorResult result;
  result.kind = Kind::limited;
  result.limit = {limit, WireUnit::hour, name, 0};
  result.standing = standing_at(count, limit);
  result.seconds_until_reset = 3'000;
  result.window_seconds = 3'600;
  return result;
}
DescriptorResult shadowed(DescriptorResult result) {
  result.shadow = true;
  return result;
}
DescriptorResult quota(DescriptorResult result) {
  result.quota = true;
  return result;
}
DescriptorResult without(Kind kind) {
  DescriptorResult result;
  result.kind = kind;
  return result;
}

const DescriptorResult over = limited(5, 6), holds = limited(5, 3);
const DescriptorResult none = without(Kind::none), unlimited = without(Kind::unlimited);

struct Composed {
  RateLimitRequest request;
  ResponseOptions options;
  RateLimitResponse response;
  bool shadowed = false;

  void compose(const std::vector<DescriptorResult>& results) {
    request.domain = "d";
    request.descriptors.resize(results.size());
    shadowed = compose_response(request, results, options, response);
  }
  std::vector<std::pair<std::string, std::string>> headers() const {
    std::vector<std::pair<std::string, std::string>> all;
    for (const HeaderValue& header : response.response_headers_to_add)
      all.emplace_back(header.key, header.value);
    return all;
  }
};
using Headers = std::vector<std::pair<std::string, std::string>>;

Code overall(const std::vector<DescriptorResult>& results, ResponseOptions options = {}) {
  Composed composed;
  composed.options = std::move(options);
  composed.compose(results);
  return composed.response.overall_code;
}

// ---- The standing that a count gives ----

TEST(EnvoyStanding, ByTheCount) {
  EXPECT_EQ(standing_at(0, 5), (Standing{false, 5}));
  EXPECT_EQ(standing_at(5, 5), (Standing{false, 0}));
  EXPECT_EQ(standing_at(6, 5), (Standing{true, 0}));
  EXPECT_EQ(standing_at(0, 0), (Standing{false, 0}));
  EXPECT_EQ(standing_at(1, 0), (Standing{true, 0}));
  EXPECT_EQ(standing_at(-7, 5), (Standing{false, 5}));
  EXPECT_EQ(standing_at(INT64_MIN, UINT32_MAX), (Standing{false, UINT32_MAX}));
  EXPECT_EQ(standing_at(UINT32_MAX, UINT32_MAX), (Standing{false, 0}));
  EXPECT_EQ(standing_at(int64_t{UINT32_MAX} + 1, UINT32_MAX), (Standing{true, 0}));
  EXPECT_EQ(standing_at(INT64_MAX, UINT32_MAX), (Standing{true, 0}));
}

TEST(EnvoyStanding, ARefundIsNeverOver) {
  EXPECT_EQ(standing_after_refund(9, 5), (Standing{false, 0}));
  EXPECT_EQ(standing_after_refund(3, 5), (Standing{false, 2}));
  EXPECT_EQ(standing_after_refund(0, 5), (Standing{false, 5}));
}

TEST(EnvoyStanding, UnchargedHitsCountAsIfCharged) {
  for (int64_t count = -2; count < 12; ++count) {
    for (uint64_t hits = 0; hits < 12; ++hits) {
      const Standing standing = standing_uncharged(count, hits, 5);
      EXPECT_EQ(standing.over, std::max<int64_t>(count, 0) + static_cast<int64_t>(hits) > 5);
      EXPECT_EQ(standing.remaining, standing.over ? 0 : 5 - std::max<int64_t>(count, 0));
    }
  }
  EXPECT_TRUE(standing_uncharged(1, UINT64_MAX, 5).over);
}

TEST(EnvoyStanding, Decided) {
  EXPECT_EQ(standing_decided(true, 7), (Standing{false, 7}));
  EXPECT_EQ(standing_decided(true, -7), (Standing{false, 0}));
  EXPECT_EQ(standing_decided(true, int64_t{1} << 40), (Standing{false, UINT32_MAX}));
  EXPECT_EQ(standing_decided(false, 7), (Standing{true, 0}));
}

// ---- Statuses and the overall code ----

TEST(EnvoyResponse, StatusOfEachDescriptor) {
  Composed composed;
  composed.compose({none, unlimited, holds, over, shadowed(over), quota(over)});
  const auto& statuses = composed.response.statuses;
  ASSERT_EQ(statuses.size(), 6u);
  const auto expect = [&](size_t i, Code code, uint32_t remaining, bool has_limit) {
    EXPECT_EQ(statuses[i].code, code) << i;
    EXPECT_EQ(statuses[i].limit_remaining, remaining) << i;
    EXPECT_EQ(statuses[i].current_limit.has_value(), has_limit) << i;
    EXPECT_EQ(statuses[i].seconds_until_reset,
              has_limit ? std::optional<int64_t>(3'000) : std::nullopt)
        << i;
  };
  expect(0, Code::ok, 0, false);
  expect(1, Code::ok, UINT32_MAX, false);
  expect(2, Code::ok, 2, true);
  expect(3, Code::over_limit, 0, true);
  expect(4, Code::ok, 0, true);
  expect(5, Code::over_limit, 0, true);
  EXPECT_EQ(composed.response.overall_code, Code::over_limit);
}

TEST(EnvoyResponse, OverallCode) {
  const auto ok = Code::ok, over_limit = Code::over_limit;
  EXPECT_EQ(overall({holds, unlimited, none}), ok);
  EXPECT_EQ(overall({holds, over}), over_limit);
  EXPECT_EQ(overall({shadowed(over), holds}), ok);
  EXPECT_EQ(overall({quota(over), quota(holds)}), ok);
  EXPECT_EQ(overall({quota(over), quota(over)}), over_limit);
  EXPECT_EQ(overall({quota(over)}), over_limit);
  EXPECT_EQ(overall({quota(over), holds}), over_limit);
  EXPECT_EQ(overall({quota(over), none, unlimited}), over_limit);
  EXPECT_EQ(overall({quota(over), quota(holds), over}), over_limit);
  EXPECT_EQ(overall({quota(over), quota(shadowed(over))}), ok);
  EXPECT_EQ(overall({quota(unlimited), quota(over)}), over_limit);
}

TEST(EnvoyResponse, QuotaModeMakesEveryDescriptorAQuota) {
  const ResponseOptions all_quotas{.quota = true};
  EXPECT_EQ(overall({over}, all_quotas), Code::over_limit);
  EXPECT_EQ(overall({over, holds}, all_quotas), Code::ok);
  EXPECT_EQ(overall({over, none}, all_quotas), Code::ok);
  EXPECT_EQ(overall({over, over}, all_quotas), Code::over_limit);
}

TEST(EnvoyResponse, AnUnlimitedDescriptorIsNotAQuota) {
  const ResponseOptions all_quotas{.quota = true};
  EXPECT_EQ(overall({over, unlimited}, all_quotas), Code::over_limit);
  EXPECT_EQ(overall({unlimited, over, over}, all_quotas), Code::over_limit);
  EXPECT_EQ(overall({unlimited, over, holds}, all_quotas), Code::ok);
  EXPECT_EQ(overall({unlimited, over, none}, all_quotas), Code::ok);
  EXPECT_EQ(overall({unlimited}, all_quotas), Code::ok);
  EXPECT_EQ(overall({unlimited, quota(over)}), Code::over_limit);
}

// Every combination of up to four descriptors, with and without the two modes.
TEST(EnvoyResponse, OverallCodeOfEveryCombination) {
  struct Case {
    DescriptorResult result;
    bool has_limit, is_unlimited, is_over, is_quota;
  };
  const std::vector<Case> cases = {{none, false, false, false, false},
                                   {unlimited, false, true, false, false},
                                   {quota(unlimited), false, true, false, true},
                                   {holds, true, false, false, false},
                                   {over, true, false, true, false},
                                   {shadowed(over), true, false, false, false},
                                   {quota(holds), true, false, false, true},
                                   {quota(over), true, false, true, true},
                                   {quota(shadowed(over)), true, false, false, true}};
  const auto check = [&](const std::vector<size_t>& chosen, const ResponseOptions& options) {
    size_t enforced_over = 0, quotas = 0, quotas_over = 0;
    std::vector<DescriptorResult> results;
    for (const size_t i : chosen) {
      const Case& one = cases[i];
      results.push_back(one.result);
      if (one.is_unlimited) continue;
      const bool counts_as_quota = options.quota || (one.has_limit && one.is_quota);
      quotas += counts_as_quota ? 1 : 0;
      quotas_over += counts_as_quota && one.is_over ? 1 : 0;
      enforced_over += !counts_as_quota && one.is_over ? 1 : 0;
    }
    const bool is_over = enforced_over > 0 || (quotas > 0 && quotas == quotas_over);
    return overall(results, options) == (is_over && !options.shadow ? Code::over_limit : Code::ok);
  };
  for (const bool all_quotas : {false, true})
    for (const bool shadow : {false, true})
      for (size_t size = 1; size <= 4; ++size) {
        std::vector<size_t> chosen(size, 0);
        for (size_t at = 0; at < size;) {
          ASSERT_TRUE(check(chosen, {.shadow = shadow, .quota = all_quotas}))
              << testing::PrintToString(chosen) << all_quotas << shadow;
          for (at = 0; at < size && ++chosen[at] == cases.size(); ++at) chosen[at] = 0;
        }
      }
}

TEST(EnvoyResponse, ShadowModeKeepsStatuses) {
  Composed composed;
  composed.options.shadow = true;
  composed.compose({over, holds});
  EXPECT_EQ(composed.response.overall_code, Code::ok);
  EXPECT_EQ(composed.response.statuses[0].code, Code::over_limit);
  EXPECT_TRUE(composed.shadowed);
  composed.compose({holds});
  EXPECT_FALSE(composed.shadowed);
}

TEST(EnvoyResponse, ComposingAgainKeepsMemory) {
  Composed composed;
  composed.compose({over, holds, none});
  const auto* const statuses = composed.response.statuses.data();
  composed.compose({holds, holds});
  EXPECT_EQ(composed.response.statuses.data(), statuses);
  EXPECT_EQ(composed.response.statuses.size(), 2u);
}

// ---- Header fields ----

TEST(EnvoyHeaders, NoneByDefault) {
  Composed composed;
  composed.compose({over});
  EXPECT_TRUE(composed.headers().empty());
}

TEST(EnvoyHeaders, LegacyHeadersShowTheLeastRemaining) {
  Composed composed;
  composed.options.headers = HeaderStyle::legacy;
  composed.options.reset_header = "X-Reset";
  DescriptorResult two = limited(2, 1), also_two = limited(2, 1);
  also_two.seconds_until_reset = 77;
  composed.compose({limited(10, 1), unlimited, two, also_two});
  EXPECT_EQ(composed.headers(),
            (Headers{{"RateLimit-Limit", "2"}, {"RateLimit-Remaining", "1"}, {"X-Reset", "3000"}}));
  composed.compose({none, unlimited});
  EXPECT_EQ(composed.headers(), Headers{});
  composed.compose({limited(UINT32_MAX, 0)});
  EXPECT_EQ(composed.headers()[1].second, "4294967295");
}

TEST(EnvoyHeaders, LegacyHeadersShowTheLastEnforcedLimitThatIsOver) {
  Composed composed;
  composed.options.headers = HeaderStyle::legacy;
  const auto limit_told = [&](const std::vector<DescriptorResult>& results) {
    composed.compose(results);
    return composed.headers().at(0).second;
  };
  EXPECT_EQ(limit_told({limited(1, 1), limited(2, 3), limited(3, 4), limited(4, 4)}), "3");
  // A limit in shadow mode or a quota is chosen only if it has the fewest units remaining.
  EXPECT_EQ(limit_told({shadowed(limited(1, 9)), limited(2, 2)}), "1");
  EXPECT_EQ(limit_told({limited(2, 2), shadowed(limited(1, 9))}), "2");
  EXPECT_EQ(limit_told({limited(2, 3), quota(limited(1, 9))}), "2");
  EXPECT_EQ(limit_told({limited(9, 1), quota(limited(1, 9))}), "1");
  composed.options.quota = true;
  EXPECT_EQ(limit_told({limited(2, 3), limited(3, 4)}), "2");
}

TEST(EnvoyHeaders, Ietf) {
  Composed composed;
  composed.options.headers = HeaderStyle::ietf;
  DescriptorResult bucket = limited(10, 0, "bucket");
  bucket.standing = standing_decided(true, 3);
  bucket.window_seconds = 60;
  bucket.burst = 20;
  bucket.seconds_until_next = 2;
  composed.compose({none, limited(5, 3), unlimited, bucket, shadowed(limited(7, 1, "s")),
                    quota(limited(6, 2, "q")), limited(8, 8)});
  EXPECT_EQ(composed.headers(),
            (Headers{{"RateLimit-Policy",
                      "\"default\";q=5;w=3600, \"bucket\";q=10;w=60;sluice-burst=20, "
                      "\"q\";q=6;w=3600, \"default-2\";q=8;w=3600"},
                     {"RateLimit",
                      "\"default\";r=2;t=3000, \"bucket\";r=3;t=2, \"q\";r=4;t=3000, "
                      "\"default-2\";r=0;t=3000"}}));
  composed.compose({none, shadowed(over), unlimited});
  EXPECT_EQ(composed.headers(), Headers{});
  DescriptorResult windowless = limited(5, 3, "a\"\\\xC3\xA9\n");
  windowless.window_seconds = 0;
  composed.compose({windowless});
  EXPECT_EQ(composed.headers()[0].second, "\"a\\\"\\\\___\";q=5");
}

TEST(EnvoyHeaders, IetfHasABoundOfMembers) {
  Composed composed;
  composed.options.headers = HeaderStyle::ietf;
  composed.compose(std::vector<DescriptorResult>(100, holds));
  const std::string& policy = composed.response.response_headers_to_add[0].value;
  EXPECT_EQ(static_cast<size_t>(std::ranges::count(policy, ',')) + 1, ietf_members_max);
}

TEST(EnvoyHeaders, RetryAfterIsOfTheLastThatPassesAgain) {
  Composed composed;
  composed.options.headers = HeaderStyle::ietf;
  const auto retry_after = [&](const std::vector<DescriptorResult>& results) -> std::string {
    composed.compose(results);
    const auto headers = composed.headers();
    return headers.back().first == "Retry-After" ? headers.back().second : "none";
  };
  DescriptorResult long_one = over, soon = over, never = over;
  long_one.seconds_until_reset = 86'000;
  soon.seconds_until_next = 0;
  never.never_passes = true;
  EXPECT_EQ(retry_after({over, long_one, holds}), "86000");
  EXPECT_EQ(retry_after({over, shadowed(long_one)}), "3000");
  EXPECT_EQ(retry_after({soon}), "1");
  EXPECT_EQ(retry_after({over, never}), "none");
  EXPECT_EQ(retry_after({holds}), "none");
  EXPECT_EQ(retry_after({quota(over), quota(holds)}), "none");
  composed.options.shadow = true;
  EXPECT_EQ(retry_after({over}), "none");
  composed.compose({never});
  EXPECT_EQ(composed.headers()[1].second, "\"default\";r=0");
}

TEST(EnvoyHeaders, BothInOrder) {
  Composed composed;
  composed.options.headers = HeaderStyle::both;
  composed.compose({over});
  std::vector<std::string> names;
  for (const auto& [name, value] : composed.headers()) names.push_back(name);
  EXPECT_EQ(names,
            (std::vector<std::string>{"RateLimit-Limit", "RateLimit-Remaining", "RateLimit-Reset",
                                      "RateLimit-Policy", "RateLimit", "Retry-After"}));
}

// ---- Against a naive model ----

// The rules for a response, written down as plainly as possible.
struct Model {
  const std::vector<DescriptorResult>& results;
  const ResponseOptions& options;

  bool is_limited(size_t i) const { return results[i].kind == Kind::limited; }
  bool told_over(size_t i) const {
    return is_limited(i) && results[i].standing.over && !results[i].shadow;
  }
  bool is_quota(size_t i) const {
    return results[i].kind != Kind::unlimited &&
           (options.quota || (is_limited(i) && results[i].quota));
  }
  std::vector<size_t> all() const {
    std::vector<size_t> indices;
    for (size_t i = 0; i < results.size(); ++i) indices.push_back(i);
    return indices;
  }
  std::vector<size_t> that(auto condition) const {
    std::vector<size_t> chosen;
    for (const size_t i : all())
      if (condition(i)) chosen.push_back(i);
    return chosen;
  }

  bool request_over() const {
    const auto quotas = that([&](size_t i) { return is_quota(i); });
    const auto enforced_over = that([&](size_t i) { return !is_quota(i) && told_over(i); });
    const bool all_quotas_over =
        !quotas.empty() && std::ranges::all_of(quotas, [&](size_t i) { return told_over(i); });
    return !enforced_over.empty() || all_quotas_over;
  }
  uint32_t remaining(size_t i) const {
    if (results[i].kind == Kind::unlimited) return 4294967295;
    return is_limited(i) && !results[i].standing.over ? results[i].standing.remaining : 0;
  }
  std::optional<size_t> shown() const {
    const auto enforced_over = that([&](size_t i) { return !is_quota(i) && told_over(i); });
    if (!enforced_over.empty()) return enforced_over.back();
    auto limits = that([&](size_t i) { return is_limited(i); });
    if (limits.empty()) return std::nullopt;
    std::ranges::stable_sort(limits, {}, [&](size_t i) { return remaining(i); });
    return limits.front();
  }
};

TEST(EnvoyResponse, MatchesTheModel) {
  Dice dice(1);
  int overs = 0;
  for (int round = 0; round < 20'000; ++round) {
    std::vector<DescriptorResult> results;
    for (int n = 1 + dice(4); n > 0; --n) {
      const auto limit = static_cast<uint32_t>(dice(4));
      DescriptorResult result = limited(limit, dice(6));
      result.kind = static_cast<Kind>(std::min(2, dice(8)));
      result.shadow = dice(4) == 0;
      result.quota = dice(3) == 0;
      result.seconds_until_reset = 1 + dice(100);
      results.push_back(result);
    }
    Composed composed;
    composed.options.shadow = dice(4) == 0;
    composed.options.quota = dice(4) == 0;
    composed.options.headers = HeaderStyle::legacy;
    composed.compose(results);
    const Model model{results, composed.options};
    const RateLimitResponse& response = composed.response;
    ASSERT_EQ(response.statuses.size(), results.size());
    for (size_t i = 0; i < results.size(); ++i) {
      ASSERT_EQ(response.statuses[i].code, model.told_over(i) ? Code::over_limit : Code::ok);
      ASSERT_EQ(response.statuses[i].limit_remaining, model.remaining(i));
      ASSERT_EQ(response.statuses[i].current_limit.has_value(), model.is_limited(i));
    }
    const bool is_over = model.request_over();
    overs += is_over;
    ASSERT_EQ(response.overall_code == Code::over_limit, is_over && !composed.options.shadow);
    ASSERT_EQ(composed.shadowed, is_over && composed.options.shadow);
    Headers headers;
    if (const auto shown = model.shown())
      headers = {{"RateLimit-Limit", std::to_string(results[*shown].limit.requests_per_unit)},
                 {"RateLimit-Remaining", std::to_string(model.remaining(*shown))},
                 {"RateLimit-Reset", std::to_string(results[*shown].seconds_until_reset)}};
    ASSERT_EQ(composed.headers(), headers);
  }
  EXPECT_GT(overs, 2'000);
}

// ---- Metadata ----

std::string metadata_of(const RateLimitRequest& request,
                        const std::vector<DescriptorResult>& results) {
  ResponseOptions options;
  options.dynamic_metadata = true;
  RateLimitResponse response;
  compose_response(request, results, options, response);
  base::Buffer out;
  append_json(*response.dynamic_metadata, out);
  return std::string(out.view());
}

TEST(EnvoyResponse, MetadataRepeatsTheRequest) {
  RateLimitRequest request;
  request.domain = "d";
  request.entries = {{"a", "x"}, {"b", ""}, {"c", "y"}};
  request.descriptors.resize(3);
  request.descriptors[0].entry_count = 2;
  request.descriptors[0].hits_addend = 0;
  request.descriptors[1].first_entry = 2;
  request.descriptors[1].entry_count = 1;
  request.descriptors[1].limit = LimitOverride{2, WireUnit::hour, std::nullopt};
  request.descriptors[2].limit = LimitOverride{0, WireUnit::minute, 30};
  EXPECT_EQ(metadata_of(request, {none, holds, holds}),
            R"({"domain":"d","descriptors":[{"entries":["a=x","b="],"hitsAddend":0},)"
            R"({"entries":["c=y"],"limit":"requests_per_unit:2 unit:HOUR"},)"
            R"({"entries":[],"limit":"unit:MINUTE unit_multiplier:{value:30}"}]})");
  request.hits_addend = 7;
  EXPECT_TRUE(metadata_of(request, {none, holds, holds}).ends_with(R"(],"hitsAddend":7})"));
}

TEST(EnvoyResponse, MetadataOfLimitsThatAreNotOver) {
  RateLimitRequest request;
  request.domain = "d";
  request.descriptors.resize(1);
  const MetadataMap first{{"tier", MetadataValue(1.0)}}, second{{"tier", MetadataValue(2.0)}},
      empty;
  const auto with = [](DescriptorResult result, const MetadataMap& metadata) {
    result.metadata = &metadata;
    return result;
  };
  const std::string head = R"({"domain":"d","descriptors":[{"entries":[]})";
  const auto tier = [](const char* number) {
    return std::string(R"(],"metadata":{"tier":)") + number + "}}";
  };
  EXPECT_EQ(metadata_of(request, {with(holds, first)}), head + tier("1"));
  EXPECT_EQ(metadata_of(request, {with(unlimited, first)}), head + tier("1"));
  EXPECT_EQ(metadata_of(request, {with(shadowed(over), first)}), head + tier("1"));
  EXPECT_EQ(metadata_of(request, {with(over, first)}), head + "]}");
  EXPECT_EQ(metadata_of(request, {with(holds, empty)}), head + "]}");
  request.descriptors.resize(2);
  const std::string two = R"({"domain":"d","descriptors":[{"entries":[]},{"entries":[]})";
  EXPECT_EQ(metadata_of(request, {with(over, first), with(holds, second)}), two + tier("2"));
  EXPECT_EQ(metadata_of(request, {with(quota(holds), first), with(holds, second)}),
            two + tier("1"));
}

// ---- Errors of the request ----

TEST(EnvoyRequestCheck, InOrder) {
  RateLimitRequest request;
  EXPECT_EQ(check_request(request), (RequestError{2, "rate limit domain must not be empty"}));
  request.domain = "d";
  EXPECT_EQ(check_request(request),
            (RequestError{2, "rate limit descriptor list must not be empty"}));
  request.descriptors.resize(1);
  EXPECT_EQ(check_request(request), std::nullopt);
}

TEST(EnvoyRequestCheck, Overrides) {
  RateLimitRequest request;
  request.descriptors.resize(2);
  EXPECT_EQ(check_overrides(request), std::nullopt);
  LimitOverride& limit = request.descriptors[1].limit.emplace();
  const auto error = [&](WireUnit unit, std::optional<uint32_t> multiplier = std::nullopt) {
    limit.unit = unit;
    limit.unit_multiplier = multiplier;
    const auto problem = check_overrides(request);
    EXPECT_EQ(problem.has_value(), !override_window(limit).has_value());
    if (problem) {
      EXPECT_EQ(problem->grpc_code, 3u);
    }
    return problem ? problem->message : "";
  };
  EXPECT_EQ(error(WireUnit::unknown), "descriptors[1].limit.unit: UNKNOWN is not a unit");
  EXPECT_EQ(error(static_cast<WireUnit>(8)), "descriptors[1].limit.unit: 8 is not a unit");
  EXPECT_EQ(error(static_cast<WireUnit>(-1)), "descriptors[1].limit.unit: -1 is not a unit");
  EXPECT_EQ(error(WireUnit::hour, 0),
            "descriptors[1].limit.unit_multiplier: 0 units are not a window");
  EXPECT_EQ(error(WireUnit::year, UINT32_MAX),
            "descriptors[1].limit.unit_multiplier: 4294967295 units are not a window");
  for (int i = 1; i <= 7; ++i) EXPECT_EQ(error(static_cast<WireUnit>(i)), "") << i;
  EXPECT_EQ(error(WireUnit::week, 2), "");
  EXPECT_EQ(override_window(limit), base::seconds(14 * 86'400));
  // 2^63 microseconds are a little more than 292,471 years of 365 days.
  EXPECT_EQ(error(WireUnit::year, 292'471), "");
  EXPECT_NE(error(WireUnit::year, 292'472), "");
}

// ---- Windows ----

TEST(EnvoyWindow, EndsWhereTheNextBegins) {
  EXPECT_EQ(seconds_until_window_ends(0, 60), 60);
  EXPECT_EQ(seconds_until_window_ends(59, 60), 1);
  EXPECT_EQ(seconds_until_window_ends(60, 60), 60);
  EXPECT_EQ(seconds_until_window_ends(1'795'334'123, 1), 1);
  EXPECT_EQ(seconds_until_window_ends(-1, 60), 1);
  // Windows of 7 and of 365 days, counted from 1970: a week begins on Thursday, 2026-12-17, and a
  // year on the next day.
  EXPECT_EQ(seconds_until_window_ends(1'797'465'600, unit_seconds(WireUnit::week)), 7 * 86'400);
  EXPECT_EQ(seconds_until_window_ends(1'797'465'600 - 1, unit_seconds(WireUnit::week)), 1);
  EXPECT_EQ(seconds_until_window_ends(1'797'552'000 - 1, unit_seconds(WireUnit::year)), 1);
  EXPECT_EQ(unit_seconds(WireUnit::month), 2'592'000);
  EXPECT_EQ(unit_seconds(WireUnit::unknown), 0);
}

TEST(EnvoyWindow, IsWrittenInUnits) {
  const auto told = [](int64_t seconds) { return window_in_units(base::seconds(seconds)); };
  EXPECT_EQ(told(1), (WindowInUnits{WireUnit::second, 0}));
  EXPECT_EQ(told(30), (WindowInUnits{WireUnit::second, 30}));
  EXPECT_EQ(told(60), (WindowInUnits{WireUnit::minute, 0}));
  EXPECT_EQ(told(90), (WindowInUnits{WireUnit::second, 90}));
  EXPECT_EQ(told(3'600), (WindowInUnits{WireUnit::hour, 0}));
  EXPECT_EQ(told(7'200), (WindowInUnits{WireUnit::hour, 2}));
  EXPECT_EQ(told(86'400), (WindowInUnits{WireUnit::day, 0}));
  EXPECT_EQ(told(7 * 86'400), (WindowInUnits{WireUnit::day, 7}));
  EXPECT_EQ(told(0), WindowInUnits{});
  EXPECT_EQ(told((int64_t{1} << 32) + 1), WindowInUnits{});
  EXPECT_EQ(window_in_units(base::milliseconds(1'500)), WindowInUnits{});
  EXPECT_EQ(window_in_units(base::never), WindowInUnits{});
}

TEST(EnvoyWindow, SecondsAreRoundedUp) {
  EXPECT_EQ(seconds_rounded_up(base::Duration{0}), 0);
  EXPECT_EQ(seconds_rounded_up(base::Duration{-5}), 0);
  EXPECT_EQ(seconds_rounded_up(base::Duration{1}), 1);
  EXPECT_EQ(seconds_rounded_up(base::seconds(3)), 3);
  EXPECT_EQ(seconds_rounded_up(base::Duration{3'000'001}), 4);
}

}  // namespace
}  // namespace sluice::envoy::response_test
