// The names of the machine's users (admin/user_names.h), from a file of the test's.
#include "admin/user_names.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>

namespace sluice::admin {
namespace {

struct Passwd {
  Passwd() {
    if (::mkdtemp(folder.data()) == nullptr) throw std::runtime_error(folder);
    path = folder + "/passwd";
  }
  ~Passwd() { std::filesystem::remove_all(folder); }
  void write(const std::string& text) const { std::ofstream(path) << text; }

  std::string folder = testing::TempDir() + "sluice_passwd_XXXXXX";
  std::string path;
};

TEST(UserNames, AreReadOnceForEachUserAndAgainWhenTheFileChanges) {
  const Passwd passwd;
  passwd.write("root:x:0:0::/root:/bin/sh\nalice:x:1000:1000::/home/alice:/bin/sh\n");
  UserNames names(passwd.path);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(names.words(1000), "alice (1000)");
    EXPECT_EQ(names.words(0), "root (0)");
    EXPECT_EQ(names.words(7), "7") << "one whom it does not have is remembered too";
  }
  EXPECT_EQ(names.reads(), 3u);
  passwd.write("root:x:0:0::/root:/bin/sh\nbob:x:1000:1000::/home/bob:/bin/sh\nseven:x:7:7::/:/\n");
  EXPECT_EQ(names.words(1000), "bob (1000)");
  EXPECT_EQ(names.words(7), "seven (7)");
  EXPECT_EQ(names.reads(), 5u);
  std::filesystem::remove(passwd.path);
  EXPECT_EQ(names.words(1000), "1000");
}

TEST(UserNames, RememberABoundedNumberOfUsers) {
  const Passwd passwd;
  passwd.write("");
  UserNames names(passwd.path);
  constexpr auto most = static_cast<uid_t>(UserNames::users_max);
  for (uid_t user = 0; user < most; ++user) names.words(user);
  EXPECT_EQ(names.reads(), UserNames::users_max);
  names.words(most);
  names.words(most);
  EXPECT_EQ(names.reads(), UserNames::users_max + 1);
  names.words(0);
  EXPECT_EQ(names.reads(), UserNames::users_max + 2) << "it was forgotten with all others";
}

}  // namespace
}  // namespace sluice::admin
