// The reader of bodies: cases written by hand, with what each is read as or why it is refused.
#include "protocol/http/take_body.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "limit/limit.h"
#include "protocol/http/take_body_model.h"

namespace sluice::http::take_body_test {
namespace {

BodyForm wanted(size_t takes_max, bool has_mode, bool has_all, bool has_timeout) {
  BodyForm all;
  all.takes_max = takes_max;
  all.has_mode = has_mode;
  all.has_all = has_all;
  all.has_timeout = has_timeout;
  return all;
}
const BodyForm take = wanted(64, true, false, false), put = wanted(64, false, true, false),
               wait = wanted(0, false, false, true);
BodyForm batch_wanted() {
  BodyForm all = wanted(1000, false, false, false);
  all.only_takes = true;
  return all;
}
const BodyForm batch = batch_wanted();
BodyForm bare_wanted() {
  BodyForm all = wanted(0, false, false, false);
  all.has_n = all.has_detail = false;
  return all;
}
const BodyForm bare = bare_wanted();

// What a body is read as, in one line without defaults; or the pointer to the problem and what is
// wrong.
std::string read(std::string_view json, const BodyForm& wanted = take) {
  TakeBodyReader reader;
  TakeBody body;
  const bool sound = reader.read(json, wanted, body);
  EXPECT_EQ(sound, body.problem.empty()) << json;
  EXPECT_EQ(sound, take_model::read(std::string(json), {wanted, {}}).has_value()) << json;
  if (!sound) return body.pointer + " " + body.problem;
  EXPECT_EQ(body.pointer, "") << json;
  std::string text = body.has_takes ? "takes" : "one";
  if (body.each) text += " each";
  if (body.detail) text += " detail";
  if (body.timeout) text += " timeout=" + std::to_string(body.timeout->us);
  for (const TakeSubject& subject : body.subjects) {
    text += " |";
    if (subject.is_inline) text += " key(" + std::string(subject.key) + ")";
    for (const auto& [key, value] : body.entries_of(subject))
      (((text += " ") += key) += "->") += value;
    for (const auto& [limit, name, counts, overdraft] : body.limits_of(subject)) {
      ((text += " ") += name) += name.empty() ? "" : ":";
      text += std::string(limit::name_of(limit.algorithm)) + ":" + std::to_string(limit.quota) +
              "/" + std::to_string(limit.window.us);
      if (limit.burst != 0) text += "+" + std::to_string(limit.burst);
      if (counts) text += " counts";
      if (overdraft < limit::Overdrafts::none) text += " owes " + std::to_string(overdraft);
    }
    if (subject.n != 1) text += " n=" + std::to_string(subject.n);
    if (subject.all) text += " ALL";
  }
  return text;
}

std::string times(size_t n, const std::string& text, const std::string& between = ",") {
  std::string all;
  for (size_t i = 0; i < n; ++i) (all += i == 0 ? "" : between) += text;
  return all;
}

// `"k0": 1, "k1": 1` and so on.
std::string keys(size_t count) {
  std::string all;
  for (size_t i = 0; i < count; ++i) {
    all += i == 0 ? "\"k" : ",\"k";
    all += std::to_string(i) + "\":1";
  }
  return all;
}

// The limit with these members, as read() writes it; or what is wrong with the limit.
std::string limit_of(const std::string& members) {
  const std::string all = read(R"({"key": "k", "limits": [{)" + members + "}]}");
  for (const std::string_view head : {"one | key(k) ", "/limits/0"})
    if (all.starts_with(head)) return all.substr(head.size());
  return "not in the limit: " + all;
}
std::string window_of(const std::string& value) {
  const std::string all =
      limit_of(R"("algorithm": "fixed_window", "quota": 1, "window": )" + value);
  const std::string head = "fixed_window:1/";
  return all.starts_with(head) ? all.substr(head.size()) : all;
}
std::string quota_of(const std::string& value) {
  const std::string all = limit_of(R"("algorithm": "fixed_bucket", "quota": )" + value);
  const std::string head = "fixed_bucket:";
  return all.starts_with(head) ? all.substr(head.size(), all.find('/') - head.size()) : all;
}
std::string n_of(const std::string& value, const BodyForm& wanted = take) {
  const std::string all = read(R"({"entries": {"a": 1}, "n": )" + value + "}", wanted);
  const std::string head = "one | a->1";
  if (!all.starts_with(head)) return all;
  return all == head ? "1" : all.substr(head.size() + 3);
}
// The value of the only entry.
std::string value_of(const std::string& value) {
  const std::string all = read(R"({"entries": {"a": )" + value + "}}");
  const std::string head = "one | a->";
  return all.starts_with(head) ? all.substr(head.size()) : all;
}

struct BodyCase {
  const BodyForm& wanted;
  std::string_view json, expected;
};

TEST(TakeBody, ReadsEveryKindOfRequest) {
  const std::vector<BodyCase> cases = {
      {take, R"({"entries": {"method": "POST", "path": "/login", "ip": "10.0.0.1"}, "n": 1})",
       "one | method->POST path->/login ip->10.0.0.1"},
      {take,
       R"({"key": "user:17", "limits": [{"name": "burst", "quota": 100, "window": "1m",
           "algorithm": "token_bucket", "burst": 200}], "n": 3})",
       "one | key(user:17) burst:token_bucket:100/60000000+200 n=3"},
      {take, R"({"n": 0, "limits": [{"window": 1, "quota": 2}, {"window": "1d", "quota": "1k"}],
                 "key": ""})",
       "one | key() token_bucket:2/1000000+2 token_bucket:1000/86400000000+1000 n=0"},
      {take, "\t\n\r {\"entries\"\n:\r{ \"a\"\t: \"b\" } } \n", "one | a->b"},
      {take, R"({"takes": [{"entries": {"a": 1}}], "mode": "all", "detail": false})",
       "takes | a->1"},
      {take, R"({"mode": "each", "takes": [{"entries": {"a": 1}}], "detail": true})",
       "takes each detail | a->1"},
      {take, R"({"takes": [{"entries": {"a": 1}}, {"entries": {"b": 2}, "n": 0},
                           {"key": "k", "limits": [{"quota": 1, "window": 1}], "n": 7}], "n": 5})",
       "takes | a->1 n=5 | b->2 n=0 | key(k) token_bucket:1/1000000+1 n=7"},
      {put, R"({"entries": {"a": 1}, "all": true})", "one | a->1 ALL"},
      {put, R"({"entries": {"a": 1}, "all": false, "n": 2})", "one | a->1 n=2"},
      {put, R"({"takes": [{"entries": {"a": 1}}, {"entries": {"b": 1}, "n": 2},
                          {"entries": {"c": 1}, "all": false}], "all": true})",
       "takes | a->1 ALL | b->1 n=2 | c->1"},
      {put, R"({"n": 4, "takes": [{"entries": {"a": 1}, "all": true},
                                  {"entries": {"c": 1}, "all": false}, {"entries": {"d": 1}}]})",
       "takes | a->1 ALL | c->1 n=4 | d->1 n=4"},
      {wait, R"({"timeout": 0, "entries": {"a": 1}})", "one timeout=0 | a->1"},
      {wait, R"({"timeout": 2.5, "entries": {"a": 1}})", "one timeout=2500000 | a->1"},
      {wait, R"({"timeout": 3162240000, "entries": {"a": 1}})",
       "one timeout=3162240000000000 | a->1"},
      {batch, R"({"takes": [{"entries": {"a": 1}, "n": 2}], "detail": true})",
       "takes detail | a->1 n=2"},
      {bare, R"({"entries": {"a": 1}})", "one | a->1"},
  };
  for (const BodyCase& c : cases) EXPECT_EQ(read(c.json, c.wanted), c.expected) << c.json;
}

