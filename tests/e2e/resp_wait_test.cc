// SLUICE.WAIT and ACQUIRE with the real program: a wait blocks only its connection, is granted in
// order of arrival, and ends with its timeout, its units or its connection.
#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/support/comes.h"
#include "tests/support/divvy_server.h"
#include "tests/support/http_client.h"
#include "tests/support/process.h"
#include "tests/support/tcp_client.h"

namespace sluice::tests {
namespace {

// A connection that waits for units is not idle; from the reply on it is.
TEST(RespIdle, ClosesAnIdleConnection) {
  Folder folder;
  const std::string config =
      folder.write("sluice.yaml",
                   "listen:\n  - { protocol: resp, address: \"127.0.0.1:0\" }\n"
                   "  - { protocol: admin, address: \"127.0.0.1:0\" }\n"
                   "resp: { idle_timeout: 200ms }\n");
  Process process({.arguments = {"serve", "--config", config, "--log-level", "warn"}});
  const uint16_t port = await_listening(process, "resp"), admin = await_listening(process, "admin");
  TcpClient mute = TcpClient::connect(port).value(), waits = TcpClient::connect(port).value(),
            half = TcpClient::connect(port).value();
  ASSERT_TRUE(waits.send("SLUICE.TAKE KEY k LIMIT 1 1h\r\nSLUICE.WAIT 1.5 KEY k LIMIT 1 1h\r\n"));
  ASSERT_TRUE(half.send("PING\r\nPIN"));
  EXPECT_EQ(mute.read_to_end(), "");
  EXPECT_EQ(waits.read_to_end(), "*5\r\n:1\r\n:1\r\n:0\r\n:0\r\n:3600000\r\n*-1\r\n");
  ASSERT_TRUE(half.send("G\r\n"));
  EXPECT_EQ(half.read_to_end(), "+PONG\r\n+PONG\r\n");
  const std::string closed = "sluice_connections_closed_total{protocol=\"resp\",reason=";
  EXPECT_EQ(sample(admin, closed + "\"idle_timeout\"}"), "3");
  EXPECT_EQ(sample(admin, closed + "\"request_timeout\"}"), "0");
  process.signal(SIGTERM);
  EXPECT_EQ(process.wait(soon()), 0);
  EXPECT_EQ(process.err().find("connections were closed"), std::string::npos) << process.err();
}

class RespWait : public testing::Test {
 protected:
  ~RespWait() override { stop(); }
  void stop() {
    if (std::exchange(stopped_, true)) return;
    process_.signal(SIGTERM);
    EXPECT_EQ(process_.wait(soon()), 0) << "the server's end on SIGTERM";
  }
  TcpClient connect() {
    auto client = TcpClient::connect(port_);
    if (!client) throw std::runtime_error("the server refused");
    return *std::move(client);
  }
  // Sends an inline command.
  static void send(TcpClient& client, const std::string& command) {
    ASSERT_TRUE(client.send(command + "\r\n"));
  }
  // Reads a reply that is a list of `count` numbers. Returns them with blanks between, and a null
  // as "null".
  static std::string numbers(TcpClient& client, size_t count) {
    std::string all;
    auto line = client.read_line();
    if (line == "*-1\r") return "null";
    if (line != "*" + std::to_string(count) + "\r") return line.value_or("(end)");
    for (size_t i = 0; i < count; ++i) {
      line = client.read_line();
      if (!line || line->size() < 2) return all + "(end)";
      all += (i > 0 ? " " : "") + line->substr(1, line->size() - 2);
    }
    return all;
  }
  std::string ask(TcpClient& client, const std::string& command, size_t count) {
    send(client, command);
    return numbers(client, count);
  }
  // Waits until that many requests wait, by the server's metrics. False: not in time.
  bool await_waiting(size_t count) {
    return comes([&] {
      return http_get(admin_, "/metrics")
                 .body.find("\nsluice_waiting_requests " + std::to_string(count) + "\n") !=
             std::string::npos;
    });
  }

