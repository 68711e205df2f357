// Lists for several connections at once, against the keys that were taken: each list is answered
// exactly once and in order, or its client has gone.
#include "engine/lists.h"

#include <gtest/gtest.h>
#include <spdlog/sinks/null_sink.h>

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "base/bounds.h"
#include "base/hash.h"
#include "engine/engine.h"
#include "protocol/limitd/rules.h"
#include "protocol/limitd/session.h"
#include "request/space.h"
#include "store/embedded_store.h"
#include "store/forwarding_test.h"
#include "tests/support/dice.h"
#include "tests/support/patience.h"

namespace sluice::engine::lists_test {
namespace {

using sluice::tests::Dice;

int64_t now_us = 1'000'000'000'000;

// A store that, if `hesitates`, often answers `later` before it decides.
class Hesitant final : public store::tests::Forwarding {
 public:
  Hesitant(store::Store& inner, bool hesitates) : Forwarding(inner), hesitates_(hesitates) {}

  store::Applied apply(const request::Batch& batch, base::Time now,
                       store::CompletionQueue* completions, const store::Pin& pin,
                       request::Ticket ticket) override {
    if (hesitates_ && ticket.slot != request::no_ticket.slot && dice_(3u) > 0) {
      asked_.push_back(ticket);
      return {.settled = 0, .later = true};
    }
    return inner_.apply(batch, now, completions, pin, ticket);
  }
  void abandon(store::CompletionQueue&, request::Ticket ticket) override {
    std::erase_if(asked_, [&](const auto& one) { return one.slot == ticket.slot; });
  }
  bool answer(store::CompletionQueue& completions) {
    for (const request::Ticket ticket : asked_) completions.resume_batch(ticket);
    return !std::exchange(asked_, {}).empty();
  }
  void list_all(store::ListPass& pass) override {
    ++walks;
    inner_.catalog().list_all(pass);
  }
  std::atomic<size_t> walks{0};

 private:
  const bool hesitates_;
  Dice dice_{5};
  std::vector<request::Ticket> asked_;
};

struct World;

// Like a connection: at most one batch is suspended, and no batch is served while there is unsent
// output.
struct Client final : ReplySink {
  explicit Client(World& its_world) : world(its_world) {}
  ~Client() override;

  void ask(const std::string& type, const std::vector<std::string>& prefixes);
  void resume();
  void drain();

  void reply_late(const request::Request& request, const request::Verdict& verdict,
                  base::Time) override {
    EXPECT_FALSE(unsent) << "none is read while there is unsent output";
    answers.push_back({std::string(request.tag), {}});
    for (const auto& item : verdict.listed) answers.back().second.push_back(item.key);
  }
  void flush_late(bool) override { unsent = slow; }
  void resume(Batch& its) override {
    EXPECT_EQ(&its, batch);
    resumable = true;
    if (!unsent) resume();
  }
  bool has_unsent() const override { return unsent; }
  bool is_leaving() const override { return leaving; }

  World& world;
  limitd::LimitdSession session;
  std::deque<std::string> texts;  // the texts that requests refer to
  base::Buffer out;
  Batch* batch = nullptr;  // of its last request
  bool suspended = false, resumable = false, unsent = false, slow = false, leaving = false;
  std::vector<std::pair<std::string, std::string>> asked;  // ids and prefixes
  std::vector<std::pair<std::string, std::vector<std::string>>> answers;
};

struct World {
  explicit World(bool hesitates) : store(table, hesitates) {
    auto rules = std::make_shared<policy::RuleSet>();
    const std::string text =
        "db: { inMemory: true }\nbuckets: { ip: { size: 10, per_hour: 1 }, none: { size: 3 } }\n";
    const limitd::NamedText file{"limitd.yaml", text};
    limitd::LimitdConfig config;
    base::Diagnostics diagnostics;
    limitd::read_limitd({&file, 1}, {}, spaces, *rules, config, diagnostics);
    EXPECT_FALSE(base::has_errors(diagnostics));
    live = std::make_unique<live::Live>(live::LivePolicy{std::move(rules)});
    engine = std::make_unique<Engine>(
        Engine::Deps{.store = store,
                     .clock = clock,
                     .live = *live,
                     .scanner = &scanner,
                     .run = [this](std::function<void()> what) { post(std::move(what)); }},
        log);
  }

