// The reader of bodies against the naive reader of take_body_model.h: random bodies of the naive
// writer, as they are, with changed bytes, and cut off.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/bounds.h"
#include "base/utf8.h"
#include "limit/limit.h"
#include "protocol/http/take_body.h"
#include "protocol/http/take_body_model.h"
#include "testing/some_calendar.h"
#include "tests/support/dice.h"

namespace sluice::http::take_body_reader_test {
namespace {

using limit::Algorithm;
using request::HoldAsk;
using take_model::Asked;
using take_model::Form;
using take_model::read_by;

class Random {
 public:
  explicit Random(uint32_t seed) : dice_(seed) {}

  Asked asked(const Form& form) {
    if (form.hold) return asked_of_hold(form);
    const BodyForm& wanted = form.wanted;
    Asked asked;
    asked.has_takes = wanted.only_takes || (wanted.takes_max > 0 && dice_(3) == 0);
    asked.each = wanted.has_mode && dice_(2) == 0;
    asked.detail = wanted.has_detail && dice_(2) == 0;
    if (wanted.has_timeout && dice_(2) == 0)
      asked.timeout_us = number(base::bounds::window_us_max, 0);
    if (wanted.has_id && dice_(2) == 0) asked.id = id();
    const size_t count = asked.has_takes ? 1 + dice_(size_t{4}) : 1;
    for (size_t i = 0; i < count; ++i) asked.subjects.push_back(subject(wanted));
    return asked;
  }

  // Changes, removes, inserts or repeats some bytes.
  void spoil(std::string& json) {
    constexpr std::string_view bytes = "{}[]:,\"\\01e-.nutf \n\x01\x80\xC3";
    for (int changes = dice_(3) == 0 ? 3 : 1; changes > 0 && !json.empty(); --changes) {
      const size_t at = dice_(json.size());
      const char c = bytes[dice_(bytes.size())];
      if (const int how = dice_(4); how == 0) {
        json[at] = c;
      } else if (how == 1) {
        json.erase(at, 1 + dice_(size_t{3}));
      } else if (how == 2) {
        json.insert(at, 1, c);
      } else {
        json.insert(at, json.substr(dice_(json.size()), 1 + dice_(size_t{20})));
      }
    }
  }

  size_t operator()(size_t n) { return dice_(n); }

