// Checks of passwords, which another thread makes for a worker's requests.
#include "engine/errands.h"

#include <gtest/gtest.h>

#include <condition_variable>
#include <deque>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "access/access.h"
#include "engine/engine.h"
#include "engine/waiting_world_test.h"
#include "policy/read/native.h"
#include "tests/support/patience.h"

namespace sluice::engine {
namespace {

using request::Verb;

// A session that records the verdicts that it receives.
struct Asker final : request::Session, ReplySink {
  struct Told {
    bool allowed = false;
    std::string error;
  };
  request::Received receive(std::string_view, bool, request::Requests&, base::Buffer&) override {
    return {};
  }
  bool reply(const request::Request& request, const request::Verdict& verdict, base::Time,
             base::Buffer&) override {
    told.emplace_back(std::string(request.tag), Told{verdict.allowed, std::string(verdict.error)});
    return true;
  }
  std::string_view fault() const override { return ""; }
  void farewell(base::Buffer&) override {}
  void refuse(std::string_view, base::Buffer&) override {}
  void reply_late(const request::Request& request, const request::Verdict& verdict,
                  base::Time now) override {
    base::Buffer out;
    reply(request, verdict, now, out);
  }
  void flush_late(bool) override { ++flushed; }
  void resume(Batch&) override { ADD_FAILURE(); }

  std::vector<std::pair<std::string, Told>> told;
  size_t flushed = 0;
};

struct World {
  explicit World(access::Access* users = nullptr)
      : engine({.store = store,
                .clock = clock,
                .live = live,
                .access = users,
                .run =
                    [this](std::function<void()> what) {
                      const std::lock_guard lock(mutex);
                      posted.push_back(std::move(what));
                      some.notify_one();
                    }},
               std::make_shared<spdlog::logger>("test",
                                                std::make_shared<spdlog::sinks::null_sink_mt>())) {}

  void ask(Asker& asker, const request::Request& request,
           const std::vector<request::Entry>& entries = {}) {
    Batch& batch = engine.next_batch();
    batch.requests.open();
    for (const request::Entry& entry : entries) batch.requests.add(entry);
    batch.requests.commit(request);
    base::Buffer out;
    EXPECT_EQ(engine.serve(batch, protocol::Protocol{}, asker, out, &asker), Served::all);
  }
  void log_in(Asker& asker, std::string_view user, std::string_view password) {
    ask(asker, {.verb = Verb::log_in, .prefix = {}, .tag = user},
        {{request::user_entry, user},
         {request::password_entry, password},
         {request::address_entry, "127.0.0.1"}});
  }
  // Waits for work that another thread posts to this one, and runs it.
  void run_posted() {
    std::unique_lock lock(mutex);
    ASSERT_TRUE(some.wait_until(lock, sluice::tests::soon(), [this] { return !posted.empty(); }));
    const auto what = std::move(posted.front());
    posted.pop_front();
    lock.unlock();
    what();
  }

  request::Spaces spaces;
  store::EmbeddedStore store{0, base::Hash(1), spaces};
  base::Clock clock;
  live::Live live{live::LivePolicy{std::make_shared<policy::RuleSet>()}};
  std::mutex mutex;
  std::condition_variable some;
  std::deque<std::function<void()>> posted;
  Engine engine;
};

std::shared_ptr<const access::Users> users() {
  return std::make_shared<const access::Users>(
      std::vector<access::User>{{"app", {access::Right::take}, "", "secret"}});
}

TEST(Errands, APasswordCheckIsAnsweredLater) {
  access::Access access(users());
  World world(&access);
  Asker asker;
  world.log_in(asker, "app", "secret");
  EXPECT_TRUE(asker.told.empty());
  EXPECT_EQ(world.engine.held().parked, 1u);
  world.run_posted();
  ASSERT_EQ(asker.told.size(), 1u);
  EXPECT_TRUE(asker.told[0].second.allowed);
  EXPECT_EQ(asker.flushed, 1u);
  world.log_in(asker, "app", "wrong");
  world.run_posted();
  EXPECT_FALSE(asker.told.at(1).second.allowed);
  EXPECT_EQ(asker.told[1].second.error, "");
  EXPECT_EQ(world.engine.held(), Engine::Held());
  access.stop();
}

TEST(Errands, AClientThatLeftGetsNoAnswer) {
  access::Access access(users());
  World world(&access);
  {
    Asker asker;
    world.log_in(asker, "app", "secret");
    world.engine.forget(asker);
    world.run_posted();
    EXPECT_TRUE(asker.told.empty());
  }
  EXPECT_EQ(world.engine.held(), Engine::Held());
  access.stop();
}

TEST(Errands, TooManyPasswordsAreAnErrorAtOnce) {
  access::Access access(users());
  World world(&access);
  std::promise<void> begun, go;
  const auto may_go = go.get_future().share();
  ASSERT_TRUE(access.check("app", "secret", "127.0.0.1", [&begun, may_go](bool) {
    begun.set_value();
    may_go.wait();
  }));
  begun.get_future().wait();
  for (size_t i = 0; i < access::Access::checks_of_source_max; ++i)
    ASSERT_TRUE(access.check("app", "other", "127.0.0.1", [](bool) {}));
  Asker asker;
  world.log_in(asker, "app", "other");
  ASSERT_EQ(asker.told.size(), 1u);
  EXPECT_EQ(asker.told[0].second.error, "too many passwords are being checked, try again later");
  EXPECT_EQ(world.engine.held(), Engine::Held());
  go.set_value();
  access.stop();
  World without;
  without.log_in(asker, "app", "secret");
  EXPECT_NE(asker.told.at(1).second.error, "");
}

}  // namespace
}  // namespace sluice::engine
