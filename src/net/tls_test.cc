// The accepting side of TLS: its files, when they change, and what it asks of clients.
#include "net/tls.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>

#include "net/stream.h"
#include "testing/tls_peer.h"

namespace sluice::net::tls_test {
namespace {

using tests::SelfSigned;
using tests::TlsPeer;
using Look = ListenerTls::Look;

constexpr std::string_view alpn = "\x02h2\x08http/1.1";

struct Folder {
  Folder() { EXPECT_NE(::mkdtemp(path.data()), nullptr); }
  ~Folder() { std::filesystem::remove_all(path); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;

  // Puts the file in place as a whole.
  std::string put(const std::string& name, const std::string& text) const {
    std::ofstream(path + "/new") << text;
    std::filesystem::rename(path + "/new", path + '/' + name);
    return path + '/' + name;
  }
  std::string path = testing::TempDir() + "tls_test_XXXXXX";
};

struct World {
  explicit World(TlsServer its = {}, const SelfSigned& own = SelfSigned())
      : settings(std::move(its)) {
    settings.certificate = folder.put("tls.crt", own.certificate());
    settings.key = folder.put("tls.key", own.key());
    auto opened = ListenerTls::open(settings, alpn);
    EXPECT_TRUE(opened) << opened.problem().text;
    if (opened) tls = *std::move(opened);
  }

  Folder folder;
  TlsServer settings;
  std::shared_ptr<ListenerTls> tls;
};

// A client's connection, from its handshake on.
struct Client {
  explicit Client(const std::shared_ptr<TlsContext>& context, SSL_CTX* shown,
                  std::string_view protocols = {})
      : peer((protocols.empty()
                  ? 0
                  : SSL_CTX_set_alpn_protos(
                        shown, reinterpret_cast<const unsigned char*>(protocols.data()),
                        static_cast<unsigned>(protocols.size())),
              shown),
             TlsPeer::Side::connects) {
    int ends[2];
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    far = ends[1];
    ::fcntl(far, F_SETFL, O_NONBLOCK);
    stream = Stream::accepted(ends[0], context.get());
    peer.take("");
    shake_hands();
  }
  ~Client() { ::close(far); }
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  void shake_hands() {
    for (int i = 0; i < 10; ++i) {
      exchange();
      if (!failed && !stream.is_handshaking() && i > 2) return;
    }
  }
  void exchange() {
    const std::string out = peer.out();
    if (!out.empty()) ::send(far, out.data(), out.size(), MSG_NOSIGNAL);
    char room[4096];
    const ssize_t n = stream.read(room, sizeof room);
    if (n > 0) heard.append(room, static_cast<size_t>(n));
    if (n < 0 && errno != EAGAIN) {
      failed = true;
      problem = stream.problem(errno);
    }
    while (true) {
      const ssize_t got = ::recv(far, room, sizeof room, 0);
      if (got <= 0) break;
      done = peer.take({room, static_cast<size_t>(got)});
    }
  }
  // What the server gets of a text that the client sends.
  std::string say(std::string_view text) {
    peer.write(text);
    exchange();
    return heard;
  }

