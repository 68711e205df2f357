// By which names the real server of the HTTP protocol may be reached, and what it says where it
// refuses one: on loopback and elsewhere, with and without users, behind a proxy.
#include <gtest/gtest.h>

#include <csignal>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/e2e/http_described.h"

namespace sluice::tests::http_e2e {
namespace {

Asked with_name(Asked asked, const std::string& host) {
  asked.host = host;
  return asked;
}
const Json jar_of_names = about({{"jar", "j"}});
const Asked look = post("/v1/peek", jar_of_names);

std::string remedy_for(const std::string& name) {
  return "write `http: { hosts: [" + name + "] }` in its sluice.yaml, or give it --http-hosts " +
         name;
}

// `sluice serve` with that address for HTTP, on a free port.
struct Named {
  explicit Named(const std::string& address, std::vector<std::string> words = {},
                 const std::string& more = usual_rules) {
    folder.write("sluice.yaml", "listen:\n  - { protocol: http, address: \"" + address +
                                    ":0\" }\n  - { protocol: admin, address: \"127.0.0.1:0\" }\n" +
                                    more);
    std::vector<std::string> arguments{"serve", "--config", folder.path() + "/sluice.yaml",
                                       "--log-level", "warn"};
    arguments.insert(arguments.end(), words.begin(), words.end());
    process = std::make_unique<Process>(Process::Options{.arguments = arguments});
    port = await_listening(*process, "http");
    admin = await_listening(*process, "admin");
  }
  int status(const std::string& host, const Asked& asked = look) const {
    return ask(HttpVersion::http1, port, with_name(asked, host)).status;
  }

  Folder folder;
  std::unique_ptr<Process> process;
  uint16_t port = 0, admin = 0;
};

TEST(HttpNames, OnLoopbackANameIsRefusedWithTheRemedyInAnswerLogAndMetrics) {
  const Named server("127.0.0.1");
  for (const HttpVersion version : http_versions) {
    const HttpAnswer answer = ask(version, server.port, with_name(look, "Sluice.:8390"));
    EXPECT_EQ(answer.status, 421);
    EXPECT_NE(answer.body.find(remedy_for("sluice")), std::string::npos) << answer.body;
  }
  EXPECT_TRUE(server.process->says("warning http: 421: the Host of the request, `sluice`, ") ||
              server.process->says(remedy_for("sluice")));
  EXPECT_NE(server.process->err().find(remedy_for("sluice")), std::string::npos);
  EXPECT_EQ(sample(server.admin,
                   "sluice_requests_refused_total{protocol=\"http\",listener=\""
                   "127.0.0.1:" +
                       std::to_string(server.port) + "\",reason=\"host\"}"),
            "2");
  EXPECT_EQ(server.status("sluice", get("/v1/health")), 200);
  const Finished health = run({.arguments = {"ask", "http", "health", "--server",
                                             "localhost:" + std::to_string(server.port)}});
  EXPECT_EQ(health.status, 0) << health.err;
}

TEST(HttpNames, AFlagNamesThem) {
  const Named server("127.0.0.1", {"--http-hosts", "sluice,Limits.example.com."});
  for (const char* name : {"sluice:8390", "SLUICE", "sluice.", "limits.example.com", "localhost."})
    EXPECT_EQ(server.status(name), 200) << name;
  EXPECT_EQ(server.status("example.com"), 421);
  const Finished wrong = run({.arguments = {"http", "--port", "0", "--http-hosts", "a:8390"}});
  EXPECT_EQ(wrong.status, 1);
  EXPECT_NE(wrong.err.find("--http-hosts: `a:8390` is not the name of a host"), std::string::npos)
      << wrong.err;
}

// As in a container: other machines reach the listener, by whatever name.
TEST(HttpNames, WhereOtherMachinesReachTheListenerEveryNameIsTaken) {
  const Named server("0.0.0.0");
  for (const char* name : {"sluice:8390", "limits.example.com", "a-pod.a-namespace.svc:80"})
    for (const HttpVersion version : http_versions)
      EXPECT_EQ(ask(version, server.port, with_name(look, name)).status, 200) << name;
  // A web page is refused there too, as its browser says where it is from.
  Asked of_page = with_name(look, "evil.example");
  of_page.headers.emplace_back("Origin", "http://evil.example");
  EXPECT_EQ(ask(HttpVersion::http1, server.port, of_page).status, 403);
  EXPECT_EQ(server.process->err().find("421"), std::string::npos) << server.process->err();
}

TEST(HttpNames, AClientWithATokenMayUseAnyName) {
  Folder secrets;
  const std::string token(43, 'a');
  const Named server("127.0.0.1", {},
                     std::string(usual_rules) +
                         "users: [{ name: app, rights: [look], token_file: " +
                         secrets.write("app.token", token) + " }]\n");
  Asked known = look;
  known.headers.emplace_back("Authorization", "Bearer " + token);
  EXPECT_EQ(server.status("sluice:8390", known), 200);
  EXPECT_EQ(server.status("sluice:8390"), 401) << "nothing is taken without a token";
}

// The check of a file, and the start, name the listeners that refuse names.
TEST(HttpNames, CheckAndStartSayThatNamesAreRefused) {
  const std::string note =
      "where Host is a name other than localhost, http at 127.0.0.1:0: 421; name it by `http: { "
      "hosts: [NAME] }` or --http-hosts NAME";
  const Named server("127.0.0.1");
  EXPECT_TRUE(comes([&] {
    return server.process->out().find("sluice: " + note + "\n") != std::string::npos;
  })) << server.process->out();
  const std::string file = server.folder.path() + "/sluice.yaml";
  const Finished check = run({.arguments = {"check", "--strict", file}});
  EXPECT_EQ(check.status, 0) << "a note is not a warning: " << check.err;
  EXPECT_NE(check.out.find(file + ": " + note + "\n"), std::string::npos) << check.out;
  const Json json = Json::parse(run({.arguments = {"check", "--json", file}}).out);
  EXPECT_EQ(json["files"][0]["notes"], Json::array({note}));
}

}  // namespace
}  // namespace sluice::tests::http_e2e
