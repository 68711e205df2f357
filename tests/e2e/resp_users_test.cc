// Users of the real program over the Redis protocol: logins, the rights of each user, and reloads.
#include <gtest/gtest.h>

#include <csignal>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/divvy_server.h"
#include "tests/support/http_client.h"
#include "tests/support/process.h"
#include "tests/support/resp_client.h"

namespace sluice::tests {
namespace {

const std::string token_of_default(43, 'd'), token_of_app(43, 'a'), token_of_ops(43, 'o');
// The SHA-256 of the first two.
constexpr const char *digest_of_default =
                         "9fb93e93b2f42ab1d60660300c454df7c90a2e61647223c1a725f39390cccdae",
                     *digest_of_app =
                         "66d34fba71f8f450f7e45598853e53bfc23bbd129027cbb131a2f4ffd7878cd0";

class RespUsers : public testing::Test {
 protected:
  RespUsers() {
    write_users(all_users());
    folder_.write("ops.token", token_of_ops + "\n");
    process_ = std::make_unique<Process>(
        Process::Options{.arguments = {"serve", "--config", folder_.path() + "/sluice.yaml",
                                       "--log-level", "warn"}});
    port_ = await_listening(*process_, "resp");
    admin_ = await_listening(*process_, "admin");
  }
  ~RespUsers() override {
    process_->signal(SIGTERM);
    EXPECT_EQ(process_->wait(soon()), 0) << "the server's end on SIGTERM";
  }

  static std::string all_users() {
    return "  - { name: default, sha256: " + std::string(digest_of_default) +
           ", rights: [take, look] }\n"
           "  - { name: app, sha256: " +
           std::string(digest_of_app) +
           ", rights: [take, put, look] }\n"
           "  - { name: ops, token_file: ops.token, rights: [look, admin] }\n";
  }
  void write_users(const std::string& users) {
    folder_.write("sluice.yaml",
                  "listen:\n"
                  "  - { protocol: resp, address: \"127.0.0.1:0\" }\n"
                  "  - { protocol: admin, address: \"127.0.0.1:0\" }\n" +
                      (users.empty() ? users : "users:\n" + users));
  }
  // Reloads the users that were written; they are live when it returns.
  void reload() {
    const auto answer = http(admin_, "POST", "/v1/reload", "{}", "");
    ASSERT_EQ(answer.status, 200) << answer.body;
  }
  RespClient connect() const { return RespClient(port_); }
  RespClient logged_in(const std::string& user, const std::string& token) const {
    RespClient client = connect();
    EXPECT_EQ(to_text(client({"AUTH", user, token})), "OK");
    return client;
  }