auto take_body_mistakes() {
  const std::vector<BodyCase> cases = {
      {take, "", R"( the body is empty: send an object such as {"entries": {"ip": "10.0.0.1"}})"},
      {take, " \n",
       R"( the body is empty: send an object such as {"entries": {"ip": "10.0.0.1"}})"},
      {batch, "",
       R"( the body is empty: send an object such as {"takes": [{"entries": {"ip": "10.0.0.1"}}]})"},
      {take, "[]", R"( the body must be an object such as {"entries": {"ip": "10.0.0.1"}})"},
      {take, "\xEF\xBB\xBF{\"entries\": {\"a\": 1}}",
       " the body begins with a byte order mark: send UTF-8 without one"},
      {take, "{\"entries\": {\"a\": \"\xff\"}}", " the body is not UTF-8 at offset 19"},
      {take, R"({"entries": {"a": 1}} x)",
       " the body is not JSON: something stands behind its object at offset 22"},
      {take, std::string_view("{\"entries\": {\"a\": 1}}\0", 22),
       " the body is not JSON: something stands behind its object at offset 21"},
      {take, R"({"entries": {"a": 1})",
       " the body is not JSON: it ends where `,` or `}` must stand"},
      {take, R"({"entries": {"a" 1}})",
       "/entries the body is not JSON: `:` must stand at offset 17"},
      {take, R"({"entries": {"a": 1,}})",
       "/entries the body is not JSON: a name in double quotes must stand at offset 20"},
      {take, R"({'entries': 1})",
       " the body is not JSON: a name in double quotes must stand at offset 1"},
      {take, R"({"entries": {"a": 01}})",
       "/entries the body is not JSON: `,` or `}` must stand at offset 19"},
      {take, R"({"entries": {"a": -}})",
       "/entries/a the body is not JSON: a malformed number at offset 19"},
      {take, R"({"entries": )", "/entries the body is not JSON: it ends where a value must stand"},
      {take, R"({"takes": [{"entries": {"a": 1}} {}]})",
       "/takes the body is not JSON: `,` or `]` must stand at offset 33"},
      {take, "{}", " exactly one must be given of `entries`, `key` with `limits`, and `takes`"},
      {wait, "{}", " exactly one must be given of `entries` and `key` with `limits`"},
      {batch, "{}", R"( `takes` is missing: add a list such as [{"entries": {"ip": "10.0.0.1"}}])"},
      {take, R"({"entries": {"a": 1}, "takes": []})",
       "/takes exactly one must be given of `entries`, `key` with `limits`, and `takes`"},
      {take, R"({"entries": {"a": 1}, "key": "k"})",
       "/key exactly one must be given of `entries`, `key` with `limits`, and `takes`"},
      {take, R"({"entries": {"a": 1}, "limits": []})",
       "/limits exactly one must be given of `entries`, `key` with `limits`, and `takes`"},
      {take, R"({"takes": [{"key": "k", "entries": {"a": 1}}]})",
       "/takes/0/entries exactly one must be given of `entries` and `key` with `limits`"},
      {take, R"({"takes": [{"entries": {"a": 1}}, {"n": 1}]})",
       "/takes/1 exactly one must be given of `entries` and `key` with `limits`"},
      {take, R"({"takes": [{"entries": {"a": 1}}], "limits": []})",
       "/limits exactly one must be given of `entries`, `key` with `limits`, and `takes`"},
      {take, R"({"key": "k"})",
       R"( `limits` is missing beside `key`: add a list such as [{"quota": 100, "window": "1m"}])"},
      {take, R"({"limits": [{"quota": 1, "window": 1}]})",
       " `key` is missing beside `limits`: add the name of the counter"},
      {take, R"({"entries": {"a": 1}, "n": 1, "n": 1})",
       "/n `n` is there twice: take one of them out"},
      {take, R"({"entries": {"a": 1, "\u0061": 1}})",
       "/entries/a `a` is there twice: take one of them out"},
      {take, R"({"entries": {"": 1}})", "/entries/ the key of an entry must not be empty"},
      {take, R"({"quanity": 1})",
       "/quanity unknown member `quanity`; known are `entries`, `key`, `limits`, `takes`, `n`, "
       "`mode`, `detail`"},
      {take, R"({"entires": 1})", "/entires unknown member `entires`; did you mean `entries`?"},
      {take, R"({"now": 1})",
       "/now unknown member `now`; known are `entries`, `key`, `limits`, `takes`, `n`, `mode`, "
       "`detail`"},
      {take, R"({"timeout": 1})",
       "/timeout unknown member `timeout`; known are `entries`, `key`, `limits`, `takes`, `n`, "
       "`mode`, `detail`"},
      {take, R"({"takes": [{"mode": "each"}]})",
       "/takes/0/mode unknown member `mode`; known are `entries`, `key`, `limits`, `n`"},
      {batch, R"({"n": 1, "takes": []})", "/n unknown member `n`; known are `takes`, `detail`"},
      {bare, R"({"n": 1})", "/n unknown member `n`; known are `entries`, `key`, `limits`"},
      {bare, R"({"detail": 1})",
       "/detail unknown member `detail`; known are `entries`, `key`, `limits`"},
      {wait, R"({"takes": []})",
       "/takes unknown member `takes`; known are `entries`, `key`, `limits`, `n`, `detail`, "
       "`timeout`"},
      {take, R"({"a~b/c": 1})",
       "/a~0b~1c unknown member `a~b/c`; known are `entries`, `key`, `limits`, `takes`, `n`, "
       "`mode`, `detail`"},
      {put, R"({"entries": {"a": 1}, "all": true, "n": 1})",
       R"(/all `n` and `"all": true` exclude each other: take one of them out)"},
      {put, R"({"takes": [{"entries": {"a": 1}, "all": true, "n": 1}]})",
       R"(/takes/0/all `n` and `"all": true` exclude each other: take one of them out)"},
      {put, R"({"takes": [{"entries": {"a": 1}}], "all": true, "n": 1})",
       R"(/all `n` and `"all": true` exclude each other: take one of them out)"},
  };
  return cases;
}

