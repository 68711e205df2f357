// The log of the real binary: its format, its levels and their changes, denials, and the secrets
// that it must not show.
#include <gtest/gtest.h>

#include <csignal>
#include <fstream>
#include <memory>
#include <regex>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "tests/e2e/described.h"
#include "tests/support/divvy_server.h"
#include "tests/support/redis_server.h"
#include "tests/support/tcp_client.h"

namespace sluice::tests::log_test {
namespace {

// A policy that causes no warning.
const std::string policy =
    "[k=v who=*]\ncreditLimit = 100\nresetSeconds = 600\nactorField = who\n\n"
    "[default]\ncreditLimit = 1000000000\nresetSeconds = 600\n";

struct Served {
  explicit Served(std::vector<std::string> words,
                  std::map<std::string, std::string> environment = {}) {
    environment["PORT"] = "0";
    std::vector<std::string> arguments{"divvy",   folder.write("rules.ini", policy),
                                       "--admin", "127.0.0.1:0",
                                       "--host",  "127.0.0.1"};
    arguments.insert(arguments.end(), words.begin(), words.end());
    process = std::make_unique<Process>(
        Process::Options{.arguments = arguments, .environment = std::move(environment)});
    port = await_listening(*process);
    admin = await_listening(*process, "admin");
    process->says("serving with");
  }
  Json put(const std::string& body) const {
    const HttpAnswer answer = ask(admin, "PUT", "/v1/log", body);
    EXPECT_EQ(answer.status, 200) << answer.body;
    return json_of(answer);
  }
  void hit(const std::string& line) const { TcpClient::connect(port)->ask("HIT " + line); }
  // The lines of standard error so far.
  std::vector<std::string> lines() const {
    std::vector<std::string> all;
    std::istringstream text(process->err());
    for (std::string line; std::getline(text, line);) all.push_back(line);
    return all;
  }

