// The texts of a store (metadata): against a map, over kills, full disks and damage.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <map>
#include <sstream>
#include <thread>

#include "store/log/folder.h"
#include "store/log/folder_test.h"
#include "store/log/log_journal.h"
#include "store/log/tools.h"
#include "tests/support/dice.h"
#include "tests/support/environment.h"

namespace sluice::disk::texts_test {
namespace {

namespace fs = std::filesystem;
using Map = std::map<std::string, std::string>;
using Step = std::vector<std::pair<std::string, std::optional<std::string>>>;

constexpr const char* folder_variable = "SLUICE_TEXTS_FOLDER";
constexpr const char* round_variable = "SLUICE_TEXTS_ROUND";

base::Done write(store::MetadataStore& texts, const Step& step) {
  std::vector<store::MetadataStore::Change> changes;
  for (const auto& [name, text] : step) changes.push_back({name, text});
  auto result = texts.write(changes);
  if (!result) return std::move(result.problem);
  return {};
}
void take_over(const Step& step, Map& model) {
  for (const auto& [name, text] : step) {
    if (text)
      model[name] = *text;
    else
      model.erase(name);
  }
}
// What round `n` writes: random texts, some names more than once, and always its own number under
// `round`.
Step step_of(int64_t n) {
  tests::Dice dice(static_cast<uint32_t>(n));
  Step step;
  for (int i = dice(dice(4) == 0 ? 400 : 20); i > 0; --i) {
    const std::string name = "o-" + std::to_string(dice(2000));
    if (dice(4) == 0)
      step.emplace_back(name, std::nullopt);
    else
      step.emplace_back(name, std::to_string(n) + std::string(static_cast<size_t>(dice(400)), 'x'));
  }
  step.emplace_back("round", std::to_string(n));
  return step;
}

class TextsTest : public testing::Test {
 protected:
  std::unique_ptr<LogJournal> open(const std::string& path, bool sync = false) {
    problem.clear();
    JournalOptions options;
    options.path = path;
    options.sync = sync;
    options.now = [] { return base::Time{}; };
    spaces = std::make_unique<request::Spaces>();
    auto journal = std::make_unique<LogJournal>(std::move(options), *spaces);
    if (!succeeds(journal->open(), problem)) return nullptr;
    return journal;
  }
  Map read(store::MetadataStore& texts) {
    Map all;
    std::string last;
    const auto visit = [&](std::string_view name, std::string_view text) {
      EXPECT_TRUE(all.empty() || name > last);
      last = name;
      all.emplace(name, text);
    };
    EXPECT_TRUE(succeeds(texts.read(visit), problem)) << problem;
    return all;
  }
  Map stored(const std::string& path) {
    const auto journal = open(path);
    EXPECT_TRUE(journal) << problem;
    return journal ? read(*journal->metadata()) : Map{};
  }
  // Writes more rounds than a memory table holds.
  void fill(int64_t rounds) {
    const auto journal = open(data);
    ASSERT_TRUE(journal) << problem;
    for (int64_t n = 1; n <= rounds; ++n) {
      const Step step = step_of(n);
      ASSERT_TRUE(succeeds(write(*journal->metadata(), step), problem)) << problem;
      take_over(step, model);
    }
  }
  std::string last_log() { return log_of(data, numbers_of(data, log_kind)->back()); }
  // Of the logs the one that has the most.
  std::string largest_log() {
    std::string found;
    const auto numbers = numbers_of(data, log_kind);
    for (const uint64_t number : *numbers)
      if (found.empty() || fs::file_size(log_of(data, number)) > fs::file_size(found))
        found = log_of(data, number);
    return found;
  }
  void snapshot() {
    spaces = std::make_unique<request::Spaces>();
    JournalOptions options;
    options.path = data;
    options.now = [] { return base::Time{}; };
    LogJournal journal(std::move(options), *spaces, {.log_bytes = 1, .logs = 1});
    ASSERT_TRUE(succeeds(journal.open(), problem)) << problem;
    journal.all_is_loaded(table_of({}));
    ASSERT_TRUE(wait_for_snapshots(journal, 1));
  }
  void is_damaged(const std::string& what) {
    EXPECT_FALSE(open(data));
    for (const std::string& words :
         {std::string("is damaged: "), what, std::string("sluice store repair DIR")})
      EXPECT_NE(problem.find(words), std::string::npos) << problem;
    CheckReport report;
    ASSERT_TRUE(succeeds(check(data), report, problem)) << problem;
    ASSERT_FALSE(report.damages.empty());
    EXPECT_NE(report.damages[0].find(what), std::string::npos) << report.damages[0];
  }
  Map after_repair() {
    RepairReport report;
    EXPECT_TRUE(succeeds(repair(data), report, problem)) << problem;
    EXPECT_FALSE(report.damages.empty());
    CheckReport after;
    EXPECT_TRUE(succeeds(check(data), after, problem)) << problem;
    EXPECT_TRUE(after.damages.empty()) << after.damages[0];
    EXPECT_EQ(after.texts, report.texts);
    Map all = stored(data);
    EXPECT_EQ(all.size(), report.texts);
    return all;
  }

