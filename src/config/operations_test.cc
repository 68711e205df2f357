// Settings of operations, such as the admin port, and candidates of policies that clients of the
// admin port send.
#include "config/operations.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "config/candidate.h"
#include "config/printed_test.h"
#include "config/read_file.h"
#include "protocol/protocol.h"
#include "testing/environment_of.h"

namespace sluice::config::operations_test {
namespace {

struct World {
  std::map<std::string, std::string> variables;
  std::ostringstream out, err;
  CommandIo io{out, err, false, false, tests::environment_of(variables)};
};

TEST(Operations, PrintsTheTokenFileSoThatItReadsBack) {
  Config config;
  base::Diagnostics diagnostics;
  read_config("admin: { token_file: secret }\npolicy: [{ divvy: a.ini }]\n", "conf/sluice.yaml",
              config, diagnostics);
  ASSERT_TRUE(diagnostics.empty());
  EXPECT_EQ(config.operations.admin_token_file.value, "conf/secret");
  const std::string printed = print_config(config);
  Config again;
  read_config(printed, "/sluice.yaml", again, diagnostics);
  ASSERT_TRUE(diagnostics.empty()) << printed;
  // Printed, the path is from the root, so that it is the same file from any folder.
  EXPECT_EQ(again.operations.admin_token_file.value, std::filesystem::absolute("conf/secret"));
  EXPECT_EQ(changed_settings(config, again), std::vector<std::string>{});
  again.operations.admin_token_file.value = "conf/other";
  EXPECT_EQ(changed_settings(config, again), std::vector<std::string>{"admin.token_file"});
}

TEST(Operations, AdminFlagMovesOrRemovesTheAdminPort) {
  Config config;
  base::Diagnostics diagnostics;
  set(config, "--admin", "[::1]:1", diagnostics);
  ASSERT_EQ(config.listen.size(), protocol::all().size() + 1);
  EXPECT_EQ(config.listen.back().value.address.host, "::1");
  EXPECT_EQ(config.listen.back().origin, "--admin");
  set(config, "--admin", "off", diagnostics);
  EXPECT_EQ(config.listen.size(), protocol::all().size());
  EXPECT_TRUE(diagnostics.empty());
  set(config, "--admin", "[::]:x", diagnostics);
  EXPECT_EQ(diagnostics.size(), 1u);
}

TEST(Operations, RequiresATokenIfOthersCanReachTheAdminPort) {
  World world;
  admin::AdminOptions options;
  Config config;
  EXPECT_TRUE(set_up_admin(config, options, world.io));
  EXPECT_EQ(options.token, "");
  base::Diagnostics diagnostics;
  for (const char* ours : {"127.1.2.3:1", "localhost:1", "[::1]:1"}) {
    set(config, "--admin", ours, diagnostics);
    EXPECT_TRUE(set_up_admin(config, options, world.io)) << ours;
  }
  set(config, "--admin", "127.example.org:1", diagnostics);
  EXPECT_FALSE(set_up_admin(config, options, world.io));
  set(config, "--admin", "0.0.0.0:8380", diagnostics);
  EXPECT_FALSE(set_up_admin(config, options, world.io));
  EXPECT_NE(world.err.str().find("error: admin: --admin has it listen on 0.0.0.0:8380, where "
                                 "others reach it, and there is no token; set"),
            std::string::npos)
      << world.err.str();
  ConfiguredUser user{.user = {"ops", {access::Right::look}}};
  config.users.value = {user};
  EXPECT_FALSE(set_up_admin(config, options, world.io));
  user.user.rights.add(access::Right::admin);
  config.users.value = {user};
  EXPECT_TRUE(set_up_admin(config, options, world.io));
  EXPECT_TRUE(options.is_reached_by_others);
  config.users.value.clear();
  set(config, "SLUICE_ADMIN_TOKEN", "short", diagnostics);
  EXPECT_EQ(diagnostics.size(), 1u);
  const std::string token = "0123456789abcdef";
  set(config, "SLUICE_ADMIN_TOKEN", token, diagnostics);
  EXPECT_TRUE(set_up_admin(config, options, world.io));
  EXPECT_EQ(options.token, token);
  EXPECT_EQ(print_config(config).find(token), std::string::npos);
  EXPECT_EQ(options.settings.find(token), std::string::npos);
}

TEST(Candidates, AreReadLikeTheServersFiles) {
  EXPECT_FALSE(read_candidate("toml", "", ""));
  auto one = read_candidate("divvy-ini", "[default]\ncreditLimit = 1\nresetSeconds = 1\n", "");
  ASSERT_TRUE(one && one->rules);
  EXPECT_EQ(one->rules->rules(protocol::find_dialect("divvy")).size(), 1u);
  EXPECT_EQ(one->dialects, std::vector{protocol::find_dialect("divvy")});
  one = read_candidate("divvy-ini", "[default]\ncreditLimit = x\n", "");
  ASSERT_TRUE(one);
  EXPECT_FALSE(one->rules);
  EXPECT_TRUE(base::has_errors(one->diagnostics));
  one = read_candidate("limitd", "buckets: { ip: { size: 1, per_second: 1 } }", "");
  ASSERT_TRUE(one && one->rules);
  EXPECT_EQ(one->rules->rules(protocol::find_dialect("limitd")).size(), 1u);
  one = read_candidate(
      "sluice", "rules: [{ name: r, match: { a: b }, limit: { quota: 1, window: 1s } }]", "");
  ASSERT_TRUE(one && one->rules);
  EXPECT_EQ(one->rules->native_rules().size(), 1u);
  EXPECT_EQ(one->dialects.front(), &policy::native_dialect);
  one = read_candidate("sluice", "wrokers: 1", "");
  ASSERT_TRUE(one);
  EXPECT_FALSE(one->rules);
}

// Rules that settle together but whose counters would be in different slots of a cluster are named,
// as `sluice check` names them.
TEST(Candidates, NameTheRulesThatSettleOverSeveralSlots) {
  const auto with = [](const std::string& more) {
    return read_candidate(
        "sluice",
        "rules:\n"
        "  - { name: u, match: { user: '*' }, actor: user, limit: { quota: 5, window: 1m }, then: "
        "continue }\n"
        "  - { name: t, match: { tenant: '*' }, actor: tenant, limit: { quota: 5, window: 1m } }\n"
        "store: { redis: { nodes: ['a:1'], cluster: true" +
            more + " } }\n",
        "");
  };
  const std::vector<std::string> named{"rule u (line 2), rule t (line 3)"};
  const auto refused = with("");
  ASSERT_TRUE(refused);
  EXPECT_EQ(refused->across_slots, named);
  EXPECT_FALSE(refused->rules);
  ASSERT_EQ(refused->diagnostics.size(), 1u);
  const base::Diagnostic& said = refused->diagnostics.front();
  EXPECT_EQ(said.line, 3);
  EXPECT_EQ(said.subject, "rule t");
  EXPECT_NE(said.message.find("settles together with rule u (line 2)"), std::string::npos)
      << said.message;
  const auto settled = with(", across_slots: settle");
  ASSERT_TRUE(settled);
  EXPECT_TRUE(settled->rules);
  EXPECT_EQ(settled->across_slots, named);
}

// A client that may have a candidate read must not learn the contents of other files.
TEST(Candidates, MayNameOnlyTheServersFiles) {
  const std::string root = testing::TempDir() + "sluice-candidates-" + std::to_string(::getpid());
  const std::string folder = root + "/served/", elsewhere = root + "/elsewhere/";
  std::filesystem::create_directories(folder);
  std::filesystem::create_directories(elsewhere);
  const auto write = [](const std::string& path, const std::string& text) {
    std::ofstream(path) << text;
    return path;
  };
  const std::string sound = "[default]\ncreditLimit = 1\nresetSeconds = 1\n";
  const std::string io = write(elsewhere + "rules.ini", sound);
  const std::string secret = write(elsewhere + "secret", "a secret\n");
  write(folder + "other.ini", sound);
  const std::string live = write(folder + "sluice.yaml",
                                 "listen: [{ protocol: divvy, address: '127.0.0.1:0' }]\n"
                                 "policy: [{ divvy: '" +
                                     io + "' }]\n");
  const auto check = [&](const std::string& path, const std::string& live_file) {
    return *read_candidate("sluice", "policy: [{ divvy: '" + path + "' }]", live_file);
  };
  for (const std::string& path : {std::string("other.ini"), folder + "./other.ini", io})
    EXPECT_TRUE(check(path, live).rules) << path;
  const std::string up = "../elsewhere";
  write(folder + "admin.token", "a secret\n");
  write(elsewhere + "others.ini", sound);
  for (const std::string& path :
       {secret, up + "/secret", "x/../" + up + "/secret", up + "/others.ini",
        std::string("admin.token"), std::string("sluice.yaml")}) {
    const auto refused = check(path, live);
    EXPECT_FALSE(refused.rules) << path;
    ASSERT_EQ(refused.diagnostics.size(), 1u) << path;
    const std::string said = base::to_string(refused.diagnostics.front());
    EXPECT_NE(said.find("nor does that name it"), std::string::npos) << said;
    EXPECT_EQ(said.find("a secret"), std::string::npos) << said;
  }
  EXPECT_FALSE(check(io, "").rules);
  std::filesystem::remove_all(root);
}

// A secret of forward-auth is a file as well. A pipe would hold up the admin port, and the answer
// must not show whether a file exists.
TEST(Candidates, MayNameOnlyRegularFilesBesideTheServersAsSecrets) {
  const std::string root = testing::TempDir() + "sluice-secrets-" + std::to_string(::getpid());
  const std::string folder = root + "/served/", elsewhere = root + "/elsewhere/";
  std::filesystem::create_directories(folder);
  std::filesystem::create_directories(elsewhere);
  const auto write = [](const std::string& path, const std::string& text) {
    std::ofstream(path) << text;
    return path;
  };
  const auto with = [](const std::string& secret_file) {
    return "listen: [{ protocol: http, address: '127.0.0.1:0' }]\nhttp: { auth: { profiles: { web: "
           "{ "
           "proxy: nginx, secret_file: '" +
           secret_file + "' } } } }\nrules: [{ name: r, deny: true }]\n";
  };
  const std::string named = write(elsewhere + "named.secret", "swordfish\n");
  const std::string live = write(folder + "sluice.yaml", with(named));
  write(folder + "auth.secret", "swordfish\n");
  write(elsewhere + "other.secret", "swordfish\n");
  for (const std::string& path : {folder + "pipe", elsewhere + "pipe"})
    ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  for (const std::string& path : {std::string("auth.secret"), named})
    EXPECT_TRUE(read_candidate("sluice", with(path), live)->rules) << path;
  std::set<std::string> messages;
  for (const std::string& path :
       {elsewhere + "other.secret", elsewhere + "missing", elsewhere + "pipe", elsewhere,
        std::string("missing"), std::string("pipe"), std::string("sluice.yaml"), std::string("."),
        std::string("/dev/zero"), std::string("/etc/shadow")}) {
    const auto refused = read_candidate("sluice", with(path), live);
    EXPECT_FALSE(refused->rules) << path;
    ASSERT_GE(refused->diagnostics.size(), 1u) << path;
    messages.insert(refused->diagnostics.front().message);
  }
  EXPECT_EQ(messages, std::set<std::string>{"cannot be read here"});
  EXPECT_FALSE(read_candidate("sluice", with("auth.secret"), "")->rules);
  std::filesystem::remove_all(root);
}

// What is read again with each reload is not a pipe, at the start either: its reader would wait.
TEST(ReadFile, TakesOnlyRegularFilesWithinAScope) {
  const std::string root = testing::TempDir() + "sluice-scope-" + std::to_string(::getpid());
  std::filesystem::create_directories(root);
  const std::string file = root + "/file", pipe = root + "/pipe";
  std::ofstream(file) << "text";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  base::Diagnostics diagnostics;
  {
    const ReadScope scope;
    EXPECT_EQ(read_file(file, diagnostics), "text");
    EXPECT_FALSE(read_file(pipe, diagnostics));
    EXPECT_FALSE(read_file("/dev/zero", diagnostics));
    ASSERT_EQ(diagnostics.size(), 2u);
    for (const auto& one : diagnostics) EXPECT_EQ(one.message, "is not a regular file");
    EXPECT_EQ(scope.asked(), (std::vector<std::string>{file, pipe, "/dev/zero"}));
    const ReadScope none([](const std::string&) { return false; });
    const ReadScope all([](const std::string&) { return true; });
    EXPECT_FALSE(read_file(file, diagnostics)) << "all scopes count";
  }
  // Without a scope a pipe is read to its end.
  std::thread writer([&] { std::ofstream(pipe) << "of a pipe"; });
  EXPECT_EQ(read_file(pipe, diagnostics), "of a pipe");
  writer.join();
  std::filesystem::remove_all(root);
}

}  // namespace
}  // namespace sluice::config::operations_test
