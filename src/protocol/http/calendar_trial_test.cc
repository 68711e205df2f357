// Random requests over sessions of HTTP under windows of the calendar, crossed with reloads to
// other windows and back, overrides, and a clock that goes to the edges of windows, forward, and
// back from a step: every number of every answer is that of a list of grants
// (testing/calendar_model.h).
#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/rfc3339.h"
#include "limit/calendar.h"
#include "protocol/http/http_text_test.h"
#include "testing/calendar_model.h"
#include "tests/support/dice.h"
#include "wire/json.h"

namespace sluice::http::calendar_trial {
namespace {

using namespace session_world;
using tests::CalendarCounter;
using tests::Dice;
using tests::ModelKinds;
using tests::ModelLimit;
using tests::ModelWindow;
using wire::Json;

using List = std::vector<ModelLimit>;

// "month@Europe/Berlin,month_day=9" as members of a limit in YAML; a length of time as well.
std::string yaml_of(const ModelLimit& limit) {
  const auto terms = limit::parse_calendar(limit.kind);
  std::string text = "{ quota: " + std::to_string(limit.quota);
  if (!terms) return text + ", window: " + limit.kind + ", algorithm: aligned_window }";
  text += ", window: " + std::string(name_of(terms->unit)) + ", time_zone: " + terms->zone;
  size_t at = limit.kind.find(',');
  while (at != limit.kind.npos) {
    const size_t equals = limit.kind.find('=', at), end = limit.kind.find(',', equals);
    text += ", " + limit.kind.substr(at + 1, equals - at - 1) + ": '" +
            limit.kind.substr(equals + 1, end - equals - 1) + "'";
    at = end;
  }
  return text + " }";
}

std::string rules_of(const List& list) {
  std::string text = "- { name: tokens, match: { tenant: '*' }, actor: tenant, limits: [";
  for (size_t i = 0; i < list.size(); ++i) text += (i == 0 ? "" : ", ") + yaml_of(list[i]);
  return text + "] }\n";
}

struct Tenant {
  std::string name;
  CalendarCounter counter;
  std::optional<List> override_by;
};

struct Tally {
  size_t granted = 0, denied = 0, indebted = 0, reloads = 0, overrides = 0, steps_back = 0;
};

class Trial {
 public:
  Trial(uint32_t seed, const ModelKinds& kinds, Tally& tally)
      : dice_(seed), kinds_(kinds), tally_(tally), world_({.rules = rules_of(next_rule())}) {
    for (const char* name : {"a", "b", "c"}) tenants_.push_back({name, CalendarCounter(kinds), {}});
  }

  void run(int steps) {
    for (step_ = 0; step_ < steps && !testing::Test::HasFailure(); ++step_) {
      SCOPED_TRACE("step " + std::to_string(step_) + told());
      switch (dice_(20)) {
        case 0:
        case 1:
          world_.load(rules_of(next_rule()));
          ++tally_.reloads;
          break;
        case 2:
        case 3:
          override_one();
          break;
        case 4:
          step_forward_and_back();
          break;
        case 5:
        case 6:
        case 7:
        case 8:
        case 9:
          go_to(random_later(dice_, kinds_, list_of(some_tenant()), now_us));
          break;
        default:
          ask_one(some_tenant());
      }
    }
  }

 private:
  const List& next_rule() {
    // Often back to one that was there before.
    if (earlier_.size() >= 3 && dice_(2) == 0)
      rule_ = earlier_[dice_(earlier_.size())];
    else
      earlier_.push_back(rule_ = random_model_limits(dice_, kinds_));
    return rule_;
  }
  Tenant& some_tenant() { return tenants_[dice_(tenants_.size())]; }
  const List& list_of(const Tenant& tenant) const {
    return tenant.override_by ? *tenant.override_by : rule_;
  }
  std::string told() const {
    std::string text = " at " + base::format_rfc3339({now_us});
    for (const ModelLimit& one : rule_) text += " " + std::to_string(one.quota) + "/" + one.kind;
    return text;
  }

  void go_to(int64_t at) {
    if (at > now_us) world_.pass(at - now_us);
  }

  void override_one() {
    Tenant& tenant = some_tenant();
    if (tenant.override_by && dice_(2) == 0)
      tenant.override_by.reset();
    else
      tenant.override_by = random_model_limits(dice_, kinds_);
    world_.override_native(tenant.name, tenant.override_by ? limits_of(*tenant.override_by)
                                                           : std::vector<limit::Limit>());
    ++tally_.overrides;
  }

