// Where servers make the socket of their admin port, and where commands look for it.
#include "config/admin_sockets.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "config/operations.h"
#include "config/printed_test.h"
#include "testing/environment_of.h"

namespace sluice::config::admin_sockets_test {
namespace {

struct World {
  std::map<std::string, std::string> variables;
  std::ostringstream out, err;
  CommandIo io{out, err, false, false, tests::environment_of(variables)};
};

using Paths = std::vector<std::string>;

TEST(AdminSocket, IsInTheFirstFolderThatCanBeUsed) {
  World world;
  Config config;
  const std::string name = "/sluice-" + std::to_string(::getpid()) + ".sock";
  const std::string system = "/run/sluice" + name,
                    own = "/tmp/sluice-" + std::to_string(::geteuid()) + name;
  EXPECT_EQ(admin_socket_paths(config, world.io), Paths{}) << "it has an admin port";
  std::erase_if(config.listen, [](const auto& one) { return !one.value.protocol; });
  EXPECT_EQ(admin_socket_paths(config, world.io), (Paths{system, own}));
  world.variables = {{"XDG_RUNTIME_DIR", "/run/user/1/"}};
  EXPECT_EQ(admin_socket_paths(config, world.io), (Paths{"/run/user/1" + name, system, own}));
  world.variables["RUNTIME_DIRECTORY"] = "/run/it:/run/other";
  EXPECT_EQ(admin_socket_paths(config, world.io),
            (Paths{"/run/it" + name, "/run/user/1" + name, system, own}));
  world.variables = {{"RUNTIME_DIRECTORY", "relative"}, {"XDG_RUNTIME_DIR", ""}};
  config.store.path = {"/data", "--data"};
  EXPECT_EQ(admin_socket_paths(config, world.io), (Paths{system, own, "/data" + name}));
  base::Diagnostics diagnostics;
  set(config, "--admin", "off", diagnostics);
  EXPECT_EQ(admin_socket_paths(config, world.io), Paths{});
  set(config, "--admin", "/a/b.sock", diagnostics);
  EXPECT_EQ(admin_socket_paths(config, world.io), Paths{});
  set(config, "--admin", "127.0.0.1:1", diagnostics);
  EXPECT_EQ(admin_socket_paths(config, world.io), Paths{});
  EXPECT_TRUE(diagnostics.empty());
}

// In a folder that everybody may write, as /tmp, another user may have been first.
TEST(AdminSocket, IsNotMadeWhereAnotherUserCouldPutOneInItsPlace) {
  const std::string root = testing::TempDir() + "sluice_private_" + std::to_string(::getpid());
  const std::string sticky = root + "/tmp", folder = sticky + "/sluice";
  std::filesystem::create_directories(folder);
  ::chmod(root.c_str(), 0700);
  ::chmod(sticky.c_str(), 01777);
  ::chmod(folder.c_str(), 0700);
  const uid_t self = ::geteuid();
  const auto problem = [&](const std::string& path, uid_t user) {
    const base::Done done = check_private_folder(path, user);
    return done ? std::string() : done.problem().text;
  };
  const auto expect = [](const std::string& text, const char* part) {
    EXPECT_NE(text.find(part), std::string::npos) << text;
  };
  EXPECT_EQ(problem(folder, self), "");
  expect(problem(folder, self + 1), ("belongs to user " + std::to_string(self)).c_str());
  std::filesystem::create_directory_symlink(folder, sticky + "/link");
  expect(problem(sticky + "/link", self), "is not a folder, but a link or a file");
  std::ofstream(sticky + "/file") << "x";
  expect(problem(sticky + "/file", self), "is not a folder, but a link or a file");
  expect(problem(sticky + "/none", self), "No such file");
  ::chmod(folder.c_str(), 0770);
  expect(problem(folder, self), "may be written by other users");
  ::chmod(folder.c_str(), 0700);
  ::chmod(sticky.c_str(), 0777);
  expect(problem(folder, self), "may be replaced by other users");
  std::filesystem::remove_all(root);
}

TEST(AdminSocket, FindsTheSocketsOfRunningServers) {
  const std::string folder = testing::TempDir() + "sluice_sockets_" + std::to_string(::getpid());
  std::filesystem::create_directory(folder);
  World world;
  world.variables = {{"XDG_RUNTIME_DIR", folder}, {"RUNTIME_DIRECTORY", folder}};
  const Paths elsewhere = admin_sockets(world.io);  // of servers that run on this machine
  const auto found = [&] {
    Paths all = admin_sockets(world.io);
    std::erase_if(all, [&](const std::string& path) {
      return std::find(elsewhere.begin(), elsewhere.end(), path) != elsewhere.end();
    });
    return all;
  };
  std::ofstream(folder + "/sluice-1.sock") << "not a socket";
  const std::string path = folder + "/sluice-2.sock";
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path, sizeof address.sun_path - 1);
  const int fd = ::socket(AF_UNIX, SOCK_STREAM, 0);
  ASSERT_EQ(::bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  EXPECT_EQ(found(), Paths{path});
  world.variables = {{"SLUICE_DATA", folder}};
  EXPECT_EQ(found(), Paths{path});
  ::close(fd);
  std::filesystem::remove_all(folder);
  EXPECT_EQ(found(), Paths{});
}

}  // namespace
}  // namespace sluice::config::admin_sockets_test
