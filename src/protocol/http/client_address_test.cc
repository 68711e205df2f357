// Addresses of clients, also against the C library's inet_pton and inet_ntop; and which address of
// X-Forwarded-For and Forwarded is the client's, also against a naive model.
#include "protocol/http/client_address.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <regex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tests/support/dice.h"

namespace sluice::http::client_address_test {
namespace {

using tests::Dice;

std::string written(const IpAddress& address, unsigned prefix = 128) {
  std::array<char, address_bytes_max> text;
  const size_t size = write_address(address, prefix, text.data());
  EXPECT_LE(size, text.size());
  return {text.data(), size};
}
std::string written(const std::optional<IpAddress>& address) {
  return address ? written(*address) : "none";
}
// Reads an address and writes it again.
std::string read(std::string_view text) {
  return written(parse_address(text));
}
std::string cut(std::string_view text, unsigned prefix) {
  return written(parse_address(text).value_or(IpAddress{}), prefix);
}

TrustedProxies trusted(const std::vector<std::string>& texts) {
  TrustedProxies all;
  for (const std::string& text : texts) EXPECT_TRUE(all.add(text)) << text;
  return all;
}
bool is_trusted(const TrustedProxies& all, std::string_view text) {
  const auto address = parse_address(text);
  EXPECT_TRUE(address) << text;
  return address && all.contains(*address);
}

IpAddress v6(const std::array<unsigned char, 16>& bytes) {
  IpAddress address;
  address.bytes = bytes;
  address.is_v6 = true;
  return address;
}

TEST(ClientAddress, AcceptsIpv4OnlyAsFourDecimalNumbers) {
  for (const char* const text : {"0.0.0.0", "1.2.3.4", "127.0.0.1", "192.0.2.255", "10.20.30.40",
                                 "255.255.255.255", "100.9.99.0"})
    EXPECT_EQ(read(text), text);
  for (const char* const text : {"",
                                 ".",
                                 "1",
                                 "1.2.3",
                                 "1.2.3.",
                                 "1.2.3.4.",
                                 "1.2.3.4.5",
                                 ".1.2.3",
                                 "1..2.3",
                                 "256.1.1.1",
                                 "1.2.3.256",
                                 "1.2.3.1000",
                                 "1.2.3.4294967297",
                                 "01.2.3.4",
                                 "1.2.3.04",
                                 "00.0.0.0",
                                 "1.2.3.4 ",
                                 " 1.2.3.4",
                                 "1.2.3.a",
                                 "0x1.2.3.4",
                                 "-1.2.3.4",
                                 "+1.2.3.4",
                                 "1,2,3,4",
                                 "1.2.3.4/8",
                                 "1.2.3.4%eth0",
                                 "[1.2.3.4]",
                                 "127.1",
                                 "2130706433"})
    EXPECT_EQ(read(text), "none") << text;
}

TEST(ClientAddress, MayHaveAPort) {
  for (const char* const text : {"1.2.3.4:0", "1.2.3.4:80", "1.2.3.4:65535", "[::ffff:1.2.3.4]:80"})
    EXPECT_EQ(read(text), "1.2.3.4") << text;
  for (const char* const text : {"[2001:db8::1]", "[2001:db8::1]:443", "[2001:DB8::1%eth0]:1"})
    EXPECT_EQ(read(text), "2001:db8::1") << text;
  // Without brackets the last number is a part of the address, not a port.
  EXPECT_EQ(read("2001:db8::1:443"), "2001:db8::1:443");
  for (const char* const text :
       {"1.2.3.4:", "1.2.3.4:65536", "1.2.3.4:080", "1.2.3.4:8a", "1.2.3.4:80:80", "1.2.3.4:-1",
        "[::1]:", "[::1]:65536", "[::1]80", "[::1]]", "[[::1]]", "[::1", "::1]", "[]", "[]:80"})
    EXPECT_EQ(read(text), "none") << text;
}

TEST(ClientAddress, DropsTheZoneOfIpv6) {
  EXPECT_EQ(read("fe80::1%eth0"), "fe80::1");
  EXPECT_EQ(read("[fe80::1%25eth0]"), "fe80::1");
  EXPECT_EQ(read("fe80::1%"), "none");
  EXPECT_EQ(read("%eth0"), "none");
}

// inet_pton requires a NUL after the text.
TEST(ClientAddress, RejectsANulAndOverlongTexts) {
  EXPECT_EQ(read(std::string_view("::1\0", 4)), "none");
  EXPECT_EQ(read(std::string_view("::1\0::2", 7)), "none");
  EXPECT_EQ(read(std::string_view("1.2.3.4\0", 8)), "none");
  EXPECT_EQ(read("0000:0000:0000:0000:0000:ffff:255.255.255.255"), "255.255.255.255");
  EXPECT_EQ(read("00000:0000:0000:0000:0000:ffff:255.255.255.255"), "none");
  EXPECT_EQ(read(std::string(100'000, '1')), "none");
  EXPECT_EQ(read(std::string(100'000, ':')), "none");
}

// RFC 5952, sections 4 and 5.
TEST(ClientAddress, WritesIpv6InTheFormOfRfc5952) {
  for (const auto& [text, expected] : {
           std::pair("2001:0db8:0:0:0:0:2:1", "2001:db8::2:1"),
           std::pair("2001:db8:0000:0:1::1", "2001:db8::1:0:0:1"),
           std::pair("2001:db8::0001", "2001:db8::1"),
           std::pair("2001:db8:0:0:0:0:2:1", "2001:db8::2:1"),
           std::pair("2001:db8::1:1:1:1:1", "2001:db8:0:1:1:1:1:1"),
           std::pair("2001:db8:0:1:1:1:1:1", "2001:db8:0:1:1:1:1:1"),
           std::pair("2001:0:0:1:0:0:0:1", "2001:0:0:1::1"),
           std::pair("2001:db8:0:0:1:0:0:1", "2001:db8::1:0:0:1"),
           std::pair("2001:DB8:AAAA::FFFF", "2001:db8:aaaa::ffff"),
           std::pair("0:0:0:0:0:0:0:0", "::"),
           std::pair("0:0:0:0:0:0:0:1", "::1"),
           std::pair("1:0:0:0:0:0:0:0", "1::"),
           std::pair("1:2:3:4:5:6:7:8", "1:2:3:4:5:6:7:8"),
           std::pair("0:2:3:4:5:6:7:0", "0:2:3:4:5:6:7:0"),
           std::pair("0:0:3:4:5:6:0:0", "::3:4:5:6:0:0"),
           std::pair("::1.2.3.4", "::102:304"),  // not a mapped IPv4 address
           std::pair("::ffff:0:0:1", "::ffff:0:0:1"),
       })
    EXPECT_EQ(read(text), expected) << text;
}

TEST(ClientAddress, ReadsAnIpv4MappedAddressAsIpv4) {
  for (const char* const text :
       {"::ffff:192.0.2.1", "::FFFF:c000:201", "0:0:0:0:0:ffff:192.0.2.1", "[::ffff:192.0.2.1]"})
    EXPECT_EQ(parse_address(text), parse_address("192.0.2.1")) << text;
  EXPECT_EQ(read("::fffe:192.0.2.1"), "::fffe:c000:201");
  EXPECT_EQ(read("::ffff:192.0.2.01"), "none");
}

TEST(ClientAddress, CutsIpv6ToItsPrefix) {
  const char* const text = "2001:db8:ffff:ffff:ffff:ffff:ffff:ffff";
  EXPECT_EQ(cut(text, 128), text);
  EXPECT_EQ(cut(text, 64), "2001:db8:ffff:ffff::");
  EXPECT_EQ(cut(text, 56), "2001:db8:ffff:ff00::");
  EXPECT_EQ(cut(text, 127), "2001:db8:ffff:ffff:ffff:ffff:ffff:fffe");
  EXPECT_EQ(cut(text, 33), "2001:db8:8000::");
  EXPECT_EQ(cut(text, 1), "::");
  EXPECT_EQ(cut("ffff::", 1), "8000::");
  EXPECT_EQ(cut("192.0.2.1", 1), "192.0.2.1");
}

// Against the C library, except for addresses that it writes with the dots of IPv4.
TEST(ClientAddress, ReadsAndWritesIpv6LikeTheCLibrary) {
  for (uint32_t seed = 1; seed <= 20'000; ++seed) {
    Dice dice(seed);
    std::array<unsigned char, 16> bytes{};
    for (unsigned char& byte : bytes)
      if (dice(3) == 0) byte = dice(4) == 0 ? dice(static_cast<unsigned char>(255)) : 1;
    char theirs[INET6_ADDRSTRLEN];
    ASSERT_NE(::inet_ntop(AF_INET6, bytes.data(), theirs, sizeof theirs), nullptr);
    if (std::string_view(theirs).find('.') != std::string_view::npos) continue;
    EXPECT_EQ(written(v6(bytes)), theirs) << "seed " << seed;
    EXPECT_EQ(parse_address(theirs), v6(bytes)) << "seed " << seed;
    const auto prefix = dice(128u) + 1;
    for (unsigned bit = prefix; bit < 128; ++bit)
      bytes[bit / 8] = static_cast<unsigned char>(bytes[bit / 8] & ~(0x80u >> bit % 8));
    EXPECT_EQ(written(*parse_address(theirs), prefix), written(v6(bytes))) << "seed " << seed;
  }
}

std::string random_address_text(Dice& dice) {
  static constexpr std::string_view pieces[] = {"1",  "0",   "25", "255",  "256", "00",      ".",
                                                ".",  ".",   ":",  "::",   "[",   "]",       "f",
                                                "%e", ":80", "::", "ffff", " ",   "10.0.0.1"};
  std::string text;
  for (size_t count = dice(size_t{9}); count > 0; --count) text += pieces[dice(std::size(pieces))];
  return text;
}

TEST(ClientAddress, MatchesTheGrammarForRandomTexts) {
  const std::string number = "(?:25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])";
  const std::string v4 = number + "(?:\\." + number + "){3}";
  const std::regex with_port("(?:(" + v4 + ")|\\[([^\\]%]*)(?:%[^\\]]+)?\\])(:[0-9]+)?");
  const std::regex without_port("([^\\[\\]%]*)(?:%.+)?");
  size_t sound = 0;
  for (uint32_t seed = 1; seed <= 100'000; ++seed) {
    Dice dice(seed);
    const std::string text = random_address_text(dice);
    std::string name;
    std::smatch parts;
    if (std::regex_match(text, parts, with_port)) {
      const std::string port = parts[3].str();
      if (port.size() < 2 ||
          (std::stol(port.substr(1)) < 65'536 && (port[1] != '0' || port == ":0")))
        name = parts[1].matched ? "::ffff:" + parts[1].str() : parts[2].str();
    } else if (std::regex_match(text, parts, without_port)) {
      name = parts[1].str();
    }
    std::array<unsigned char, 16> bytes{};
    const bool is_one = ::inet_pton(AF_INET6, name.c_str(), bytes.data()) == 1;
    const auto read_as = parse_address(text);
    ASSERT_EQ(read_as.has_value(), is_one) << text << ", seed " << seed;
    if (!is_one) continue;
    ++sound;
    std::array<unsigned char, 16> ours = read_as->bytes;
    if (!read_as->is_v6) {
      ours = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
      std::copy_n(read_as->bytes.begin(), 4, ours.begin() + 12);
    }
    ASSERT_EQ(ours, bytes) << text << ", seed " << seed;
    ASSERT_EQ(parse_address(written(*read_as)), read_as) << text << ", seed " << seed;
  }
  EXPECT_GT(sound, 100u);
}

TEST(TrustedProxies, AreAddressesAndRanges) {
  const TrustedProxies all = trusted(
      {"10.0.0.0/8", "192.0.2.1", "172.16.0.0/12", "2001:db8::/33", "::1", "203.0.113.128/25"});
  for (const char* const text :
       {"10.0.0.0", "10.255.255.255", "192.0.2.1", "172.16.0.1", "172.31.255.255", "2001:db8::1",
        "2001:db8:7fff::", "::1", "::ffff:10.1.1.1", "203.0.113.128", "203.0.113.255"})
    EXPECT_TRUE(is_trusted(all, text)) << text;
  for (const char* const text :
       {"9.255.255.255", "11.0.0.0", "192.0.2.0", "192.0.2.2", "172.15.255.255", "172.32.0.0",
        "2001:db8:8000::", "2001:db9::", "::2", "::", "203.0.113.127", "::a00:1", "a00::"})
    EXPECT_FALSE(is_trusted(all, text)) << text;
  EXPECT_FALSE(all.contains_unix());
}

TEST(TrustedProxies, ARangeContainsNoAddressOfTheOtherFamily) {
  const TrustedProxies of_v4 = trusted({"0.0.0.0/0"}), of_v6 = trusted({"::/0"});
  EXPECT_TRUE(is_trusted(of_v4, "255.1.2.3"));
  EXPECT_FALSE(is_trusted(of_v4, "::1"));
  EXPECT_TRUE(is_trusted(of_v6, "ffff::1"));
  EXPECT_FALSE(is_trusted(of_v6, "1.2.3.4"));
}

TEST(TrustedProxies, ReadIpv4MappedRangesAsIpv4) {
  const TrustedProxies all = trusted({"::ffff:10.0.0.0/104", "::ffff:192.0.2.1"});
  EXPECT_TRUE(is_trusted(all, "10.200.0.1"));
  EXPECT_TRUE(is_trusted(all, "192.0.2.1"));
  EXPECT_FALSE(is_trusted(all, "192.0.2.2"));
  EXPECT_EQ(all.texts(), (std::vector<std::string>{"10.0.0.0/8", "192.0.2.1"}));
  TrustedProxies other;
  EXPECT_FALSE(other.add("::ffff:10.0.0.0/95"));
  EXPECT_TRUE(other.add("::ffff:0.0.0.0/96"));
  EXPECT_EQ(other.texts(), std::vector<std::string>{"0.0.0.0/0"});
}

TEST(TrustedProxies, RejectInvalidRanges) {
  for (const char* const text : {"",
                                 "/",
                                 "/8",
                                 "10.0.0.0/",
                                 "10.0.0.0/33",
                                 "10.0.0.0/08",
                                 "10.0.0.0/-1",
                                 "10.0.0.0/8 ",
                                 "10.0.0.0/8/8",
                                 "10.0.0.0:80",
                                 "10.0.0/8",
                                 "::/129",
                                 "::/0x1",
                                 "[::1]",
                                 "[::1]/128",
                                 "fe80::1%eth0",
                                 "localhost",
                                 "Unix",
                                 "unix/0",
                                 "10.0.0.0/99999999999",
                                 "*"}) {
    TrustedProxies none;
    EXPECT_FALSE(none.add(text)) << text;
    EXPECT_TRUE(none.empty()) << text;
  }
}

TEST(TrustedProxies, ListTheirRangesInNormalForm) {
  EXPECT_EQ(TrustedProxies::loopback().texts(), (std::vector<std::string>{"127.0.0.0/8", "::1"}));
  TrustedProxies all =
      trusted({"unix", "10.1.2.3/8", "2001:DB8:0::FF/32", "1.2.3.4/32", "::2/128"});
  EXPECT_TRUE(all.contains_unix());
  EXPECT_EQ(all.texts(),
            (std::vector<std::string>{"10.0.0.0/8", "2001:db8::/32", "1.2.3.4", "::2", "unix"}));
  EXPECT_EQ(trusted(all.texts()).texts(), all.texts());
  EXPECT_FALSE(TrustedProxies().contains_unix());
  EXPECT_TRUE(TrustedProxies().empty());
}

std::string client(std::string_view list, unsigned depth = 0,
                   const std::vector<std::string>& proxies = {"10.0.0.0/8", "fd00::/8"}) {
  return written(forwarded_client(list, trusted(proxies), depth));
}

TEST(ForwardedClient, IsTheFirstFromTheRightThatIsNotTrusted) {
  EXPECT_EQ(client("192.0.2.1"), "192.0.2.1");
  EXPECT_EQ(client("192.0.2.1, 10.0.0.1"), "192.0.2.1");
  EXPECT_EQ(client("192.0.2.1, 10.0.0.1,10.0.0.2"), "192.0.2.1");
  EXPECT_EQ(client("6.6.6.6, 192.0.2.1, 10.0.0.1"), "192.0.2.1");
  EXPECT_EQ(client("10.6.6.6, 192.0.2.1, 10.0.0.1"), "192.0.2.1");
  EXPECT_EQ(client("192.0.2.1, fd00::7"), "192.0.2.1");
  EXPECT_EQ(client("192.0.2.1", 0, {}), "192.0.2.1");
}

TEST(ForwardedClient, IsTheLeftmostIfAllAreTrusted) {
  EXPECT_EQ(client("10.0.0.1"), "10.0.0.1");
  EXPECT_EQ(client("10.0.0.3, 10.0.0.2, 10.0.0.1"), "10.0.0.3");
}

TEST(ForwardedClient, StopsAtAnInvalidEntry) {
  EXPECT_EQ(client("unknown, 10.0.0.2, 10.0.0.1"), "10.0.0.2");
  EXPECT_EQ(client("192.0.2.1, garbage, 10.0.0.1"), "10.0.0.1");
  EXPECT_EQ(client("192.0.2.1, 192.0.2.999"), "none");
  EXPECT_EQ(client("garbage"), "none");
  EXPECT_EQ(client(""), "none");
}

TEST(ForwardedClient, MayHaveBracketsAndAPort) {
  EXPECT_EQ(client("192.0.2.1:4711, 10.0.0.1:80"), "192.0.2.1");
  EXPECT_EQ(client("[2001:DB8::1]:4711, [fd00::1], fd00::2"), "2001:db8::1");
  EXPECT_EQ(client("::ffff:192.0.2.1, ::ffff:10.0.0.1"), "192.0.2.1");
}

TEST(ForwardedClient, SkipsEmptyEntries) {
  EXPECT_EQ(client(",192.0.2.1,, \t,10.0.0.1, ,"), "192.0.2.1");
  EXPECT_EQ(client(" , ,"), "none");
  EXPECT_EQ(client("6.6.6.6, 192.0.2.1, ,10.0.0.1,", 2), "192.0.2.1");
}

TEST(ForwardedClient, IsTheEntryAtTheConfiguredDepth) {
  const char* const list = "1.1.1.1, bad, 10.0.0.2, 10.0.0.1";
  EXPECT_EQ(client(list, 1), "10.0.0.1");
  EXPECT_EQ(client(list, 2), "10.0.0.2");
  EXPECT_EQ(client(list, 3), "none");
  EXPECT_EQ(client(list, 4), "1.1.1.1");
  EXPECT_EQ(client(list, 5), "none");
  EXPECT_EQ(client("9.9.9.9, 8.8.8.8", 1), "8.8.8.8");
  EXPECT_EQ(client("9.9.9.9, 8.8.8.8", 2), "9.9.9.9");
}

TEST(ForwardedClient, IsSearchedInABoundedNumberOfEntries) {
  std::string list = "192.0.2.1";
  for (size_t i = 1; i < forwarded_entries_max; ++i) list += ", 10.0.0." + std::to_string(i);
  EXPECT_EQ(client(list), "192.0.2.1");
  EXPECT_EQ(client(list + ", 10.9.9.9"), "10.0.0.1");
  std::string elements = "for=192.0.2.1";
  for (size_t i = 1; i < forwarded_entries_max; ++i) elements += ",for=10.0.0." + std::to_string(i);
  const TrustedProxies proxies = trusted({"10.0.0.0/8"});
  EXPECT_EQ(written(forwarded_element_client(elements, proxies, 0)), "192.0.2.1");
  EXPECT_EQ(written(forwarded_element_client(elements, proxies, forwarded_entries_max)),
            "192.0.2.1");
  EXPECT_EQ(written(forwarded_element_client(elements + ",for=10.9.9.9", proxies, 0)), "10.0.0.1");
}

std::string element_client(std::string_view list, unsigned depth = 0) {
  return written(forwarded_element_client(list, trusted({"10.0.0.0/8", "fd00::/8"}), depth));
}

// RFC 7239, sections 4, 6 and 7.
TEST(ForwardedElementClient, IsTheForParameter) {
  EXPECT_EQ(element_client("for=192.0.2.60;proto=http;by=203.0.113.43"), "192.0.2.60");
  EXPECT_EQ(element_client("For=\"[2001:db8:cafe::17]:4711\""), "2001:db8:cafe::17");
  EXPECT_EQ(element_client("for=192.0.2.43, for=10.0.0.17"), "192.0.2.43");
  EXPECT_EQ(element_client("by=10.0.0.1 ; FOR=\"192.0.2.43:47011\" ;host=a"), "192.0.2.43");
  EXPECT_EQ(element_client("for=\"192.0.2.43:_gazonk\""), "192.0.2.43");
  EXPECT_EQ(element_client("for=\"[2001:db8::1]:_x\""), "2001:db8::1");
  EXPECT_EQ(element_client("for=6.6.6.6,for=192.0.2.1;host=\"a,b;c=\\\"d\", for=10.0.0.1"),
            "192.0.2.1");
  EXPECT_EQ(element_client(",for=192.0.2.1, ,;,"), "192.0.2.1");
}

TEST(ForwardedElementClient, StopsAtAnElementWithoutAnAddress) {
  for (const char* const element :
       {"for=unknown", "for=_hidden", "proto=http", "for", "for=", "for=\"\"", "for=\"1.2.3.4",
        "for=1.2.3.4;for=1.2.3.4", "for=\"1.2.3.4\"x", "=1.2.3.4", "for=1.2.3.4;x", "for=a\"b\"",
        "for=\"\\1.2.3.4\"", "for=:_x", "for=\"[::1:_]\"", "for=\"[::1]:_]\""}) {
    EXPECT_EQ(element_client(element), "none") << element;
    EXPECT_EQ(element_client(std::string("for=192.0.2.1, ") + element), "none") << element;
  }
  EXPECT_EQ(element_client("for=192.0.2.1, for=unknown, for=10.0.0.1"), "10.0.0.1");
  EXPECT_EQ(element_client("for=192.0.2.1, for=unknown, for=10.0.0.1", 3), "192.0.2.1");
  EXPECT_EQ(element_client("for=192.0.2.1, for=unknown, for=10.0.0.1", 2), "none");
}

// If a client opens a quote, the text that the proxy appends is inside the quote. The client must
// not get an address in this way, at whatever depth.
TEST(ForwardedElementClient, AnOpenQuoteCannotForgeAnAddress) {
  for (const std::string forged :
       {"for=6.6.6.6;x=\"", "for=6.6.6.6, for=\"", "for=6.6.6.6, x=\"\\", "for=6.6.6.6, \"",
        "for=6.6.6.6, for=\"x", "for=6.6.6.6, for=7.7.7.7, for=\"x\\"})
    for (const std::string appended :
         {"for=192.0.2.1", "for=\"[2001:db8::1]\"", "for=\"192.0.2.1:1\";by=\"10.0.0.1\""})
      for (const char* const separator : {", ", "\n"})
        for (unsigned depth = 0; depth < 5; ++depth)
          EXPECT_EQ(element_client(forged + separator + appended, depth), "none")
              << forged << separator << appended << ", depth " << depth;
}

TEST(ForwardedElementClient, ReadsEachLineByItself) {
  const char* const lines = "for=9.9.9.9;x=\"a,b\"\nfor=192.0.2.1, \n\nfor=10.0.0.1";
  EXPECT_EQ(element_client(lines), "192.0.2.1");
  EXPECT_EQ(element_client(lines, 3), "9.9.9.9");
  // The quote of one line does not end that of another.
  EXPECT_EQ(element_client("for=\"1.1.1.1\nfor=2.2.2.2;x=\""), "none");
}

// ---- Against a naive model ----

struct ModelRange {
  std::string network;
  unsigned bits;
};

// The 128 bits of an address; IPv4 addresses are mapped to IPv6.
std::vector<bool> bits_of(const std::string& text) {
  std::array<unsigned char, 16> bytes{};
  const bool is_v4 = text.find('.') != std::string::npos;
  const std::string name = is_v4 ? "::ffff:" + text : text;
  EXPECT_EQ(::inet_pton(AF_INET6, name.c_str(), bytes.data()), 1) << text;
  std::vector<bool> bits;
  for (size_t i = 0; i < 128; ++i) bits.push_back((bytes[i / 8] >> (7 - i % 8) & 1) != 0);
  return bits;
}

bool is_trusted_by_model(const std::string& text, const std::vector<ModelRange>& ranges) {
  return std::any_of(ranges.begin(), ranges.end(), [&](const ModelRange& range) {
    const bool is_v4 = range.network.find('.') != std::string::npos;
    const std::vector<bool> network = bits_of(range.network), bits = bits_of(text);
    const auto end = static_cast<ptrdiff_t>(range.bits + (is_v4 ? 96 : 0));
    return std::equal(network.begin(), network.begin() + end, bits.begin());
  });
}

// `good`: the address in each entry; empty if the entry has none.
std::string client_by_model(const std::vector<std::string>& good,
                            const std::vector<ModelRange>& ranges, unsigned depth) {
  if (depth > 0) {
    if (depth > good.size() || good[good.size() - depth].empty()) return "none";
    return good[good.size() - depth];
  }
  // Only the entries after the last bad one count: the last one of them that is not trusted, or the
  // first one.
  size_t begin = good.size();
  while (begin > 0 && !good[begin - 1].empty()) --begin;
  if (begin == good.size()) return "none";
  std::string found = good[begin];
  for (size_t i = begin; i < good.size(); ++i)
    if (!is_trusted_by_model(good[i], ranges)) found = good[i];
  return found;
}

// An entry as it is sent, and the address in it; empty if it has none.
struct ModelEntry {
  std::string sent, address;
};
ModelEntry random_entry(Dice& dice) {
  if (dice(8) == 0) {
    static constexpr std::string_view bad[] = {"unknown", "1.2.3", "x", "300.1.1.1", "[::1", "-"};
    return {std::string(bad[dice(std::size(bad))]), ""};
  }
  std::string address, sent;
  if (dice(2) == 0) {
    address = (dice(2) == 0 ? "10." : "192.") + std::to_string(dice(4)) + ".0." +
              std::to_string(dice(256));
    sent = dice(4) == 0 ? "::ffff:" + address : address;
    if (dice(4) == 0) sent = (sent == address ? sent : "[" + sent + "]") + ":8080";
  } else {
    address = (dice(2) == 0 ? "fd00::" : "2001:db8::") + std::to_string(1 + dice(9));
    sent = dice(3) == 0 ? "[" + address + "]:1" : dice(3) == 0 ? "[" + address + "]" : address;
  }
  return {sent, address};
}

TEST(ForwardedClient, MatchesTheModel) {
  for (uint32_t seed = 1; seed <= 20'000; ++seed) {
    Dice dice(seed);
    std::vector<ModelRange> ranges;
    TrustedProxies proxies;
    static const std::vector<ModelRange> known = {
        {"10.0.0.0", 8}, {"10.0.0.0", 14},    {"192.0.0.0", 15}, {"192.2.0.128", 25},
        {"fd00::", 8},   {"2001:db8::", 126}, {"10.1.0.0", 32},  {"2001:db8::4", 128}};
    for (const ModelRange& range : known)
      if (dice(2) == 0) {
        ranges.push_back(range);
        ASSERT_TRUE(proxies.add(range.network + "/" + std::to_string(range.bits)));
      }
    std::string list, elements;
    std::vector<std::string> addresses;
    for (size_t count = dice(size_t{7}); count > 0; --count) {
      const ModelEntry entry = random_entry(dice);
      addresses.push_back(entry.address);
      list += (list.empty() ? "" : dice(2) == 0 ? "," : " ,\t") + entry.sent;
      if (dice(9) == 0) list += ", ";
      elements += (elements.empty() ? "" : dice(2) == 0 ? "," : " , ");
      elements += (dice(2) == 0 ? "for=\"" : "proto=http;By=\"x,\\\"\";For=\"") + entry.sent + "\"";
    }
    const unsigned depth = dice(3) == 0 ? dice(8u) : 0;
    const std::string expected = client_by_model(addresses, ranges, depth);
    ASSERT_EQ(written(forwarded_client(list, proxies, depth)), expected)
        << list << ", depth " << depth << ", seed " << seed;
    ASSERT_EQ(written(forwarded_element_client(elements, proxies, depth)), expected)
        << elements << ", depth " << depth << ", seed " << seed;
  }
}

}  // namespace
}  // namespace sluice::http::client_address_test
