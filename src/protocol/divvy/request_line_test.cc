// The request lines that sluice's client and `sluice ask divvy` send.
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "protocol/divvy/line.h"

namespace sluice::divvy::request_line_test {
namespace {

using DivvyWords = std::vector<std::pair<std::string, std::string>>;

// The line for the request, or "problem: " and what is wrong with the request.
std::string line_of(const DivvyWords& words) {
  const auto line = divvy_request(words);
  return line ? *line : "problem: " + line.problem().text;
}

TEST(DivvyRequest, QuotesAndSortsAsTheOriginalClient) {
  EXPECT_EQ(line_of(DivvyWords{{"path", "/a b"}, {"method", "GET"}, {"ip", "1=2"}}),
            "HIT \"ip\"=\"1=2\" \"method\"=\"GET\" \"path\"=\"/a b\"\n");
  EXPECT_EQ(line_of({}), "HIT\n");
  EXPECT_EQ(line_of(DivvyWords{{"k", ""}}), "HIT \"k\"=\"\"\n");
}

TEST(DivvyRequest, KeepsTheOrderOfEqualKeysBecauseTheLastCounts) {
  EXPECT_EQ(line_of(DivvyWords{{"k", "z"}, {"a", "1"}, {"k", "b"}}),
            "HIT \"a\"=\"1\" \"k\"=\"z\" \"k\"=\"b\"\n");
}

TEST(DivvyRequest, RejectsTextsThatTheProtocolCannotCarry) {
  EXPECT_EQ(line_of(DivvyWords{{"k", "a\"b"}}),
            "problem: the value of `k` holds a double quote, which Divvy's protocol cannot carry; "
            "leave it "
            "out or replace it");
  EXPECT_EQ(
      line_of(DivvyWords{{"k\nHIT", "a"}}),
      "problem: the key `k\nHIT` holds a line end, which Divvy's protocol cannot carry; leave "
      "it out or replace it");
}

}  // namespace
}  // namespace sluice::divvy::request_line_test