  Folder folder;
  const std::string data = folder / "data";
  std::unique_ptr<request::Spaces> spaces;
  Map model;
  std::string problem;
};

TEST_F(TextsTest, ReadsTheLastWrittenValues) {
  tests::Dice dice(3);
  int64_t n = 0;
  for (int opening = 0; opening < 6; ++opening) {
    const auto journal = open(data, opening % 2 == 0);
    ASSERT_TRUE(journal) << problem;
    ASSERT_EQ(read(*journal->metadata()), model);
    for (int i = dice(200); i > 0; --i) {
      const Step step = step_of(++n);
      ASSERT_TRUE(succeeds(write(*journal->metadata(), step), problem)) << problem;
      take_over(step, model);
    }
    ASSERT_EQ(read(*journal->metadata()), model);
  }
  // Names and texts of any bytes, and an empty text.
  {
    const auto journal = open(data);
    const Step step{
        {std::string("\0\xff|", 3), std::string("\n\0", 2)}, {"empty", ""}, {"gone", {}}};
    ASSERT_TRUE(succeeds(write(*journal->metadata(), step), problem)) << problem;
    take_over(step, model);
    ASSERT_TRUE(succeeds(write(*journal->metadata(), {}), problem)) << problem;
  }
  EXPECT_EQ(stored(data), model);
}

TEST_F(TextsTest, ToolsCheckRepairAndCopyThem) {
  fill(300);
  StoreStats numbers;
  ASSERT_TRUE(succeeds(stats(data), numbers, problem)) << problem;
  EXPECT_EQ(numbers.texts, model.size());
  EXPECT_EQ(numbers.format, format_number);
  CheckReport report;
  ASSERT_TRUE(succeeds(check(data), report, problem)) << problem;
  EXPECT_TRUE(report.damages.empty());
  EXPECT_EQ(report.texts, model.size());
  Map dumped;
  request::Spaces unused;
  const auto add = [&](std::string_view name, std::string_view text) {
    dumped.emplace(name, text);
  };
  const auto none = [](const Record&) { ADD_FAILURE(); };
  ASSERT_TRUE(succeeds(dump(data, unused, none, add), problem)) << problem;
  EXPECT_EQ(dumped, model);
  RepairReport repaired;
  ASSERT_TRUE(succeeds(repair(data), repaired, problem)) << problem;
  EXPECT_TRUE(repaired.damages.empty()) << repaired.damages[0];
  EXPECT_EQ(repaired.texts, model.size());
  ASSERT_TRUE(succeeds(backup(data, folder / "copy"), problem)) << problem;
  EXPECT_EQ(stored(folder / "copy"), model);
  EXPECT_EQ(stored(data), model);
}

// Copies that are made while another thread writes.
TEST_F(TextsTest, ABackupHoldsWholeWrites) {
  fill(5);
  const auto journal = open(data);
  ASSERT_TRUE(journal) << problem;
  std::atomic<bool> stop{false};
  std::atomic<int64_t> done{5};
  std::thread writer([&] {
    for (int64_t n = 6; !stop; ++n) {
      if (!write(*journal->metadata(), step_of(n))) break;
      done = n;
    }
  });
  for (int i = 0; i < 5; ++i) {
    const std::string copy = folder / ("copy" + std::to_string(i));
    const int64_t before = done;
    ASSERT_TRUE(succeeds(journal->backup(copy), problem)) << problem;
    request::Spaces others;
    JournalOptions options;
    options.path = copy;
    options.now = [] { return base::Time{}; };
    LogJournal copied(std::move(options), others);
    ASSERT_TRUE(succeeds(copied.open(), problem)) << problem;
    const Map all = read(copied);
    const int64_t reached = std::atoll(all.at("round").c_str());
    EXPECT_GE(reached, before);
    Map expected;
    for (int64_t n = 1; n <= reached; ++n) take_over(step_of(n), expected);
    ASSERT_EQ(all, expected);
  }
  stop = true;
  writer.join();
}

// They are taken over by each snapshot, also those that are written meanwhile.
TEST_F(TextsTest, SnapshotsHaveThem) {
  int64_t n = 0;
  for (int life = 0; life < 4; ++life) {
    spaces = std::make_unique<request::Spaces>();
    JournalOptions options;
    options.path = data;
    options.now = [] { return base::Time{}; };
    LogJournal journal(std::move(options), *spaces, {.log_bytes = 10'000, .logs = 2});
    ASSERT_TRUE(succeeds(journal.open(), problem)) << problem;
    ASSERT_EQ(read(journal), model);
    journal.all_is_loaded(table_of({}));
    for (int i = 0; i < 200; ++i) {
      const Step step = step_of(++n);
      ASSERT_TRUE(succeeds(write(journal, step), problem)) << problem;
      take_over(step, model);
      if (i % 50 == 0) {
        ASSERT_EQ(read(journal), model);
      }
    }
    ASSERT_EQ(read(journal), model);
    ASSERT_TRUE(wait_for_snapshots(journal, 1));
  }
  EXPECT_EQ(stored(data), model);
}

TEST_F(TextsTest, FindsAndRepairsDamage) {
  fill(300);
  const std::string log = largest_log();
  // Damage in the middle of a log: one write is lost.
  turn_bit(log, fs::file_size(log) / 2);
  is_damaged("is not as it was written");
  const Map all = after_repair();
  EXPECT_NE(all, model);
  EXPECT_GT(all.size(), model.size() - 500);
  fs::remove_all(data + "/sluice.damaged");

  snapshot();
  turn_bit(snapshot_of(data, numbers_of(data, snapshot_kind)->back()), 300);
  CheckReport report;
  ASSERT_TRUE(succeeds(check(data), report, problem)) << problem;
  ASSERT_FALSE(report.damages.empty());
  {
    const auto journal = open(data);
    const auto ignore = [](std::string_view, std::string_view) {};
    EXPECT_FALSE(journal && succeeds(journal->metadata()->read(ignore), problem));
    EXPECT_NE(problem.find("is damaged: "), std::string::npos) << problem;
    EXPECT_NE(problem.find("sluice store repair DIR"), std::string::npos) << problem;
  }
  EXPECT_LT(after_repair().size(), all.size());
}

// The end of a log may be missing after a power cut: the whole writes before it count.
TEST_F(TextsTest, ALogThatIsCutHoldsWholeWrites) {
  fill(8);
  const std::string log = last_log();
  fs::resize_file(log, fs::file_size(log) - block_head_bytes - 3);  // with its end
  Map expected;
  for (int64_t n = 1; n < 8; ++n) take_over(step_of(n), expected);
  EXPECT_EQ(stored(data), expected);
}

// A failed write has no effect, although a part or all of it may be in the log.
TEST_F(TextsTest, AWriteThatFailsChangesNothing) {
  auto journal = open(data);
  int64_t n = 0;
  const auto write_one = [&] {
    const Step step = step_of(++n);
    const bool done = succeeds(write(*journal->metadata(), step), problem);
    if (done) take_over(step, model);
    return done;
  };
  for (; n < 10;) ASSERT_TRUE(write_one()) << problem;
  for (int trouble = 0; trouble < 4; ++trouble) {
    limit_files(static_cast<rlim_t>(4096 * (trouble + 1)));
    int failures = 0;
    for (int i = 0; i < 20; ++i) failures += write_one() ? 0 : 1;
    EXPECT_GT(failures, 9);
    EXPECT_NE(problem.find("File too large"), std::string::npos) << problem;
    EXPECT_NE(problem.find(store_of(data)), std::string::npos) << problem;
    limit_files(RLIM_INFINITY);
    ASSERT_TRUE(write_one()) << problem;
    ASSERT_EQ(read(*journal->metadata()), model);
    if (trouble % 2 == 0) continue;
    journal.reset();
    journal = open(data);
    ASSERT_TRUE(journal) << problem;
    ASSERT_EQ(read(*journal->metadata()), model);
  }
}

// That also holds after a stop and in a copy, if no later write succeeded.
TEST_F(TextsTest, AFailedWriteIsNeitherInTheStoreNorInABackup) {
  fill(10);
  for (const bool copies : {false, true}) {
    auto journal = open(data);
    ASSERT_TRUE(journal) << problem;
    limit_files(4096);
    int failures = 0;
    for (int64_t n = 11; n < 31; ++n) {
      const Step step = step_of(n);
      if (succeeds(write(*journal->metadata(), step), problem))
        take_over(step, model);
      else
        ++failures;
    }
    EXPECT_GT(failures, 9);
    limit_files(RLIM_INFINITY);
    if (copies) {
      const std::string copy = folder / "copy";
      ASSERT_TRUE(succeeds(journal->backup(copy), problem)) << problem;
      EXPECT_EQ(stored(copy), model);
      journal.reset();
    }
    journal.reset();
    EXPECT_EQ(stored(data), model);
  }
}

// Not a test: the child process that the next test starts and kills. It writes one line for each
// written round.
TEST(TextsCrash, DISABLED_Child) {
  const char* const folder = std::getenv(folder_variable);
  const char* const first = std::getenv(round_variable);
  if (folder == nullptr || first == nullptr) GTEST_SKIP();
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  request::Spaces spaces;
  JournalOptions options;
  options.path = folder;
  options.now = [] { return base::Time{}; };
  LogJournal journal(std::move(options), spaces);
  std::string problem;
  ASSERT_TRUE(succeeds(journal.open(), problem)) << problem;
  for (int64_t n = std::atoll(first);; ++n) {
    ASSERT_TRUE(succeeds(write(*journal.metadata(), step_of(n)), problem)) << problem;
    const std::string line = "written " + std::to_string(n) + "\n";
    if (::write(3, line.data(), line.size()) < 0) return;
  }
}

int64_t run_and_kill(const std::string& folder, int64_t first, int after_ms) {
  int pipe[2];
  if (::pipe(pipe) != 0) return 0;
  ::setenv(folder_variable, folder.c_str(), 1);
  ::setenv(round_variable, std::to_string(first).c_str(), 1);
  const pid_t child = ::fork();
  if (child == 0) {
    ::dup2(pipe[1], 3);
    if (pipe[0] != 3) ::close(pipe[0]);
    ::execl("/proc/self/exe", "store_log_test", "--gtest_filter=TextsCrash.DISABLED_Child",
            "--gtest_also_run_disabled_tests", "--gtest_brief=1", nullptr);
    ::_exit(127);
  }
  ::close(pipe[1]);
  std::string said;
  char bytes[4096];
  std::thread killer;
  for (ssize_t got; (got = ::read(pipe[0], bytes, sizeof bytes)) > 0;) {
    said.append(bytes, static_cast<size_t>(got));
    if (killer.joinable()) continue;
    killer = std::thread([child, after_ms] {
      std::this_thread::sleep_for(std::chrono::microseconds(after_ms * 1000 + 137));
      ::kill(child, SIGKILL);
    });
  }
  if (killer.joinable()) killer.join();
  int status = 0;
  ::waitpid(child, &status, 0);
  ::close(pipe[0]);
  EXPECT_TRUE(WIFSIGNALED(status)) << status;
  const size_t end = said.rfind('\n');
  const size_t at = said.rfind("written ", end);
  if (end == std::string::npos || at == std::string::npos) return 0;
  return std::atoll(said.c_str() + at + 8);
}

TEST_F(TextsTest, AKillLosesNothingThatWasWritten) {
  tests::Dice dice(17);
  int64_t done = 0;
  const int crashes = tests::number_from_environment("SLUICE_CRASHES", 8);
  for (int crash = 0; crash < crashes; ++crash) {
    const int64_t told = run_and_kill(data, done + 1, dice(dice(2) == 0 ? 20 : 400));
    ASSERT_GT(told, done);
    for (; done < told; ++done) take_over(step_of(done + 1), model);
    const Map all = stored(data);
    const int64_t reached = std::atoll(all.at("round").c_str());
    ASSERT_TRUE(reached == told || reached == told + 1) << reached << " " << told;
    for (; done < reached; ++done) take_over(step_of(done + 1), model);
    ASSERT_EQ(all, model) << "crash " << crash;
  }
}

}  // namespace
}  // namespace sluice::disk::texts_test
