// Policies in Divvy's formats (INI and JSON) in detail: how each quirk of a format is read, and
// what is reported to users.
#include "protocol/divvy/rules.h"

#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <vector>

#include "base/bounds.h"
#include "tests/support/patience.h"

namespace sluice::divvy::rules_test {
namespace {

std::string actor_of(const policy::Rule& rule) {
  return rule.actor.empty() ? "" : rule.actor.front();
}

struct Loaded {
  request::Spaces spaces;
  policy::RuleSet rules;
  base::Diagnostics diagnostics;

  Loaded(std::string_view text, std::string_view file,
         DivvyMatching matching = DivvyMatching::code) {
    read_divvy(text, *divvy_format(file), matching, file, spaces, rules, diagnostics);
  }

  bool accepted() const { return !has_errors(diagnostics); }
  std::span<const policy::Rule> all() const { return rules.rules(&dialect); }
  const policy::Rule& rule(size_t i) const { return all()[i]; }

  std::string messages() const {
    std::string text;
    for (const base::Diagnostic& d : diagnostics) text += to_string(d) + '\n';
    return text;
  }
  bool says(std::string_view text) const { return messages().find(text) != std::string::npos; }

  std::string decider(std::vector<request::Entry> request) const {
    std::string_view error;
    const policy::Rule* rule = rules.decider(&dialect, request, error);
    return rule ? rule->pattern : error.empty() ? "none" : "error";
  }
};

constexpr const char* deny = "\n[default]\ncreditLimit = 0\n";
Loaded ini(const std::string& text, DivvyMatching matching = DivvyMatching::code) {
  return Loaded(text + deny, "rules.ini", matching);
}
Loaded json(const std::string& rules) {
  return Loaded(
      "{\"overrides\": [" + rules + "], \"default\": {\"operation\": {}, \"creditLimit\": 0}}",
      "rules.json");
}

TEST(Divvy, TakesTheFormatFromTheName) {
  EXPECT_EQ(divvy_format("rules.ini"), DivvyFormat::ini);
  EXPECT_EQ(divvy_format("/a.b/c.json"), DivvyFormat::json);
  for (const char* name : {"rules", "rules.INI", "rules.Json", "rules.ini.bak", "a.ini/rules",
                           ".ini", "x/.json", "", "ini"}) {
    EXPECT_FALSE(divvy_format(name)) << name;
  }
}

TEST(DivvyIni, ReadsARule) {
  const Loaded loaded =
      ini("[method=GET path=/pantry/cookies/* ip=*]\ncreditLimit = 3\nresetSeconds = "
          "3600\nactorField = ip\n"
          "label = cookies\ncomment = '3 requests per hour, by IP'\nmatchPolicy = canary # look "
          "only\n");
  ASSERT_TRUE(loaded.accepted()) << loaded.messages();
  EXPECT_EQ(loaded.messages(), "");
  const policy::Rule& rule = loaded.rule(0);
  EXPECT_EQ(rule.pattern, "method=GET path=/pantry/cookies/* ip=*");
  EXPECT_EQ(rule.name, "cookies");
  EXPECT_EQ(rule.comment, "3 requests per hour, by IP");
  EXPECT_EQ(rule.file, "rules.ini");
  EXPECT_EQ(rule.line, 1u);
  EXPECT_EQ(actor_of(rule), "ip");
  EXPECT_EQ(rule.mode, policy::Mode::shadow);
  EXPECT_TRUE(rule.counted_as_shadow);
  EXPECT_EQ(rule.limits.at(0),
            (limit::Limit{limit::Algorithm::fixed_window, 3, base::seconds(3600)}));
  EXPECT_EQ(rule.space->prefix, "divvy:ip=* method=GET path=/pantry/cookies/*:");
  EXPECT_EQ(rule.space->suffix, ":3:3600");
  EXPECT_EQ(loaded.rule(1).pattern, "default");
  EXPECT_EQ(loaded.rule(1).line, 9u);
  EXPECT_EQ(loaded.rule(1).space->prefix, "divvy::");
}

TEST(DivvyIni, SectionNames) {
  const std::vector<std::pair<std::string, std::string>> rows = {
      {"[a=1]", "a=1"},
      {"  [a=1]\t", "a=1"},
      {"[a=1] ; note", "a=1"},
      {"[a=1] # note ]", "a=1"},
      {"[ a=1   b=2 ]", "a=1 b=2"},
      {"[a=1 b]", "a=1 b="},
      {"[a=1 b=]", "a=1 b="},
      {"[a=x=y]", "a=x"},
      {"[a=1 a=2]", "a=2"},
      {"[\"a=1\"]", "a=1"},
      {"['a=1']", "a=1"},
      {"[a=\"1\"]", "a=\"1\""},
      {"[a=/p#q]", "a=/p"},
      {"[a=/p\\#q\\;r]", "a=/p#q;r"},
      {"[a=\\\\x\\n]", "a=\\x\\n"},
      {"[host=a.b]", "host=a.b"},
      {"[host=a\\.b]", "host=a.b"},
      {"[\"host=a.b\"]", "host=a.b"},
      {"[7]", "7="},
      {"[]", "="},
      {"[Default]", "Default="},
      {"[a=caf\xC3\xA9]", "a=caf\xC3\xA9"},
  };
  for (const auto& [header, pattern] : rows) {
    const Loaded loaded = ini(header + "\ncreditLimit = 1\nresetSeconds = 60\n");
    ASSERT_TRUE(loaded.accepted()) << loaded.messages();
    EXPECT_EQ(loaded.rule(0).pattern, pattern) << header;
  }
  // A header with a dot is a rule of its own, not a part of the rule named before the dot.
  const Loaded dotted = ini(
      "[path=/v1]\ncreditLimit=1\nresetSeconds=60\n[path=/v1.1]\ncreditLimit=2\nresetSeconds=60\n");
  ASSERT_EQ(dotted.all().size(), 3u) << dotted.messages();
  EXPECT_EQ(dotted.decider({{"path", "/v1.1"}}), "path=/v1.1");
  EXPECT_EQ(dotted.decider({{"path", "/v1x1"}}), "default");
}

TEST(DivvyIni, Numbers) {
  struct Row {
    const char* text;
    int64_t value;
    bool warns;
  };
  const Row rows[] = {
      {"43", 43, false},
      {"  43  ", 43, false},
      {"43 per minute", 43, true},
      {"600s", 600, true},
      {"1e3", 1, true},
      {"67.9", 67, true},
      {"+5", 5, false},
      {"007", 7, false},
      {"'42'", 42, false},
      {"\"42\"", 42, false},
      {"'1e3'", 1000, false},
      {"43 ; note", 43, false},
      {"9007199254740991", 9007199254740991, false},
      {"0x10", 0, true},
  };
  for (const Row& row : rows) {
    const Loaded loaded =
        ini(std::string("[a=1]\nresetSeconds=60\ncreditLimit = ") + row.text + "\n");
    ASSERT_TRUE(loaded.accepted()) << loaded.messages();
    EXPECT_EQ(loaded.rule(0).limits.at(0).quota, row.value) << row.text;
    EXPECT_EQ(loaded.messages().empty(), !row.warns) << loaded.messages();
    if (row.value == 0) continue;
    EXPECT_EQ(loaded.rule(0).space->suffix, ":" + std::to_string(row.value) + ":60");
  }
  EXPECT_TRUE(ini("[a=1]\nresetSeconds=60\ncreditLimit = 1e3\n")
                  .says("`1e3` is read as 1, NOT with its exponent"));
  for (const char* text :
       {"many", "", "-1", "true", "null", "e3", "9007199254740992", "99999999999999999999999"}) {
    const Loaded loaded = ini(std::string("[a=1]\nresetSeconds=60\ncreditLimit = ") + text + "\n");
    EXPECT_FALSE(loaded.accepted()) << text;
    EXPECT_TRUE(loaded.says("rules.ini:3: error: rule [a=1]: creditLimit")) << loaded.messages();
  }
}

TEST(DivvyIni, OtherValues) {
  const std::string head = "[a=1 ip=*]\ncreditLimit=1\nresetSeconds=60\n";
  EXPECT_EQ(actor_of(ini(head + "actorField = 'ip'\n").rule(0)), "ip");
  EXPECT_EQ(actor_of(ini(head + "actorField = \"ip\" ; x\n").rule(0)),
            "\"ip\"");  // quotes that do not enclose the whole value belong to it
  EXPECT_EQ(actor_of(ini(head + "actorField = true\n").rule(0)), "true");
  EXPECT_EQ(actor_of(ini(head + "actorField\n").rule(0)), "true");
  EXPECT_EQ(actor_of(ini(head + "actorField = false\n").rule(0)), "");
  EXPECT_EQ(actor_of(ini(head + "actorField = null\n").rule(0)), "");
  EXPECT_EQ(actor_of(ini(head + "actorField =\n").rule(0)), "");
  EXPECT_EQ(actor_of(ini(head + "actorField = '5'\n").rule(0)), "5");
  EXPECT_EQ(actor_of(ini(head + "actorField[] = ip\n").rule(0)), "ip");
  EXPECT_EQ(actor_of(ini(head + "\"actorField\" = ip\n").rule(0)), "ip");
  EXPECT_EQ(ini(head + "creditLimit[] = 6\n").rule(0).limits.at(0).quota,
            1);  // appended to the values of the key, of which the first counts
  EXPECT_EQ(ini("[a=1]\ncreditLimit[] = 6\nresetSeconds=60\n").rule(0).limits.at(0).quota, 6);
  EXPECT_EQ(ini(head + "creditLimit = 2\n").rule(0).limits.at(0).quota, 2);
  EXPECT_EQ(ini(head + "comment = '10 requests per minute by default\n").rule(0).comment,
            "'10 requests per minute by default");
  EXPECT_EQ(ini(head + "comment = 'it's \"odd\"'\n").rule(0).comment, "it's \"odd\"");
  EXPECT_EQ(ini(head + "comment = \"a\\tb\"\n").rule(0).comment, "a\tb");
  EXPECT_EQ(ini(head + "comment = '\n").rule(0).comment, "");
  EXPECT_EQ(ini(head + "  ; creditLimit = 9\n  # creditLimit = 9\n").rule(0).limits.at(0).quota, 1);
  EXPECT_TRUE(ini(head + "= 9\n").accepted());
  EXPECT_TRUE(ini(head + "creditlimit = 9\n").says("did you mean `creditLimit`?"));
}

TEST(DivvyIni, LineEndsAndByteOrderMark) {
  for (const char* end : {"\n", "\r\n", "\r", "\n\n\r\n"}) {
    const std::string text =
        std::string("\xEF\xBB\xBF[a=1]") + end + "creditLimit = 1" + end + "resetSeconds = x" + end;
    const Loaded loaded = ini(text);
    ASSERT_EQ(loaded.all().size(), 2u);
    const size_t line = std::string(end).size() > 2 ? 7 : 3;
    ASSERT_EQ(loaded.diagnostics.size(), 1u);
    EXPECT_EQ(loaded.diagnostics[0].line, line);
  }
  EXPECT_TRUE(Loaded("[default]\ncreditLimit=0\ncomment=\xFF", "x.ini")
                  .says("x.ini:3: warning: the file is not UTF-8"));
}

TEST(DivvyIni, SectionsOfOneNameAreOne) {
  const Loaded loaded =
      ini("[j=1]\ncreditLimit = 490\nresetSeconds = "
          "600\n[l=1]\ncreditLimit=1\nresetSeconds=1\n[\"j=1\"]\ncreditLimit = 49\n");
  ASSERT_EQ(loaded.all().size(), 3u);
  EXPECT_EQ(loaded.rule(0).limits.at(0),
            (limit::Limit{limit::Algorithm::fixed_window, 49, base::seconds(600)}));
  EXPECT_TRUE(loaded.says(
      "rules.ini:7: warning: rule [j=1]: this section is merged into the one of line 1"));
}

TEST(DivvyIni, ReportsARepeatedField) {
  const Loaded loaded =
      ini("[a=1]\ncreditLimit = 5\nresetSeconds = 60\ncreditLimit = 6\noperation = x\n");
  EXPECT_EQ(loaded.messages(),
            "rules.ini:4: warning: rule [a=1]: creditLimit is already set in line 2; this one "
            "counts; remove one of "
            "the two\n"
            "rules.ini:5: warning: rule [a=1]: `operation` is not a field of a rule and has no "
            "effect; remove it\n");
  EXPECT_EQ(loaded.rule(0).limits.at(0).quota, 6);
}

TEST(Divvy, RejectsUnreachableRules) {
  std::string name;
  for (size_t i = 0; i <= base::bounds::descriptor_entries_max; ++i)
    name += " k" + std::to_string(i) + "=1";
  EXPECT_TRUE(
      ini("[" + name + "]\ncreditLimit=1\nresetSeconds=1\n").says("it asks for 257 entries"));
}

TEST(DivvyIni, WarnsOfAMalformedHeader) {
  const Loaded loaded =
      ini("[a=1]\ncreditLimit = 5\nresetSeconds = 60\n[p=/a[1]]\ncreditLimit = 6\n");
  EXPECT_TRUE(loaded.says("rules.ini:4: warning: rule [a=1]: `[p=/a[1]]` is not a section header"))
      << loaded.messages();
  EXPECT_EQ(loaded.rule(0).limits.at(0).quota, 6);
}

TEST(DivvyJson, Numbers) {
  const auto limit_of = [](const std::string& number) {
    return json(R"({"operation": {"a": "1"}, "creditLimit": )" + number +
                R"(, "resetSeconds": "60"})");
  };
  for (const auto& [text, suffix] : std::vector<std::pair<std::string, std::string>>{
           {"35", ":35:60"},
           {"\"35\"", ":35:60"},
           {"5.0", ":5:60"},
           {"1e3", ":1000:60"},
           {"\"035\"", ":035:60"},
           {"9007199254740991", ":9007199254740991:60"}}) {
    const Loaded loaded = limit_of(text);
    ASSERT_TRUE(loaded.accepted()) << loaded.messages();
    EXPECT_EQ(loaded.messages(), "");
    EXPECT_EQ(loaded.rule(0).space->suffix, suffix);
  }
  for (const char* text : {"2.5", "1e21", "9007199254740992", "\"lots\"", "\"2.5\"", "\" 5\"", "-1",
                           "\"-1\"", "true", "[5]", "{}"}) {
    const Loaded loaded = limit_of(text);
    EXPECT_FALSE(loaded.accepted()) << text;
    EXPECT_TRUE(loaded.says("creditLimit")) << loaded.messages();
  }
  for (const char* text : {"null", "false", "\"\""}) {
    const Loaded loaded = limit_of(text);
    EXPECT_TRUE(loaded.accepted()) << loaded.messages();
    EXPECT_TRUE(loaded.says("counts as 0")) << loaded.messages();
    EXPECT_EQ(loaded.rule(0).limits.at(0).algorithm, limit::Algorithm::deny);
  }
  const std::string century = std::to_string(base::bounds::window_us_max / 1'000'000);
  EXPECT_TRUE(
      json(R"({"operation": {"a": "1"}, "creditLimit": 1, "resetSeconds": )" + century + "}")
          .accepted());
  EXPECT_FALSE(
      json(R"({"operation": {"a": "1"}, "creditLimit": 1, "resetSeconds": )" + century + "0}")
          .accepted());
}

TEST(DivvyJson, ValuesOfAnOperationAreText) {
  const Loaded loaded = json(
      R"({"operation": {"n": 3, "f": 4.50, "b": true, "0": null, "l": [1, 2],
                        "o": {"x": [1, "y\"\n\u0001é"]}, "e": 1e21, "s": ""},
          "creditLimit": 1, "resetSeconds": 60, "actorField": 5, "label": 7, "matchPolicy": "",
          "comment": null})");
  ASSERT_TRUE(loaded.accepted()) << loaded.messages();
  EXPECT_EQ(loaded.rule(0).pattern,
            "n=3 f=4.5 b=true 0=null l=[1,2] o={\"x\":[1,\"y\\\"\\n\\u0001\xC3\xA9\"]} e=1e+21 s=");
  EXPECT_EQ(loaded.rule(0).space->prefix,
            "divvy:0=null b=true e=1e+21 f=4.5 l=[1,2] n=3 "
            "o={\"x\":[1,\"y\\\"\\n\\u0001\xC3\xA9\"]} s=:");
  EXPECT_EQ(actor_of(loaded.rule(0)), "5");
  EXPECT_EQ(loaded.rule(0).name, "7");
  EXPECT_EQ(loaded.rule(0).mode, policy::Mode::enforce);
}

