// Users in the configuration (config/users.h): names, tokens, rights, and what is printed of them.
#include "config/users.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "config/config.h"
#include "config/settings.h"
#include "policy/read/native.h"
#include "policy/rule_set.h"
#include "protocol/protocol.h"
#include "request/space.h"
#include "store/log/folder_test.h"

namespace sluice::config {
namespace {

constexpr const char* head = "listen: [{ protocol: resp, address: 127.0.0.1 }]\n";
constexpr const char* digest =  // of "abc"
    "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
const std::string token(43, 'x');

std::string write(const disk::Folder& folder, const std::string& name, const std::string& text) {
  const std::string path = folder / name;
  std::ofstream(path) << text;
  return path;
}

struct Read {
  Config config;
  std::string problems;
};

Read read(const std::string& users) {
  Read read;
  base::Diagnostics diagnostics;
  read_config(head + users, "conf/sluice.yaml", read.config, diagnostics);
  for (const auto& d : diagnostics) read.problems += base::to_string(d) + "\n";
  return read;
}

TEST(ReadUsers, ReadsNamesTokensAndRights) {
  const Read all = read("users:\n  - { name: app, sha256: " + std::string(digest) +
                        ", rights: [take, look] }\n"
                        "  - { name: ops, token_file: ops.token, rights: [admin, put] }\n");
  EXPECT_EQ(all.problems, "");
  const auto& users = all.config.users.value;
  ASSERT_EQ(users.size(), 2u);
  EXPECT_EQ(users[0].user.name, "app");
  EXPECT_EQ(users[0].user.token_digest, access::digest_of("abc"));
  EXPECT_EQ(users[0].user.rights, (access::Rights{access::Right::take, access::Right::look}));
  EXPECT_EQ(users[1].token_file, "conf/ops.token");
  EXPECT_EQ(users[1].user.rights, (access::Rights{access::Right::put, access::Right::admin}));
  EXPECT_EQ(files_of(all.config.users), std::vector<std::string>{"conf/ops.token"});
}

TEST(ReadUsers, ReportsInvalidUsers) {
  const auto one = [](const std::string& entry) { return read("users: [" + entry + "]").problems; };
  const auto has = [](const std::string& text, const std::string& part) {
    EXPECT_NE(text.find(part), text.npos) << text;
  };
  has(one("{ token_file: f, rights: [take] }"), "users: has no name");
  has(one("{ name: a, rights: [take] }"), "has to have one of sha256, token_file and certificate");
  has(one("{ name: a, token_file: f, sha256: " + std::string(digest) + ", rights: [take] }"),
      "has to have one of");
  has(one("{ name: a, token_file: f }"), "has no rights");
  has(one("{ name: a, token_file: f, rights: [taek] }"), "`taek` is not a right");
  has(one("{ name: a, token_file: f, rights: [] }"), "rights");
  has(one("{ name: 'a b', token_file: f, rights: [take] }"), "is not a name of a user");
  for (const std::string& text : {std::string("secret"), std::string(digest).substr(1),
                                  std::string(digest) + "0", "g" + std::string(digest).substr(1)}) {
    const std::string problem = one("{ name: a, sha256: " + text + ", rights: [take] }");
    has(problem, "sluice token NAME");
    EXPECT_EQ(problem.find(text), problem.npos) << problem;
  }
  has(one("{ name: a, token: x, rights: [take] }"), "token: is not a known key");
  has(read("users: x").problems, "users");
  const std::string twice = "{ name: a, token_file: f, rights: [take] }";
  has(one(twice + ", " + twice), "names `a`, as an entry above does");
  std::string many;
  for (size_t i = 0; i <= base::bounds::users_max; ++i)
    many += "  - { name: u" + std::to_string(i) + ", token_file: f, rights: [take] }\n";
  has(read("users:\n" + many).problems, "one more than the 10000 users");
}

std::vector<std::string> texts_of(const access::Reach& reach) {
  return {reach.patterns().begin(), reach.patterns().end()};
}

TEST(ReadUsers, ReadsTheCountersOfALimitedRight) {
  const Read all = read(
      "users:\n  - { name: a, token_file: f, rights: [take, look], only: { take: ['api:*', login] "
      "} "
      "}\n");
  EXPECT_EQ(all.problems, "");
  const access::User& user = all.config.users.value.at(0).user;
  using Texts = std::vector<std::string>;
  EXPECT_EQ(texts_of(user.reach_of(access::Right::take)), (Texts{"api:*", "login"}));
  EXPECT_FALSE(user.reach_of(access::Right::look).is_limited());
  const std::string printed = print_config(all.config);
  EXPECT_NE(printed.find("rights: [take, look], only: { take: [\"api:*\", \"login\"] } }"),
            printed.npos)
      << printed;
}

TEST(ReadUsers, ReportsInvalidLimitsOfRights) {
  const auto only = [](const std::string& map) {
    return read("users: [{ name: a, token_file: f, rights: [take, admin], only: " + map + " }]")
        .problems;
  };
  const auto has = [](const std::string& text, const std::string& part) {
    EXPECT_NE(text.find(part), text.npos) << text;
  };
  has(only("{ admin: ['a:*'] }"), "admin: cannot be limited");
  has(only("{ admin: ['a:*'] }"), "take it out of `only`");
  has(only("{ put: ['a:*'] }"), "limits the right `put`, which `a` does not have; add it to");
  has(only("{ take: ['a*b'] }"), "`a*b` is not a pattern");
  has(only("{ take: [] }"), "take");
  has(only("{ take: a }"), "take");
  has(only("{ tak: [a] }"), "tak: is not a known key; did you mean `take`?");
  has(only("[take]"), "must be a map");
  has(only("{ take: [" + std::string(513, 'x') + "] }"), "more than 512 bytes");
  std::string many;
  for (int i = 0; i < 65; ++i) many += "r" + std::to_string(i) + ", ";
  has(only("{ take: [" + many + "] }"), "more than 64 patterns");
}

// The users of the text, held to those rules and to those that every server has.
std::string unreached(const std::string& users, const std::string& rules) {
  const Read all = read(users);
  EXPECT_EQ(all.problems, "");
  request::Spaces spaces;
  policy::RuleSet set(protocol::dialects());
  base::Diagnostics diagnostics;
  policy::read_native(rules, "rules.yaml", spaces, set, diagnostics);
  EXPECT_TRUE(diagnostics.empty());
  const bool sound = check_reach(all.config, set, diagnostics);
  EXPECT_EQ(sound, diagnostics.empty());
  std::string problems;
  for (const auto& d : diagnostics) problems += base::to_string(d) + "\n";
  return problems;
}

TEST(CheckReach, RefusesAPatternThatFitsNoCounter) {
  const std::string rules =
      "rules:\n- { name: api, match: { ip: '*' }, actor: ip, limit: { quota: 1, window: 1m } }\n"
      "- { name: all, match: { x: '*' }, limit: { quota: 1, window: 1m } }\n";
  const auto only = [&](const std::string& patterns) {
    return unreached("users:\n  - { name: a, token_file: f, rights: [take], only: { take: [" +
                         patterns + "] } }\n",
                     rules);
  };
  EXPECT_EQ(only("api, 'api:*', 'api:10.0.0.1', 'a*', all, '*'"), "");
  EXPECT_EQ(only("api, 'apii:*'"),
            "conf/sluice.yaml:3:61: error: take: `apii:*` of user `a` fits no counter of any rule; "
            "write the name of a rule, or RULE:ACTOR; there are `api`, `all`\n");
  EXPECT_NE(only("'all:one'"), "") << "the rule has one counter for all";
  EXPECT_NE(only("ap"), "");
  EXPECT_NE(only("'b*'"), "");
  EXPECT_EQ(unreached("users:\n  - { name: a, token_file: f, rights: [take] }\n",
                      "rules: [{ deny: true }]\n"),
            "");
}

TEST(ReadUsers, RefusesPasswordsByName) {
  for (const std::string key : {"password", "password_hash", "password_file"})
    EXPECT_EQ(read("users: [{ name: a, " + key + ": secret, rights: [take] }]").problems,
              "conf/sluice.yaml:2:20: error: " + key +
                  ": is not read: users have tokens, and no passwords; run `sluice token NAME`, "
                  "give the client the token, and write the line that it prints\n");
}

TEST(MakeUsers, ReadsTokensFromTheirFiles) {
  const disk::Folder folder;
  const std::string file = write(folder, "a.token", token + "\r\n");
  ConfiguredUsers users;
  users.value = {{{"a", {access::Right::take}}, file},
                 {{"b", {access::Right::put}, access::digest_of("abc")}}};
  base::Diagnostics diagnostics;
  const MadeUsers made = make_users(users, diagnostics);
  ASSERT_TRUE(made.users);
  EXPECT_EQ(made.digests.size(), 1u);
  const auto name_of = [](const access::Users& all, const std::string& shown) {
    const access::User* const user = all.find_by("", shown);
    return user == nullptr ? "" : user->name;
  };
  EXPECT_EQ(name_of(*made.users, token), "a");
  EXPECT_EQ(name_of(*made.users, token + "\r\n"), "");
  EXPECT_EQ(name_of(*made.users, "abc"), "b");
  const std::string another(43, 'y');
  write(folder, "a.token", another);
  const MadeUsers again = make_users(users, diagnostics);
  EXPECT_EQ(name_of(*again.users, token), "");
  EXPECT_EQ(name_of(*again.users, another), "a");
  EXPECT_NE(again.digests, made.digests);
  EXPECT_TRUE(diagnostics.empty());
}

std::string problem_of(const std::vector<ConfiguredUser>& all) {
  ConfiguredUsers users;
  users.value = all;
  users.origin = "sluice.yaml:7";
  base::Diagnostics diagnostics;
  EXPECT_FALSE(make_users(users, diagnostics).users);
  return diagnostics.empty() ? "" : base::to_string(diagnostics.front());
}

TEST(MakeUsers, ReportsUnusableTokenFiles) {
  const disk::Folder folder;
  const auto problem = [&](const std::string& file) {
    return problem_of({{{"a", {access::Right::take}}, file}});
  };
  EXPECT_NE(problem(folder.path() + "/none").find("cannot be read"), std::string::npos);
  const std::string pipe = folder / "pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_NE(problem(pipe).find("is not a regular file"), std::string::npos) << problem(pipe);
  for (const std::string& text :
       {std::string("\n"), std::string("swordfish"), token + "x", token + "\n" + token,
        token + std::string(300, '\n'), " " + token}) {
    const std::string said = problem(write(folder, "some", text));
    EXPECT_NE(said.find("some: error: holds no token: "), std::string::npos) << said;
    EXPECT_NE(said.find("sluice token NAME"), std::string::npos) << said;
    EXPECT_EQ(said.find("swordfish"), std::string::npos) << said;
  }
}

TEST(MakeUsers, RefusesATokenThatTwoUsersShare) {
  const disk::Folder folder;
  const std::string file = write(folder, "a.token", token), other = write(folder, "b.token", token);
  const access::Digest its = access::digest_of(token);
  for (const auto& all :
       std::vector<std::vector<ConfiguredUser>>{{{{"a", {}, its}, ""}, {{"b", {}, its}, ""}},
                                                {{{"a", {}}, file}, {{"b", {}}, file}},
                                                {{{"a", {}}, file}, {{"b", {}}, other}},
                                                {{{"a", {}, its}, ""}, {{"b", {}}, other}}})
    EXPECT_EQ(problem_of(all),
              "error: users: `a` and `b` have one token (sluice.yaml:7); make one for each with "
              "`sluice token NAME`");
}

TEST(PrintUsers, ShowsNoSecret) {
  const Read all = read("users:\n  - { name: app, sha256: " + std::string(digest) +
                        ", rights: [take, look] }\n"
                        "  - { name: ops, token_file: ops.token, rights: [admin] }\n");
  const std::string printed = print_config(all.config);
  EXPECT_EQ(printed.find(digest), printed.npos);
  EXPECT_NE(printed.find("- { name: \"app\", sha256: \"not shown\", rights: [take, look] }"),
            printed.npos)
      << printed;
  EXPECT_NE(printed.find("token_file: \"" + std::filesystem::absolute("conf/ops.token").string() +
                         "\", rights: [admin] }"),
            printed.npos)
      << printed;
}

}  // namespace
}  // namespace sluice::config
