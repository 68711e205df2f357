// The client library against a real server with users, over the protocols that have them.
#include <gtest/gtest.h>
#include <sluice/client.h>

#include <chrono>
#include <csignal>
#include <map>
#include <memory>
#include <string>

#include "tests/support/divvy_server.h"
#include "tests/support/process.h"

namespace sluice::tests::client_users_test {
namespace {

using namespace std::chrono_literals;

constexpr client_call_options patient{.timeout = 60s};
constexpr const char* not_accepted = "the server does not accept the user and token (";
constexpr const char* what_to_do = "): correct them, or add the user at the server";

client_request keyed(client_verb verb, std::string_view key = "k") {
  client_request request;
  request.verb = verb;
  request.subject.key = key;
  request.subject.limits = {{100, 1h}};
  return request;
}

const std::string token_of_app = std::string(41, 'a') + "_-", token_of_look(43, 'd');

// `app` may take, `look` may look. A token fits an address as it is.
class ClientUsers : public testing::TestWithParam<const char*> {
 protected:
  ClientUsers() {
    folder_.write("app.token", token_of_app + "\n");
    folder_.write("look.token", token_of_look + "\n");
    const std::string config = folder_.write("sluice.yaml", R"(listen:
  - { protocol: resp, address: "127.0.0.1:0" }
  - { protocol: http, address: "127.0.0.1:0" }
users:
  - { name: app, token_file: app.token, rights: [take] }
  - { name: look, token_file: look.token, rights: [look] }
)");
    process_ =
        std::make_unique<Process>(Process::Options{.arguments = {"serve", "--config", config},
                                                   .environment = {{"SLUICE_LOG_LEVEL", "error"}}});
    for (const char* protocol : {"resp", "http"})
      ports_[protocol] = await_listening(*process_, protocol);
  }
  ~ClientUsers() override {
    process_->signal(SIGTERM);
    EXPECT_EQ(process_->wait(soon()), 0) << "the server's end on SIGTERM";
  }

  // `user` is the part of an address before the host, "NAME:TOKEN@", or empty.
  std::string address(const std::string& user) const {
    return std::string(GetParam()) + "://" + user +
           "127.0.0.1:" + std::to_string(ports_.at(GetParam()));
  }

  Folder folder_;
  std::unique_ptr<Process> process_;
  std::map<std::string, uint16_t> ports_;
};
INSTANTIATE_TEST_SUITE_P(Protocols, ClientUsers, testing::Values("resp", "http"));

TEST_P(ClientUsers, AreReadFromTheAddress) {
  client app(address("app:" + token_of_app + "@"));
  const client_result taken = app.call(keyed(client_verb::take), patient);
  EXPECT_TRUE(taken.is_allowed()) << taken.text;
  EXPECT_EQ(taken.remaining, 99);
  EXPECT_EQ(app.call(keyed(client_verb::take), patient).remaining, 98);
  const client_result put = app.call(keyed(client_verb::put), patient);
  EXPECT_EQ(put.error, client_errc::refused) << "the user lacks the right";
  EXPECT_NE(put.text, "");
  EXPECT_EQ(app.call(keyed(client_verb::take), patient).remaining, 97) << "it is still there";
}

TEST_P(ClientUsers, ReportsAWrongTokenAtOnce) {
  int connected = 0, gave_up = 0, failed = 0;
  client_options options;
  options.on_unavailable = client_policy::allow;
  options.on_connection = [&](const client_connection_report& report) {
    using event = client_connection_report::event;
    connected += report.what == event::connected ? 1 : 0;
    failed += report.what == event::attempt_failed ? 1 : 0;
    gave_up += report.what == event::gave_up ? 1 : 0;
  };
  for (const std::string& user : {std::string("app:wrong@"), "nobody:" + token_of_app + "@"}) {
    connected = failed = gave_up = 0;
    client one(address(user), options);
    for (int i = 0; i < 3; ++i) {
      const client_result result = one.call(keyed(client_verb::take), patient);
      EXPECT_EQ(result.error, client_errc::refused) << "`allow` is for a server that is away";
      EXPECT_FALSE(result.allowed);
      EXPECT_TRUE(result.text.starts_with(not_accepted)) << result.text;
      EXPECT_NE(result.text.find(what_to_do), std::string::npos) << result.text;
      // Long enough for a second attempt, if the client made one without a call.
      one.poll(150ms);
    }
    const bool has_login = GetParam() == std::string("resp");
    EXPECT_EQ(failed, has_login ? 1 : 0);
    EXPECT_EQ(gave_up, has_login ? 1 : 0);
    EXPECT_EQ(connected, has_login ? 0 : 1) << "http: 401 for each request, over one connection";
  }
}

TEST_P(ClientUsers, AsksAClientWithoutAUserToNameOne) {
  client nobody(address(""));
  const client_result result = nobody.call(keyed(client_verb::take), patient);
  EXPECT_EQ(result.error, client_errc::refused);
  EXPECT_NE(result.text.find("USER:TOKEN@ in the client's address"), std::string::npos)
      << result.text;
}

TEST_P(ClientUsers, ATokenNeedsNoName) {
  client one(address(":" + token_of_look + "@"));
  EXPECT_EQ(one.call(keyed(client_verb::peek), patient).error, client_errc::none);
  EXPECT_EQ(one.call(keyed(client_verb::take), patient).error, client_errc::refused);
}

}  // namespace
}  // namespace sluice::tests::client_users_test
