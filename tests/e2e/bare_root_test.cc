// The real server in a root folder that has nothing but the program and its libraries, as in a
// chroot or an unpacked image: without /dev, /proc and /etc, and by default without a folder for
// the socket of its admin port.
#include "tests/support/bare_root.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/http_client.h"
#include "tests/support/patience.h"
#include "tests/support/tcp_client.h"

namespace sluice::tests::bare_root_test {
namespace {

using Json = nlohmann::json;
using Variables = BareRoot::Variables;

constexpr const char* rules = "[default]\ncreditLimit = 5\nresetSeconds = 60\n";

// A line of the banner that begins so, without that; nothing: the banner has none.
std::optional<std::string> banner(Process& process, const std::string& begins) {
  while (const auto line = process.read_line()) {
    if (line->starts_with(begins)) return line->substr(begins.size());
    if (line->starts_with("sluice: no admin port")) return std::nullopt;
  }
  return std::nullopt;
}

class Bare : public testing::Test {
 protected:
  Bare() { root_.write("/rules.ini", rules); }

  void SetUp() override {
    if (sanitized) GTEST_SKIP() << "a program with sanitizers does not run without /proc";
  }

  // A drop-in without an admin port of its own; the banner says where it listens.
  std::unique_ptr<Process> drop_in(const Variables& more = {}) const {
    Variables variables{{"PORT", "0"}};
    variables.insert(more.begin(), more.end());
    return root_.start({"divvy", "/rules.ini"}, variables);
  }
  std::optional<std::string> socket_of(Process& process) const {
    return banner(process, "sluice: admin listening on ");
  }
  Finished status(const Variables& variables = {}) const {
    return root_.run({"status", "--over", "0s", "--json"}, variables);
  }
  // The server that `sluice status` finds by itself.
  std::string found(const Variables& variables = {}) const {
    const Finished done = status(variables);
    EXPECT_EQ(done.status, 0) << done.out << done.err;
    return done.status == 0 ? Json::parse(done.out)["server"].get<std::string>() : "";
  }
  bool exists(const std::string& path) const {
    return std::filesystem::exists(std::filesystem::symlink_status(root_.path() + path));
  }

