// `normalize_path` of forward-auth, also against a naive model.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/arena.h"
#include "protocol/http/auth_request.h"
#include "tests/support/dice.h"

namespace sluice::http::normalize_path_test {
namespace {

using tests::Dice;

std::string normal(std::string_view path) {
  base::Arena texts;
  return std::string(normalize_path(path, texts));
}

TEST(NormalizePath, HasOneFormForAPath) {
  for (const auto& [path, expected] : {
           std::pair("/", "/"),
           std::pair("/a/b/c", "/a/b/c"),
           std::pair("/%41%7a%7E%2D", "/Az~-"),
           std::pair("/%2f%3f%c3%A9", "/%2F%3F%C3%A9"),
           std::pair("/a//b///c//", "/a/b/c/"),
           std::pair("//evil", "/evil"),
           std::pair("/a/b/c/./../../g", "/a/g"),  // RFC 3986, section 5.2.4
           std::pair("/a/./b", "/a/b"),
           std::pair("/a/.", "/a/"),
           std::pair("/a/..", "/"),
           std::pair("/a/b/..", "/a/"),
           std::pair("/..", "/"),
           std::pair("/../../a", "/a"),
           std::pair("/a//../b", "/b"),
           std::pair("/%2e%2E/a/%2e/b", "/a/b"),
           std::pair("/a/.../.b/c.", "/a/.../.b/c."),
           std::pair("/a%2F..%2Fb", "/a%2F..%2Fb"),
           std::pair("/%", "/%25"),
           std::pair("/%4", "/%254"),
           std::pair("/%zz", "/%25zz"),
           std::pair("/%%34%31", "/%2541"),
           std::pair("/%25%34", "/%254"),
           std::pair("/a b\"<>\\^`{|}", "/a%20b%22%3C%3E%5C%5E%60%7B%7C%7D"),
           std::pair("/\xc3\xa9\x01", "/%C3%A9%01"),
           std::pair("/!$&'()*+,;=:@", "/!$&'()*+,;=:@"),
           std::pair("/%21%40", "/%21%40"),
       })
    EXPECT_EQ(normal(path), expected) << path;
}

// The same in separate passes: first escapes, then slashes, then dots.
std::string normal_by_model(std::string_view path) {
  static const std::string hex = "0123456789ABCDEF", lower_hex = "0123456789abcdef";
  const auto digit = [&](char c) {
    return hex.find(c) != std::string::npos ? hex.find(c) : lower_hex.find(c);
  };
  const auto is_among = [](std::string_view set, char c) { return set.find(c) != set.npos; };
  std::string escaped;
  for (size_t i = 0; i < path.size(); ++i) {
    char c = path[i];
    bool is_escape = false;
    if (c == '%' && i + 2 < path.size() && digit(path[i + 1]) < 16 && digit(path[i + 2]) < 16) {
      c = static_cast<char>(digit(path[i + 1]) * 16 + digit(path[i + 2]));
      i += 2;
      is_escape = true;
    }
    const bool is_letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    const bool stays = is_letter || is_among("0123456789-._~", c) ||
                       (!is_escape && c != '\0' && is_among("!$&'()*+,;=:@/", c));
    const auto byte = static_cast<unsigned char>(c);
    escaped += stays ? std::string(1, c) : std::string{'%', hex[byte >> 4], hex[byte & 15]};
  }
  std::vector<std::string> segments;
  bool ends_open = true;
  for (size_t at = 0; at < escaped.size();) {
    const size_t end = std::min(escaped.find('/', at), escaped.size());
    const std::string segment = escaped.substr(at, end - at);
    ends_open = end < escaped.size() || segment == "." || segment == "..";
    if (segment == ".." && !segments.empty()) segments.pop_back();
    if (!segment.empty() && segment != "." && segment != "..") segments.push_back(segment);
    at = end + 1;
  }
  std::string text;
  for (const std::string& segment : segments) text += "/" + segment;
  return ends_open || text.empty() ? text + "/" : text;
}

TEST(NormalizePath, MatchesTheModelAndIsIdempotent) {
  static constexpr std::string_view pieces[] = {"/",   ".",    "..",  "a",   "B",   "%",   "%2",
                                                "%2e", "%2F",  "%41", "%4",  "%25", "%34", "/",
                                                "/",   "\xff", " ",   "%c3", "#",   ":"};
  for (uint32_t seed = 1; seed <= 100'000; ++seed) {
    Dice dice(seed);
    std::string path = "/";
    for (size_t count = dice(size_t{12}); count > 0; --count)
      path += pieces[dice(std::size(pieces))];
    const std::string once = normal(path);
    ASSERT_EQ(once, normal_by_model(path)) << path << ", seed " << seed;
    ASSERT_EQ(normal(once), once) << path << ", seed " << seed;
  }
}

}  // namespace
}  // namespace sluice::http::normalize_path_test
