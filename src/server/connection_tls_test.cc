// Connections with TLS: a worker serves them over socket pairs.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <linux/sockios.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <future>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/bounds.h"
#include "base/machine.h"
#include "engine/worker_stats.h"
#include "net/tls.h"
#include "server/worker_world_test.h"
#include "testing/tls_peer.h"
#include "tests/support/patience.h"

namespace sluice::server::connection_tls_test {
namespace {

const tests::SelfSigned& certificate() {
  static const tests::SelfSigned made;
  return made;
}

std::shared_ptr<net::TlsContext> context() {
  static const std::shared_ptr<net::TlsContext> made =
      net::TlsContext::accepting(certificate().accepting().get());
  return made;
}

// The client's end of a connection.
class TlsClient {
 public:
  explicit TlsClient(int fd)
      : fd_(fd), peer_(tests::SelfSigned::connecting().get(), tests::TlsPeer::Side::connects) {
    peer_.take("");
  }

  // Sends what TLS has to send, and reads, until `done` or the end of the connection.
  template <class Done>
  bool until(Done&& done) {
    for (const auto deadline = tests::soon();;) {
      send();
      char room[4096];
      const ssize_t n = ::recv(fd_, room, sizeof room, 0);
      if (n > 0) {
        shaken_ = peer_.take({room, static_cast<size_t>(n)});
        heard_ += peer_.read();
        continue;
      }
      ended_ = n == 0 || errno != EAGAIN;
      if (done()) return true;
      if (ended_ || std::chrono::steady_clock::now() > deadline) return false;
      pollfd wanted{fd_, static_cast<short>(out_.empty() ? POLLIN : POLLIN | POLLOUT), 0};
      ::poll(&wanted, 1, 100);
    }
  }
  bool shake_hands() {
    return until([this] { return shaken_ && out_.empty(); });
  }
  bool until_lines(size_t count) {
    return until([&] { return lines() >= count; });
  }
  bool until_end() {
    return until([this] { return ended_; });
  }
  // Sends each text as a record of its own.
  void say(std::initializer_list<std::string_view> texts) {
    for (const std::string_view text : texts) peer_.write(text);
    send();
  }
  void say(std::string_view text) { say({text}); }
  void notify_end() {
    peer_.notify_end();
    send();
  }
  void send() {
    out_ += peer_.out();
    const ssize_t n = out_.empty() ? 0 : ::send(fd_, out_.data(), out_.size(), MSG_NOSIGNAL);
    if (n > 0) out_.erase(0, static_cast<size_t>(n));
  }

  size_t lines() const {
    return static_cast<size_t>(std::count(heard_.begin(), heard_.end(), '\n'));
  }
  const std::string& heard() const { return heard_; }
  bool was_told_the_end() const { return peer_.has_ended(); }
  int fd() const { return fd_; }

