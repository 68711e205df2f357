// What is doubtful in rules is reported wherever a user may look: by `sluice check`, at the start,
// in the log at a reload, in `sluice status` and beside the rule in `sluice rules`.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "tests/e2e/described.h"
#include "tests/support/divvy_server.h"

namespace sluice::tests::rule_warnings_test {
namespace {

const std::string listeners =
    "listen:\n- { protocol: divvy, address: \"127.0.0.1:0\" }\n"
    "- { protocol: http, address: \"127.0.0.1:0\" }\n"
    "- { protocol: admin, address: \"127.0.0.1:0\" }\n";

std::string rule(const std::string& name, const std::string& more) {
  return "- { name: " + name + ", match: { ip: '*' }, limit: { quota: 9, window: 1h }" + more +
         " }\n";
}

class RuleWarnings : public testing::Test {
 protected:
  void write(const std::string& rules) {
    file = folder.write("sluice.yaml", listeners + "rules:\n" + rules);
  }
  void serve() {
    server = std::make_unique<Process>(Process::Options{.arguments = {"serve", "--config", file}});
    await_listening(*server);
    admin = await_listening(*server, "admin");
  }
  Finished cli(std::vector<std::string> words) const {
    words.insert(words.end(),
                 {"--admin", "127.0.0.1:" + std::to_string(admin), "--timeout", "20000"});
    return run({.arguments = std::move(words)});
  }
  // The findings of `sluice check`, a line for each.
  std::vector<std::string> checked() const {
    const std::string text = run({.arguments = {"check", file}}).err;
    std::vector<std::string> lines;
    for (size_t at = 0; at < text.size();) {
      const size_t end = std::min(text.find('\n', at), text.size());
      lines.push_back(text.substr(at, end - at));
      at = end + 1;
    }
    return lines;
  }
  // A running server reports all of them, and nothing else.
  void expect_reported(const std::vector<std::string>& lines) const {
    const Finished status = cli({"status"}), rules = cli({"rules"});
    for (const std::string& line : lines) {
      EXPECT_NE(status.out.find(line), std::string::npos) << line << "\n" << status.out;
      EXPECT_NE(rules.out.find(line), std::string::npos) << line << "\n" << rules.out;
    }
    const Json all = json_of(ask(admin, "GET", "/v1/status")).at("policy").at("warnings");
    EXPECT_EQ(all.size(), lines.size()) << all;
    EXPECT_EQ(json_of(ask(admin, "GET", "/v1/config")).at("warnings"), all);
    const Json listed = json_of(ask(admin, "GET", "/v1/rules")).at("rules");
    Json of_rules = Json::array();
    for (const Json& one : listed)
      for (const Json& warning : one.value("warnings", Json::array())) of_rules.push_back(warning);
    EXPECT_EQ(of_rules.size(), all.size());
    EXPECT_TRUE(std::is_permutation(of_rules.begin(), of_rules.end(), all.begin())) << of_rules;
  }

  Folder folder;
  std::string file;
  std::unique_ptr<Process> server;
  uint16_t admin = 0;
};

TEST_F(RuleWarnings, AreReportedAtTheStartInStatusAndBesideTheirRules) {
  write(rule("all", "") + rule("behind", ", mode: shadow") + rule("never", "") +
        "- { name: typo, match: { ip: '*' }, actor: ipp, limit: { quota: 1, window: 1s } }\n");
  const auto lines = checked();
  ASSERT_EQ(lines.size(), 4u);
  EXPECT_NE(lines[0].find("rule typo: actor: `ipp` is not a key"), std::string::npos) << lines[0];
  EXPECT_NE(lines[1].find("rule behind: is unreachable: rule all"), std::string::npos) << lines[1];
  EXPECT_NE(lines[2].find("rule never: is unreachable"), std::string::npos) << lines[2];
  EXPECT_NE(lines[3].find("rule typo: is unreachable"), std::string::npos) << lines[3];
  serve();
  for (const std::string& line : lines)
    EXPECT_NE(server->err().find(line), std::string::npos) << line << "\n" << server->err();
  expect_reported(lines);
}

TEST_F(RuleWarnings, AreReportedAtEachReloadAndGoWithTheirCause) {
  write(rule("all", ""));
  ASSERT_TRUE(checked().empty());
  serve();
  expect_reported({});
  EXPECT_EQ(cli({"status"}).out.find("warnings"), std::string::npos);
  write(rule("all", "") + rule("behind", ", mode: shadow"));
  const auto lines = checked();
  ASSERT_EQ(lines.size(), 1u);
  const Finished reloaded = cli({"reload"});
  EXPECT_EQ(reloaded.status, 0) << reloaded.err;
  EXPECT_NE((reloaded.out + reloaded.err).find(lines[0]), std::string::npos);
  EXPECT_TRUE(server->says("policy: " + lines[0])) << server->err();
  expect_reported(lines);
  // The check of a candidate says the same.
  const Json checked_there =
      json_of(ask(admin, "POST", "/v1/config/check?as=sluice",
                  listeners + "rules:\n" + rule("all", "") + rule("behind", ", mode: shadow")));
  EXPECT_EQ(checked_there.at("diagnostics"),
            json_of(ask(admin, "GET", "/v1/status")).at("policy").at("warnings"));
  write(rule("all", ", then: continue") + rule("behind", ", mode: shadow"));
  EXPECT_EQ(cli({"reload"}).status, 0);
  expect_reported({});
}

// A rule that does not fit the settings of a protocol: a finding of another reviewer.
TEST_F(RuleWarnings, AreReportedOfAProtocolsSettingsAsWell) {
  file = folder.write("sluice.yaml", listeners +
                                         "http: { unmatched: deny }\nrules:\n"
                                         "- { name: tried, match: { ip: '*' }, mode: shadow, "
                                         "limit: { quota: 1, window: 1s } }\n");
  const auto lines = checked();
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_NE(lines[0].find("all are in shadow"), std::string::npos);
  serve();
  EXPECT_NE(server->err().find(lines[0]), std::string::npos) << server->err();
  EXPECT_NE(cli({"status"}).out.find(lines[0]), std::string::npos);
}

}  // namespace
}  // namespace sluice::tests::rule_warnings_test
