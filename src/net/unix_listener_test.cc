// UNIX sockets that the server listens on (net/listener.h): rights, leftovers of killed servers,
// wrong paths.
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <string>

#include "net/listener.h"

namespace sluice::net {
namespace {

// Makes a listener and removes it again. Returns what went wrong, "" if nothing.
std::string problem_of(const std::string& path) {
  const auto listener = UnixListener::open(path);
  return listener ? "" : listener.problem().text;
}

std::string path_of(const std::string& name) {
  return testing::TempDir() + "u" + std::to_string(::getpid()) + name;
}

TEST(UnixListener, IsAccessibleToItsOwnerOnlyAndRemovesItsSocket) {
  const std::string path = path_of("a");
  auto listener = UnixListener::open(path);
  ASSERT_TRUE(listener) << listener.problem().text;
  struct stat status {};
  ASSERT_EQ(::stat(path.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777u, 0600u);
  EXPECT_TRUE(is_listened_on(path));
  listener->reset();
  EXPECT_FALSE(std::filesystem::exists(path));
  EXPECT_FALSE(is_listened_on(path));
}

TEST(UnixListener, ReplacesOnlyAStaleSocket) {
  const std::string path = path_of("b");
  // A killed process leaves its socket's file like this.
  const int fd = ::socket(AF_UNIX, SOCK_STREAM, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path, sizeof address.sun_path - 1);
  ASSERT_EQ(::bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  ::close(fd);
  const auto listener = UnixListener::open(path);
  ASSERT_TRUE(listener) << listener.problem().text;
  const std::string problem = problem_of(path);
  EXPECT_NE(problem.find("already in use"), std::string::npos) << problem;
  EXPECT_TRUE(is_listened_on(path));
  const std::string file = path_of("c");
  std::ofstream(file) << "kept";
  EXPECT_NE(problem_of(file), "");
  EXPECT_TRUE(std::filesystem::is_regular_file(file));
  std::filesystem::remove(file);
}

TEST(UnixListener, ReportsAnUnusablePath) {
  std::string problem = problem_of("/nosuch/folder/x.sock");
  EXPECT_NE(problem.find("/nosuch/folder/x.sock"), std::string::npos) << problem;
  problem = problem_of("/" + std::string(200, 'x'));
  EXPECT_NE(problem.find("longer than 107 bytes"), std::string::npos) << problem;
}

}  // namespace
}  // namespace sluice::net
