// Conditions with networks and with lists of values, against a model that compares bit by bit and
// checks all rules one by one.
#include <arpa/inet.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <vector>

#include "policy/pattern.h"
#include "policy/rule_set.h"
#include "testing/dialects.h"
#include "tests/support/dice.h"

namespace sluice::policy::networks_test {
namespace {

using request::Entry;
using tests::Dice;

// The bits of an address as a text: 32 of IPv4, 128 of IPv6. IPv4-mapped IPv6 is IPv4.
std::optional<std::string> bits_of(const std::string& text) {
  std::array<unsigned char, 16> bytes{};
  size_t size = 16;
  if (::inet_pton(AF_INET, text.c_str(), bytes.data()) == 1)
    size = 4;
  else if (::inet_pton(AF_INET6, text.c_str(), bytes.data()) != 1)
    return std::nullopt;
  std::string bits;
  for (size_t i = 0; i < size; ++i)
    for (int b = 7; b >= 0; --b) bits += static_cast<char>('0' + (bytes[i] >> b & 1));
  const std::string mapped = std::string(80, '0') + std::string(16, '1');
  if (bits.size() == 128 && bits.starts_with(mapped)) bits.erase(0, 96);
  return bits;
}

// The model of a network: "10.0.0.0/8", "2001:db8::/32".
struct PlainNetwork {
  explicit PlainNetwork(const std::string& text) {
    const size_t slash = text.find('/');
    const auto all = bits_of(text.substr(0, slash));
    size = all->size();
    front = all->substr(0, std::stoul(text.substr(slash + 1)));
  }
  bool contains(const std::string& value) const {
    const auto bits = bits_of(value);
    return bits && bits->size() == size && bits->starts_with(front);
  }
  size_t size;
  std::string front;
};

Pattern network(const std::string& text) {
  return Pattern::in_network("cidr(" + text + ")", *base::parse_ip_network(text));
}

std::string address_of(const std::string& bits) {
  std::array<unsigned char, 16> bytes{};
  for (size_t i = 0; i < bits.size(); ++i)
    bytes[i / 8] = static_cast<unsigned char>(bytes[i / 8] | (bits[i] - '0') << (7 - i % 8));
  char text[INET6_ADDRSTRLEN];
  ::inet_ntop(bits.size() == 32 ? AF_INET : AF_INET6, bytes.data(), text, sizeof text);
  return text;
}

// Networks of every length in both families: an address of the network with any one bit flipped is
// inside only if that bit is after the network's bits.
TEST(Networks, MatchExactlyTheirPrefixBitsForEveryLength) {
  for (const std::string first : {"198.51.100.37", "2001:db8:1234:5678:9abc:def0:1357:9bdf"}) {
    const std::string bits = *bits_of(first);
    for (size_t length = 0; length <= bits.size(); ++length) {
      std::string base = bits;
      std::fill(base.begin() + static_cast<ptrdiff_t>(length), base.end(), '0');
      const Pattern pattern = network(address_of(base) + "/" + std::to_string(length));
      EXPECT_TRUE(pattern.matches(first));
      EXPECT_FALSE(pattern.matches(std::nullopt));
      for (size_t at = 0; at < bits.size(); ++at) {
        std::string other = bits;
        other[at] = other[at] == '0' ? '1' : '0';
        ASSERT_EQ(pattern.matches(address_of(other)), at >= length) << length << " " << at;
      }
    }
  }
}

TEST(Networks, TakeEverySpellingOfAnAddressAndNothingElse) {
  const Pattern v4 = network("10.0.0.0/8"), v6 = network("2001:db8::/32"), all6 = network("::/0");
  for (const char* text : {"10.0.0.0", "10.255.255.255", "::ffff:10.1.2.3", "::FFFF:A01:203",
                           "10.1.2.3:443", "[::ffff:10.1.2.3]:443"})
    EXPECT_TRUE(v4.matches(text)) << text;
  for (const char* text : {"", "10", "10.", "10.0.0", "10.0.0.256", "010.0.0.1", "10.0.0.1 ",
                           "11.0.0.0", "9.255.255.255", "::10.0.0.1", "10.0.0.0/8", "10.0.0.1x"})
    EXPECT_FALSE(v4.matches(text)) << text;
  EXPECT_FALSE(v4.matches(std::string_view("10.0.0.1\0", 9)));
  for (const char* text : {"2001:db8::", "2001:0DB8:0::1", "2001:db8:ffff:ffff:ffff:ffff:ffff:ffff",
                           "[2001:db8::1]", "2001:db8::1%eth0"})
    EXPECT_TRUE(v6.matches(text)) << text;
  for (const char* text : {"2001:db7::", "2001:db9::", "10.0.0.1", "2001:db8:::1"})
    EXPECT_FALSE(v6.matches(text)) << text;
  // The network of all IPv6 addresses does not contain IPv4 addresses, in any spelling.
  EXPECT_TRUE(all6.matches("::1"));
  EXPECT_FALSE(all6.matches("10.0.0.1"));
  EXPECT_FALSE(all6.matches("::ffff:10.0.0.1"));
}

TEST(Lists, MatchWhatOneOfThemMatches) {
  const Pattern list =
      Pattern::any_of({Pattern::wildcard("GET"), Pattern::wildcard("P*T"), network("10.0.0.0/8")});
  EXPECT_EQ(list.text(), "[GET, P*T, cidr(10.0.0.0/8)]");
  for (const char* text : {"GET", "PUT", "POST", "PT", "10.9.8.7"})
    EXPECT_TRUE(list.matches(text)) << text;
  for (const char* text : {"", "get", "GETS", "PATCH", "11.0.0.1", "[GET, P*T, cidr(10.0.0.0/8)]"})
    EXPECT_FALSE(list.matches(text)) << text;
  EXPECT_FALSE(list.matches(std::nullopt));
}

TEST(Covers, IsTrueOnlyIfEveryMatchIsCovered) {
  const std::vector<Pattern> all = {
      Pattern::wildcard("*"),
      Pattern::wildcard("10.*"),
      Pattern::wildcard("10.0.0.0"),
      Pattern::wildcard("c*"),
      network("10.0.0.0/8"),
      network("10.0.0.0/32"),
      network("0.0.0.0/0"),
      network("::/0"),
      network("2001:db8::/32"),
      Pattern::any_of({Pattern::wildcard("10.0.0.0"), Pattern::wildcard("10.1.*")}),
      Pattern::any_of({network("10.0.0.0/9"), network("10.128.0.0/9")}),
      Pattern::any_of({Pattern::wildcard("GET"), network("0.0.0.0/0")}),
      Pattern::wildcard("*.0"),
      Pattern::wildcard("10.*.0"),
      Pattern::equal_to("10.*.0"),
      Pattern::equal_to("10.*")};
  const std::vector<std::string> values = {
      "",     "GET",        "10.0.0.0", "10.0.0.0.",       "10.1.",       "cidr(10.0.0.0/8)",
      "c",    "10.200.0.1", "11.0.0.0", "::ffff:10.0.0.0", "2001:db8::1", "::1",
      "10.*", "10.*.0",     "10.1.0"};
  for (const Pattern& a : all) {
    EXPECT_TRUE(a.covers(a)) << a.text();
    EXPECT_TRUE(a.matches(a.sample())) << a.text();
    for (const Pattern& b : all)
      for (const std::string& value : values)
        EXPECT_FALSE(a.covers(b) && b.matches(value) && !a.matches(value))
            << a.text() << " covers " << b.text() << ", but not " << value;
  }
  EXPECT_TRUE(all[4].covers(all[5]));    // 10.0.0.0/8 covers its first address
  EXPECT_TRUE(all[4].covers(all[2]));    // and that address as a text
  EXPECT_TRUE(all[11].covers(all[10]));  // a network in a list covers a list of both halves
  EXPECT_TRUE(all[0].covers(all[9]));
  EXPECT_FALSE(all[1].covers(all[4]));  // 10.* does not match ::ffff:10.0.0.1
  EXPECT_TRUE(all[1].covers(all[13]));  // what begins as 10.*.0 begins as 10.*
  EXPECT_TRUE(all[1].covers(all[14]));
  EXPECT_FALSE(all[12].covers(all[2]));  // which text with stars fits which is not searched for
}

// A rule of the model: keys with their values' texts, of which "10.0.0.0/8" is a network.
struct Plain {
  std::vector<std::pair<std::string, std::vector<std::string>>> conditions;
};

bool applies(const Plain& rule, std::span<const Entry> request) {
  for (const auto& [key, values] : rule.conditions) {
    std::optional<std::string> has;
    for (const Entry& entry : request)
      if (entry.key == key) has = std::string(entry.value);
    const bool fits = has && std::ranges::any_of(values, [&](const std::string& wanted) {
                        if (wanted.find('/') != wanted.npos)
                          return PlainNetwork(wanted).contains(*has);
                        if (wanted.ends_with('*'))
                          return has->starts_with(wanted.substr(0, wanted.size() - 1));
                        return *has == wanted;
                      });
    if (!fits) return false;
  }
  return true;
}

Rule compiled(const Plain& plain) {
  Rule rule;
  for (const auto& [key, values] : plain.conditions) {
    std::vector<Pattern> all;
    for (const std::string& one : values)
      all.push_back(one.find('/') != one.npos ? network(one) : Pattern::wildcard(one));
    rule.conditions.push_back({key, all.size() == 1 ? all.front() : Pattern::any_of(all)});
  }
  // Shadow rules do not end the search, so all rules that apply are found.
  rule.mode = Mode::shadow;
  rule.limits = {{limit::Algorithm::fixed_window, 3, base::seconds(60)}};
  return rule;
}

std::vector<size_t> matched(const RuleSet& rules, std::span<const Entry> request) {
  Plan plan;
  rules.match(&first_dialect, {.descriptor = request}, plan);
  std::vector<size_t> numbers;
  for (const Plan::RuleMatch& step : plan.steps(plan.parts()[0]))
    numbers.push_back(static_cast<size_t>(step.rule - rules.native_rules().data()));
  return numbers;
}

constexpr std::array texts = {"10.0.0.0/8",
                              "10.1.0.0/16",
                              "10.1.2.0/24",
                              "10.1.2.3/32",
                              "0.0.0.0/0",
                              "192.0.2.0/25",
                              "2001:db8::/32",
                              "2001:db8:1::/48",
                              "::/0",
                              "10.*",
                              "10.1.2.3",
                              "*",
                              "2001:db8::1",
                              "GET",
                              "G*",
                              "POST"};
constexpr std::array met = {"10.1.2.3",
                            "10.1.2.4",
                            "10.200.0.1",
                            "192.0.2.127",
                            "192.0.2.128",
                            "::ffff:10.1.2.3",
                            "2001:db8::1",
                            "2001:DB8:0::1",
                            "2001:db8:1::",
                            "GET",
                            "GETS",
                            "POST",
                            "",
                            "::1",
                            "255.255.255.255",
                            "10.1.2.3.4"};

TEST(Networks, IndexedNetworksAndListsMatchAsOneByOne) {
  for (uint32_t seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Dice dice(seed);
    std::vector<Plain> plain(1 + dice(dice(2) == 0 ? size_t{6} : size_t{200}));
    RuleSet rules;
    for (Plain& one : plain) {
      for (const char* key : {"ip", "method"}) {
        if (dice(3) == 0) continue;
        std::vector<std::string> values;
        for (size_t i = dice(2) == 0 ? 1 : 1 + dice(size_t{4}); i-- > 0;)
          values.emplace_back(texts[dice(texts.size())]);
        one.conditions.emplace_back(key, values);
      }
      rules.add(native_dialect, compiled(one));
    }
    for (int i = 0; i < 40; ++i) {
      std::vector<Entry> request;
      for (const char* key : {"ip", "method", "other", "ip"})
        if (dice(3) != 0) request.push_back({key, met[dice(met.size())]});
      std::vector<size_t> expected;
      for (size_t at = 0; at < plain.size(); ++at)
        if (applies(plain[at], request)) expected.push_back(at);
      ASSERT_EQ(matched(rules, request), expected);
    }
  }
}

}  // namespace
}  // namespace sluice::policy::networks_test