  BareRoot root_;
};

// The spare descriptor of an admin port's listeners needs no file.
TEST_F(Bare, AServerWithAnAdminPortServesOnAllItsPorts) {
  const auto server = root_.start({"serve", "--listen", "http=127.0.0.1:0", "--listen",
                                   "divvy=127.0.0.1:0", "--admin", "127.0.0.1:0"});
  Process& process = *server;
  const uint16_t http_port = await_listening(process, "http"),
                 divvy = await_listening(process, "divvy"),
                 admin = await_listening(process, "admin");
  const std::string take = R"({"key": "k", "limits": [{"quota": 3, "window": "1h"}]})";
  EXPECT_EQ(http(http_port, "POST", "/v1/take", take, "Content-Type: application/json\r\n").status,
            200);
  auto client = TcpClient::connect(divvy).value();
  EXPECT_TRUE(client.send("HIT a=b\n"));
  EXPECT_TRUE(client.read_line().value_or("").starts_with("OK "));
  EXPECT_EQ(http_get(admin, "/health/ready").status, 200);
  EXPECT_EQ(http_get(admin, "/v1/status").status, 200);
  // What only /proc knows is left out, not 0.
  EXPECT_NE(sample(admin, "process_cpu_seconds_total"), "");
  EXPECT_GT(std::stoi("0" + sample(admin, "process_open_fds")), 5);
  EXPECT_EQ(sample(admin, "process_resident_memory_bytes"), "");
  process.signal(SIGTERM);
  EXPECT_EQ(process.wait(), 0);
}

TEST_F(Bare, LocalhostIsAnAddressOfThisMachine) {
  const auto server =
      root_.start({"serve", "--listen", "http=localhost:0", "--admin", "localhost:0"});
  Process& process = *server;
  const uint16_t port = await_listening(process, "http"), admin = await_listening(process, "admin");
  EXPECT_EQ(http_get(port, "/v1/health").status, 200);
  EXPECT_EQ(found({{"SLUICE_ADMIN_SERVER", "localhost:" + std::to_string(admin)}}),
            "localhost:" + std::to_string(admin));
}

TEST_F(Bare, CountersOnDiskAreKeptAndCopiedWhileItServes) {
  root_.write(
      "/sluice.yaml",
      "store: { path: /data, interval_ms: 60000 }\nrules: [{ match: { never: x }, deny: true }]\n");
  const auto server =
      root_.start({"serve", "--config", "/sluice.yaml", "--listen", "http=127.0.0.1:0"});
  Process& process = *server;
  const uint16_t port = await_listening(process, "http");
  const std::string take = R"({"key": "k", "limits": [{"quota": 3, "window": "1h"}]})";
  EXPECT_EQ(http(port, "POST", "/v1/take", take, "Content-Type: application/json\r\n").status, 200);
  const Finished copied = root_.run({"store", "backup", "/data", "/copy"});
  EXPECT_EQ(copied.status, 0) << copied.err << copied.out;
  // What was answered before is in the copy, although commits are a minute apart.
  EXPECT_NE(root_.run({"store", "dump", "/copy"}).out.find("\"key\":\"k\""), std::string::npos);
  process.signal(SIGTERM);
  EXPECT_EQ(process.wait(), 0);
  EXPECT_EQ(root_.run({"store", "check", "/copy"}).status, 0);
}

TEST_F(Bare, ClosedStandardFilesAreNotTakenByOthers) {
  const auto server = root_.start(
      {"serve", "--listen", "http=127.0.0.1:0", "--admin", "127.0.0.1:0", "--data", "/data"}, {},
      "<&- 2>&-");
  Process& process = *server;
  const uint16_t port = await_listening(process, "http");
  // The log, which is written to standard error, must not reach a socket or a file of the store.
  EXPECT_EQ(http_get(port, "/v1/health").status, 200);
  for (const int file : {STDIN_FILENO, STDERR_FILENO}) {
    const std::string target = std::filesystem::read_symlink(
        "/proc/" + std::to_string(process.pid()) + "/fd/" + std::to_string(file));
    EXPECT_TRUE(target.starts_with("pipe:")) << target;
  }
  process.signal(SIGTERM);
  EXPECT_EQ(process.wait(), 0);
}

TEST_F(Bare, WithoutAFolderForItsSocketADropInNamesTheFlagForAnAdminPort) {
  const auto server = drop_in();
  EXPECT_EQ(socket_of(*server), std::nullopt);
  EXPECT_TRUE(server->says("commands for the admin port will not find this server by themselves"));
  const Finished lost = status();
  EXPECT_EQ(lost.status, 3);
  EXPECT_NE(lost.out.find("--admin PATH"), std::string::npos) << lost.out << lost.err;
}

TEST_F(Bare, ADropInIsFoundByItsSocketInRunOrElseInTmp) {
  root_.make("/tmp", 01777);
  auto first = drop_in();
  const std::string in_tmp = socket_of(*first).value_or("");
  EXPECT_TRUE(in_tmp.starts_with("/tmp/sluice-")) << in_tmp;
  EXPECT_TRUE(in_tmp.ends_with("/sluice-" + std::to_string(first->pid()) + ".sock")) << in_tmp;
  struct stat folder {};
  ASSERT_EQ(::stat(std::filesystem::path(root_.path() + in_tmp).parent_path().c_str(), &folder), 0);
  EXPECT_EQ(folder.st_mode & 0777u, 0700u);
  EXPECT_EQ(found(), in_tmp);
  EXPECT_EQ(root_.run({"counters", "--json"}).status, 0);
  EXPECT_EQ(root_.run({"top", "--over", "0s", "--json"}).status, 0);
  root_.make("/run", 0755);
  auto second = drop_in();
  const std::string in_run = socket_of(*second).value_or("");
  EXPECT_EQ(in_run, "/run/sluice/sluice-" + std::to_string(second->pid()) + ".sock");
  const Finished several = status();
  EXPECT_EQ(several.status, 3);
  EXPECT_NE(several.out.find(in_run + ", " + in_tmp), std::string::npos) << several.out;
  first->signal(SIGTERM);
  EXPECT_EQ(first->wait(), 0);
  EXPECT_FALSE(exists(in_tmp));
  EXPECT_EQ(found(), in_run);
}

// A server that was killed leaves its socket; commands ignore it, and a later server removes it.
TEST_F(Bare, TheSocketOfAKilledServerIsIgnoredAndRemoved) {
  root_.make("/tmp", 01777);
  auto killed = drop_in();
  const std::string old = socket_of(*killed).value_or("");
  killed->signal(SIGKILL);
  killed->wait();
  EXPECT_TRUE(exists(old));
  std::filesystem::last_write_time(
      root_.path() + old, std::filesystem::file_time_type::clock::now() - std::chrono::hours(1));
  auto server = drop_in();
  EXPECT_EQ(found(), socket_of(*server));
  EXPECT_FALSE(exists(old));
}

// Another user may have made /tmp/sluice-UID first.
TEST_F(Bare, NoSocketIsMadeWhereAnotherUserCouldHaveMadeTheFolder) {
  root_.make("/tmp", 01777);
  root_.make("/theirs", 0700);
  std::string folder;
  {
    auto server = drop_in();
    folder = std::filesystem::path(socket_of(*server).value_or("")).parent_path();
  }
  std::filesystem::remove_all(root_.path() + folder);
  std::filesystem::create_directory_symlink("/theirs", root_.path() + folder);
  auto server = drop_in();
  EXPECT_EQ(socket_of(*server), std::nullopt);
  EXPECT_TRUE(
      server->says(folder + "` for the admin socket is not a folder, but a link or a file"));
  EXPECT_TRUE(std::filesystem::is_empty(root_.path() + "/theirs"));
  EXPECT_EQ(status().status, 3);
  std::filesystem::remove(root_.path() + folder);
  root_.make(folder, 0777);
  auto again = drop_in();
  EXPECT_EQ(socket_of(*again), std::nullopt);
  EXPECT_TRUE(again->says(folder + "` for the admin socket may be written by other users"));
}

TEST_F(Bare, WithCountersOnDiskTheSocketIsBesideThemAtLast) {
  root_.make("/data", 0700);
  auto server = drop_in({{"SLUICE_DATA", "/data"}});
  const std::string path = "/data/sluice-" + std::to_string(server->pid()) + ".sock";
  EXPECT_EQ(socket_of(*server), path);
  EXPECT_EQ(found({{"SLUICE_DATA", "/data"}}), path);
  EXPECT_EQ(found({{"SLUICE_ADMIN_SERVER", path}}), path);
}

// A folder that is named and is not there, as XDG_RUNTIME_DIR behind `su`, is not the end.
TEST_F(Bare, ANamedFolderThatCannotBeUsedIsFollowedByTheOthers) {
  root_.make("/tmp", 01777);
  auto server = drop_in({{"XDG_RUNTIME_DIR", "/run/user/7"}});
  const std::string path = socket_of(*server).value_or("");
  EXPECT_TRUE(path.starts_with("/tmp/sluice-")) << path;
  EXPECT_EQ(found(), path);
  EXPECT_EQ(found({{"XDG_RUNTIME_DIR", "/run/user/7"}}), path);
}

}  // namespace
}  // namespace sluice::tests::bare_root_test
