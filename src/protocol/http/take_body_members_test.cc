// Members of bodies that only some paths have: the id of a charge, those of holds; and what becomes
// of a take that does not fit a limit.
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "protocol/http/take_body.h"
#include "request/hold.h"

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

// ---- Holds ----

using request::HoldAsk;

constexpr HoldAsk all_asks[] = {HoldAsk::reserve, HoldAsk::extend, HoldAsk::renew, HoldAsk::commit,
                                HoldAsk::release};
const std::string its_id = R"("id": "hold-0000-0000-1")";

std::string problem_of_hold(const std::string& members, HoldAsk ask) {
  TakeBodyReader reader;
  TakeBody body;
  return reader.read_hold("{" + members + "}", ask, body) ? "none"
                                                          : body.pointer + " " + body.problem;
}

TEST(TakeBodyHold, AReserveHasSubjectsAndWhatTheHoldIs) {
  TakeBodyReader reader;
  TakeBody body;
  ASSERT_TRUE(reader.read_hold(
      R"({"takes": [{"entries": {"a": "1"}, "n": 4000}, {"entries": {"a": "2"}}], "n": 3,
          "detail": true, "ttl": 0.000001, "id": "hold-0000-0000-1", "holder": "w\u00e4rter"})",
      HoldAsk::reserve, body))
      << body.problem;
  EXPECT_TRUE(body.has_takes && body.detail);
  EXPECT_EQ(body.subjects[0].n, 4000);
  EXPECT_EQ(body.subjects[1].n, 3);
  EXPECT_EQ(body.ttl.us, 1);
  EXPECT_EQ(body.id, "hold-0000-0000-1");
  EXPECT_EQ(body.holder, "w\xC3\xA4rter");
  EXPECT_TRUE(body.units.empty());
  ASSERT_TRUE(reader.read_hold(R"({"entries": {"a": "1"}})", HoldAsk::reserve, body));
  EXPECT_EQ(body.ttl.us, 0);
  EXPECT_EQ(body.id, "");
  EXPECT_EQ(body.holder, "");
}

TEST(TakeBodyHold, ACommitHasUnitsAndPerhapsASubjectForEach) {
  TakeBodyReader reader;
  TakeBody body;
  ASSERT_TRUE(reader.read_hold("{" + its_id + R"(, "n": 120})", HoldAsk::commit, body));
  EXPECT_EQ(body.units, std::vector<int64_t>{120});
  EXPECT_FALSE(body.has_units_list);
  EXPECT_TRUE(body.subjects.empty());
  ASSERT_TRUE(reader.read_hold("{" + its_id +
                                   R"(, "takes": [{"entries": {"a": "1"}}, {"entries": {"a": "2"}}],
                                       "n": [7, 0]})",
                               HoldAsk::commit, body))
      << body.problem;
  EXPECT_EQ(body.units, (std::vector<int64_t>{7, 0}));
  EXPECT_TRUE(body.has_units_list);
  EXPECT_EQ(body.subjects[0].n, 7);
  EXPECT_EQ(body.subjects[1].n, 0);
  const std::string takes = its_id + R"(, "takes": [{"entries": {"a": "1"}}])";
  EXPECT_EQ(problem_of_hold(takes + R"(, "n": 5)", HoldAsk::commit), "none") << "one for one";
  EXPECT_EQ(problem_of_hold(takes + R"(, "n": [5, 6])", HoldAsk::commit),
            "/n `n` must have one number for each of `takes`: 1");
  EXPECT_EQ(problem_of_hold(its_id + R"(, "entries": {"a": "1"}, "n": [5])", HoldAsk::commit),
            "none");
  EXPECT_TRUE(problem_of_hold(its_id + R"(, "n": 1, "takes": [{"entries": {"a": "1"}, "n": 1}])",
                              HoldAsk::commit)
                  .starts_with("/takes/0/n unknown member `n`"))
      << "an estimate is not what was used";
}

