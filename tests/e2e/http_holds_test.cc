// Reservations with the real program, over both versions of HTTP: what becomes of each request in
// each state of a hold, lost answers, ends, bounds of rules, and users. Every answer is checked
// against docs/openapi-http.json.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "tests/e2e/http_described.h"
#include "tests/support/comes.h"
#include "tests/support/process.h"

namespace sluice::tests::http_e2e {
namespace {

using namespace std::chrono_literals;

// Each has 100 units an hour for each actor.
constexpr const char* hold_rules =
    "rules:\n"
    "  - { name: tokens, match: { tokens: \"*\" }, actor: tokens,\n"
    "      limit: { quota: 100, window: 1h, algorithm: fixed_window },\n"
    "      reserve: { max_ttl: 5m } }\n"
    "  - { name: keeps, match: { keeps: \"*\" }, actor: keeps,\n"
    "      limit: { quota: 100, window: 1h, algorithm: fixed_window },\n"
    "      reserve: { on_expiry: keep } }\n"
    "  - { name: ignores, match: { ignores: \"*\" }, actor: ignores,\n"
    "      limit: { quota: 100, window: 1h, algorithm: fixed_window },\n"
    "      reserve: { late_commit: ignore } }\n"
    "  - { name: half, match: { half: \"*\" }, actor: half,\n"
    "      limit: { quota: 100, window: 1h, algorithm: fixed_window },\n"
    "      reserve: { max_fraction: 0.5 } }\n"
    "  - { name: places, match: { places: \"*\" }, actor: places,\n"
    "      limit: { quota: 1, algorithm: concurrency, lease: 60s, max_lease: 5m } }\n"
    "  - { name: closed, match: { closed: \"*\" }, deny: true }\n"
    "  - { name: open, match: { open: \"*\" }, unlimited: true }\n";

// One reservation of one actor under one rule, and the requests about it.
class Hold {
 public:
  Hold(const Door& door, HttpVersion version, std::string rule, const std::string& name)
      : door_(door),
        version_(version),
        rule_(std::move(rule)),
        actor_(name + "-" + name_of(version)),
        id("hold-" + rule_ + "-" + actor_ + "-0000000000") {
    id.resize(std::min<size_t>(id.size(), 64));
  }

  HttpAnswer ask(const std::string& path, const Json& body) const {
    return http_e2e::ask(version_, door_.port(), post(path, body));
  }
  Json subject() const { return about({{rule_, actor_}}); }
  HttpAnswer reserve(int n, const Json& more = Json::object()) const {
    return ask("/v1/reserve", with(with(subject(), {{"n", n}, {"id", id}}), more));
  }
  HttpAnswer extend(const Json& n) const { return ask("/v1/extend", {{"id", id}, {"n", n}}); }
  HttpAnswer renew() const { return ask("/v1/renew", {{"id", id}}); }
  HttpAnswer commit(const Json& n) const { return ask("/v1/commit", {{"id", id}, {"n", n}}); }
  HttpAnswer commit_with_subject(int n) const {
    return ask("/v1/commit", with(subject(), {{"id", id}, {"n", n}}));
  }
  HttpAnswer release() const { return ask("/v1/release", {{"id", id}}); }
  int64_t left() const {
    return units_left(
        [&](const Asked& asked) { return http_e2e::ask(version_, door_.port(), asked); },
        subject());
  }
  // Reserves so many units for a moment that is over when it returns.
  void reserve_and_let_end(int n) const {
    EXPECT_EQ(reserve(n, {{"ttl", 0.02}}).status, 200);
    std::this_thread::sleep_for(30ms);
  }

 private:
  const Door& door_;
  const HttpVersion version_;
  const std::string rule_, actor_;