  Folder folder_;
  std::unique_ptr<Process> process_;
  uint16_t port_ = 0, admin_ = 0;
};

std::string ask(RespClient& client, const std::vector<std::string>& words) {
  return to_text(client(words));
}

constexpr const char* no_auth = "(error) NOAUTH Authentication required.";
constexpr const char* wrong =
    "(error) WRONGPASS invalid username-password pair or user is disabled.";

std::string no_permission(const std::string& user, const std::string& command) {
  return "(error) NOPERM User " + user + " has no permissions to run the '" + command + "' command";
}

TEST_F(RespUsers, NothingIsAnsweredBeforeAToken) {
  RespClient client = connect();
  for (const std::vector<std::string>& words : {std::vector<std::string>{"PING"},
                                                {"CL.THROTTLE", "k", "1", "1", "60"},
                                                {"SLUICE.HELP"},
                                                {"INFO"},
                                                {"COMMAND"},
                                                {"CLIENT", "INFO"},
                                                {"MULTI"}})
    EXPECT_EQ(ask(client, words), no_auth) << words[0];
  EXPECT_TRUE(ask(client, {"HELLO", "3"}).starts_with("(error) NOAUTH HELLO must be called"));
  EXPECT_EQ(ask(client, {"RESET"}), "RESET");
  EXPECT_EQ(ask(client, {"AUTH", "app", "wrong"}), wrong);
  EXPECT_EQ(ask(client, {"AUTH", "nobody", token_of_app}), wrong);
  EXPECT_EQ(ask(client, {"AUTH", "default", token_of_app}), wrong) << "another user's name";
  EXPECT_EQ(ask(client, {"AUTH", "wrong"}), wrong);
  EXPECT_EQ(ask(client, {"PING"}), no_auth);
  EXPECT_EQ(ask(client, {"AUTH", "app", token_of_app}), "OK");
  EXPECT_EQ(ask(client, {"PING"}), "PONG");
  EXPECT_EQ(ask(client, {"AUTH", "app", "wrong"}), wrong);
  EXPECT_EQ(ask(client, {"PING"}), "PONG") << "its user is the same as before";
  EXPECT_EQ(ask(client, {"RESET"}), "RESET");
  EXPECT_EQ(ask(client, {"PING"}), no_auth);
  EXPECT_EQ(ask(client, {"AUTH", token_of_ops}), "OK");
  EXPECT_EQ(ask(client, {"PING"}), "PONG");
  EXPECT_EQ(ask(client, {"QUIT"}), "OK");
}

TEST_F(RespUsers, HelloLogsIn) {
  RespClient client = connect();
  EXPECT_EQ(ask(client, {"HELLO", "3", "AUTH", "app", "wrong", "SETNAME", "me"}), wrong);
  EXPECT_EQ(ask(client, {"PING"}), no_auth);
  const std::string greeting =
      ask(client, {"HELLO", "3", "AUTH", "app", token_of_app, "SETNAME", "me"});
  EXPECT_NE(greeting.find("sluice"), greeting.npos) << greeting;
  EXPECT_EQ(ask(client, {"CLIENT", "GETNAME"}), "\"me\"");
  const std::string line = ask(client, {"CLIENT", "INFO"});
  EXPECT_NE(line.find(" resp=3 user=app "), line.npos) << line;
}

// Commands that are sent at once are answered in order, each as the user of its place.
TEST_F(RespUsers, MayChangeBetweenPipelinedCommands) {
  RespClient client = connect();
  std::string all = to_resp({"PING"}) + to_resp({"AUTH", "app", token_of_app}) + to_resp({"PING"}) +
                    to_resp({"HELLO", "3", "AUTH", "default", token_of_default}) +
                    to_resp({"CLIENT", "GETNAME"}) + to_resp({"CLIENT", "REPLY", "SKIP"}) +
                    to_resp({"AUTH", "app", token_of_app}) + to_resp({"SLUICE.PUT", "a=b"}) +
                    to_resp({"AUTH", "app", "wrong"}) + to_resp({"QUIT"});
  ASSERT_TRUE(client.send(all));
  client.socket().half_close();
  const auto next = [&] {
    const auto reply = client.read();
    return reply ? to_text(*reply) : "(end)";
  };
  EXPECT_EQ(next(), no_auth);
  EXPECT_EQ(next(), "OK");
  EXPECT_EQ(next(), "PONG");
  EXPECT_NE(next().find("sluice"), std::string::npos);
  EXPECT_EQ(next(), "(nil)");
  EXPECT_EQ(next(), "(error) NORULE no rule applies") << "the user that may put";
  EXPECT_EQ(next(), wrong);
  EXPECT_EQ(next(), "OK");
  EXPECT_EQ(next(), "(end)");
}

TEST_F(RespUsers, MayDoWhatTheirRightsAllow) {
  RespClient nobody = logged_in("default", token_of_default), app = logged_in("app", token_of_app),
             ops = logged_in("ops", token_of_ops);
  const std::vector<std::string> take{"CL.THROTTLE", "k", "4", "1", "60"};
  EXPECT_EQ(ask(nobody, take).substr(0, 3), ask(app, take).substr(0, 3));
  EXPECT_EQ(ask(ops, take), no_permission("ops", "cl.throttle"));
  auto back = take;
  back.push_back("-1");
  EXPECT_EQ(ask(nobody, back), no_permission("default", "cl.throttle"));
  EXPECT_FALSE(ask(app, back).starts_with("(error)"));
  EXPECT_EQ(ask(nobody, {"DEL", "k"}), no_permission("default", "del"));
  EXPECT_EQ(ask(ops, {"EXISTS", "k"}), "1");
  EXPECT_EQ(ask(app, {"DEL", "k"}), "1");
  EXPECT_EQ(ask(ops, {"EXISTS", "k"}), "0");
  EXPECT_EQ(ask(nobody, {"SLUICE.RESET", "KEY", "k", "LIMIT", "1", "60"}),
            no_permission("default", "sluice.reset"));
  // A command that is not permitted fails the transaction.
  EXPECT_EQ(ask(nobody, {"MULTI"}), "OK");
  EXPECT_EQ(ask(nobody, {"DEL", "k"}), no_permission("default", "del"));
  EXPECT_TRUE(ask(nobody, {"EXEC"}).starts_with("(error) EXECABORT"));
}

TEST_F(RespUsers, AreReadAgain) {
  RespClient app = logged_in("app", token_of_app), ops = logged_in("ops", token_of_ops);
  write_users("  - { name: ops, token_file: ops.token, rights: [take] }\n");
  reload();
  EXPECT_EQ(ask(app, {"PING"}), no_auth) << "its user is gone";
  EXPECT_EQ(ask(app, {"AUTH", "app", token_of_app}), wrong);
  EXPECT_EQ(ask(ops, {"EXISTS", "k"}), no_permission("ops", "exists"));
  EXPECT_FALSE(ask(ops, {"CL.THROTTLE", "k", "4", "1", "60"}).starts_with("(error)"));
  const std::string next(43, 'n');
  folder_.write("ops.token", next);
  reload();
  EXPECT_EQ(ask(app, {"AUTH", "ops", token_of_ops}), wrong);
  EXPECT_EQ(ask(app, {"AUTH", "ops", next}), "OK");
  EXPECT_EQ(ask(app, {"AUTH", "default", next}), "OK") << "no user has that name now";
  EXPECT_EQ(ask(ops, {"PING"}), "PONG");
  write_users("");
  reload();
  RespClient anybody = connect();
  EXPECT_EQ(ask(anybody, {"PING"}), "PONG");
}

TEST_F(RespUsers, SluiceAskLogsInAsAUser) {
  const auto ask_as = [&](const std::string& token, std::vector<std::string> more) {
    std::vector<std::string> words = {"ask",   "resp",     "--timeout",
                                      "20000", "--server", "localhost:" + std::to_string(port_)};
    words.insert(words.end(), more.begin(), more.end());
    Process::Options options{.arguments = std::move(words)};
    if (!token.empty()) options.environment = {{"SLUICE_TOKEN", token}};
    const auto finished = run(std::move(options));
    return std::to_string(finished.status) + " " + finished.out + finished.err;
  };
  EXPECT_EQ(ask_as("", {"ping"}), "3 (error) NOAUTH Authentication required.\n");
  EXPECT_EQ(ask_as(token_of_app, {"ping"}), "0 PONG\n");
  EXPECT_EQ(ask_as(token_of_ops, {"--user", "ops", "exists", "k"}), "0 (integer) 0\n");
  EXPECT_EQ(ask_as(token_of_ops, {"--user", "app", "ping"}).substr(0, 62),
            "3 error: the server does not accept the user and token (WRONGP");
  EXPECT_EQ(ask_as("wrong", {"ping"}).substr(0, 62),
            "3 error: the server does not accept the user and token (WRONGP");
  EXPECT_EQ(ask_as("", {"--user", "ops", "ping"}).substr(0, 52),
            "2 error: --user wants the user's token in SLUICE_TOK");
}

// What a client of Redis makes of `redis://:TOKEN@host`.
TEST_F(RespUsers, ATokenAloneIsThatOfItsUser) {
  write_users("  - { name: ops, token_file: ops.token, rights: [look, admin] }\n");
  reload();
  for (const std::vector<std::string>& words : {std::vector<std::string>{"AUTH", token_of_ops},
                                                {"AUTH", "default", token_of_ops},
                                                {"HELLO", "2", "AUTH", "default", token_of_ops}}) {
    RespClient client = connect();
    EXPECT_FALSE(ask(client, words).starts_with("(error)"));
    const std::string line = ask(client, {"CLIENT", "INFO"});
    EXPECT_NE(line.find(" user=ops "), line.npos) << line;
  }
}

// The token is in no log, no metric, no configuration that is shown, and not among the arguments.
TEST_F(RespUsers, TokensAreShownNowhere) {
  RespClient client = connect();
  EXPECT_EQ(ask(client, {"AUTH", "nobody", token_of_app}), wrong);
  EXPECT_EQ(ask(client, {"AUTH", token_of_app}), "OK");
  for (const char* path : {"/v1/config", "/metrics", "/v1/changes", "/v1/status"}) {
    const std::string body = http_get(admin_, path).body;
    EXPECT_NE(body, "");
    for (const std::string& secret :
         {token_of_app, token_of_ops, std::string(digest_of_app), token_of_default})
      EXPECT_EQ(body.find(secret), body.npos) << path;
  }
  EXPECT_NE(http_get(admin_, "/metrics").body.find("reason=\"login\"} 1\n"), std::string::npos);
  EXPECT_EQ(process_->err().find(token_of_app), std::string::npos) << process_->err();
}

// `ops` has the right `admin`.
TEST_F(RespUsers, AChangeIsByTheUserOfItsToken) {
  const auto answer = http(admin_, "PUT", "/v1/log", R"({"level": "info"})",
                           "Authorization: Bearer " + token_of_ops + "\r\n");
  EXPECT_EQ(answer.status, 200) << answer.body;
  const std::string changes = http_get(admin_, "/v1/changes").body;
  EXPECT_NE(changes.find("\"ops, 127.0.0.1:"), std::string::npos) << changes;
}

// Queued commands are executed with the rights that the user has at EXEC.
TEST_F(RespUsers, ATransactionIsExecutedWithTheRightsOfItsEnd) {
  RespClient ops = logged_in("ops", token_of_ops);
  EXPECT_EQ(ask(ops, {"MULTI"}), "OK");
  EXPECT_EQ(ask(ops, {"EXISTS", "k"}), "QUEUED");
  EXPECT_EQ(ask(ops, {"PING"}), "QUEUED");
  write_users("  - { name: ops, token_file: ops.token, rights: [take] }\n");
  reload();
  const std::string told = ask(ops, {"EXEC"});
  EXPECT_NE(told.find("NOPERM User ops has no permissions to run the 'exists' command"),
            std::string::npos)
      << told;
  EXPECT_NE(told.find("PONG"), std::string::npos) << told;
}

TEST_F(RespUsers, AMissingTokenFileChangesNothing) {
  std::filesystem::remove(folder_.path() + "/ops.token");
  const auto answer = http(admin_, "POST", "/v1/reload", "{}", "");
  EXPECT_EQ(answer.status, 422) << answer.body;
  EXPECT_NE(answer.body.find("ops.token"), std::string::npos) << answer.body;
  logged_in("ops", token_of_ops);
}

}  // namespace
}  // namespace sluice::tests