TEST(TakeBodyHold, UnitsAreANumberOrAListOfNumbers) {
  const std::string sentence =
      "`n` must be a whole number from 0 to 9007199254740991, or a list of such numbers, one for "
      "each of the `takes` that were reserved";
  for (const HoldAsk ask : {HoldAsk::extend, HoldAsk::commit}) {
    for (const char* wrong : {"-1", "1.5", "\"1\"", "null", "[]", "9007199254740992"})
      EXPECT_EQ(problem_of_hold(its_id + ", \"n\": " + wrong, ask), "/n " + sentence) << wrong;
    for (const char* wrong : {"[-1]", "[[1]]", "[true]"})
      EXPECT_EQ(problem_of_hold(its_id + ", \"n\": " + wrong, ask), "/n/0 " + sentence) << wrong;
    std::string many = "[0";
    for (int i = 1; i < 64; ++i) many += ", 0";
    EXPECT_EQ(problem_of_hold(its_id + ", \"n\": " + many + "]", ask), "none");
    EXPECT_EQ(problem_of_hold(its_id + ", \"n\": " + many + ", 0]", ask),
              "/n/64 `n` has more than 64 items");
  }
  EXPECT_EQ(problem_of_hold(its_id, HoldAsk::commit),
            " `n` is missing: add the units that were used");
  EXPECT_EQ(problem_of_hold(its_id, HoldAsk::extend), " `n` is missing: add how many units more");
}

TEST(TakeBodyHold, TheTimeIsAboveNothingAndUpToADay) {
  const std::string sentence =
      "/ttl `ttl` must be a number of seconds above 0 and up to 86400, with at most 6 digits "
      "behind "
      "the point";
  for (const char* good : {"0.000001", "60", "86400", "1e2", "86400.000000"})
    EXPECT_EQ(problem_of_hold(its_id + ", \"ttl\": " + good, HoldAsk::renew), "none") << good;
  for (const char* wrong : {"0", "-1", "0.0000001", "86400.000001", "\"60\"", "null", "1e9"})
    EXPECT_EQ(problem_of_hold(its_id + ", \"ttl\": " + wrong, HoldAsk::renew), sentence) << wrong;
}

TEST(TakeBodyHold, TheHolderIsATextOfAtMost255Bytes) {
  const auto told = [](const std::string& holder) {
    return problem_of_hold(R"("entries": {"a": "1"}, "holder": )" + holder, HoldAsk::reserve);
  };
  EXPECT_EQ(told("\"" + std::string(255, 'x') + "\""), "none");
  EXPECT_EQ(told("\"\""), "none");
  for (const std::string& wrong : {"\"" + std::string(256, 'x') + "\"", std::string("7")})
    EXPECT_EQ(told(wrong), "/holder `holder` must be a text of at most 255 bytes");
}

TEST(TakeBodyHold, AllButAReserveNeedAnId) {
  for (const HoldAsk ask : all_asks) {
    const bool reserves = ask == HoldAsk::reserve;
    const std::string rest = reserves ? R"("entries": {"a": "1"})" : "";
    EXPECT_EQ(problem_of_hold(rest, ask),
              reserves ? "none" : " `id` is missing: add that of the reservation");
    const std::string wrong = (reserves ? rest + ", " : "") + R"("id": "short")";
    EXPECT_EQ(problem_of_hold(wrong, ask),
              "/id `id` must be a text of 16 to 64 of the characters A-Z a-z 0-9 _ -");
  }
}