TEST(TakeBody, ReportsInvalidBodiesWithTheirPlace) {
  for (const BodyCase& c : take_body_mistakes())
    EXPECT_EQ(read(c.json, c.wanted), c.expected) << c.json;
}

TEST(TakeBody, ReportsInvalidValuesWithTheirPlace) {
  const std::string takes_sentence =
      R"(`takes` must be a list of takes, such as [{"entries": {"ip": "10.0.0.1"}}], and not empty)";
  const std::string entries_sentence =
      R"(`entries` must be an object of 1 to 64 keys with their values, such as {"ip": "10.0.0.1"})";
  const std::string limits_sentence =
      R"(`limits` must be a list of 1 to 8 limits, such as [{"quota": 100, "window": "1m"}])";
  const std::string value_sentence =
      "the value of an entry must be a text, a number, true or false";
  const std::string n_sentence = "`n` must be a whole number from 0 to 9007199254740991";
  EXPECT_EQ(read(R"({"takes": {}})"), "/takes " + takes_sentence);
  EXPECT_EQ(read(R"({"takes": []})"), "/takes " + takes_sentence);
  EXPECT_EQ(read(R"({"takes": [1]})"),
            R"(/takes/0 a take must be an object such as {"entries": {"ip": "10.0.0.1"}})");
  EXPECT_EQ(read(R"({"entries": []})"), "/entries " + entries_sentence);
  EXPECT_EQ(read(R"({"entries": {}})"), "/entries " + entries_sentence);
  for (const std::string_view value : {"null", "[]", "{}", "tru", "nul", "NaN", "+1", ".5", "TRUE"})
    EXPECT_EQ(value_of(std::string(value)), "/entries/a " + value_sentence) << value;
  EXPECT_EQ(read(R"({"limits": {}})"), "/limits " + limits_sentence);
  EXPECT_EQ(read(R"({"limits": []})"), "/limits " + limits_sentence);
  EXPECT_EQ(read(R"({"limits": [[]]})"),
            R"(/limits/0 a limit must be an object such as {"quota": 100, "window": "1m"})");
  EXPECT_EQ(read(R"({"key": 1})"), "/key `key` must be a text");
  for (const std::string_view value : {"null", "\"1\"", "-1", "1.5", "[1]", "9007199254740992"})
    EXPECT_EQ(n_of(std::string(value)), "/n " + n_sentence) << value;
  EXPECT_EQ(n_of("0", put), "/n `n` must be a whole number from 1 to 9007199254740991");
  EXPECT_EQ(read(R"({"all": 1})", put), "/all `all` must be true or false");
  EXPECT_EQ(read(R"({"detail": "yes"})"), "/detail `detail` must be true or false");
  for (const std::string_view value : {"1", "\"any\"", "null", "\"\""})
    EXPECT_EQ(read(R"({"mode": )" + std::string(value) + "}"),
              R"(/mode `mode` must be "all" or "each")");
  for (const std::string_view value : {"\"1s\"", "-1", "0.0000001", "3162240000.000001", "null"})
    EXPECT_EQ(read(R"({"timeout": )" + std::string(value) + "}", wait),
              "/timeout `timeout` must be a number of seconds from 0 to 3162240000, with at most 6 "
              "digits behind the point");
}

