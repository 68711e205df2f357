// The client library over TLS: the real server with a listener for each protocol, certificates that
// are wrong, and peers that do not finish a handshake.
#include <gtest/gtest.h>
#include <sluice/client.h>

#include <chrono>
#include <filesystem>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "tests/client/peers.h"
#include "tests/redis/certificates.h"

namespace sluice::tests::client_tls_test {
namespace {

using namespace std::chrono_literals;

constexpr client_call_options patient{.timeout = 60s};

const std::map<std::string, std::string> schemes{{"divvy", "divvys"},
                                                 {"limitd", "limitds"},
                                                 {"droplet", "wss"},
                                                 {"resp", "rediss"},
                                                 {"http", "https"}};

client_request keyed(std::string_view key) {
  client_request request;
  request.subject.key = key;
  request.subject.limits = {{1'000'000, 1h}};
  return request;
}

// A take of one unit that the protocol can say.
client_request take_over(const std::string& protocol) {
  client_request request = keyed("k");
  if (protocol == "limitd") request.subject = {.type = "ip", .key = "k"};
  if (protocol == "divvy") request.subject = {.entries = {{"ip", "k"}}};
  if (protocol == "droplet") request.subject.limits = {{1000, 30 * 24h}};
  return request;
}

// `sluice serve` with TLS on all ports.
class Secured {
 public:
  // `name`: of its certificate; `rest`: of the keys of `tls`, with a comma in front.
  explicit Secured(const std::string& name = "DNS:localhost,IP:127.0.0.1",
                   const std::string& rest = "")
      : files_(authority_.sign(name)) {
    folder_.write("limitd.yaml", "buckets:\n  ip: { size: 10 }\n");
    std::string config = "listen:\n";
    for (const auto& [protocol, scheme] : schemes)
      config += "  - { protocol: " + protocol +
                ", address: \"127.0.0.1:0\", tls: { certificate: " + files_.certificate +
                ", key: " + files_.key + rest + " } }\n";
    config +=
        "policy: [{ limitd: limitd.yaml }]\n"
        "rules: [{ name: by-ip, match: { ip: \"*\" }, actor: ip, limit: { quota: 5, window: "
        "1h, algorithm: fixed_window } }]\n";
    process_ = std::make_unique<Process>(
        Process::Options{.arguments = {"serve", "--config", folder_.write("sluice.yaml", config)},
                         .environment = {{"SLUICE_LOG_LEVEL", "warn"}}});
    for (const auto& [protocol, scheme] : schemes)
      ports_[protocol] = await_listening(*process_, protocol);
  }
  ~Secured() {
    process_->signal(SIGTERM);
    EXPECT_EQ(process_->wait(soon()), 0);
  }

  std::string address(const std::string& protocol, const std::string& host = "localhost") const {
    return schemes.at(protocol) + "://" + host + ":" + std::to_string(ports_.at(protocol));
  }
  uint16_t port(const std::string& protocol) const { return ports_.at(protocol); }
  const Folder& folder() const { return folder_; }
  const Authority& authority() const { return authority_; }
  client_options trusting() const {
    client_options options;
    options.tls.ca = authority_.certificate();
    return options;
  }