  // The wall clock is set forward, and within a minute back. Meanwhile each tenant is charged, so
  // that each counter has a state of then; and once more when the clock is back.
  void step_forward_and_back() {
    const int64_t before = now_us;
    const int64_t ahead = random_later(dice_, kinds_, list_of(some_tenant()), now_us) - now_us;
    if (ahead < 10 * second) return;
    ahead_us = ahead;
    world_.pass(second);
    for (Tenant& tenant : tenants_) ask(tenant, "charge", 1 + dice_(int64_t{3}));
    ahead_us = 0;
    world_.pass(second);
    ASSERT_EQ(now_us, before + 2 * second);
    for (Tenant& tenant : tenants_) ask(tenant, "charge", 1);
    ++tally_.steps_back;
  }

  void ask_one(Tenant& tenant) {
    const int64_t n = dice_(int64_t{9});
    switch (dice_(12)) {
      case 0:
        return reset(tenant);
      case 1:
        return put(tenant, 1 + n);
      case 2:
        return ask(tenant, "peek", n);
      case 3:
      case 4:
        return ask(tenant, "charge", n);
      default:
        return ask(tenant, "take", n);
    }
  }

  HttpAnswer send(const Tenant& tenant, const std::string& path, const std::string& more) {
    const std::string body = R"({"entries": {"tenant": ")" + tenant.name + "\"}" + more + "}";
    return session_world::ask(world_, post("/v1/" + path, body));
  }
  void reset(Tenant& tenant) {
    const HttpAnswer answer = send(tenant, "reset", "");
    EXPECT_EQ(answer.status, 200) << answer.body;
    tenant.counter.reset();
  }
  void put(Tenant& tenant, int64_t n) {
    const HttpAnswer answer = send(tenant, "put", ", \"n\": " + std::to_string(n));
    EXPECT_EQ(answer.status, 200) << answer.body;
    tenant.counter.put(list_of(tenant), n, time());
  }

  void ask(Tenant& tenant, const std::string& path, int64_t n) {
    const HttpAnswer answer =
        send(tenant, path, ", \"n\": " + std::to_string(n) + ", \"detail\": true");
    const List& list = list_of(tenant);
    CalendarCounter& counter = tenant.counter;
    SCOPED_TRACE(path + " " + tenant.name + " " + std::to_string(n) + ": " + answer.body);
    const int64_t now = time();
    counter.drop_left_out(list, now);
    const bool allowed = counter.allows(list, n, now);
    if (path == "charge") {
      ASSERT_EQ(answer.status, 200);
      counter.charge(list, n, now);
    } else {
      ASSERT_EQ(answer.status, allowed || path == "peek" ? 200 : 429);
      EXPECT_EQ(Json::parse(answer.body).at("allowed"), allowed);
      ++(allowed ? tally_.granted : tally_.denied);
      if (path == "take") counter.take(list, n, now);
    }
    const Json told = Json::parse(answer.body);
    ASSERT_EQ(told.at("limits").size(), list.size());
    for (size_t i = 0; i < list.size(); ++i) {
      const Json& its = told.at("limits").at(i);
      // What is shown of a take that was refused is what there is.
      int64_t used = counter.used(list[i].kind, now);
      if (path == "peek" && allowed) used += n;
      const int64_t left = list[i].quota - used;
      EXPECT_EQ(its.at("remaining"), std::max<int64_t>(left, 0)) << i;
      if (path == "charge") {
        EXPECT_EQ(its.value("debt", int64_t{0}), std::max<int64_t>(-left, 0)) << i;
        tally_.indebted += left < 0;
      }
      const ModelWindow window = kinds_.at(list[i].kind).of(now);
      EXPECT_NEAR(its.at("reset_after").get<double>(),
                  used > 0 ? static_cast<double>(window.end - now) / 1e6 : 0, 0.001)
          << i;
      if (!kinds_.at(list[i].kind).is_calendar()) continue;
      EXPECT_EQ(its.at("starts"), base::format_rfc3339({window.start})) << i;
      EXPECT_EQ(its.at("ends"), base::format_rfc3339({window.end})) << i;
      EXPECT_EQ(its.at("window"), (window.end - window.start) / second) << i;
    }
  }
  // What the world's clock reads.
  int64_t time() const { return now_us + ahead_us; }

  Dice dice_;
  const ModelKinds& kinds_;
  Tally& tally_;
  List rule_;
  std::vector<List> earlier_;
  std::vector<Tenant> tenants_;
  World world_;
  int step_ = 0;
};

TEST(CalendarTrial, EveryAnswerIsThatOfAListOfGrants) {
  const ModelKinds kinds = tests::recorded_kinds();
  Tally tally;
  for (uint32_t seed = 1; seed <= 60 && !testing::Test::HasFailure(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Trial(seed, kinds, tally).run(150);
  }
  EXPECT_GT(tally.granted, 1'000u);
  EXPECT_GT(tally.denied, 300u);
  EXPECT_GT(tally.indebted, 100u);
  EXPECT_GT(tally.reloads, 500u);
  EXPECT_GT(tally.overrides, 500u);
  EXPECT_GT(tally.steps_back, 100u);
}

}  // namespace
}  // namespace sluice::http::calendar_trial
