// What `status --watch` and `rules --watch` show when a reading between two others fails, asked of
// a server that is made up. On a terminal and with the real server: tests/e2e/watch_test.cc.
#include "cli/watch.h"

#include <gtest/gtest.h>

#include <ostream>
#include <sstream>
#include <string>
#include <vector>

#include "cli/admin_commands_test.h"

namespace sluice::cli::watch_test {
namespace {

// Keeps each output by itself, and cannot be written any more after so many: the reader has gone.
class Outputs : public std::stringbuf {
 public:
  explicit Outputs(size_t max) : max_(max) {}
  std::vector<std::string> all;

 protected:
  int sync() override {
    all.push_back(str());
    str("");
    return all.size() < max_ ? 0 : -1;
  }

 private:
  const size_t max_;
};

class WatchOverAFailure : public CommandTest {
 protected:
  // The outputs of four readings, of which the second fails.
  std::vector<std::string> watched(const std::string& command, const std::string& good) {
    int readings = 0;
    FakeHttp server(
        [&](const Request&) { return ++readings == 2 ? problem(503, "not now") : good; });
    Outputs outputs(4);
    std::ostream to(&outputs);
    std::ostringstream errors;
    config::CommandIo io{to, errors, false, false, {}};
    EXPECT_EQ(run({command, "--watch", "--every", "100ms", "--admin", server.address()}, io),
              config::exit_failure);  // as the output cannot be written
    EXPECT_TRUE(said(errors.str(), "not now")) << errors.str();
    EXPECT_EQ(outputs.all.size(), 4u);
    outputs.all.resize(4);
    EXPECT_EQ(outputs.all[1], "\n");
    return outputs.all;
  }
};

// Without a reading before it the rates are the server's own, as at the first time.
TEST_F(WatchOverAFailure, StatusTakesNoRatesFromBeforeIt) {
  const auto outputs = watched("status", page(status_answer()));
  const std::string own = "             42/s allowed, 0.3/s denied over the last 10s\n";
  EXPECT_TRUE(said(outputs[0], own)) << outputs[0];
  EXPECT_TRUE(said(outputs[2], own)) << outputs[2];
  // Of two readings that found the same.
  EXPECT_TRUE(said(outputs[3], "             0/s allowed, 0/s denied over the last "))
      << outputs[3];
}

TEST_F(WatchOverAFailure, RulesTakeNoRatesFromBeforeIt) {
  const Json rule{
      {"dialect", "native"},     {"name", "r"},
      {"counted_as", "r"},       {"mode", "enforce"},
      {"limits", Json::array()}, {"decisions", {{"allowed", 12345}, {"denied", 6}, {"error", 0}}}};
  const auto outputs =
      watched("rules", page({{"generation", 1}, {"total", 1}, {"rules", Json::array({rule})}}));
  for (const size_t without : {0u, 2u}) {
    EXPECT_TRUE(said(outputs[without], "12,345")) << outputs[without];
    EXPECT_FALSE(said(outputs[without], "ALLOWED/S")) << outputs[without];
  }
  EXPECT_TRUE(said(outputs[3], "ALLOWED/S")) << outputs[3];
}

}  // namespace
}  // namespace sluice::cli::watch_test