 private:
  Folder folder_;
  Authority authority_{folder_, "authority"};
  Authority::Files files_;
  std::unique_ptr<Process> process_;
  std::map<std::string, uint16_t> ports_;
};

// Why the first try to connect failed.
std::string failure_of(const std::string& address, client_options options,
                       const client_request& request) {
  std::string text;
  options.on_connection = [&](const client_connection_report& report) {
    using event = client_connection_report::event;
    if (text.empty() &&
        (report.what == event::attempt_failed || report.what == event::disconnected))
      text = report.text;
  };
  client one(address, options);
  one.submit(
      request, [](client_result&&) {}, patient);
  while (text.empty()) one.poll(100ms);
  return text;
}

TEST(ClientTls, EveryProtocolIsAnswered) {
  const Secured server;
  for (const auto& [protocol, scheme] : schemes)
    for (const char* host : {"localhost", "127.0.0.1"}) {
      client one(server.address(protocol, host), server.trusting());
      const client_result result = one.call(take_over(protocol), patient);
      EXPECT_TRUE(result.is_allowed()) << protocol << ": " << result.text;
    }
}

// More than fits into one record of TLS, and more than a socket takes at once, both ways.
TEST(ClientTls, ManyCallsAtOnce) {
  const Secured server;
  client one(server.address("resp"), server.trusting());
  const std::string key(2000, 'k');
  constexpr int calls = 5000;
  int ended = 0, allowed = 0;
  for (int i = 0; i < calls; ++i)
    one.submit(
        keyed(key + std::to_string(i % 7)),
        [&](client_result&& result) {
          ++ended;
          allowed += result.is_allowed() ? 1 : 0;
        },
        patient);
  while (ended < calls) one.poll(-1ms);
  EXPECT_EQ(allowed, calls);
  client_request all;
  all.verb = client_verb::command;
  all.words = {"INFO"};
  EXPECT_NE(one.call(all, patient).reply.find("sluice"), std::string::npos);
}

TEST(ClientTls, AnAuthorityThatIsNotTrustedIsNamed) {
  const Secured server;
  const Authority other(server.folder(), "other");
  client_options options;
  options.tls.ca = other.certificate();
  for (const auto& [protocol, scheme] : schemes) {
    const std::string told = failure_of(server.address(protocol), options, take_over(protocol));
    EXPECT_NE(told.find("its certificate is not trusted"), std::string::npos) << told;
    EXPECT_NE(told.find("by authority"), std::string::npos) << told;
  }
}

TEST(ClientTls, ACertificateOfAnotherNameIsNotAccepted) {
  const Secured server("DNS:elsewhere.example");
  for (const auto& [protocol, scheme] : schemes)
    for (const char* host : {"localhost", "127.0.0.1"}) {
      const std::string told =
          failure_of(server.address(protocol, host), server.trusting(), take_over(protocol));
      EXPECT_NE(told.find(std::string("its certificate is not for ") + host), std::string::npos)
          << told;
      EXPECT_NE(told.find("elsewhere.example"), std::string::npos) << told;
    }
}

// A certificate that the server wants, one by another authority, and none. The files are read for
// each connection.
TEST(ClientTls, ACertificateIsShown) {
  const Folder folder;
  const Authority clients(folder, "clients"), other(folder, "other");
  const Secured server("DNS:localhost", ", client_ca: " + clients.certificate());
  for (const auto& [protocol, scheme] : schemes) {
    client_options options = server.trusting();
    const Authority::Files known = clients.sign("DNS:app.example"),
                           unknown = other.sign("DNS:app.example");
    // A server of TLS 1.3 refuses behind the handshake, so the request may be under way by then.
    EXPECT_NE(failure_of(server.address(protocol), options, take_over(protocol)), "");
    options.tls.certificate = folder.path() + "/shown.crt";
    options.tls.key = folder.path() + "/shown.key";
    const auto show = [&](const Authority::Files& files) {
      constexpr auto over = std::filesystem::copy_options::overwrite_existing;
      std::filesystem::copy_file(files.certificate, options.tls.certificate, over);
      std::filesystem::copy_file(files.key, options.tls.key, over);
    };
    show(unknown);
    EXPECT_NE(failure_of(server.address(protocol), options, take_over(protocol)), "");
    client one(server.address(protocol), options);  // it has read the other one
    show(known);
    client_result result;
    const auto deadline = std::chrono::steady_clock::now() + 60s;
    do result = one.call(take_over(protocol), patient);
    while (result.error != client_errc::none && std::chrono::steady_clock::now() < deadline);
    EXPECT_TRUE(result.is_allowed()) << protocol << ": " << result.text;
  }
}

TEST(ClientTls, AHandshakeThatIsNotFinishedIsATimeout) {
  const Peer peer([](int fd, int) { Peer::be_silent(fd); });
  const Folder folder;
  const Authority authority(folder, "authority");
  client_options options;
  options.tls.ca = authority.certificate();
  for (const auto& [protocol, scheme] : schemes) {
    client one(peer.address(scheme), options);
    const auto begun = std::chrono::steady_clock::now();
    const client_result result = one.call(take_over(protocol), {.timeout = 50ms});
    EXPECT_EQ(result.error, client_errc::timeout) << scheme;
    EXPECT_FALSE(one.is_connected());
    EXPECT_LT(std::chrono::steady_clock::now() - begun, 20s);
  }
}

TEST(ClientTls, PlainTextAndTlsDoNotMeet) {
  const Secured server;
  const ServerOfAll plain;
  for (const auto& [protocol, scheme] : schemes) {
    const std::string insecure = scheme.substr(0, scheme.size() - 1) +
                                 "://127.0.0.1:" + std::to_string(server.port(protocol));
    EXPECT_NE(failure_of(insecure, {}, take_over(protocol)), "") << insecure;
  }
  for (const char* protocol : {"resp", "http"}) {
    const std::string told = failure_of(plain.address(protocol, schemes.at(protocol)),
                                        server.trusting(), take_over(protocol));
    EXPECT_NE(told.find("cannot connect to 127.0.0.1 port "), std::string::npos) << told;
  }
}

TEST(ClientTls, WhatCannotBeUsedIsRefusedAtOnce) {
  const Folder folder;
  const Authority authority(folder, "authority");
  const Authority::Files files = authority.sign("DNS:app.example");
  struct Case {
    const char* address;
    client_tls_files tls;
    const char* text;
  };
  const std::vector<Case> cases{
      {"https://localhost", {.ca = folder.path() + "/none.crt"}, "/none.crt"},
      {"https://localhost", {.certificate = files.certificate}, "go together"},
      {"https://localhost", {.key = files.key}, "go together"},
      {"https://localhost",
       {.certificate = authority.certificate(), .key = files.key},
       "is not that of the certificate"},
      {"http://localhost", {.ca = authority.certificate()}, "`https://`"},
      {"httpss://localhost", {}, "the scheme must be one of"},
  };
  for (const Case& one : cases) {
    client_options options;
    options.tls = one.tls;
    try {
      const client made(one.address, options);
      ADD_FAILURE() << one.address;
    } catch (const std::invalid_argument& problem) {
      EXPECT_NE(std::string(problem.what()).find(one.text), std::string::npos) << problem.what();
    }
  }
}

}  // namespace
}  // namespace sluice::tests::client_tls_test