 public:
  std::string id;
};

Json told(const HttpAnswer& answer, int status = 200) {
  EXPECT_EQ(answer.status, status) << answer.body;
  return json_body(answer);
}

// ---- Every state and every event ----

using Act = std::function<HttpAnswer(const Hold&)>;

struct State {
  const char* name;
  const char* rule;
  std::function<void(const Hold&)> make;
};

// What an event in a state comes to: the status, the problem's name or the members of the answer
// that are checked, and the units left then.
struct Fate {
  int status;
  std::string problem;
  int64_t left;
  Json members = Json::object();
};

const std::vector<State>& states() {
  static const std::vector<State> all = {
      {"held", "tokens", [](const Hold& hold) { hold.reserve(40); }},
      {"committed", "tokens",
       [](const Hold& hold) {
         hold.reserve(40);
         hold.commit(12);
       }},
      {"released", "tokens",
       [](const Hold& hold) {
         hold.reserve(40);
         hold.release();
       }},
      {"expired", "tokens", [](const Hold& hold) { hold.reserve_and_let_end(40); }},
      {"kept", "keeps", [](const Hold& hold) { hold.reserve_and_let_end(40); }},
      {"unknown", "tokens", [](const Hold&) {}},
  };
  return all;
}

const std::map<std::string, Act>& events() {
  static const std::map<std::string, Act> all = {
      {"reserve", [](const Hold& hold) { return hold.reserve(40); }},
      {"extend", [](const Hold& hold) { return hold.extend(5); }},
      {"extend past", [](const Hold& hold) { return hold.extend(101); }},
      {"renew", [](const Hold& hold) { return hold.renew(); }},
      {"commit", [](const Hold& hold) { return hold.commit(12); }},
      {"commit other", [](const Hold& hold) { return hold.commit(13); }},
      {"commit more", [](const Hold& hold) { return hold.commit(150); }},
      {"commit with subject", [](const Hold& hold) { return hold.commit_with_subject(12); }},
      {"release", [](const Hold& hold) { return hold.release(); }},
  };
  return all;
}

Json settled_as(int n, int returned, int charged, bool late, bool repeated = false) {
  return {{"state", "committed"}, {"n", n},       {"returned", returned},
          {"charged", charged},   {"late", late}, {"repeated", repeated}};
}

using Fates = std::map<std::string, Fate>;

// The table of docs/http.md, state by state.
const std::map<std::string, Fates>& table() {
  const Fates after_release = {
      {"reserve", {409, "id-in-use", 100}},
      {"extend", {410, "hold-ended", 100}},
      {"extend past", {410, "hold-ended", 100}},
      {"renew", {410, "hold-ended", 100}},
      {"commit", {200, "", 88, settled_as(12, 0, 12, true)}},
      {"commit other", {200, "", 87, settled_as(13, 0, 13, true)}},
      {"commit more", {200, "", 0, settled_as(150, 0, 150, true)}},
      {"commit with subject", {200, "", 88, settled_as(12, 0, 12, true)}},
      {"release", {200, "", 100, {{"state", "released"}, {"returned", 0}}}},
  };
  static const std::map<std::string, Fates> all = {
      {"held",
       {
           {"reserve", {200, "", 60, {{"repeated", true}, {"reserved", 40}, {"allowed", true}}}},
           {"extend", {200, "", 55, {{"reserved", 45}, {"allowed", true}, {"remaining", 55}}}},
           {"extend past", {429, "quota-exceeded", 60, {{"allowed", false}, {"remaining", 60}}}},
           {"renew", {200, "", 60}},
           {"commit", {200, "", 88, settled_as(12, 28, 0, false)}},
           {"commit other", {200, "", 87, settled_as(13, 27, 0, false)}},
           {"commit more", {200, "", 0, settled_as(150, 0, 110, false)}},
           {"commit with subject", {200, "", 88, settled_as(12, 28, 0, false)}},
           {"release", {200, "", 100, {{"state", "released"}, {"returned", 40}}}},
       }},
      {"committed",
       {
           {"reserve", {409, "already-settled", 88, {{"n", 12}}}},
           {"extend", {409, "already-settled", 88, {{"n", 12}}}},
           {"extend past", {409, "already-settled", 88, {{"n", 12}}}},
           {"renew", {409, "already-settled", 88, {{"n", 12}}}},
           {"commit", {200, "", 88, settled_as(12, 28, 0, false, true)}},
           {"commit other", {409, "already-settled", 88, {{"n", 12}}}},
           {"commit more", {409, "already-settled", 88, {{"n", 12}}}},
           {"commit with subject", {200, "", 88, settled_as(12, 28, 0, false, true)}},
           {"release", {409, "already-settled", 88, {{"n", 12}}}},
       }},
      {"released", after_release},
      {"expired", after_release},
      {"kept",
       {
           {"reserve", {409, "id-in-use", 60}},
           {"extend", {410, "hold-ended", 60}},
           {"extend past", {410, "hold-ended", 60}},
           {"renew", {410, "hold-ended", 60}},
           {"commit", {200, "", 88, settled_as(12, 28, 0, true)}},
           {"commit other", {200, "", 87, settled_as(13, 27, 0, true)}},
           {"commit more", {200, "", 0, settled_as(150, 0, 110, true)}},
           {"commit with subject", {200, "", 88, settled_as(12, 28, 0, true)}},
           {"release", {200, "", 100, {{"state", "released"}, {"returned", 40}}}},
       }},
      {"unknown",
       {
           {"reserve", {200, "", 60, {{"reserved", 40}, {"ttl", 60}, {"allowed", true}}}},
           {"extend", {404, "no-such-hold", 100}},
           {"extend past", {404, "no-such-hold", 100}},
           {"renew", {404, "no-such-hold", 100}},
           {"commit", {404, "no-such-hold", 100}},
           {"commit other", {404, "no-such-hold", 100}},
           {"commit more", {404, "no-such-hold", 100}},
           {"commit with subject", {200, "", 88, settled_as(12, 0, 12, true)}},
           {"release", {404, "no-such-hold", 100}},
       }},
  };
  return all;
}

void expect_fate(const Hold& hold, const HttpAnswer& answer, const Fate& fate) {
  EXPECT_EQ(answer.status, fate.status) << answer.body;
  EXPECT_EQ(problem_of(answer), fate.problem) << answer.body;
  const Json body = json_body(answer);
  for (const auto& [name, value] : fate.members.items())
    EXPECT_EQ(body.value(name, Json()), value) << name << " of " << answer.body;
  EXPECT_EQ(hold.left(), fate.left);
  if (fate.problem == "quota-exceeded") return;
  const bool takes = fate.status == 200 && body.contains("allowed");
  EXPECT_EQ(answer.headers.contains("ratelimit"), takes);
  EXPECT_EQ(answer.headers.contains("ratelimit-policy"), takes);
  EXPECT_FALSE(answer.headers.contains("retry-after"));
}

TEST(HttpHolds, EveryEventInEveryStateComesToWhatTheTableSays) {
  const Door door("{}", hold_rules);
  for (const HttpVersion version : http_versions) {
    for (const State& state : states()) {
      const Fates& fates = table().at(state.name);
      ASSERT_EQ(fates.size(), events().size());
      for (const auto& [event, act] : events()) {
        SCOPED_TRACE(std::string(name_of(version)) + ": " + event + " when " + state.name);
        std::string name = state.name + std::string("-") + event;
        std::replace(name.begin(), name.end(), ' ', '_');
        const Hold hold(door, version, state.rule, name);
        state.make(hold);
        expect_fate(hold, act(hold), fates.at(event));
      }
    }
  }
}

TEST(HttpHolds, ACommitAfterTheEndIsRefusedWhereTheRuleIgnoresIt) {
  const Door door("{}", hold_rules);
  for (const HttpVersion version : http_versions) {
    const Hold released(door, version, "ignores", "released");
    released.reserve(40);
    released.release();
    expect_fate(released, released.commit(12), {410, "hold-ended", 100});
    expect_fate(released, released.commit_with_subject(12), {410, "hold-ended", 100});
    const Hold expired(door, version, "ignores", "expired");
    expired.reserve_and_let_end(40);
    expect_fate(expired, expired.commit(12), {410, "hold-ended", 100});
  }
}

// ---- Sent again ----

TEST(HttpHolds, ALostAnswerIsNoLoss) {
  const Door door("{}", hold_rules);
  const Hold one(door, HttpVersion::http1, "tokens", "again");
  const Json body = with(one.subject(), {{"n", 40}, {"id", one.id}});
  {
    // The client is gone before its answer.
    Http1 connection(door.port());
    connection.send(post("/v1/reserve", body));
  }
  ASSERT_TRUE(comes([&] { return one.left() == 60; }));
  const Json again = told(ask(HttpVersion::http2, door.port(), post("/v1/reserve", body)));
  EXPECT_EQ(again.at("id"), one.id);
  EXPECT_EQ(again.at("repeated"), true);
  EXPECT_EQ(again.at("reserved"), 40);
  EXPECT_LE(again.at("ttl"), 60);
  EXPECT_EQ(one.left(), 60) << "it was taken once";
  {
    Http1 connection(door.port());
    connection.send(post("/v1/commit", {{"id", one.id}, {"n", 12}}));
  }
  ASSERT_TRUE(comes([&] { return one.left() == 88; }));
  EXPECT_EQ(told(one.commit(12)).at("repeated"), true);
  EXPECT_EQ(one.left(), 88);
}

TEST(HttpHolds, RequestsWithOneIdOnOneConnectionReserveOnce) {
  const Door door("{}", hold_rules);
  const Hold hold(door, HttpVersion::http1, "tokens", "pipelined");
  const std::string text =
      Http1::text_of(post("/v1/reserve", with(hold.subject(), {{"n", 40}, {"id", hold.id}})));
  Http1 connection(door.port());
  std::string many;
  for (int i = 0; i < 10; ++i) many += text;
  connection.send(many);
  for (int i = 0; i < 10; ++i) {
    const Json answer = told(connection.read());
    EXPECT_EQ(answer.at("remaining"), 60) << answer;
    EXPECT_EQ(answer.contains("repeated"), i > 0) << answer;
  }
  EXPECT_EQ(hold.left(), 60);
}

TEST(HttpHolds, AnIdWithAnotherContentIs409) {
  const Door door("{}", hold_rules);
  const Hold hold(door, HttpVersion::http1, "tokens", "content");
  told(hold.reserve(40));
  const HttpAnswer other = hold.reserve(41);
  EXPECT_EQ(other.status, 409);
  EXPECT_EQ(problem_of(other), "id-in-use");
  EXPECT_EQ(told(hold.reserve(40, {{"ttl", 7}, {"holder", "h"}})).at("repeated"), true)
      << "neither of these is content";
  EXPECT_EQ(hold.left(), 60);
}

TEST(HttpHolds, WithoutAnIdTheServerMakesOne) {
  const Door door("{}", hold_rules);
  const Hold hold(door, HttpVersion::http1, "tokens", "made");
  const Json body = with(hold.subject(), {{"n", 10}});
  const std::string one = told(hold.ask("/v1/reserve", body)).at("id"),
                    other = told(hold.ask("/v1/reserve", body)).at("id");
  EXPECT_NE(one, other);
  EXPECT_GE(one.size(), 16u);
  EXPECT_EQ(hold.left(), 80);
  told(hold.ask("/v1/release", {{"id", one}}));
  told(hold.ask("/v1/commit", {{"id", other}, {"n", 10}}));
  EXPECT_EQ(hold.left(), 90);
}

// ---- Time and bounds ----

TEST(HttpHolds, ATakeSeesTheUnitsOfAHoldThatHasEnded) {
  const Door door("{}", hold_rules);
  for (const HttpVersion version : http_versions) {
    const Hold hold(door, version, "tokens", "end");
    const auto take = [&] { return hold.ask("/v1/take", hold.subject()).status; };
    told(hold.reserve(100, {{"ttl", 60}}));
    EXPECT_EQ(take(), 429);
    EXPECT_EQ(told(hold.ask("/v1/renew", {{"id", hold.id}, {"ttl", 0.02}})).at("ttl"), 0.02);
    std::this_thread::sleep_for(30ms);
    EXPECT_EQ(take(), 200) << "the first decision after the end";
    EXPECT_EQ(hold.renew().status, 410);
  }
}

TEST(HttpHolds, ARenewAndAnExtendMoveTheEnd) {
  const Door door("{}", hold_rules);
  const Hold hold(door, HttpVersion::http1, "tokens", "moved");
  told(hold.reserve(40, {{"ttl", 2}}));
  EXPECT_EQ(told(hold.ask("/v1/renew", {{"id", hold.id}, {"ttl", 100}})).at("ttl"), 100);
  std::this_thread::sleep_for(2100ms);
  EXPECT_EQ(told(hold.extend(0)).at("ttl"), 100) << "the one that it has, from now on";
  EXPECT_EQ(told(hold.ask("/v1/extend", {{"id", hold.id}, {"n", 1}, {"ttl", 0.02}})).at("ttl"),
            0.02);
  std::this_thread::sleep_for(30ms);
  EXPECT_EQ(hold.left(), 100);
}

TEST(HttpHolds, RulesBoundTheTimeAndTheUnits) {
  const Door door("{}", hold_rules);
  const Hold hold(door, HttpVersion::http1, "tokens", "cut");
  EXPECT_EQ(told(hold.reserve(1, {{"ttl", 3600}})).at("ttl"), 300) << "max_ttl";
  EXPECT_EQ(told(hold.ask("/v1/renew", {{"id", hold.id}, {"ttl", 86400}})).at("ttl"), 300);
  const Hold half(door, HttpVersion::http1, "half", "half");
  EXPECT_EQ(told(half.reserve(80)).at("reserved"), 50) << "max_fraction";
  EXPECT_EQ(half.left(), 50);
  EXPECT_EQ(told(half.commit(80)).at("charged"), 30);
  EXPECT_EQ(half.left(), 20);
}

TEST(HttpHolds, AnEstimateThatDoesNotFitIsRefusedAndTakesNothing) {
  const Door door("{}", hold_rules);
  for (const HttpVersion version : http_versions) {
    const Hold hold(door, version, "tokens", "refused");
    const HttpAnswer never = hold.reserve(101);
    EXPECT_EQ(problem_of(never), "quota-exceeded");
    EXPECT_EQ(told(never, 429).at("retry_after"), nullptr) << "more than the limit ever has";
    told(hold.reserve(90));
    const HttpAnswer refused = hold.extend(11);
    EXPECT_EQ(told(refused, 429).at("violated-policies"), Json::array({"tokens"}));
    EXPECT_TRUE(refused.headers.contains("retry-after"));
    EXPECT_TRUE(refused.headers.contains("ratelimit"));
    EXPECT_EQ(told(hold.extend(0)).at("reserved"), 90) << "it is unchanged";
    EXPECT_EQ(hold.left(), 10);
  }
}

// ---- Subjects ----

TEST(HttpHolds, SeveralSubjectsAreReservedAndCommittedTogether) {
  const Door door("{}", hold_rules);
  for (const HttpVersion version : http_versions) {
    const Hold in(door, version, "tokens", "in"), out(door, version, "keeps", "out");
    const Json both = takes({with(in.subject(), {{"n", 30}}), with(out.subject(), {{"n", 40}})},
                            {{"id", in.id}, {"detail", true}});
    const Json held = told(in.ask("/v1/reserve", both));
    EXPECT_EQ(held.at("reserved"), Json::array({30, 40}));
    EXPECT_EQ(held.at("takes")[1].at("limits")[0].at("remaining"), 60);
    EXPECT_EQ(told(in.extend(Json::array({0, 5}))).at("reserved"), Json::array({30, 45}));
    EXPECT_EQ(in.extend(Json::array({0, 60})).status, 429);
    for (const Json& wrong : {Json(5), Json::array({5}), Json::array({1, 2, 3})}) {
      const HttpAnswer answer = in.commit(wrong);
      EXPECT_EQ(problem_of(answer), "bad-request") << wrong;
      EXPECT_EQ(told(answer, 400).at("pointer"), "/n");
    }
    const Json done = told(in.commit(Json::array({7, 50})));
    EXPECT_EQ(done.at("n"), Json::array({7, 50}));
    EXPECT_EQ(done.at("returned"), 23);
    EXPECT_EQ(done.at("charged"), 5);
    EXPECT_EQ(in.left(), 93);
    EXPECT_EQ(out.left(), 50);
    const Json conflict = told(in.release(), 409);
    EXPECT_EQ(conflict.at("n"), Json::array({7, 50}));
  }
}

TEST(HttpHolds, OfSeveralSubjectsAllAreReservedOrNone) {
  const Door door("{}", hold_rules);
  const Hold in(door, HttpVersion::http1, "tokens", "all"),
      out(door, HttpVersion::http1, "keeps", "none");
  const auto reserve = [&](const Json& one, const Json& other) {
    return in.ask("/v1/reserve", takes({one, other}));
  };
  EXPECT_EQ(reserve(with(in.subject(), {{"n", 30}}), with(out.subject(), {{"n", 101}})).status,
            429);
  EXPECT_EQ(reserve(in.subject(), about({{"no", "rule"}})).status, 404);
  EXPECT_EQ(in.left(), 100);
  EXPECT_EQ(out.left(), 100);
}

TEST(HttpHolds, AnUnknownCommitWithSubjectsChargesThem) {
  const Door door("{}", hold_rules);
  const Hold in(door, HttpVersion::http1, "tokens", "in"),
      out(door, HttpVersion::http1, "keeps", "out");
  const Json body =
      takes({in.subject(), out.subject()}, {{"id", in.id}, {"n", Json::array({7, 150})}});
  const Json done = told(in.ask("/v1/commit", body));
  EXPECT_EQ(done.at("late"), true);
  EXPECT_EQ(done.at("charged"), 157);
  EXPECT_EQ(done.at("debt"), 50) << "of the limit that takes longest";
  EXPECT_EQ(done.at("rule"), "keeps");
  EXPECT_EQ(in.left(), 93);
  EXPECT_EQ(in.ask("/v1/commit", with(body, {{"n", Json::array({7})}})).status, 400);
  // Sent again it is not charged again.
  const Json again = told(in.ask("/v1/commit", body));
  EXPECT_EQ(again.at("repeated"), true);
  EXPECT_EQ(again.at("charged"), 157);
  EXPECT_EQ(in.left(), 93);
  EXPECT_EQ(
      in.ask("/v1/commit", with(about({{"no", "rule"}}), {{"id", in.id + "-x"}, {"n", 1}})).status,
      404);
}

TEST(HttpHolds, LimitsThatComeWithARequestAreHeldToo) {
  const Door door("{}", hold_rules);
  for (const HttpVersion version : http_versions) {
    const Hold hold(door, version, "tokens", "inline");
    const Json subject =
        about_key(name_of(version),
                  Json::array({{{"quota", 10}, {"window", "1h"}, {"algorithm", "fixed_window"}}}));
    const Json held = told(hold.ask("/v1/reserve", with(subject, {{"n", 7}, {"id", hold.id}})));
    EXPECT_EQ(held.at("remaining"), 3);
    EXPECT_EQ(hold.extend(4).status, 429);
    EXPECT_EQ(told(hold.commit(2)).at("returned"), 5);
    const auto left = [&](const Asked& asked) { return ask(version, door.port(), asked); };
    EXPECT_EQ(units_left(left, subject), 8);
  }
}

TEST(HttpHolds, RulesWithoutACounterHoldNothing) {
  const Door door("{}", hold_rules);
  const Hold open(door, HttpVersion::http1, "open", "open"),
      closed(door, HttpVersion::http1, "closed", "closed");
  EXPECT_EQ(told(open.reserve(1000)).at("id"), open.id);
  EXPECT_EQ(told(open.extend(5)).at("reserved"), 1005);
  EXPECT_EQ(told(open.commit(7)).at("n"), 7);
  EXPECT_EQ(problem_of(closed.reserve(1)), "quota-exceeded");
  EXPECT_EQ(closed.renew().status, 404) << "nothing is held";
}

// ---- Refusals ----

TEST(HttpHolds, WhatIsNotThereIsRefusedByName) {
  const Door door("{}", hold_rules);
  const Hold hold(door, HttpVersion::http1, "tokens", "later");
  const Json several =
      with(takes({hold.subject(), hold.subject()}), {{"id", hold.id}, {"timeout", 5}});
  EXPECT_EQ(told(hold.ask("/v1/reserve", several), 400).at("pointer"), "/timeout");
  EXPECT_EQ(problem_of(hold.ask("/v1/acquire", hold.subject())), "no-places");
  EXPECT_EQ(hold.ask("/v1/cancel", {{"id", hold.id}}).status, 404);
}

// ---- Waits, places, a restart ----

TEST(HttpHolds, AReserveWaitsForTheEndOfAnother) {
  const Door door("{}", hold_rules);
  for (const HttpVersion version : http_versions) {
    const Hold hold(door, version, "tokens", "waits");
    EXPECT_EQ(hold.reserve(90, {{"ttl", 0.3}}).status, 200);
    Hold next(door, version, "tokens", "waits");
    next.id += "-2";
    const Json held = told(next.reserve(50, {{"timeout", 60}}));
    EXPECT_GT(held.at("waited"), 0);
    EXPECT_EQ(held.at("reserved"), 50);
    EXPECT_EQ(hold.left(), 50);
    Hold last(door, version, "tokens", "waits");
    last.id += "-3";
    EXPECT_EQ(problem_of(last.reserve(51, {{"timeout", 0.05}})), "wait-timeout");
    EXPECT_EQ(hold.left(), 50);
  }
}

TEST(HttpHolds, APlaceIsAcquiredRenewedAndReleased) {
  const Door door("{}", hold_rules);
  for (const HttpVersion version : http_versions) {
    const Hold hold(door, version, "places", "pool");
    const auto acquire = [&](const std::string& id, const Json& more = Json::object()) {
      return hold.ask("/v1/acquire", with(with(hold.subject(), {{"id", id}}), more));
    };
    const Json held = told(acquire(hold.id, {{"holder", "worker"}}));
    EXPECT_EQ(held.at("reserved"), 1);
    EXPECT_EQ(problem_of(acquire(hold.id + "-2")), "quota-exceeded");
    EXPECT_EQ(told(hold.renew()).at("id"), hold.id);
    EXPECT_EQ(told(hold.release()).at("returned"), 1);
    EXPECT_EQ(acquire(hold.id + "-2", {{"release_on_close", true}}).status, 200);
    // Its connection is gone, as each request has its own.
    EXPECT_EQ(acquire(hold.id + "-3", {{"timeout", 60}}).status, 200);
  }
}

TEST(HttpHolds, OfAServerWithCountersOnDiskAreThereAfterARestart) {
  const Folder data;
  const std::string settings =
      std::string(hold_rules) + "store: { path: \"" + data.path() + "/data\" }\n";
  {
    const Door door("{}", settings);
    EXPECT_EQ(Hold(door, HttpVersion::http1, "tokens", "disk").reserve(40).status, 200);
  }
  const Door door("{}", settings);
  const Hold hold(door, HttpVersion::http1, "tokens", "disk");
  EXPECT_EQ(hold.left(), 60);
  EXPECT_EQ(told(hold.commit(12)).at("returned"), 28);
  EXPECT_EQ(hold.left(), 88);
}

// ---- Users ----

TEST(HttpHolds, AreThoseOfTheirUsers) {
  const auto token = [](char letter) { return std::string(43, letter); };
  const Folder folder;
  std::string users = "users:\n";
  for (const auto& [name, letter, rights] :
       {std::tuple{"one", 'a', "[take]"}, {"two", 'b', "[take]"}, {"looks", 'c', "[look, put]"}}) {
    const std::string file = folder.write(std::string(name) + ".token", token(letter) + "\n");
    users += std::string("  - { name: ") + name + ", token_file: " + file + ", rights: " + rights +
             " }\n";
  }
  const Door door("{}", hold_rules + users);
  for (const HttpVersion version : http_versions) {
    const Hold hold(door, version, "tokens", "users");
    const auto as = [&](char letter, const std::string& path, const Json& body) {
      return ask(version, door.port(),
                 post(path, body, {{"Authorization", "Bearer " + token(letter)}}));
    };
    const Json reserve = with(hold.subject(), {{"n", 40}, {"id", hold.id}}),
               commit = {{"id", hold.id}, {"n", 12}}, only = {{"id", hold.id}},
               extend = {{"id", hold.id}, {"n", 1}};
    const std::pair<const char*, Json> all[] = {{"/v1/reserve", reserve},
                                                {"/v1/extend", extend},
                                                {"/v1/renew", only},
                                                {"/v1/commit", commit},
                                                {"/v1/release", only}};
    for (const auto& [path, body] : all) {
      EXPECT_EQ(as('c', path, body).status, 403) << path;
      EXPECT_EQ(ask(version, door.port(), post(path, body)).status, 401) << path;
    }
    told(as('a', "/v1/reserve", reserve));
    for (const auto& [path, body] : all) {
      if (std::string_view(path) == "/v1/reserve") continue;
      EXPECT_EQ(problem_of(as('b', path, body)), "no-such-hold") << path;
    }
    const Json other = told(as('b', "/v1/reserve", reserve));
    EXPECT_FALSE(other.contains("repeated")) << "its own, under the same name";
    EXPECT_EQ(other.at("remaining"), 20);
    EXPECT_EQ(told(as('a', "/v1/commit", commit)).at("remaining"), 48);
    EXPECT_EQ(told(as('b', "/v1/release", only)).at("returned"), 40);
  }
}

}  // namespace
}  // namespace sluice::tests::http_e2e
