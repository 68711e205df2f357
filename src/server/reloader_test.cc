// Reloads (live/reloader.h): on which thread old rules are freed, and that no thread keeps them.
#include "live/reloader.h"

#include <gtest/gtest.h>
#include <spdlog/sinks/ostream_sink.h>

#include <condition_variable>
#include <csignal>
#include <future>
#include <mutex>
#include <sstream>

#include "base/hash.h"
#include "engine/engine.h"
#include "log/log.h"
#include "server/server.h"
#include "store/embedded_store.h"

namespace sluice::server {
namespace {

using namespace std::chrono_literals;

// Rules that record on which thread they are freed.
class Rules {
 public:
  std::shared_ptr<const policy::RuleSet> make() {
    ++made_;
    return {new policy::RuleSet, [this](const policy::RuleSet* rules) {
              delete rules;
              const std::lock_guard lock(mutex_);
              freed_by_.push_back(std::this_thread::get_id());
              changed_.notify_all();
            }};
  }

  bool await_freed(size_t count) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, 25s, [&] { return freed_by_.size() >= count; });
  }

  size_t made() const { return made_; }
  std::vector<std::thread::id> freed_by() {
    const std::lock_guard lock(mutex_);
    return freed_by_;
  }

 private:
  std::atomic<size_t> made_{0};
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::thread::id> freed_by_;
};

std::shared_ptr<spdlog::logger> quiet_log() {
  static std::ostringstream nowhere;
  return std::make_shared<spdlog::logger>(
      "test", std::make_shared<spdlog::sinks::ostream_sink_mt>(nowhere));
}

// A `load` that returns a new policy at each call, and notes its thread.
std::function<live::Loaded(uint64_t)> fresh_each_time(Rules& rules, std::thread::id& thread) {
  return [&](uint64_t hash) {
    thread = std::this_thread::get_id();
    live::Loaded loaded;
    loaded.rules = rules.make();
    loaded.hash = hash + 1;
    return loaded;
  };
}

TEST(Reloader, FreesTheOldRulesOnItsThreadBeforeTheNextReading) {
  Rules rules;
  std::thread::id reloading;
  live::Live live({rules.make()});
  auto held = live.current();  // as a worker holds it
  std::promise<void> first;
  live::Reloader reloader(
      live.current(), fresh_each_time(rules, reloading), {},
      [&](const std::shared_ptr<const live::LivePolicy>& next) {
        live.exchange(next);
        if (next->generation == 2) first.set_value();
      },
      quiet_log());
  ASSERT_EQ(reloader.start(), std::nullopt);
  reloader.request("a test");
  first.get_future().wait();
  EXPECT_EQ(live.current()->generation, 2u);
  reloader.request("a test");
  std::this_thread::sleep_for(50ms);
  EXPECT_EQ(rules.made(), 2u) << "the first generation is still held";
  EXPECT_TRUE(rules.freed_by().empty());
  held = live.current();
  ASSERT_TRUE(rules.await_freed(1));
  held.reset();
  ASSERT_TRUE(rules.await_freed(2));
  reloader.stop();
  EXPECT_EQ(rules.freed_by(), std::vector(2, reloading));
  EXPECT_EQ(live.current()->generation, 3u);
}

// For files whose changes no event reports.
TEST(Reloader, ReadsAgainInIntervalsWithoutANotification) {
  Rules rules;
  live::Live live({rules.make()});
  std::atomic<int> loads{0};
  std::promise<void> third;
  const auto same = [&](uint64_t hash) {
    if (++loads == 3) third.set_value();
    live::Loaded loaded;
    loaded.hash = hash;
    return loaded;
  };
  live::Reloader reloader(
      live.current(), same, {}, [](auto) { FAIL(); }, quiet_log(), 20ms);
  ASSERT_EQ(reloader.start(), std::nullopt);
  EXPECT_EQ(third.get_future().wait_for(25s), std::future_status::ready);
  reloader.stop();
}