TEST(TakeBody, ReadsLimitsAsPoliciesDo) {
  EXPECT_EQ(limit_of(R"("quota": 5, "window": "1m")"), "token_bucket:5/60000000+5");
  EXPECT_EQ(limit_of(R"("quota": 5, "window": "1m", "burst": "1k")"),
            "token_bucket:5/60000000+1000");
  EXPECT_EQ(limit_of(R"("burst": 1e2, "quota": 5, "window": "1m")"), "token_bucket:5/60000000+100");
  for (const std::string name : {"fixed_window", "aligned_window", "sliding_window", "sliding_log"})
    EXPECT_EQ(limit_of(R"("window": 1, "quota": 5, "algorithm": ")" + name + "\""),
              name + ":5/1000000");
  EXPECT_EQ(limit_of(R"("quota": 5, "algorithm": "fixed_bucket")"), "fixed_bucket:5/0+5");
  const std::string name(64, 'a');
  EXPECT_EQ(limit_of(R"("quota": 5, "window": 1, "name": ")" + name + "\""),
            name + ":token_bucket:5/1000000+5");
  EXPECT_EQ(limit_of(R"("quota": 5, "window": 1, "name": "aZ09_-.:/")"),
            "aZ09_-.:/:token_bucket:5/1000000+5");
}

TEST(TakeBody, PlacesHaveALease) {
  const auto places = [](const std::string& more) {
    return limit_of(R"("quota": 5, "algorithm": "concurrency")" + more);
  };
  EXPECT_EQ(places(R"(, "lease": 30)"), "concurrency:5/30000000+30000000");
  EXPECT_EQ(places(R"(, "lease": "30s", "max_lease": "5m")"), "concurrency:5/30000000+300000000");
  EXPECT_EQ(places(R"(, "max_lease": 0.5, "lease": "250ms")"), "concurrency:5/250000+500000");
  EXPECT_EQ(places(""),
            " `lease` is missing: add the length of time after which a place comes back, such as "
            "30 or \"30s\"");
  EXPECT_EQ(places(R"(, "lease": 30, "window": 1)"),
            "/window `window` has no meaning for concurrency: write `lease`");
  EXPECT_EQ(places(R"(, "lease": 30, "window": "month")"),
            "/window `window` has no meaning for concurrency: write `lease`");
  EXPECT_EQ(places(R"(, "lease": 30, "burst": 1)"),
            "/burst `burst` is for token_bucket, and this is a concurrency: take it out");
  EXPECT_EQ(places(R"(, "lease": 30, "max_lease": 29.999999)"),
            "/max_lease `max_lease` is shorter than the lease");
  const std::string range =
      "/lease a lease must be a length of time such as \"30s\", or a number of seconds with at "
      "most 6 digits behind the point, 1us to 36600d";
  for (const std::string lease : {"0", "\"0s\"", "0.0000001", "\"36601d\"", "\"month\"", "true"})
    EXPECT_EQ(places(", \"lease\": " + lease), range) << lease;
  EXPECT_EQ(places(R"(, "lease": "30")"),
            "/lease `lease` has no unit: write a number in place of a text if seconds are meant; "
            "units are us, ms, s, m, h, d");
  EXPECT_EQ(limit_of(R"("quota": 5, "window": 1, "lease": 30)"),
            "/lease a lease is for algorithm concurrency, and this is a token_bucket: take it out");
  EXPECT_EQ(limit_of(R"("quota": 5, "max_lease": 30, "algorithm": "fixed_bucket")"),
            "/max_lease a lease is for algorithm concurrency, and this is a fixed_bucket: take it "
            "out");
}