TEST(DivvyJson, ReportsErrorsWithTheirPlace) {
  EXPECT_TRUE(
      Loaded("{\"overrides\":\n [ , ]}", "r.json").says("r.json:2:4: error: this is not JSON"));
  EXPECT_TRUE(Loaded("{\"overrides\": [\n{\"operation\": {\"a\": 1},\n  \"creditLimit\": \"x\"}]}",
                     "r.json")
                  .says("r.json:3:3: error: rule [a=1]: creditLimit `x` is not a whole number"));
  EXPECT_TRUE(Loaded("{\n \"overrides\": [\n  7]}", "r.json")
                  .says("r.json:3:3: error: a rule is a number"));
  EXPECT_TRUE(Loaded("[]", "r.json").says("the file holds a list instead of an object"));
  EXPECT_TRUE(Loaded("", "r.json").says("r.json:1:1: error: this is not JSON"));
  EXPECT_TRUE(
      Loaded("{\"default\": {\"operation\": {}, \"creditLimit\": 1, \"creditLimit\": 0}}", "r.json")
          .says("`creditLimit` is here twice; the last one counts"));
  EXPECT_TRUE(
      Loaded("{\"override\": [], \"default\": {\"operation\": {}, \"creditLimit\": 0}}", "r.json")
          .says("did you mean `overrides`?"));
  const std::string deep(200, '[');
  EXPECT_TRUE(Loaded(deep, "r.json").says("lists and objects are nested here"));
  EXPECT_TRUE(Loaded("\xEF\xBB\xBF{\"default\": {\"operation\": {}, \"creditLimit\": 0}}", "r.json")
                  .accepted());
  // A default rule that cannot be read is not reported as missing as well.
  EXPECT_EQ(Loaded("{\"default\": {\"creditLimit\": 0}}", "r.json").diagnostics.size(), 1u);
}

