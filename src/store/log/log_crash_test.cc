// A store over crashes: a disk that loses what was not synced, in any part; that fails at any call;
// and single bits that turn. What a start finds is compared with what was committed.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "store/log/folder_test.h"
#include "store/log/log_journal.h"
#include "store/log/tools.h"
#include "tests/support/dice.h"
#include "tests/support/environment.h"

namespace sluice::disk::crash_test {
namespace {

namespace fs = std::filesystem;
using limit::Algorithm;
using limit::Limit;
using limit::State;

constexpr int64_t now_us = 1'700'000'000'000'000;
constexpr size_t page = 512;

// Files of a folder that remembers what of them is on the medium, and can fail.
class Medium final : public Files {
 public:
  explicit Medium(std::string root) : root_(std::move(root)) {}

  int open(const std::string& path, int flags) override {
    const std::lock_guard lock(mutex_);
    if ((flags & O_ACCMODE) != O_RDONLY && fails()) return -1;
    const bool is_new = ::access(path.c_str(), F_OK) != 0;
    const int fd = Files::open(path, flags);
    if (fd < 0) return fd;
    if (is_new || (flags & O_TRUNC) != 0) {
      paths_[fd] = path;
      files_[path] = std::make_shared<Content>();
      changes_.push_back({path, files_[path]});
    } else {
      if (!files_.contains(path)) {
        // It was there before all of this.
        files_[path] = std::make_shared<Content>();
        files_[path]->now = text_of(path);
        files_[path]->synced = files_[path]->now;
        changes_.push_back({path, files_[path]});
      }
      paths_[fd] = path;
    }
    open_[fd] = files_[path];
    return fd;
  }
  void close(int fd) override {
    const std::lock_guard lock(mutex_);
    open_.erase(fd);
    Files::close(fd);
  }
  bool write(int fd, std::span<const std::string_view> parts, uint64_t at) override {
    const std::lock_guard lock(mutex_);
    std::string all;
    for (const std::string_view part : parts) all += part;
    // One that fails may have written a part, but none of a few bytes.
    const bool failed = fails();
    if (failed) all.resize(all.size() < 64 ? 0 : all.size() / 2);
    const std::string_view part = all;
    if (!Files::write(fd, {&part, 1}, at)) return false;
    Content& content = *open_.at(fd);
    if (content.now.size() < at + all.size()) content.now.resize(at + all.size());
    content.now.replace(at, all.size(), all);
    content.writes.push_back({at, all});
    if (failed) errno = ENOSPC;
    return !failed;
  }
  bool cut(int fd, uint64_t bytes) override {
    const std::lock_guard lock(mutex_);
    if (fails()) return false;
    Content& content = *open_.at(fd);
    content.now.resize(bytes);
    content.writes.push_back({bytes, std::nullopt});
    return Files::cut(fd, bytes);
  }
  void reserve(int fd, uint64_t at, uint64_t bytes) override {
    const std::lock_guard lock(mutex_);
    Files::reserve(fd, at, bytes);
    Content& content = *open_.at(fd);
    if (content.now.size() < at + bytes) {
      content.now.resize(at + bytes);
      content.writes.push_back({at + bytes, std::nullopt});
    }
  }
  bool sync(int fd) override {
    const std::lock_guard lock(mutex_);
    Content& content = *open_.at(fd);
    if (fails()) {
      // What it had is thrown away, and a later success says nothing of it.
      content.lost = content.synced;
      content.writes.clear();
      return false;
    }
    if (content.lost) return true;
    content.synced = content.now;
    content.writes.clear();
    return true;
  }
  bool sync_folder(const std::string& path) override {
    const std::lock_guard lock(mutex_);
    if (fails()) return false;
    std::vector<Change> rest;
    for (Change& change : changes_) {
      if (change.path.substr(0, change.path.rfind('/')) == path)
        apply(change, names_);
      else
        rest.push_back(std::move(change));
    }
    changes_ = std::move(rest);
    return true;
  }
  bool rename(const std::string& from, const std::string& to) override {
    const std::lock_guard lock(mutex_);
    if (fails()) return false;
    if (!Files::rename(from, to)) return false;
    if (fs::is_directory(to)) {
      // The store itself, which is made whole before.
      std::map<std::string, std::shared_ptr<Content>> moved;
      for (auto& [path, content] : files_)
        moved[path.starts_with(from) ? to + path.substr(from.size()) : path] = content;
      files_ = moved;
      names_.clear();
      changes_.clear();
      for (auto& [path, content] : files_) {
        content->synced = content->now;
        content->writes.clear();
        names_[path] = content;
      }
      return true;
    }
    files_[to] = files_.at(from);
    files_.erase(from);
    changes_.push_back({to, files_[to], from});
    return true;
  }
  bool remove(const std::string& path) override {
    const std::lock_guard lock(mutex_);
    if (fails()) return false;
    if (!Files::remove(path)) return false;
    files_.erase(path);
    changes_.push_back({path, nullptr});
    return true;
  }

