// Batches that wait for their store: replies stay in order, several batches wait at once, policies
// change meanwhile, and clients go.
#include <gtest/gtest.h>
#include <spdlog/sinks/null_sink.h>

#include <set>
#include <string>

#include "base/hash.h"
#include "engine/engine.h"
#include "protocol/divvy/rules.h"
#include "protocol/divvy/session.h"
#include "request/space.h"
#include "store/embedded_store.h"
#include "store/forwarding_test.h"

namespace sluice::engine::suspended_test {
namespace {

int64_t now_us = 1'000'000'000'000;

// A store that decides `step` groups at each call, and answers `later` for the rest.
class Elsewhere final : public store::tests::Forwarding {
 public:
  Elsewhere(store::Store& inner, size_t step) : Forwarding(inner), step_(step) {}

  store::Applied apply(const request::Batch& batch, base::Time now,
                       store::CompletionQueue* completions, const store::Pin& pin,
                       request::Ticket ticket) override {
    EXPECT_NE(completions, nullptr);
    if (!asked_.contains(ticket.slot)) {
      asked_.insert(ticket.slot);
      asks.push_back(ticket);
      return {.settled = 0, .later = true};
    }
    asked_.erase(ticket.slot);
    auto part = batch;
    part.groups = part.groups.first(std::min(step_, part.groups.size()));
    store::Applied applied = inner_.apply(part, now, completions, pin);
    if (applied.settled < batch.groups.size()) {
      asked_.insert(ticket.slot);
      asks.push_back(ticket);
      applied.later = true;
    }
    return applied;
  }
  void abandon(store::CompletionQueue&, request::Ticket ticket) override {
    asked_.erase(ticket.slot);
    abandoned.push_back(ticket);
  }
  // Resumes all batches that were answered `later`.
  void answer(store::CompletionQueue& completions) {
    for (const request::Ticket ticket : std::exchange(asks, {})) completions.resume_batch(ticket);
  }

  std::vector<request::Ticket> asks, abandoned;

 private:
  const size_t step_;
  std::set<uint32_t> asked_;
};

struct Client final : ReplySink {
  void reply_late(const request::Request&, const request::Verdict&, base::Time) override {}
  void flush_late(bool) override {}
  void resume(Batch& its) override {
    EXPECT_EQ(&its, batch);
    called = true;
  }

  divvy::DivvySession session;
  base::Buffer out;
  Batch* batch = nullptr;
  bool called = false;
};

struct Fixture {
  explicit Fixture(size_t step) : elsewhere(store, step) {
    live = std::make_unique<live::Live>(
        live::LivePolicy{rules("creditLimit = 10\nresetSeconds = 60\n")});
    engine = std::make_unique<Engine>(
        Engine::Deps{.store = elsewhere, .clock = clock, .live = *live}, log);
  }
  std::shared_ptr<const policy::RuleSet> rules(const std::string& numbers) {
    auto set = std::make_shared<policy::RuleSet>();
    base::Diagnostics diagnostics;
    divvy::read_divvy(
        "[a=1]\ncreditLimit = 2\nresetSeconds = 60\nmatchPolicy = canary\n"
        "[default]\n" +
            numbers,
        divvy::DivvyFormat::ini, divvy::DivvyMatching::code, "test.ini", spaces, *set, diagnostics);
    EXPECT_FALSE(base::has_errors(diagnostics));
    return set;
  }
  Served ask(Client& client, std::string_view text) {
    client.batch = &engine->next_batch();
    client.session.receive(text, false, client.batch->requests, client.out);
    return engine->serve(*client.batch, protocol::find("divvy").value(), client.session, client.out,
                         &client);
  }
  // Serves until the client has its replies. Returns how many times the batch was suspended.
  size_t finish(Client& client) {
    size_t waits = 0;
    for (Served served = Served::later; served == Served::later; ++waits) {
      elsewhere.answer(engine->completions());
      engine->advance();
      EXPECT_TRUE(std::exchange(client.called, false));
      served = engine->resume(*client.batch, client.out);
    }
    return waits;
  }

