// A real server with few descriptors. Clients get those that the store, Redis, the log and the
// admin port leave, and no number of clients makes any of these fail.
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <memory>
#include <stdexcept>
#include <string>
#include <system_error>
#include <vector>

#include "tests/e2e/policies.h"
#include "tests/support/comes.h"
#include "tests/support/divvy_server.h"
#include "tests/support/http_client.h"
#include "tests/support/redis_server.h"

namespace sluice::tests::descriptors_test {
namespace {

namespace fs = std::filesystem;

constexpr size_t few = 256;

// The undefined-behaviour sanitizer reads memory through a pipe.
constexpr const char* sanitizer_needs_descriptors = "the sanitizer needs descriptors of its own";

class Descriptors : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    if (sanitized) GTEST_SKIP() << sanitizer_needs_descriptors;
    std::string store = "{}";
    if (GetParam() == "Redis") {
      redis_ = std::make_unique<RedisServer>();
      store = "{ redis: { nodes: [\"" + redis_->address() + "\"], deadline_ms: 2000 } }";
    } else if (GetParam() != "Memory") {
      store = "{ path: store, durability: " +
              std::string(GetParam() == "Always" ? "always" : "interval") + " }";
    }
    folder_.write("rules.ini", hundred_policy);
    start(folder_.write("sluice.yaml",
                        "listen:\n"
                        "  - { protocol: divvy, address: \"127.0.0.1:0\" }\n"
                        "  - { protocol: admin, address: \"127.0.0.1:0\" }\n"
                        "workers: 2\n"
                        "store: " +
                            store + "\npolicy: [{ divvy: rules.ini }]\n"));
  }

  void start(const std::string& config) {
    process_ = std::make_unique<Process>(Process::Options{
        .arguments = {"serve", "--config", config}, .folder = folder_.path(), .open_files = few});
    divvy_ = await_listening(*process_);
    admin_ = await_listening(*process_, "admin");
    const auto kept = process_->read_line();
    ASSERT_TRUE(kept && kept->starts_with("sluice: counters in ")) << *kept;
    banner_ = process_->read_line().value_or("");
    for (const char* word :
         {"sluice: at most ", " connections at a time: 256 files may be open, ", "(ulimit -n)"})
      EXPECT_NE(banner_.find(word), std::string::npos) << banner_;
  }
  size_t most() const { return std::stoul(banner_.substr(banner_.find("most ") + 5)); }
  TcpClient client() const {
    auto client = TcpClient::connect(divvy_);
    if (!client) throw std::runtime_error("refused");
    return std::move(*client);
  }
  // More clients than there is room for; half of them send nothing.
  std::vector<TcpClient> crowd() const {
    std::vector<TcpClient> all;
    for (size_t i = 0; i < 2 * few; ++i) {
      all.push_back(client());
      if (i % 2 == 0) all.back().send("HIT a=b\n");
    }
    return all;
  }

  Folder folder_;
  std::unique_ptr<RedisServer> redis_;
  std::unique_ptr<Process> process_;
  uint16_t divvy_ = 0, admin_ = 0;
  std::string banner_;
};

TEST_P(Descriptors, AreKeptForTheStoreAndTheAdminPort) {
  auto first = client();
  EXPECT_TRUE(comes([&] { return first.ask("HIT a=b").starts_with("OK true "); }));
  auto all = crowd();
  ASSERT_TRUE(process_->says("accepting pauses")) << process_->err();
  EXPECT_TRUE(process_->says("ulimit -n"));
  // A worker counts a connection when it begins to serve it, after it was accepted.
  EXPECT_TRUE(comes([&] {
    return sample(admin_, "sluice_connections{protocol=\"divvy\"}") == std::to_string(most());
  }));
  // So many changes that blocks are folded and new logs begun, which opens files.
  std::string many;
  for (int i = 0; i < 500; ++i)
    many += "HIT k=v who=" + std::string(200, 'x') + std::to_string(i) + "\n";
  for (int round = 0; round < 20; ++round) {
    ASSERT_TRUE(first.send(many));
    for (int i = 0; i < 500; ++i) {
      const auto reply = first.read_line();
      ASSERT_TRUE(reply && reply->starts_with("OK ")) << round << " " << reply.value_or("(end)");
    }
  }
  EXPECT_EQ(http_get(admin_, "/health/live").status, 200);
  EXPECT_EQ(http_get(admin_, "/v1/counters?limit=10").status, 200);
  EXPECT_LT(std::stod(sample(admin_, "process_open_fds")), static_cast<double>(few));
  // An override and a reload, while all places are taken.
  EXPECT_EQ(http(admin_, "POST", "/v1/overrides",
                 R"({"rule": "k=v", "actor": "me", "limit": {"quota": 7, "window": "600s"}})")
                .status,
            201);
  EXPECT_EQ(http(admin_, "POST", "/v1/reload").status, 200);
  if (GetParam() == "Always" || GetParam() == "Interval") {
    EXPECT_EQ(sample(admin_, "sluice_commit_failures_total"), "0");
    EXPECT_EQ(sample(admin_, "sluice_store_failing"), "0");
    const auto copied = run(
        {.arguments = {"store", "backup", folder_.path() + "/store", folder_.path() + "/copy"}});
    EXPECT_EQ(copied.status, 0) << copied.err;
    EXPECT_TRUE(fs::exists(folder_.path() + "/copy"));
  }
  if (redis_ != nullptr) {
    redis_->stop();
    EXPECT_TRUE(
        comes([&] { return sample(admin_, "sluice_redis_connections{state=\"up\"}") == "0"; }));
    redis_->start();
    EXPECT_TRUE(
        comes([&] { return sample(admin_, "sluice_redis_connections{state=\"up\"}") == "2"; }));
  }
  EXPECT_EQ(process_->err().find("Too many open files\n"), std::string::npos) << process_->err();
  // When clients leave, waiting ones are accepted.
  first.abort();
  for (size_t i = 0; i < all.size(); ++i) {
    if (i % 2 == 0) {
      const auto reply = all[i].read_line();
      EXPECT_TRUE(reply && reply->starts_with("OK true ")) << i;
    }
    all[i].abort();
  }
}

