// `sluice store` as a user calls it, on stores that the test fills.
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "admin/backup_socket.h"
#include "base/result_test.h"
#include "cli/commands.h"
#include "store/log/journal.h"

namespace sluice::cli {
namespace {

using limit::Algorithm;
using nlohmann::json;

class StoreCommand : public testing::Test {
 protected:
  StoreCommand() {
    std::string pattern = testing::TempDir() + "sluice_store_XXXXXX";
    folder = ::mkdtemp(pattern.data());
  }
  ~StoreCommand() override {
    std::error_code ignored;
    std::filesystem::remove_all(folder, ignored);
  }
  int command(const Words& words) {
    std::ostringstream out_stream, err_stream;
    config::CommandIo io{out_stream, err_stream, false, false,
                         [](const char*) -> std::optional<std::string> { return std::nullopt; }};
    const int status = run(words, io);
    out = out_stream.str();
    err = err_stream.str();
    return status;
  }
  static bool said(const std::string& text, std::string_view part) {
    return text.find(part) != std::string::npos;
  }
  static int64_t now_us() {
    return std::chrono::duration_cast<std::chrono::microseconds>(
               std::chrono::system_clock::now().time_since_epoch())
        .count();
  }
  std::unique_ptr<disk::Journal> open() {
    disk::JournalOptions options;
    options.path = folder + "/data";
    options.now = [] { return base::Time{now_us()}; };
    std::unique_ptr<disk::Journal> journal;
    EXPECT_TRUE(succeeds(disk::Journal::open(std::move(options), spaces), journal, problem))
        << problem;
    return journal;
  }
  // A fixed window with 7 of 10 units used, a bucket that never refills, and a balance of
  // droplet's.
  void fill() {
    const auto journal = open();
    const auto add = [&](const request::Space* space, std::vector<limit::Limit> limits,
                         std::string_view key, std::vector<limit::State> cells) {
      journal->add({space, limits.empty() ? 0 : spaces.intern_limits(limits), key, cells,
                    cells[0].fresh_at_us});
    };
    add(spaces.intern("ip:", ""), {{Algorithm::fixed_window, 10, base::seconds(3600), 0}},
        "10.0.0.7", {{now_us() + 1'800'000'000, 7}});
    add(spaces.intern("fixed:", ":x"), {{Algorithm::fixed_bucket, 5, {}, 5}}, "k\xff",
        {{INT64_MAX, 2}});
    request::Space droplet;
    droplet.windows = {base::seconds(1), base::seconds(60)};
    add(spaces.intern("droplet:", "", droplet), {}, "bucket",
        {{now_us() + 50'000'000, 2}, {now_us(), 60}, {10, 0}});
    ASSERT_TRUE(succeeds(journal->commit(), problem)) << problem;
  }

  request::Spaces spaces;
  std::string folder, problem, out, err;
};

TEST_F(StoreCommand, UsageErrorsExitWith2) {
  EXPECT_EQ(command({"store"}), 2);
  EXPECT_EQ(command({"store", "stats"}), 2);
  EXPECT_TRUE(said(err, "stats requires one DIR")) << err;
  EXPECT_EQ(command({"store", "stat", "d"}), 2);
  EXPECT_TRUE(said(err, "did you mean `stats`?")) << err;
  EXPECT_EQ(command({"store", "backup", "d"}), 2);
  EXPECT_TRUE(said(err, "backup requires DIR and TARGET")) << err;
  EXPECT_EQ(command({"store", "import-limitd", "d"}), 2);
  EXPECT_TRUE(said(err, "wants --config FILE, which names the types")) << err;
  EXPECT_EQ(command({"store", "check", "--config", "f", "d"}), 2);
  EXPECT_TRUE(said(err, "--config is for import-limitd")) << err;
  EXPECT_EQ(command({"store", "--help"}), 0);
  EXPECT_TRUE(said(out, "\n  import-limitd DIR --config FILE\n")) << out;
}

TEST_F(StoreCommand, RefusesImportRedisAndSaysHowToChangeOver) {
  const Words words{"store", "import-redis", "--from", "a:6379", "--to-cluster", "b:6379"};
  for (const size_t count : {2u, 6u}) {
    EXPECT_EQ(command({words.begin(), words.begin() + static_cast<ptrdiff_t>(count)}), 2);
    EXPECT_TRUE(said(err, "there is no tool `import-redis`")) << err;
    EXPECT_TRUE(said(err, "docs/redis.md")) << err;
  }
}

TEST_F(StoreCommand, ToolsReportAMissingStoreAndDoNotCreateOne) {
  for (const char* tool : {"dump", "stats", "check", "repair"}) {
    EXPECT_EQ(command({"store", tool, folder}), 1);
    EXPECT_TRUE(said(err, "there is no store in `" + folder + "`")) << err;
    EXPECT_EQ(command({"store", tool, folder + "/none"}), 1);
    EXPECT_TRUE(said(err, "No such file or directory")) << err;
  }
  EXPECT_EQ(command({"store", "backup", folder, folder + "/copy"}), 1);
  EXPECT_TRUE(said(err, "there is no store in")) << err;
  EXPECT_FALSE(std::filesystem::exists(folder + "/sluice"));
}

TEST_F(StoreCommand, DumpShowsTheStateAsADecision) {
  fill();
  EXPECT_EQ(command({"store", "dump", folder + "/data"}), 0) << err;
  std::istringstream lines(out);
  std::map<std::string, json> all;
  for (std::string line; std::getline(lines, line);) {
    json counter = json::parse(line);
    all[counter["prefix"]] = counter;
  }
  ASSERT_EQ(all.size(), 3u) << out;
  EXPECT_EQ(all["ip:"]["key"], "10.0.0.7");
  EXPECT_EQ(all["ip:"]["limits"][0]["algorithm"], "fixed_window");
  EXPECT_EQ(all["ip:"]["limits"][0]["remaining"], 3);
  EXPECT_TRUE(said(all["ip:"]["limits"][0]["says"], "3 of 10 left, all in 29m")) << out;
  EXPECT_EQ(all["fixed:"]["suffix"], ":x");
  EXPECT_EQ(all["fixed:"]["limits"][0]["says"], "3 of 5 left, more only when they are put back");
  EXPECT_EQ(all["fixed:"]["limits"][0]["reset_after_us"], nullptr);
  EXPECT_EQ(all["fixed:"]["forget_us"], nullptr);
  EXPECT_EQ(all["droplet:"]["limits"].size(), 1u);
  EXPECT_EQ(all["droplet:"]["limits"][0]["window_us"], 60'000'000);
  EXPECT_EQ(all["droplet:"]["limits"][0]["quota"], 60);
}

TEST_F(StoreCommand, StatsCheckBackupRepair) {
  fill();
  const std::string dir = folder + "/data", copy = folder + "/copy";
  EXPECT_EQ(command({"store", "stats", "--json", dir}), 0) << err;
  EXPECT_EQ(json::parse(out)["log_counters"], 3);
  EXPECT_EQ(command({"store", "stats", dir}), 0) << err;
  EXPECT_TRUE(said(out, "log: 1 block of 3 counters, ")) << out;
  EXPECT_EQ(command({"store", "check", dir}), 0) << err;
  EXPECT_TRUE(
      said(out, ": ok, 0 counters in the snapshot, 1 block in the log with 3 counters, 0 texts\n"))
      << out;
  EXPECT_EQ(command({"store", "backup", dir, copy}), 0) << err;
  EXPECT_EQ(command({"store", "backup", dir, copy}), 1);
  EXPECT_TRUE(said(err, "is there already")) << err;
  EXPECT_EQ(command({"store", "check", "--json", copy}), 0) << err;
  EXPECT_EQ(json::parse(out)["sound"], true);

  std::filesystem::remove(copy + "/sluice/CURRENT");
  EXPECT_EQ(command({"store", "check", copy}), 1);
  EXPECT_TRUE(said(err, "damage: ")) << err;
  EXPECT_TRUE(said(err, "sluice store repair DIR")) << err;
  EXPECT_EQ(command({"store", "dump", copy}), 1);
  EXPECT_EQ(command({"store", "repair", copy}), 1);
  EXPECT_TRUE(said(out, "can be served again, 3 counters")) << out << err;
  EXPECT_EQ(command({"store", "check", copy}), 0) << err;
  EXPECT_EQ(command({"store", "repair", copy}), 0) << err;
  EXPECT_TRUE(said(out, "nothing was damaged, 3 counters")) << out;
}

TEST_F(StoreCommand, AStoreInUseIsNotTouchedAndItsServerMakesTheCopy) {
  fill();
  const std::string dir = folder + "/data", copy = folder + "/copy";
  const auto journal = open();
  for (const char* tool : {"dump", "stats", "check", "repair"}) {
    EXPECT_EQ(command({"store", tool, dir}), 1);
    EXPECT_TRUE(said(err, "is in use by process " + std::to_string(::getpid()))) << err;
  }
  EXPECT_EQ(command({"store", "backup", dir, copy}), 1);
  EXPECT_TRUE(said(err, "is in use by process")) << err;
  const auto socket = admin::BackupSocket::open(
      dir, [&](const std::string& target) { return journal->backup(target); });
  ASSERT_TRUE(socket) << socket.problem().text;
  EXPECT_EQ(command({"store", "backup", dir, copy}), 0) << err;
  EXPECT_TRUE(said(out, copy + ": a copy of ")) << out;
  EXPECT_EQ(command({"store", "backup", dir, copy}), 1);
  EXPECT_TRUE(said(err, "is there already")) << err;
  EXPECT_EQ(command({"store", "check", copy}), 0) << err;
  EXPECT_TRUE(said(out, "1 block in the log with 3 counters")) << out;
}

}  // namespace
}  // namespace sluice::cli
