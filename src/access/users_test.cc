// Users, their tokens and rights (access/users.h), and who a client is (access/identity.h).
#include "access/users.h"

#include <gtest/gtest.h>

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "access/identity.h"

namespace sluice::access {
namespace {

std::string hexadecimal(const Digest& digest) {
  std::string text;
  for (const unsigned char byte : digest) {
    text += "0123456789abcdef"[byte >> 4];
    text += "0123456789abcdef"[byte & 15];
  }
  return text;
}

std::vector<User> some() {
  return {{"a", {Right::take}, digest_of("token of a")},
          {"b", {Right::look}, digest_of("token of b")}};
}

std::shared_ptr<const Users> listed(std::vector<User> users) {
  return std::make_shared<const Users>(std::move(users));
}

std::string name_of(const User* user) {
  return user == nullptr ? "nobody" : user->name;
}

TEST(Tokens, AreRandomWordsForAddresses) {
  std::set<std::string> all;
  std::set<char> characters;
  for (int i = 0; i < 200; ++i) {
    const std::string token = make_token();
    EXPECT_TRUE(is_token(token)) << token;
    EXPECT_TRUE(all.insert(token).second);
    characters.insert(token.begin(), token.end());
  }
  EXPECT_EQ(characters.size(), 64u);
}

TEST(Tokens, HaveOneForm) {
  const std::string token(43, 'x');
  EXPECT_TRUE(is_token(token));
  for (const std::string& text :
       {std::string(), token + "x", token.substr(1), token.substr(1) + "=", token.substr(1) + "+",
        token.substr(1) + "\n"})
    EXPECT_FALSE(is_token(text)) << text;
}

// FIPS 180-4's example, and the empty text.
TEST(Tokens, AreKnownByTheirSha256) {
  EXPECT_EQ(hexadecimal(digest_of("abc")),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(hexadecimal(digest_of("")),
            "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
}

TEST(Users, AreFoundByToken) {
  const Users users(some());
  EXPECT_EQ(name_of(users.find_by("", "token of a")), "a");
  EXPECT_EQ(name_of(users.find_by("", "token of b")), "b");
  EXPECT_EQ(name_of(users.find_by("b", "token of b")), "b");
  for (const char* token : {"", "token of ", "token of c", "token of a "}) {
    EXPECT_EQ(users.find_by("", token), nullptr) << token;
    EXPECT_EQ(users.find_by("a", token), nullptr) << token;
  }
  EXPECT_EQ(Users().find_by("", "token of a"), nullptr);
  EXPECT_EQ(name_of(users.find("b")), "b");
  EXPECT_EQ(users.find("c"), nullptr);
}

TEST(Users, ARightTokenWithAWrongNameIsNobodys) {
  const Users users(some());
  EXPECT_EQ(users.find_by("b", "token of a"), nullptr);
  EXPECT_EQ(users.find_by("c", "token of a"), nullptr);
  EXPECT_EQ(users.find_by("A", "token of a"), nullptr);
  // Clients that have a token alone call themselves `default`.
  EXPECT_EQ(name_of(users.find_by("default", "token of a")), "a");
  auto more = some();
  more.push_back({"default", {}, digest_of("another")});
  const Users with_default(std::move(more));
  EXPECT_EQ(with_default.find_by("default", "token of a"), nullptr);
  EXPECT_EQ(name_of(with_default.find_by("default", "another")), "default");
}

TEST(Users, AreFoundAmongMany) {
  std::vector<User> all;
  for (int i = 0; i < 1'000; ++i)
    all.push_back({"u" + std::to_string(i), {}, digest_of("t" + std::to_string(i))});
  const Users users(std::move(all));
  for (int i = 0; i < 1'000; ++i)
    EXPECT_EQ(name_of(users.find_by("", "t" + std::to_string(i))), "u" + std::to_string(i));
  EXPECT_EQ(users.find_by("", "t1000"), nullptr);
}

TEST(Users, ShowATokenInTheAuthorizationField) {
  const auto shown = [](std::string_view field) {
    const auto proof = read_authorization(field);
    return proof ? proof->name + "/" + proof->token : std::string("none");
  };
  EXPECT_EQ(shown("Bearer abc"), "/abc");
  EXPECT_EQ(shown("bearer  a:c"), "/a:c");
  EXPECT_EQ(shown("Basic YXBwOnNlY3JldA=="), "app/secret");
  EXPECT_EQ(shown("BASIC YXBwOnNlY3JldA"), "app/secret");
  EXPECT_EQ(shown("Basic OnM="), "/s");
  EXPECT_EQ(shown("Basic YTpiOmM="), "a/b:c");
  for (const char* field :
       {"", "abc", "Basic", "Basic YXBw", "Basic !!", "Basic =", "Digest abc", "Bearerabc"})
    EXPECT_EQ(shown(field), "none") << field;
  EXPECT_EQ(shown("Basic " + std::string(2'000, 'A')), "none");
  EXPECT_EQ(authorization_of("", ""), "");
  EXPECT_EQ(authorization_of("a", ""), "");
  EXPECT_EQ(shown(authorization_of("", "s")), "/s");
  EXPECT_EQ(authorization_of("app", "secret"), "Basic YXBwOnNlY3JldA==");
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

TEST(Identity, MayTakeWithoutUsers) {
  const Access access;
  for (Identity identity : {Identity(nullptr), Identity(&access)}) {
    EXPECT_FALSE(identity.is_needed());
    EXPECT_TRUE(identity.is_known());
    EXPECT_TRUE(identity.may(Right::put));
    EXPECT_FALSE(identity.may(Right::admin));
    EXPECT_FALSE(identity.log_in("a", "token of a"));
    EXPECT_TRUE(identity.authorize("Bearer x"));
    EXPECT_EQ(identity.user(), "default");
  }
}

TEST(Identity, IsUnchangedByAWrongToken) {
  const Access access(listed(some()));
  Identity identity(&access);
  EXPECT_TRUE(identity.is_needed());
  EXPECT_FALSE(identity.is_known());
  EXPECT_FALSE(identity.may(Right::take));
  EXPECT_TRUE(identity.log_in("", "token of a"));
  EXPECT_TRUE(identity.may(Right::take));
  EXPECT_FALSE(identity.log_in("", "token of c"));
  EXPECT_EQ(identity.user(), "a");
  EXPECT_TRUE(identity.is_known());
  identity.log_out();
  EXPECT_FALSE(identity.is_known());
}

// A client that shows a certificate is its user as long as it shows no token; a wrong token is not
// made good by the certificate.
TEST(Identity, IsThatOfTheCertificateUnlessThereIsAToken) {
  std::vector<User> users = some();
  users.push_back({"shop", {Right::put}, {}, "spiffe://cluster/shop"});
  Access access(listed(std::move(users)));
  const std::string token = "token of a";
  Identity shop(&access, "spiffe://cluster/shop"), other(&access, "spiffe://cluster/other");
  EXPECT_EQ(shop.user(), "shop");
  EXPECT_TRUE(shop.is_known() && shop.may(Right::put) && !shop.may(Right::take));
  EXPECT_FALSE(other.is_known());
  EXPECT_EQ(other.user(), "default");
  EXPECT_TRUE(shop.authorize(""));
  EXPECT_FALSE(other.authorize(""));
  EXPECT_TRUE(shop.authorize(authorization_of("a", token)));
  EXPECT_EQ(shop.user(), "a");
  EXPECT_FALSE(shop.may(Right::put));
  // The next request of the connection shows none.
  EXPECT_TRUE(shop.authorize(""));
  EXPECT_EQ(shop.user(), "shop");
  EXPECT_FALSE(shop.authorize("Bearer wrong"));
  EXPECT_FALSE(shop.is_known() || shop.may(Right::put) || shop.may(Right::take));
  EXPECT_TRUE(shop.authorize(""));
  EXPECT_TRUE(shop.may(Right::put));
  // One who authenticates once, and shows the certificate before.
  Identity late(&access, "spiffe://cluster/shop");
  EXPECT_EQ(late.user(), "shop");
  EXPECT_TRUE(late.log_in("", token));
  EXPECT_EQ(late.user(), "a");
  late.log_out();
  EXPECT_EQ(late.user(), "shop");
  // Who is taken out of the list is nobody.
  access.set(listed(some()));
  late.refresh();
  EXPECT_FALSE(late.is_known());
  EXPECT_FALSE(shop.authorize(""));
  // Without users everybody may.
  access.set(nullptr);
  late.refresh();
  EXPECT_TRUE(late.is_known() && late.may(Right::put));
}

TEST(Identity, GoesByTheLiveList) {
  Access access(listed(some()));
  Identity identity(&access);
  EXPECT_TRUE(identity.log_in("a", "token of a"));
  const uint64_t before = access.version();
  access.set(listed({{"a", {Right::put}, digest_of("another")}}));
  EXPECT_GT(access.version(), before);
  identity.refresh();
  EXPECT_TRUE(identity.is_known()) << "a new token ends no session";
  EXPECT_TRUE(identity.may(Right::put));
  EXPECT_FALSE(identity.may(Right::take));
  EXPECT_FALSE(identity.log_in("a", "token of a"));
  access.set(listed({{"b", {Right::put}, digest_of("token of b")}}));
  identity.refresh();
  EXPECT_FALSE(identity.is_known());
  EXPECT_EQ(identity.user(), "default");
  EXPECT_TRUE(identity.log_in("", "token of b"));
  access.set(nullptr);
  identity.refresh();
  EXPECT_FALSE(identity.is_needed());
  EXPECT_TRUE(identity.is_known());
}

TEST(Identity, IsThatOfEachRequest) {
  const Access access(listed(some()));
  Identity identity(&access);
  EXPECT_TRUE(identity.authorize("Bearer token of a"));
  EXPECT_EQ(identity.user(), "a");
  EXPECT_FALSE(identity.authorize(""));
  EXPECT_FALSE(identity.is_known());
  EXPECT_FALSE(identity.may(Right::take));
  EXPECT_TRUE(identity.authorize("Bearer token of b"));
  EXPECT_EQ(identity.user(), "b");
}

// Tokens of the usual form are read where they stand, all others by read_authorization.
TEST(Identity, ABearerTokenIsOfItsUserInEachSpelling) {
  const std::string token = make_token(), other = make_token();
  const Access access(listed({{"app", {Right::take}, digest_of(token)}}));
  Identity identity(&access);
  for (const std::string scheme : {"Bearer ", "bearer ", "BEARER ", "Bearer  "}) {
    EXPECT_TRUE(identity.authorize(scheme + token)) << scheme;
    EXPECT_EQ(identity.user(), "app");
    EXPECT_TRUE(identity.may(Right::take));
    for (const std::string& wrong : {scheme + other, scheme + token + "x", scheme + token.substr(1),
                                     "Digest " + token, "Bearer" + token, token}) {
      EXPECT_FALSE(identity.authorize(wrong)) << wrong;
      EXPECT_FALSE(identity.is_known());
      EXPECT_FALSE(identity.may(Right::take));
      EXPECT_EQ(identity.user(), default_user);
    }
  }
  EXPECT_TRUE(identity.authorize(authorization_of("app", token)));
  EXPECT_FALSE(identity.authorize(authorization_of("app", other)));
}

}  // namespace
}  // namespace sluice::access