  std::shared_ptr<spdlog::logger> log =
      std::make_shared<spdlog::logger>("test", std::make_shared<spdlog::sinks::null_sink_mt>());
  request::Spaces spaces;
  base::Clock clock{{[] { return now_us; }, [] { return now_us; }}};
  store::EmbeddedStore store{0, base::Hash(1), spaces};
  Elsewhere elsewhere;
  std::unique_ptr<live::Live> live;
  std::unique_ptr<Engine> engine;
};

TEST(Suspended, RepliesKeepTheirOrderThroughRepeatedSuspensions) {
  for (size_t step = 1; step <= 8; ++step) {
    Fixture f(step);
    Client client;
    const std::string text = "HIT a=1\nHIT a=2\nHIT a=1\nHIT\n";  // 6 groups, 2 of shadow rules
    ASSERT_EQ(f.ask(client, text), Served::later);
    EXPECT_EQ(client.out.view(), "");
    const size_t waits = f.finish(client);
    EXPECT_GE(waits, (6 + step - 1) / step);
    EXPECT_EQ(client.out.view(), "OK true 9 60\nOK true 8 60\nOK true 7 60\nOK true 6 60\n");
  }
}

TEST(Suspended, BatchesOfSeveralClientsResumeInAnyOrder) {
  Fixture f(1);
  std::array<Client, 3> clients;
  for (auto& client : clients) ASSERT_EQ(f.ask(client, "HIT a=2\nHIT a=2\n"), Served::later);
  std::swap(f.elsewhere.asks[0], f.elsewhere.asks[2]);
  for (auto& client : clients) {
    f.elsewhere.answer(f.engine->completions());
    f.engine->advance();
    ASSERT_TRUE(client.called);
    client.called = false;
    while (f.engine->resume(*client.batch, client.out) == Served::later)
      f.elsewhere.answer(f.engine->completions());
  }
  EXPECT_EQ(clients[0].out.view(), "OK true 9 60\nOK true 8 60\n");
  EXPECT_EQ(clients[1].out.view(), "OK true 7 60\nOK true 6 60\n");
  EXPECT_EQ(clients[2].out.view(), "OK true 5 60\nOK true 4 60\n");
}

TEST(Suspended, ABatchIsFinishedUnderThePolicyThatItWasMatchedBy) {
  Fixture f(1);
  Client client;
  ASSERT_EQ(f.ask(client, "HIT a=2\n"), Served::later);
  std::weak_ptr<const policy::RuleSet> old = f.live->current()->rules;
  f.live->exchange(std::make_shared<live::LivePolicy>(
      live::LivePolicy{f.rules("creditLimit = 100\nresetSeconds = 60\n"), 0, 2}));
  EXPECT_TRUE(f.engine->take_policy());
  EXPECT_FALSE(old.expired());
  f.finish(client);
  EXPECT_EQ(client.out.view(), "OK true 9 60\n");
  EXPECT_TRUE(old.expired());
}

TEST(Suspended, AbandonsTheBatchOfALeavingClient) {
  Fixture f(1);
  {
    Client client;
    ASSERT_EQ(f.ask(client, "HIT a=2\n"), Served::later);
    f.engine->forget(client);
  }
  ASSERT_EQ(f.elsewhere.abandoned.size(), 1u);
  f.elsewhere.answer(f.engine->completions());
  f.engine->advance();  // resumes a ticket that has no batch any longer
  Client next;
  ASSERT_EQ(f.ask(next, "HIT a=2\n"), Served::later);
  EXPECT_NE(f.elsewhere.asks.front(), f.elsewhere.abandoned.front());
  f.finish(next);
  EXPECT_EQ(next.out.view(), "OK true 9 60\n");
}

}  // namespace
}  // namespace sluice::engine::suspended_test