// A reload on request reports what is wrong with the live policy, even if nothing has changed.
TEST(Reloader, RepeatsTheDiagnosticsOfTheLivePolicy) {
  Rules rules;
  live::Live live({rules.make()});
  const auto told = [](const std::string& message) {
    base::Diagnostic d;
    d.severity = base::Diagnostic::Severity::warning;
    d.message = message;
    return base::Diagnostics(150, d);  // more than are repeated
  };
  std::atomic<int> loads{0};
  const auto load = [&](uint64_t hash) {
    live::Loaded loaded;
    loaded.hash = hash;
    if (++loads != 2) return loaded;
    loaded.rules = rules.make();
    loaded.hash = hash + 1;
    loaded.diagnostics = told("of the second");
    return loaded;
  };
  live::Reloader reloader(
      live.current(), load, {},
      [&](const std::shared_ptr<const live::LivePolicy>& next) { live.exchange(next); },
      quiet_log(), {}, told("of the first"));
  ASSERT_EQ(reloader.start(), std::nullopt);
  using Outcome = live::Reading::Outcome;
  const std::pair<Outcome, const char*> expected[] = {{Outcome::unchanged, "of the first"},
                                                      {Outcome::live, "of the second"},
                                                      {Outcome::unchanged, "of the second"}};
  for (const auto& [outcome, message] : expected) {
    const auto reading = reloader.history().await(reloader.request("a test"),
                                                  std::chrono::steady_clock::now() + 25s);
    ASSERT_TRUE(reading);
    EXPECT_EQ(reading->outcome, outcome);
    ASSERT_EQ(reading->diagnostics.size(), 100u);
    EXPECT_EQ(reading->diagnostics.front().message, message);
  }
  reloader.stop();
}

TEST(Reloader, AStopDoesNotWaitForHoldersOfTheOldRules) {
  Rules rules;
  std::thread::id reloading;
  live::Live live({rules.make()});
  const auto held = live.current();
  std::promise<void> published;
  live::Reloader reloader(
      live.current(), fresh_each_time(rules, reloading), {},
      [&](const std::shared_ptr<const live::LivePolicy>& next) {
        live.exchange(next);
        published.set_value();
      },
      quiet_log());
  ASSERT_EQ(reloader.start(), std::nullopt);
  reloader.request("a test");
  published.get_future().wait();
  reloader.stop();
  EXPECT_EQ(held->generation, 1u);
}

TEST(Reloader, AnEngineSwitchesToTheNewPolicyAndReleasesTheOld) {
  Rules rules;
  live::Live live({rules.make()});
  base::Clock clock;
  const request::Spaces spaces;
  store::EmbeddedStore store(0, base::Hash(1), spaces);
  engine::Engine engine({.store = store, .clock = clock, .live = live}, quiet_log());
  EXPECT_FALSE(engine.take_policy());
  auto old =
      live.exchange(std::make_shared<const live::LivePolicy>(live::LivePolicy{rules.make(), 7, 2}));
  EXPECT_EQ(old.use_count(), 2);
  EXPECT_TRUE(engine.take_policy());
  EXPECT_EQ(old.use_count(), 1);
  EXPECT_FALSE(engine.take_policy());
}

// The server receives no requests, and yet no worker keeps the old rules.
TEST(Reloader, IdleWorkersReleaseTheOldRules) {
  Rules rules;
  std::thread::id reloading;
  const request::Spaces spaces;
  store::EmbeddedStore store(0, base::Hash(1), spaces);
  live::Policy policy;
  policy.first = {rules.make()};
  policy.load = fresh_each_time(rules, reloading);
  server::Options options;
  options.listeners = {{protocol::find("divvy").value(), "127.0.0.1", 0}};
  options.workers = 3;
  log::Log log(spdlog::level::off);
  server::Server server(options, std::move(policy), store, log);
  ASSERT_EQ(server.start(), std::nullopt);
  std::thread running([&] { server.run(); });
  kill(getpid(), SIGHUP);
  EXPECT_TRUE(rules.await_freed(1));
  kill(getpid(), SIGHUP);
  EXPECT_TRUE(rules.await_freed(2));
  EXPECT_EQ(rules.freed_by(), std::vector(2, reloading));
  kill(getpid(), SIGTERM);
  running.join();
}

// The disk of a file may not answer: a stop does not wait for it for ever.
TEST(Reloader, StopsWithoutAReadingThatDoesNotEnd) {
  Rules rules;
  live::Live live({rules.make()});
  std::promise<void> begun, released;
  const auto held_up = [&](uint64_t hash) {
    begun.set_value();
    released.get_future().wait();
    live::Loaded loaded;
    loaded.hash = hash;
    return loaded;
  };
  live::Reloader reloader(
      live.current(), held_up, {}, [](auto) { FAIL(); }, quiet_log());
  ASSERT_EQ(reloader.start(), std::nullopt);
  reloader.request("a test");
  begun.get_future().wait();
  EXPECT_FALSE(reloader.stop(1ms));
  released.set_value();
  EXPECT_TRUE(reloader.stop());
}

}  // namespace
}  // namespace sluice::server