TEST(TakeBody, ReportsInvalidLimitsWithTheirPlace) {
  EXPECT_EQ(limit_of(R"("window": 1)"), " `quota` is missing: add the units that a window allows");
  EXPECT_EQ(limit_of(R"("quota": 1)"),
            " `window` is missing: add the length of time that the quota is for, such as \"1m\"");
  for (const std::string value : {"\"1m\"", "0"})
    EXPECT_EQ(
        limit_of(R"("window": 1, "quota": 1, "algorithm": "fixed_bucket")"),
        "/window `window` has no effect on a fixed_bucket, whose units come back only by being "
        "put back: take it out")
        << value;
  EXPECT_EQ(limit_of(R"("burst": 1, "quota": 1, "window": 1, "algorithm": "sliding_log")"),
            "/burst `burst` is for token_bucket, and this is a sliding_log: take it out");
  EXPECT_EQ(limit_of(R"("qouta": 1)"), "/qouta unknown member `qouta`; did you mean `quota`?");
  EXPECT_EQ(
      limit_of(R"("n": 1)"),
      "/n unknown member `n`; known are `name`, `quota`, `window`, `algorithm`, `burst`, `lease`, "
      "`max_lease`, `over`, `overdraft`, `time_zone`, `week_starts`, `month_day`, `year_day`, "
      "`starts_at`");
  EXPECT_EQ(limit_of(R"("quota": 1, "quota": 1)"),
            "/quota `quota` is there twice: take one of them out");
  EXPECT_EQ(limit_of(R"("algorithm": "slidinglog")"),
            "/algorithm unknown algorithm `slidinglog`; did you mean `sliding_log`?");
  const std::string all_algorithms =
      "; known are `token_bucket`, `fixed_window`, `aligned_window`, `sliding_window`, "
      "`sliding_log`, `fixed_bucket`, `concurrency`";
  for (const std::string name : {"x", "deny", "unlimited", ""})
    EXPECT_EQ(limit_of(R"("algorithm": ")" + name + "\""),
              "/algorithm unknown algorithm `" + name + "`" + all_algorithms);
  EXPECT_EQ(limit_of(R"("algorithm": "gcra")"),
            "/algorithm unknown algorithm `gcra`: write `token_bucket`, which makes the same "
            "promise in exact arithmetic");
  EXPECT_EQ(limit_of(R"("algorithm": 1)"),
            R"(/algorithm `algorithm` must be a text such as "token_bucket")");
  for (const std::string name :
       {"1", "\"\"", "\"a b\"", "\"\\u00e4\"", "null", "\"a,\"",
        "\"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\""})
    EXPECT_EQ(limit_of(R"("name": )" + name),
              "/name `name` must be 1 to 64 letters, digits, `_`, `-`, `.`, `:` or `/`");
  const std::string one = R"({"quota": 1, "window": 1, "name": "x"})";
  EXPECT_EQ(read(R"({"key": "k", "limits": [)" + one + "," + one + "]}"),
            "/limits/1/name another limit of this list is named `x` too");
  EXPECT_EQ(read(R"({"takes": [{"key": "k", "limits": [)" + one +
                 R"(]}, {"key": "k", "limits": [)" + one + "]}]}"),
            "takes | key(k) x:token_bucket:1/1000000+1 | key(k) x:token_bucket:1/1000000+1");
  EXPECT_EQ(
      read(R"({"takes": [)" + times(3, R"({"entries": {"a": 1}})") +
           R"(, {"key": "k", "limits": [{"quota": 1, "window": true}]}]})"),
      "/takes/3/limits/0/window `window` must be a length of time such as \"1m\", a number of "
      "seconds, or a window of the calendar: \"hour\", \"day\", \"week\", \"month\" or \"year\"");
}