  // From the `after`-th call that changes something on, `count` of them fail.
  void fail(int after, int count) {
    const std::lock_guard lock(mutex_);
    calls_ = 0;
    fail_from_ = after;
    fail_to_ = after + count;
  }
  int calls() const { return calls_; }

  // What the medium has after a power cut now, as a folder: what was synced, and of the rest
  // whatever `take` says: of the names, so many of the last changes in order; of each sector, so
  // many of the writes to it.
  template <class Take>
  void cut_power(const std::string& to, const Take& take) {
    const std::lock_guard lock(mutex_);
    auto names = names_;
    for (const Change& change : changes_) {
      if (!take()) break;
      apply(change, names);
    }
    fs::remove_all(to);
    fs::create_directories(to + "/sluice");
    for (const auto& [path, content] : names) {
      std::string bytes = content->lost ? *content->lost : content->synced;
      std::set<size_t> older;  // sectors that have no more of the later writes
      for (const auto& [at, text] : content->writes) {
        if (content->lost) break;
        if (!text) {
          if (take()) bytes.resize(at);
          continue;
        }
        for (size_t from = 0; from < text->size();) {
          const size_t sector = (at + from) / page;
          const size_t size = std::min(text->size() - from, page - (at + from) % page);
          if (!older.contains(sector) && take()) {
            if (bytes.size() < at + from + size) bytes.resize(at + from + size);
            bytes.replace(at + from, size, text->substr(from, size));
          } else {
            older.insert(sector);
          }
          from += size;
        }
      }
      std::ofstream(to + path.substr(root_.size()), std::ios::binary) << bytes;
    }
  }
  // How many choices `cut_power` has.
  size_t choices() {
    size_t count = 0;
    const Folder unused{true};
    cut_power(unused / "data", [&] {
      ++count;
      return true;
    });
    return count;
  }

 private:
  struct Content {
    std::string now, synced;
    std::optional<std::string> lost;  // a sync failed: no more than this is on the medium
    std::vector<std::pair<uint64_t, std::optional<std::string>>> writes;  // nothing: it is cut
  };
  struct Change {
    std::string path;
    std::shared_ptr<Content> content;  // null: it is gone
    std::string from = {};             // it had that name
  };

  static std::string text_of(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  static void apply(const Change& change, std::map<std::string, std::shared_ptr<Content>>& names) {
    if (change.content == nullptr)
      names.erase(change.path);
    else
      names[change.path] = change.content;
    if (!change.from.empty()) names.erase(change.from);
  }
  bool fails() {
    ++calls_;
    if (calls_ <= fail_from_ || calls_ > fail_to_) return false;
    errno = ENOSPC;
    return true;
  }

  const std::string root_;
  std::mutex mutex_;
  std::map<int, std::string> paths_;
  std::map<std::string, std::shared_ptr<Content>> files_, names_;  // now; on the medium
  std::map<int, std::shared_ptr<Content>> open_;
  std::vector<Change> changes_;  // of names, that are not on the medium
  int calls_ = 0, fail_from_ = 0, fail_to_ = 0;
};

// The state of each counter by its key, and of each text: units, or none.
struct Model {
  std::map<std::string, int64_t> counters;
  std::map<std::string, std::string> texts;
  friend bool operator==(const Model&, const Model&) = default;
};

class CrashTest : public testing::Test {
 protected:
  std::unique_ptr<LogJournal> open(const std::string& path, bool sync, const LogSizes& sizes,
                                   Files& files = system_files()) {
    names();
    JournalOptions options;
    options.path = path;
    options.sync = sync;
    options.now = [] { return base::Time{now_us}; };
    auto journal = std::make_unique<LogJournal>(std::move(options), *spaces, sizes, files);
    if (!succeeds(journal->open(), problem)) return nullptr;
    return journal;
  }
  void names() {
    spaces = std::make_unique<request::Spaces>();
    space = spaces->intern("k:", "");
    limits_id = spaces->intern_limits(
        std::vector<Limit>{{Algorithm::fixed_window, 1000, base::seconds(60), 0}});
  }
  void add(Journal& journal, const std::string& key, int64_t units) {
    const State cell{now_us + 1, units};
    journal.add({space, limits_id, key, {&cell, units == 0 ? 0u : 1u}, INT64_MAX});
  }
  // What a start finds; nothing: it does not start.
  std::optional<Model> found(const std::string& path, bool sync = false) {
    request::Spaces its_spaces;
    JournalOptions options;
    options.path = path;
    options.sync = sync;
    options.now = [] { return base::Time{now_us}; };
    LogJournal journal(std::move(options), its_spaces);
    KeptByKey all;
    if (!succeeds(journal.open(), problem) || !succeeds(read_all(journal, all), problem))
      return std::nullopt;
    Model model;
    for (const auto& [key, its] : all) {
      EXPECT_EQ(key.first->prefix, "k:");
      model.counters[key.second] = its.cells.at(0).units;
    }
    const auto add_text = [&](std::string_view name, std::string_view text) {
      model.texts.emplace(name, text);
    };
    if (!succeeds(journal.read(add_text), problem)) return std::nullopt;
    return model;
  }

