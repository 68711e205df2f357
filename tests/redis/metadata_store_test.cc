// Metadata in a real Redis: changes are written all or nothing, and soon known to every server that
// uses the Redis.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <csignal>
#include <map>
#include <mutex>
#include <thread>

#include "base/result_test.h"
#include "redis/redis_store.h"
#include "tests/support/dice.h"
#include "tests/support/patience.h"
#include "tests/support/redis_server.h"

namespace sluice::tests {
namespace {

using Map = std::map<std::string, std::string>;
using Change = store::MetadataStore::Change;
using Written = store::MetadataStore::Written;
using std::chrono::steady_clock;

// A store over Redis without a server. It has what its metadata store has read and reported.
class Keeping {
 public:
  // The patience is long, because a write of many changes takes long on a busy machine.
  explicit Keeping(const std::vector<uint16_t>& ports,
                   base::Duration patience = base::seconds(60)) {
    redis::Options options;
    options.nodes.clear();
    for (const uint16_t port : ports) options.nodes.push_back({"127.0.0.1", port});
    options.local_bytes = size_t{16} << 20;
    options.patience = patience;
    auto store = redis::RedisStore::open(std::move(options), spaces_, nullptr);
    EXPECT_TRUE(store) << store.problem().text;
    store_ = *std::move(store);
  }
  store::MetadataStore& metadata() { return store_->metadata(); }