TEST(TakeBody, ReadsWindowsExactly) {
  for (const auto& [value, us] :
       std::vector<std::pair<std::string, std::string>>{{"\"1us\"", "1"},
                                                        {"\"250ms\"", "250000"},
                                                        {"\"36600d\"", "3162240000000000"},
                                                        {"0.000001", "1"},
                                                        {"0.0000010", "1"},
                                                        {"1e-6", "1"},
                                                        {"60", "60000000"},
                                                        {"6.0e1", "60000000"},
                                                        {"0.1", "100000"},
                                                        {"86400.123456", "86400123456"},
                                                        {"3162240000", "3162240000000000"},
                                                        {"3162239999.999999", "3162239999999999"}})
    EXPECT_EQ(window_of(value), us) << value;
  const std::string range =
      "/window `window` must be 1us to 36600d; a number of seconds has at most 6 digits behind the "
      "point";
  for (const std::string value : {"0", "0.0", "-0", "-1", "1.0000001", "1e-7", "3162240000.000001",
                                  "1e400", "\"0s\"", "\"36601d\"", "\"3162240000000001us\""})
    EXPECT_EQ(window_of(value), range) << value;
  const std::string sentence =
      "/window `window` must be a length of time such as \"1m\", a number of seconds, or "
      "a window of the calendar: \"hour\", \"day\", \"week\", \"month\" or \"year\"";
  for (const std::string value :
       {"true", "\"\"", "\"1 m\"", "\"-1s\"", "\"1.5s\"", "{}", "\"soon\""})
    EXPECT_EQ(window_of(value), sentence) << value;
  EXPECT_EQ(window_of("\"60\""),
            "/window `window` has no unit: write a number in place of a text if seconds are meant; "
            "units are us, ms, s, m, h, d");
}

TEST(TakeBody, ReadsWholeNumbersHoweverTheyAreWritten) {
  for (const auto& [value, n] : std::vector<std::pair<std::string, std::string>>{
           {"0", "0"},
           {"-0", "0"},
           {"0.000", "0"},
           {"-0e5", "0"},
           {"0e99999999999999999999", "0"},
           {"1", "1"},
           {"1.0", "1"},
           {"1e0", "1"},
           {"1e2", "100"},
           {"1E+2", "100"},
           {"100.0", "100"},
           {"1.5e1", "15"},
           {"0.5e1", "5"},
           {"500e-2", "5"},
           {"50.0e-1", "5"},
           {"9007199254740991", "9007199254740991"},
           {"9007199254740991.0", "9007199254740991"},
           {"90071992547409910e-1", "9007199254740991"},
           {"9.007199254740991e15", "9007199254740991"},
           {"0.0000000000000000000000001e25", "1"},
           {"10000000000000000000000000e-25", "1"},
           {"1" + std::string(3000, '0') + "e-3000", "1"},
           {"0." + std::string(2999, '0') + "1e3000", "1"}}) {
    EXPECT_EQ(n_of(value), n) << value;
  }
  for (const std::string value :
       {"9007199254740992", "9007199254740991.1", "9007199254740990.9", "1e16", "0.1", "1e-1",
        "15e-1", "1e99999999999999999999", "1e-99999999999999999999", "18446744073709551617",
        "18446744073709551616", "184467440737095516170", "-9007199254740991"})
    EXPECT_EQ(n_of(value), "/n `n` must be a whole number from 0 to 9007199254740991") << value;
  for (const std::string value : {"1.", ".1", "1e", "1e+", "-", "- 1", "0x1", "01", "1_000", "1k"})
    EXPECT_TRUE(n_of(value).find("JSON") != std::string::npos || n_of(value).starts_with("/n `n`"))
        << n_of(value);
}

TEST(TakeBody, ReadsQuotasAsNumbersAndAsTexts) {
  for (const auto& [value, n] : std::vector<std::pair<std::string, std::string>>{
           {"1", "1"},
           {"1e2", "100"},
           {"100.0", "100"},
           {"\"10k\"", "10000"},
           {"\"2M\"", "2000000"},
           {"\"10_000\"", "10000"},
           {"\"007\"", "7"},
           {"9007199254740991", "9007199254740991"},
           {"\"9007199254740991\"", "9007199254740991"}})
    EXPECT_EQ(quota_of(value), n) << value;
  const std::string sentence =
      " must be a whole number from 1 to 9007199254740991, or such a number "
      "as a text: \"10k\"";
  for (const std::string value :
       {"0", "-1", "1.5", "\"0\"", "\"1.5\"", "\"-1\"", "\"1e2\"", "\"\"", "\"1 k\"", "\"1K\"",
        "9007199254740992", "\"9007199254740992\"", "\"9007199255M\"", "true", "null", "[]"}) {
    EXPECT_EQ(quota_of(value), "/quota `quota`" + sentence) << value;
    EXPECT_EQ(limit_of(R"("burst": )" + value), "/burst `burst`" + sentence) << value;
  }
}

