// sluice::durable (include/sluice/durable.h): over stops, kills and full disks, against a model of
// the last commit.
#include <gtest/gtest.h>
#include <signal.h>
#include <sluice/durable.h>
#include <sluice/sluice_durable.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <new>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "embed/core.h"
#include "request/counter_record.h"
#include "store/log/folder_test.h"

// Children of this test start threads, which ThreadSanitizer refuses by default after a fork.
extern "C" const char* __tsan_default_options();
extern "C" const char* __tsan_default_options() {
  return "die_after_fork=0";
}

namespace sluice::durable_test {

using namespace std::chrono_literals;

constexpr time_point start{duration(1'700'000'000'000'000)};
constexpr duration window = std::chrono::hours(1);  // of the rule

class Durable : public testing::Test {
 protected:
  Durable() { where_.directory = folder_ / "counters"; }

  result<durable> open() {
    options how;
    how.memory_bytes = size_t{16} << 20;
    how.clock = [this] { return now_; };
    how.holds_max = holds_max_;
    return durable::open(where_, std::move(how));
  }
  // Runs `life` in a child, which ends without destructors. Returns its exit status: 0 means
  // success.
  static int in_a_child(const std::function<int()>& life) {
    const pid_t child = fork();
    if (child == 0) _exit(life());
    int status = -1;
    EXPECT_EQ(waitpid(child, &status, 0), child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 256;
  }

  const disk::Folder folder_;
  durable_options where_;
  time_point now_ = start;
  size_t holds_max_ = 10;
};

std::string rules(int64_t quota) {
  return "rules: [{ name: r, match: { k: \"*\" }, actor: k, limit: { quota: " +
         std::to_string(quota) + ", window: 1h, algorithm: fixed_window } }]";
}

// The model of two families of counters: the units in use of the first, and the window of each key
// of the rule.
struct Model {
  struct Window {
    time_point begun;
    int64_t used = 0;
  };
  std::map<std::string, int64_t> places;
  std::map<std::string, Window> windows;
  int64_t quota = 20;  // of the rule
  time_point now = start;

  int64_t used(const std::string& key) const {
    const auto at = windows.find(key);
    return at == windows.end() || now >= at->second.begun + window ? 0 : at->second.used;
  }
};

constexpr int64_t places_quota = 50;
constexpr int keys = 12;

struct World {
  durable kept;
  handle places, rule;

  bool equals(const Model& model) {
    for (int i = 0; i < keys; ++i) {
      const std::string key = std::to_string(i);
      const auto at = model.places.find(key);
      const int64_t used = at == model.places.end() ? 0 : at->second;
      if (kept->peek(places, key, model.now).remaining != places_quota - used) return false;
      const int64_t left = model.quota - model.used(key);  // a reload may leave less than nothing
      if (kept->peek(rule, key, model.now).remaining != left) return false;
    }
    return true;
  }
};

// One random step of the model, and of the world unless it is null. False: they differ.
bool step(Model& model, World* world, std::mt19937& dice) {
  const std::string key = std::to_string(dice() % keys);
  const auto cost = static_cast<int64_t>(dice() % 6);
  const uint32_t what = dice() % 8, rarely = dice() % 8;
  const time_point now = model.now;
  if (what < 2) {
    int64_t& used = model.places[key];
    const bool fits = used + cost <= places_quota;
    used += fits ? cost : 0;
    return world == nullptr || world->kept->take(world->places, key, cost, now).allowed == fits;
  }
  if (what == 2) {
    int64_t& used = model.places[key];
    used -= std::min(used, cost);
    return world == nullptr || world->kept->put(world->places, key, cost, now).error == errc::ok;
  }
  if (what == 3 && rarely == 0) {
    model.places[key] = 0;
    return world == nullptr || world->kept->reset(world->places, key, now).error == errc::ok;
  }
  if (what == 4 || what == 5) {
    const int64_t used = model.used(key);
    const bool fits = used + cost <= model.quota;
    if (fits && cost > 0) {
      if (used == 0) model.windows[key].begun = now;
      model.windows[key].used = used + cost;
    }
    return world == nullptr || world->kept->take(world->rule, key, cost, now).allowed == fits;
  }
  if (what == 6 && rarely == 0) {
    model.quota = 10 + cost * 5;
    return world == nullptr || world->kept->reload_text(rules(model.quota), now).has_value();
  }
  if (what == 7) model.now += std::chrono::minutes(cost);
  return true;
}

// The steps and commits of one life. False: the world differs from the model. `committed` is the
// model at the last commit.
bool live(uint32_t seed, Model& model, Model& committed, World* world, time_point& clock) {
  std::mt19937 dice(seed);
  for (int i = 0; i < 300; ++i) {
    if (!step(model, world, dice)) return false;
    clock = model.now;
    if (i % 16 == 0 && world != nullptr) world->kept->sweep(512, model.now);
    if (i % 37 != static_cast<int>(seed % 37)) continue;
    committed = model;
    if (world != nullptr && !world->kept.commit()) return false;
  }
  return true;
}

class DurableCrossing : public Durable {
 protected:
  std::optional<World> open_world(const Model& model) {
    auto kept = open();
    if (!kept || !(*kept)->reload_text(rules(model.quota), model.now)) return std::nullopt;
    const auto places = (*kept)->limits("places", {{places_quota, 0us, algorithm::fixed_bucket}});
    const auto rule = (*kept)->find("r");
    if (!places || !rule) return std::nullopt;
    return World{*std::move(kept), *places, *rule};
  }
};

// Each life opens the directory, compares all counters with the model's, and takes random steps and
// commits. It ends with the destructor, which commits, or without it, which leaves the last commit.
// The steps are takes, puts, resets, reloads, sweeps and steps of the clock.
TEST_F(DurableCrossing, CountersEqualThoseOfTheLastCommit) {
  Model model;
  for (uint32_t life = 0; life < 40; ++life) {
    const bool is_killed = life % 3 != 0;
    Model committed = model;
    const int status = in_a_child([&] {
      now_ = model.now;
      auto world = open_world(model);
      if (!world) return 1;
      if (!world->equals(model)) return 2;
      if (!live(life, model, committed, &*world, now_)) return 3;
      if (!world->equals(model)) return 4;
      if (is_killed) _exit(0);
      return 0;
    });
    ASSERT_EQ(status, 0) << "life " << life;
    ASSERT_TRUE(live(life, model, committed, nullptr, now_));
    // The time and the rules are not stored.
    if (is_killed) {
      model.places = committed.places;
      model.windows = committed.windows;
    }
  }
}

constexpr int64_t many = 1'000'000'000;

handle places_of(durable& kept) {
  return *kept->limits("x", {{many, 0us, algorithm::fixed_bucket}});
}

TEST_F(Durable, ThreadsCommitTogether) {
  {
    auto kept = open();
    ASSERT_TRUE(kept) << kept.why().message;
    const handle by = places_of(*kept);
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t)
      threads.emplace_back([&, t] {
        for (int i = 0; i < 200; ++i) {
          EXPECT_TRUE((*kept)->take(by, std::to_string((i + t) % 7), 1, start).allowed);
          EXPECT_TRUE(kept->commit());
        }
      });
    for (std::thread& thread : threads) thread.join();
  }
  auto kept = open();
  ASSERT_TRUE(kept) << kept.why().message;
  const handle by = places_of(*kept);
  int64_t used = 0;
  for (int i = 0; i < 7; ++i) used += many - (*kept)->peek(by, std::to_string(i), start).remaining;
  EXPECT_EQ(used, 800);
}

class DurableHolds : public Durable {
 protected:
  int64_t left(durable& kept) { return (*kept).peek(places_of(kept), "x", now_).remaining; }
  hold reserve(durable& kept, int64_t units, duration ttl) {
    const handle by = places_of(kept);
    return kept->reserve({{&by, "x", units}}, ttl, now_).id;
  }
};

// A first life is killed after a commit, a second one stops, and a third finds what has ended
// meanwhile. The last one wants no reservations.
TEST_F(DurableHolds, GoOnOverAKillAndAStopAndEndWhileNobodyIsThere) {
  std::array<hold, 4> holds;
  const std::string told = folder_ / "told";
  const int status = in_a_child([&] {
    auto kept = open();
    if (!kept) return 1;
    holds = {reserve(*kept, 40, 1h), reserve(*kept, 30, 10s), reserve(*kept, 20, 1h), hold()};
    if (!(*kept)->commit(holds[2], {5}, now_).now.allowed || !kept->commit()) return 2;
    holds[3] = reserve(*kept, 7, 1h);  // and is lost
    std::ofstream(told, std::ios::binary)
        .write(reinterpret_cast<const char*>(holds.data()), sizeof holds);
    _exit(left(*kept) == many - 82 ? 0 : 3);
  });
  ASSERT_EQ(status, 0);
  std::ifstream(told, std::ios::binary).read(reinterpret_cast<char*>(holds.data()), sizeof holds);
  now_ += 5s;
  {
    auto kept = open();
    ASSERT_TRUE(kept) << kept.why().message;
    EXPECT_EQ((*kept)->stats().holds, 2u);
    EXPECT_EQ(left(*kept), many - 75);
    EXPECT_TRUE((*kept)->commit(holds[2], {5}, now_).repeated);
    EXPECT_EQ((*kept)->extend(holds[0], {1}, 0s, now_).reserved, 41);
    EXPECT_EQ((*kept)->renew(holds[1], 12s, now_).until, start + 17s);
    EXPECT_EQ((*kept)->release(holds[3], now_).now.error, errc::no_such_hold);
  }
  now_ += 12s;
  {
    auto kept = open();
    ASSERT_TRUE(kept) << kept.why().message;
    EXPECT_EQ((*kept)->stats().holds, 1u);
    EXPECT_EQ(left(*kept), many - 46);
    const settlement done = (*kept)->commit(holds[0], {11}, now_);
    EXPECT_EQ(done.returned, 30);
    EXPECT_EQ(left(*kept), many - 16);
    EXPECT_TRUE((*kept)->commit(holds[1], {3}, now_).late);
    EXPECT_TRUE(reserve(*kept, 9, 1s));
    EXPECT_TRUE(reserve(*kept, 8, 1h));
  }
  holds_max_ = 0;
  now_ += 1s;
  auto kept = open();
  ASSERT_TRUE(kept) << kept.why().message;
  EXPECT_EQ(left(*kept), many - 27);
  now_ += 1h;
  EXPECT_EQ(left(*kept), many - 19);
  EXPECT_EQ((*kept)->reserve({{"k", "v"}}, 1, 0s, now_).now.error, errc::too_many_holds);
}

// Whoever knows a name may settle what it names, so two processes never give out the same.
TEST_F(DurableHolds, OfAForkedChildHaveNamesOfTheirOwn) {
  options how;
  how.holds_max = holds_max_;
  auto its = limiter::create(std::move(how));
  const auto next = [&] { return its->reserve(view<charge>(), 0s, start).id; };
  next();  // random bits are fetched for several
  const std::string told = folder_ / "told";
  ASSERT_EQ(in_a_child([&] {
              const hold of_child = next();
              std::ofstream(told, std::ios::binary)
                  .write(reinterpret_cast<const char*>(&of_child), sizeof of_child);
              return 0;
            }),
            0);
  hold of_child;
  std::ifstream(told, std::ios::binary).read(reinterpret_cast<char*>(&of_child), sizeof of_child);
  EXPECT_TRUE(of_child);
  EXPECT_NE(of_child, next());
}

// Places that were acquired are out after a kill, until their lease ends, and no more than there
// are.
TEST_F(DurableHolds, OfPlacesGoOnOverAKill) {
  std::array<hold, 3> held;
  const auto pool = [](durable& kept) {
    return *kept->limits("pool", {{3, 1h, algorithm::concurrency}});
  };
  const std::string told = folder_ / "told";
  const int status = in_a_child([&] {
    auto kept = open();
    if (!kept) return 1;
    const handle by = pool(*kept);
    const auto acquire = [&](duration lease) {
      return (*kept)->acquire({{&by, "x", 1}}, lease, now_).id;
    };
    held = {acquire(0s), acquire(10s), hold()};
    if (!kept->commit()) return 2;
    held[2] = acquire(0s);  // and is lost
    std::ofstream(told, std::ios::binary)
        .write(reinterpret_cast<const char*>(held.data()), sizeof held);
    _exit((*kept)->acquire({{&by, "x", 1}}, 0s, now_).id ? 3 : 0);
  });
  ASSERT_EQ(status, 0);
  std::ifstream(told, std::ios::binary).read(reinterpret_cast<char*>(held.data()), sizeof held);
  now_ += 5s;
  {
    auto kept = open();
    ASSERT_TRUE(kept) << kept.why().message;
    const handle by = pool(*kept);
    EXPECT_EQ((*kept)->peek(by, "x", now_).remaining, 1);
    EXPECT_EQ((*kept)->renew(held[1], 0s, now_).until, start + 15s);
    EXPECT_EQ((*kept)->release(held[2], now_).now.error, errc::no_such_hold);
    EXPECT_FALSE((*kept)->acquire({{&by, "x", 2}}, 0s, now_).id);
  }
  now_ += 10s;
  auto kept = open();
  ASSERT_TRUE(kept) << kept.why().message;
  const handle by = pool(*kept);
  EXPECT_EQ((*kept)->renew(held[1], 0s, now_).now.error, errc::hold_ended);
  EXPECT_EQ((*kept)->peek(by, "x", now_).remaining, 2);
  EXPECT_EQ((*kept)->release(held[0], now_).returned, 1);
  EXPECT_EQ((*kept)->peek(by, "x", now_).remaining, 3);
}

// One that was waited for is kept as others are; one that waits still is gone with the program.
TEST_F(DurableHolds, OfAWaitGoOnFromItsGrant) {
  const auto pool = [](durable& kept) {
    return *kept->limits("pool", {{1, 1h, algorithm::concurrency}});
  };
  hold granted;
  {
    auto kept = open();
    ASSERT_TRUE(kept) << kept.why().message;
    const handle by = pool(*kept);
    const auto wait = [&] {
      return (*kept)
          ->wait_acquire(
              {{&by, "x", 1}}, 10s, now_ + 1h,
              [&](wait_id, const reservation& its) { granted = its.id; }, now_)
          .id;
    };
    const hold first = (*kept)->acquire({{&by, "x", 1}}, 0s, now_).id;
    EXPECT_TRUE(wait() != 0 && wait() != 0);
    EXPECT_EQ((*kept)->release(first, now_).returned, 1);
    EXPECT_EQ((*kept)->run_due(now_).called, 1u);
    EXPECT_TRUE(granted);
    EXPECT_TRUE(kept->commit());
  }
  auto kept = open();
  ASSERT_TRUE(kept) << kept.why().message;
  const handle by = pool(*kept);
  EXPECT_EQ((*kept)->renew(granted, 5s, now_).until, now_ + 5s);
  EXPECT_EQ((*kept)->stats().holds, 1u);
  now_ += 5s;
  EXPECT_EQ((*kept)->peek(by, "x", now_).remaining, 1);
  EXPECT_EQ((*kept)->renew(granted, 0s, now_).now.error, errc::hold_ended);
}

// Threads reserve and settle while another one commits: what is found is what they were told.
TEST_F(DurableHolds, ThreadsReserveWhileOthersCommit) {
  std::array<std::vector<hold>, 2> open_ones;
  std::array<int64_t, 2> used{};
  holds_max_ = 1'000;
  {
    auto kept = open();
    ASSERT_TRUE(kept) << kept.why().message;
    std::vector<std::thread> threads;
    for (size_t t = 0; t < 2; ++t)
      threads.emplace_back([&, t] {
        for (int i = 0; i < 200; ++i) {
          const hold its = reserve(*kept, 10, 1h);
          EXPECT_TRUE(its);
          if (i % 3 == 0) {
            open_ones[t].push_back(its);
          } else if (i % 3 == 1) {
            EXPECT_TRUE((*kept)->commit(its, {i % 20}, now_).now.allowed);
            used[t] += i % 20;
          } else {
            EXPECT_TRUE((*kept)->release(its, now_).now.allowed);
          }
          if (i % 20 == 0) {
            EXPECT_TRUE(kept->commit());
          }
        }
      });
    for (std::thread& thread : threads) thread.join();
  }
  auto kept = open();
  ASSERT_TRUE(kept) << kept.why().message;
  EXPECT_EQ((*kept)->stats().holds, 134u);
  EXPECT_EQ(left(*kept), many - used[0] - used[1] - 1'340);
  for (const auto& its : open_ones)
    for (const hold& one : its) EXPECT_EQ((*kept)->release(one, now_).returned, 10);
  EXPECT_EQ(left(*kept), many - used[0] - used[1]);
}

// A disk that is full while it lives: no file grows past some bytes. SIGXFSZ must be ignored.
class FullDisk {
 public:
  FullDisk() {
    getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit full{200'000, before_.rlim_max};
    setrlimit(RLIMIT_FSIZE, &full);
  }
  ~FullDisk() { setrlimit(RLIMIT_FSIZE, &before_); }
  FullDisk(const FullDisk&) = delete;
  FullDisk& operator=(const FullDisk&) = delete;

 private:
  rlimit before_{};
};

TEST_F(Durable, CommitsAgainOnceTheDiskHasRoom) {
  const int status = in_a_child([&] {
    signal(SIGXFSZ, SIG_IGN);
    auto kept = open();
    if (!kept) return 1;
    const handle by = places_of(*kept);
    {
      const FullDisk full;
      bool has_failed = false;
      for (int i = 0; i < 10'000 && !has_failed; ++i) {
        const std::string key = std::to_string(i) + std::string(1'000, 'x');
        if (!(*kept)->take(by, key, 1, start).allowed) return 2;
        if (!(*kept)->take(by, "all", 1, start).allowed) return 2;
        has_failed = !kept->commit();
      }
      if (!has_failed) return 3;
      if (!(*kept)->take(by, "all", 7, start).allowed) return 4;  // in memory it still decides
      if (const auto again = kept->commit(); again || again.why().code != errc::storage) return 5;
    }
    if (!kept->commit()) return 6;
    const int64_t left = (*kept)->peek(by, "all", start).remaining;
    _exit(many - left > 7 ? 0 : 7);
  });
  ASSERT_EQ(status, 0);
  auto kept = open();
  ASSERT_TRUE(kept) << kept.why().message;
  const handle by = places_of(*kept);
  // Each key that was taken has one unit, and `all` has one for each of them; then 7 more.
  int64_t found = 0;
  while ((*kept)->peek(by, std::to_string(found) + std::string(1'000, 'x'), start).remaining < many)
    ++found;
  EXPECT_GT(found, 0);
  EXPECT_EQ(many - (*kept)->peek(by, "all", start).remaining, found + 7);
}

// What the failed commit has, and what was decided after it, are two commits of the journal. One
// call makes both, and so does the end.
TEST_F(Durable, OneCommitAfterAFullDiskWritesAll) {
  constexpr int collected = 60'000, all = collected + 9'000;
  for (const bool is_killed : {true, false}) {
    where_.directory = folder_ / (is_killed ? "killed" : "closed");
    const int status = in_a_child([&] {
      signal(SIGXFSZ, SIG_IGN);
      auto kept = open();
      if (!kept) return 1;
      const handle by = places_of(*kept);
      const auto take = [&](int first, int last) {
        for (int i = first; i < last; ++i)
          if (!(*kept)->take(by, std::to_string(i), 1, start).allowed) return false;
        return true;
      };
      {
        const FullDisk full;
        if (!take(0, collected) || kept->commit()) return 2;
        if (!take(collected, all)) return 3;
      }
      if (!is_killed) return 0;
      if (!kept->commit()) return 4;
      _exit(0);
    });
    ASSERT_EQ(status, 0);
    auto kept = open();
    ASSERT_TRUE(kept) << kept.why().message;
    const handle by = places_of(*kept);
    int found = 0;
    for (int i = 0; i < all; ++i)
      found += (*kept)->peek(by, std::to_string(i), start).remaining == many - 1 ? 1 : 0;
    EXPECT_EQ(found, all);
  }
}

TEST_F(Durable, KeepsWhatAWaitWasGranted) {
  {
    auto kept = open();
    ASSERT_TRUE(kept) << kept.why().message;
    const auto by = (*kept)->limits("two", {{2, 0us, algorithm::fixed_bucket}});
    ASSERT_TRUE(by);
    ASSERT_TRUE((*kept)->take(*by, "a", 2, start).allowed);
    int granted = 0;
    (*kept)->wait(
        *by, "a", 1, latest_time, [&](wait_id, const decision& d) { granted += d.allowed; }, start);
    (*kept)->wait(
        *by, "a", 2, latest_time, [&](wait_id, const decision& d) { granted += d.allowed; }, start);
    (*kept)->put(*by, "a", 2, start);
    (*kept)->run_due(start);
    EXPECT_EQ(granted, 1);
  }
  auto kept = open();
  ASSERT_TRUE(kept) << kept.why().message;
  const auto by = (*kept)->limits("two", {{2, 0us, algorithm::fixed_bucket}});
  EXPECT_EQ((*kept)->peek(*by, "a", start).remaining, 1);
  EXPECT_EQ((*kept)->stats().waiting, 0u);
}

TEST_F(Durable, StoresCountersAndNotOverrides) {
  for (int life = 0; life < 2; ++life) {
    auto kept = open();
    ASSERT_TRUE(kept) << kept.why().message;
    ASSERT_TRUE((*kept)->reload_text(rules(10), start));
    const handle rule = *(*kept)->find("r");
    EXPECT_TRUE((*kept)->overrides(start)->empty());
    EXPECT_EQ((*kept)->peek(rule, "a", start).remaining, life == 0 ? 10 : 7);
    EXPECT_TRUE(
        (*kept)->set_override({"r", {"a"}, {{100, window, algorithm::fixed_window}}}, start));
    EXPECT_EQ((*kept)->peek(rule, "a", start).remaining, life == 0 ? 100 : 97);
    EXPECT_TRUE((*kept)->take(rule, "a", 3, start).allowed);
  }
}

TEST_F(Durable, ANewerFormatIsAnErrorAndStaysUnchanged) {
  ASSERT_TRUE(open());
  const std::string format = where_.directory + "/sluice/CURRENT";
  std::string text;
  std::getline(std::ifstream(format), text);
  const size_t digit = text.find_first_of("0123456789");
  ASSERT_NE(digit, std::string::npos) << text;
  const std::string newer = text.substr(0, digit) + "9" + text.substr(digit) + "\n";
  std::ofstream(format) << newer;
  const auto kept = open();
  ASSERT_FALSE(kept);
  EXPECT_EQ(kept.why().code, errc::storage);
  EXPECT_NE(kept.why().message.find("use that version, or another directory"), std::string::npos)
      << kept.why().message;
  std::getline(std::ifstream(format), text);
  EXPECT_EQ(text + "\n", newer);
}

TEST_F(Durable, ADirectoryThatCannotBeMadeIsAnError) {
  const std::string file = folder_ / "file";
  std::ofstream(file) << "text";
  where_.directory = file + "/below";
  const auto kept = open();
  ASSERT_FALSE(kept);
  EXPECT_EQ(kept.why().code, errc::storage);
  where_.directory.clear();
  EXPECT_EQ(open().why().code, errc::invalid_argument);
  where_.directory = folder_ / "counters";
  where_.commit_every = 999us;
  EXPECT_EQ(open().why().code, errc::invalid_argument);
}

TEST_F(Durable, InCWhatIsReservedMustBe0) {
  sluice_error error{};
  const auto opens = [&](size_t size, int32_t reserved, int32_t of_limiter) {
    sluice_durable_options where{};
    where.size = size;
    where.directory = where_.directory.c_str();
    where.reserved = reserved;
    sluice_options how{};
    how.size = sizeof how;
    how.reserved = of_limiter;
    sluice_durable* const kept = sluice_durable_open(&where, &how, &error);
    sluice_durable_close(kept);
    return kept != nullptr;
  };
  constexpr size_t size = sizeof(sluice_durable_options);
  EXPECT_TRUE(opens(size, 0, 0)) << error.message;
  EXPECT_FALSE(opens(size, 1, 0));
  EXPECT_STREQ(error.message, "sluice_durable_options::reserved must be 0");
  EXPECT_FALSE(opens(size, 0, 1));
  EXPECT_STREQ(error.message, "sluice_options::reserved must be 0");
  EXPECT_FALSE(opens(0, 0, 0));
  EXPECT_EQ(error.code, SLUICE_INVALID_ARGUMENT);
}

TEST_F(Durable, ADirectoryThatMayNotBeWrittenIsAnError) {
  std::filesystem::permissions(folder_.path(), std::filesystem::perms(0555));
  const int status = in_a_child([&] {
    if (geteuid() == 0 && setresuid(65'534, 65'534, 65'534) != 0) return 1;
    const auto kept = open();
    return !kept && kept.why().code == errc::storage ? 0 : 2;
  });
  std::filesystem::permissions(folder_.path(), std::filesystem::perms(0755));
  EXPECT_EQ(status, 0);
}

TEST(DurableChanges, AreCollectedAgainAfterAnException) {
  options how;
  how.memory_bytes = size_t{16} << 20;
  detail::core core(how);
  core.store().keep_changes();
  const handle by = *core.limits("x", {{many, 0us, algorithm::fixed_bucket}});
  for (int i = 0; i < 300; ++i)
    EXPECT_TRUE(core.decide(by, std::to_string(i), 1, request::Verb::take, start).allowed);
  std::multiset<std::string> seen;
  const auto collect = [&](size_t most) {
    core.store().collect([&](const request::CounterRecord& record) {
      if (seen.size() == most) throw std::bad_alloc();
      seen.emplace(record.key);
    });
  };
  for (const size_t most : {0u, 1u, 100u, 101u}) EXPECT_THROW(collect(most), std::bad_alloc);
  EXPECT_EQ(seen.size(), 101u);
  EXPECT_TRUE(core.decide(by, *seen.begin(), 1, request::Verb::take, start).allowed);
  collect(SIZE_MAX);
  EXPECT_EQ(seen.size(), 301u);
  collect(SIZE_MAX);
  EXPECT_EQ(seen.size(), 301u);
  EXPECT_EQ(std::set<std::string>(seen.begin(), seen.end()).size(), 300u);
}

// Without a commit new counters get no memory past options::memory_bytes, and existing ones still
// work; a commit frees those that equal fresh ones by then.
TEST_F(Durable, MemoryOfChangesIsBounded) {
  auto kept = open();
  ASSERT_TRUE(kept) << kept.why().message;
  const auto by = (*kept)->limits("short", {{5, 1s, algorithm::fixed_window}});
  ASSERT_TRUE(by);
  const auto take = [&](int i) { return (*kept)->take(*by, std::to_string(i), 1, now_); };
  int made = 0;
  while (made < 2'000'000 && take(made).allowed) ++made;
  ASSERT_LT(made, 2'000'000);
  EXPECT_EQ(take(made).error, errc::no_memory);
  EXPECT_EQ(take(0).remaining, 3);
  EXPECT_LE((*kept)->stats().memory_bytes, (*kept)->stats().memory_bytes_max);
  now_ += 10s;
  EXPECT_EQ(take(made).error, errc::no_memory);
  ASSERT_TRUE(kept->commit());
  EXPECT_TRUE(take(made).allowed);
}

}  // namespace sluice::durable_test
