// The socket by which `sluice store backup` asks a running server for a copy
// (admin/backup_socket.h).
#include "admin/backup_socket.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>

#include "base/bounds.h"

namespace sluice::admin {
namespace {

class BackupSocketTest : public testing::Test {
 protected:
  BackupSocketTest() {
    std::string pattern = testing::TempDir() + "sluice_socket_XXXXXX";
    folder = ::mkdtemp(pattern.data());
  }
  ~BackupSocketTest() override {
    std::error_code ignored;
    std::filesystem::remove_all(folder, ignored);
  }
  std::unique_ptr<BackupSocket> open(const std::string& dir) {
    auto socket = BackupSocket::open(dir, [this](const std::string& target) -> base::Done {
      asked = target;
      if (target == "/bad") return base::Problem{"the disk\nis full"};
      return {};
    });
    EXPECT_TRUE(socket) << socket.problem().text;
    return *std::move(socket);
  }
  // "done", "no server", or what went wrong.
  static std::string copied(const std::string& dir, const std::string& target) {
    const auto answer = ask_for_backup(dir, target);
    if (!answer) return answer.problem().text;
    return *answer == BackupAnswer::done ? "done" : "no server";
  }
  // What the server sends for these bytes before it closes.
  std::string answer_to(const std::string& bytes) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    backup_socket_path(folder).copy(address.sun_path, sizeof address.sun_path - 1);
    const int fd = ::socket(AF_UNIX, SOCK_STREAM, 0);
    EXPECT_EQ(::connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
    ::send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    std::string answer;
    char some[256];
    for (ssize_t n; (n = ::recv(fd, some, sizeof some, 0)) > 0;)
      answer.append(some, static_cast<size_t>(n));
    ::close(fd);
    return answer;
  }

  std::string folder, asked;
};

TEST_F(BackupSocketTest, RequestsABackupAndReturnsItsOutcome) {
  EXPECT_EQ(copied(folder, "/copy"), "no server");
  EXPECT_EQ(copied(folder + "/none", "/copy"), "no server");
  {
    const auto socket = open(folder);
    struct stat found;
    ASSERT_EQ(::stat(backup_socket_path(folder).c_str(), &found), 0);
    EXPECT_EQ(found.st_mode & 0777, 0600u);
    EXPECT_EQ(copied(folder, "/a copy"), "done");
    EXPECT_EQ(asked, "/a copy");
    EXPECT_EQ(copied(folder, "/bad"), "the disk\\nis full");
    asked.clear();
    const char* const too_long = "the name of the copy is too long, or has a line end in it";
    EXPECT_EQ(copied(folder, "/a\nb"), too_long);
    EXPECT_EQ(copied(folder, std::string(10'000, 'x')), too_long);
    EXPECT_EQ(asked, "");
  }
  EXPECT_FALSE(std::filesystem::exists(backup_socket_path(folder)));
  EXPECT_EQ(copied(folder, "/copy"), "no server");
}

TEST_F(BackupSocketTest, AnswersAnErrorToOrClosesOnInvalidRequests) {
  const auto socket = open(folder);
  EXPECT_EQ(answer_to("hello\n"), "error the only command here is `backup TARGET`\n");
  EXPECT_EQ(answer_to("backup \n"), "error the only command here is `backup TARGET`\n");
  EXPECT_EQ(answer_to(std::string(base::bounds::backup_line_bytes_max + 2000, 'x')), "");
  EXPECT_EQ(answer_to("backup /copy\nbackup /other\n"), "ok\n");
  EXPECT_EQ(asked, "/copy");
}

// A killed server leaves its socket's file behind; and the path may be longer than a socket address
// allows.
TEST_F(BackupSocketTest, ReplacesAStaleSocketUnderAPathOfAnyLength) {
  const std::string deep = folder + "/" + std::string(90, 'a') + "/" + std::string(90, 'b');
  std::filesystem::create_directories(deep);
  const int left = ::open(backup_socket_path(deep).c_str(), O_CREAT | O_WRONLY, 0600);
  ::close(left);
  const auto socket = open(deep);
  EXPECT_EQ(copied(deep, "/copy"), "done");
}

}  // namespace
}  // namespace sluice::admin
