// The bytes of script calls (redis/script_call.h) for limits whose numbers come with each request.
#include "redis/script_call.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "limit/gcra.h"
#include "request/space.h"

namespace sluice::redis {
namespace {

using limit::Algorithm;
using limit::Limit;

std::string bulks(const std::vector<std::string>& words) {
  std::string out;
  for (const std::string& word : words) append_bulk(out, word);
  return out;
}

// So a counter is the same for any numbers, and no text is made again for each call.
TEST(ScriptCall, InlineNumbersAreNotPartOfACountersName) {
  request::Spaces spaces;
  const request::Space& space = *spaces.intern("cell:", "");
  for (const auto& [algorithm, letter] :
       {std::pair(Algorithm::gcra_cell, "c"), std::pair(Algorithm::gcra_crab, "h"),
        std::pair(Algorithm::gcra_redis, "g")}) {
    const Limit constant = limit::gcra::without_numbers(algorithm);
    const uint32_t limits_id = spaces.intern_limits({&constant, 1});
    Scripts scripts;
    LimitTexts texts;
    const std::string name = std::string("s1;") + letter + "1,1,1";
    const LimitText* known = nullptr;
    const char* made = nullptr;
    for (const Limit& limit : {Limit{algorithm, 5, {7}, 35}, Limit{algorithm, -3, {INT64_MAX}, -9},
                               Limit{algorithm, INT64_MAX, {1}, INT64_MIN}}) {
      const LimitText& text = texts.of({&limit, 1}, limits_id);
      EXPECT_EQ(text.name, name);
      EXPECT_TRUE(known == nullptr || (known == &text && made == text.arguments.data()));
      known = &text;
      made = text.arguments.data();
      request::Charge charge;
      charge.space = &space;
      charge.key = "k";
      charge.cost = INT64_MIN;  // which no script of arrival.h decides
      charge.limits = {&limit, 1};
      charge.limits_id = limits_id;
      const ScriptCall call{.charges = {&charge, 1}, .key_prefix = "p:"};
      Weight weight;
      const Script& script = script_of(call, scripts, texts, weight);
      EXPECT_EQ(&script, &scripts.full(true));
      std::string bytes;
      append_call(bytes, call, script, true, scripts, texts);
      EXPECT_EQ(bytes,
                "*16\r\n" +
                    bulks({"EVALSHA", script.sha, "1", "p:cell:k", "0", "t", "-9223372036854775808",
                           "0", "0", name, "u2", "1", letter, std::to_string(limit.quota),
                           std::to_string(limit.window.us), std::to_string(limit.burst)}));
      limit::Decision decision;
      bool allowed = true;
      EXPECT_EQ(read_answer("0 0 3 n n", {&charge, 1}, {&decision, 1}, allowed),
                ScriptReply::decided);
      EXPECT_FALSE(allowed);
      EXPECT_EQ(decision.limit, limit.quota);
      EXPECT_EQ(decision.remaining, 3);
    }
  }
}

// The key is the client's own, and the value has redis-cell's form.
TEST(ScriptCall, ACounterThatRedisCellSharesHasItsKeyAndItsForm) {
  request::Spaces spaces;
  request::Space like;
  like.encoding = request::KeyEncoding::tat_text;
  const Limit limit{Algorithm::gcra_cell, 5, {7}, 35},
      constant = limit::gcra::without_numbers(Algorithm::gcra_cell);
  request::Charge charge;
  charge.space = spaces.intern("", "", like);
  charge.key = "user:17";
  charge.limits = {&limit, 1};
  charge.limits_id = spaces.intern_limits({&constant, 1});
  Scripts scripts;
  LimitTexts texts;
  const ScriptCall call{.charges = {&charge, 1}, .key_prefix = "p:"};
  Weight weight;
  const Script& script = script_of(call, scripts, texts, weight);
  EXPECT_EQ(&script, &scripts.arrival(Scripts::Arrival::shared_cell));
  std::string bytes;
  append_call(bytes, call, script, true, scripts, texts);
  EXPECT_EQ(bytes, "*8\r\n" + bulks({"EVALSHA", script.sha, "1", "user:17", "0", "7", "0", "35"}));
  ScriptCall other = call;
  other.weight = Weight::wide;
  const Script& wide = script_of(other, scripts, texts, weight);
  EXPECT_EQ(&wide, &scripts.full(true));
  bytes.clear();
  append_call(bytes, other, wide, true, scripts, texts);
  EXPECT_EQ(bytes, "*16\r\n" + bulks({"EVALSHA", wide.sha, "1", "user:17", "0", "t", "1", "0", "0",
                                      "tat", "u", "1", "c", "5", "7", "35"}));
}

// The answer has the time and the state that the script found; what they mean is worked out here.
TEST(ScriptCall, AnArrivalIsReadAsTheEngineDecides) {
  request::Spaces spaces;
  // A million units in thirty days, two million at most: products past 2^53.
  const Limit limit{Algorithm::token_bucket, 1'000'000, {2'592'000'000'000}, 2'000'000};
  request::Charge charge;
  charge.space = spaces.intern("a:", "");
  charge.key = "k";
  charge.cost = 3;
  charge.limits = {&limit, 1};
  charge.limits_id = spaces.intern_limits({&limit, 1});
  Scripts scripts;
  LimitTexts texts;
  const ScriptCall call{.charges = {&charge, 1}, .key_prefix = "p:"};
  Weight weight;
  const Script& script = script_of(call, scripts, texts, weight);
  EXPECT_EQ(&script, &scripts.arrival(Scripts::Arrival::bucket));
  std::string bytes;
  append_call(bytes, call, script, true, scripts, texts);
  EXPECT_EQ(bytes,
            "*11\r\n" + bulks({"EVALSHA", script.sha, "1", "p:a:k", "7776000", "0", "5184000000000",
                               "0", "1000000", "s1;t1000000,2592000000000,2000000", "0"}));
  const auto read = [&](std::string_view text) {
    limit::Decision decision;
    bool allowed = false;
    if (read_answer(text, {&charge, 1}, {&decision, 1}, allowed) != ScriptReply::decided)
      return std::string("nonsense");
    return std::to_string(allowed) + " " + std::to_string(decision.remaining) + " " +
           std::to_string(decision.reset_after.us) + " " + std::to_string(decision.retry_after.us);
  };
  EXPECT_EQ(read("a1 1800000000 500000"), "1 1999997 7776000 0");
  EXPECT_EQ(read("a1 1800000000 500000 1800000001000000 1000000"), "1 1999996 8276000 0");
  EXPECT_EQ(read("a0 1800000000 500000 1805184000500000 1000000"), "0 0 5184000000000 7776000");
  for (const std::string_view wrong :
       {"a0 1800000000 500000", "a1 1800000000", "a1 1800000000 5 6", "a1 1800000000 5 6 7 8",
        "a1 x 5", "a1 9223372036854775807 5", "a1 -1 5", "a1", "a2 1800000000 500000",
        "a1 1800000000 500000 1805184000500000 1000000"})
    EXPECT_EQ(read(wrong), "nonsense") << wrong;
}

}  // namespace
}  // namespace sluice::redis