TEST(Divvy, ReportsEverythingInOneRun) {
  const Loaded loaded(
      "[a=1]\nresetSeconds = 60\n\n[b=1]\ncreditLimit = 5\nlabel = no spaces\n\n[b=1 "
      "c=2]\ncreditLimit = 5\n"
      "resetSeconds = 60\nmatchPolicy = Canary\ncolour = red\n",
      "rules.ini");
  EXPECT_EQ(loaded.messages(),
            "rules.ini:1: error: rule [a=1]: creditLimit is missing; add `creditLimit = N`: how "
            "many requests a window "
            "allows, 0 for none\n"
            "rules.ini:4: error: rule [b=1]: resetSeconds is missing; add `resetSeconds = N`: the "
            "seconds of a window, 0 "
            "to allow always\n"
            "rules.ini:6: error: rule [b=1]: label `no spaces` cannot name a metric; use 1 to 255 "
            "letters, digits, `_` "
            "or `-`\n"
            "rules.ini:8: error: rule [b=1 c=2]: it is unreachable: rule [b=1] (line 4) answers "
            "everything that it could "
            "match; move it in front of that rule, or narrow that rule\n"
            "rules.ini:11: error: rule [b=1 c=2]: matchPolicy `Canary` is unknown; write `canary`\n"
            "rules.ini:12: warning: rule [b=1 c=2]: `colour` is not a field of a rule and has no "
            "effect; remove it\n"
            "rules.ini: error: the file does not define a default rule: the last rule must have no "
            "conditions; add "
            "`[default]` (INI) or `\"default\": {\"operation\": {}, ...}` (JSON) at the end, with "
            "creditLimit = 0 and "
            "resetSeconds = 0 to deny what no rule matches\n");
}

