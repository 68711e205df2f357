// The real `sluice limitd` in place of limitd: its flags, environment, files and signals; and the
// commands `sluice ask limitd` and `sluice limitdctl`.
#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <thread>

#include "tests/support/limitd_client.h"

namespace sluice::tests::limitd_drop_in_test {
namespace {

using nlohmann::json;

const std::string small = "db: { inMemory: true }\nbuckets: { ip: { size: 10 } }\n";

std::string text_of(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

// Waits, by polling, until `holds` returns true. False: not in time.
template <class Holds>
bool eventually(Holds&& holds) {
  for (const auto until = soon(); std::chrono::steady_clock::now() < until;) {
    if (holds()) return true;
    std::this_thread::sleep_for(Milliseconds(10));
  }
  return false;
}

int64_t limit_of(LimitdClient& client, const std::string& type, const std::string& key = "k") {
  const auto reply = client.ask({LimitdMethod::get, type, key});
  return reply.kind == "error" ? -1 : reply.limit;
}

class LimitdFlags : public testing::Test {
 protected:
  // Starts the server with these arguments and variables, and returns its port.
  uint16_t start(std::vector<std::string> words,
                 std::map<std::string, std::string> variables = {}) {
    words.insert(words.begin(), "limitd");
    process_ = std::make_unique<Process>(Process::Options{.arguments = std::move(words),
                                                          .environment = std::move(variables),
                                                          .folder = folder_.path()});
    return await_listening(*process_, "limitd");
  }
  void stop() {
    process_->signal(SIGTERM);
    EXPECT_EQ(process_->wait(), 0);
  }
  LimitdClient client(uint16_t port) { return LimitdClient(TcpClient::connect(port).value()); }

  Folder folder_;
  std::unique_ptr<Process> process_;
};

TEST_F(LimitdFlags, OverrideTheEnvironmentWhichOverridesTheFileWithAWarning) {
  folder_.write("limitd.yaml", "port: 1\n" + small);
  const uint16_t port =
      start({"-c", "limitd.yaml", "-p", "0", "-d", folder_.path() + "/db"}, {{"PORT", "2"}});
  EXPECT_GT(port, 2);
  EXPECT_TRUE(process_->says("--port: `0` counts, where limitd would take `2` of PORT"));
  stop();
  start({"--config-file", "limitd.yaml"}, {{"PORT", "0"}});
  EXPECT_EQ(process_->err().find("--port"), std::string::npos);
  stop();
  start({"--port", "0", "--hostname", "127.0.0.1", "--config-file", "limitd.yaml"});
  EXPECT_TRUE(process_->says("--port: `0` counts, where limitd would take `1` of limitd.yaml:1"));
  stop();
}

TEST_F(LimitdFlags, AreOptionalWithTheEnvironment) {
  folder_.write("limitd.yaml", small);
  uint16_t port =
      start({}, {{"CONFIG_FILE", "limitd.yaml"}, {"PORT", "0"}, {"LOG_LEVEL", "debug"}});
  LimitdClient of_file = client(port);
  EXPECT_EQ(limit_of(of_file, "ip"), 10);
  EXPECT_TRUE(process_->says("limitd: peek type=ip"));
  stop();
  const std::string db = folder_.path() + "/db";
  port = start({}, {{"DB", db}, {"PORT", "0"}, {"BUCKET_1_NAME", "env"}, {"BUCKET_1_SIZE", "4"}});
  LimitdClient of_environment = client(port);
  EXPECT_EQ(limit_of(of_environment, "env"), 4);
  EXPECT_EQ(limit_of(of_environment, "ip"), -1);
  EXPECT_TRUE(std::filesystem::exists(db + "/sluice/CURRENT"));
  stop();
}

// Every container sets HOSTNAME, and mostly to a name that a server cannot listen on.
TEST_F(LimitdFlags, HostnameOfTheEnvironmentCountsIfItIsAnAddress) {
  folder_.write("limitd.yaml", "hostname: 127.0.0.1\n" + small);
  start({"-p", "0", "-c", "limitd.yaml"}, {{"HOSTNAME", "not-a-host.invalid"}});
  EXPECT_TRUE(process_->says("HOSTNAME: `not-a-host.invalid` is not an address"));
  stop();
  process_ = std::make_unique<Process>(
      Process::Options{.arguments = {"limitd", "-p", "0", "-c", "limitd.yaml"},
                       .environment = {{"HOSTNAME", "127.0.0.2"}},
                       .folder = folder_.path()});
  EXPECT_TRUE(
      process_->read_line().value_or("").starts_with("sluice: limitd listening on 127.0.0.2:"));
  stop();
}

TEST_F(LimitdFlags, ExitsWith1IfThePortIsTaken) {
  LimitdServer server(small);
  folder_.write("limitd.yaml", small);
  const auto second =
      run({.arguments = {"limitd", "-c", "limitd.yaml", "-p", std::to_string(server.port())},
           .folder = folder_.path()});
  EXPECT_EQ(second.status, 1);
  EXPECT_NE(second.err.find("EADDRINUSE"), std::string::npos) << second.err;
  const auto nowhere =
      run({.arguments = {"limitd", "-c", "limitd.yaml", "-p", "0", "-l", "no/such/log"},
           .folder = folder_.path()});
  EXPECT_EQ(nowhere.status, 1);
  EXPECT_NE(nowhere.err.find("no/such/log cannot be opened"), std::string::npos) << nowhere.err;
}

TEST_F(LimitdFlags, SighupOpensTheLogAgainAndReloads) {
  const std::string path = folder_.write("limitd.yaml", small);
  const std::string log = folder_.path() + "/limitd.log";
  LimitdClient c = client(start({"-c", path, "-p", "0", "-l", log}));
  EXPECT_TRUE(
      eventually([&] { return text_of(log).find("policy generation 1") != std::string::npos; }));
  std::filesystem::rename(log, log + ".1");
  process_->signal(SIGHUP);
  EXPECT_TRUE(
      eventually([&] { return text_of(log).find("policy unchanged") != std::string::npos; }));
  EXPECT_EQ(text_of(log + ".1").find("policy unchanged"), std::string::npos);
  folder_.write("limitd.yaml", "db: { inMemory: true }\nbuckets: { ip: { size: 20 } }\n");
  process_->signal(SIGHUP);
  EXPECT_TRUE(eventually([&] { return limit_of(c, "ip") == 20; }));
  EXPECT_EQ(process_->err().find("policy generation"), std::string::npos);
  stop();
}

TEST_F(LimitdFlags, AChangeInTheFolderIsReloaded) {
  const std::string path = folder_.write("limitd.yaml", small);
  LimitdClient c = client(start({"-c", path, "-p", "0"}));
  EXPECT_EQ(limit_of(c, "more"), -1);
  std::filesystem::create_directory(path + ".d");
  EXPECT_EQ(c.take("ip", "k", 4).remaining, 6);
  folder_.write("limitd.yaml.d/10.yml", "buckets: { more: { size: 3 } }\n");
  EXPECT_TRUE(eventually([&] { return limit_of(c, "more") == 3; }));
  folder_.write("limitd.yaml.d/10.yml", "buckets: { more: { size: 4 } }\n");
  EXPECT_TRUE(eventually([&] { return limit_of(c, "more") == 4; }));
  std::filesystem::remove(path + ".d/10.yml");
  EXPECT_TRUE(eventually([&] { return limit_of(c, "more") == -1; }));
  EXPECT_EQ(c.ask({LimitdMethod::get, "ip", "k"}).remaining, 6);
  stop();
}

TEST_F(LimitdFlags, AConfiguratorsFileReplacesTheTypesAndARefusedOneDoesNot) {
  const std::string types = folder_.path() + "/types.yml";
  const std::string path = folder_.write(
      "limitd.yaml", small + "configurator: { type: file, path: " + types + ", interval: 200 }\n");
  LimitdClient c = client(start({"-c", path, "-p", "0"}));
  EXPECT_TRUE(process_->says("the bucket types of the main file are served until it can"));
  EXPECT_EQ(limit_of(c, "ip"), 10);
  const auto write = [&](const std::string& text) {
    folder_.write("types.yml",
                  "db: x\nbuckets:\n  ip:\n    size: 5\n    override: { o: { size: 7, match: " +
                      text + " } }\n");
  };
  write("!!js/regexp /^a/");
  EXPECT_TRUE(eventually([&] { return limit_of(c, "ip") == 5; }));
  EXPECT_EQ(limit_of(c, "ip", "abc"), 7);
  // Only the expression changes, which the original does not notice.
  write("!!js/regexp /^b/");
  EXPECT_TRUE(eventually([&] { return limit_of(c, "ip", "abc") == 5; }));
  EXPECT_EQ(limit_of(c, "ip", "b"), 7);
  write("!!js/regexp /(/");
  EXPECT_TRUE(process_->says("policy refused; live stays generation 3"));
  EXPECT_EQ(limit_of(c, "ip", "b"), 7);
  std::filesystem::remove(types);
  EXPECT_TRUE(process_->says("types.yml: error: cannot be read"));
  EXPECT_EQ(limit_of(c, "ip", "b"), 7);
  stop();
}

// The original looks at `until` when it loads, and never again.
TEST_F(LimitdFlags, UntilIsCheckedWhenARuleIsUsed) {
  const std::time_t end = std::time(nullptr) + 3;
  char text[32];
  std::tm utc{};
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&end, &utc));
  const std::string path =
      folder_.write("limitd.yaml",
                    "db: { inMemory: true }\nbuckets: { ip: { size: 5, override: { k: { "
                    "size: 9, until: " +
                        std::string(text) + " } } } }\n");
  LimitdClient c = client(start({"-c", path, "-p", "0"}));
  const int64_t before = limit_of(c, "ip");
  EXPECT_TRUE(before == 9 || std::time(nullptr) >= end) << before;
  EXPECT_TRUE(eventually([&] { return limit_of(c, "ip") == 5; }));
  EXPECT_GE(std::chrono::system_clock::now(), std::chrono::system_clock::from_time_t(end));
  stop();
}

TEST_F(LimitdFlags, SluiceYamlServesTheFileToo) {
  folder_.write("limitd.yaml", "port: 1\n" + small);
  folder_.write("sluice.yaml",
                "listen: [{ protocol: limitd, address: \"127.0.0.1:0\" }]\npolicy: [{ limitd: "
                "limitd.yaml }]\n");
  process_ = std::make_unique<Process>(
      Process::Options{.arguments = {"serve", "--config", folder_.path() + "/sluice.yaml"},
                       .environment = {{"BUCKET_1_NAME", "env"}, {"BUCKET_1_SIZE", "4"}}});
  LimitdClient c = client(await_listening(*process_, "limitd"));
  EXPECT_EQ(limit_of(c, "ip"), 10);
  EXPECT_EQ(limit_of(c, "env"), -1);
  EXPECT_TRUE(
      process_->says("limitd.yaml:1: warning: port: has no effect in a policy of a sluice.yaml"));
  folder_.write("limitd.yaml", "db: x\nbuckets: { ip: { size: 11 } }\n");
  EXPECT_TRUE(eventually([&] { return limit_of(c, "ip") == 11; }));
  stop();
}

TEST_F(LimitdFlags, WarnsOfAListenerWithoutABucketType) {
  folder_.write("rules.ini", "[default]\ncreditLimit = 0\n");
  folder_.write(
      "sluice.yaml",
      "listen: [{ protocol: limitd, address: \"127.0.0.1:0\" }]\npolicy: [{ divvy: rules.ini }]\n");
  process_ = std::make_unique<Process>(Process::Options{
      .arguments = {"serve", "--config", "sluice.yaml"}, .folder = folder_.path()});
  LimitdClient c = client(await_listening(*process_, "limitd"));
  EXPECT_TRUE(process_->says("listen: sluice.yaml:1 serves limitd, and there is no bucket type"));
  EXPECT_EQ(c.take("ip", "k").kind, "error");
  stop();
}

// The first configuration of limitd's documentation.
TEST_F(LimitdFlags, TheFirstDay) {
  folder_.write(
      "limitd.config",
      "#port to listen on\nport: 9001\n#db path\ndb: " + folder_.path() +
          "/database\n"
          "#define the bucket types\nbuckets:\n  user:\n    size: 10\n    per_second: 5\n");
  LimitdClient c = client(start({"--config-file", "limitd.config", "--port", "0"}));
  EXPECT_EQ(c.take("user", "ann").remaining, 9);
  stop();
  process_ = std::make_unique<Process>(Process::Options{
      .arguments = {"serve", "--listen", "limitd=127.0.0.1:0"}, .folder = folder_.path()});
  LimitdClient built_in = client(await_listening(*process_, "limitd"));
  const auto reply = built_in.take("user", "ann");
  EXPECT_EQ(reply.limit, 10);
  EXPECT_EQ(reply.remaining, 9);
  stop();
}

class LimitdAsk : public testing::Test {
 protected:
  Finished ask(std::vector<std::string> words) {
    std::vector<std::string> all{"ask",       "limitd",
                                 "--timeout", "20000",
                                 "--server",  "127.0.0.1:" + std::to_string(server_.port())};
    all.insert(all.end(), words.begin(), words.end());
    // No admin port is at this address; a command would ask it for the types.
    return run({.arguments = all, .environment = {{"SLUICE_ADMIN_SERVER", "127.0.0.1:1"}}});
  }
  Finished ctl(std::vector<std::string> words) {
    std::vector<std::string> all{"limitdctl", "-h", "127.0.0.1", "-p",
                                 std::to_string(server_.port())};
    all.insert(all.end(), words.begin(), words.end());
    return run({.arguments = all});
  }
  LimitdServer server_{
      "db: { inMemory: true }\nbuckets: { ip: { size: 10, per_hour: 1 }, fixed: { size: 3 },\n"
      "           free: { size: 100, unlimited: true } }\n"};
};

TEST_F(LimitdAsk, SaysTheAnswerInWords) {
  Finished done = ask({"take", "fixed", "a"});
  EXPECT_EQ(done.status, 0) << done.err;
  EXPECT_EQ(done.out, "allowed: 2 of 3 left\n");
  EXPECT_EQ(ask({"take", "ip", "a"}).out.substr(0, 46),
            "allowed: 9 of 10 left, all of them again withi");
  done = ask({"take", "fixed", "a", "3"});
  EXPECT_EQ(done.status, 1) << done.err;
  EXPECT_EQ(done.out, "denied: 2 of 3 left\n");
  EXPECT_EQ(ask({"wait", "fixed", "a", "2"}).out, "allowed: 0 of 3 left\n");
  EXPECT_EQ(ask({"get", "fixed", "a"}).out, "0 of 3 left\n");
  EXPECT_EQ(ask({"status", "fixed", ""}).out, "a: 0 of 3 left\n");
  EXPECT_EQ(ask({"status", "fixed", "b"}).out, "none\n");
  EXPECT_EQ(ask({"put", "fixed", "a", "1"}).out, "1 of 3 left\n");
  EXPECT_EQ(ask({"reset", "fixed", "a"}).out, "3 of 3 left\n");
  EXPECT_EQ(ask({"ping"}).out, "pong\n");
  done = ask({"take", "absent", "a"});
  EXPECT_EQ(done.status, 3);
  EXPECT_EQ(done.err,
            "error: there is no bucket type `absent`; `sluice rules` lists those that there are\n");
  EXPECT_EQ(
      json::parse(ask({"--json", "take", "fixed", "j"}).out),
      json({{"allowed", true}, {"delayed", false}, {"remaining", 2}, {"reset", 0}, {"limit", 3}}));
}

// A wait ends after a second, as the help says. A request for more than the bucket holds is refused
// at once.
TEST_F(LimitdAsk, AWaitEndsAfterASecondOrAtOnceIfItCanNeverPass) {
  const std::string server = "127.0.0.1:" + std::to_string(server_.port());
  ASSERT_EQ(ask({"take", "fixed", "w", "3"}).status, 0);
  Finished done =
      run({.arguments = {"ask", "limitd", "--server", server, "wait", "fixed", "w", "2"}});
  EXPECT_EQ(done.status, 3) << done.out;
  EXPECT_NE(done.err.find("nothing was taken, and --timeout MILLISECONDS waits longer"),
            std::string::npos)
      << done.err;
  done = ask({"wait", "ip", "w", "11"});
  EXPECT_EQ(done.status, 1) << done.err;
  EXPECT_EQ(done.out, "denied: 10 of 10 left; 11 are never there, as it holds 10 at most\n");
  EXPECT_EQ(ask({"take", "fixed", "a", "4"}).out,
            "denied: 3 of 3 left; 4 are never there, as it holds 3 at most\n");
  EXPECT_EQ(json::parse(ask({"--json", "wait", "fixed", "a", "4"}).out)["never"], true);
  EXPECT_EQ(ask({"wait", "free", "a", "101"}).status, 0);  // unlimited
}

TEST_F(LimitdAsk, LimitdctlHasItsWordsAndStatuses) {
  Finished done = ctl({"-b", "fixed", "-k", "a", "-t", "1"});
  EXPECT_EQ(done.status, 0) << done.err;
  EXPECT_EQ(done.out, "Conformant - Remaining: 2\n");
  done = ctl({"--bucket", "fixed", "--key", "a", "--take", "3"});
  EXPECT_EQ(done.status, 1);
  EXPECT_EQ(done.out, "");
  EXPECT_EQ(done.err, "Non conformant! - Current: 2\n");
  done = ctl({"-b", "fixed", "-k", "a", "-w", "1"});
  EXPECT_EQ(done.status, 0);
  EXPECT_EQ(done.out, "");
  EXPECT_EQ(ctl({"-b", "fixed", "-k", "a", "-r", "1"}).out, "OK - Current: 2\n");
  EXPECT_EQ(ctl({"-b", "fixed", "-k", "a", "-s"}).out,
            "+----------+-----------+-------+-------+\n"
            "| instance | remaining | reset | limit |\n"
            "+----------+-----------+-------+-------+\n"
            "| a        | 2         | 0     | 3     |\n"
            "+----------+-----------+-------+-------+\n");
  EXPECT_EQ(ctl({"-b", "fixed", "-k", "x", "-s"}).out, "no results\n");
  done = ctl({"-b", "fixed", "-k", "a", "-t", "3", "-j"});
  EXPECT_EQ(done.status, 0);
  EXPECT_EQ(json::parse(done.out), json({{"conformant", false},
                                         {"delayed", false},
                                         {"remaining", 2},
                                         {"reset", 0},
                                         {"limit", 3}}));
  EXPECT_EQ(json::parse(ctl({"-b", "fixed", "-k", "a", "-s", "-j"}).out)["items"][0]["instance"],
            "a");
  EXPECT_EQ(ctl({"-b", "absent", "-k", "a", "-t", "1"}).status, 1);
}

}  // namespace
}  // namespace sluice::tests::limitd_drop_in_test
