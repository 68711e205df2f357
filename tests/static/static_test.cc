// The static program, in a root with nothing else, or with what may lead it astray.
#include <elf.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/redis/certificates.h"
#include "tests/support/bare_root.h"
#include "tests/support/http_client.h"
#include "tests/support/patience.h"
#include "tests/support/redis_server.h"
#include "tests/support/tcp_client.h"

namespace sluice::tests::static_test {
namespace {

namespace fs = std::filesystem;

const std::string program = SLUICE_STATIC_PROGRAM;
const std::vector<std::string> protocols{"divvy", "limitd", "droplet", "resp", "envoy", "http"};

std::string all_of(const std::string& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

// Asks every protocol with the program itself: `run` returns the status of words.
void expect_answers(const std::map<std::string, uint16_t>& ports,
                    const std::function<int(const std::vector<std::string>&)>& run) {
  const std::map<std::string, std::vector<std::string>> questions{
      {"divvy", {"method=GET", "path=/pantry/cookies", "ip=10.0.0.7"}},
      {"limitd", {"ping"}},
      {"droplet", {"take", "jar", "--lh", "100", "--lo", "1000"}},
      {"resp", {"PING"}},
      {"envoy", {"shop", "remote_address=10.0.0.7"}},
      {"http", {"health"}}};
  for (const auto& [protocol, words] : questions) {
    std::vector<std::string> all{"ask", protocol, "--server",
                                 "127.0.0.1:" + std::to_string(ports.at(protocol))};
    all.insert(all.end(), words.begin(), words.end());
    const int status = run(all);
    EXPECT_TRUE(status == 0 || status == 1) << protocol << ": " << status;
  }
}

// Where the C library of the machine has its modules, as Debian's does.
constexpr const char* modules = "/lib/x86_64-linux-gnu";

class Static : public testing::Test {
 protected:
  void SetUp() override {
    if (::geteuid() != 0) GTEST_SKIP() << "it takes root to change the root folder's mounts";
  }

  BareRoot root_{program};
};

TEST(StaticProgram, IsOnePositionIndependentFileWithoutSymbols) {
  const std::string bytes = all_of(program);
  ASSERT_TRUE(bytes.starts_with("\177ELF"));
  EXPECT_EQ(bytes[16], 3);  // ET_DYN: a static program at any address
  // No header of the program names an interpreter (PT_INTERP, 3).
  Elf64_Ehdr head;
  std::memcpy(&head, bytes.data(), sizeof head);
  for (size_t i = 0; i < head.e_phnum; ++i) {
    Elf64_Phdr part;
    std::memcpy(&part, bytes.data() + head.e_phoff + i * sizeof part, sizeof part);
    EXPECT_NE(part.p_type, static_cast<uint32_t>(PT_INTERP));
  }
  EXPECT_EQ(bytes.find(".symtab"), std::string::npos);
  EXPECT_EQ(bytes.find(source_path("")), std::string::npos);  // nor paths of the machine
  EXPECT_LE(bytes.size(), 18'000'000u);
}

// From the start of the process, with the built-in example on every protocol, to the first answer.
TEST(StaticProgram, AnswersWithinThirtyMillisecondsOfItsStart) {
  std::vector<std::chrono::microseconds> took;
  for (int round = 0; round < 9; ++round) {
    const uint16_t port = free_port();
    std::vector<std::string> words{"serve", "--admin", "127.0.0.1:0", "--listen",
                                   "http=127.0.0.1:" + std::to_string(port)};
    for (const std::string& protocol : protocols)
      if (protocol != "http") {
        words.emplace_back("--listen");
        words.push_back(protocol + "=127.0.0.1:0");
      }
    const auto begin = std::chrono::steady_clock::now();
    Process server({.arguments = words}, program);
    std::optional<TcpClient> client;
    while (!(client = TcpClient::connect(port))) std::this_thread::sleep_for(Milliseconds(1));
    ASSERT_TRUE(client->send("GET /v1/health HTTP/1.1\r\nHost: localhost\r\n\r\n"));
    EXPECT_EQ(client->read_line(), "HTTP/1.1 200 OK\r");
    took.push_back(std::chrono::duration_cast<std::chrono::microseconds>(
        std::chrono::steady_clock::now() - begin));
  }
  std::ranges::sort(took);
  std::printf("static: first answer %.1f ms after the start, the median of %zu\n",
              static_cast<double>(took[took.size() / 2].count()) / 1e3, took.size());
  EXPECT_LT(took[took.size() / 2], promised(Milliseconds(30)));
}

// The words that serve every protocol.
std::vector<std::string> serve_all() {
  std::vector<std::string> words{"serve", "--admin", "127.0.0.1:0"};
  for (const std::string& protocol : protocols) {
    words.emplace_back("--listen");
    words.push_back(protocol + "=127.0.0.1:0");
  }
  return words;
}

std::map<std::string, uint16_t> ports_of(Process& server) {
  std::map<std::string, uint16_t> ports;
  for (const std::string& protocol : protocols) ports[protocol] = await_listening(server, protocol);
  return ports;
}

// As the image's user, as root, and as one that no system has.
TEST_F(Static, ServesEveryProtocolInAnEmptyRootThatIsReadOnlyAsAnyUser) {
  for (const std::string user : {"65532:65532", "0:0", "4000000001:4000000002"}) {
    SCOPED_TRACE(user);
    const auto server = root_.start_sealed(serve_all(), {}, {}, user);
    const auto ports = ports_of(*server);
    const uint16_t admin = await_listening(*server, "admin");
    expect_answers(ports, [this](const auto& words) { return root_.run(words).status; });
    EXPECT_EQ(root_.run({"health", "--admin", "127.0.0.1:" + std::to_string(admin)}).status, 0);
    EXPECT_EQ(sample(admin, "process_resident_memory_bytes"), "");
    server->signal(SIGTERM);
    EXPECT_EQ(server->wait(), 0);
  }
}

// Counters in a folder too, which they outlive.
TEST(StaticProgram, ServesEveryProtocolByTheSystemCallsOfLinux317) {
#if !defined(__x86_64__)
  GTEST_SKIP() << "the calls are told apart by the numbers that they have on amd64";
#endif
  const Folder folder;
  const auto run = [](std::vector<std::string> words) {
    words.insert(words.begin(), program);
    return std::make_unique<Process>(Process::Options{.arguments = std::move(words)},
                                     SLUICE_OLD_KERNEL);
  };
  std::vector<std::string> words = serve_all();
  words.insert(words.end(), {"--data", folder.path() + "/c"});
  for (const std::vector<int>& statuses : {std::vector{0, 0, 1}, std::vector{1}}) {
    const auto server = run(words);
    const auto ports = ports_of(*server);
    expect_answers(ports, [&](const auto& asked) { return run(asked)->wait().value_or(-1); });
    for (const int status : statuses) {
      const auto asked =
          run({"ask", "http", "--server", "127.0.0.1:" + std::to_string(ports.at("http")), "take",
               "--key", "k", "--limit", "2/1d"});
      EXPECT_EQ(asked->wait(), status) << asked->out() << asked->err();
    }
    server->signal(SIGTERM);
    EXPECT_EQ(server->wait(), 0);
  }
}

TEST_F(Static, KeepsCountersInTheOneFolderThatItMayWrite) {
  const std::string take = R"({"key": "k", "limits": [{"quota": 3, "window": "1h"}]})";
  const std::string type = "Content-Type: application/json\r\n";
  for (const char* left : {"\"remaining\": 2", "\"remaining\": 1"}) {
    const auto server = root_.start_sealed(
        {"serve", "--listen", "http=127.0.0.1:0", "--admin", "127.0.0.1:0", "--data", "/data/c"},
        {}, "/data");
    const uint16_t port = await_listening(*server, "http");
    const HttpAnswer answer = http(port, "POST", "/v1/take", take, type);
    EXPECT_NE(answer.body.find(left), std::string::npos) << answer.body;
    server->signal(SIGTERM);
    EXPECT_EQ(server->wait(), 0);
  }
}

// ---- Look-ups ----

TEST_F(Static, NamesAreThoseOfEtcHosts) {
  const auto server = root_.start({"http", "--port", "0", "--admin", "off"});
  const std::string port = std::to_string(await_listening(*server, "http"));
  EXPECT_EQ(root_.run({"ask", "http", "--server", "limits.example:" + port, "health"}).status, 3);
  root_.make("/etc", 0755);
  root_.write("/etc/hosts", "127.0.0.1 limits.example\n");
  const Finished found = root_.run({"ask", "http", "--server", "limits.example:" + port, "health"});
  EXPECT_EQ(found.status, 0) << found.err;
}

// ---- TLS ----

struct Secured {
  Folder folder;
  Authority authority{folder, "authority"};
  Authority::Files files = authority.sign("IP:127.0.0.1");
  uint16_t port = free_port();
  RedisServer redis{{"--tls-port", std::to_string(port), "--tls-cert-file", files.certificate,
                     "--tls-key-file", files.key, "--tls-auth-clients", "no"}};
};

// What a server answers whose counters are in that Redis, once it says so or cannot.
std::string first_line(const BareRoot& root, const Secured& secured) {
  const auto server =
      root.start({"serve", "--listen", "divvy=127.0.0.1:0", "--admin", "off", "--redis",
                  "127.0.0.1:" + std::to_string(secured.port), "--redis-tls"});
  const uint16_t port = await_listening(*server, "divvy");
  std::string answer;
  for (const Deadline end = soon(); left_ms(end) > 0 && answer.empty();) {
    answer = TcpClient::connect(port)->ask("HIT method=GET path=/pantry/cookies ip=10.0.0.7");
    if (answer.starts_with("ERR") &&
        server->err().find("127.0.0.1:" + std::to_string(secured.port) +
                           ": lost: its certificate is not trusted") == std::string::npos)
      answer.clear();
  }
  return answer;
}

TEST_F(Static, TrustsTheAuthoritiesWhereDistributionsKeepThem) {
  const Secured secured;
  const Authority other(secured.folder, "other");
  EXPECT_TRUE(first_line(root_, secured).starts_with("ERR"));
  for (const std::string bundle :
       {"/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt",
        "/etc/ssl/ca-bundle.pem", "/etc/ssl/cert.pem"}) {
    root_.make(fs::path(bundle).parent_path(), 0755);
    root_.write(bundle, all_of(other.certificate()));
    EXPECT_TRUE(first_line(root_, secured).starts_with("ERR")) << bundle << " of another authority";
    root_.write(bundle, all_of(secured.authority.certificate()));
    EXPECT_TRUE(first_line(root_, secured).starts_with("OK")) << bundle;
    fs::remove(root_.path() + bundle);
  }
}

// ---- Modules of the machine ----

// A root with what a module needs to be loaded, and the module at `at`.
void set_trap(const BareRoot& root, const std::string& at) {
  root.make(modules, 0755);
  for (const std::string file : {"/libc.so.6", "/ld-linux-x86-64.so.2"})
    fs::copy_file(modules + file, root.path() + modules + file);
  for (const char* folder : {"/etc", "/etc/ssl", "/usr/lib/ssl"}) root.make(folder, 0755);
  fs::copy_file(SLUICE_TRAP, root.path() + at);
}

class Trapped : public Static {
 protected:
  void SetUp() override {
    Static::SetUp();
#if !defined(__x86_64__)
    GTEST_SKIP() << "the traps are set where Debian's amd64 has its modules";
#endif
  }
  BareRoot careless_{SLUICE_CARELESS};
};

// The modules that other distributions name in /etc/nsswitch.conf are not loaded.
TEST_F(Trapped, NoModuleOfTheNameServiceIsLoaded) {
  for (const BareRoot* root : {&root_, &careless_}) {
    set_trap(*root, std::string(modules) + "/libnss_trap.so.2");
    root->write("/etc/nsswitch.conf", "hosts: trap files dns\n");
  }
  EXPECT_EQ(careless_.run({"name", "limits.example"}).status, 77);
  EXPECT_EQ(root_.run({"ask", "http", "--server", "limits.example:1", "health"}).status, 3);
}

TEST_F(Trapped, NoConfigurationOfOpenSslIsRead) {
  const Secured secured;
  for (const BareRoot* root : {&root_, &careless_}) {
    set_trap(*root, "/trap.so");
    root->write("/usr/lib/ssl/openssl.cnf",
                "openssl_conf = all\n[all]\nproviders = list\n[list]\ntrap = one\n[one]\nmodule = "
                "/trap.so\nactivate = 1\n");
  }
  EXPECT_EQ(careless_.run({"tls"}).status, 77);
  root_.write("/etc/ssl/cert.pem", all_of(secured.authority.certificate()));
  EXPECT_TRUE(first_line(root_, secured).starts_with("OK"));
}

}  // namespace
}  // namespace sluice::tests::static_test
