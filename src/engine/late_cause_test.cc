// A request waits, and then its store fails: the late verdict has the cause, by which protocols
// choose their errors.
#include <gtest/gtest.h>
#include <spdlog/sinks/null_sink.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/hash.h"
#include "engine/engine.h"
#include "request/space.h"
#include "store/embedded_store.h"
#include "store/forwarding_test.h"

namespace sluice::engine::late_cause_test {
namespace {

constexpr base::Time now{1'000'000'000'000};

// A store that parks every request that may wait.
class Parking final : public store::tests::Forwarding {
 public:
  using Forwarding::Forwarding;
  store::Applied apply(const request::Batch& batch, base::Time, store::CompletionQueue* completions,
                       const store::Pin&, request::Ticket) override {
    for (request::Group& group : batch.groups) {
      group.parked = group.may_wait;
      parked = group.ticket;
    }
    queue = completions;
    return {batch.groups.size()};
  }
  std::optional<base::Time> advance(store::CompletionQueue&, base::Time) override { return {}; }

  store::CompletionQueue* queue = nullptr;
  request::Ticket parked;
};

struct Waiter final : request::Session, ReplySink {
  request::Received receive(std::string_view, bool, request::Requests&, base::Buffer&) override {
    return {};
  }
  bool reply(const request::Request&, const request::Verdict&, base::Time, base::Buffer&) override {
    ADD_FAILURE() << "it waits";
    return true;
  }
  request::Fault fault() const override { return {}; }
  void end(request::Ending, std::string_view, base::Buffer&) override {}
  void reply_late(const request::Request&, const request::Verdict& verdict, base::Time) override {
    causes.push_back(verdict.cause);
    EXPECT_NE(verdict.error, "");
  }
  void flush_late(bool) override {}
  void resume(Batch&) override { ADD_FAILURE(); }

  std::vector<request::Error> causes;
};

TEST(LateReplies, HaveTheStoresReasonForAFailure) {
  request::Spaces spaces;
  base::Clock clock{{[] { return now.us; }, [] { return now.us; }}};
  store::EmbeddedStore table{0, base::Hash(1), spaces};
  Parking store(table);
  auto rules = std::make_shared<policy::RuleSet>();
  policy::Rule rule;
  rule.limits = {{limit::Algorithm::fixed_window, 10, base::seconds(60)}};
  rule.intern(spaces, spaces.hold("all:", "", request::Space()));
  rules->add(policy::native_dialect, std::move(rule));
  const live::Live live(live::LivePolicy{std::move(rules)});
  Engine engine(
      {.store = store, .clock = clock, .live = live},
      std::make_shared<spdlog::logger>("test", std::make_shared<spdlog::sinks::null_sink_mt>()));
  Waiter waiter;
  for (const auto cause : {request::Error::store, request::Error::memory}) {
    Batch& batch = engine.next_batch();
    batch.requests.open();
    batch.requests.commit({.verb = request::Verb::wait, .tag = {}});
    base::Buffer out;
    ASSERT_EQ(engine.serve(batch, protocol::Protocol{}, waiter, out, &waiter), Served::all);
    ASSERT_NE(store.queue, nullptr);
    store.queue->settle({store.parked, cause, now, {}});
    engine.advance();
    ASSERT_FALSE(waiter.causes.empty());
    EXPECT_EQ(waiter.causes.back(), cause);
  }
  EXPECT_EQ(waiter.causes.size(), 2u);
  engine.forget(waiter);
}

}  // namespace
}  // namespace sluice::engine::late_cause_test
