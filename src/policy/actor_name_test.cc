#include "policy/actor_name.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "policy/overrides.h"

namespace sluice::policy::actor_name_test {
namespace {

const std::vector<std::string> one_key = {"user"}, two_keys = {"tenant", "api"}, no_key;

std::string stored(const std::string& written) {
  const auto value = ActorValue::read(written);
  return value ? value->name() : "refused: " + value.problem().text;
}

bool matches(const std::string& written, const std::string& value) {
  const auto read = ActorValue::read(written);
  MatchSteps steps;
  return read && read->matches(value, steps);
}

TEST(ActorValue, ReadsTextsPatternsNetworksAndLists) {
  EXPECT_TRUE(matches("alice", "alice"));
  EXPECT_FALSE(matches("alice", "alice2"));
  EXPECT_TRUE(matches("10.0.*", "10.0.7.1"));
  EXPECT_TRUE(matches("cidr(203.0.113.0/24)", "203.0.113.9"));
  EXPECT_TRUE(matches("cidr(203.0.113.0/24)", "::ffff:203.0.113.9"));
  EXPECT_FALSE(matches("cidr(203.0.113.0/24)", "203.0.114.9"));
  EXPECT_FALSE(matches("cidr(203.0.113.0/24)", "cidr(203.0.113.0/24)"));
  for (const char* who : {"alice", "bob", "v-7", "10.1.2.3"})
    EXPECT_TRUE(matches("[bob, alice, v-*, cidr(10.0.0.0/8)]", who)) << who;
  EXPECT_FALSE(matches("[bob, alice, v-*, cidr(10.0.0.0/8)]", "carol"));
  EXPECT_FALSE(matches("[bob, alice]", "[bob, alice]"));
  EXPECT_TRUE(matches("exact(a*b)", "a*b"));
  EXPECT_FALSE(matches("exact(a*b)", "axb"));
  EXPECT_TRUE(matches("[exact(a*b), c]", "a*b"));
  EXPECT_TRUE(matches("[\"a, b\", 'it''s', \"say \\\"x\\\"\"]", "a, b"));
  EXPECT_TRUE(matches("[\"a, b\", 'it''s', \"say \\\"x\\\"\"]", "it's"));
  EXPECT_TRUE(matches("[\"a, b\", 'it''s', \"say \\\"x\\\"\"]", "say \"x\""));
  EXPECT_TRUE(matches("with blanks, commas", "with blanks, commas"));
  EXPECT_TRUE(matches("[\u00e9t\u00e9, \u6771\u4eac*]", "\u6771\u4eac\u90fd"));
}

TEST(ActorValue, HasOneNameForEachMeaning) {
  EXPECT_EQ(stored("exact(alice)"), "alice");
  EXPECT_EQ(stored("exact(a*b)"), "exact(a*b)");
  EXPECT_EQ(stored("[bob,alice,  bob]"), "[alice, bob]");
  EXPECT_EQ(stored("['alice']"), "alice");
  EXPECT_EQ(stored("[\"a, b\", c]"), "[\"a, b\", c]");
  EXPECT_EQ(stored("cidr(::ffff:10.0.0.0/104)"), "cidr(10.0.0.0/8)");
  const std::string list = stored("[x*, cidr(10.0.0.0/8), \"q\\\"\", exact(b*)]");
  EXPECT_EQ(stored(list), list);
}

TEST(ActorValue, RefusesWhatWouldMatchNothingAndSaysWhatToWrite) {
  const auto says = [](const std::string& written, const std::string& what) {
    const std::string text = stored(written);
    return text.starts_with("refused: ") && text.find(what) != std::string::npos;
  };
  EXPECT_TRUE(says("203.0.113.0/24", "write `cidr(203.0.113.0/24)`"));
  EXPECT_TRUE(says("203.0.113.0/24", "`exact(203.0.113.0/24)` for the text"));
  EXPECT_TRUE(says("10.0.0.7,10.0.0.8", "write `[10.0.0.7,10.0.0.8]`"));
  EXPECT_TRUE(says("10.0.0.7, ::1", "`exact(10.0.0.7, ::1)` for the text"));
  EXPECT_EQ(stored("exact(10.0.0.7,::1)"), "10.0.0.7,::1");
  EXPECT_EQ(override_name("10.0.0.7,::1", std::vector<std::string>{"ip"}), "exact(10.0.0.7,::1)");
  for (const char* text : {"10.0.0.7,alice", "10.0.0.7,", "a,b"}) EXPECT_EQ(stored(text), text);
  EXPECT_TRUE(says("regex(/^a/)", "write a text with `*`, a list"));
  EXPECT_TRUE(says("regex(^a)", "is an expression"));
  EXPECT_TRUE(says("cidr(203.0.113.0", "has no `)`"));
  EXPECT_TRUE(says("cidr(203.0.113.7/24)", "write `cidr(203.0.113.0/24)`"));
  EXPECT_TRUE(says("cidr(alice)", "is not a network"));
  EXPECT_TRUE(says("exact(alice", "has no `)`"));
  for (const char* list : {"[", "[]", "[alice", "[alice,]", "[alice bob] x", "[a, [b]]", "[\"a]"})
    EXPECT_TRUE(says(list, "refused")) << list;
  EXPECT_TRUE(says("[a, regex(/b/)]", "is an expression"));
  EXPECT_TRUE(says("[a, 10.0.0.0/8]", "write `cidr(10.0.0.0/8)`"));
  EXPECT_TRUE(says("[::1]", "`exact([::1])`"));
  std::string many = "[a0";
  for (size_t i = 1; i <= list_values_max; ++i) many += ", a" + std::to_string(i);
  EXPECT_TRUE(says(many + "]", "has 1 to 256 values"));
  // As it is stored.
  EXPECT_TRUE(ActorValue::read("2001:db8::/64", true));
}

// A common value of two patterns of at most three characters has at most six.
TEST(Patterns, MeetWhereAValueMatchesBoth) {
  const auto all = [](std::string_view characters, size_t most) {
    std::vector<std::string> texts{""};
    for (size_t i = 0; texts[i].size() < most; ++i)
      for (const char c : characters) texts.push_back(texts[i] + c);
    return texts;
  };
  const std::vector<std::string> texts = all("ab*", 3), values = all("ab", 6);
  size_t apart = 0;
  for (const std::string& one : texts)
    for (const std::string& other : texts) {
      const bool both = std::ranges::any_of(values, [&](const std::string& value) {
        return Pattern::wildcard(one).matches(value) && Pattern::wildcard(other).matches(value);
      });
      ASSERT_EQ(may_meet(Pattern::wildcard(one), Pattern::wildcard(other)), both)
          << one << " : " << other;
      apart += !both;
    }
  EXPECT_GT(apart, 200u);
}

TEST(Patterns, MeetWhatMayMatchTheSame) {
  const auto network = [](const std::string& text) {
    return Pattern::in_network("cidr(" + text + ")", *base::parse_ip_network(text));
  };
  const Pattern ten = network("10.0.0.0/8"), any = Pattern::loose("*"),
                list =
                    Pattern::any_of({Pattern::equal_to("alice"), Pattern::wildcard("bob-*"), ten});
  const auto meet = [](const Pattern& a, const Pattern& b) {
    EXPECT_EQ(may_meet(a, b), may_meet(b, a)) << a.text() << " : " << b.text();
    return may_meet(a, b);
  };
  for (const Pattern& its :
       {Pattern::equal_to("10.0.0.1"), Pattern::equal_to("[::ffff:10.0.0.1]:80"),
        network("10.1.0.0/16"), network("0.0.0.0/0"), any, list, Pattern::wildcard("10.*"),
        Pattern::wildcard("fe80::1%eth0*"), Pattern::any_of({Pattern::equal_to("x"), ten})})
    EXPECT_TRUE(meet(ten, its)) << its.text();
  for (const Pattern& its :
       {Pattern::equal_to("11.0.0.1"), Pattern::equal_to("alice"), network("11.0.0.0/8"),
        network("2001:db8::/32"), Pattern::wildcard("staff-*"),
        Pattern::any_of({Pattern::equal_to("x"), network("11.0.0.0/8")})})
    EXPECT_FALSE(meet(ten, its)) << its.text();
  for (const char* its : {"alice", "bob-1", "a*", "*", "*-7", "b*7", "10.*"})
    EXPECT_TRUE(meet(list, Pattern::wildcard(its))) << its;
  for (const char* its : {"carl", "bob", "z*", "x-*"})
    EXPECT_FALSE(meet(list, Pattern::wildcard(its))) << its;
  // Divvy's need not match the end of a value.
  EXPECT_TRUE(meet(Pattern::loose("/a*b"), Pattern::wildcard("/a*c")));
  EXPECT_TRUE(meet(Pattern::loose("/a*b"), Pattern::wildcard("/ab-c")));
  EXPECT_FALSE(meet(Pattern::loose("/a*b"), Pattern::wildcard("/b*")));
  EXPECT_FALSE(meet(Pattern::loose("/a*b"), Pattern::wildcard("/ac")));
}

TEST(ActorName, IsReadBackAsTheActorThatItNames) {
  const std::vector<std::string> odd = {"",
                                        "alice",
                                        "*",
                                        "a*b",
                                        "user=17",
                                        "user=*",
                                        "=",
                                        "dXNlcg==",
                                        "a|b",
                                        "a\\b",
                                        "[a, b]",
                                        "[::1]:80",
                                        "[::1]",
                                        "cidr(10.0.0.0/8)",
                                        "10.0.0.0/8",
                                        "2001:db8::/64",
                                        "regex(/a/)",
                                        "exact(a)",
                                        "exact(",
                                        "a b",
                                        " a ",
                                        "a,b",
                                        "\"a\"",
                                        "'a'",
                                        "\u00e9t\u00e9",
                                        "\xff\xfe"};
  const auto check = [](const std::string& key, const std::vector<std::string>& keys) {
    const std::string name = actor_name(key, keys);
    const auto counter = actor_named(name, keys);
    ASSERT_TRUE(counter && *counter) << name;
    EXPECT_EQ(**counter, key) << name;
    const auto values = read_actor_name(name, keys);
    ASSERT_TRUE(values) << name << ": " << values.problem().text;
    // An override of it is listed under the same name, and is that of this actor alone.
    EXPECT_EQ(override_name(key_text(*values), keys), name);
    Overrides table;
    const Overrides::Reader reader(table);
    ASSERT_TRUE(table.set({.rule = 7, .actor = *values, .set = {}, .terms = {.id = 1}}));
    Override::Terms terms;
    EXPECT_TRUE(table.find(7, key, {0}, terms)) << name;
    EXPECT_FALSE(table.find(7, key + "x", {0}, terms)) << name;
  };
  for (const std::string& a : odd) {
    check(a, one_key);
    for (const std::string& b : odd) check(key_text(std::vector<std::string>{a, b}), two_keys);
  }
}

TEST(ActorName, MeansOneActorOrIsRefused) {
  EXPECT_TRUE(actor_named("user=alice", one_key));
  EXPECT_EQ(*actor_named("user=alice", one_key), "alice");
  EXPECT_EQ(*actor_named("acme|search", two_keys), "acme|search");
  EXPECT_EQ(*actor_named("acme", two_keys), std::nullopt);
  EXPECT_EQ(*actor_named("acme", no_key), std::nullopt);
  EXPECT_EQ(*actor_named("", no_key), "");
  for (const char* several : {"a*", "[a, b]", "cidr(10.0.0.0/8)"}) {
    const auto read = actor_named(several, one_key);
    ASSERT_FALSE(read) << several;
    EXPECT_NE(read.problem().text.find("exact("), std::string::npos);
  }
}

TEST(OverridesOfLists, ApplyInTheirOrderOfPrecedence) {
  Overrides table;
  const Overrides::Reader reader(table);
  const auto set = [&](uint64_t id, std::vector<std::string> actor) {
    ASSERT_TRUE(table.set({.rule = 7, .actor = std::move(actor), .set = {}, .terms = {.id = id}}));
  };
  const auto found = [&](const std::string& key) -> uint64_t {
    Override::Terms terms;
    return table.find(7, key, {0}, terms) ? terms.id : 0;
  };
  set(1, {"cidr(10.0.0.0/8)"});
  set(2, {"cidr(10.1.0.0/16)"});
  set(3, {"10.1.2.*"});
  set(4, {"[10.1.2.3, 10.1.2.4]"});
  set(5, {"10.1.2.4"});
  EXPECT_EQ(found("10.9.9.9"), 1u);
  EXPECT_EQ(found("10.1.9.9"), 2u);
  EXPECT_EQ(found("10.1.2.9"), 3u);
  EXPECT_EQ(found("10.1.2.3"), 4u);
  EXPECT_EQ(found("10.1.2.4"), 5u);
  EXPECT_EQ(found("11.1.2.4"), 0u);
  EXPECT_TRUE(table.remove(7, std::vector<std::string>{"[10.1.2.3, 10.1.2.4]"}));
  EXPECT_EQ(found("10.1.2.3"), 3u);
  EXPECT_TRUE(table.remove(7, std::vector<std::string>{"cidr(10.1.0.0/16)"}));
  EXPECT_EQ(found("10.1.9.9"), 1u);
}

TEST(OverridesOfLists, ApplyToActorsOfSeveralKeys) {
  Overrides table;
  const Overrides::Reader reader(table);
  ASSERT_TRUE(table.set(
      {.rule = 7, .actor = {"[acme, a|b]", "cidr(10.0.0.0/8)"}, .set = {}, .terms = {.id = 1}}));
  Override::Terms terms;
  const auto key = [](const char* a, const char* b) {
    return key_text(std::vector<std::string>{a, b});
  };
  EXPECT_TRUE(table.find(7, key("acme", "10.2.3.4"), {0}, terms));
  EXPECT_TRUE(table.find(7, key("a|b", "10.2.3.4"), {0}, terms));
  EXPECT_FALSE(table.find(7, key("acme", "11.2.3.4"), {0}, terms));
  EXPECT_FALSE(table.find(7, key("x", "10.2.3.4"), {0}, terms));
}

}  // namespace
}  // namespace sluice::policy::actor_name_test
