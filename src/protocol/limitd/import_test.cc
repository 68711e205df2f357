// `sluice store import-limitd`: buckets from databases that the test writes as limitd does, and the
// counters that the store has then.
#include "protocol/limitd/import.h"

#include <gtest/gtest.h>
#include <leveldb/db.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "cli/command_test.h"
#include "limit/decide.h"
#include "store/log/folder_test.h"
#include "store/log/tools.h"

namespace sluice::limitd {
namespace {

using limit::Algorithm;
using limit::Limit;

constexpr int64_t now_us = 1'700'000'000'000'000;

class ImportTest : public testing::Test {
 protected:
  ImportTest() {
    request::Space like;
    like.carry = limit::CarryOver::left;
    like.keep_fresh_for = base::seconds(120);
    user = spaces.intern("limitd:user:", "", like);
    fixed = spaces.intern("limitd:fixed:", "", like);
  }
  // Writes a database as limitd does.
  void write(const std::vector<std::pair<std::string, std::string>>& entries) {
    leveldb::DB* opened = nullptr;
    leveldb::Options options;
    options.create_if_missing = true;
    ASSERT_TRUE(leveldb::DB::Open(options, folder.path(), &opened).ok());
    const std::unique_ptr<leveldb::DB> db(opened);
    for (const auto& [key, value] : entries) ASSERT_TRUE(db->Put({}, key, value).ok());
  }
  static std::string key_of(const std::string& type, const std::string& key) {
    return "\xc3\xbf" + type + "\xc3\xbf" + key;
  }
  bool import(ImportReport& report) {
    const auto to_counter = [&](std::string_view type,
                                std::string_view key) -> std::optional<BucketCounter> {
      if (type == "user")
        return BucketCounter{user, spaces.intern_limits({&refills, 1}), refills, key};
      if (type == "fixed")
        return BucketCounter{fixed, spaces.intern_limits({&stays, 1}), stays, key};
      return std::nullopt;
    };
    return succeeds(import_buckets(folder.path(), base::Time{now_us}, spaces, to_counter), report,
                    problem);
  }
  std::string contents() const {
    std::map<std::string, std::string> all;
    for (const auto& at : std::filesystem::directory_iterator(folder.path())) {
      if (!at.is_regular_file() || at.path().filename() == "sluice.lock") continue;
      std::ostringstream text;
      text << std::ifstream(at.path(), std::ios::binary).rdbuf();
      all[at.path().filename()] = text.str();
    }
    std::string text;
    for (const auto& [name, bytes] : all) text += name + "=" + bytes + "\n";
    return text;
  }

  disk::KeptByKey dumped() {
    disk::KeptByKey all;
    const auto add = [&](const request::CounterRecord& record) {
      EXPECT_TRUE(
          all.emplace(std::pair(record.space, std::string(record.key)), disk::kept_of(record))
              .second);
    };
    EXPECT_TRUE(succeeds(disk::dump(folder.path(), spaces, add), problem)) << problem;
    return all;
  }
  // Opens a store in the folder of the database, which makes its files.
  void open_store() {
    disk::JournalOptions options;
    options.path = folder.path();
    options.now = [] { return base::Time{now_us}; };
    std::unique_ptr<disk::Journal> unused;
    ASSERT_TRUE(succeeds(disk::Journal::open(std::move(options), spaces), unused, problem))
        << problem;
  }