  void post(std::function<void()> what) {
    const std::lock_guard lock(mutex);
    posted.push_back(std::move(what));
    has_posted.notify_all();
  }
  // Runs what was posted, and has the store answer. False: there was nothing to do.
  bool turn() {
    std::deque<std::function<void()>> all;
    {
      const std::lock_guard lock(mutex);
      all.swap(posted);
    }
    for (const auto& what : all) what();
    const bool answered = store.answer(engine->completions());
    engine->advance();
    return answered || !all.empty();
  }
  bool run_until(const std::function<bool()>& done) {
    const auto deadline = sluice::tests::soon();
    while (!done()) {
      if (turn()) continue;
      std::unique_lock lock(mutex);
      if (!has_posted.wait_until(lock, deadline, [this] { return !posted.empty(); })) return false;
    }
    return true;
  }
  void take(const std::string& key) {
    Client client(*this);
    const std::string method = "take";
    client.batch = &engine->next_batch();
    request::Requests& requests = client.batch->requests;
    requests.open();
    requests.add(request::Entry{"type", "ip"});
    requests.add(request::Entry{"key", key});
    requests.commit({.verb = request::Verb::take, .tag = "1"});
    auto served = engine->serve(*client.batch, protocol::find("limitd").value(), client.session,
                                client.out, &client);
    while (served == Served::later) {
      store.answer(engine->completions());
      client.suspended = false;
      served = engine->resume(*client.batch, client.out);
    }
    keys.insert(key);
  }
  std::vector<std::string> expected(const std::string& prefix) const {
    std::vector<std::string> all;
    size_t bytes = 0;
    for (const std::string& key : keys) {
      if (!key.starts_with(prefix)) continue;
      bytes += key.size();
      const bool full = all.size() == base::bounds::listed_max ||
                        (!all.empty() && bytes > base::bounds::listed_bytes_max);
      if (full) break;
      all.push_back(key);
    }
    return all;
  }
  // Checks the answers so far; with `all`, that there is one for each request.
  void check(const Client& client, bool all) const {
    if (all) {
      EXPECT_EQ(client.answers.size(), client.asked.size());
    }
    ASSERT_LE(client.answers.size(), client.asked.size());
    for (size_t i = 0; i < client.answers.size(); ++i) {
      EXPECT_EQ(client.answers[i].first, client.asked[i].first);
      EXPECT_EQ(client.answers[i].second, expected(client.asked[i].second));
    }
  }