TEST(TakeBody, KeepsTheTextOfNumbersAndWordsInEntries) {
  for (const std::string value : {"0", "-0", "1.50", "1e400", "-1E+05", "true", "false", "0.10",
                                  "123456789012345678901234567890"})
    EXPECT_EQ(value_of(value), value);
  EXPECT_EQ(value_of("\"\""), "");
  EXPECT_EQ(value_of("\"null\""), "null");
}

TEST(TakeBody, UnescapesTexts) {
  EXPECT_EQ(value_of(R"("\"\\\/\b\f\n\r\t")"), "\"\\/\b\f\n\r\t");
  EXPECT_EQ(value_of(R"("a\u0041\u00e4\u20AC\ud83d\ude00z")"),
            "aA\xC3\xA4\xE2\x82\xAC\xF0\x9F\x98\x80z");
  EXPECT_EQ(value_of(R"("\u0000\u007f\u0080\u07ff\u0800\uffff\ud800\udc00\udbff\udfff")"),
            std::string(1, '\0') + "\x7f\xC2\x80\xDF\xBF\xE0\xA0\x80\xEF\xBF\xBF" +
                "\xF0\x90\x80\x80\xF4\x8F\xBF\xBF");
  EXPECT_EQ(value_of("\"\x7f\xC3\xA4\xF4\x8F\xBF\xBF\""), "\x7f\xC3\xA4\xF4\x8F\xBF\xBF");
  EXPECT_EQ(read(R"({"\u0065ntries": {"\"k\"": 1}, "mode": "\u0065ach"})"), "one each | \"k\"->1");
  EXPECT_EQ(limit_of(R"("quota": "\u0031k", "window": "1\u006d", "name": "\u0078")"),
            "x:token_bucket:1000/60000000+1000");
}

