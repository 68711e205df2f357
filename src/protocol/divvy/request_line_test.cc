// The lines that clients of Divvy's protocol send.
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "protocol/divvy/line.h"

namespace sluice::divvy::request_line_test {
namespace {

using DivvyWords = std::vector<std::pair<std::string, std::string>>;

TEST(DivvyRequest, QuotesAndSortsAsTheOriginalClient) {
  std::string problem;
  EXPECT_EQ(divvy_request(DivvyWords{{"path", "/a b"}, {"method", "GET"}, {"ip", "1=2"}}, problem),
            "HIT \"ip\"=\"1=2\" \"method\"=\"GET\" \"path\"=\"/a b\"\n");
  EXPECT_EQ(divvy_request({}, problem), "HIT\n");
  EXPECT_EQ(divvy_request(DivvyWords{{"k", ""}}, problem), "HIT \"k\"=\"\"\n");
}

TEST(DivvyRequest, KeepsTheOrderOfEqualKeysBecauseTheLastCounts) {
  std::string problem;
  EXPECT_EQ(divvy_request(DivvyWords{{"k", "z"}, {"a", "1"}, {"k", "b"}}, problem),
            "HIT \"a\"=\"1\" \"k\"=\"z\" \"k\"=\"b\"\n");
}

TEST(DivvyRequest, RefusesWhatTheProtocolCannotCarry) {
  std::string problem;
  EXPECT_FALSE(divvy_request(DivvyWords{{"k", "a\"b"}}, problem));
  EXPECT_EQ(problem,
            "the value of `k` holds a double quote, which Divvy's protocol cannot carry; leave it "
            "out or replace it");
  EXPECT_FALSE(divvy_request(DivvyWords{{"k\nHIT", "a"}}, problem));
  EXPECT_NE(problem.find("a line end"), std::string::npos) << problem;
}

}  // namespace
}  // namespace sluice::divvy::request_line_test