  disk::Folder folder;
  request::Spaces spaces;
  std::string problem;
  const request::Space *user = nullptr, *fixed = nullptr;
  const Limit refills{Algorithm::token_bucket, 2, base::seconds(1), 10};
  const Limit stays{Algorithm::fixed_bucket, 5, {}, 5};
};

TEST_F(ImportTest, ImportsBucketsWithTheirContent) {
  const auto ms = [](int64_t ago) { return std::to_string(now_us / 1000 - ago); };
  write({{key_of("user", "empty"), "{\"lastDrip\":" + ms(0) + ",\"content\":0,\"size\":10}"},
         {key_of("user", "half"), "{\"lastDrip\":" + ms(1000) + ",\"content\":3.5,\"size\":10}"},
         {key_of("user", "full"), "{\"lastDrip\":" + ms(60'000) + ",\"content\":1,\"size\":10}"},
         {key_of("user", "larger"), "{\"lastDrip\":" + ms(0) + ",\"content\":77,\"size\":100}"},
         {key_of("fixed", "some"), "{\"content\":2,\"size\":5,\"reset\":0}"},
         {key_of("gone", "k"), "{\"lastDrip\":1,\"content\":2,\"size\":5}"},
         {key_of("ttl", "x1700000000000!" + key_of("user", "half")), key_of("user", "half")},
         {key_of("user", "bad"), "{\"content\":\"x\"}"},
         {"odd", "{}"}});
  const std::string before = contents();
  ImportReport report;
  ASSERT_TRUE(import(report)) << problem;
  EXPECT_EQ(contents(), before);
  EXPECT_EQ(report.imported, 3u);
  EXPECT_EQ(report.full, 2u);
  EXPECT_EQ(report.untyped, 1u);
  EXPECT_EQ(report.unreadable, 2u);
  EXPECT_EQ(report.there, 0u);

  const disk::KeptByKey all = dumped();
  ASSERT_EQ(all.size(), 3u);
  const auto left = [&](const request::Space* of, const std::string& key, const Limit& limit,
                        int64_t at_us) {
    const disk::Kept& its = all.at({of, key});
    return limit::peek(its.cells.data(), limit, {at_us}).remaining;
  };
  EXPECT_EQ(left(user, "empty", refills, now_us), 0);
  EXPECT_EQ(left(user, "empty", refills, now_us + 500'000), 1);
  // 3.5 units a second ago and 2 units per second make 5.5; the sixth is complete 250 ms later.
  EXPECT_EQ(left(user, "half", refills, now_us), 5);
  EXPECT_EQ(left(user, "half", refills, now_us + 249'999), 5);
  EXPECT_EQ(left(user, "half", refills, now_us + 250'000), 6);
  EXPECT_EQ(left(fixed, "some", stays, now_us), 2);
  EXPECT_EQ(all.at({user, "empty"}).forget_us, now_us + 125'000'000);
  EXPECT_EQ(all.at({fixed, "some"}).forget_us, INT64_MAX);

  // A second import keeps the counters that are in the store.
  ImportReport again;
  ASSERT_TRUE(import(again)) << problem;
  EXPECT_EQ(again.imported, 0u);
  EXPECT_EQ(again.there, 3u);
  EXPECT_EQ(dumped(), all);
}

TEST_F(ImportTest, ReportsADatabaseThatCannotBeImported) {
  ImportReport report;
  EXPECT_FALSE(import(report));
  EXPECT_NE(problem.find("there is no database of limitd in"), std::string::npos) << problem;
  write({{key_of("user", "k"), "{}"}});
  for (const auto& at : std::filesystem::directory_iterator(folder.path()))
    if (at.path().filename().string().starts_with("MANIFEST")) std::ofstream(at.path()) << "damage";
  EXPECT_FALSE(import(report));
  EXPECT_NE(problem.find("limitd's database in"), std::string::npos) << problem;
  EXPECT_NE(problem.find("cannot be read"), std::string::npos) << problem;
}

// A store can be opened in the folder of a database of limitd, and its files are not mistaken for
// one. A folder with an OPTIONS file has files of RocksDB, not of LevelDB.
TEST_F(ImportTest, AStoreAndADatabaseMayShareAFolder) {
  EXPECT_FALSE(has_database(folder.path()));
  open_store();
  EXPECT_FALSE(has_database(folder.path()));
  std::ofstream(folder / "CURRENT") << "MANIFEST-000001\n";
  EXPECT_TRUE(has_database(folder.path()));
  open_store();
  std::ofstream(folder / "OPTIONS-000007") << "RocksDB's\n";
  EXPECT_FALSE(has_database(folder.path()));
}

using ImportCommand = cli::CommandTest;

int64_t clock_us() {
  return std::chrono::duration_cast<std::chrono::microseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

TEST_F(ImportCommand, ImportsBuckets) {
  const std::string dir = folder_ + "/db";
  {
    leveldb::DB* opened = nullptr;
    leveldb::Options options;
    options.create_if_missing = true;
    ASSERT_TRUE(leveldb::DB::Open(options, dir, &opened).ok());
    const std::unique_ptr<leveldb::DB> db(opened);
    const auto put = [&](const std::string& type, const std::string& key, int content) {
      const std::string value = "{\"lastDrip\":" + std::to_string(clock_us() / 1000) +
                                ",\"content\":" + std::to_string(content) + ",\"size\":10}";
      ASSERT_TRUE(db->Put({}, "\xc3\xbf" + type + "\xc3\xbf" + key, value).ok());
    };
    put("user", "10.0.0.7", 4);
    put("user", "big", 4);
    put("gone", "k", 1);
  }
  const std::string config = folder_ + "/limitd.yaml";
  std::ofstream(config) << "db: /db\nbuckets:\n  user:\n    size: 10\n    per_day: 1\n"
                           "    override:\n      big: { size: 100, per_day: 1 }\n";
  EXPECT_EQ(command({"store", "import-limitd", "--config", config, dir}), 0) << err;
  EXPECT_EQ(out,
            "2 buckets imported\n1 bucket skipped: their types are not in the "
            "configuration\n");
  EXPECT_EQ(command({"store", "dump", dir}), 0) << err;
  EXPECT_TRUE(said(out, "\"prefix\":\"limitd:user:\",\"key\":\"10.0.0.7\"")) << out;
  EXPECT_TRUE(said(out, "4 of 10 left")) << out;
  EXPECT_TRUE(said(out, "4 of 100 left")) << out;
  EXPECT_EQ(command({"store", "import-limitd", "--json", "--config", config, dir}), 0) << err;
  EXPECT_EQ(nlohmann::json::parse(out)["there"], 2);
}

}  // namespace
}  // namespace sluice::limitd
