// Addresses as settings write them (config/address.h).
#include "config/address.h"

#include <gtest/gtest.h>

namespace sluice::config {
namespace {

TEST(ParseAddress, TakesHostsAndPorts) {
  struct Case {
    const char* text;
    const char* host;
    uint16_t port;
  };
  for (const auto& [text, host, port] :
       {Case{"[::]:8321", "::", 8321}, Case{"127.0.0.1:0", "127.0.0.1", 0},
        Case{"localhost:65535", "localhost", 65'535}, Case{"[::1]", "::1", 7},
        Case{"example.test", "example.test", 7}}) {
    const auto address = parse_address(text, 7);
    ASSERT_TRUE(address) << text << ": " << address.problem().text;
    EXPECT_EQ(address->host, host);
    EXPECT_EQ(address->port, port);
  }
}

TEST(ParseAddress, ReportsInvalidAddresses) {
  struct Case {
    const char* text;
    const char* problem;
  };
  for (const auto& [text, expected] :
       {Case{"::1:8321", "brackets"}, Case{"[::1:8321", "no `]`"}, Case{":8321", "no host"},
        Case{"", "no host"}, Case{"[]:1", "no host"}, Case{"a:", "a port"},
        Case{"a:70000", "not `:70000`"}, Case{"[::]8321", "a port"}, Case{"a", "no port"},
        Case{"a b:1", "a space"}, Case{" a:1", "a space"}, Case{"[::1 ]:1", "a space"},
        Case{"http://localhost:8380", "not a URL"}, Case{"https://[::1]", "not a URL"}}) {
    const auto address = parse_address(text, std::nullopt);
    ASSERT_FALSE(address) << text;
    const std::string& problem = address.problem().text;
    EXPECT_NE(problem.find(expected), std::string::npos) << text << ": " << problem;
  }
}

TEST(FormatAddress, PutsIpv6InBrackets) {
  EXPECT_EQ(format_address("::", 8321), "[::]:8321");
  EXPECT_EQ(format_address("127.0.0.1", 1), "127.0.0.1:1");
}

}  // namespace
}  // namespace sluice::config
