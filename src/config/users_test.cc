// Users in the configuration (config/users.h): names, passwords, rights, and what is printed of
// them.
#include "config/users.h"

#include <gtest/gtest.h>

#include <fstream>
#include <string>
#include <vector>

#include "config/config.h"
#include "config/settings.h"
#include "disk/folder_test.h"

namespace sluice::config {
namespace {

constexpr const char* head = "listen: [{ protocol: resp, address: 127.0.0.1 }]\n";
constexpr const char* hash =
    "$6$pepper$5P45aH7MwtajK5HdTCMcecrPnef9rVQGvNhnAISHB1Yjoggo2Xd0D2lf2AYAMuqJxan3yelO1NgncsZahdFc"
    "M1";

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

TEST(ReadUsers, ReadsNamesPasswordsAndRights) {
  const Read all = read("users:\n  - { name: app, password_hash: '" + std::string(hash) +
                        "', rights: [take, look] }\n"
                        "  - { name: ops, password_file: ops.password, rights: [admin, put] }\n");
  EXPECT_EQ(all.problems, "");
  const auto& users = all.config.users.value;
  ASSERT_EQ(users.size(), 2u);
  EXPECT_EQ(users[0].user.name, "app");
  EXPECT_EQ(users[0].user.password_hash, hash);
  EXPECT_EQ(users[0].user.rights, (access::Rights{access::Right::take, access::Right::look}));
  EXPECT_EQ(users[1].password_file, "conf/ops.password");
  EXPECT_EQ(users[1].user.rights, (access::Rights{access::Right::put, access::Right::admin}));
  EXPECT_EQ(files_of(all.config.users), std::vector<std::string>{"conf/ops.password"});
}

TEST(ReadUsers, ReportsInvalidUsers) {
  const auto one = [](const std::string& entry) { return read("users: [" + entry + "]").problems; };
  const auto has = [](const std::string& text, const std::string& part) {
    EXPECT_NE(text.find(part), text.npos) << text;
  };
  has(one("{ password_file: f, rights: [take] }"), "users: has no name");
  has(one("{ name: a, rights: [take] }"), "has to have one of password_hash and password_file");
  has(one("{ name: a, password_file: f, password_hash: '" + std::string(hash) +
          "', rights: [take] }"),
      "has to have one of");
  has(one("{ name: a, password_file: f }"), "has no rights");
  has(one("{ name: a, password_file: f, rights: [taek] }"), "`taek` is not a right");
  has(one("{ name: a, password_file: f, rights: [] }"), "rights");
  has(one("{ name: 'a b', password_file: f, rights: [take] }"), "is not a name of a user");
  has(one("{ name: a, password_hash: secret, rights: [take] }"), "`openssl passwd -6`");
  has(one("{ name: a, password: x, password_file: f, rights: [take] }"), "password");
  has(read("users: x").problems, "users");
  const std::string twice = "{ name: a, password_file: f, rights: [take] }";
  has(one(twice + ", " + twice), "names `a`, as an entry above does");
  std::string many;
  for (size_t i = 0; i <= base::bounds::users_max; ++i)
    many += "  - { name: u" + std::to_string(i) + ", password_file: f, rights: [take] }\n";
  has(read("users:\n" + many).problems, "one more than the 10000 users");
}

TEST(MakeUsers, ReadsPasswordsFromTheirFiles) {
  const disk::Folder folder;
  const std::string file = write(folder, "a.password", "open sesame\r\n");
  ConfiguredUsers users;
  users.value = {{{"a", {access::Right::take}}, file}, {{"b", {access::Right::put}}, file}};
  base::Diagnostics diagnostics;
  const MadeUsers made = make_users(users, diagnostics);
  ASSERT_TRUE(made.users);
  EXPECT_EQ(made.digests.size(), 1u);
  EXPECT_TRUE(made.users->check("a", "open sesame"));
  EXPECT_TRUE(made.users->check("b", "open sesame"));
  EXPECT_FALSE(made.users->check("a", "open sesame\r\n"));
  write(folder, "a.password", "another");
  const MadeUsers again = make_users(users, diagnostics);
  EXPECT_NE(again.digests, made.digests);
  EXPECT_TRUE(diagnostics.empty());
}

TEST(MakeUsers, ReportsUnusablePasswordFiles) {
  const disk::Folder folder;
  const auto problem = [&](const std::string& file) {
    ConfiguredUsers users;
    users.value = {{{"a", {access::Right::take}}, file}};
    base::Diagnostics diagnostics;
    EXPECT_FALSE(make_users(users, diagnostics).users);
    return diagnostics.empty() ? "" : base::to_string(diagnostics.front());
  };
  EXPECT_NE(problem(folder.path() + "/none").find("cannot be read"), std::string::npos);
  EXPECT_NE(problem(write(folder, "empty", "\n")).find("holds no password"), std::string::npos);
  EXPECT_NE(problem(write(folder, "long", std::string(513, 'x'))).find("more than the 512 bytes"),
            std::string::npos);
}

TEST(PrintUsers, ShowsNoSecret) {
  const Read all = read("users:\n  - { name: app, password_hash: '" + std::string(hash) +
                        "', rights: [take, look] }\n"
                        "  - { name: ops, password_file: ops.password, rights: [admin] }\n");
  const std::string printed = print_config(all.config);
  EXPECT_EQ(printed.find(hash), printed.npos);
  EXPECT_NE(printed.find("- { name: \"app\", password_hash: \"not shown\", rights: [take, look] }"),
            printed.npos)
      << printed;
  EXPECT_NE(printed.find("password_file: \"conf/ops.password\", rights: [admin] }"), printed.npos);
}

}  // namespace
}  // namespace sluice::config
