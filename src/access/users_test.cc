// Users, their passwords and rights (access/users.h).
#include "access/users.h"

#include <gtest/gtest.h>

#include <string>

namespace sluice::access {
namespace {

// Hashes of "open sesame", made by `openssl passwd -6 -salt pepper` and `mkpasswd -m bcrypt -R 5`.
constexpr const char* sha512 =
    "$6$pepper$"
    "5P45aH7MwtajK5HdTCMcecrPnef9rVQGvNhnAISHB1Yjoggo2Xd0D2lf2AYAMuqJxan3yelO1NgncsZahdFcM1";
constexpr const char* bcrypt = "$2b$05$abcdefghijklmnopqrstuupx2xBUC4954936wVIjyyPHmUBFu0wCW";

User named(std::string name, std::string hash, std::string password = {}) {
  return {std::move(name), {Right::take}, std::move(hash), std::move(password)};
}

std::vector<User> some() {
  return {named("a", sha512), named("b", bcrypt), named("c", "", "a plain one")};
}

TEST(Users, RemembersAPasswordThatMatched) {
  const Users users(some());
  EXPECT_FALSE(users.knows("a", "open sesame"));
  EXPECT_FALSE(users.check("a", "guess"));
  EXPECT_FALSE(users.knows("a", "guess"));
  EXPECT_TRUE(users.check("a", "open sesame"));
  EXPECT_TRUE(users.knows("a", "open sesame"));
  EXPECT_FALSE(users.knows("a", "guess"));
  EXPECT_FALSE(users.knows("b", "open sesame"));
  EXPECT_TRUE(users.knows("c", "a plain one"));
  EXPECT_FALSE(users.knows("c", "guess"));
  EXPECT_FALSE(users.knows("d", "open sesame"));
}

TEST(Users, APasswordIsCheckedAgainstItsHash) {
  const Users users(some());
  for (int round = 0; round < 2; ++round) {  // the second round knows the right ones
    EXPECT_TRUE(users.check("a", "open sesame"));
    EXPECT_TRUE(users.check("b", "open sesame"));
    EXPECT_FALSE(users.check("a", "open sesam"));
    EXPECT_FALSE(users.check("a", "open sesame "));
    EXPECT_FALSE(users.check("a", ""));
    EXPECT_FALSE(users.check("b", "a plain one"));
  }
}

TEST(Users, ComparesAPlainPasswordExactly) {
  const Users users(some());
  EXPECT_TRUE(users.check("c", "a plain one"));
  EXPECT_FALSE(users.check("c", "a plain one\n"));
  EXPECT_FALSE(users.check("c", "open sesame"));
}

TEST(Users, RejectsAnUnknownUser) {
  const Users users(some());
  EXPECT_FALSE(users.check("d", "open sesame"));
  EXPECT_FALSE(users.check("", ""));
  EXPECT_FALSE(Users().check("a", "open sesame"));
  EXPECT_FALSE(Users({named("nobody", "")}).check("nobody", ""));
}

// crypt(3) would ignore everything from the NUL on.
TEST(Users, APasswordDoesNotEndAtANul) {
  const Users users(some());
  using namespace std::string_literals;
  EXPECT_FALSE(users.check("a", "open sesame\0"s));
  EXPECT_TRUE(users.check("a", "open sesame"));
  EXPECT_FALSE(users.check("a", "open sesame\0more"s));
}

TEST(Users, RecognizePasswordHashes) {
  EXPECT_TRUE(is_password_hash(sha512));
  EXPECT_TRUE(is_password_hash(bcrypt));
  for (const std::string text : {"", "secret", "$6$", "$6$pepper$", "$6$pepper$abc", "$1$a$b",
                                 "{SHA}abc", "$9$pepper$abc", "*"})
    EXPECT_FALSE(is_password_hash(text)) << text;
  EXPECT_FALSE(is_password_hash(std::string(sha512) + "x"));
}

TEST(Users, RightsFormASet) {
  Rights rights{Right::take, Right::look};
  EXPECT_TRUE(rights.has(Right::take));
  EXPECT_FALSE(rights.has(Right::put));
  rights.add(Right::put);
  EXPECT_TRUE(rights.has(Right::put));
  EXPECT_EQ(rights, rights_without_users);
  EXPECT_FALSE(Rights().has(Right::take));
}

}  // namespace
}  // namespace sluice::access
