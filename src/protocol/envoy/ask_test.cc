// `sluice ask envoy` and its client, with a server whose answers the test sets: the requests, the
// output and the exit codes.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "cli/command_test.h"
#include "protocol/envoy/client.h"
#include "protocol/envoy/commands.h"
#include "protocol/envoy/fake_service_test.h"
#include "protocol/envoy/proto_test.h"
#include "testing/fake_server.h"

namespace sluice::envoy::ask_test {
namespace {

using nlohmann::json;
using namespace std::chrono_literals;
using Response = proto::RateLimitResponse;

class EnvoyAsk : public cli::CommandTest {
 protected:
  struct Said {
    int status;
    std::string text;
    friend bool operator==(const Said&, const Said&) = default;
    friend std::ostream& operator<<(std::ostream& out, const Said& said) {
      return out << said.status << " " << said.text;
    }
  };

  int run_ask(const cli::Words& words) {
    std::ostringstream out_stream, err_stream;
    config::CommandIo io{out_stream, err_stream, false, false,
                         [](const char*) -> std::optional<std::string> { return std::nullopt; }};
    const int status = envoy::ask(words, io);
    out = out_stream.str();
    err = err_stream.str();
    return status;
  }
  // The exit status, and what is printed on standard output and standard error, if a server answers
  // with `reply`.
  Said ask(const fake::Reply& reply, cli::Words words) {
    fake::Service service([&](const wire::GrpcCall& call) {
      path = call.path;
      asked.ParseFromArray(call.message.data(), static_cast<int>(call.message.size()));
      timeout = call.timeout;
      return reply;
    });
    words.insert(words.begin(),
                 {"--server", "127.0.0.1:" + std::to_string(service.port()), "--timeout", "20000"});
    const int status = run_ask(words);
    return {status, out + err};
  }
  Said ask(const Response& response, const cli::Words& words) {
    return ask({response.SerializeAsString()}, words);
  }