  request::Spaces spaces;
  base::Clock clock{{[] { return now_us; }, [] { return now_us; }}};
  store::EmbeddedStore table{0, base::Hash(1), spaces};
  Hesitant store;
  std::shared_ptr<spdlog::logger> log =
      std::make_shared<spdlog::logger>("test", std::make_shared<spdlog::sinks::null_sink_mt>());
  std::unique_ptr<live::Live> live;
  std::set<std::string> keys;
  std::mutex mutex;
  std::condition_variable has_posted;
  std::deque<std::function<void()>> posted;
  size_t last_id = 0;
  std::unique_ptr<Engine> engine;
  TableScanner scanner{store};
};

Client::~Client() {
  world.engine->forget(*this);
}

void Client::ask(const std::string& type, const std::vector<std::string>& prefixes) {
  ASSERT_FALSE(suspended || unsent);
  texts.clear();
  batch = &world.engine->next_batch();
  request::Requests& requests = batch->requests;
  for (const std::string& prefix : prefixes) {
    const std::string& id = texts.emplace_back(std::to_string(++world.last_id));
    const std::string& its = texts.emplace_back(prefix);
    requests.open();
    requests.add(request::Entry{"type", texts.emplace_back(type)});
    requests.add(request::Entry{"key", its});
    requests.commit({.verb = request::Verb::list, .note = 3, .tag = id});
    if (!leaving) asked.emplace_back(id, prefix);
  }
  out.clear();
  suspended = world.engine->serve(*batch, protocol::find("limitd").value(), session, out, this) ==
              Served::later;
}

void Client::resume() {
  resumable = false;
  if (suspended) suspended = world.engine->resume(*batch, out) == Served::later;
}

void Client::drain() {
  unsent = false;
  world.engine->continue_lists(*this);
  if (resumable) resume();
}

std::vector<std::string> times(size_t n, const std::string& prefix) {
  return std::vector<std::string>(n, prefix);
}

TEST(EngineLists, ListsBeyondTheBoundWaitAndAreNotEmpty) {
  World w(false);
  w.take("a");
  w.take("b");
  Client client(w);
  client.ask("ip", times(3 * base::bounds::lists_per_connection_max + 1, ""));
  EXPECT_TRUE(client.suspended) << "nothing is read of it meanwhile";
  ASSERT_TRUE(w.run_until([&] { return client.answers.size() == client.asked.size(); }));
  w.check(client, true);
  EXPECT_FALSE(client.suspended);
  EXPECT_FALSE(w.engine->has_lists(client));
}

TEST(EngineLists, ManyListsOfOneConnectionShareFewPasses) {
  World w(false);
  w.take("a");
  Client client(w);
  client.ask("ip", times(base::bounds::lists_per_connection_max, ""));
  ASSERT_TRUE(w.run_until([&] { return client.answers.size() == client.asked.size(); }));
  EXPECT_LE(w.store.walks, 2u) << "the first may have begun before the others came";
}

TEST(EngineLists, DoesNotStartAListWhileItsClientDoesNotRead) {
  World w(false);
  for (int i = 0; i < 10; ++i) w.take("k" + std::to_string(i));
  Client slow(w), other(w);
  slow.slow = true;
  slow.ask("ip", times(10, "k"));
  ASSERT_TRUE(w.run_until([&] { return !slow.answers.empty(); }));
  other.ask("ip", times(10, "k"));
  ASSERT_TRUE(w.run_until([&] { return other.answers.size() == 10; }));
  EXPECT_EQ(slow.answers.size(), 1u);
  for (size_t n = 2; n <= 10; ++n) {
    slow.drain();
    ASSERT_TRUE(w.run_until([&] { return slow.answers.size() == n; }));
  }
  w.check(slow, true);
}

// Only so many bytes of keys are held for slow clients; what does not fit is searched again.
TEST(EngineLists, ReadsLongKeysAgainForSlowClients) {
  World w(false);
  for (int i = 0; i < 20; ++i) w.take("k" + std::to_string(10 + i) + std::string(60'000, 'x'));
  ASSERT_LT(w.expected("").size(), 20u);
  std::vector<std::unique_ptr<Client>> clients;
  for (int i = 0; i < 3; ++i) {
    clients.push_back(std::make_unique<Client>(w));
    clients.back()->slow = true;
    clients.back()->ask("ip", times(64, ""));
  }
  const auto done = [&] {
    for (auto& client : clients) {
      if (client->unsent) client->drain();
      if (client->answers.size() < client->asked.size()) return false;
    }
    return true;
  };
  ASSERT_TRUE(w.run_until(done));
  for (auto& client : clients) w.check(*client, true);
  EXPECT_GT(w.store.walks, 2u);
}

class EngineListsAtRandom : public testing::TestWithParam<bool> {};

TEST_P(EngineListsAtRandom, EveryListIsAnsweredOnceUnlessItsClientLeft) {
  for (unsigned seed = 0; seed < 12; ++seed) {
    Dice dice(seed);
    World w(GetParam());
    for (size_t n = dice(size_t{300}); n > 0; --n) {
      std::string key;
      for (size_t i = dice(size_t{5}); i > 0; --i) key += std::array{'a', 'b', 'c'}[dice(3u)];
      w.take(key + (dice(8u) == 0 ? std::string(dice(size_t{40'000}), 'd') : ""));
    }
    std::vector<std::unique_ptr<Client>> clients(6);
    for (int step = 0; step < 600; ++step) {
      auto& client = clients[dice(clients.size())];
      if (client == nullptr) {
        client = std::make_unique<Client>(w);
        client->slow = dice(2u) == 0;
      }
      switch (dice(8u)) {
        case 0:
        case 1:
        case 2: {
          if (client->suspended || client->unsent) break;
          std::vector<std::string> prefixes;
          for (size_t n = dice(size_t{dice(10u) == 0 ? 150u : 5u}); n > 0; --n)
            prefixes.push_back(std::array{"", "a", "ab", "abc", "c", "x"}[dice(6u)]);
          client->ask("ip", prefixes);
          break;
        }
        case 3:
          if (client->unsent) client->drain();
          break;
        case 4:
          if (dice(5u) > 0) break;
          w.check(*client, false);
          client.reset();
          break;
        case 5:
          if (dice(5u) > 0 || client->leaving) break;
          client->leaving = true;
          client->asked.resize(client->answers.size());
          w.engine->drop_lists(*client);
          break;
        default:
          w.turn();
      }
      if (HasFailure()) return;
    }
    // As when a server stops: every request that was made is answered.
    ASSERT_TRUE(w.run_until([&] {
      bool all = true;
      for (auto& client : clients) {
        if (client != nullptr && client->unsent) client->drain();
        all &= client == nullptr || (!client->suspended && !w.engine->has_lists(*client));
      }
      return all;
    })) << seed;
    for (auto& client : clients)
      if (client != nullptr) w.check(*client, true);
  }
}

INSTANTIATE_TEST_SUITE_P(Stores, EngineListsAtRandom, testing::Bool(), [](const auto& hesitates) {
  return std::string(hesitates.param ? "Hesitant" : "AtOnce");
});

}  // namespace
}  // namespace sluice::engine::lists_test