  Process process_{{.arguments = {"resp", "--port", "0", "--admin", "127.0.0.1:0"},
                    .environment = {{"SLUICE_LOG_LEVEL", "warn"}}}};
  uint16_t port_ = await_listening(process_, "resp");
  uint16_t admin_ = await_listening(process_, "admin");
  bool stopped_ = false;
};

constexpr const char* jar = "KEY jar LIMIT 2 0 ALGORITHM fixed_bucket";

std::string of_jar(const std::string& before, const std::string& behind = "") {
  return before + " " + jar + behind;
}

TEST_F(RespWait, TakesAtOnceIfThereAreEnoughUnits) {
  TcpClient client = connect();
  EXPECT_EQ(ask(client, of_jar("SLUICE.WAIT 5"), 6), "1 2 1 0 -1 0");
  EXPECT_EQ(ask(client, of_jar("SLUICE.WAIT 5", " N 3"), 6).substr(0, 10), "0 2 1 -1 -");
}

TEST_F(RespWait, GrantsReturnedUnitsInOrderOfArrival) {
  TcpClient first = connect(), second = connect(), other = connect();
  EXPECT_EQ(ask(other, of_jar("SLUICE.TAKE", " N 2"), 5), "1 2 0 0 -1");
  send(first, of_jar("SLUICE.WAIT 0", " N 2") + "\r\nPING");
  ASSERT_TRUE(await_waiting(1));
  send(second, of_jar("SLUICE.WAIT 0"));
  ASSERT_TRUE(await_waiting(2));
  EXPECT_EQ(ask(other, of_jar("SLUICE.PUT"), 2), "1 2");
  // The first waits for two units, and the second does not overtake it.
  EXPECT_EQ(ask(other, of_jar("SLUICE.PUT"), 2), "2 2");
  EXPECT_TRUE(numbers(first, 6).starts_with("1 2 0 0 -1 "));
  EXPECT_EQ(first.read_line(), "+PONG\r") << "what was held back";
  EXPECT_EQ(first.ask("PING"), "+PONG\r");
  EXPECT_EQ(ask(other, of_jar("SLUICE.PUT"), 2), "1 2");
  EXPECT_TRUE(numbers(second, 6).starts_with("1 2 0 0 -1 "));
  ASSERT_TRUE(await_waiting(0));
}

TEST_F(RespWait, GrantsUnitsThatComeBackWithTime) {
  TcpClient client = connect();
  EXPECT_EQ(ask(client, "SLUICE.TAKE KEY k LIMIT 1 100ms", 5), "1 1 0 0 100");
  EXPECT_TRUE(ask(client, "SLUICE.WAIT 60 KEY k LIMIT 1 100ms", 6).starts_with("1 1 0 0 "));
}

TEST_F(RespWait, EndsWithItsTimeAndTakesNothing) {
  TcpClient client = connect(), other = connect();
  ask(client, of_jar("SLUICE.TAKE", " N 2"), 5);
  EXPECT_EQ(ask(client, of_jar("SLUICE.WAIT 0.05"), 6), "null");
  ASSERT_TRUE(await_waiting(0));
  EXPECT_EQ(ask(other, of_jar("SLUICE.PUT"), 2), "1 2");
  EXPECT_EQ(ask(client, of_jar("SLUICE.PEEK"), 5), "1 2 0 0 -1") << "it is still there";
  EXPECT_EQ(client.ask("PING"), "+PONG\r");
}

TEST_F(RespWait, EndsWithItsConnection) {
  TcpClient other = connect();
  ask(other, of_jar("SLUICE.TAKE", " N 2"), 5);
  TcpClient behind = connect();
  {
    TcpClient first = connect();
    send(first, of_jar("SLUICE.WAIT 0"));
    ASSERT_TRUE(await_waiting(1));
    send(behind, of_jar("SLUICE.WAIT 0"));
    ASSERT_TRUE(await_waiting(2));
  }
  ASSERT_TRUE(await_waiting(1));
  ask(other, of_jar("SLUICE.PUT"), 2);
  EXPECT_TRUE(numbers(behind, 6).starts_with("1 2 0 0 -1 "));
}

// A client that has half-closed may still read: its wait ends, and all its commands are answered.
TEST_F(RespWait, AHalfCloseEndsItAndLaterCommandsAreAnswered) {
  TcpClient client = connect(), other = connect();
  ask(other, of_jar("SLUICE.TAKE", " N 2"), 5);
  send(client, "CL.THROTTLE k 1 1 60\r\n" + of_jar("SLUICE.WAIT 0") + "\r\nPING\r\n" +
                   of_jar("SLUICE.WAIT 0") + "\r\nPING");
  client.half_close();
  EXPECT_EQ(client.read_to_end(),
            "*5\r\n:0\r\n:2\r\n:1\r\n:-1\r\n:60\r\n*-1\r\n+PONG\r\n*-1\r\n+PONG\r\n");
  ASSERT_TRUE(await_waiting(0));
  EXPECT_EQ(ask(other, of_jar("SLUICE.PUT"), 2), "1 2");
  EXPECT_EQ(ask(other, of_jar("SLUICE.PEEK"), 5), "1 2 0 0 -1") << "nothing was taken";
}

// A reload after which the wait can never be granted.
TEST(RespWaitReload, RefusesARequestThatNoLongerFits) {
  Folder folder;
  const auto write = [&](int quota) {
    return folder.write("sluice.yaml",
                        "listen:\n  - { protocol: resp, address: \"127.0.0.1:0\" }\n"
                        "  - { protocol: admin, address: \"127.0.0.1:0\" }\n"
                        "rules:\n  - { name: r, match: { u: '*' }, actor: u, limit: { quota: " +
                            std::to_string(quota) + ", window: 1h } }\n");
  };
  const std::string config = write(5);
  Process process({.arguments = {"serve", "--config", config, "--log-level", "warn"}});
  const uint16_t port = await_listening(process, "resp"), admin = await_listening(process, "admin");
  TcpClient client = TcpClient::connect(port).value();
  ASSERT_TRUE(client.send("SLUICE.TAKE u=1 N 3\r\n"));
  ASSERT_TRUE(client.read_line());
  for (int i = 0; i < 5; ++i) ASSERT_TRUE(client.read_line());
  ASSERT_TRUE(client.send("SLUICE.WAIT 0 u=1 N 5\r\nPING\r\n"));
  ASSERT_TRUE(comes([&] {
    return http_get(admin, "/metrics").body.find("\nsluice_waiting_requests 1\n") !=
           std::string::npos;
  }));
  write(2);
  ASSERT_EQ(http(admin, "POST", "/v1/reload", "{}", "").status, 200);
  EXPECT_EQ(client.read_line(), "*6\r");
  EXPECT_EQ(client.read_line(), ":0\r");
  for (int i = 0; i < 5; ++i) ASSERT_TRUE(client.read_line());
  EXPECT_EQ(client.read_line(), "+PONG\r");
  process.signal(SIGTERM);
  EXPECT_EQ(process.wait(soon()), 0);
}

// A request with entries is matched with rules of the policy only, also when it is matched again:
// not with the rule of CL.THROTTLE.
TEST(RespWaitReload, AnswersNoruleIfTheRuleIsRemoved) {
  Folder folder;
  const auto write = [&](const std::string& key) {
    return folder.write("sluice.yaml",
                        "listen:\n  - { protocol: resp, address: \"127.0.0.1:0\" }\n"
                        "  - { protocol: admin, address: \"127.0.0.1:0\" }\n"
                        "rules:\n  - { name: r, match: { " +
                            key + ": '*' }, limit: { quota: 5, window: 1h } }\n");
  };
  Process process({.arguments = {"serve", "--config", write("key"), "--log-level", "warn"}});
  const uint16_t port = await_listening(process, "resp"), admin = await_listening(process, "admin");
  TcpClient client = TcpClient::connect(port).value();
  ASSERT_TRUE(client.send("SLUICE.TAKE command=cl.throttle db=0 key=k N 3\r\n"));
  for (int i = 0; i < 6; ++i) ASSERT_TRUE(client.read_line());
  ASSERT_TRUE(client.send("SLUICE.WAIT 0 command=cl.throttle db=0 key=k N 3\r\n"));
  ASSERT_TRUE(comes([&] { return sample(admin, "sluice_waiting_requests") == "1"; }));
  write("other");
  ASSERT_EQ(http(admin, "POST", "/v1/reload", "{}", "").status, 200);
  EXPECT_EQ(client.read_line(), "-NORULE no rule applies\r");
  process.signal(SIGTERM);
  EXPECT_EQ(process.wait(soon()), 0);
}

// What an open transaction holds is given back in the time of a request, and further commands do
// not lengthen it.
TEST(RespIdle, AnOpenTransactionIsTimedAsARequest) {
  Folder folder;
  const std::string config = folder.write(
      "sluice.yaml",
      "listen:\n  - { protocol: resp, address: \"127.0.0.1:0\", request_timeout: 1s }\n");
  Process process({.arguments = {"serve", "--config", config, "--log-level", "warn"}});
  const uint16_t port = await_listening(process, "resp");
  TcpClient open = TcpClient::connect(port).value(), idle = TcpClient::connect(port).value(),
            closed = TcpClient::connect(port).value();
  ASSERT_TRUE(idle.send("PING\r\n") && closed.send("MULTI\r\nPING\r\nEXEC\r\n"));
  EXPECT_EQ(idle.read_line(), "+PONG\r");
  for (const char* line : {"+OK\r", "+QUEUED\r", "*1\r", "+PONG\r"})
    EXPECT_EQ(closed.read_line(), line);
  ASSERT_TRUE(open.send("MULTI\r\n"));
  EXPECT_EQ(open.read_line(), "+OK\r");
  std::string told = "+QUEUED\r";
  size_t queued = 0;
  while (open.send("PING\r\n")) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    const auto line = open.read_line();
    if (line != "+QUEUED\r") {
      told = line.value_or("");
      break;
    }
    ++queued;
  }
  EXPECT_GT(queued, 0u);
  EXPECT_TRUE(told.starts_with("-ERR the request did not arrive whole")) << told;
  for (TcpClient* one : {&idle, &closed}) {
    ASSERT_TRUE(one->send("PING\r\n"));
    EXPECT_EQ(one->read_line(), "+PONG\r");
  }
  process.signal(SIGTERM);
  EXPECT_EQ(process.wait(soon()), 0);
}

TEST_F(RespWait, DoesNotWaitInATransaction) {
  TcpClient client = connect();
  ask(client, of_jar("SLUICE.TAKE", " N 2"), 5);
  send(client, "MULTI\r\n" + of_jar("SLUICE.WAIT 0") + "\r\nEXEC\r\nPING");
  for (const char* line : {"+OK\r", "+QUEUED\r", "*1\r"}) EXPECT_EQ(client.read_line(), line);
  EXPECT_TRUE(numbers(client, 6).starts_with("0 2 0 -1 -1 "));
  EXPECT_EQ(client.read_line(), "+PONG\r");
}

// A place that was acquired with CLOSE is free when the server sees the end of the connection.
TEST_F(RespWait, GetsThePlaceOfAConnectionThatIsGone) {
  const std::string acquire = "SLUICE.ACQUIRE 60 KEY p LIMIT 1 60s ALGORITHM concurrency";
  const auto begins = [](TcpClient& client) {
    std::string lines;
    for (int i = 0; i < 2; ++i) lines += client.read_line().value_or("(end)");
    return lines;
  };
  TcpClient waits = connect();
  {
    TcpClient holder = connect();
    send(holder, acquire + " CLOSE");
    EXPECT_EQ(begins(holder), "*5\r:1\r");
    send(waits, acquire + " WAIT 50");
    ASSERT_TRUE(await_waiting(1));
  }
  EXPECT_EQ(begins(waits), "*5\r:1\r");
}

TEST_F(RespWait, AStopEndsIt) {
  TcpClient client = connect();
  ask(client, of_jar("SLUICE.TAKE", " N 2"), 5);
  send(client, of_jar("SLUICE.WAIT 0"));
  ASSERT_TRUE(await_waiting(1));
  stop();
  EXPECT_EQ(client.read_to_end(), "-TRYAGAIN the server stops; nothing was taken\r\n");
}

}  // namespace
}  // namespace sluice::tests