 private:
  Asked asked_of_hold(const Form& form) {
    Asked asked;
    const HoldAsk ask = *form.hold;
    const bool reserves = ask == HoldAsk::reserve, commits = ask == HoldAsk::commit;
    if (!reserves || dice_(2) == 0) asked.id = id();
    if (!commits && ask != HoldAsk::release && dice_(2) == 0)
      asked.ttl_us = number(int64_t{86'400} * 1'000'000, 1);
    if (reserves) {
      asked.detail = dice_(2) == 0;
      if (dice_(2) == 0) asked.holder = text(0);
    }
    if (reserves || (commits && dice_(2) == 0)) {
      asked.has_takes = dice_(3) == 0;
      const size_t count = asked.has_takes ? 1 + dice_(size_t{4}) : 1;
      for (size_t i = 0; i < count; ++i) asked.subjects.push_back(subject(form.wanted));
    }
    if (reserves || ask == HoldAsk::renew || ask == HoldAsk::release) return asked;
    const size_t count = asked.subjects.empty() ? 1 + dice_(size_t{3}) : asked.subjects.size();
    asked.has_units_list = count > 1 || dice_(2) == 0;
    for (size_t i = 0; i < count; ++i) asked.units.push_back(number(base::bounds::quota_max, 0));
    for (size_t i = 0; i < asked.subjects.size(); ++i) asked.subjects[i].n = asked.units[i];
    return asked;
  }

  take_model::Subject subject(const BodyForm& wanted) {
    take_model::Subject subject;
    if (dice_(2) == 0) {
      subject.key = text(0);
      for (int i = 1 + dice_(3); i > 0; --i) {
        limit::Limit one = limit();
        const std::string name = dice_(2) == 0 ? "" : "l" + std::to_string(i);
        subject.limits.push_back({name, one, dice_(4) == 0});
      }
    } else {
      for (int i = 1 + dice_(5); i > 0; --i) {
        const std::string key = std::to_string(i) + text(0);
        subject.entries.emplace_back(key, dice_(3) == 0 ? word() : text(0));
      }
    }
    if (wanted.has_n) subject.n = number(base::bounds::quota_max, wanted.has_all ? 1 : 0);
    subject.all = wanted.has_all && dice_(3) == 0;
    if (subject.all) subject.n = 1;
    return subject;
  }

  limit::Limit limit() {
    if (dice_(8) == 0)
      return tests::calendar_limit(static_cast<size_t>(dice_(7)),
                                   number(base::bounds::quota_max, 1));
    limit::Limit one;
    one.algorithm = static_cast<Algorithm>(static_cast<int>(Algorithm::fixed_window) + dice_(7));
    const bool is_log = has_runs(one);
    one.quota = number(is_log ? 20 : base::bounds::quota_max, 1);
    if (one.algorithm != Algorithm::fixed_bucket)
      one.window.us = number(base::bounds::window_us_max, 1);
    if (one.algorithm == Algorithm::fixed_bucket) one.burst = one.quota;
    if (one.algorithm == Algorithm::token_bucket) one.burst = number(base::bounds::quota_max, 1);
    if (one.algorithm == Algorithm::concurrency)
      one.burst =
          dice_(2) == 0 ? one.window.us : number(base::bounds::window_us_max, one.window.us);
    return one;
  }

  // A number of any magnitude.
  int64_t number(int64_t most, int64_t least) {
    int64_t n = most;
    for (int i = dice_(16); i > 0; --i) n /= 10;
    return std::clamp(n - dice_(int64_t{3}), least, most);
  }
  std::string id() {
    constexpr std::string_view letters = "azAZ09_-";
    std::string id;
    for (size_t i = 16 + dice_(size_t{49}); i > 0; --i) id += letters[dice_(letters.size())];
    return id;
  }
  std::string word() {
    const std::vector<std::string> words = {"true", "false", "0", "-1.50E+3", "1e999", "12"};
    return words[dice_(words.size())];
  }
  std::string text(int least) {
    const std::vector<std::string> parts = {
        "a",          "\"",   "\\", "/",       "\n", "\xC3\xA4", "\xF0\x9F\x98\x80",
        "abcdefghij", "\x7f", " ",  "10.0.0.1"};
    std::string text;
    for (int i = least + dice_(4); i > 0; --i) text += parts[dice_(parts.size())];
    return text;
  }

  tests::Dice dice_;
};

// What /v1/take, put, wait, batch, reset and charge allow in their bodies; one that allows almost
// nothing; and what is asked of holds.
const std::vector<Form> all_forms = {
    {{.has_mode = true}},
    {{.has_all = true}},
    {{.takes_max = 0, .has_timeout = true}},
    {{.takes_max = batch_takes_max, .only_takes = true}},
    {{.has_n = false}},
    {{.takes_max = 0, .has_detail = false, .has_n = false}},
    {{.has_id = true}},
    take_model::form_of(HoldAsk::reserve),
    take_model::form_of(HoldAsk::extend),
    take_model::form_of(HoldAsk::renew),
    take_model::form_of(HoldAsk::commit),
    take_model::form_of(HoldAsk::release),
};

TEST(TakeBodyReader, ReadsRandomBodiesInAnyLayout) {
  TakeBodyReader reader;
  TakeBody body;
  for (uint32_t seed = 0; seed < 5000; ++seed) {
    Random random(seed);
    const Form& form = all_forms[seed % all_forms.size()];
    const Asked asked = random.asked(form);
    const std::string json = take_model::Writer(random).write(asked, form);
    ASSERT_TRUE(read_by(reader, json, form, body))
        << "seed " << seed << ": " << body.problem << json;
    ASSERT_EQ(take_model::asked_of(body, form), asked) << "seed " << seed << ": " << json;
    ASSERT_EQ(take_model::read(json, form), asked) << "seed " << seed << ": " << json;
  }
}

TEST(TakeBodyReader, AcceptsAndRejectsLikeTheModel) {
  TakeBodyReader reader;
  TakeBody body;
  size_t accepted = 0, refused = 0;
  for (uint32_t seed = 0; seed < 20'000; ++seed) {
    Random random(seed);
    const Form& form = all_forms[seed % all_forms.size()];
    std::string json = take_model::Writer(random).write(random.asked(form), form);
    random.spoil(json);
    const bool sound = read_by(reader, json, form, body);
    const auto expected = take_model::read(json, form);
    ASSERT_EQ(sound, expected.has_value()) << "seed " << seed << ": " << body.problem << "\n"
                                           << json;
    ++(sound ? accepted : refused);
    if (sound) {
      ASSERT_EQ(take_model::asked_of(body, form), *expected) << "seed " << seed << ": " << json;
    }
    ASSERT_TRUE(base::utf8::is_valid(body.problem)) << "seed " << seed;
  }
  EXPECT_GT(accepted, 1000u);
  EXPECT_GT(refused, 1000u);
}

TEST(TakeBodyReader, RefusesEveryBeginningOfABody) {
  TakeBodyReader reader;
  TakeBody body;
  for (uint32_t seed = 0; seed < 500; ++seed) {
    Random random(seed);
    const Form& form = all_forms[seed % all_forms.size()];
    const std::string json = take_model::Writer(random).write(random.asked(form), form);
    for (size_t size = 0; size <= json.rfind('}'); ++size) {
      // A copy of the exact size, so that a sanitizer finds a read past its end.
      const std::vector<char> part(json.begin(), json.begin() + static_cast<ptrdiff_t>(size));
      ASSERT_FALSE(read_by(reader, {part.data(), size}, form, body))
          << "seed " << seed << ", " << size << " of " << json;
      ASSERT_FALSE(body.problem.empty());
    }
  }
}

TEST(TakeBodyReader, TextsWithoutEscapesAreViewsIntoTheBody) {
  TakeBodyReader reader;
  TakeBody body;
  const std::string json =
      R"({"takes": [{"entries": {"a": "x", "b": 1.0, "c": "\u0063"}}, {"key": "k",
                               "limits": [{"quota": 1, "window": 1, "name": "z"}]}]})";
  ASSERT_TRUE(reader.read(json, all_forms[0].wanted, body)) << body.problem;
  const auto is_within = [&](std::string_view text) {
    return text.data() >= json.data() && text.data() + text.size() <= json.data() + json.size();
  };
  EXPECT_TRUE(is_within(body.entries[0].key) && is_within(body.entries[0].value));
  EXPECT_TRUE(is_within(body.entries[1].value) && is_within(body.limits[0].name));
  EXPECT_TRUE(is_within(body.subjects[1].key));
  EXPECT_FALSE(is_within(body.entries[2].value));
}

