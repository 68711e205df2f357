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
  EXPECT_EQ(body_of(request), R"({"entries": {"path": "/a\"b\\c\u000a", "ip": "1"}})");
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
