// The thread that makes lists (engine/lists.h), over a store whose passes the test controls.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <future>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/bounds.h"
#include "engine/lists.h"
#include "request/space.h"
#include "tests/support/patience.h"

namespace sluice::engine::table_scanner_test {
namespace {

using Keys = std::vector<std::string>;

// Each pass waits until the test lets it continue, and then finds one key for each list: its prefix
// and `!`.
class SlowStore final : public store::Catalog {
 public:
  void list_all(store::ListPass& pass) override {
    {
      std::unique_lock lock(mutex_);
      ++walks_;
      changed_.notify_all();
      changed_.wait(lock, [&] { return let_ >= walks_ || !pass.is_wanted(); });
    }
    sizes.push_back(pass.size());
    if (!pass.is_wanted()) ++ended_early;
    for (size_t i = 0; i < pass.size(); ++i) pass.offer(i, pass.prefix(i) + "!");
  }
  bool await_walk(int number) {
    std::unique_lock lock(mutex_);
    return changed_.wait_until(lock, sluice::tests::soon(), [&] { return walks_ >= number; });
  }
  void let(int walks) {
    const std::lock_guard lock(mutex_);
    let_ = walks;
    changed_.notify_all();
  }
  // Has the waiting passes check whether they are still needed.
  void look_again() {
    const std::lock_guard lock(mutex_);
    changed_.notify_all();
  }
  int walks() {
    const std::lock_guard lock(mutex_);
    return walks_;
  }

  Keys list(const request::Space&, std::string_view, size_t) override { return {}; }
  store::ScanPage scan_page(const request::SpaceIndex&, std::string_view, std::string_view, size_t,
                            std::string_view) override {
    return {};
  }
  void housekeep(base::Time) override {}
  size_t purge(base::Time) override { return 0; }
  store::Stats stats() const override { return {}; }

  std::vector<size_t> sizes;  // the number of lists of each pass
  std::atomic<int> ended_early{0};

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  int walks_ = 0, let_ = 0;
};

struct Fixture {
  ~Fixture() { store.let(1'000'000); }
  void ask(int owner, const std::string& prefix) {
    scanner.list(&owners[owner], space, prefix, [this, owner](const TableScanner::Found& found) {
      const std::lock_guard lock(mutex);
      answers[owner].push_back(*found.keys);
      changed.notify_all();
    });
  }
  size_t answered() {
    size_t sum = 0;
    for (const auto& [owner, lists] : answers) sum += lists.size();
    return sum;
  }
  bool await(size_t count) {
    std::unique_lock lock(mutex);
    return changed.wait_until(lock, sluice::tests::soon(), [&] { return answered() >= count; });
  }

  SlowStore store;
  request::Spaces spaces;
  const request::Space& space = *spaces.intern("s", "");
  char owners[256] = {};
  std::mutex mutex;
  std::condition_variable changed;
  std::map<int, std::vector<Keys>> answers;
  TableScanner scanner{store};
};

TEST(TableScanner, AnswersAllQueuedListsInOnePass) {
  Fixture f;
  f.ask(0, "first");
  ASSERT_TRUE(f.store.await_walk(1));
  for (int owner = 0; owner < 20; ++owner)
    for (int i = 0; i < 50; ++i) f.ask(owner, i % 2 == 0 ? "same" : std::to_string(owner));
  f.store.let(2);
  ASSERT_TRUE(f.await(1001));
  EXPECT_EQ(f.store.walks(), 2);
  EXPECT_EQ(f.store.sizes, (std::vector<size_t>{1, 21})) << "the same list is made once";
  for (int owner = 1; owner < 20; ++owner) {
    const auto& its = f.answers[owner];
    EXPECT_EQ(std::count(its.begin(), its.end(), Keys{"same!"}), 25);
    EXPECT_EQ(std::count(its.begin(), its.end(), Keys{std::to_string(owner) + "!"}), 25);
  }
}

TEST(TableScanner, ManyListsOfOneOwnerDoNotDelayOthers) {
  Fixture f;
  f.ask(0, "first");
  ASSERT_TRUE(f.store.await_walk(1));
  const size_t many = 5 * base::bounds::lists_per_pass_max;
  for (size_t i = 0; i < many; ++i) f.ask(1, "k" + std::to_string(i));
  f.ask(2, "other");
  f.store.let(2);
  ASSERT_TRUE(f.await(2));
  ASSERT_TRUE(f.store.await_walk(3));
  {
    const std::lock_guard lock(f.mutex);
    EXPECT_EQ(f.answers[2], std::vector<Keys>{{"other!"}});
    EXPECT_LE(f.answers[1].size(), base::bounds::lists_per_pass_max);
  }
  f.store.let(1000);
  ASSERT_TRUE(f.await(many + 2));
  EXPECT_EQ(f.store.walks(), 7);
}

TEST(TableScanner, AListEndsWithItsOwner) {
  Fixture f;
  f.ask(0, "under way");
  f.ask(0, "under way too");
  ASSERT_TRUE(f.store.await_walk(1));
  f.ask(0, "queued");
  f.ask(1, "another's");
  f.scanner.cancel(&f.owners[0]);
  f.store.look_again();
  ASSERT_TRUE(f.store.await_walk(2)) << "the walk that is not needed has ended";
  EXPECT_EQ(f.store.ended_early, 1);
  f.store.let(2);
  ASSERT_TRUE(f.await(1));
  f.ask(1, "one more");
  f.store.let(3);
  ASSERT_TRUE(f.await(2));
  EXPECT_TRUE(f.answers[0].empty());
  EXPECT_EQ(f.answers[1], (std::vector<Keys>{{"another's!"}, {"one more!"}}));
}

TEST(TableScanner, PagesAndListsTakeTurns) {
  Fixture f;
  f.ask(0, "first");
  ASSERT_TRUE(f.store.await_walk(1));
  std::promise<int> looked;
  ASSERT_TRUE(f.scanner.look([&](store::Catalog&) { looked.set_value(f.store.walks()); }));
  f.ask(1, "second");
  f.store.let(1);
  auto walks = looked.get_future();
  ASSERT_EQ(walks.wait_until(sluice::tests::soon()), std::future_status::ready);
  EXPECT_EQ(walks.get(), 1) << "the page came before the next walk";
}

TEST(TableScanner, HasNoRoomForMorePagesThanItsBound) {
  Fixture f;
  f.ask(0, "first");
  ASSERT_TRUE(f.store.await_walk(1));
  for (size_t i = 0; i < base::bounds::queries_max; ++i)
    EXPECT_TRUE(f.scanner.look([](store::Catalog&) {}));
  EXPECT_FALSE(f.scanner.look([](store::Catalog&) {}));
}

TEST(TableScanner, StopsInTheMiddleOfAPass) {
  SlowStore store;
  request::Spaces spaces;
  std::atomic<bool> answered{false};
  std::thread looks;
  {
    TableScanner scanner(store);
    const int owner = 0;
    scanner.list(&owner, *spaces.intern("s", ""), "",
                 [&](const TableScanner::Found&) { answered = true; });
    ASSERT_TRUE(store.await_walk(1));
    looks = std::thread([&] {
      while (store.ended_early == 0) {
        store.look_again();
        std::this_thread::yield();
      }
    });
  }
  looks.join();
  EXPECT_FALSE(answered);
}

}  // namespace
}  // namespace sluice::engine::table_scanner_test
