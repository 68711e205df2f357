// How sluice's client reads the recorded answers of Divvy's server (tests/conformance/divvy.json).
#include <gtest/gtest.h>

#include <chrono>
#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "testing/client_world.h"
#include "tests/support/paths.h"

namespace sluice::divvy {
extern const calls::Dialect client_dialect;

namespace client_vectors_test {
namespace {

// Reads `line` with the standard library and compares `result` with it.
void expect_meaning(const std::string& line, const client_result& result) {
  char word[6] = {};
  long long remaining = 0, reset = 0;
  if (std::sscanf(line.c_str(), "OK %5s %lld %lld", word, &remaining, &reset) == 3) {
    EXPECT_EQ(result.error, client_errc::none) << line;
    EXPECT_EQ(result.allowed, std::string(word) == "true") << line;
    EXPECT_EQ(result.remaining, remaining) << line;
    EXPECT_EQ(result.reset_after,
              reset < 0 ? client_never : std::chrono::microseconds(std::chrono::seconds(reset)))
        << line;
  } else {
    EXPECT_NE(result.error, client_errc::none) << line;
    EXPECT_EQ(result.text, line);
  }
}

TEST(DivvyClientVectors, ReadsTheRecordedAnswersOfTheOriginal) {
  std::ifstream file(tests::source_path("tests/conformance/divvy.json"));
  const auto recorded = nlohmann::json::parse(file);
  size_t lines = 0;
  for (const auto& one : recorded.at("cases"))
    for (const auto& step : one.at("steps")) {
      if (!step.contains("expect") || !step.at("expect").is_array()) continue;
      calls::ClientWorld world(client_dialect);
      std::string bytes;
      for (size_t i = 0; i < step.at("expect").size(); ++i) {
        world.submit({}, std::to_string(i));
        bytes += step.at("expect")[i].get<std::string>() + "\n";
      }
      if (bytes.empty()) continue;
      world.accept(0);
      world.receive(0, bytes);
      for (size_t i = 0; i < step.at("expect").size(); ++i, ++lines) {
        ASSERT_EQ(world.ended[std::to_string(i)], 1);
        expect_meaning(step.at("expect")[i].get<std::string>(), world.results[std::to_string(i)]);
      }
    }
  EXPECT_GT(lines, 150u);
}

}  // namespace
}  // namespace client_vectors_test
}  // namespace sluice::divvy