  const Folder folder{true};
  std::unique_ptr<request::Spaces> spaces;
  const request::Space* space = nullptr;
  uint32_t limits_id = 0;
  std::string problem;
};

// The history of a store: each state that a crash may leave.
struct History {
  std::vector<Model> states{1};  // after each commit or text, the first is empty
  size_t sure = 0;               // none before this may be found: it was promised

  bool allows(const Model& found) const {
    for (size_t i = sure; i < states.size(); ++i)
      if (states[i] == found) return true;
    return false;
  }
};

// One random life of a store on a medium that may lose what is not synced and fail for a while. At
// each step the power may go: what is found then is a state of the history, with sync not before
// the last promise.
TEST_F(CrashTest, APowerCutLeavesWhatWasPromised) {
  const int lives = tests::number_from_environment("SLUICE_POWER_CUTS", 12);
  for (int life = 0; life < lives; ++life) {
    SCOPED_TRACE(life);
    tests::Dice dice(static_cast<uint32_t>(1000 + life));
    const bool sync = dice(3) != 0;
    const std::string data = folder / ("data" + std::to_string(life));
    Medium medium(data);
    const LogSizes sizes{.log_bytes = uint64_t{200} << dice(4), .logs = size_t(2 + dice(3))};
    History history;
    std::mutex mutex;  // of the model, which the snapshot's thread reads
    Model model, pending;
    KeptByKey table;
    auto journal = open(data, sync, sizes, medium);
    ASSERT_TRUE(journal) << problem;
    journal->all_is_loaded({.counters = [] { return uint64_t{10}; },
                            .walk =
                                [&](const auto& visit) {
                                  const std::lock_guard lock(mutex);
                                  return table_of(table).walk(visit);
                                }});
    for (int step = 0; step < 40; ++step) {
      const int what = dice(20);
      if (what < 12) {
        const std::lock_guard lock(mutex);
        for (int n = 1 + dice(3); n > 0; --n) {
          const std::string key(1 + static_cast<size_t>(dice(3)) * 300,
                                static_cast<char>('a' + dice(6)));
          const int64_t units = dice(5);
          add(*journal, key, units);
          pending.counters[key] = units;
        }
        const bool done = succeeds(journal->commit(), problem);
        // Also one that failed may be found, unless something else was promised since.
        Model next = model;
        for (const auto& [key, units] : pending.counters) {
          if (units == 0)
            next.counters.erase(key);
          else
            next.counters[key] = units;
        }
        history.states.push_back(next);
        if (done) {
          model = next;
          pending.counters.clear();
          table.clear();
          for (const auto& [key, units] : model.counters)
            table[{space, key}] = {{{now_us + 1, units}}, limits_id, INT64_MAX};
          if (sync) history.sure = history.states.size() - 1;
        }
      } else if (what < 15) {
        const std::string name(1, static_cast<char>('a' + dice(4)));
        std::optional<std::string> text;
        if (dice(3) > 0) text = std::to_string(step);
        const store::MetadataStore::Change change{name, text};
        Model next = model;
        if (text)
          next.texts[name] = *text;
        else
          next.texts.erase(name);
        const auto written = journal->write({&change, 1});
        history.states.push_back(next);
        if (written) {
          model = next;
          if (sync) history.sure = history.states.size() - 1;
        } else {
          // What failed is not to be found once something else was written.
          history.states.push_back(model);
        }
      } else if (what < 17) {
        medium.fail(dice(6), 1 + dice(4));
      } else if (what < 18) {
        ::usleep(2000);
      }
      if (dice(4) != 0) continue;
      const std::string copy = folder / "cut";
      for (int n = 0; n < 3; ++n) {
        const int chance = dice(5);
        medium.cut_power(copy, [&] { return dice(4) < chance; });
        const auto left = found(copy, sync);
        ASSERT_TRUE(left) << problem << " at step " << step;
        ASSERT_TRUE(history.allows(*left)) << "step " << step << (sync ? " sync" : "");
      }
    }
    medium.fail(0, 0);
    journal.reset();
    const auto left = found(data);
    ASSERT_TRUE(left) << problem;
    ASSERT_EQ(left->texts, model.texts);
    ASSERT_EQ(left->counters, model.counters);
  }
}

// Each subset of the pages and names that are not synced, of small stores.
TEST_F(CrashTest, EverySubsetOfWhatIsNotSynced) {
  for (const bool sync : {false, true}) {
    const std::string data = folder / (sync ? "synced" : "data");
    Medium medium(data);
    auto journal = open(data, sync, {}, medium);
    ASSERT_TRUE(journal) << problem;
    History history;
    Model model;
    const auto commit = [&](const std::string& key, int64_t units) {
      add(*journal, key, units);
      ASSERT_TRUE(succeeds(journal->commit(), problem)) << problem;
      model.counters[key] = units;
      history.states.push_back(model);
      if (sync) history.sure = history.states.size() - 1;
    };
    size_t seen = 0;
    for (int i = 0; i < 4; ++i) {
      commit(std::string(1 + static_cast<size_t>(i % 2) * 600, 'k'), i + 1);
      const size_t choices = medium.choices();
      if (choices > 10) break;
      for (size_t set = 0; set < size_t{1} << choices; ++set) {
        size_t at = 0;
        medium.cut_power(folder / "cut", [&] { return (set >> at++ & 1U) != 0; });
        const auto left = found(folder / "cut", sync);
        ASSERT_TRUE(left) << problem;
        ASSERT_TRUE(history.allows(*left)) << set << " of " << choices;
        ++seen;
      }
    }
    EXPECT_GT(seen, sync ? 3u : 50u);
  }
}

// Each call that changes something fails once, in the life of a store with snapshots and texts;
// after it the store goes on, and nothing that was promised is missing.
TEST_F(CrashTest, EachCallMayFail) {
  for (const bool sync : {false, true}) {
    for (int failing = 0; failing < 120; ++failing) {
      SCOPED_TRACE(failing);
      const std::string data = folder / (std::string(sync ? "s" : "d") + std::to_string(failing));
      Medium medium(data);
      Model model;
      std::mutex mutex;
      KeptByKey table;
      auto journal = open(data, sync, {.log_bytes = 700, .logs = 3}, medium);
      ASSERT_TRUE(journal) << problem;
      journal->all_is_loaded({.counters = [] { return uint64_t{10}; },
                              .walk =
                                  [&](const auto& visit) {
                                    const std::lock_guard lock(mutex);
                                    return table_of(table).walk(visit);
                                  }});
      medium.fail(failing, 2);
      for (int i = 0; i < 12; ++i) {
        const std::string key = std::to_string(i % 5) + std::string(50, 'k');
        {
          const std::lock_guard lock(mutex);
          add(*journal, key, i + 1);
          for (int n = 0; n < 5 && !succeeds(journal->commit(), problem); ++n) {
          }
          ASSERT_EQ(journal->pending(), 0u) << problem;
          model.counters[key] = i + 1;
          table[{space, key}] = {{{now_us + 1, i + 1}}, limits_id, INT64_MAX};
        }
        const store::MetadataStore::Change change{"t", std::to_string(i)};
        if (journal->write({&change, 1})) model.texts["t"] = std::to_string(i);
        if (i % 4 == 3) ::usleep(500);
      }
      medium.fail(0, 0);
      const store::MetadataStore::Change last{"t", "last"};
      ASSERT_TRUE(journal->write({&last, 1}));
      model.texts["t"] = "last";
      if (sync) {
        medium.cut_power(folder / "cut", [] { return false; });
        const auto left = found(folder / "cut", sync);
        ASSERT_TRUE(left) << problem;
        ASSERT_EQ(left->counters, model.counters);
        ASSERT_EQ(left->texts, model.texts);
      }
      journal.reset();
      const auto left = found(data);
      ASSERT_TRUE(left) << problem;
      ASSERT_EQ(left->counters, model.counters);
      ASSERT_EQ(left->texts, model.texts);
    }
  }
}

// One bit of each byte of each file of a small store: what is found is a state that was there, or
// it is said to be damaged.
TEST_F(CrashTest, ABitThatTurnsIsNeverAWrongCounter) {
  for (const bool sync : {false, true}) {
    const std::string data = folder / (sync ? "synced" : "data");
    History history;
    Model model;
    for (int run = 0; run < 2; ++run) {
      auto journal = open(data, sync, {.log_bytes = 150, .logs = 2});
      ASSERT_TRUE(journal) << problem;
      KeptByKey table;
      for (const auto& [key, units] : model.counters)
        table[{space, key}] = {{{now_us + 1, units}}, limits_id, INT64_MAX};
      for (int i = 0; i < 3; ++i) {
        const std::string key(1, static_cast<char>('a' + i));
        add(*journal, key, 10 * run + i + 1);
        ASSERT_TRUE(succeeds(journal->commit(), problem)) << problem;
        model.counters[key] = 10 * run + i + 1;
        history.states.push_back(model);
        table[{space, key}] = {{{now_us + 1, 10 * run + i + 1}}, limits_id, INT64_MAX};
        const store::MetadataStore::Change change{"t", std::to_string(10 * run + i)};
        ASSERT_TRUE(journal->write({&change, 1}));
        model.texts["t"] = std::to_string(10 * run + i);
        history.states.push_back(model);
      }
      if (run > 0) continue;
      journal->all_is_loaded(table_of(table));
      ASSERT_TRUE(wait_for_snapshots(*journal, 1));
    }
    ASSERT_EQ(found(data), model) << problem;
    std::vector<std::string> files;
    for (const auto& at : fs::directory_iterator(data + "/sluice"))
      files.push_back(at.path().filename());
    size_t told = 0, bytes = 0;
    for (const std::string& name : files) {
      const uint64_t size = fs::file_size(data + "/sluice/" + name);
      for (uint64_t at = 0; at < size; ++at) {
        const std::string copy = folder / "copy";
        fs::remove_all(copy);
        fs::copy(data, copy, fs::copy_options::recursive);
        turn_bit(copy + "/sluice/" + name, at);
        const auto left = found(copy, sync);
        ++bytes;
        told += left ? 0u : 1u;
        if (left) {
          ASSERT_TRUE(history.allows(*left)) << name << " at " << at;
        } else if (problem != "scan failed") {
          ASSERT_NE(problem.find("damaged"), std::string::npos) << problem;
        }
      }
    }
    EXPECT_GT(bytes, 500u);
    EXPECT_GT(told, bytes / 3);
  }
}

// A disk that can be written again goes on where it failed, with other files than those that it
// failed on if a sync had failed.
TEST_F(CrashTest, AfterAFailedSyncTheLogGoesOnInANewFile) {
  const std::string data = folder / "data";
  Medium medium(data);
  auto journal = open(data, true, {}, medium);
  ASSERT_TRUE(journal) << problem;
  add(*journal, "a", 1);
  ASSERT_TRUE(succeeds(journal->commit(), problem)) << problem;
  const size_t logs = numbers_of(data, log_kind)->size();
  medium.fail(1, 1);  // the write goes, the sync fails
  add(*journal, "a", 2);
  EXPECT_FALSE(succeeds(journal->commit(), problem));
  EXPECT_NE(problem.find("cannot be written: No space left on device"), std::string::npos)
      << problem;
  ASSERT_TRUE(succeeds(journal->commit(), problem)) << problem;
  EXPECT_EQ(numbers_of(data, log_kind)->size(), logs + 1);
  medium.cut_power(folder / "cut", [] { return false; });
  EXPECT_EQ(found(folder / "cut", true)->counters, (std::map<std::string, int64_t>{{"a", 2}}));
}

}  // namespace
}  // namespace sluice::disk::crash_test