  std::string path;
  proto::RateLimitRequest asked;
  base::Duration timeout{};
};

Response::DescriptorStatus& add_status(Response& response, Response::Code code,
                                       std::optional<uint32_t> limit, uint32_t remaining) {
  auto& status = *response.add_statuses();
  status.set_code(code);
  if (limit) {
    status.mutable_current_limit()->set_requests_per_unit(*limit);
    status.mutable_current_limit()->set_unit(Response::RateLimit::MINUTE);
    status.mutable_duration_until_reset()->set_seconds(37);
  }
  status.set_limit_remaining(remaining);
  return status;
}

Response answer_of(Response::Code code) {
  Response response;
  response.set_overall_code(code);
  add_status(response, code, 5, code == Response::OK ? 4 : 0);
  return response;
}

TEST_F(EnvoyAsk, SaysADecisionInWords) {
  EXPECT_EQ(ask(answer_of(Response::OK), {"shop", "remote_address=10.0.0.7"}),
            (Said{0,
                  "allowed (OK)\n"
                  "  remote_address=10.0.0.7: OK, 4 of 5 left per minute, resets in 37s\n"}));
  EXPECT_EQ(path, "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit");
  EXPECT_EQ(timeout, base::seconds(20));
  EXPECT_EQ(ask(answer_of(Response::OVER_LIMIT), {"shop", "k=v"}),
            (Said{1,
                  "denied (OVER_LIMIT)\n"
                  "  k=v: OVER_LIMIT, 0 of 5 left per minute, resets in 37s\n"}));
}

TEST_F(EnvoyAsk, SaysALineForEachDescriptor) {
  Response response;
  response.set_overall_code(Response::OVER_LIMIT);
  auto& named = *add_status(response, Response::OVER_LIMIT, 9, 0).mutable_current_limit();
  named.set_name("log\nin");
  named.set_unit(Response::RateLimit::WEEK);
  auto& several = *add_status(response, Response::OK, 9, 3).mutable_current_limit();
  several.mutable_unit_multiplier()->set_value(15);
  add_status(response, Response::OK, 9, 8).mutable_current_limit()->clear_unit();
  add_status(response, Response::OK, std::nullopt, 0);
  add_status(response, Response::OK, std::nullopt, UINT32_MAX);
  auto& header = *response.add_response_headers_to_add();
  header.set_key("RateLimit-Limit");
  header.set_value("9");
  EXPECT_EQ(
      ask(response, {"d", "a=1", "b=x=y", "--", "c=", "--", "d=2", "--", "e=3", "--", "-f=4"}),
      (Said{1,
            "denied (OVER_LIMIT)\n"
            "  a=1, b=x=y: OVER_LIMIT, 0 of 9 left per week (log\\nin), resets in 37s\n"
            "  c=: OK, 3 of 9 left per 15 minutes, resets in 37s\n"
            "  d=2: OK, 8 of 9 left, resets in 37s\n"
            "  e=3: OK, no limit applies\n"
            "  -f=4: OK, unlimited\n"
            "  header RateLimit-Limit: 9\n"}));
}

TEST_F(EnvoyAsk, SendsTheRequestOfItsArguments) {
  const auto asked_by = [this](const cli::Words& words) {
    ask(answer_of(Response::OK), words);
    return asked.ShortDebugString();
  };
  EXPECT_EQ(asked_by({"d", "a=1", "b=x=y"}),
            R"(domain: "d" descriptors { entries { key: "a" value: "1" } )"
            R"(entries { key: "b" value: "x=y" } })");
  EXPECT_EQ(asked_by({"d", "--", "-a="}), R"(domain: "d" descriptors { entries { key: "-a" } })");
  EXPECT_EQ(asked_by({"--hits", "7", "d", "a=1"}),
            R"(domain: "d" descriptors { entries { key: "a" value: "1" } )"
            R"(hits_addend { value: 7 } })");
  EXPECT_EQ(asked_by({"--peek", "d", "a=1"}),
            R"(domain: "d" descriptors { entries { key: "a" value: "1" } hits_addend { } })");
  EXPECT_EQ(asked_by({"--refund", "--hits", "2", "d", "a=1"}),
            R"(domain: "d" descriptors { entries { key: "a" value: "1" } )"
            R"(hits_addend { value: 2 } is_negative_hits: true })");
  EXPECT_EQ(asked_by({"--limit", "10/HOUR", "d", "a=1", "--", "a=2"}),
            R"(domain: "d" descriptors { entries { key: "a" value: "1" } )"
            R"(limit { requests_per_unit: 10 unit: HOUR } } )"
            R"(descriptors { entries { key: "a" value: "2" } )"
            R"(limit { requests_per_unit: 10 unit: HOUR } })");
}

TEST_F(EnvoyAsk, SaysItInJson) {
  Response response = answer_of(Response::OVER_LIMIT);
  response.mutable_statuses(0)->mutable_current_limit()->set_name("login");
  add_status(response, Response::OK, std::nullopt, 0);
  auto& header = *response.add_response_headers_to_add();
  header.set_key("k");
  header.set_value("v");
  EXPECT_EQ(ask(response, {"--json", "d", "a=1", "b=2", "--", "c=3"}).status, 1);
  EXPECT_EQ(json::parse(out), json::parse(R"({
      "allowed": false, "code": "OVER_LIMIT",
      "statuses": [
        {"entries": [{"key": "a", "value": "1"}, {"key": "b", "value": "2"}],
         "code": "OVER_LIMIT", "limit": 5, "unit": "MINUTE", "name": "login", "remaining": 0,
         "reset_after_seconds": 37},
        {"entries": [{"key": "c", "value": "3"}], "code": "OK", "remaining": 0}],
      "headers": [{"key": "k", "value": "v"}]})"));
  EXPECT_EQ(ask(answer_of(Response::OK), {"--json", "d", "a=1"}).status, 0);
  EXPECT_EQ(json::parse(out)["allowed"], true);
}

TEST_F(EnvoyAsk, NotesEntriesThatAreSeparatedByCommas) {
  Response none;
  none.set_overall_code(Response::OK);
  add_status(none, Response::OK, std::nullopt, 0);
  EXPECT_EQ(
      ask(none, {"d", "path=/cart,tenant=a"}),
      (Said{0,
            "allowed (OK)\n"
            "  path=/cart,tenant=a: OK, no limit applies\n"
            "note: `path=/cart,tenant=a` is one entry, of the key `path`; several entries are "
            "words of their own: path=/cart tenant=a\n"}));
  for (const char* word : {"path=/cart,a", "path=a=b,c", "path="}) {
    ask(none, {"d", word});
    EXPECT_EQ(err, "") << word;
  }
  ask(answer_of(Response::OK), {"d", "path=/cart,tenant=a"});
  EXPECT_EQ(err, "") << "a limit applies to it";
}

TEST_F(EnvoyAsk, SaysWhyItGotNoDecision) {
  EXPECT_EQ(
      ask({"", wire::GrpcStatus::unknown, "rate limit domain must not be empty"}, {"", "a=1"}),
      (Said{3, "error: the server refused: UNKNOWN, rate limit domain must not be empty\n"}));
  EXPECT_EQ(ask({"", wire::GrpcStatus::unavailable, ""}, {"--json", "d", "a=1"}),
            (Said{3, "{\n  \"error\": \"the server refused: UNAVAILABLE\"\n}\n"}));
  EXPECT_EQ(ask({"\x08"}, {"d", "a=1"}),
            (Said{3, "error: that is not an answer of Envoy's rate limit service\n"}));
  const Said no_answer{3, "error: that is not an answer to this request\n"};
  EXPECT_EQ(ask(answer_of(Response::OK), {"d", "a=1", "--", "b=1"}), no_answer);
  EXPECT_EQ(ask(answer_of(Response::UNKNOWN), {"d", "a=1"}), no_answer);
}

TEST_F(EnvoyAsk, RequiresADomainAndDescriptors) {
  const auto problem_with = [this](const cli::Words& words) {
    EXPECT_EQ(run_ask(words), 2) << err;
    return err.substr(0, err.find('\n'));
  };
  EXPECT_EQ(problem_with({}), "error: behind `envoy` comes the domain");
  EXPECT_EQ(problem_with({"d"}),
            "error: behind the domain comes a descriptor: one or more KEY=VALUE");
  EXPECT_EQ(problem_with({"d", "--"}),
            "error: behind the domain comes a descriptor: one or more KEY=VALUE");
  EXPECT_EQ(problem_with({"d", "k"}),
            "error: `k` has no `=`; a request is words of the form key=value");
  EXPECT_EQ(problem_with({"d", "k=v", "--hits", "-1"}),
            "error: --hits must be 0 to 18446744073709551615, not `-1`");
  for (const cli::Words& words : {cli::Words{"--peek", "--refund", "d", "k=v"},
                                  cli::Words{"--peek", "--hits", "2", "d", "k=v"}})
    EXPECT_EQ(problem_with(words), "error: --peek has no hits to give back, and no --hits");
  for (const char* limit : {"5", "5/", "/minute", "5/fortnight", "-1/minute", "4294967296/minute",
                            "5/unknown", "x/minute"})
    EXPECT_EQ(problem_with({"d", "k=v", "--limit", limit}),
              "error: --limit must be 0 to 4294967295, `/`, and second, minute, hour, day, week, "
              "month or year, as 100/minute; not `" +
                  std::string(limit) + "`");
  EXPECT_EQ(run_ask({"--server", "::1:80", "d", "k=v"}), 2);
  EXPECT_EQ(run_ask({"--timeout", "0", "d", "k=v"}), 2);
  EXPECT_EQ(run_ask({"--help"}), 0);
  for (const char* part : {"localhost:8081", "--json", "--timeout", "--peek", "--limit"})
    EXPECT_TRUE(said(out, part)) << part << "\n" << out;
}

// The client's problem with a server that does not answer as the protocol requires; "" if none.
std::string problem_of(uint16_t port, std::chrono::milliseconds timeout) {
  RateLimitRequest request;
  request.domain = "d";
  const auto answer = ServiceClient("127.0.0.1", port, timeout).ask(request);
  return answer ? "" : answer.problem().text;
}

TEST(EnvoyServiceClient, ReportsServerErrors) {
  uint16_t port = 0;
  {
    const std::string request_end =
        "\n\x01"
        "d";
    calls::FakeServer server({"HTTP/1.1 400 Bad Request\r\n\r\n", "", calls::FakeServer::silence},
                             request_end);
    port = server.port();
    EXPECT_EQ(problem_of(port, 20s), "that is not a server of gRPC: it does not speak HTTP/2");
    EXPECT_EQ(problem_of(port, 20s), "the server closed the connection without a reply");
    EXPECT_EQ(problem_of(port, 20ms), "no reply in time");
  }
  EXPECT_EQ(problem_of(port, 20s),
            "cannot connect to 127.0.0.1 port " + std::to_string(port) + ": Connection refused");
}

// Requests and answers that are larger than the flow-control windows of a new connection.
TEST(EnvoyServiceClient, SendsRequestsAndReadsAnswersBeyondTheFirstWindow) {
  proto::RateLimitRequest asked;
  fake::Service service([&](const wire::GrpcCall& call) {
    asked.ParseFromArray(call.message.data(), static_cast<int>(call.message.size()));
    Response response;
    response.set_overall_code(Response::OK);
    for (const auto& descriptor : asked.descriptors())
      add_status(response, Response::OK, 5, 4)
          .mutable_current_limit()
          ->set_name(descriptor.entries(0).value());
    return fake::Reply{response.SerializeAsString()};
  });
  const std::string value(700, 'v');
  RateLimitRequest request;
  request.domain = "d";
  for (uint32_t i = 0; i < request_descriptors_max; ++i) {
    request.entries.push_back({"key", value});
    Descriptor& descriptor = request.descriptors.emplace_back();
    descriptor.first_entry = i;
    descriptor.entry_count = 1;
  }
  const auto answer = ServiceClient("localhost", service.port(), 60s).ask(request);
  ASSERT_TRUE(answer) << answer.problem().text;
  EXPECT_EQ(asked.descriptors_size(), static_cast<int>(request_descriptors_max));
  const auto& statuses = (*answer)->response.statuses;
  ASSERT_EQ(statuses.size(), request_descriptors_max);
  for (const DescriptorStatus& status : statuses) EXPECT_EQ(status.current_limit->name, value);
}

TEST(EnvoyServiceClient, RefusesARequestThatIsTooLarge) {
  const std::string value(message_bytes_max, 'v');
  RateLimitRequest request;
  request.domain = value;
  const auto answer = ServiceClient("127.0.0.1", 1, 20s).ask(request);
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.problem().text, "the request is larger than 4 MiB");
}

}  // namespace
}  // namespace sluice::envoy::ask_test
