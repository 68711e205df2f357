// The bodies of requests that the client library writes, and the bodies of answers that it reads.
#include "protocol/http/client_json.h"

#include <gtest/gtest.h>

#include <chrono>
#include <string>

namespace sluice::http {
namespace client_json_test {
namespace {

using namespace std::chrono_literals;

std::string body_of(const client_request& request) {
  std::string body;
  const base::Done appended = append_client_body(request, body);
  return appended ? body : "problem: " + appended.problem().text;
}

TEST(HttpClientJson, BodiesMatchTheManual) {
  client_request request;
  request.subject.entries = {{"path", "/a\"b\\c\n"}, {"ip", "1"}};
  EXPECT_EQ(body_of(request), R"({"entries": {"path": "/a\"b\\c\n", "ip": "1"}})");
  request = {};
  request.subject.key = "k";
  request.subject.limits = {{3, 1500ms}, {2, 0s, client_algorithm::fixed_bucket}};
  request.n = 2;
  EXPECT_EQ(body_of(request),
            R"({"key": "k", "limits": [{"quota": 3, "window": 1.5, "algorithm": "token_bucket"}, )"
            R"({"quota": 2, "algorithm": "fixed_bucket"}], "n": 2})");
  request.verb = client_verb::wait;
  request.wait_for = 250ms;
  request.subject.limits.resize(1);
  EXPECT_TRUE(body_of(request).ends_with(R"("n": 2, "timeout": 0.25})"));
  request.verb = client_verb::put;
  request.all = true;
  EXPECT_TRUE(body_of(request).ends_with(R"("all": true})"));
}

TEST(HttpClientJson, AReserveAndAnAcquireMayWait) {
  for (const client_verb verb : {client_verb::reserve, client_verb::acquire}) {
    client_request request;
    request.verb = verb;
    request.subject.entries = {{"pool", "a"}};
    request.wait_for = 250ms;
    EXPECT_EQ(body_of(request), R"({"entries": {"pool": "a"}, "timeout": 0.25})");
    const calls::Expected its{verb};
    const client_result granted = read_client_answer(
        200,
        R"({"allowed": true, "limit": 1, "remaining": 0, "reset_after": 9, "retry_after": 0, )"
        R"("id": "place-0000-0000-01", "ttl": 20, "reserved": 1, "waited": 0.125})",
        its);
    EXPECT_TRUE(granted.is_allowed()) << granted.text;
    EXPECT_EQ(granted.waited, 125ms);
    EXPECT_TRUE(granted.delayed);
    const client_result late =
        read_client_answer(408, R"({"type": "urn:sluice:problem:wait-timeout"})", its);
    EXPECT_EQ(late.error, client_errc::none);
    EXPECT_FALSE(late.allowed);
    request.several = {request.subject};
    EXPECT_EQ(body_of(request), "problem: a reserve or an acquire that waits has one subject");
  }
  client_request request;
  request.verb = client_verb::acquire;
  request.subject.entries = {{"pool", "a"}};
  request.wait_for = 1s;
  request.release_on_close = true;
  EXPECT_EQ(body_of(request),
            "problem: places that are waited for are not released with their connection");
}

TEST(HttpClientJson, RefusesWhatIsNotUtf8) {
  client_request request;
  request.subject.entries = {{"ip", "\xFF"}};
  EXPECT_EQ(body_of(request), "problem: keys and values must be UTF-8");
  request.subject.entries = {{"\xC3", "1"}};
  EXPECT_EQ(body_of(request), "problem: keys and values must be UTF-8");
  request.subject = {};
  request.subject.key = "\x80";
  request.subject.limits = {{3, 1s}};
  EXPECT_EQ(body_of(request), "problem: keys and values must be UTF-8");
}

TEST(HttpClientJson, SeveralEachHaveTheUnits) {
  client_request request;
  request.several.resize(2);
  request.several[0].entries = {{"a", "1"}};
  request.several[1].entries = {{"b", "2"}};
  request.n = 3;
  request.each = true;
  EXPECT_EQ(body_of(request), R"({"takes": [{"entries": {"a": "1"}, "n": 3}, )"
                              R"({"entries": {"b": "2"}, "n": 3}], "mode": "each"})");
  request.verb = client_verb::put;
  EXPECT_TRUE(body_of(request).starts_with("problem: "));
}

TEST(HttpClientJson, AChargeHasItsIdAndReportsItsDebt) {
  client_request request;
  request.verb = client_verb::charge;
  request.subject.entries = {{"tenant", "acme"}};
  request.n = 25;
  EXPECT_EQ(body_of(request), R"({"entries": {"tenant": "acme"}, "n": 25})");
  request.id = "charge-0000-0001";
  EXPECT_EQ(body_of(request),
            R"({"entries": {"tenant": "acme"}, "n": 25, "id": "charge-0000-0001"})");
  request.several = {request.subject, request.subject};
  EXPECT_TRUE(body_of(request).starts_with(R"({"takes": [{)"));
  EXPECT_TRUE(body_of(request).ends_with(R"(], "id": "charge-0000-0001"})")) << body_of(request);
  request.each = true;
  EXPECT_TRUE(body_of(request).starts_with("problem: "));
  request.each = false;
  request.verb = client_verb::take;
  EXPECT_TRUE(body_of(request).starts_with("problem: ")) << "only a charge may have an id";

  const calls::Expected charge{client_verb::charge};
  const client_result over = read_client_answer(
      200,
      R"({"charged": 25, "over": true, "limit": 100, "remaining": 0, "debt": 15, )"
      R"("retry_after": 9.5, "reset_after": 9.5, "rule": "tok", "mode": "enforce", "repeated": true})",
      charge);
  EXPECT_EQ(over.error, client_errc::none);
  EXPECT_TRUE(over.over);
  EXPECT_FALSE(over.is_allowed());
  EXPECT_TRUE(over.repeated);
  EXPECT_EQ(over.charged, 25);
  EXPECT_EQ(over.debt, 15);
  EXPECT_EQ(over.remaining, 0);
  EXPECT_EQ(over.retry_after, 9500ms);
  EXPECT_EQ(over.rule, "tok");
  const client_result within = read_client_answer(
      200, R"({"charged": 0, "over": false, "rule": null, "generation": 1})", charge);
  EXPECT_TRUE(within.is_allowed());
  EXPECT_FALSE(within.repeated);
  EXPECT_EQ(read_client_answer(409, R"({"detail": "used"})", charge).error, client_errc::refused);
  EXPECT_EQ(read_client_answer(503, R"({"detail": "away"})", charge).error,
            client_errc::unavailable);
  EXPECT_EQ(read_client_answer(200, R"({"allowed": true})", charge).error, client_errc::bad_reply);
  const client_result two =
      read_client_answer(200,
                         R"({"over": true, "takes": [{"charged": 1, "over": false, "rule": "a"}, )"
                         R"({"charged": 2, "over": true, "debt": 1, "rule": "b"}]})",
                         {client_verb::charge, false, 2});
  ASSERT_EQ(two.levels.size(), 2u);
  EXPECT_TRUE(two.over);
  EXPECT_FALSE(two.levels[0].over);
  EXPECT_EQ(two.levels[1].debt, 1);
  EXPECT_EQ(two.levels[1].name, "b");
}

TEST(HttpClientJson, AReservationIsAskedFor) {
  client_request request;
  request.verb = client_verb::reserve;
  request.subject.entries = {{"tenant", "acme"}};
  request.n = 40;
  EXPECT_EQ(body_of(request), R"({"entries": {"tenant": "acme"}, "n": 40})");
  request.ttl = 90'500ms;
  request.holder = "gateway-1";
  request.id = "stream-00000001";
  EXPECT_EQ(body_of(request), R"({"entries": {"tenant": "acme"}, "n": 40, "ttl": 90.5, )"
                              R"("holder": "gateway-1", "id": "stream-00000001"})");
  client_request two = request;
  two.several = {request.subject, request.subject};
  two.n.reset();
  two.units = {4, 5};
  two.holder = {};
  EXPECT_EQ(body_of(two), R"({"takes": [{"entries": {"tenant": "acme"}, "n": 4}, )"
                          R"({"entries": {"tenant": "acme"}, "n": 5}], "ttl": 90.5, )"
                          R"("id": "stream-00000001"})");
  // What is settled has its subject at the server; a commit may name it again.
  two.verb = client_verb::extend;
  EXPECT_EQ(body_of(two), R"({"n": [4, 5], "ttl": 90.5, "id": "stream-00000001"})");
  two.ttl = {};
  two.verb = client_verb::commit;
  EXPECT_EQ(body_of(two), R"({"takes": [{"entries": {"tenant": "acme"}}, )"
                          R"({"entries": {"tenant": "acme"}}], "n": [4, 5], )"
                          R"("id": "stream-00000001"})");
  two.several.clear();
  two.subject = {};
  two.units.clear();
  two.n = 7;
  EXPECT_EQ(body_of(two), R"({"n": 7, "id": "stream-00000001"})");
  two.n.reset();
  two.verb = client_verb::release;
  EXPECT_EQ(body_of(two), R"({"id": "stream-00000001"})");
  two.verb = client_verb::renew;
  two.ttl = 1s;
  EXPECT_EQ(body_of(two), R"({"ttl": 1, "id": "stream-00000001"})");
}

TEST(HttpClientJson, PlacesAreAskedForAndRead) {
  client_request request;
  request.verb = client_verb::acquire;
  request.subject.key = "pool";
  request.subject.limits = {
      {.quota = 2, .window = 30s, .algorithm = client_algorithm::concurrency, .max_lease = 300s}};
  request.ttl = 20s;
  request.holder = "w";
  request.release_on_close = true;
  EXPECT_EQ(body_of(request),
            R"({"key": "pool", "limits": [{"quota": 2, "lease": 30, "max_lease": 300, )"
            R"("algorithm": "concurrency"}], "ttl": 20, "holder": "w", "release_on_close": true})");
  const calls::Expected acquire{client_verb::acquire};
  const client_result held = read_client_answer(
      200,
      R"({"allowed": true, "limit": 2, "remaining": 1, "retry_after": 0, "reset_after": 20, )"
      R"("id": "place-0000-0000-01", "ttl": 20, "reserved": 1})",
      acquire);
  EXPECT_TRUE(held.is_allowed());
  EXPECT_EQ(held.id, "place-0000-0000-01");
  EXPECT_EQ(held.ttl, 20s);
  EXPECT_EQ(held.reserved, std::vector<int64_t>{1});
  const client_result none = read_client_answer(
      400, R"({"type": "urn:sluice:problem:no-places", "detail": "no limit"})", acquire);
  EXPECT_EQ(none.error, client_errc::no_places);
  EXPECT_EQ(none.text, "no limit");
  request.verb = client_verb::reserve;
  EXPECT_EQ(body_of(request),
            "problem: only places that are acquired are released with their connection");
  request.release_on_close = false;
  request.subject.limits[0].max_lease = 29s;
  EXPECT_TRUE(body_of(request).starts_with("problem: max_lease is of concurrency alone"));
  request.subject.limits[0].algorithm = client_algorithm::sliding_log;
  request.subject.limits[0].max_lease = 31s;
  EXPECT_TRUE(body_of(request).starts_with("problem: max_lease is of concurrency alone"));
}

TEST(HttpClientJson, AReservationThatCannotBeSaidIsAProblem) {
  client_request good;
  good.verb = client_verb::commit;
  good.id = "stream-00000001";
  good.n = 1;
  ASSERT_FALSE(body_of(good).starts_with("problem: "));
  const auto expect_problem = [&](auto&& change) {
    client_request request = good;
    change(request);
    EXPECT_TRUE(body_of(request).starts_with("problem: ")) << body_of(request);
  };
  expect_problem([](client_request& its) { its.id = {}; });
  expect_problem([](client_request& its) { its.n.reset(); });
  expect_problem([](client_request& its) { its.units = {1}; });
  expect_problem([](client_request& its) { its.ttl = 1s; });
  expect_problem([](client_request& its) { its.holder = "me"; });
  expect_problem([](client_request& its) { its.each = true; });
  expect_problem([](client_request& its) {
    its.n.reset();
    its.units = {1, 2};
    its.several.resize(1);
    its.several[0].entries = {{"a", "b"}};
  });
  const auto reserve = [](client_request& its) {
    its.verb = client_verb::reserve;
    its.subject.entries = {{"a", "b"}};
  };
  expect_problem([&](client_request& its) { reserve(its), its.ttl = -1s; });
  expect_problem([&](client_request& its) { reserve(its), its.holder = "\xFF"; });
  expect_problem([&](client_request& its) { reserve(its), its.subject = {}; });
  expect_problem([&](client_request& its) { reserve(its), its.verb = client_verb::take; });
  expect_problem([&](client_request& its) {
    reserve(its);
    its.verb = client_verb::charge;
    its.ttl = 1s;
  });
}

TEST(HttpClientJson, AnswersOfReservationsAreRead) {
  const calls::Expected reserve{client_verb::reserve}, commit{client_verb::commit};
  const client_result held = read_client_answer(
      200,
      R"({"allowed": true, "limit": 100, "remaining": 60, "retry_after": 0, "reset_after": 3600, )"
      R"("rule": "api", "mode": "enforce", "id": "call-0000-0000-01", "ttl": 60, "reserved": 40})",
      reserve);
  EXPECT_TRUE(held.is_allowed());
  EXPECT_EQ(held.id, "call-0000-0000-01");
  EXPECT_EQ(held.ttl, 60s);
  EXPECT_EQ(held.reserved, std::vector<int64_t>{40});
  EXPECT_EQ(held.remaining, 60);
  EXPECT_EQ(held.rule, "api");
  const client_result refused =
      read_client_answer(429, R"({"allowed": false, "limit": 100, "remaining": 6})", reserve);
  EXPECT_EQ(refused.error, client_errc::none);
  EXPECT_FALSE(refused.is_allowed());
  EXPECT_TRUE(refused.id.empty());
  const client_result unheld =
      read_client_answer(200, R"({"allowed": true, "id": null, "held": false})", reserve);
  EXPECT_TRUE(unheld.is_allowed());
  EXPECT_TRUE(unheld.id.empty());
  const client_result two = read_client_answer(
      200,
      R"({"allowed": true, "takes": [{"allowed": true, "rule": "a"}, {"allowed": true}], )"
      R"("id": "call-0000-0000-01", "ttl": 1.5, "reserved": [4, 5]})",
      {client_verb::reserve, false, 2});
  EXPECT_EQ(two.reserved, (std::vector<int64_t>{4, 5}));
  ASSERT_EQ(two.levels.size(), 2u);
  EXPECT_EQ(two.levels[0].name, "a");
  EXPECT_EQ(
      read_client_answer(200, R"({"id": "call-0000-0000-01", "ttl": 9})", {client_verb::renew}).ttl,
      9s);

  const client_result done = read_client_answer(
      200,
      R"({"state": "committed", "n": [25, 3], "returned": 12, "charged": 1, "late": true, )"
      R"("repeated": true, "limit": 100, "remaining": 0, "debt": 8, "rule": "api"})",
      commit);
  EXPECT_EQ(done.error, client_errc::none);
  EXPECT_FALSE(done.is_allowed());
  EXPECT_TRUE(done.over && done.late && done.repeated);
  EXPECT_EQ(done.used, (std::vector<int64_t>{25, 3}));
  EXPECT_EQ(done.returned, 12);
  EXPECT_EQ(done.charged, 1);
  EXPECT_EQ(done.debt, 8);
  const client_result released =
      read_client_answer(200, R"({"state": "released", "returned": 45})", {client_verb::release});
  EXPECT_TRUE(released.is_allowed());
  EXPECT_EQ(released.returned, 45);
  EXPECT_EQ(read_client_answer(200, R"({"state": "released", "returned": 45})", commit).error,
            client_errc::bad_reply);

  const client_result settled = read_client_answer(409, R"({"detail": "no", "n": 12})", commit);
  EXPECT_EQ(settled.error, client_errc::already_settled);
  EXPECT_EQ(settled.used, std::vector<int64_t>{12});
  EXPECT_EQ(read_client_answer(404, R"({"detail": "no"})", commit).error,
            client_errc::no_such_hold);
  EXPECT_EQ(read_client_answer(410, R"({"detail": "no"})", commit).error, client_errc::hold_ended);
  EXPECT_EQ(read_client_answer(404, R"({"detail": "no"})", reserve).error, client_errc::no_rule);
  EXPECT_EQ(read_client_answer(409, R"({"detail": "no"})", reserve).error, client_errc::refused);
}

TEST(HttpClientJson, AnswersByStatusAndBody) {
  const calls::Expected take{client_verb::take}, wait{client_verb::wait};
  const client_result denied = read_client_answer(
      429,
      R"({"allowed": false, "limit": 3, "remaining": 0, "retry_after": null, "reset_after": 1.5})",
      take);
  EXPECT_EQ(denied.error, client_errc::none);
  EXPECT_FALSE(denied.allowed);
  EXPECT_EQ(denied.retry_after, client_never);
  EXPECT_EQ(denied.reset_after, 1500ms);
  EXPECT_EQ(read_client_answer(404, R"({"detail": "no rule"})", take).error, client_errc::no_rule);
  EXPECT_EQ(read_client_answer(503, R"({"detail": "away"})", take).error, client_errc::unavailable);
  EXPECT_EQ(read_client_answer(503, "<html>", take).error, client_errc::unavailable);
  EXPECT_EQ(read_client_answer(403, R"({"detail": "no right"})", take).text, "no right");
  EXPECT_EQ(read_client_answer(403, R"({"detail": "no right"})", take).error, client_errc::refused);
  EXPECT_EQ(read_client_answer(200, "{}", take).error, client_errc::bad_reply);
  EXPECT_EQ(read_client_answer(200, "[]", take).error, client_errc::bad_reply);
  // This 429 is about a bound of the server, not about a counter.
  EXPECT_EQ(read_client_answer(429, R"({"detail": "slow down"})", take).error,
            client_errc::refused);
  EXPECT_EQ(read_client_answer(408, R"({"detail": "late"})", wait).error, client_errc::none);
  EXPECT_EQ(read_client_answer(408, R"({"detail": "late"})", take).error, client_errc::refused);
}

TEST(HttpClientJson, ReportsEachOfSeveralTakes) {
  const calls::Expected two{client_verb::take, true, 2};
  const client_result result = read_client_answer(
      200,
      R"({"allowed": false, "takes": [{"allowed": true, "limit": 1, "remaining": 0}, {"error": {}}]})",
      two);
  ASSERT_EQ(result.levels.size(), 2u);
  EXPECT_TRUE(result.levels[0].allowed);
  EXPECT_EQ(result.levels[0].remaining, 0);
  EXPECT_FALSE(result.levels[1].decided);
  EXPECT_EQ(read_client_answer(200, R"({"allowed": true, "takes": []})", two).error,
            client_errc::bad_reply);
}

}  // namespace
}  // namespace client_json_test
}  // namespace sluice::http
