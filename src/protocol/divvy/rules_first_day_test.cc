// Policies as Divvy's documentation shows them, as a new user types them on the first day: which
// limits requests then meet, and what is reported.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "protocol/divvy/rules.h"

namespace sluice::divvy {
namespace {

struct Policy {
  request::Spaces spaces;
  policy::RuleSet rules;
  base::Diagnostics diagnostics;

  Policy(std::string_view text, DivvyFormat format, DivvyMatching matching = DivvyMatching::code) {
    read_divvy(text, format, matching, "rules", spaces, rules, diagnostics);
  }
  bool accepted() const { return !has_errors(diagnostics); }
  std::string messages() const {
    std::string text;
    for (const base::Diagnostic& d : diagnostics) text += to_string(d) + '\n';
    return text;
  }

  // The counters that a request is charged to, each with its limit in units per seconds, as in
  // "shadow path=/x|actor 1/86400".
  std::vector<std::string> meets(std::vector<request::Entry> request) const {
    policy::Plan plan;
    rules.match(&dialect, {request}, plan);
    std::vector<std::string> all;
    for (const policy::Plan::RuleMatch& step : plan.steps(plan.parts()[0])) {
      const request::Charge& charge = plan.batch().charges[plan.group(step).charge_first];
      const limit::Limit& limit = charge.limits[0];
      std::string text = step.rule->mode == policy::Mode::shadow ? "shadow " : "";
      text += step.rule->pattern + "|" + std::string(charge.key) + " ";
      if (limit.algorithm == limit::Algorithm::deny) text += "deny";
      if (limit.algorithm == limit::Algorithm::unlimited)
        text += "always " + std::to_string(limit.quota);
      if (limit.algorithm == limit::Algorithm::fixed_window) {
        text += std::to_string(limit.quota) + "/" + std::to_string(limit.window.us / 1'000'000);
      }
      all.push_back(text);
    }
    return all;
  }
};

using Met = std::vector<std::string>;

constexpr const char* printer = R"(
[method=GET path=/printer/supplies]
creditLimit = 100
resetSeconds = 60

[method=POST path=/printer/print userId=*]
creditLimit = 60
resetSeconds = 60
actorField = userId

[method=POST path=/printer/print ip=*]
creditLimit = 5
resetSeconds = 60
actorField = ip

[method=GET path=/printer/status]
creditLimit = 1
resetSeconds = 0

[default]
creditLimit = 0
resetSeconds = 0
)";

TEST(DivvyFirstDay, PrinterByUserElseByIp) {
  const Policy policy(printer, DivvyFormat::ini, DivvyMatching::documented);
  ASSERT_EQ(policy.messages(), "");
  EXPECT_EQ(policy.meets({{"method", "GET"}, {"path", "/printer/supplies"}, {"ip", "1"}}),
            Met{"method=GET path=/printer/supplies| 100/60"});
  EXPECT_EQ(
      policy.meets({{"method", "POST"}, {"path", "/printer/print"}, {"userId", "7"}, {"ip", "1"}}),
      Met{"method=POST path=/printer/print userId=*|7 60/60"});
  EXPECT_EQ(policy.meets({{"method", "POST"}, {"path", "/printer/print"}, {"ip", "1"}}),
            Met{"method=POST path=/printer/print ip=*|1 5/60"});
  EXPECT_EQ(policy.meets({{"method", "GET"}, {"path", "/printer/status"}}),
            Met{"method=GET path=/printer/status| always 1"});
  EXPECT_EQ(policy.meets({}), Met{"default| deny"});
}

TEST(DivvyFirstDay, PrinterAsDivvyItselfReadsItIsRefusedWithBothRulesNamed) {
  const Policy policy(printer, DivvyFormat::ini);
  ASSERT_FALSE(policy.accepted());
  const std::string messages = policy.messages();
  EXPECT_NE(messages.find("rules:11: error: rule [method=POST path=/printer/print ip=*]"),
            std::string::npos)
      << messages;
  EXPECT_NE(messages.find("rule [method=POST path=/printer/print userId=*] (line 6)"),
            std::string::npos)
      << messages;
  EXPECT_NE(messages.find("`*` also matches a request without the key"), std::string::npos)
      << messages;
  EXPECT_NE(messages.find("documented matching"), std::string::npos) << messages;
}

TEST(DivvyFirstDay, ACanaryBeforeAnotherRule) {
  const Policy policy(R"(
[method=GET path=/pantry/cookies/special-cookie]
creditLimit = 1
resetSeconds = 86400
comment = 'canary: 1 request per day for GET /pantry/cookies/special-cookie'
matchPolicy = canary  # <----- Canary this rule, don't take action on it.

[method=GET path=/pantry/cookies/* ip=*]
creditLimit = 3
resetSeconds = 3600
actorField = ip

[default]
creditLimit = 0
resetSeconds = 0
)",
                      DivvyFormat::ini);
  ASSERT_EQ(policy.messages(), "");
  EXPECT_EQ(
      policy.meets(
          {{"method", "GET"}, {"path", "/pantry/cookies/special-cookie"}, {"ip", "10.0.0.7"}}),
      (Met{"shadow method=GET path=/pantry/cookies/special-cookie| 1/86400",
           "method=GET path=/pantry/cookies/* ip=*|10.0.0.7 3/3600"}));
  EXPECT_EQ(
      policy.meets({{"method", "GET"}, {"path", "/pantry/cookies/oatmeal"}, {"ip", "10.0.0.8"}}),
      Met{"method=GET path=/pantry/cookies/* ip=*|10.0.0.8 3/3600"});
}

TEST(DivvyFirstDay, DefaultsDenyOrAccept) {
  const std::string_view ini_deny = "[default]\ncreditLimit = 0\nresetSeconds = 0\n";
  const std::string_view ini_accept = "[default]\ncreditLimit = 1\nresetSeconds = 0\n";
  const std::string_view json_deny =
      R"({"overrides": [], "default": {"operation": {}, "creditLimit": 0, "resetSeconds": 0}})";
  const std::string_view json_accept =
      R"({"default": {"operation": {}, "creditLimit": 1, "resetSeconds": 0}})";
  EXPECT_EQ(Policy(ini_deny, DivvyFormat::ini).meets({{"a", "b"}}), Met{"default| deny"});
  EXPECT_EQ(Policy(ini_accept, DivvyFormat::ini).meets({{"a", "b"}}), Met{"default| always 1"});
  EXPECT_EQ(Policy(json_deny, DivvyFormat::json).meets({{"a", "b"}}), Met{"default| deny"});
  EXPECT_EQ(Policy(json_accept, DivvyFormat::json).meets({{"a", "b"}}), Met{"default| always 1"});
  for (const auto& [text, format] :
       {std::pair{ini_accept, DivvyFormat::ini}, std::pair{json_accept, DivvyFormat::json}}) {
    EXPECT_EQ(Policy(text, format).messages(), "");
  }
}

TEST(DivvyFirstDay, AManifestOfKubernetesGetsOneSentence) {
  const std::string_view yaml = "apiVersion: v1\nkind: ConfigMap\n---\napiVersion: v1\n";
  const std::string_view json = R"({"apiVersion": "v1", "kind": "ConfigMap", "data": {"a": "b"}})";
  for (const auto& [text, format] : {std::pair{yaml, DivvyFormat::ini}, {json, DivvyFormat::json}})
    EXPECT_EQ(Policy(text, format).messages(),
              "rules:1: error: this is a manifest of Kubernetes (a ConfigMap), not a policy; give "
              "the file that is in it; of a ConfigMap a text under `data`\n");
  // What Divvy reads is read, whatever stands beside it.
  EXPECT_TRUE(Policy(R"({"apiVersion": "v1", "kind": "x",
                         "default": {"operation": {}, "creditLimit": 1, "resetSeconds": 0}})",
                     DivvyFormat::json)
                  .accepted());
}

TEST(DivvyFirstDay, ARuleForOneUserBeforeOneForAllUsers) {
  const std::string one =
      "[method=GET path=/crisper/carrots userId=10]\ncreditLimit = 100\nresetSeconds = 60\n";
  const std::string everybody =
      "[method=GET path=/crisper/carrots userId=*]\ncreditLimit = 10\nresetSeconds = "
      "60\nactorField = userId\n";
  const std::string deny = "[default]\ncreditLimit = 0\nresetSeconds = 0\n";
  for (const DivvyMatching matching : {DivvyMatching::code, DivvyMatching::documented}) {
    const Policy policy(one + everybody + deny, DivvyFormat::ini, matching);
    ASSERT_EQ(policy.messages(), "");
    EXPECT_EQ(policy.meets({{"method", "GET"}, {"path", "/crisper/carrots"}, {"userId", "10"}}),
              Met{"method=GET path=/crisper/carrots userId=10| 100/60"});
    EXPECT_EQ(policy.meets({{"method", "GET"}, {"path", "/crisper/carrots"}, {"userId", "11"}}),
              Met{"method=GET path=/crisper/carrots userId=*|11 10/60"});
    const Policy swapped(everybody + one + deny, DivvyFormat::ini, matching);
    ASSERT_FALSE(swapped.accepted());
    EXPECT_EQ(swapped.messages(),
              "rules:5: error: rule [method=GET path=/crisper/carrots userId=10]: it is "
              "unreachable: rule "
              "[method=GET path=/crisper/carrots userId=*] (line 1) answers everything that it "
              "could match; move it in "
              "front of that rule, or narrow that rule\n");
  }
}

TEST(DivvyFirstDay, YearsWorkersQuotesAndMisspeltActors) {
  const Policy policy(R"(
[worker=card-sender cardType=birthday userId=*]
creditLimit = 1
resetSeconds = 31556926
actorField = userId

[method=GET ip=*]
creditLimit = 10
resetSeconds = 60
actorField = ip&
comment = '10 requests per minute by default

[default]
creditLimit = 0
resetSeconds = 0
)",
                      DivvyFormat::ini);
  ASSERT_TRUE(policy.accepted()) << policy.messages();
  EXPECT_EQ(policy.meets({{"worker", "card-sender"}, {"cardType", "birthday"}, {"userId", "7"}}),
            Met{"worker=card-sender cardType=birthday userId=*|7 1/31556926"});
  EXPECT_EQ(policy.meets({{"method", "GET"}, {"ip", "1.2.3.4"}}), Met{"method=GET ip=*| 10/60"});
  EXPECT_EQ(
      policy.messages(),
      "rules:10: warning: rule [method=GET ip=*]: actorField `ip&` is not a key of this rule; "
      "all requests without "
      "that key share one counter; did you mean `ip`?\n");
}

TEST(DivvyFirstDay, JsonRuleAndItsIniTwin) {
  const Policy json(
      R"({"overrides": [{"operation": {"method": "GET", "ip": "*"}, "creditLimit": 100,
                         "resetSeconds": 60, "actorField": "ip", "comment": "..."}],
          "default": {"operation": {}, "creditLimit": 0, "resetSeconds": 0}})",
      DivvyFormat::json);
  const Policy ini(
      "[method=GET ip=*]\ncreditLimit = 100\nresetSeconds = 60\nactorField = "
      "'ip'\n[default]\ncreditLimit = 0\n",
      DivvyFormat::ini);
  EXPECT_EQ(json.messages(), "");
  EXPECT_EQ(ini.messages(), "");
  for (const Policy* policy : {&json, &ini}) {
    EXPECT_EQ(policy->meets({{"method", "GET"}, {"ip", "1"}}), Met{"method=GET ip=*|1 100/60"});
    EXPECT_EQ(policy->rules.rules(&dialect)[0].space->prefix, "divvy:ip=* method=GET:");
  }
}

}  // namespace
}  // namespace sluice::divvy
