// Replays Divvy's recordings in memory against the native rules that `sluice init --divvy` makes of
// their files: every reply must decide as with the file itself.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <sstream>
#include <stdexcept>

#include "base/bounds.h"
#include "tests/conformance/memory_server.h"
#include "tests/conformance/vectors.h"

namespace sluice::tests::native_divvy_test {
namespace {

struct Line {
  std::string verdict;  // "OK true", or the whole line of an error
  int64_t remaining = 0, seconds = 0;
};

Line line_of(const std::string& text) {
  std::istringstream words(text);
  std::string ok, allowed;
  Line line;
  if (words >> ok >> allowed >> line.remaining >> line.seconds && ok == "OK")
    line.verdict = ok + " " + allowed;
  else
    line.verdict = text;
  return line;
}

// Two differences are allowed: a native rule without a limit has another `remaining`, and a native
// rule's refusal rounds its seconds up.
bool decides_alike(const Line& file, const Line& native) {
  if (file.verdict != native.verdict) return false;
  if (native.remaining != file.remaining && native.remaining != base::bounds::quota_max)
    return false;
  return std::abs(native.seconds - file.seconds) <= (file.verdict == "OK true" ? 0 : 1);
}

// Returns the number of replies.
size_t expect_alike(const std::string& file, const std::string& native) {
  std::istringstream files(file), natives(native);
  size_t lines = 0;
  for (std::string a, b; std::getline(files, a); ++lines) {
    EXPECT_TRUE(std::getline(natives, b)) << "no reply, expected " << a;
    EXPECT_TRUE(decides_alike(line_of(a), line_of(b))) << "expected " << a << "\ngot      " << b;
  }
  std::string more;
  EXPECT_FALSE(std::getline(natives, more)) << more;
  return lines;
}

bool has_impossible_pattern(const std::string& policy) {
  return policy.find("**") != std::string::npos;
}

size_t replay(const Case& c, const std::string& policy) {
  MemoryServer file(c.config, policy);
  size_t replies = 0;
  std::string of_file, of_native;
  // One server after the other, because they share the thread's clock.
  const auto play = [&](MemoryServer& server, std::vector<std::string>& out) {
    std::map<int, MemoryConnection> connections;
    for (const Step& step : c.steps) {
      MemoryConnection& connection = connections.try_emplace(step.connection, server).first->second;
      server.sleep(step.sleep_ms);
      for (const std::string& bytes : step.writes) connection.send(bytes);
      if (step.half_close) connection.half_close();
      out.push_back(connection.take());
    }
  };
  std::vector<std::string> files, natives;
  play(file, files);
  MemoryServer native(c.config, policy, MemoryServer::Rules::native);
  play(native, natives);
  for (size_t i = 0; i < files.size(); ++i) replies += expect_alike(files[i], natives[i]);
  return replies;
}

TEST(NativeDivvy, DecidesAsTheFileDoes) {
  size_t replayed = 0, replies = 0, impossible = 0;
  for (const Case& c : cases()) {
    const std::string policy = policy_of(c.config);
    if (c.needs_redis ||
        std::ranges::any_of(refusals(), [&](const Refusal& r) { return c.name == r.name; }))
      continue;
    SCOPED_TRACE(c.name);
    if (has_impossible_pattern(policy)) {
      // A pattern on which Divvy itself fails cannot be written as a native rule.
      EXPECT_THROW(MemoryServer(c.config, policy, MemoryServer::Rules::native), std::runtime_error);
      ++impossible;
      continue;
    }
    replies += replay(c, policy);
    ++replayed;
  }
  EXPECT_GT(replayed, 100u);
  EXPECT_GT(replies, 200u);
  RecordProperty("impossible", static_cast<int>(impossible));
}

}  // namespace
}  // namespace sluice::tests::native_divvy_test
