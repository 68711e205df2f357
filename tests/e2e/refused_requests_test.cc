// What the real server logs and counts of takes that no rule matches, and of requests that it
// refuses as malformed, for every protocol: one line with an example, at most once a minute.
#include <gtest/gtest.h>

#include <csignal>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tests/support/comes.h"
#include "tests/support/divvy_server.h"
#include "tests/support/http_client.h"
#include "tests/support/limitd_client.h"
#include "tests/support/process.h"
#include "tests/support/tcp_client.h"

namespace sluice::tests::refused_requests_test {
namespace {

const std::vector<std::string> protocols = {"divvy", "limitd", "droplet", "resp", "envoy", "http"};

// A server of every protocol; its only rule is about `tenant`.
struct Served {
  explicit Served(const std::string& more = "") {
    std::string listeners;
    for (const std::string& protocol : protocols)
      listeners += "  - { protocol: " + protocol + ", address: \"127.0.0.1:0\" }\n";
    folder.write("sluice.yaml",
                 "listen:\n" + listeners +
                     "  - { protocol: admin, address: \"127.0.0.1:0\" }\n"
                     "rules:\n  - { name: api, match: { tenant: \"*\" }, actor: tenant, limit: { "
                     "quota: 1k, window: 1h } }\n" +
                     more);
    process = std::make_unique<Process>(
        Process::Options{.arguments = {"serve", "--config", folder.path() + "/sluice.yaml"}});
    for (const std::string& protocol : protocols)
      ports[protocol] = await_listening(*process, protocol);
    admin = await_listening(*process, "admin");
  }
  std::string place(const std::string& protocol) const {
    return protocol + " at 127.0.0.1:" + std::to_string(ports.at(protocol));
  }
  // Sends bytes, ends, and reads what comes.
  std::string ask(const std::string& protocol, const std::string& bytes) const {
    auto client = TcpClient::connect(ports.at(protocol));
    client->send(bytes);
    client->half_close();
    return client->read_to_end();
  }
  std::string post(const std::string& protocol, const std::string& path,
                   const std::string& body) const {
    return ask(protocol, "POST " + path +
                             " HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
                             "Content-Type: application/json\r\nContent-Length: " +
                             std::to_string(body.size()) + "\r\n\r\n" + body);
  }
  std::string refused(const std::string& protocol) const {
    return sample(admin, "sluice_requests_refused_total{protocol=\"" + protocol +
                             "\",listener=\"127.0.0.1:" + std::to_string(ports.at(protocol)) +
                             "\",reason=\"malformed\"}");
  }
  size_t lines_with(const std::string& text) const {
    const std::string all = process->err();
    size_t count = 0;
    for (size_t at = all.find(text); at != all.npos; at = all.find(text, at + 1)) ++count;
    return count;
  }

  Folder folder;
  std::unique_ptr<Process> process;
  std::map<std::string, uint16_t> ports;
  uint16_t admin = 0;
};

TEST(RefusedRequests, TakesThatMatchNoRuleAreLoggedOnceWithAnExample) {
  const Served served;
  const std::map<std::string, std::pair<std::function<void()>, std::string>> asked = {
      {"divvy",
       {[&] { served.ask("divvy", "HIT tennant=acme password=swordfish\n"); },
        "tennant=acme password=... ("}},
      {"limitd",
       {[&] {
          served.ask("limitd", limitd_frame({LimitdMethod::take, "usr", "swordfish"}, "1"));
        },
        "type=usr key=... ("}},
      {"resp",
       {[&] { served.ask("resp", "SLUICE.TAKE tennant=acme token=swordfish\r\n"); },
        "tennant=acme token=... ("}},
      {"envoy",
       {[&] {
          served.post("envoy", "/json",
                      R"({"domain": "shop", "descriptors": [{"entries": [{"key": "tennant",)"
                      R"( "value": "acme"}]}]})");
        },
        "tennant=acme"}},
      {"http",
       {[&] {
          served.post("http", "/v1/take",
                      R"({"entries": {"tennant": "acme", "header.x-api-key": "swordfish"}})");
        },
        "tennant=acme header.x-api-key=... ("}}};
  for (const auto& [protocol, one] : asked) {
    for (int i = 0; i < 3; ++i) one.first();
    const std::string start = served.place(protocol) + ": takes match no rule, for example: ";
    ASSERT_TRUE(served.process->says(start)) << served.process->err();
    const std::string all = served.process->err();
    const std::string line =
        all.substr(all.find(start), all.find('\n', all.find(start)) - all.find(start));
    EXPECT_NE(line.find(one.second), std::string::npos) << line;
    EXPECT_EQ(served.lines_with(start), 1u) << all;
  }
  EXPECT_EQ(served.process->err().find("swordfish"), std::string::npos);
  EXPECT_EQ(served.post("http", "/v1/take", R"({"entries": {"tenant": "acme"}})").substr(0, 12),
            "HTTP/1.1 200");
}

// Where the configuration says what they are answered, they are expected.
TEST(RefusedRequests, TakesThatMatchNoRuleAreNotLoggedWhereTheyAreExpected) {
  const Served served("http: { unmatched: allow }\nresp: { unmatched: deny }\n");
  served.post("http", "/v1/take", R"({"entries": {"tennant": "acme"}})");
  served.ask("resp", "SLUICE.TAKE tennant=acme\r\n");
  served.ask("divvy", "HIT tennant=acme\n");
  ASSERT_TRUE(served.process->says(served.place("divvy") + ": takes match no rule"));
  for (const char* protocol : {"http", "resp"})
    EXPECT_EQ(served.lines_with(served.place(protocol) + ": takes match"), 0u);
}

TEST(RefusedRequests, MalformedOnesAreCountedAndLoggedOnceWithAnExample) {
  const Served served;
  const std::map<std::string, std::pair<std::function<void()>, std::string>> asked = {
      {"divvy", {[&] { served.ask("divvy", "HITT a=b\n"); }, "unknown-command"}},
      {"limitd", {[&] { served.ask("limitd", "GET / HTTP/1.1\r\n\r\n"); }, "frame"}},
      {"droplet",
       {[&] {
          served.ask(
              "droplet",
              "GET / HTTP/1.1\r\nHost: h\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n");
        },
        "handshake"}},
      {"resp", {[&] { served.ask("resp", "SLUICE.TAK swordfish\r\n"); }, "unknown command"}},
      {"envoy", {[&] { served.post("envoy", "/json", "{"); }, "for example: "}},
      {"http",
       {[&] { served.post("http", "/v1/take", R"({"entires": {}})"); },
        "/v1/take: unknown member `entires`"}}};
  for (const auto& [name, one] : asked) {
    const std::string& protocol = name;  // which a lambda may use
    EXPECT_EQ(served.refused(protocol), "0");
    for (int i = 0; i < 3; ++i) one.first();
    const std::string start = served.place(protocol) + ": 1 request was refused (malformed)";
    ASSERT_TRUE(served.process->says(start)) << served.process->err();
    const std::string all = served.process->err();
    const std::string line =
        all.substr(all.find(start), all.find('\n', all.find(start)) - all.find(start));
    EXPECT_NE(line.find(one.second), std::string::npos) << line;
    EXPECT_EQ(served.lines_with(served.place(protocol) + ": "), 1u) << all;
    EXPECT_TRUE(comes([&] { return served.refused(protocol) == "3"; }))
        << protocol << ": " << served.refused(protocol);
  }
  EXPECT_EQ(served.process->err().find("swordfish"), std::string::npos);
}

}  // namespace
}  // namespace sluice::tests::refused_requests_test
