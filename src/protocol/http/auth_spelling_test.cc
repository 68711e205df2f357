// A client must not have a counter for each spelling of its credentials (auth_request.h).
#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "protocol/http/auth_request.h"

namespace sluice::http::auth_spelling_test {
namespace {

std::string credentials(std::string_view value) {
  base::Arena texts;
  return std::string(credentials_of(value, texts));
}
std::string cookie(std::string_view value) {
  base::Arena texts;
  return std::string(cookie_value(value, texts));
}

TEST(AuthSpelling, JoinsThoseOfAScheme) {
  for (const char* value : {"Bearer tOk", "bearer tOk", "BEARER  tOk", "bEaReR \t  tOk ",
                            " Bearer tOk", "\tBearer\ttOk\t"})
    EXPECT_EQ(credentials(value), "bearer tOk") << value;
  // What differs for an application differs here.
  EXPECT_EQ(credentials("Bearer tok"), "bearer tok");
  EXPECT_EQ(credentials("Token tOk"), "token tOk");
  EXPECT_EQ(credentials("Digest a=\"B c\", d=E"), "digest a=\"B c\", d=E");
}

// A key without a scheme, as a proxy may send it: its letters count.
TEST(AuthSpelling, KeepsAKeyWithoutAScheme) {
  EXPECT_EQ(credentials("kEy"), "kEy");
  EXPECT_EQ(credentials(" kEy "), "kEy");
  EXPECT_EQ(credentials("Bearer"), "Bearer");
  EXPECT_EQ(credentials(""), "");
}

// Applications take the Base64 of Basic without padding, with other unused bits, and ignore what is
// not Base64.
TEST(AuthSpelling, JoinsThoseOfBasic) {
  for (const char* value :
       {"Basic YXBwOnNlY3JldA==", "basic YXBwOnNlY3JldA",
        "BASIC  YXBwOnNlY3JldB==", "Basic YXBw OnNlY3JldA==", "Basic YXBw.OnNlY3JldA="})
    EXPECT_EQ(credentials(value), "basic YXBwOnNlY3JldA") << value;
  EXPECT_EQ(credentials("Basic YXBwOnNlY3JlRA=="), "basic YXBwOnNlY3JlRA");
  EXPECT_EQ(credentials("Basic YTp_-w"), credentials("Basic YTp/+w=="));
  EXPECT_EQ(credentials("Basic YTpiY"), "basic YTpi") << "a byte needs two characters";
  EXPECT_EQ(credentials("Basic !"), "basic ");
}

TEST(AuthSpelling, JoinsThoseOfACookie) {
  for (const char* value :
       {"ab/c", "\"ab/c\"", " ab/c ", "%61b%2fc", "\"%61b%2Fc\"", "\"\\141b/c\"", "\"\\ab\\/\\c\""})
    EXPECT_EQ(cookie(value), "ab/c") << value;
  const std::pair<const char*, const char*> others[] = {
      {"", ""},         {"\"", "\""},           {"\"\"", ""},
      {"\"a", "\"a"},   {"\"\"a\"\"", "\"a\""}, {"a%", "a%"},
      {"a%4", "a%4"},   {"a%zz", "a%zz"},       {"\\141", "\\141"},
      {"\"\\\"", "\\"}, {"\"x y\"", "x y"},     {"%00%0a%e9\xe9", "%00%0A%E9%E9"},
      {"%2541", "%41"}, {"AB/C", "AB/C"}};
  for (const auto& [value, one] : others) EXPECT_EQ(cookie(value), one) << value;
}

}  // namespace
}  // namespace sluice::http::auth_spelling_test
