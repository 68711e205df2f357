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
      charge.cost = INT64_MIN;
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
                           "0", "0", name, "u", "1", letter, std::to_string(limit.quota),
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
  EXPECT_EQ(&script, &scripts.full(true));
  std::string bytes;
  append_call(bytes, call, script, true, scripts, texts);
  EXPECT_EQ(bytes, "*16\r\n" + bulks({"EVALSHA", script.sha, "1", "user:17", "0", "t", "1", "0",
                                      "0", "tat", "u", "1", "c", "5", "7", "35"}));
}

}  // namespace
}  // namespace sluice::redis
