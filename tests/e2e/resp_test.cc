// The real `sluice resp` with redis-cli and with sockets, and the session of docs/resp.md.
#include <gtest/gtest.h>

#include <charconv>
#include <chrono>
#include <csignal>
#include <fstream>
#include <memory>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "tests/support/divvy_server.h"
#include "tests/support/paths.h"
#include "tests/support/process.h"
#include "tests/support/process_stats.h"
#include "tests/support/resp_client.h"
#include "tests/support/tcp_client.h"

namespace sluice::tests {
namespace {

// Runs redis-cli with a command, and returns its output.
std::string say(const RespServer& server, std::vector<std::string> words) {
  words.insert(words.begin(), {"-p", std::to_string(server.port())});
  Process cli({.arguments = words}, "/usr/bin/redis-cli");
  EXPECT_EQ(cli.wait(soon()), 0) << cli.err();
  return cli.out();
}

// Whether the lines are equal, where a number that is a duration may be smaller by the time that
// has passed.
bool is_as_printed(const std::string& printed, const std::string& expected, int64_t passed_ms) {
  std::istringstream these(printed), those(expected);
  std::string is, was;
  while (std::getline(those, was)) {
    if (!std::getline(these, is)) return false;
    if (is == was) continue;
    int64_t now = 0, then = 0;
    const auto number = [](const std::string& text, int64_t& to) {
      return std::from_chars(text.data(), text.data() + text.size(), to).ptr ==
             text.data() + text.size();
    };
    if (!number(is, now) || !number(was, then) || now > then || then - now > passed_ms)
      return false;
  }
  return !std::getline(these, is);
}

TEST(Resp, TheManualsSession) {
  const auto began = std::chrono::steady_clock::now();
  const RespServer server;
  std::ifstream manual(source_path("docs/resp.md"));
  ASSERT_TRUE(manual.is_open());
  bool here = false, session = false;
  size_t asked = 0;
  std::string expected, printed, command;
  const auto compare = [&] {
    const auto passed = std::chrono::duration_cast<std::chrono::milliseconds>(
        std::chrono::steady_clock::now() - began);
    EXPECT_TRUE(is_as_printed(printed, expected, passed.count() + 1)) << command << "\n"
                                                                      << printed << "in place of\n"
                                                                      << expected;
    printed.clear();
    expected.clear();
  };
  for (std::string line; std::getline(manual, line);) {
    if (line.starts_with("## ")) here = line == "## Try it" || line == "## Places";
    if (!here) continue;
    if (line.starts_with("```")) {
      compare();
      session = line == "```console";
    } else if (session && line.starts_with("$ redis-cli -p 6380 ")) {
      compare();
      command = line;
      std::istringstream rest(line.substr(std::string("$ redis-cli -p 6380 ").size()));
      std::vector<std::string> words;
      for (std::string word; rest >> word;) words.push_back(word);
      printed = say(server, words);
      ++asked;
    } else if (session) {
      expected += line + "\n";
    }
  }
  EXPECT_EQ(asked, 13u);
}

// With a store on disk, a counter's time goes on between two servers.
TEST(Resp, CountersOutliveTheProcess) {
  const Folder folder;
  const auto ask = [&](const std::string& quantity) {
    const RespServer server({.arguments = {"--data", folder.path(), "--durability", "always"}});
    return say(server, {"CL.THROTTLE", "k", "9", "10", "86400", quantity});
  };
  EXPECT_EQ(ask("4").substr(0, 7), "0\n10\n6\n");
  EXPECT_EQ(ask("7").substr(0, 7), "1\n10\n6\n");
  EXPECT_EQ(ask("6").substr(0, 7), "0\n10\n0\n");
}

TEST(Resp, DescribesItselfByInfo) {
  const RespServer server;
  EXPECT_NE(say(server, {"INFO", "server"}).find("sluice_version:0.2.0"), std::string::npos);
  EXPECT_NE(say(server, {"CLIENT", "INFO"}).find("addr=127.0.0.1:"), std::string::npos);
  EXPECT_NE(say(server, {"INFO", "clients"}).find("connected_clients:1"), std::string::npos);
}

TcpClient connect(const RespServer& server) {
  auto client = TcpClient::connect(server.port());
  if (!client) throw std::runtime_error("the server refused");
  return *std::move(client);
}

TEST(Resp, AHeaderOfHalfAGigabyteIsAnError) {
  const RespServer server;
  TcpClient client = connect(server), other = connect(server);
  ASSERT_TRUE(client.send("PING\r\n*2\r\n$4\r\nECHO\r\n$536870912\r\nxxx"));
  EXPECT_EQ(client.read_to_end(), "+PONG\r\n-ERR Protocol error: invalid bulk length\r\n");
  EXPECT_EQ(other.ask("PING"), "+PONG\r");
}

TEST(Resp, DoesNotExecuteAWebPagesRequest) {
  const RespServer server;
  TcpClient client = connect(server);
  ASSERT_TRUE(client.send("POST / HTTP/1.1\r\nHost: localhost\r\n\r\nCL.THROTTLE k 0 1 60\r\n"));
  EXPECT_EQ(client.read_to_end(), "");
  EXPECT_EQ(say(server, {"CL.THROTTLE", "k", "0", "1", "60"}).substr(0, 2), "0\n");
}

TEST(Resp, AThousandHalfCommandsDoNotAffectOthers) {
  const RespServer server;
  const int64_t before = resident_bytes(server.process().pid());
  std::vector<TcpClient> clients;
  for (int i = 0; i < 1000; ++i) {
    clients.push_back(connect(server));
    ASSERT_TRUE(clients.back().send("*3\r\n$4\r\nECHO\r\n$1000\r\n" + std::string(500, 'x')));
  }
  TcpClient other = connect(server);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(other.ask("PING"), "+PONG\r");
  EXPECT_LT(resident_bytes(server.process().pid()) - before, 64 << 20);
  clients[7].send(std::string(500, 'x') + "\r\n$1\r\ny\r\n");
  EXPECT_EQ(clients[7].read_line(), "-ERR wrong number of arguments for 'echo' command\r");
}

// At some point the server does not read any more from a client that sends and never reads; others
// are served.
TEST(Resp, AClientThatNeverReadsDoesNotAffectOthers) {
  const RespServer server;
  TcpClient client = connect(server), other = connect(server);
  std::string many;
  for (int i = 0; i < 1000; ++i) many += "COMMAND DOCS\r\n";
  const int64_t before = resident_bytes(server.process().pid());
  for (size_t sent = 1, rounds = 0; sent > 0 && rounds < 1000; ++rounds)
    sent = client.send_some(many);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(other.ask("PING"), "+PONG\r");
  EXPECT_LT(resident_bytes(server.process().pid()) - before, 64 << 20);
}

// Limits in commands are not kept. (With 10,000,000 commands it is the same: measured, not tested.)
TEST(Resp, DistinctNumbersCostNoMemory) {
  const RespServer server;
  TcpClient client = connect(server);
  size_t sent = 0;
  const auto send = [&](size_t commands) {
    for (size_t left = commands; left > 0; left -= 1000) {
      std::string text;
      for (int i = 0; i < 1000; ++i, ++sent)
        text += "CL.THROTTLE k" + std::to_string(sent % 1000) + " " + std::to_string(sent) + " " +
                std::to_string(1 + sent % 977) + " 60\r\n";
      ASSERT_TRUE(client.send(text));
      for (int i = 0; i < 6000; ++i) ASSERT_TRUE(client.read_line());
    }
  };
  send(50'000);
  const int64_t before = resident_bytes(server.process().pid());
  send(200'000);
  EXPECT_LT(resident_bytes(server.process().pid()) - before, 2 << 20);
}

}  // namespace
}  // namespace sluice::tests
