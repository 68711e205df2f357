#include "config/javascript_words.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <optional>

namespace sluice::config {
namespace {

// Each row as Node.js 20 says it: Number(text), parseInt(text, 10), and the port of listen(text).
TEST(JavascriptWords, AreReadAsNodeReadsThem) {
  struct Case {
    const char* text;
    std::optional<double> number, integer;
    std::optional<uint16_t> port;
  };
  const auto infinite = std::numeric_limits<double>::infinity();
  for (const auto& [text, number, integer, port] : {
           Case{"8321", 8321, 8321, 8321},
           {"", 0, {}, {}},
           {" \t\n", 0, {}, {}},
           {"0", 0, 0, 0},
           {" 80 ", 80, 80, 80},
           {"08321", 8321, 8321, 8321},
           {"+8", 8, 8, 8},
           {"-8", -8, -8, {}},
           {"0x1F91", 8081, 0, 8081},
           {"0b1", 1, 0, 1},
           {"0o17", 15, 0, 15},
           {"-0x10", {}, 0, {}},
           {"0x", {}, 0, {}},
           {"8e3", 8000, 8, 8000},
           {"80.0", 80, 80, 80},
           {"80.5", 80.5, 80, {}},
           {".5", 0.5, {}, {}},
           {"5.", 5, 5, 5},
           {".", {}, {}, {}},
           {"1e", {}, 1, {}},
           {"1_000", {}, 1, {}},
           {"80x", {}, 80, {}},
           {"80 80", {}, 80, {}},
           {"65535", 65535, 65535, 65535},
           {"65536", 65536, 65536, {}},
           {"1e999", infinite, 1, {}},
           {"1e-999", 0, 1, 0},
           {"Infinity", infinite, {}, {}},
           {"inf", {}, {}, {}},
           {"nan", {}, {}, {}},
           {"http", {}, {}, {}},
       }) {
    EXPECT_EQ(javascript_number(text), number) << '`' << text << '`';
    EXPECT_EQ(javascript_parse_int(text), integer) << '`' << text << '`';
    EXPECT_EQ(node_port(text), port) << '`' << text << '`';
  }
}

}  // namespace
}  // namespace sluice::config