 private:
  const int fd_;
  tests::TlsPeer peer_;
  std::string out_, heard_;
  bool shaken_ = false, ended_ = false;
};

int client_of(World& world, const net::Timeouts& timeouts = {},
              std::optional<int> kernel_bytes = {}) {
  return world.client(timeouts, protocol::find("divvy").value(), kernel_bytes, context());
}

constexpr net::Timeouts brief{.request = base::milliseconds(500)};

// A client that finished its handshake within `brief`, even on a busy machine: it tries again.
std::unique_ptr<TlsClient> client_in_time(World& world) {
  const auto deadline = tests::soon();
  for (;;) {
    auto client = std::make_unique<TlsClient>(client_of(world, brief));
    if (client->shake_hands()) return client;
    if (std::chrono::steady_clock::now() > deadline) return client;
  }
}

// Requests that fit one record, and are more than the connection's buffer.
constexpr size_t many = 1'500;

std::string requests() {
  std::string text;
  for (size_t i = 0; i < many; ++i) text += "HIT ip=1\n";
  return text;
}

bool serves_nobody(const World& world) {
  for (const auto deadline = tests::soon(); std::chrono::steady_clock::now() < deadline;) {
    if (world.worker->connections() == 0) return true;
    std::this_thread::yield();
  }
  return false;
}

// The window moves on while a busy machine takes its time, so the seconds are not compared.
std::string last_line(TlsClient& client) {
  std::string heard(client.heard());
  if (heard.ends_with('\n')) heard.pop_back();
  return heard.substr(heard.rfind('\n') + 1);
}

// Half-open handshakes of one client: the oldest give way, so that a new one always comes through.
TEST(TlsConnection, TheOldestOfTooManyHandshakesGivesWay) {
  constexpr size_t more = 3, all = base::bounds::handshakes_of_client_max + more;
  base::raise_open_files();
  World w;
  w.start();
  std::vector<int> half_open;
  for (size_t i = 0; i < all; ++i) half_open.push_back(client_of(w));
  TlsClient client(client_of(w));
  ASSERT_TRUE(client.shake_hands());
  client.say("HIT ip=1\n");
  ASSERT_TRUE(client.until_lines(1));
  const auto has_ended = [](int fd) {
    char byte = 0;
    return ::recv(fd, &byte, 1, MSG_DONTWAIT) == 0;
  };
  for (size_t i = 0; i <= more; ++i) EXPECT_TRUE(has_ended(half_open[i])) << i;
  for (size_t i = more + 1; i < all; ++i) EXPECT_FALSE(has_ended(half_open[i])) << i;
  EXPECT_EQ(w.worker->connections(), all - more);
}

uint64_t number_of(const std::string& address) {
  sockaddr_storage its{};
  auto& ipv6 = reinterpret_cast<sockaddr_in6&>(its);
  auto& ipv4 = reinterpret_cast<sockaddr_in&>(its);
  if (::inet_pton(AF_INET6, address.c_str(), &ipv6.sin6_addr) == 1)
    its.ss_family = AF_INET6;
  else if (::inet_pton(AF_INET, address.c_str(), &ipv4.sin_addr) == 1)
    its.ss_family = AF_INET;
  else
    ADD_FAILURE() << address;
  ipv4.sin_port = static_cast<in_port_t>(address.size());
  return client_number(its);
}

// Whoever has an IPv6 network of 64 bits could use another address for each handshake.
TEST(TlsConnection, TheAddressesOfOneIpv6NetworkAreOneClient) {
  EXPECT_EQ(number_of("2001:db8:1:2::1"), number_of("2001:db8:1:2:ffff:ffff:ffff:ffff"));
  EXPECT_NE(number_of("2001:db8:1:2::1"), number_of("2001:db8:1:3::1"));
  EXPECT_EQ(number_of("192.0.2.1"), number_of("::ffff:192.0.2.1"));
  EXPECT_NE(number_of("192.0.2.1"), number_of("192.0.2.2"));
  EXPECT_NE(number_of("::ffff:192.0.2.1"), number_of("::ffff:192.0.2.2"));
}

// Bytes that were decrypted already raise no event: the connection must read on by itself.
TEST(TlsConnection, ARecordThatIsLargerThanTheBufferIsAnsweredToItsEnd) {
  World w;
  TlsClient client(client_of(w));
  w.start();
  ASSERT_TRUE(client.shake_hands());
  static_assert(many * 9 > 6 * Worker::small_buffer_bytes && many * 9 < 16'384);
  client.say(requests());
  ASSERT_TRUE(client.until_lines(many));
  EXPECT_TRUE(last_line(client).starts_with("OK true 99998500 "));
  client.say("HIT ip=1\n");
  ASSERT_TRUE(client.until_lines(many + 1));
  EXPECT_TRUE(last_line(client).starts_with("OK true 99998499 "));
  EXPECT_EQ(client.lines(), many + 1);
}

// A read returns one record, which is less than it has room for. No reply to the first one is read
// meanwhile, as that would be an event.
TEST(TlsConnection, RecordsThatArriveAtOnceAreAllAnswered) {
  constexpr size_t rounds = 20;
  World w;
  TlsClient client(client_of(w));
  w.start();
  ASSERT_TRUE(client.shake_hands());
  for (size_t i = 1; i <= rounds; ++i) {
    client.say({"HIT", " ip", "=1\n"});
    ASSERT_TRUE(client.until_lines(i));
  }
  EXPECT_TRUE(last_line(client).starts_with("OK true 99999980 "));
}

// Without the TLS end notice a third party may have cut the connection, so half a line is not
// answered.
TEST(TlsConnection, TheLastLineIsAnsweredIfTheClientAnnouncesItsEnd) {
  World w;
  w.start();
  for (const bool announced : {true, false}) {
    TlsClient client(client_of(w));
    ASSERT_TRUE(client.shake_hands());
    client.say("HIT ip=2\nHIT ip=2");
    ASSERT_TRUE(client.until_lines(1));
    if (announced) client.notify_end();
    ::shutdown(client.fd(), SHUT_WR);
    EXPECT_TRUE(client.until_end());
    EXPECT_EQ(client.lines(), announced ? 2u : 1u);
    EXPECT_EQ(client.was_told_the_end(), announced);
  }
  EXPECT_TRUE(serves_nobody(w));
}

TEST(TlsConnection, SendsUntakenRepliesWhenTheClientReadsAgain) {
  constexpr size_t records = 30;
  World w;
  TlsClient client(client_of(w, {}, 4'096));
  w.start();
  ASSERT_TRUE(client.shake_hands());
  for (size_t i = 0; i < records; ++i) client.say(requests());
  ASSERT_TRUE(client.until_lines(records * many));
  EXPECT_TRUE(last_line(client).starts_with("OK true 99955000 "));
}

TEST(TlsConnection, SendsTheReasonAndCloseNotifyToARefusedClient) {
  World w;
  w.start();
  const auto shaken = client_in_time(w);
  TlsClient& client = *shaken;
  client.say("HIT ip=");
  EXPECT_TRUE(client.until_end());
  EXPECT_NE(client.heard().find("the request did not arrive whole in time"), std::string::npos);
  EXPECT_TRUE(client.was_told_the_end());
}

TEST(TlsConnection, ClosesAnUnfinishedHandshakeAndKeepsAnIdleClient) {
  World w;
  w.start();
  const auto closed = [&] {
    return w.stats.at(protocol::find("divvy").value())
        .closed_for[static_cast<size_t>(engine::Closed::request_timeout)]
        .read();
  };
  const auto idle = client_in_time(w);
  const uint64_t before = closed();
  const int silent = client_of(w, brief), slow = client_of(w, brief);
  send(slow, std::string_view("\x16\x03\x01\x01", 4));  // the first bytes of a TLS record
  EXPECT_EQ(read_until(silent, "never"), "(end)");
  EXPECT_EQ(read_until(slow, "never"), "(end)");
  EXPECT_EQ(closed(), before + 2);
  idle->say("HIT ip=1\n");
  EXPECT_TRUE(idle->until_lines(1));
}

// The socket is full when the server answers the client's hello.
TEST(TlsConnection, AHandshakeContinuesWhenTheSocketHasRoom) {
  World w;
  w.start();
  int ends[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends), 0);
  w.clients.push_back(ends[1]);
  size_t junk = 0;
  const std::string bytes(4096, 'j');
  for (size_t size = bytes.size(); size > 0; size /= 2)
    for (ssize_t n = 0; (n = ::send(ends[0], bytes.data(), size, MSG_NOSIGNAL)) > 0;)
      junk += static_cast<size_t>(n);
  w.worker->adopt(ends[0], {protocol::find("divvy").value(), {}, context()}, "");
  TlsClient client(ends[1]);
  client.send();
  // When no bytes are on their way, the server has read the hello.
  int on_its_way = 1;
  for (const auto deadline = tests::soon();
       on_its_way > 0 && std::chrono::steady_clock::now() < deadline;)
    ASSERT_EQ(::ioctl(ends[1], SIOCOUTQ, &on_its_way), 0);
  char room[4096];
  while (junk > 0) {
    const ssize_t n = ::recv(ends[1], room, std::min(sizeof room, junk), 0);
    ASSERT_GT(n, 0);
    junk -= static_cast<size_t>(n);
  }
  ASSERT_TRUE(client.shake_hands());
  client.say("HIT ip=1\n");
  EXPECT_TRUE(client.until_lines(1));
}

TEST(TlsConnection, ClosesAConnectionWithoutAHandshake) {
  World w;
  const int client = client_of(w);
  w.start();
  send(client, "HIT ip=1\n");
  EXPECT_TRUE(read_until(client, "\n").ends_with("(end)"));
  EXPECT_TRUE(serves_nobody(w));
}

struct Stopping : World {
  void start() {
    started = true;
    worker->start([this] { ended.set_value(); });
  }
  bool has_ended() {
    return ended.get_future().wait_until(tests::soon()) == std::future_status::ready;
  }
  std::promise<void> ended;
};
constexpr std::chrono::hours long_time{1};

// The rest of the record is in OpenSSL's buffer then, not in the kernel's.
TEST(TlsConnection, AnswersReceivedRequestsWhenTheServerStops) {
  Stopping w;
  TlsClient client(client_of(w));
  w.store.at = 100;
  w.store.ask = [&w] { w.worker->stop(long_time); };
  w.start();
  ASSERT_TRUE(client.shake_hands());
  client.say(requests());
  EXPECT_TRUE(client.until_end());
  EXPECT_EQ(client.lines(), many);
  EXPECT_TRUE(client.was_told_the_end());
  EXPECT_TRUE(w.has_ended());
}

}  // namespace
}  // namespace sluice::server::connection_tls_test