TEST(TakeBody, RejectsInvalidJsonStrings) {
  const std::string head = "/entries/a the body is not JSON: ";
  for (const std::string value : {R"("\ud83d")", R"("\ude00")", R"("\ud83d\ud83d")", R"("\ud83dx")",
                                  R"("\ud83d\n")", R"("\ud83d\u0041")", R"("\ude00\ud83d")",
                                  R"("\ude00\ude00")", R"("\ud83d\ue000")", R"("\ud83d\udbff")"})
    EXPECT_EQ(value_of(value), head + "half of a surrogate pair at offset 19") << value;
  for (const std::string value :
       {R"("\u")", R"("\u12")", R"("\u123g")", R"("\u 123")", R"("\u-123")"})
    EXPECT_EQ(value_of(value), head + "`\\u` without four hexadecimal digits at offset 19")
        << value;
  EXPECT_EQ(value_of(R"("\ud83d\u12")"), head + "half of a surrogate pair at offset 19");
  for (const std::string value : {R"("\x41")", R"("\'")", R"("\U0041")", R"("\0")", "\"\\\n\""})
    EXPECT_EQ(value_of(value), head + "an escape that JSON does not have at offset 19") << value;
  for (char c = 0; c < 0x20; ++c)
    for (const size_t before : {size_t{0}, size_t{3}, size_t{12}}) {
      const std::string offset = std::to_string(19 + before);
      EXPECT_EQ(value_of("\"" + std::string(before, 'x') + c + std::string(9, 'y') + "\""),
                head + "a control character that is not escaped, as in `\\n`, at offset " + offset);
    }
  EXPECT_EQ(read("{\"entries\": {\"a"), "/entries the body is not JSON: it ends within a text");
  EXPECT_EQ(read("{\"entries\": {\"a\\"), "/entries the body is not JSON: it ends within a text");
}

TEST(TakeBody, RejectsInvalidUtf8) {
  for (const std::string bytes :
       {"\x80", "\xC0\xAF", "\xC1\xBF", "\xE0\x80\xAF", "\xED\xA0\x80", "\xF0\x80\x80\xAF",
        "\xF4\x90\x80\x80", "\xFE", "\xE2\x82", "\xC3"}) {
    EXPECT_EQ(value_of("\"" + bytes + "\""), " the body is not UTF-8 at offset 19");
    EXPECT_EQ(read(bytes), " the body is not UTF-8 at offset 0");
  }
}

TEST(TakeBody, HoldsItsBounds) {
  EXPECT_TRUE(read("{\"entries\": {" + keys(64) + "}}").ends_with(" k63->1"));
  const std::string too_many =
      "`entries` has more than 64 keys: leave out those that no rule needs";
  EXPECT_EQ(read("{\"entries\": {" + keys(65) + "}}"), "/entries/k64 " + too_many);
  const std::string subject = R"({"entries": {"a": 1}})";
  EXPECT_EQ(read("{\"takes\": [" + times(64, subject) + "]}"), "takes" + times(64, " | a->1", ""));
  EXPECT_EQ(read("{\"takes\": [" + times(65, subject) + "]}"),
            "/takes/64 `takes` has more than 64 items");
  EXPECT_EQ(read("{\"takes\": [" + times(1000, subject) + "]}", batch),
            "takes" + times(1000, " | a->1", ""));
  EXPECT_EQ(read("{\"takes\": [" + times(1001, subject) + "]}", batch),
            "/takes/1000 `takes` has more than 1000 items");
  // The bounds hold for each subject by itself.
  const std::string full = "{\"entries\": {" + keys(64) + "}}";
  EXPECT_TRUE(read("{\"takes\": [" + full + "," + full + "]}").ends_with(" k63->1"));
  EXPECT_EQ(read("{\"takes\": [" + full + ",{\"entries\": {" + keys(65) + "}}]}"),
            "/takes/1/entries/k64 " + too_many);

  const auto limits = [](const std::string& list) {
    return read(R"({"key": "k", "limits": [)" + list + "]}");
  };
  const std::string limit = R"({"quota": 1, "window": 1})";
  EXPECT_EQ(limits(times(8, limit)), "one | key(k)" + times(8, " token_bucket:1/1000000+1", ""));
  EXPECT_EQ(limits(times(9, limit)), "/limits/8 `limits` has more than 8 items");
  const auto log = [](const std::string& quota) {
    return R"({"window": 1, "algorithm": "sliding_log", "quota": )" + quota + "}";
  };
  const std::string cells =
      "/limits these limits need more memory than one counter may have: at "
      "most two of sliding_log or concurrency can have a quota of 32 or more";
  EXPECT_TRUE(limits(times(2, log("32"))).starts_with("one"));
  EXPECT_EQ(limits(times(2, log("32")) + "," + limit), cells);
  EXPECT_TRUE(limits(times(2, log("31")) + "," + limit + "," + limit).starts_with("one"));
  EXPECT_EQ(limits(times(3, log("9007199254740991"))), cells);
}

TEST(TakeBody, ShortensLongTextsInErrors) {
  const std::string longest(64, 'k'), umlauts = "x" + times(40, "\xC3\xA4", "");
  const std::string known =
      "; known are `entries`, `key`, `limits`, `takes`, `n`, `mode`, `detail`";
  EXPECT_EQ(read("{\"" + longest + "\": 1}"),
            "/" + longest + " unknown member `" + longest + "`" + known);
  EXPECT_EQ(read("{\"" + longest + "k\": 1}"), " unknown member `" + longest + "...`" + known);
  EXPECT_EQ(read("{\"" + umlauts + "\": 1}"),
            " unknown member `x" + times(31, "\xC3\xA4", "") + "...`" + known);
  EXPECT_EQ(read("{\"entries\": {\"" + longest + "k\": null}}"),
            "/entries the value of an entry must be a text, a number, true or false");
  EXPECT_EQ(read(R"({"a\n\u0001b": 1})"),
            "/a\n\x01"
            "b unknown member `a\\n\\x01b`" +
                known);
}

TEST(TakeBody, DoesBoundedWorkForALargeBody) {
  TakeBodyReader reader;
  TakeBody body;
  const size_t bytes = size_t{1} << 20;
  for (const std::string& deep :
       {std::string(bytes, '['), std::string(bytes, '{'), times(bytes / 12, "{\"entries\":", ""),
        times(bytes / 10, "{\"takes\":[", "")}) {
    EXPECT_FALSE(reader.read(deep, take, body));
    EXPECT_LE(body.pointer.size(), 32u);
  }
  // A name is compared with 64 others at most, because the 65th entry is refused.
  EXPECT_FALSE(reader.read("{\"entries\": {" + keys(90'000) + "}}", take, body));
  EXPECT_EQ(body.pointer, "/entries/k64");
  EXPECT_EQ(body.entries.size(), 64u);
  EXPECT_FALSE(reader.read("{" + keys(90'000) + "}", take, body));
  EXPECT_EQ(body.pointer, "/k0");
  EXPECT_FALSE(reader.read("{\"n\": 1" + std::string(bytes, '0') + "}", take, body));
  EXPECT_EQ(body.pointer, "/n");
  EXPECT_FALSE(reader.read("{\"n\": 0." + std::string(bytes, '0') + "1}", take, body));
  EXPECT_FALSE(reader.read("{\"n\": 1e" + std::string(bytes, '9') + "}", take, body));
  const std::string full = "{\"entries\":{" + keys(64) + "}}";
  ASSERT_TRUE(reader.read("{\"takes\": [" + times(1000, full) + "]}", batch, body));
  EXPECT_EQ(body.entries.size(), 64'000u);
  const std::string text = "{\"entries\": {\"a\": \"" + times(bytes / 6, "\\u0061", "") + "\"}}";
  ASSERT_TRUE(reader.read(text, take, body)) << body.problem;
  EXPECT_EQ(body.entries[0].value, std::string(bytes / 6, 'a'));
}

}  // namespace
}  // namespace sluice::http::take_body_test
