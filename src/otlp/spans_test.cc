#include "otlp/spans.h"

#include <gtest/gtest.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <set>
#include <string>
#include <utility>
#include <vector>

namespace sluice::otlp {
namespace {

class SpansTest : public testing::Test {
 protected:
  SpansTest() { sampling_.set(1, false); }
  ~SpansTest() override { ::close(wake_); }

  std::vector<uint64_t> drain(size_t most = SIZE_MAX) {
    std::vector<uint64_t> ids;
    spans_.drain(most, [&](const Span& span) { ids.push_back(span.id); });
    return ids;
  }
  bool is_woken() {
    uint64_t count = 0;
    return ::read(wake_, &count, sizeof count) == sizeof count;
  }

  static constexpr size_t most = 8;
  static constexpr std::string_view parent =
      "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
  Sampling sampling_;
  std::atomic<bool> awake_{false};
  const int wake_ = ::eventfd(0, EFD_NONBLOCK);
  Spans spans_{most, sampling_, awake_, wake_};
};

TEST_F(SpansTest, ASpanIsTheChildOfItsCaller) {
  OpenSpan span = spans_.begin({.traceparent = parent}, {7});
  ASSERT_TRUE(span);
  EXPECT_EQ(span->trace, (TraceId{0x0af7651916cd43dd, 0x8448eb211c80319c}));
  EXPECT_EQ(span->parent, 0xb7ad6b7169203331u);
  EXPECT_NE(span->id, 0u);
  EXPECT_EQ(span->began, base::Time{7});
  span.end({9});
  EXPECT_FALSE(span);
  spans_.drain(1, [](const Span& its) { EXPECT_EQ(its.ended, base::Time{9}); });
}

TEST_F(SpansTest, WithoutACallerEachBeginsATraceOfItsOwn) {
  std::set<uint64_t> traces;
  for (size_t i = 0; i < most; ++i) {
    OpenSpan span = spans_.begin({}, {1});
    ASSERT_TRUE(span);
    EXPECT_EQ(span->parent, 0u);
    EXPECT_NE(span->trace, TraceId());
    traces.insert(span->trace.low);
    span.end({2});
  }
  EXPECT_EQ(traces.size(), most);
}

TEST_F(SpansTest, ThatAreAllInUseAreCountedAndComeBack) {
  std::vector<OpenSpan> open;
  for (size_t i = 0; i < most; ++i) {
    open.push_back(spans_.begin({}, {1}));
    EXPECT_TRUE(open.back());
  }
  EXPECT_FALSE(spans_.begin({}, {1}));
  EXPECT_EQ(spans_.dropped(), 1u);
  for (OpenSpan& span : open) span.end({2});
  EXPECT_FALSE(spans_.begin({}, {1}));  // they wait for the exporter
  EXPECT_EQ(drain(3).size(), 3u);
  for (size_t i = 0; i < 3; ++i) EXPECT_TRUE(open[i] = spans_.begin({}, {1}));
  EXPECT_FALSE(spans_.begin({}, {1}));
  EXPECT_EQ(spans_.dropped(), 3u);
  EXPECT_EQ(drain().size(), most - 3);
}

TEST_F(SpansTest, OneThatIsGivenUpIsFreeAndNotSent) {
  for (size_t i = 0; i < 3 * most; ++i) EXPECT_TRUE(spans_.begin({}, {1}));
  EXPECT_TRUE(drain().empty());
  EXPECT_EQ(spans_.dropped(), 0u);
}

TEST_F(SpansTest, HalfOfThemWakeTheExporterOnce) {
  for (size_t i = 0; i < most / 2 - 1; ++i) spans_.begin({}, {1}).end({2});
  EXPECT_FALSE(is_woken());
  for (size_t i = 0; i < 3; ++i) spans_.begin({}, {1}).end({2});
  EXPECT_TRUE(is_woken());
  EXPECT_FALSE(is_woken());
  EXPECT_TRUE(awake_);
}

TEST_F(SpansTest, AreSampledByTheShareWhereTheCallerDoesNotSay) {
  sampling_.set(0, false);
  EXPECT_FALSE(spans_.begin({}, {1}));
  EXPECT_FALSE(spans_.begin({.b3 = "0af7651916cd43dd-b7ad6b7169203331"}, {1}));
  EXPECT_TRUE(spans_.begin({.traceparent = parent}, {1}));
  sampling_.set(1, false);
  EXPECT_TRUE(spans_.begin({}, {1}));
  EXPECT_FALSE(spans_.begin({.b3 = "0"}, {1}));
  sampling_.set(0.25, false);
  int taken = 0;
  for (int i = 0; i < 10'000; ++i) taken += spans_.begin({}, {1}) ? 1 : 0;
  EXPECT_NEAR(taken, 2500, 300);
  EXPECT_EQ(spans_.dropped(), 0u);
}

// Every server decides alike about a trace.
TEST(Sampling, DependsOnTheTraceAlone) {
  Sampling some, more;
  some.set(0.3, false);
  more.set(0.6, false);
  std::mt19937_64 random(1);
  for (int i = 0; i < 10'000; ++i) {
    const TraceId trace{random(), random()};
    EXPECT_EQ(some.takes({}, trace), some.takes({}, trace));
    if (some.takes({}, trace)) {
      EXPECT_TRUE(more.takes({}, trace));
    }
  }
}

TEST(Span, CutsTextsToTheirRoom) {
  Span span;
  span.rule.append(std::string(200, 'r'));
  EXPECT_EQ(span.rule.view(), std::string(128, 'r'));
  span.note_entry("a", "b");
  span.note_entry("c", std::string(1000, 'd'));
  EXPECT_EQ(span.entries.view().substr(0, 9), "a=b, c=dd");
  EXPECT_EQ(span.entries.view().size(), 256u);
}

TEST(Span, TellsTheVerdictThatWeighsMost) {
  const limit::Decision decision{};
  const limit::Limit bucket{.algorithm = limit::Algorithm::token_bucket};
  request::Verdict allowed, denied, failed;
  allowed.tightest = denied.tightest = &decision;
  allowed.limit = denied.limit = &bucket;
  allowed.allowed = true;
  allowed.rule = "first";
  denied.rule = "second";
  failed.error = "the store is gone";
  Span span;
  span.note({});
  EXPECT_EQ(span.outcome, Outcome::unmatched);
  span.note(allowed);
  EXPECT_EQ(span.outcome, Outcome::allowed);
  EXPECT_EQ(span.rule.view(), "first");
  EXPECT_EQ(span.algorithm, "token_bucket");
  span.note(failed);
  EXPECT_EQ(span.outcome, Outcome::error);
  span.note(denied);
  span.note(allowed);
  EXPECT_EQ(span.outcome, Outcome::denied);
  EXPECT_EQ(span.rule.view(), "second");
}

}  // namespace
}  // namespace sluice::otlp