  Written write_to(const std::vector<Change>& changes) {
    std::unique_lock<std::mutex> order;
    if (watcher_) order = std::unique_lock(watcher_->order);
    auto result = metadata().write(changes);
    if (!result) problem = std::move(result.problem).text;
    return result.written;
  }
  bool write(const std::vector<Change>& changes) { return write_to(changes) == Written::yes; }
  bool set(const std::string& name, const std::string& text) { return write({{name, text}}); }
  bool read() {
    const std::lock_guard lock(mutex_);
    const base::Done done = metadata().read([this](std::string_view name, std::string_view text) {
      all_[std::string(name)] = std::string(text);
    });
    return base::succeeds(done, problem);
  }
  void watch() {
    watcher_ = std::make_shared<Watcher>();
    watcher_->owner = this;
    metadata().watch(watcher_);
  }
  // Locked while a change is written and applied.
  std::mutex& order() { return watcher_->order; }
  void begin() {
    EXPECT_TRUE(read()) << problem;
    watch();
  }
  void put(const std::string& name, const std::string& text) {
    const std::lock_guard lock(mutex_);
    all_[name] = text;
  }
  Map all() {
    const std::lock_guard lock(mutex_);
    return all_;
  }
  size_t told() {
    const std::lock_guard lock(mutex_);
    return told_;
  }
  std::string text(const std::string& name) {
    const std::lock_guard lock(mutex_);
    const auto at = all_.find(name);
    return at == all_.end() ? "" : at->second;
  }
  // Waits until it has these texts and no others. Returns how long that took, a negative number if
  // it was not in time.
  std::chrono::milliseconds await(const Map& wanted, Deadline deadline = soon()) {
    const auto began = steady_clock::now();
    while (all() != wanted) {
      if (steady_clock::now() > deadline) return std::chrono::milliseconds(-1);
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return std::chrono::duration_cast<std::chrono::milliseconds>(steady_clock::now() - began);
  }

  std::string problem;

 private:
  struct Watcher final : store::MetadataStore::Watcher {
    void changed(std::span<const Change> changes) override { owner->take(changes); }
    Keeping* owner = nullptr;
  };
  void take(std::span<const Change> changes) {
    const std::lock_guard lock(mutex_);
    told_ += changes.size();
    for (const Change& change : changes) {
      if (change.text)
        all_[change.name] = *change.text;
      else
        all_.erase(change.name);
    }
  }

  request::Spaces spaces_;
  std::shared_ptr<Watcher> watcher_;
  std::mutex mutex_;
  Map all_;
  size_t told_ = 0;
  std::unique_ptr<redis::RedisStore> store_;  // destroyed first: its thread uses the others
};

Map kept_in(const RedisServer& redis) {
  auto client = redis.client();
  Map all;
  const auto said = client({"HGETALL", "sluice:kept"}).list;
  for (size_t i = 0; i + 1 < said.size(); i += 2) all[said[i].text] = said[i + 1].text;
  return all;
}

std::vector<Change> some_changes(Dice& dice, int names, Map& model) {
  std::vector<Change> changes;
  for (int i = dice(20) + 1; i > 0; --i) {
    Change& change = changes.emplace_back();
    change.name = std::string("o-\0\n", 4) + std::to_string(dice(names));
    if (dice(3) != 0)
      change.text =
          std::to_string(dice(1'000'000)) + std::string(static_cast<size_t>(dice(50)), '\xff');
    if (change.text)
      model[change.name] = *change.text;
    else
      model.erase(change.name);
  }
  return changes;
}

TEST(RedisMetadataStore, KeepsTheLastWrittenTexts) {
  RedisServer redis;
  Dice dice(8);
  Map model;
  Keeping one({redis.port()});
  EXPECT_TRUE(one.read());
  EXPECT_EQ(one.all(), Map());
  for (int i = 0; i < 100; ++i)
    ASSERT_TRUE(one.write(some_changes(dice, 100, model))) << one.problem;
  EXPECT_TRUE(one.write({}));
  EXPECT_EQ(kept_in(redis), model);
  Keeping other({redis.port()});
  EXPECT_TRUE(other.read());
  EXPECT_EQ(other.all(), model);
  // They never expire.
  EXPECT_EQ(redis.client()({"PTTL", "sluice:kept"}).number, -1);
}

TEST(RedisMetadataStore, AChangeReachesOtherServersWithin100Milliseconds) {
  RedisServer redis;
  Keeping one({redis.port()}), two({redis.port()});
  one.begin();
  two.begin();
  Map model;
  size_t changed = 0;
  std::vector<std::chrono::milliseconds> times;
  for (int i = 0; i < 40; ++i) {
    const std::string name = "o-" + std::to_string(i % 7);
    const bool gone = i % 5 == 4;
    const Change change{name, gone ? std::nullopt : std::optional(std::to_string(i))};
    changed += !gone || model.contains(name);
    if (gone)
      model.erase(name);
    else
      model[name] = *change.text;
    ASSERT_TRUE((i % 2 == 0 ? one : two).write({change}));
    for (Keeping* each : {&one, &two}) {
      const auto took = each->await(model);
      ASSERT_GE(took.count(), 0);
      times.push_back(took);
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(i));
  }
  // A thread may be late now and then, if other processes have the processors.
  std::sort(times.begin(), times.end());
  EXPECT_LT(times[times.size() * 9 / 10], promised(std::chrono::milliseconds(100)));
  // Each change was reported once.
  EXPECT_EQ(one.told(), changed);
}

// The last write wins, at every server.
TEST(RedisMetadataStore, ServersThatWriteConcurrentlyConverge) {
  RedisServer redis;
  Keeping one({redis.port()}), two({redis.port()});
  std::vector<std::thread> threads;
  for (Keeping* each : {&one, &two}) {
    each->begin();
    threads.emplace_back([each, seed = static_cast<uint32_t>(threads.size())] {
      Dice dice(seed);
      Map unused;
      for (int i = 0; i < 300; ++i) ASSERT_TRUE(each->write(some_changes(dice, 50, unused)));
    });
  }
  for (auto& thread : threads) thread.join();
  const Map model = kept_in(redis);
  EXPECT_GT(model.size(), 20u);
  EXPECT_GE(one.await(model).count(), 0);
  EXPECT_GE(two.await(model).count(), 0);
}

// A change that this server has written and applied is not undone by an older one that it had
// fetched before.
TEST(RedisMetadataStore, ReportsNoOlderTextDuringAWrite) {
  RedisServer redis;
  Keeping one({redis.port()}), two({redis.port()}), third({redis.port()});
  // An earlier change: without one the servers would read all texts, not the changes.
  ASSERT_TRUE(third.set("z", "0"));
  two.begin();
  one.begin();
  {
    const std::lock_guard order(one.order());
    ASSERT_TRUE(two.set("a", "older"));
    EXPECT_GE(two.await({{"a", "older"}, {"z", "0"}}).count(), 0);
    const Change newer{"a", "newer"};
    ASSERT_TRUE(one.metadata().write({&newer, 1}));
    EXPECT_GE(two.await({{"a", "newer"}, {"z", "0"}}).count(), 0);
    EXPECT_EQ(one.told(), 0u);
  }
  EXPECT_GE(one.await({{"a", "newer"}, {"z", "0"}}).count(), 0);
  EXPECT_EQ(one.told(), 2u);  // once for each change, both times with the newer text
}

TEST(RedisMetadataStore, AConditionalChangeSkipsADifferentText) {
  RedisServer redis;
  Keeping one({redis.port()}), two({redis.port()});
  two.begin();
  ASSERT_TRUE(one.write({{"a", "1"}, {"b", "2"}, {"c", "3"}}));
  EXPECT_GE(two.await({{"a", "1"}, {"b", "2"}, {"c", "3"}}).count(), 0);
  const size_t told = two.told();
  auto client = redis.client();
  const std::string version = client({"GET", "sluice:kept:version"}).text;
  // None of these changes anything, and so no watcher receives them.
  ASSERT_TRUE(one.write({{"a", {}, "2"}, {"b", "4", "1"}, {"d", {}, "1"}, {"d", {}}}))
      << one.problem;
  EXPECT_EQ(client({"GET", "sluice:kept:version"}).text, version);
  EXPECT_EQ(client({"LLEN", "sluice:kept:changes"}).number, 3);
  ASSERT_TRUE(one.write({{"a", {}, "1"}, {"b", "4", "2"}, {"c", {}, "2"}})) << one.problem;
  EXPECT_EQ(kept_in(redis), (Map{{"b", "4"}, {"c", "3"}}));
  EXPECT_GE(two.await({{"b", "4"}, {"c", "3"}}).count(), 0);
  EXPECT_EQ(two.told(), told + 2);
}

// More was changed than the list of changes has room for, and by writes of many changes.
TEST(RedisMetadataStore, AServerThatMissedTooManyChangesReadsAllTexts) {
  RedisServer redis;
  Keeping one({redis.port()}), two({redis.port()});
  Map model;
  const auto write = [&](int from, int count, bool set) {
    std::vector<Change> changes;
    for (int i = from; i < from + count; ++i) {
      const std::string name = "o-" + std::to_string(i);
      changes.push_back({name, set ? std::optional("text " + name) : std::nullopt});
      if (set)
        model[name] = "text " + name;
      else
        model.erase(name);
    }
    ASSERT_TRUE(one.write(changes)) << one.problem;
  };
  write(0, 20'000, true);
  EXPECT_TRUE(two.read());
  EXPECT_EQ(two.all(), model);
  for (int i = 0; i < 7; ++i) write(10'000 * i, 10'000, i % 3 != 0);
  EXPECT_EQ(redis.client()({"LLEN", "sluice:kept:changes"}).number, 65'536);
  two.watch();
  EXPECT_GE(two.await(model).count(), 0);
  EXPECT_GE(two.told(), model.size());
  // From here on only changes are reported.
  const size_t told = two.told();
  write(5, 3000, true);
  EXPECT_GE(two.await(model).count(), 0);
  EXPECT_EQ(two.told(), told + 3000);
}

// The loss is reported even of a text that this server had just written.
TEST(RedisMetadataStore, ReportsTheLossOfATextThatWasJustWritten) {
  RedisServer redis;
  Keeping one({redis.port()});
  ASSERT_TRUE(one.set("z", "0"));
  one.begin();
  {
    const std::lock_guard order(one.order());
    const Change change{"a", "1"};
    ASSERT_TRUE(one.metadata().write({&change, 1}));
    one.put("a", "1");
    redis.client()({"FLUSHALL"});
  }
  EXPECT_GE(one.await({}).count(), 0);
}

TEST(RedisMetadataStore, LosesTheTextsThatRedisLoses) {
  RedisServer redis;
  Keeping one({redis.port()}), two({redis.port()});
  two.begin();
  ASSERT_TRUE(one.write({{"a", "1"}, {"b", "2"}, {"c", "3"}}));
  EXPECT_GE(two.await({{"a", "1"}, {"b", "2"}, {"c", "3"}}).count(), 0);
  redis.client()({"FLUSHALL"});
  EXPECT_GE(two.await({}).count(), 0);
  // This Redis is empty after a restart, as it keeps nothing on disk. Its number of changes then
  // becomes what it was before.
  ASSERT_TRUE(one.write({{"a", "1"}, {"b", "2"}, {"c", "3"}}));
  EXPECT_GE(two.await({{"a", "1"}, {"b", "2"}, {"c", "3"}}).count(), 0);
  redis.stop();
  redis.start();
  ASSERT_TRUE(one.write({{"x", "1"}, {"y", "2"}, {"z", "3"}}));
  EXPECT_GE(two.await({{"x", "1"}, {"y", "2"}, {"z", "3"}}).count(), 0);
}

int64_t processor_ms() {
  rusage used;
  ::getrusage(RUSAGE_SELF, &used);
  return (used.ru_utime.tv_sec + used.ru_stime.tv_sec) * 1000 +
         (used.ru_utime.tv_usec + used.ru_stime.tv_usec) / 1000;
}

TEST(RedisMetadataStore, WorksOnceAStoppedRedisReturns) {
  RedisServer redis;
  {
    Keeping one({redis.port()});
    ASSERT_TRUE(one.set("a", "1"));
  }
  redis.stop();
  Keeping one({redis.port()});
  EXPECT_TRUE(one.read()) << one.problem;
  one.watch();
  EXPECT_EQ(one.write_to({{"b", "2"}}), Written::no);
  EXPECT_NE(one.problem.find("127.0.0.1:" + std::to_string(redis.port())), std::string::npos)
      << one.problem;
  const int64_t before = processor_ms();
  std::this_thread::sleep_for(std::chrono::milliseconds(1500));
  EXPECT_LT(processor_ms() - before, 150 * slowness);
  redis.start();
  ASSERT_TRUE(one.set("c", "3")) << one.problem;
  EXPECT_GE(one.await({{"c", "3"}}).count(), 0);
}

TEST(RedisMetadataStore, WaitsForAnAnswerForTheConfiguredTime) {
  RedisServer redis;
  Keeping patient({redis.port()}), impatient({redis.port()}, base::milliseconds(100));
  auto client = redis.client();
  client({"CLIENT", "PAUSE", "1500", "WRITE"});  // for longer than a second, which is the default
  EXPECT_TRUE(patient.set("a", "1")) << patient.problem;
  client({"CLIENT", "PAUSE", "600000", "WRITE"});
  EXPECT_FALSE(impatient.set("b", "2"));
  EXPECT_NE(impatient.problem.find("it does not answer"), std::string::npos) << impatient.problem;
  client({"CLIENT", "UNPAUSE"});
  EXPECT_EQ(kept_in(redis), (Map{{"a", "1"}}));
}

TEST(RedisMetadataStore, ASilentRedisDoesNotDelayTheDestructor) {
  RedisServer redis;
  auto one = std::make_unique<Keeping>(std::vector<uint16_t>{redis.port()});
  one->begin();
  redis.signal(SIGSTOP);
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  const auto began = steady_clock::now();
  one.reset();
  EXPECT_LT(steady_clock::now() - began, promised(std::chrono::milliseconds(500)));
  redis.signal(SIGCONT);
}

TEST(RedisMetadataStore, AllOrNothing) {
  RedisServer redis;
  Keeping one({redis.port()});
  ASSERT_TRUE(one.write({{"a", "1"}, {"b", "2"}}));
  auto client = redis.client();
  client({"CONFIG", "SET", "maxmemory", "1"});
  EXPECT_EQ(one.write_to({{"a", "3"}, {"b", {}}, {"c", "4"}}), Written::no);
  EXPECT_NE(one.problem.find("OOM"), std::string::npos) << one.problem;
  client({"CONFIG", "SET", "maxmemory", "0"});
  EXPECT_EQ(kept_in(redis), (Map{{"a", "1"}, {"b", "2"}}));

  // A value of another type under one of its keys.
  for (const char* key : {"sluice:kept:changes", "sluice:kept:version", "sluice:kept"}) {
    client({"FLUSHALL"});
    ASSERT_TRUE(one.write({{"a", "1"}, {"b", "2"}}));
    const bool texts = std::string(key) == "sluice:kept";
    client({"DEL", key});
    client({"SET", key, "what"});
    EXPECT_FALSE(one.write({{"a", "3"}, {"c", "4"}})) << key;
    EXPECT_NE(one.problem.find("Redis refuses it: "), std::string::npos) << one.problem;
    if (!texts) {
      EXPECT_EQ(kept_in(redis), (Map{{"a", "1"}, {"b", "2"}})) << key;
    }
    Keeping other({redis.port()});
    EXPECT_EQ(other.read(), !texts) << other.problem;
    if (texts) {
      EXPECT_NE(other.problem.find("store.redis.key_prefix"), std::string::npos) << other.problem;
    }
  }
}

TEST(RedisMetadataStore, WritesToTheNodeThatTakesWrites) {
  RedisServer primary;
  RedisServer replica({"--replicaof", "127.0.0.1", std::to_string(primary.port())});
  const auto deadline = soon();
  while (replica.client()({"INFO", "replication"}).text.find("master_link_status:up") ==
             std::string::npos &&
         steady_clock::now() < deadline)
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  Keeping one({replica.port(), primary.port()});
  one.begin();
  ASSERT_TRUE(one.set("a", "1")) << one.problem;
  EXPECT_EQ(kept_in(primary), (Map{{"a", "1"}}));
  EXPECT_GE(one.await({{"a", "1"}}).count(), 0);
  Keeping other({replica.port()});
  EXPECT_TRUE(other.read()) << other.problem;
  EXPECT_FALSE(other.set("b", "2"));
  EXPECT_NE(other.problem.find("READONLY"), std::string::npos) << other.problem;
}

}  // namespace
}  // namespace sluice::tests
