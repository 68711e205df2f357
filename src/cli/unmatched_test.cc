// What `explain` says of a request that no rule decides, for files with listeners.
#include <gtest/gtest.h>

#include <string>

#include "cli/command_test.h"
#include "config/address.h"
#include "protocol/protocol.h"

namespace sluice::cli {
namespace {

using UnmatchedCommands = CommandTest;

TEST_F(UnmatchedCommands, ExplainSaysWhatTheListenersOfTheFileAnswer) {
  const std::string rules =
      "rules: [{ name: a, match: { ip: '*' }, limit: { quota: 1, window: 1s } }]\n";
  const protocol::Description& usual = *protocol::all().front();
  size_t others = 0;
  for (const protocol::Description* one : protocol::all()) {
    const std::string name(one->name);
    const auto path =
        file("a.yaml", rules + "listen: [{ protocol: " + name + ", address: '[::1]:1' }]\n");
    EXPECT_EQ(command({"explain", "--policy", path, "--protocol", name, "a=b"}), 0) << err;
    const std::string named = out;
    EXPECT_EQ(command({"explain", "--policy", path, "a=b"}), 0) << err;
    if (one == &usual || one->dialect == nullptr || one->dialect->unmatched.empty()) continue;
    const std::string listed = "No rule decides it. " + name + ": ";
    EXPECT_TRUE(said(out, listed)) << out;
    EXPECT_TRUE(said(named, "No rule decides it. " + out.substr(out.find(listed) + listed.size())))
        << named;
    EXPECT_FALSE(said(out, usual.dialect->unmatched)) << out;
    ++others;
  }
  EXPECT_GE(others, 2u);
  const auto denying = file("a.yaml", rules + "listen: [{ protocol: " + std::string(usual.name) +
                                          ", address: '[::1]:1', unmatched: deny }]\n");
  for (const Words& words : {Words{}, Words{"--protocol", std::string(usual.name)}}) {
    Words all = {"explain", "--policy", denying, "a=b"};
    all.insert(all.end(), words.begin(), words.end());
    EXPECT_EQ(command(all), 0) << err;
    EXPECT_TRUE(said(out, "No rule decides it. deny, as `unmatched` of its listener says")) << out;
  }
  // Without listeners of its own, a file is served by the protocols that listen on loopback.
  EXPECT_EQ(command({"explain", "--policy", file("b.yaml", rules), "a=b"}), 0) << err;
  for (const protocol::Description* one : protocol::all())
    EXPECT_EQ(said(out, std::string(one->name) + ": "), config::is_loopback(one->host)) << out;
}

TEST_F(UnmatchedCommands, ExplainSaysWhatAProtocolAnswersWithoutAFileThatSaysIt) {
  const auto path =
      file("a.yaml", "rules: [{ name: a, match: { ip: '*' }, limit: { quota: 1, window: 1s } }]\n");
  size_t told = 0;
  for (const protocol::Description* one : protocol::all()) {
    if (one->dialect == nullptr) continue;
    const std::string name(one->name);
    EXPECT_EQ(command({"explain", "--policy", path, "--protocol", name, "a=b"}), 0) << err;
    if (one->dialect->unmatched.empty()) continue;  // each of its requests brings a limit
    // A protocol that serves a file without `listen` says what its setting makes of it.
    EXPECT_TRUE(config::is_loopback(one->host)
                    ? said(out, "No rule decides it. ") &&
                          said(out, "`" + name + ".unmatched` is error")
                    : said(out, "No rule decides it. " + std::string(one->dialect->unmatched)))
        << out;
    ++told;
  }
  EXPECT_GE(told, 5u);
}

}  // namespace
}  // namespace sluice::cli
