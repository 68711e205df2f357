// What an operator who comes from Divvy types on the first day: the sessions and policies of its
// documentation, against the real binary.
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "tests/e2e/policies.h"
#include "tests/support/divvy_server.h"
#include "tests/support/paths.h"

namespace sluice::tests {
namespace {

using Session = std::vector<std::pair<std::string, std::string>>;

const Session session_a{
    {"HIT method=GET path=/status", "OK true 999 60"},
    {"HIT method=GET path=/status", "OK true 998 58"},
    {"HIT method=GET path=/pantry/cookies ip=192.168.1.1", "OK true 2 3600"},
    {"HIT method=GET path=/pantry/cookies ip=192.168.1.1", "OK true 1 3599"},
    {"HIT method=GET path=/pantry/cookies ip=192.168.1.1", "OK true 0 3598"},
    {"HIT method=GET path=/pantry/cookies ip=192.168.1.1", "OK false 0 3597"},
    {"HIT method=GET path=/pantry/cookies ip=4.3.2.1", "OK true 2 3600"},
};

const Session session_b{
    {"HIT method=GET path=/pantry/cookies/chocolate-chip ip=10.0.0.7", "OK true 2 3600"},
    {"HIT method=GET path=/pantry/cookies/chocolate-chip ip=10.0.0.7", "OK true 1 3599"},
    {"HIT method=GET path=/pantry/cookies/oatmeal ip=10.0.0.7", "OK true 0 3598"},
    {"HIT method=GET path=/pantry/cookies/cricket-flavored ip=10.0.0.7", "OK false 0 3597"},
    {"HIT method=GET path=/pantry/cookies/oatmeal ip=10.0.0.8", "OK true 2 3600"},
};

// The seconds differ by the time that typing took in the documentation, and by the time that the
// machine takes.
constexpr long drift_s = 20 * slowness;

void play(TcpClient& client, const Session& session) {
  for (const auto& [request, expected] : session) {
    const std::string reply = client.ask(request);
    const size_t cut = expected.rfind(' '), cut_here = reply.rfind(' ');
    ASSERT_NE(cut_here, std::string::npos) << request << " -> " << reply;
    EXPECT_EQ(reply.substr(0, cut_here), expected.substr(0, cut)) << request;
    const long seconds = std::stol(expected.substr(cut)), here = std::stol(reply.substr(cut_here));
    if (seconds <= 0)
      EXPECT_EQ(here, seconds) << request;
    else
      EXPECT_LE(std::labs(here - seconds), drift_s) << request << " -> " << reply;
  }
}

std::string example(const char* name) {
  return tests::source_path("examples/") + name;
}

class FirstDay : public testing::TestWithParam<std::vector<std::string>> {};

TEST_P(FirstDay, BothSessionsAreAnswered) {
  const DivvyServer server(Process::Options{.arguments = GetParam()});
  auto client = server.client("localhost");
  play(client, session_a);
  play(client, session_b);
}

std::string example_name(const testing::TestParamInfo<std::vector<std::string>>& example) {
  static const char* const names[] = {"ini", "json", "builtIn"};
  return names[example.index];
}

INSTANTIATE_TEST_SUITE_P(
    Examples, FirstDay,
    testing::Values(std::vector<std::string>{"divvy", example("example-config.ini")},
                    std::vector<std::string>{"divvy", example("example-config.json")},
                    std::vector<std::string>{"serve", "--listen", "divvy=[::]:0"}),
    example_name);

TEST(FirstDayConfig, TheExampleServerConfigurationAnswersThem) {
  const DivvyServer server(Process::Options{
      .arguments = {"serve", "--config", example("sluice.yaml"), "--listen", "divvy=[::]:0"}});
  auto client = server.client();
  play(client, session_a);
  play(client, session_b);
}

const std::string printer_policy =
    "[method=GET path=/printer/supplies]\ncreditLimit = 100\nresetSeconds = 60\n\n"
    "[method=POST path=/printer/print userId=*]\ncreditLimit = 60\nresetSeconds = 60\n"
    "actorField = userId\n\n"
    "[method=POST path=/printer/print]\ncreditLimit = 5\nresetSeconds = 60\nactorField = ip\n\n"
    "[method=GET path=/printer/status]\ncreditLimit = 1\nresetSeconds = 0\n\n"
    "[default]\ncreditLimit = 0\nresetSeconds = 0\n";

TEST(FirstDayPolicies, PrinterAsItsDocumentationSays) {
  const DivvyServer server("rules.ini", printer_policy, {.arguments = {"--documented"}});
  auto client = server.client();
  play(client, {{"HIT method=GET path=/printer/supplies", "OK true 99 60"},
                {"HIT method=GET path=/printer/supplies ip=1.1.1.1", "OK true 98 60"},
                {"HIT method=POST path=/printer/print userId=7 ip=1.1.1.1", "OK true 59 60"},
                {"HIT method=POST path=/printer/print userId=8 ip=1.1.1.1", "OK true 59 60"},
                {"HIT method=POST path=/printer/print ip=1.1.1.1", "OK true 4 60"},
                {"HIT method=POST path=/printer/print ip=1.1.1.1", "OK true 3 60"},
                {"HIT method=POST path=/printer/print ip=2.2.2.2", "OK true 4 60"},
                {"HIT method=GET path=/printer/status", "OK true 1 0"},
                {"HIT method=GET path=/printer/status", "OK true 1 0"},
                {"HIT method=GET path=/printer/else", "OK false 0 -1"}});
}

// Without --documented, `userId=*` matches requests that have no userId, and hides the rule after
// it.
TEST(FirstDayPolicies, RejectsThePrinterPolicyAsDivvyReadsIt) {
  const Folder folder;
  const auto finished = run({.arguments = {"divvy", folder.write("rules.ini", printer_policy)},
                             .environment = {{"PORT", "0"}}});
  EXPECT_EQ(finished.status, 1);
  EXPECT_NE(finished.err.find("[method=POST path=/printer/print]"), std::string::npos)
      << finished.err;
  EXPECT_NE(finished.err.find("[method=POST path=/printer/print userId=*]"), std::string::npos)
      << finished.err;
}

TEST(FirstDayPolicies, ACanaryInFrontChangesNoReply) {
  const DivvyServer server(
      "rules.ini",
      "[method=GET path=/pantry/cookies/special-cookie]\ncreditLimit = 1\nresetSeconds = 86400\n"
      "comment = 'canary: 1 request per day for GET /pantry/cookies/special-cookie'\n"
      "matchPolicy = canary  # <----- Canary this rule, don't take action on it.\n\n"
      "[method=GET path=/pantry/cookies/* ip=*]\ncreditLimit = 3\nresetSeconds = 3600\n"
      "actorField = ip\n\n"
      "[default]\ncreditLimit = 0\nresetSeconds = 0\n");
  auto client = server.client();
  play(client, session_b);
  const std::string special = "HIT method=GET path=/pantry/cookies/special-cookie ip=9.9.9.9";
  play(client, {{special, "OK true 2 3600"},
                {special, "OK true 1 3600"},
                {special, "OK true 0 3600"},
                {special, "OK false 0 3600"}});
}

TEST(FirstDayPolicies, ADefaultThatDeniesAndOneThatAccepts) {
  const std::pair<std::string, std::string> policies[] = {
      {"rules.ini", "[default]\ncreditLimit = LIMIT\nresetSeconds = 0\n"},
      {"rules.json",
       R"({"overrides": [], "default": {"operation": {}, "creditLimit": LIMIT, "resetSeconds": 0}})"},
  };
  for (const auto& [file, text] : policies) {
    for (const char* limit : {"0", "1"}) {
      std::string policy = text;
      policy.replace(policy.find("LIMIT"), 5, limit);
      const DivvyServer server(file, policy);
      auto client = server.client();
      const std::string reply = *limit == '0' ? "OK false 0 -1" : "OK true 1 0";
      for (int i = 0; i < 3; ++i) EXPECT_EQ(client.ask("HIT a=b"), reply) << file;
    }
  }
}

const std::string one_user =
    "[method=GET path=/crisper/carrots userId=10]\ncreditLimit = 100\nresetSeconds = 60\n\n";
const std::string every_user =
    "[method=GET path=/crisper/carrots userId=*]\ncreditLimit = 10\nresetSeconds = 60\n"
    "actorField = userId\n\n";
const std::string deny_rest = "[default]\ncreditLimit = 0\nresetSeconds = 0\n";

TEST(FirstDayPolicies, ARuleForOneUserBeforeOneForAllUsers) {
  const DivvyServer server("rules.ini", one_user + every_user + deny_rest);
  auto client = server.client();
  play(client, {{"HIT method=GET path=/crisper/carrots userId=10", "OK true 99 60"},
                {"HIT method=GET path=/crisper/carrots userId=11", "OK true 9 60"},
                {"HIT method=GET path=/crisper/carrots userId=12", "OK true 9 60"},
                {"HIT method=GET path=/crisper/carrots userId=11", "OK true 8 60"}});
}

TEST(FirstDayPolicies, RejectsARuleForOneUserAfterOneForAllUsersNamingBoth) {
  const Folder folder;
  const auto path = folder.write("rules.ini", every_user + one_user + deny_rest);
  const auto finished = run({.arguments = {"divvy", path}, .environment = {{"PORT", "0"}}});
  EXPECT_EQ(finished.status, 1);
  EXPECT_NE(finished.err.find("[method=GET path=/crisper/carrots userId=10]"), std::string::npos)
      << finished.err;
  EXPECT_NE(finished.err.find("[method=GET path=/crisper/carrots userId=*]"), std::string::npos)
      << finished.err;
}

TEST(FirstDayPolicies, YearsWorkersQuotesAndAMisspeltActor) {
  DivvyServer server("rules.ini",
                     "[worker=card-sender cardType=birthday userId=*]\ncreditLimit = 1\n"
                     "resetSeconds = 31556926\nactorField = userId\n"
                     "comment = '10 requests per minute by default\n\n"
                     "[method=GET ip=*]\ncreditLimit = 100\nresetSeconds = 60\n"
                     "actorField = ip&\n\n" +
                         deny_rest);
  auto client = server.client();
  play(client, {{"HIT worker=card-sender cardType=birthday userId=1", "OK true 0 31556926"},
                {"HIT worker=card-sender cardType=birthday userId=1", "OK false 0 31556926"},
                {"HIT worker=card-sender cardType=birthday userId=2", "OK true 0 31556926"},
                {"HIT method=GET ip=1.1.1.1", "OK true 99 60"},
                {"HIT method=GET ip=2.2.2.2", "OK true 98 60"}});
  EXPECT_TRUE(server.process().says("`ip&`"));
  EXPECT_TRUE(server.process().says("did you mean `ip`?"));
}

TEST(FirstDayPolicies, ARuleInJsonAndItsTwin) {
  const std::pair<std::string, std::string> policies[] = {
      {"rules.json",
       R"({"overrides": [{"operation": {"method": "GET", "ip": "*"}, "creditLimit": 100,)"
       R"( "resetSeconds": 60, "actorField": "ip", "comment": "100 a minute"}],)"
       R"( "default": {"operation": {}, "creditLimit": 0, "resetSeconds": 0}})"},
      {"rules.ini",
       "[method=GET ip=*]\ncreditLimit = 100\nresetSeconds = 60\nactorField = 'ip'\n"
       "comment = '100 a minute'\n\n" +
           deny_rest},
  };
  for (const auto& [file, policy] : policies) {
    const DivvyServer server(file, policy);
    auto client = server.client();
    play(client, {{"HIT method=GET ip=1.1.1.1", "OK true 99 60"},
                  {"HIT method=GET ip=1.1.1.1", "OK true 98 60"},
                  {"HIT method=GET ip=2.2.2.2", "OK true 99 60"},
                  {"HIT method=PUT ip=2.2.2.2", "OK false 0 -1"}});
  }
}

}  // namespace
}  // namespace sluice::tests
