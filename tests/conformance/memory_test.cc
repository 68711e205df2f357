// Replays the recordings of Divvy 1.7.1 (vectors.h) in memory: compares the replies, whether
// connections are closed, and the counters.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <stdexcept>

#include "tests/conformance/case_name.h"
#include "tests/conformance/memory_server.h"
#include "tests/conformance/vectors.h"

namespace sluice::tests::memory_test {
namespace {

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    lines.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return lines;
}

void expect_replies(const Step& step, const std::string& text) {
  EXPECT_TRUE(text.empty() || text.back() == '\n') << text;
  const auto lines = lines_of(text);
  EXPECT_EQ(lines.size(), step.replies.size()) << text;
  for (size_t i = 0; i < std::min(lines.size(), step.replies.size()); ++i)
    EXPECT_TRUE(same_reply(step.replies[i], lines[i]))
        << "expected " << step.replies[i] << "\ngot      " << lines[i];
}

// Whether `ours` are the recorded counters, and no others.
bool same_counters(const Counters& recorded, const Counters& ours) {
  return std::equal(recorded.begin(), recorded.end(), ours.begin(), ours.end(),
                    [](const auto& a, const auto& b) {
                      return same_key(a.first, b.first) && a.second.value == b.second.value &&
                             std::abs(a.second.ttl_s - b.second.ttl_s) <= 1;
                    });
}

std::string text_of(const Counters& counters) {
  std::string text;
  for (const auto& [name, counter] : counters)
    text += "  " + name.substr(0, 100) + " " + std::to_string(counter.value) + " for " +
            std::to_string(counter.ttl_s) + " s\n";
  return text;
}

enum class Cut { as_recorded, into_bytes };

void replay(const Case& c, Cut cut) {
  MemoryServer server(c.config, policy_of(c.config));
  std::map<int, MemoryConnection> connections;
  for (size_t i = 0; i < c.steps.size(); ++i) {
    SCOPED_TRACE("step " + std::to_string(i));
    const Step& step = c.steps[i];
    MemoryConnection& connection = connections.try_emplace(step.connection, server).first->second;
    ASSERT_FALSE(connection.closed());
    server.sleep(step.sleep_ms);
    for (const std::string& bytes : step.writes) {
      const size_t size = cut == Cut::into_bytes ? 1 : bytes.size();
      for (size_t at = 0; at < bytes.size(); at += size)
        connection.send(std::string_view(bytes).substr(at, size));
    }
    if (step.half_close) connection.half_close();
    expect_replies(step, connection.take());
    EXPECT_EQ(connection.closed(), step.closes);
  }
  if (!c.counters_known) return;
  const Counters counters = server.counters();
  const bool differs = std::any_of(counter_differences().begin(), counter_differences().end(),
                                   [&](const CounterDifference& d) { return c.name == d.name; });
  EXPECT_EQ(same_counters(c.counters, counters), !differs) << "recorded\n"
                                                           << text_of(c.counters) << "here\n"
                                                           << text_of(counters);
}

bool is_refused(const Case& c) {
  return std::any_of(refusals().begin(), refusals().end(),
                     [&](const Refusal& r) { return c.name == r.name; });
}

class DivvyInMemory : public testing::TestWithParam<Case> {};

TEST_P(DivvyInMemory, AnswersAsRecorded) {
  const Case& c = GetParam();
  if (is_refused(c))
    EXPECT_THROW(MemoryServer(refused_file, recording()["config files"][refused_file]),
                 std::runtime_error);
  else
    replay(c, Cut::as_recorded);
}

std::vector<Case> without_redis() {
  std::vector<Case> some = cases();
  std::erase_if(some, [](const Case& c) { return c.needs_redis; });
  return some;
}
INSTANTIATE_TEST_SUITE_P(Recorded, DivvyInMemory, testing::ValuesIn(without_redis()), case_name);

// Input that arrives byte by byte gets the same replies. The session's own tests do this for long
// lines.
TEST(DivvyByteByByte, AnswersAsRecorded) {
  size_t replayed = 0;
  for (const Case& c : cases()) {
    size_t bytes = 0;
    for (const Step& step : c.steps)
      for (const std::string& text : step.writes) bytes += text.size();
    if (bytes > 10'000 || c.needs_redis || is_refused(c)) continue;
    SCOPED_TRACE(c.name);
    replay(c, Cut::into_bytes);
    ++replayed;
  }
  EXPECT_EQ(replayed, cases().size() - needing_redis().size() - refusals().size() - 2);
}

}  // namespace
}  // namespace sluice::tests::memory_test
