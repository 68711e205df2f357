// `sluice token`: a token, and the line that a server reads.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "access/users.h"
#include "base/diagnostic.h"
#include "cli/command_test.h"
#include "config/config.h"
#include "config/users.h"

namespace sluice::cli {
namespace {

using Token = CommandTest;

TEST_F(Token, PrintsATokenAndTheLineOfItsUser) {
  ASSERT_EQ(command({"token", "app"}), 0) << err;
  const std::string before = "token, for the client:\n  ",
                    between = "\nline of `users`, for sluice.yaml:\n  ";
  ASSERT_TRUE(out.starts_with(before)) << out;
  const std::string token = out.substr(before.size(), access::token_characters);
  EXPECT_TRUE(access::is_token(token)) << token;
  const size_t at = before.size() + token.size();
  ASSERT_EQ(out.substr(at, between.size()), between);
  const std::string line = out.substr(at + between.size());
  EXPECT_EQ(line.find(token), line.npos);
  config::Config config;
  base::Diagnostics diagnostics;
  config::read_config("listen: [{ protocol: resp, address: 127.0.0.1 }]\nusers:\n  " + line,
                      "sluice.yaml", config, diagnostics);
  const auto users = config::make_users(config.users, diagnostics).users;
  ASSERT_TRUE(diagnostics.empty()) << base::to_string(diagnostics.front());
  const access::User* const user = users->find_by("app", token);
  ASSERT_NE(user, nullptr);
  EXPECT_EQ(user->rights, (access::Rights{access::Right::take, access::Right::look}));
  ASSERT_EQ(command({"token", "app"}), 0);
  EXPECT_EQ(out.find(token), out.npos) << "each is another";
}

TEST_F(Token, PrintsJsonForScripts) {
  ASSERT_EQ(command({"token", "--json", "a-b"}), 0) << err;
  const auto json = nlohmann::json::parse(out);
  EXPECT_EQ(json["name"], "a-b");
  EXPECT_TRUE(access::is_token(json["token"].get<std::string>()));
  EXPECT_EQ(json["sha256"].get<std::string>().size(), 64u);
  EXPECT_EQ(json["line"], "- { name: \"a-b\", sha256: " + json["sha256"].get<std::string>() +
                              ", rights: [take, look] }");
}

TEST_F(Token, RequiresOneName) {
  for (const Words& words : {Words{}, Words{"a", "b"}, Words{"a b"}, Words{std::string(65, 'a')}}) {
    Words all = words;
    all.insert(all.begin(), "token");
    EXPECT_EQ(command(all), 2);
    EXPECT_EQ(out, "");
  }
}

}  // namespace
}  // namespace sluice::cli
