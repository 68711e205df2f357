// Members of bodies that only some paths have: the id of a charge; and what becomes of a take that
// does not fit a limit.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "protocol/http/take_body.h"

namespace sluice::http::take_body_members_test {
namespace {

const BodyForm take{.has_mode = true}, charge{.has_id = true};

// The pointer to the problem and what is wrong.
std::string problem(const std::string& json, const BodyForm& wanted = take) {
  TakeBodyReader reader;
  TakeBody body;
  return reader.read(json, wanted, body) ? "none" : body.pointer + " " + body.problem;
}

TEST(TakeBodyId, IsReadWhereThePathAllowsIt) {
  TakeBodyReader reader;
  TakeBody body;
  ASSERT_TRUE(
      reader.read(R"({"entries": {"a": "1"}, "id": "charge_0000-\u0030001"})", charge, body))
      << body.problem;
  EXPECT_EQ(body.id, "charge_0000-0001");
  ASSERT_TRUE(reader.read(R"({"entries": {"a": "1"}})", charge, body));
  EXPECT_EQ(body.id, "") << "not that of the body before";
  const std::string sentence = "`id` must be a text of 16 to 64 of the characters A-Z a-z 0-9 _ -";
  const std::vector<std::string> others = {R"("short")", R"("with a blank 000")",
                                           "\"" + std::string(65, 'x') + "\"", "1234567890123456"};
  for (const std::string& wrong : others)
    EXPECT_EQ(problem(R"({"entries": {"a": "1"}, "id": )" + wrong + "}", charge), "/id " + sentence)
        << wrong;
  EXPECT_TRUE(
      problem(R"({"entries": {"a": "1"}, "id": "charge-0000-0001"})").starts_with("/id unknown"));
  EXPECT_TRUE(problem(R"({"takes": [{"entries": {"a": "1"}, "id": "charge-0000-0001"}]})", charge)
                  .starts_with("/takes/0/id unknown"));
}

TEST(TakeBodyLimit, SaysWhatBecomesOfATakeThatDoesNotFit) {
  TakeBodyReader reader;
  TakeBody body;
  ASSERT_TRUE(reader.read(
      R"({"key": "k", "limits": [{"quota": 1, "window": 1, "over": "count"},
          {"quota": 1, "window": 2, "over": "refuse"}, {"quota": 1, "window": 3}]})",
      take, body))
      << body.problem;
  EXPECT_TRUE(body.limits[0].counts);
  EXPECT_FALSE(body.limits[1].counts);
  EXPECT_FALSE(body.limits[2].counts);
  for (const char* wrong : {"\"drain\"", "true", "1"})
    EXPECT_EQ(problem(R"({"key": "k", "limits": [{"quota": 1, "window": 1, "over": )" +
                      std::string(wrong) + "}]}"),
              "/limits/0/over `over` must be \"refuse\" or \"count\"");
}

}  // namespace
}  // namespace sluice::http::take_body_members_test
