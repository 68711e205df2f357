// Files that a configuration names, of the real server: a pipe instead of one delays neither
// the admin port nor a reload nor the stop, and no answer shows whether a file exists.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <csignal>
#include <cstdint>
#include <memory>
#include <string>

#include "tests/support/divvy_server.h"
#include "tests/support/http_client.h"
#include "tests/support/process.h"

namespace sluice::tests::named_files_test {
namespace {

std::string with_secret(const std::string& file) {
  return "listen:\n  - { protocol: http, address: \"127.0.0.1:0\" }\n"
         "  - { protocol: admin, address: \"127.0.0.1:0\" }\n"
         "http: { auth: { profiles: { web: { proxy: nginx, secret_file: '" +
         file + "' } } } }\nrules: [{ name: r, deny: true }]\n";
}

struct Served {
  Served() {
    folder.write("auth.secret", "swordfish\n");
    EXPECT_EQ(::mkfifo((folder.path() + "/pipe").c_str(), 0600), 0);
    EXPECT_EQ(::mkfifo((elsewhere.path() + "/pipe").c_str(), 0600), 0);
    elsewhere.write("there", "swordfish\n");
    config = folder.write("sluice.yaml", with_secret("auth.secret"));
    process = std::make_unique<Process>(
        Process::Options{.arguments = {"serve", "--config", config, "--log-level", "warn"}});
    admin = await_listening(*process, "admin");
  }
  std::string check(const std::string& file) const {
    const HttpAnswer answer =
        http(admin, "POST", "/v1/config/check?as=sluice", with_secret(file), "");
    EXPECT_EQ(answer.status, 200) << answer.body;
    std::string body = answer.body;
    for (size_t at; !file.empty() && (at = body.find(file)) != body.npos;)
      body.replace(at, file.size(), "");
    return body;
  }

  Folder folder, elsewhere;
  std::string config;
  std::unique_ptr<Process> process;
  uint16_t admin = 0;
};

TEST(NamedFiles, ACandidateNamesRegularOnesBesideTheConfiguration) {
  const Served served;
  EXPECT_NE(served.check("auth.secret").find("\"ok\": true"), std::string::npos)
      << served.check("auth.secret");
  const std::string refused = served.check(served.elsewhere.path() + "/missing");
  EXPECT_NE(refused.find("cannot be read here"), std::string::npos) << refused;
  for (const std::string& file : {served.elsewhere.path() + "/there",
                                  served.elsewhere.path() + "/pipe", std::string("/dev/zero")})
    EXPECT_EQ(served.check(file), refused) << "the answers are the same";
  for (const char* file : {"pipe", "missing"})
    EXPECT_NE(served.check(file).find("cannot be read here"), std::string::npos) << file;
  EXPECT_EQ(http_get(served.admin, "/v1/rules").status, 200);
  served.process->signal(SIGTERM);
  EXPECT_EQ(served.process->wait(), 0);
}

TEST(NamedFiles, APipeDelaysNeitherAReloadNorTheStop) {
  const Served served;
  served.folder.write("sluice.yaml", with_secret("pipe"));
  const HttpAnswer reloaded = http(served.admin, "POST", "/v1/reload", "{}", "");
  EXPECT_NE(reloaded.status, 200) << reloaded.body;
  EXPECT_NE(reloaded.body.find("is not a regular file"), std::string::npos) << reloaded.body;
  served.process->signal(SIGTERM);
  EXPECT_EQ(served.process->wait(), 0);
}

// The start says so as well, in place of waiting for a writer.
TEST(NamedFiles, APipeIsNotASecretAtTheStart) {
  const Folder folder;
  ASSERT_EQ(::mkfifo((folder.path() + "/pipe").c_str(), 0600), 0);
  const Finished ended =
      run({.arguments = {"serve", "--config", folder.write("sluice.yaml", with_secret("pipe"))}});
  EXPECT_EQ(ended.status, 1);
  EXPECT_NE(ended.err.find("is not a regular file"), std::string::npos) << ended.err;
}

}  // namespace
}  // namespace sluice::tests::named_files_test