  TlsPeer peer;
  Stream stream;
  int far = -1;
  bool failed = false, done = false;
  std::string problem, heard;
};

TEST(ListenerTls, AnExchangedPairServesTheConnectionsThatComeLater) {
  const SelfSigned first, second;
  World world({}, first);
  EXPECT_EQ(world.tls->look(), Look::same);
  const auto plain = SelfSigned::connecting();
  Client before(world.tls->context(), plain.get());
  EXPECT_EQ(before.peer.certificate(), first.certificate());
  world.folder.put("tls.crt", second.certificate());
  world.folder.put("tls.key", second.key());
  EXPECT_EQ(world.tls->look(), Look::exchanged);
  EXPECT_EQ(world.tls->look(), Look::same);
  Client after(world.tls->context(), plain.get());
  EXPECT_EQ(after.peer.certificate(), second.certificate());
  EXPECT_EQ(before.say("still here"), "still here");
  EXPECT_GT(world.tls->context()->expires(), ::time(nullptr) + 80'000);
}

// Between the two files of a pair there is a moment in which they do not fit.
TEST(ListenerTls, APairThatIsHalfWrittenIsNoFault) {
  const SelfSigned first, second;
  World world({}, first);
  world.folder.put("tls.crt", second.certificate());
  EXPECT_EQ(world.tls->look(), Look::same);
  EXPECT_EQ(world.tls->problem(), "");
  world.folder.put("tls.key", second.key());
  EXPECT_EQ(world.tls->look(), Look::exchanged);
  // Nor when the same half lies there another time.
  world.folder.put("tls.crt", first.certificate());
  world.folder.put("tls.key", first.key());
  EXPECT_EQ(world.tls->look(), Look::exchanged);
  world.folder.put("tls.crt", second.certificate());
  EXPECT_EQ(world.tls->look(), Look::same);
  EXPECT_EQ(world.tls->problem(), "");
}

TEST(ListenerTls, FilesThatCannotBeUsedAreRefusedOnceAndTheOldPairStays) {
  const SelfSigned first, second;
  World world({}, first);
  world.folder.put("tls.crt", second.certificate());
  EXPECT_EQ(world.tls->look(), Look::same);
  EXPECT_EQ(world.tls->look(), Look::refused);
  EXPECT_NE(world.tls->problem().find("is not that of the certificate"), std::string::npos);
  EXPECT_EQ(world.tls->look(), Look::same);
  EXPECT_NE(world.tls->problem(), "");
  const auto plain = SelfSigned::connecting();
  EXPECT_EQ(Client(world.tls->context(), plain.get()).peer.certificate(), first.certificate());
  // A file that is gone is another fault, which is told as well.
  std::filesystem::remove(world.settings.key);
  EXPECT_EQ(world.tls->look(), Look::same);
  EXPECT_EQ(world.tls->look(), Look::refused);
  EXPECT_NE(world.tls->problem().find("No such file"), std::string::npos) << world.tls->problem();
  // Back as they were.
  world.folder.put("tls.crt", first.certificate());
  world.folder.put("tls.key", first.key());
  EXPECT_EQ(world.tls->look(), Look::same);
  EXPECT_EQ(world.tls->problem(), "");
}

TEST(ListenerTls, AtTheStartEachFileThatCannotBeUsedIsNamed) {
  const SelfSigned own, other;
  const Folder folder;
  TlsServer settings{.certificate = folder.put("a.crt", own.certificate()),
                     .key = folder.put("a.key", own.key())};
  const auto problem_of = [](const TlsServer& wrong) {
    const auto opened = ListenerTls::open(wrong, alpn);
    return opened ? std::string("none") : opened.problem().text;
  };
  EXPECT_EQ(problem_of(settings), "none");
  TlsServer wrong = settings;
  wrong.certificate = folder.path + "/missing";
  EXPECT_NE(problem_of(wrong).find(wrong.certificate + " cannot be used: No such file"),
            std::string::npos)
      << problem_of(wrong);
  wrong = settings;
  wrong.certificate = folder.put("b.crt", "no certificate");
  EXPECT_NE(problem_of(wrong).find("there is none in PEM in it"), std::string::npos)
      << problem_of(wrong);
  wrong = settings;
  wrong.key = folder.put("b.key", other.key());
  EXPECT_EQ(problem_of(wrong),
            "the key " + wrong.key + " is not that of the certificate " + settings.certificate);
  // OpenSSL itself takes a key of another kind, beside the certificate.
  const SelfSigned rsa("DNS:localhost", SelfSigned::Kind::rsa);
  wrong.key = folder.put("rsa.key", rsa.key());
  EXPECT_EQ(problem_of(wrong),
            "the key " + wrong.key + " is not that of the certificate " + settings.certificate);
  EXPECT_EQ(problem_of({.certificate = folder.put("rsa.crt", rsa.certificate()), .key = wrong.key}),
            "none");
  // It must not ask a terminal for the passphrase.
  wrong.key = folder.put("c.key", own.key("word"));
  EXPECT_NE(problem_of(wrong).find(wrong.key + " cannot be used"), std::string::npos);
  wrong = settings;
  wrong.client = TlsServer::Client::require;
  wrong.client_ca = folder.put("ca.crt", "");
  EXPECT_NE(problem_of(wrong).find("the authorities in " + wrong.client_ca), std::string::npos);
}

TEST(ListenerTls, AClientMustShowACertificateThatIsTrusted) {
  const SelfSigned known("DNS:app.example,URI:spiffe://cluster/app"), unknown;
  World world;
  TlsServer settings = world.settings;
  settings.client_ca = world.folder.put("ca.crt", known.certificate());
  settings.client = TlsServer::Client::require;
  auto opened = ListenerTls::open(settings, alpn);
  ASSERT_TRUE(opened) << opened.problem().text;
  const auto plain = SelfSigned::connecting(), trusted = known.connecting_with(),
             other = unknown.connecting_with();
  Client good((*opened)->context(), trusted.get());
  EXPECT_FALSE(good.failed) << good.problem;
  EXPECT_EQ(good.say("hello"), "hello");
  EXPECT_EQ(good.stream.peer_name(), "spiffe://cluster/app");
  Client none((*opened)->context(), plain.get());
  EXPECT_TRUE(none.failed);
  Client bad((*opened)->context(), other.get());
  EXPECT_TRUE(bad.failed);
  EXPECT_NE(bad.problem.find("is not trusted"), std::string::npos) << bad.problem;
  EXPECT_NE(bad.problem.find("it is for localhost, and by localhost"), std::string::npos)
      << bad.problem;
  // Asked for, but not required: none is fine, one that is not trusted is not.
  settings.client = TlsServer::Client::request;
  opened = ListenerTls::open(settings, alpn);
  Client without((*opened)->context(), plain.get());
  EXPECT_FALSE(without.failed) << without.problem;
  EXPECT_EQ(without.stream.peer_name(), "");
  EXPECT_TRUE(Client((*opened)->context(), other.get()).failed);
}

TEST(ListenerTls, AClientsCertificateMustHaveOneOfTheNames) {
  const SelfSigned client("DNS:*.example,URI:spiffe://cluster/app");
  World world;
  TlsServer settings = world.settings;
  settings.client_ca = world.folder.put("ca.crt", client.certificate());
  settings.client = TlsServer::Client::require;
  const auto shown = client.connecting_with();
  const auto is_served = [&](std::vector<std::string> names) {
    settings.names = std::move(names);
    const auto opened = ListenerTls::open(settings, alpn);
    return !Client((*opened)->context(), shown.get()).failed;
  };
  EXPECT_TRUE(is_served({}));
  EXPECT_TRUE(is_served({"other", "app.example"}));
  EXPECT_TRUE(is_served({"spiffe://cluster/app"}));
  EXPECT_TRUE(is_served({"APP.Example"}));
  EXPECT_FALSE(is_served({"a.app.example"}));
  EXPECT_FALSE(is_served({".example"}));
  EXPECT_FALSE(is_served({"spiffe://cluster/app2", "localhost", "example"}));
}

TEST(ListenerTls, ChoosesWhatItPrefersOfWhatTheClientOffers) {
  World world;
  const auto chosen = [&](std::string_view offered) {
    const auto shown = SelfSigned::connecting();
    Client client(world.tls->context(), shown.get(), offered);
    EXPECT_FALSE(client.failed) << client.problem;
    return client.peer.alpn();
  };
  EXPECT_EQ(chosen("\x08http/1.1\x02h2"), "h2");
  EXPECT_EQ(chosen("\x08http/1.1"), "http/1.1");
  EXPECT_EQ(chosen("\x03foo"), "");
  EXPECT_EQ(chosen(""), "");
}

TEST(ListenerTls, SpeaksNoVersionBelowTheLeast) {
  World world;
  TlsServer settings = world.settings;
  const auto is_served = [&](int version) {
    const auto opened = ListenerTls::open(settings, alpn);
    const auto shown = SelfSigned::connecting();
    SSL_CTX_set_security_level(shown.get(), 0);
    SSL_CTX_set_min_proto_version(shown.get(), version);
    SSL_CTX_set_max_proto_version(shown.get(), version);
    Client client((*opened)->context(), shown.get());
    return !client.failed && client.done;
  };
  EXPECT_FALSE(is_served(TLS1_1_VERSION));
  EXPECT_TRUE(is_served(TLS1_2_VERSION));
  EXPECT_TRUE(is_served(TLS1_3_VERSION));
  settings.only_1_3 = true;
  EXPECT_FALSE(is_served(TLS1_2_VERSION));
  EXPECT_TRUE(is_served(TLS1_3_VERSION));
}

}  // namespace
}  // namespace sluice::net::tls_test