  Folder folder;
  std::unique_ptr<Process> process;
  uint16_t port = 0, admin = 0;
};

TEST(Log, IsTextByDefault) {
  const Served served({}, {{"DEBUG", "divvy"}});
  served.hit("k=v who=a");
  ASSERT_TRUE(served.process->says("| took"));
  const std::regex form("\\d{4}-\\d\\d-\\d\\dT\\d\\d:\\d\\d:\\d\\d\\.\\d{3}Z (info|debug) .*");
  for (const std::string& line : served.lines()) EXPECT_TRUE(std::regex_match(line, form)) << line;
  EXPECT_NE(served.process->err().find(" debug divvy: take k=v who=a | rule [k=v who=*] "),
            std::string::npos);
}

TEST(Log, IsJsonWhateverAClientSends) {
  const Served served({"--log-format", "json", "--log-level", "trace"});
  std::string wild;
  for (int byte = 1; byte < 256; ++byte)
    if (std::string_view(" \t\r\n\"=").find(static_cast<char>(byte)) == std::string_view::npos)
      wild += static_cast<char>(byte);
  for (const std::string& part : {wild, wild + "\xe2\x82", std::string("\xff\xfe"),
                                  std::string("\xed\xa0\x80"), std::string("b\\c\x1b[31m")})
    served.hit(part + "=" + part + " who=" + part);
  served.hit("last=1");
  ASSERT_TRUE(served.process->says("last=1"));
  const std::regex time("\\d{4}-\\d\\d-\\d\\dT\\d\\d:\\d\\d:\\d\\d\\.\\d{6}Z");
  size_t of_requests = 0, of_policy = 0;
  for (const std::string& line : served.lines()) {
    const Json json = Json::parse(line, nullptr, false);
    ASSERT_TRUE(json.is_object()) << line;
    EXPECT_EQ(json.size(), 4u);
    EXPECT_TRUE(std::regex_match(json.at("time").get<std::string>(), time)) << line;
    EXPECT_TRUE(json.at("message").is_string());
    of_requests += json.at("module") == "requests" && json.at("level") == "debug";
    of_policy += json.at("module") == "policy" && json.at("level") == "info";
  }
  EXPECT_GE(of_requests, 4u);
  EXPECT_GE(of_policy, 1u);
}

TEST(Log, LevelsChangeWhileItRuns) {
  const Served served({"--log-level", "info"});
  const Json first = json_of(ask(served.admin, "GET", "/v1/log"));
  EXPECT_EQ(first.at("level"), "info");
  EXPECT_EQ(first.at("format"), "text");
  EXPECT_EQ(first.at("denials"), Json({{"every", 0}}));
  for (const auto& [module, level] : first.at("modules").items())
    EXPECT_EQ(level, "info") << module;

  served.hit("unheard=1");
  Json now = served.put(R"({"modules":{"requests":"debug"}})");
  EXPECT_EQ(now.at("modules").at("requests"), "debug");
  EXPECT_EQ(now.at("modules").at("server"), "info");
  served.hit("heard=1");
  ASSERT_TRUE(served.process->says("take heard=1"));
  EXPECT_EQ(served.process->err().find("unheard"), std::string::npos);

  now = served.put(R"({"level":"error","format":"json"})");
  EXPECT_EQ(now.at("modules").at("requests"), "debug");
  EXPECT_EQ(now.at("modules").at("policy"), "error");
  // A reload does not change the levels.
  served.folder.write("rules.ini", policy + "\n");
  EXPECT_EQ(ask(served.admin, "POST", "/v1/reload").status, 200);
  served.process->signal(SIGHUP);
  EXPECT_EQ(json_of(ask(served.admin, "GET", "/v1/log")), now);
  served.hit("later=1");
  ASSERT_TRUE(served.process->says("take later=1"));
  EXPECT_EQ(served.process->err().find("policy generation 2"), std::string::npos);
  EXPECT_EQ(Json::parse(served.lines().back()).at("module"), "requests");

  now = served.put(R"({"modules":{"requests":null}})");
  EXPECT_EQ(now.at("modules").at("requests"), "error");
}

TEST(Log, AnInvalidChangeChangesNothing) {
  const Served served({});
  const Json before = json_of(ask(served.admin, "GET", "/v1/log"));
  for (const char* body : {"", "[]", "x", "{", "7"})
    EXPECT_EQ(ask(served.admin, "PUT", "/v1/log", body).status, 400) << body;
  const char* const wrong[] = {
      R"({"level":"debug","loud":1})",
      R"({"level":"debug","format":"xml"})",
      R"({"level":"debug","format":null})",
      R"({"level":"loud"})",
      R"({"level":null})",
      R"({"level":3})",
      R"({"level":"debug","modules":{"stroe":"debug"}})",
      R"({"modules":{"store":"debug","redis":7}})",
      R"({"modules":[]})",
      R"({"level":"debug","denials":{"every":-1}})",
      R"({"denials":{"every":1000000001}})",
      R"({"denials":{"every":1.5}})",
      R"({"denials":{"every":1,"of":2}})",
      R"({"denials":{}})",
      R"({"denials":7})",
  };
  for (const char* body : wrong)
    EXPECT_EQ(ask(served.admin, "PUT", "/v1/log", body).status, 422) << body;
  EXPECT_EQ(json_of(ask(served.admin, "GET", "/v1/log")), before);
  EXPECT_EQ(served.put("{}"), before);
}

size_t count_of(const std::string& text, const std::string& part) {
  size_t count = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

TEST(Log, LogsEveryNthDenialIfConfigured) {
  const Served served({"--log-level", "info"});
  auto client = TcpClient::connect(served.port);
  for (int i = 0; i < 130; ++i) client->ask("HIT k=v who=a");  // 30 are denied, and none is logged
  EXPECT_EQ(served.put(R"({"denials":{"every":10}})").at("denials").at("every"), 10);
  for (int i = 0; i < 45; ++i) client->ask("HIT k=v who=a");
  client->ask("HIT k=v who=b");
  served.put(R"({"denials":{"every":1}})");
  const std::string actor = "\x1b[31m|x\xff" + std::string(5000, 'y');
  for (int i = 0; i < 101; ++i) client->ask("HIT k=v who=" + actor);
  ASSERT_TRUE(served.process->says("yyy..."));
  const std::string err = served.process->err();
  EXPECT_EQ(count_of(err, "info denied | divvy | rule [k=v who=*] | actor a | retry_after "), 4u)
      << err;
  EXPECT_EQ(count_of(err, " denied | "), 5u);
  EXPECT_EQ(count_of(err, "actor \\x1b[31m\\x7cx"), 1u) << "a | would end the part";
  EXPECT_EQ(err.find('\x1b'), std::string::npos);
  EXPECT_TRUE(std::regex_search(err, std::regex("retry_after (599|600)\\.\\d{3} s\n"))) << err;
  served.put(R"({"denials":{"every":0}})");
  client->ask("HIT k=v who=a");
  served.put(R"({"level":"info"})");
  EXPECT_EQ(count_of(served.process->err(), " denied | "), 5u);
}

TEST(Log, LogsABoundedNumberOfDenialsASecondAndCountsTheRest) {
  const Folder folder;
  const std::string config =
      folder.write("sluice.yaml",
                   "listen: [{ protocol: divvy, address: \"127.0.0.1:0\" }]\n"
                   "log: { denials: { every: 2 } }\n"
                   "rules: [{ name: none, deny: true }]\n");
  Process process({.arguments = {"serve", "--config", config}});
  auto client = TcpClient::connect(await_listening(process));
  constexpr size_t asked = 20'000;
  std::string many;
  for (size_t i = 0; i < asked; ++i) many += "HIT a=b\n";
  std::thread sender([&] { client->send(many); });
  for (size_t i = 0; i < asked; ++i) client->read_line();
  sender.join();
  process.signal(SIGTERM);
  ASSERT_EQ(process.wait(), 0);
  const std::string err = process.err();
  const size_t told = count_of(err, " denied | divvy | rule [none] | actor  | retry_after never\n");
  EXPECT_GE(told, 10u);
  EXPECT_LE(told, 10u * 30);  // it takes less than 30 seconds
  size_t passed_over = 0;
  const std::regex line(" (\\d+) more denials were skipped; at most 10 a second are logged\n");
  for (std::sregex_iterator at(err.begin(), err.end(), line), end; at != end; ++at)
    passed_over += std::stoul((*at)[1]);
  EXPECT_EQ(told + passed_over, asked / 2);
}

// Secrets are not shown at any level, nor in errors.
TEST(Log, ShowsNoSecret) {
  const std::string password = "pass-5f1c0de", token = "token-77aa77aa77aa77",
                    variable = "other-88bb88bb88bb88";
  RedisServer redis({"--requirepass", "something-else"});
  const Folder folder;
  folder.write("admin.token", token + "\n");
  const std::string config = folder.write(
      "sluice.yaml",
      "listen:\n  - { protocol: divvy, address: \"127.0.0.1:0\" }\n"
      "  - { protocol: admin, address: \"127.0.0.1:0\" }\n"
      "log: { level: trace }\nadmin: { token_file: admin.token }\n"
      "store: { redis: { nodes: [\"" +
          redis.address() + "\"], password: " + password +
          ", username: someone } }\n"
          "rules: [{ name: r, match: { a: '*' }, actor: a, limit: { quota: 1, window: 1h } }]\n");
  for (const bool by_variable : {false, true}) {
    std::map<std::string, std::string> environment;
    if (by_variable) environment["SLUICE_ADMIN_TOKEN"] = variable;
    const std::string shown = by_variable ? variable : token;
    Process process({.arguments = {"serve", "--config", config}, .environment = environment});
    const uint16_t divvy = await_listening(process), admin = await_listening(process, "admin");
    const std::string header = "Authorization: Bearer " + shown + "\r\n";
    EXPECT_TRUE(process.says("redis"));
    TcpClient::connect(divvy)->ask("HIT a=b");
    EXPECT_EQ(ask(admin, "GET", "/v1/log", {}, "Authorization: Bearer " + password + "\r\n").status,
              401);
    std::string said;
    for (const char* target : {"/v1/config", "/metrics", "/v1/log", "/v1/rules", "/v1/top"})
      said += ask(admin, "GET", target, {}, header).body;
    std::ifstream file(config);
    std::ostringstream text;
    text << file.rdbuf();
    said += ask(admin, "POST", "/v1/config/check?as=sluice", text.str() + "x: 1\n", header).body;
    said += ask(admin, "POST", "/v1/reload", {}, header).body;
    process.signal(SIGHUP);
    process.says("policy");
    process.signal(SIGTERM);
    process.wait();
    said += process.out() + process.err();
    said += run({.arguments = {"serve", "--config", config, "--print-config"},
                 .environment = environment})
                .out;
    EXPECT_NE(said.find("not shown"), std::string::npos);
    for (const std::string& secret : {password, token, variable})
      EXPECT_EQ(said.find(secret), std::string::npos) << said;
  }
  // A password in the wrong place.
  for (const std::string& address :
       {"redis://:" + password + "@localhost:1", "u:" + password + "@localhost"}) {
    const auto finished =
        run({.arguments = {"serve", "--redis", address, "--listen", "divvy=[::]:0"}});
    EXPECT_EQ(finished.status, 1);
    EXPECT_EQ((finished.err + finished.out).find(password), std::string::npos) << finished.err;
  }
}

}  // namespace
}  // namespace sluice::tests::log_test
