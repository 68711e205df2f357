#include "net/unix_listener.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <string>

namespace sluice::net {
namespace {

std::string path_of(const std::string& name) {
  return testing::TempDir() + "u" + std::to_string(::getpid()) + name;
}

TEST(UnixListener, IsForItsOwnerAloneAndGoes) {
  const std::string path = path_of("a");
  std::string problem;
  auto listener = UnixListener::open(path, problem);
  ASSERT_NE(listener, nullptr) << problem;
  struct stat status {};
  ASSERT_EQ(::stat(path.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777u, 0600u);
  EXPECT_TRUE(is_listened_on(path));
  listener.reset();
  EXPECT_FALSE(std::filesystem::exists(path));
  EXPECT_FALSE(is_listened_on(path));
}

TEST(UnixListener, TakesThePlaceOfADeadOneAndOfNothingElse) {
  const std::string path = path_of("b");
  std::string problem;
  // As a process that was killed leaves it behind.
  const int fd = ::socket(AF_UNIX, SOCK_STREAM, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path, sizeof address.sun_path - 1);
  ASSERT_EQ(::bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  ::close(fd);
  auto listener = UnixListener::open(path, problem);
  ASSERT_NE(listener, nullptr) << problem;
  EXPECT_EQ(UnixListener::open(path, problem), nullptr);
  EXPECT_NE(problem.find("already in use"), std::string::npos) << problem;
  EXPECT_TRUE(is_listened_on(path));
  const std::string file = path_of("c");
  std::ofstream(file) << "kept";
  EXPECT_EQ(UnixListener::open(file, problem), nullptr);
  EXPECT_TRUE(std::filesystem::is_regular_file(file));
  std::filesystem::remove(file);
}

TEST(UnixListener, SaysWhatIsWrongWithAPath) {
  std::string problem;
  EXPECT_EQ(UnixListener::open("/nosuch/folder/x.sock", problem), nullptr);
  EXPECT_NE(problem.find("/nosuch/folder/x.sock"), std::string::npos) << problem;
  EXPECT_EQ(UnixListener::open("/" + std::string(200, 'x'), problem), nullptr);
  EXPECT_NE(problem.find("longer than 107 bytes"), std::string::npos) << problem;
}

}  // namespace
}  // namespace sluice::net
