// What holds are, as the journal keeps it beside the counters: each in its commit, over starts,
// snapshots and disks that fail; and not among the texts of operators.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "store/log/folder.h"
#include "store/log/folder_test.h"
#include "store/log/log_journal.h"
#include "tests/support/dice.h"

namespace sluice::disk::notes_test {
namespace {

using Map = std::map<std::string, std::string>;

class NotesTest : public testing::Test {
 protected:
  std::unique_ptr<LogJournal> open(const LogSizes& sizes = {}) {
    JournalOptions options;
    options.path = data;
    options.now = [] { return base::Time{}; };
    spaces = std::make_unique<request::Spaces>();
    auto journal = std::make_unique<LogJournal>(std::move(options), *spaces, sizes);
    std::string problem;
    EXPECT_TRUE(succeeds(journal->open(), problem)) << problem;
    return journal;
  }
  static Map notes_of(LogJournal& journal) {
    Map all;
    std::string problem;
    EXPECT_TRUE(succeeds(journal.read_notes([&](std::string_view name, std::string_view text) {
      EXPECT_TRUE(all.empty() || name > all.rbegin()->first);
      all.emplace(name, text);
    }),
                         problem))
        << problem;
    return all;
  }
  static size_t texts_of(LogJournal& journal) {
    size_t count = 0;
    EXPECT_TRUE(journal.read([&](std::string_view, std::string_view) { ++count; }));
    return count;
  }
  static void commit(LogJournal& journal) {
    std::string problem;
    EXPECT_TRUE(succeeds(journal.commit(), problem)) << problem;
    EXPECT_EQ(journal.pending(), 0u);
  }

  Folder folder;
  const std::string data = folder / "data";
  std::unique_ptr<request::Spaces> spaces;
};

TEST_F(NotesTest, AreThereAfterAStartAndNotAmongTheTexts) {
  {
    const auto journal = open();
    const std::string one = "one", other = "other", last = std::string("z\0z", 3);
    journal->add_note("\1user\0id", &one);
    journal->add_note("\1b", &other);
    EXPECT_EQ(journal->pending(), 2u);
    commit(*journal);
    journal->add_note("\1b", nullptr);
    journal->add_note("\2counter", &other);
    journal->add_note("\2counter", &last);
    commit(*journal);
    journal->add_note("\1never", &one);  // not committed
    EXPECT_TRUE(journal->metadata()->write(
        std::vector<store::MetadataStore::Change>{{.name = "override", .text = "{}"}}));
  }
  const auto journal = open();
  EXPECT_EQ(notes_of(*journal), (Map{{"\1user", "one"}, {"\2counter", std::string("z\0z", 3)}}));
  EXPECT_EQ(texts_of(*journal), 1u);
}

// Against a map, with starts and snapshots between the commits; some commits have counters as well.
TEST_F(NotesTest, OutliveSnapshots) {
  for (uint32_t seed = 1; seed <= 5; ++seed) {
    tests::Dice dice(seed);
    Map expected;
    std::optional<Folder> own(std::in_place);
    const auto path = *own / "data";
    for (int round = 0; round < 12; ++round) {
      request::Spaces its_spaces;
      JournalOptions options;
      options.path = path;
      options.now = [] { return base::Time{}; };
      const bool snapshots = dice(3) > 0;
      const LogSizes sizes{.log_bytes = snapshots ? 2'000u : 1'000'000u, .logs = 3};
      LogJournal journal(std::move(options), its_spaces, sizes);
      std::string problem;
      ASSERT_TRUE(succeeds(journal.open(), problem)) << problem;
      ASSERT_EQ(notes_of(journal), expected) << seed << " " << round;
      const request::Space* const space = its_spaces.intern("t:", "");
      const limit::Limit limit{limit::Algorithm::fixed_window, 10, base::seconds(60)};
      const uint32_t list = its_spaces.intern_limits({&limit, 1});
      const limit::State cell{INT64_MAX, 3};
      const KeptByKey table{{{space, "k"}, {{cell}, list, INT64_MAX}}};
      if (snapshots) journal.all_is_loaded(table_of(table));
      for (int i = dice(20); i > 0; --i) {
        if (dice(2) == 0) journal.add({space, list, "k", {&cell, 1}, INT64_MAX});
        for (int j = dice(6); j > 0; --j) {
          const std::string name = (dice(2) == 0 ? "\1" : "\2") + std::to_string(dice(30));
          const std::string text(static_cast<size_t>(dice(200)), static_cast<char>('a' + dice(26)));
          const bool is_there = dice(3) > 0;
          journal.add_note(name, is_there ? &text : nullptr);
          if (is_there)
            expected[name] = text;
          else
            expected.erase(name);
        }
        commit(journal);
      }
    }
  }
}

TEST_F(NotesTest, OfACommitThatFailedAreInTheNextOne) {
  const pid_t child = ::fork();
  if (child == 0) {
    const auto journal = open();
    const std::string long_text(200'000, 'x'), one = "one";
    journal->add_note("\1a", &one);
    commit(*journal);
    limit_files(100'000);
    journal->add_note("\1b", &long_text);
    const bool failed = !journal->commit();
    // It is settled meanwhile, and shorter.
    journal->add_note("\1b", &one);
    const bool done = static_cast<bool>(journal->commit());
    ::_exit(failed && done && !HasFailure() ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  const auto journal = open();
  EXPECT_EQ(notes_of(*journal), (Map{{"\1a", "one"}, {"\1b", "one"}}));
}

// Of a commit of which the end is missing nothing counts.
TEST_F(NotesTest, OfACommitThatWasCutOffAreNotThere) {
  const std::string large(700'000, 'x'), one = "one";
  std::string log;
  {
    const auto journal = open();
    journal->add_note("\1a", &one);
    commit(*journal);
    journal->add_note("\1a", nullptr);
    for (const char* name : {"\1b", "\1c", "\1d", "\1e"}) journal->add_note(name, &large);
    commit(*journal);
    log = log_of(data, numbers_of(data, log_kind)->back());
    // The process ends without closing the log.
    std::filesystem::copy_file(log, folder / "copy");
  }
  std::filesystem::copy_file(folder / "copy", log,
                             std::filesystem::copy_options::overwrite_existing);
  EXPECT_EQ(notes_of(*open()).size(), 4u);
  std::filesystem::copy_file(folder / "copy", log,
                             std::filesystem::copy_options::overwrite_existing);
  std::filesystem::resize_file(log, std::filesystem::file_size(log) - 10);
  EXPECT_EQ(notes_of(*open()), (Map{{"\1a", "one"}}));
}

}  // namespace
}  // namespace sluice::disk::notes_test