TEST(TakeBodyReader, ClearsTheEarlierBody) {
  TakeBodyReader reader;
  TakeBody body;
  const std::string_view full = R"({"takes": [{"entries": {"a": "\n"}, "n": 9}], "mode": "each",
                                    "detail": true})";
  const std::string_view small = R"({"entries": {"b": "c"}})";
  const Form &take = all_forms[0], &wait = all_forms[2];
  for (const std::string_view before : {full, std::string_view(R"({"entries": {"a": nul}})")}) {
    EXPECT_EQ(reader.read(before, take.wanted, body), before == full);
    ASSERT_TRUE(reader.read(small, take.wanted, body)) << body.problem;
    EXPECT_EQ(take_model::asked_of(body, take), *take_model::read(std::string(small), take));
    EXPECT_EQ(body.pointer, "");
  }
  ASSERT_TRUE(reader.read(R"({"entries": {"a": 1}, "timeout": 1})", wait.wanted, body));
  ASSERT_TRUE(reader.read(small, wait.wanted, body));
  EXPECT_FALSE(body.timeout);
  const Form reserve = take_model::form_of(HoldAsk::reserve),
             commit = take_model::form_of(HoldAsk::commit);
  for (const Form& form : {reserve, commit}) {
    ASSERT_TRUE(read_by(reader, R"({"id": "hold-0000-0000-1", "n": [1, 2]})", commit, body));
    ASSERT_TRUE(
        read_by(reader, R"({"entries": {"a": "1"}, "ttl": 9, "holder": "h"})", reserve, body));
    const std::string bare = form.hold == HoldAsk::reserve
                                 ? std::string(small)
                                 : R"({"id": "hold-0000-0000-1", "n": 3})";
    ASSERT_TRUE(read_by(reader, bare, form, body)) << body.problem;
    EXPECT_EQ(take_model::asked_of(body, form), *take_model::read(bare, form));
  }
}

}  // namespace
}  // namespace sluice::http::take_body_reader_test