TEST(Divvy, WarnsOfAnImpossiblePatternAndFailsItsRequests) {
  const Loaded loaded = ini("[m=GET p=**]\ncreditLimit = 5\nresetSeconds = 60\n");
  EXPECT_TRUE(loaded.accepted());
  EXPECT_TRUE(loaded.says("EVERY REQUEST")) << loaded.messages();
  EXPECT_EQ(loaded.decider({{"m", "GET"}}), "error");
  EXPECT_EQ(loaded.decider({{"m", "PUT"}}), "default");
  // In the documented matching, `**` is one star.
  EXPECT_EQ(
      ini("[p=**]\ncreditLimit = 5\nresetSeconds = 60\n", DivvyMatching::documented).messages(),
      "");
}

TEST(Divvy, RefusesPatternsBeyondTheirBound) {
  const Loaded loaded =
      ini("[p=*" + std::string(2000, 'a') + "*b]\ncreditLimit = 5\nresetSeconds = 60\n");
  EXPECT_TRUE(loaded.says("error: rule [p=*aaa")) << loaded.messages();
  EXPECT_TRUE(loaded.says("more than 1024 characters behind its first star")) << loaded.messages();
}

TEST(Divvy, ASecondFileIsUnreachableAfterTheFirstOnesDefault) {
  Loaded loaded("[default]\ncreditLimit=0\n", "a.ini");
  read_divvy("[x=1]\ncreditLimit=0\n[default]\ncreditLimit=0\n", DivvyFormat::ini,
             DivvyMatching::code, "b.ini", loaded.spaces, loaded.rules, loaded.diagnostics);
  EXPECT_TRUE(
      loaded.says("b.ini:1: error: rule [x=1]: it is unreachable: rule [default] (a.ini line 1)"));
}