TEST(TakeBodyHold, MembersOfOtherQuestionsAreUnknown) {
  const std::string subject = R"("entries": {"a": "1"})", units = its_id + R"(, "n": 1)";
  const auto least = [&](HoldAsk ask) {
    return ask == HoldAsk::reserve                            ? subject
           : ask == HoldAsk::extend || ask == HoldAsk::commit ? units
                                                              : its_id;
  };
  const auto refused = [&](const std::string& more, HoldAsk ask) {
    return problem_of_hold(least(ask) + ", " + more, ask).find("unknown member") !=
           std::string::npos;
  };
  for (const HoldAsk ask : all_asks) {
    EXPECT_EQ(problem_of_hold(least(ask), ask), "none");
    for (const char* more : {R"("mode": "all")", R"("all": true)", R"("release_on_close": true)"})
      EXPECT_TRUE(refused(more, ask)) << more;
    const bool reserves = ask == HoldAsk::reserve, commits = ask == HoldAsk::commit;
    EXPECT_EQ(refused(R"("timeout": 1)", ask), !reserves);
    EXPECT_EQ(refused(R"("detail": true)", ask), !reserves);
    EXPECT_EQ(refused(R"("holder": "h")", ask), !reserves);
    EXPECT_EQ(refused(R"("ttl": 1)", ask), commits || ask == HoldAsk::release);
    if (!reserves) {
      EXPECT_EQ(refused(subject, ask), !commits);
    }
  }
  EXPECT_TRUE(refused(R"("n": 1)", HoldAsk::renew));
  EXPECT_TRUE(refused(R"("n": 1)", HoldAsk::release));
}

TEST(TakeBodyHold, AReserveOfOneSubjectMayWait) {
  TakeBodyReader reader;
  TakeBody body;
  ASSERT_TRUE(
      reader.read_hold(R"({"entries": {"a": "1"}, "timeout": 2.5})", HoldAsk::reserve, body));
  EXPECT_EQ(body.timeout, base::milliseconds(2'500));
  EXPECT_EQ(
      problem_of_hold(R"("takes": [{"entries": {"a": "1"}}], "timeout": 1)", HoldAsk::reserve),
      "/timeout a reservation of several `takes` does not wait for units: leave `timeout` "
      "out, and send it again when `retry_after` has passed");
}

TEST(TakeBodyHold, ABodyThatIsNoneSaysWhatOneLooksLike) {
  TakeBodyReader reader;
  TakeBody body;
  const auto told = [&](const std::string& json, HoldAsk ask) {
    return reader.read_hold(json, ask, body) ? "none" : body.problem;
  };
  EXPECT_EQ(told("", HoldAsk::commit),
            "the body is empty: send an object such as {\"id\": \"0c7a2f8e-5d1b-4b1e\", \"n\": "
            "120}");
  EXPECT_EQ(told("[]", HoldAsk::release),
            "the body must be an object such as {\"id\": \"0c7a2f8e-5d1b-4b1e\"}");
  EXPECT_EQ(told("", HoldAsk::reserve),
            "the body is empty: send an object such as {\"entries\": {\"ip\": \"10.0.0.1\"}}");
}

TEST(TakeBodyLimit, SaysWhatItMayOwe) {
  TakeBodyReader reader;
  TakeBody body;
  ASSERT_TRUE(reader.read(
      R"({"key": "k", "limits": [{"quota": 1, "window": 1, "overdraft": 0},
          {"quota": 1, "window": 2, "overdraft": "5k"}, {"quota": 1, "window": 3}]})",
      take, body))
      << body.problem;
  EXPECT_EQ(body.limits[0].overdraft, 0);
  EXPECT_EQ(body.limits[1].overdraft, 5'000);
  EXPECT_EQ(body.limits[2].overdraft, limit::Overdrafts::none);
  for (const char* wrong : {"-1", "1.5", "9007199254740992", "\"x\"", "true", "null"})
    EXPECT_EQ(problem(R"({"key": "k", "limits": [{"quota": 1, "window": 1, "overdraft": )" +
                      std::string(wrong) + "}]}"),
              "/limits/0/overdraft `overdraft` must be a whole number from 0 to 9007199254740991, "
              "or such a number as a text: \"10k\"")
        << wrong;
}

}  // namespace
}  // namespace sluice::http::take_body_members_test
