// YAML as Go's library yaml.v2 reads it, which Envoy's service uses: the values of scalars, and
// merge keys.
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <utility>

#include "protocol/envoy/words.h"

namespace sluice::envoy {
namespace {

using policy::YamlDocument;

// The kind and the value of a scalar.
std::string value_of(std::string_view yaml) {
  YamlDocument document;
  if (const auto error = parse_yaml(yaml, document, {.foreign_tags = true})) return error->message;
  const GoValue value = go_value(document.root());
  switch (value.kind) {
    case GoValue::Kind::null:
      return "null";
    case GoValue::Kind::boolean:
      return value.boolean ? "true" : "false";
    case GoValue::Kind::whole:
      return std::to_string(value.whole);
    case GoValue::Kind::number:
      return "number " + go_key_text(document.root());
    case GoValue::Kind::text:
      return "text";
    case GoValue::Kind::unreadable:
      break;
  }
  return "unreadable";
}

TEST(GoYaml, WordsOfYaml11) {
  for (const char* word : {"y", "Y", "yes", "Yes", "YES", "on", "On", "true", "TRUE"})
    EXPECT_EQ(value_of(word), "true") << word;
  for (const char* word : {"n", "N", "no", "off", "OFF", "false", "False"})
    EXPECT_EQ(value_of(word), "false") << word;
  for (const char* word : {"", "~", "null", "Null", "NULL"}) EXPECT_EQ(value_of(word), "null");
  for (const char* word : {"yEs", "tRUE", "nuLL", "nil", "o", "'yes'", "\"~\"", "x", "<<"})
    EXPECT_EQ(value_of(word), "text") << word;
}

TEST(GoYaml, WholeNumbers) {
  const std::pair<const char*, const char*> known[] = {
      {"0", "0"},
      {"-0", "0"},
      {"17", "17"},
      {"+17", "17"},
      {"1_000", "1000"},
      {"0x1f", "31"},
      {"0X_1F", "31"},
      {"-0x10", "-16"},
      {"0b11", "3"},
      {"-0b11", "-3"},
      {"010", "8"},
      {"007", "7"},
      {"0o17", "15"},
      {"00", "0"},
      {"5_", "5"},
      {"+0b1", "1"},
      {"9223372036854775807", "9223372036854775807"},
      {"-9223372036854775808", "-9223372036854775808"}};
  for (const auto& [text, value] : known) EXPECT_EQ(value_of(text), value) << text;
}

TEST(GoYaml, OtherNumbers) {
  const std::pair<const char*, const char*> known[] = {
      {"1.5", "1.5"},
      {"-.5", "-0.5"},
      {"1.", "1"},
      {"1e3", "1000"},
      {"1_0.5", "10.5"},
      {"08", "8"},
      {"1e21", "1e+21"},
      {"1e20", "100000000000000000000"},
      {"0.0001", "0.0001"},
      {"0.00001", "1e-05"},
      {"9223372036854775808", "9223372036854775808"},
      {"123456789012345678901234567890", "1.2345678901234568e+29"},
      {".inf", "+Inf"},
      {"-.INF", "-Inf"},
      {".nan", "NaN"}};
  for (const auto& [text, value] : known)
    EXPECT_EQ(value_of(text), std::string("number ") + value) << text;
}

TEST(GoYaml, ReadsTextsThatOnlyLookLikeNumbers) {
  for (const char* text :
       {"1:30", "2020-01-01", "0x", "0xg", "1e999", "1.2.3", ".", "+", "1e", "0b12", "_1", "'5'",
        "\"5\"", "|\n  5", "30s", "+-5", "!!str 5", "!mine 5", "!!timestamp 2020-01-01"})
    EXPECT_EQ(value_of(text), "text") << text;
}

TEST(GoYaml, RejectsATagThatDoesNotFitItsValue) {
  EXPECT_EQ(value_of("!!int '5'"), "5");
  EXPECT_EQ(value_of("!!float 5"), "number 5");
  EXPECT_EQ(value_of("!!bool yes"), "true");
  EXPECT_EQ(value_of("!!null ''"), "null");
  for (const char* text : {"!!int x", "!!int 1.5", "!!bool 5", "!!float yes", "!!binary aGk="})
    EXPECT_EQ(value_of(text), "unreadable") << text;
}

// The entries of a map in the order in which they are set; merged ones begin with "<".
std::string members_of(std::string_view yaml, size_t most = 100) {
  YamlDocument document;
  if (const auto error = parse_yaml(yaml, document)) return error->message;
  YamlNode last = document.root();
  // Of a list, the last item; it names the items before it by their anchors.
  if (last.is_list())
    for (YamlNode item = last.first_child(); item; item = item.next()) last = item;
  std::vector<GoMember> members;
  if (const auto problem = append_members(last, most, members)) return std::string(problem->why);
  std::string text;
  for (const auto& [key, value, merged_by] : members)
    text += (text.empty() ? "" : " ") + std::string(merged_by ? "<" : "") +
            std::string(key.text()) + "=" + std::string(value.text());
  return text;
}

TEST(GoYaml, MapsAreMergedAtThePlaceOfTheMergeKey) {
  EXPECT_EQ(members_of("[&a {x: 1, y: 2}, {y: 3, <<: *a, z: 4}]"), "y=3 <x=1 <y=2 z=4");
  EXPECT_EQ(members_of("[&a {x: 1}, &b {<<: *a, x: 2}, {<<: *b}]"), "<x=1 <x=2");
  // The first map of a merged list has precedence, so its entries are set last.
  EXPECT_EQ(members_of("[&a {x: 1}, &b {x: 2}, {<<: [*a, *b]}]"), "<x=2 <x=1");
  EXPECT_EQ(members_of("{'<<': 5, x: 1, x: 2}"), "<<=5 x=1 x=2");
  EXPECT_EQ(members_of("{<<: {}}"), "");
}

TEST(GoYaml, RejectsAMergeOfANonMap) {
  for (const char* text : {"{<<: 5}", "{<<: }", "{<<: [{x: 1}, 5]}", "{<<: [[{x: 1}]]}"})
    EXPECT_EQ(members_of(text), "merges something that is not a map") << text;
}

TEST(GoYaml, MergingIsBounded) {
  EXPECT_EQ(members_of("[&a {x: 1, y: 2}, {<<: [*a, *a]}]", 4), "<x=1 <y=2 <x=1 <y=2");
  EXPECT_EQ(members_of("[&a {x: 1, y: 2}, {<<: [*a, *a]}]", 3),
            "expands to far more than the file contains, by aliases and merge keys");
  // Maps without entries, of which each merges the one before it twice: also that work is bounded.
  std::string doubled = "[&a0 {}";
  for (int i = 1; i < 40; ++i) {
    const std::string before = "*a" + std::to_string(i - 1);
    doubled += ", &a" + std::to_string(i) + " {<<: [" + before + ", " + before + "]}";
  }
  EXPECT_EQ(members_of(doubled + "]"),
            "expands to far more than the file contains, by aliases and merge keys");
}

}  // namespace
}  // namespace sluice::envoy