// The check for unreachable rules uses the index of rules. To compare each of 10,000 rules with all
// rules before it would take too long.
TEST(Divvy, ReadsLongPoliciesInGoodTime) {
  std::string text;
  for (int i = 0; i < 10'000; ++i) {
    text += "[method=GET path=/x/" + std::to_string(i) + (i % 2 == 0 ? "" : "/*") +
            " ip=*]\ncreditLimit = 5\nresetSeconds = 60\n";
  }
  const auto start = std::chrono::steady_clock::now();
  const Loaded loaded = ini(text);
  // It usually takes 0.05 s.
  EXPECT_LT(std::chrono::steady_clock::now() - start, tests::promised(std::chrono::seconds(10)));
  EXPECT_EQ(loaded.messages(), "");
  EXPECT_EQ(loaded.decider({{"method", "GET"}, {"path", "/x/9998"}}),
            "method=GET path=/x/9998 ip=*");
  EXPECT_EQ(loaded.decider({{"method", "GET"}, {"path", "/x/9999/y"}}),
            "method=GET path=/x/9999/* ip=*");
  EXPECT_EQ(loaded.decider({{"method", "GET"}, {"path", "/x/9999"}}), "default");
}

TEST(Divvy, RulesOfOneIdentityShareTheirSpace) {
  const std::string rule =
      R"({"operation": {"a": "1"}, "creditLimit": 5, "resetSeconds": 60, "matchPolicy": )";
  const Loaded loaded =
      json(rule + "\"canary\", \"actorField\": \"x\"}, " + rule + "\"stop\", \"label\": \"l\"}");
  ASSERT_TRUE(loaded.accepted()) << loaded.messages();
  EXPECT_EQ(loaded.rule(0).space, loaded.rule(1).space);
}

}  // namespace
}  // namespace sluice::divvy::rules_test