// However few descriptors are left, the admin port has one in reserve to answer whether the server
// lives.
TEST_P(Descriptors, HealthIsAnsweredWithoutFreeDescriptors) {
  if (redis_ != nullptr) {
    EXPECT_TRUE(
        comes([&] { return sample(admin_, "sluice_redis_connections{state=\"up\"}") == "2"; }));
  }
  const std::string folder = "/proc/" + std::to_string(process_->pid()) + "/fd/";
  const auto is_open = [&](size_t number) {
    return fs::is_symlink(folder + std::to_string(number));
  };
  // The reserved descriptor is one of these.
  size_t kept = 0;
  std::error_code closed;  // a listed one may be closed by now
  for (const auto& entry : fs::directory_iterator(folder))
    if (fs::read_symlink(entry.path(), closed) == "anon_inode:[eventfd]")
      kept = std::max(kept, std::stoul(entry.path().filename()));
  ASSERT_GT(kept, size_t{STDERR_FILENO});
  // Clients take all free numbers below it, so that a limit of the next number leaves none free.
  const auto first_free = [&] {
    size_t number = 0;
    while (is_open(number)) ++number;
    return number;
  };
  std::vector<TcpClient> clients;
  while (first_free() < kept && clients.size() < 20) {
    clients.push_back(client());
    EXPECT_TRUE(clients.back().ask("HIT a=b").starts_with("OK "));
  }
  const size_t next = first_free();
  const rlimit none{next, few};
  ASSERT_EQ(::prlimit(process_->pid(), RLIMIT_NOFILE, &none, nullptr), 0);
  auto waiting = client();  // at the other port
  ASSERT_TRUE(waiting.send("HIT a=b\n"));
  ASSERT_TRUE(process_->says("accepting pauses")) << process_->err();
  // Each request has its own connection, and silent connections are open beside it.
  std::vector<TcpClient> silent;
  for (int i = 0; i < 10; ++i) {
    EXPECT_EQ(http_get(admin_, "/health/live").status, 200) << i;
    silent.push_back(*TcpClient::connect(admin_));
  }
  const rlimit all{few, few};
  ASSERT_EQ(::prlimit(process_->pid(), RLIMIT_NOFILE, &all, nullptr), 0);
  EXPECT_TRUE(waiting.read_line().value_or("(end)").starts_with("OK "));
}

INSTANTIATE_TEST_SUITE_P(Stores, Descriptors,
                         testing::Values("Memory", "Interval", "Always", "Redis"),
                         [](const auto& one) { return one.param; });

TEST(DescriptorsAtTheStart, TooFewForTheServerItselfAreAnError) {
  if (sanitized) GTEST_SKIP() << sanitizer_needs_descriptors;
  const Folder folder;
  const auto finished = run({.arguments = {"divvy", folder.write("rules.ini", hundred_policy),
                                           "--workers", "2", "--data", folder.path() + "/store"},
                             .environment = {{"PORT", "0"}},
                             .open_files = 50});
  EXPECT_EQ(finished.status, 1);
  EXPECT_EQ(finished.out, "");
  EXPECT_NE(finished.err.find("only 50 files may be open, and "), std::string::npos)
      << finished.err;
  EXPECT_NE(finished.err.find("ulimit -n"), std::string::npos) << finished.err;
}

}  // namespace
}  // namespace sluice::tests::descriptors_test
