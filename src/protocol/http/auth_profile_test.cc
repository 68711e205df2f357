// The lookup of field names, against a search through all names; and of profiles by their names.
#include "protocol/http/auth_profile.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "tests/support/dice.h"
#include "wire/http_field.h"

namespace sluice::http::auth_profile_test {
namespace {

using tests::Dice;

TEST(FieldNames, AreFoundWhateverTheCaseOfTheirLetters) {
  FieldNames names;
  EXPECT_EQ(names.find("host"), FieldNames::none);
  const std::vector<std::string> known = {"a",
                                          "cookie",
                                          "x-real-ip",
                                          "x-reel-ip",
                                          "x-caf\xe1-key",
                                          "x-12345",
                                          "x-1234567~^",
                                          "01234567",
                                          std::string(63, 'y'),
                                          std::string(64, 'y'),
                                          std::string(90, 'y')};
  for (size_t i = 0; i < known.size(); ++i) EXPECT_EQ(names.add(known[i]), i);
  for (size_t i = 0; i < known.size(); ++i) EXPECT_EQ(names.add(known[i]), i);
  for (uint32_t seed = 1; seed <= 100'000; ++seed) {
    Dice dice(seed);
    std::string name = known[dice(known.size())];
    for (char& c : name)
      if (dice(2) == 0 && c >= 'a' && c <= 'z') c = static_cast<char>(c - 32);
    if (dice(2) == 0) name[dice(name.size())] ^= static_cast<char>(1 << dice(8));
    if (dice(8) == 0) name += dice(2) == 0 ? "y" : "z";
    const auto is_it = [&](const std::string& one) { return wire::is_http_name(name, one); };
    const auto found = std::find_if(known.begin(), known.end(), is_it);
    const size_t expected =
        found == known.end() ? FieldNames::none : static_cast<size_t>(found - known.begin());
    ASSERT_EQ(names.find(name), expected) << name << ", seed " << seed;
  }
}

TEST(AuthOptions, FindAProfileByItsName) {
  AuthOptions options;
  options.profiles["web"].name = "web";
  EXPECT_EQ(options.find("web"), &options.profiles.at("web"));
  EXPECT_EQ(options.find(""), nullptr);
  EXPECT_EQ(options.find("Web"), nullptr);
  options.profiles["default"].name = "default";
  EXPECT_EQ(options.find(""), &options.profiles.at("default"));
  EXPECT_EQ(options.trusted.texts(), TrustedProxies::loopback().texts());
}

}  // namespace
}  // namespace sluice::http::auth_profile_test
