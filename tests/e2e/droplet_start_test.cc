// The real `sluice droplet`: its start and settings, and the cleanup of full buckets.
#include <gtest/gtest.h>

#include <csignal>
#include <string>
#include <thread>

#include "tests/support/divvy_server.h"
#include "tests/support/droplet_client.h"

namespace sluice::tests::droplet_start_test {
namespace {

void expect_in(const std::string& text, const std::string& part) {
  EXPECT_NE(text.find(part), std::string::npos) << "no `" << part << "` in:\n" << text;
}

Finished start(std::map<std::string, std::string> environment,
               std::vector<std::string> arguments = {}) {
  arguments.insert(arguments.begin(), "droplet");
  return run({.arguments = std::move(arguments), .environment = std::move(environment)});
}

TEST(DropletStart, ListensOnBothFamiliesAndSaysWhere) {
  Process process({.arguments = {"droplet"}, .environment = {{"PORT", "0"}}});
  const auto line = process.read_line();
  ASSERT_TRUE(line && line->starts_with("sluice: droplet listening on [::]:")) << *line;
  const auto port = static_cast<uint16_t>(std::stoi(line->substr(line->rfind(':') + 1)));
  const DropletTake take{.bucket = "jar", .limits = {{"lo", 10}}};
  EXPECT_EQ(DropletClient(port, "127.0.0.1").ask(take), (DropletLeft{true, {{"lo", 9}}}));
  EXPECT_EQ(DropletClient(port, "::1").ask(take), (DropletLeft{true, {{"lo", 8}}}));
  process.signal(SIGTERM);
  EXPECT_EQ(process.wait(), 0);
}

TEST(DropletStart, TakesTheHost) {
  const DropletServer server({.arguments = {"--host", "127.0.0.1"}});
  EXPECT_TRUE(TcpClient::connect(server.port(), "127.0.0.1"));
  EXPECT_FALSE(TcpClient::connect(server.port(), "::1"));
}

TEST(DropletStart, ExitsWith1IfThePortIsInUse) {
  const DropletServer server;
  const std::string port = std::to_string(server.port());
  const auto second = start({{"PORT", port}});
  EXPECT_EQ(second.status, 1);
  EXPECT_EQ(second.out, "");
  expect_in(second.err, "EADDRINUSE");
  expect_in(second.err, "[::]:" + port);
}

TEST(DropletStart, RejectsInvalidPortsAndIntervals) {
  for (const char* port : {"/tmp/socket", "3000a", "65536", "-1", " "}) {
    const auto finished = start({{"PORT", port}});
    EXPECT_EQ(finished.status, 1) << port;
    EXPECT_EQ(finished.out, "");
    EXPECT_EQ(finished.err, "error: PORT: `" + std::string(port) +
                                "` is not a port; set it to 0 to 65535, or unset it for 3000\n");
  }
  const auto finished = start({{"PORT", "0"}}, {"--cleanup-interval", "often"});
  EXPECT_EQ(finished.status, 1);
  expect_in(finished.err, "error: --cleanup-interval: `often` is not an interval; write seconds");
}

TEST(DropletStart, ServesFromASluiceYamlWithoutAPolicy) {
  const Folder folder;
  const auto file = folder.write("sluice.yaml",
                                 "listen: [{ protocol: droplet, address: \"127.0.0.1:0\" }]\n"
                                 "droplet: { cleanup_interval: 5m }\n");
  Process process({.arguments = {"serve", "--config", file}});
  DropletClient client(await_listening(process, "droplet"));
  EXPECT_EQ(client.ask({.bucket = "jar", .limits = {{"lm", 5}}}), (DropletLeft{true, {{"lm", 4}}}));
  const auto printed = run({.arguments = {"serve", "--config", file, "--print-config"}});
  expect_in(printed.out, "droplet: { cleanup_interval: 300s }");
  expect_in(printed.out, "sluice.yaml:2\n");
}

// Full buckets are forgotten with their limits; others stay.
TEST(DropletCleanup, ForgetsFullBucketsAtTheInterval) {
  DropletServer server({.arguments = {"--cleanup-interval", "1", "--log-level", "debug"}});
  DropletClient client = server.client();
  client.ask({.bucket = "half", .limits = {{"lo", 10}}});
  for (int i = 0; i < 100; ++i)
    client.ask({.bucket = "full" + std::to_string(i), .count = 0, .limits = {{"lo", 10}}});
  const DropletTake query{.bucket = "full7", .query = true};
  const auto deadline = soon();
  while (!client.ask(query).left.empty() && std::chrono::steady_clock::now() < deadline)
    std::this_thread::sleep_for(Milliseconds(20));
  EXPECT_EQ(client.ask(query), (DropletLeft{true, {}}));
  EXPECT_EQ(client.ask({.bucket = "half", .query = true}), (DropletLeft{true, {{"lo", 9}}}));
  EXPECT_TRUE(server.process().says(" 100 since the start")) << server.process().err();
  expect_in(server.process().err(), "droplet: purged ");
}

TEST(DropletCleanup, AnIntervalOfZeroNeverCleans) {
  DropletServer server({.arguments = {"--cleanup-interval", "0"}});
  DropletClient client = server.client();
  client.ask({.bucket = "full", .count = 0, .limits = {{"lo", 10}}});
  std::this_thread::sleep_for(Milliseconds(500));
  EXPECT_EQ(client.ask({.bucket = "full", .query = true}), (DropletLeft{true, {{"lo", 10}}}));
}

}  // namespace
}  // namespace sluice::tests::droplet_start_test
