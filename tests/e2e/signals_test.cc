// Signals to the real server: SIGTERM, SIGINT and SIGQUIT end it, SIGHUP and SIGUSR1 make it read
// its policy and open its log again, at any time, and others that a tool may send do nothing.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "tests/e2e/policies.h"
#include "tests/support/comes.h"
#include "tests/support/divvy_server.h"

namespace sluice::tests {
namespace {

const std::vector<int> harmless = {SIGHUP,  SIGUSR1, SIGUSR2, SIGALRM,  SIGPIPE,     SIGVTALRM,
                                   SIGPROF, SIGIO,   SIGPWR,  SIGWINCH, SIGRTMIN + 3};

std::string text_of(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

TEST(Signals, UnhandledSignalsDoNotEndTheServer) {
  DivvyServer server("rules.ini", hundred_policy);
  auto client = server.client();
  for (const int number : harmless) {
    server.process().signal(number);
    EXPECT_TRUE(client.ask("HIT a=b").starts_with("OK true ")) << ::strsignal(number);
  }
  EXPECT_EQ(server.process().wait(within(Milliseconds(0))), std::nullopt);
}

// While it reads its policy, here from a pipe without data yet.
TEST(Signals, DoNotEndAServerThatIsStarting) {
  const Folder folder;
  const std::string policy = folder.path() + "/rules.ini";
  ASSERT_EQ(::mkfifo(policy.c_str(), 0600), 0);
  Process process(
      {.arguments = {"divvy", policy, "--log-level", "info"}, .environment = {{"PORT", "0"}}});
  int fd = -1;
  ASSERT_TRUE(comes([&] {
    fd = ::open(policy.c_str(), O_WRONLY | O_NONBLOCK | O_CLOEXEC);
    return fd >= 0;
  }));
  for (const int number : harmless) process.signal(number);
  ASSERT_EQ(::write(fd, hundred_policy.data(), hundred_policy.size()),
            static_cast<ssize_t>(hundred_policy.size()));
  ::close(fd);
  const uint16_t port = await_listening(process);
  // The signals have their effect once the server is ready.
  EXPECT_TRUE(process.says("signal 1: there is no policy to read again")) << process.err();
  EXPECT_TRUE(process.says("the log is in no file")) << process.err();
  EXPECT_EQ(TcpClient::connect(port)->ask("HIT k=v"), "OK true 99 600");
}

TEST(Signals, Usr1OpensTheLogsFileAgain) {
  const Folder folder;
  const std::string log = folder.path() + "/server.log";
  const std::string config =
      folder.write("limitd.yaml", "db: { inMemory: true }\nlog_file: " + log +
                                      "\nbuckets: { ip: { size: 10 } }\n");
  Process process({.arguments = {"limitd", "-c", config, "-p", "0"}});
  await_listening(process, "limitd");
  ASSERT_TRUE(comes([&] { return text_of(log).find("serving with") != std::string::npos; }));
  for (int round = 1; round <= 3; ++round) {
    const std::string rotated = log + "." + std::to_string(round);
    std::filesystem::rename(log, rotated);
    process.signal(SIGUSR1);
    EXPECT_TRUE(comes(
        [&] { return text_of(log).find("the log's file is opened again") != std::string::npos; }));
  }
}

// A second signal ends the wait for clients, not the store's last write.
class SecondSignal : public testing::TestWithParam<int> {};

TEST_P(SecondSignal, LosesNothingThatAnIntervalHadNotWritten) {
  const Folder folder;
  const std::string config =
      folder.write("sluice.yaml",
                   "listen: [{ protocol: divvy, address: \"127.0.0.1:0\" }]\n"
                   "store: { path: store, durability: interval, interval_ms: 60000 }\n"
                   "policy: [{ divvy: rules.ini }]\n");
  folder.write("rules.ini", hundred_policy);
  const Process::Options options{.arguments = {"serve", "--config", config, "--log-level", "info"},
                                 .folder = folder.path()};
  {
    Process process(options);
    const uint16_t port = await_listening(process);
    auto client = TcpClient::connect(port);
    EXPECT_EQ(client->ask("HIT k=v who=me"), "OK true 99 600");
    // A client that does not read keeps the server from ending at the first signal.
    auto deaf = TcpClient::connect(port);
    deaf->limit_receive_buffer(4096);
    std::string many;
    for (int i = 0; i < 8192; ++i) many += "HIT a=b\n";
    for (int idle = 0; idle < 50;) {
      idle = deaf->send_some(many) > 0 ? 0 : idle + 1;
      std::this_thread::sleep_for(Milliseconds(10));
    }
    process.signal(GetParam());
    ASSERT_TRUE(process.says("stopping"));
    process.signal(GetParam());
    EXPECT_EQ(process.wait(), 1);
    EXPECT_NE(process.err().find("replies may be missing"), std::string::npos) << process.err();
  }
  Process process(options);
  const std::string reply = TcpClient::connect(await_listening(process))->ask("HIT k=v who=me");
  EXPECT_TRUE(reply.starts_with("OK true 98 ")) << reply;
}

INSTANTIATE_TEST_SUITE_P(Numbers, SecondSignal, testing::Values(SIGTERM, SIGINT, SIGQUIT),
                         [](const auto& number) {
                           return number.param == SIGTERM  ? "Term"
                                  : number.param == SIGINT ? "Int"
                                                           : "Quit";
                         });

}  // namespace
}  // namespace sluice::tests
