// Streams over socket pairs, plain and with TLS on either side. The far end is a socket and, with
// TLS, a session in memory, so that the test decides which bytes arrive when.
#include "net/stream.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <utility>

#include "testing/tls_peer.h"

namespace sluice::net::stream_test {
namespace {

using tests::SelfSigned;
using tests::TlsPeer;

enum class Kind { plain, accepting, connecting };

const SelfSigned& certificate() {
  static const SelfSigned made;
  return made;
}

// Trusts the given certificate alone.
std::unique_ptr<TlsContext> trusting(const SelfSigned& trusted) {
  std::string path = testing::TempDir() + "stream_test_XXXXXX";
  const int file = ::mkstemp(path.data());
  EXPECT_GE(file, 0);
  ::close(file);
  std::ofstream(path) << trusted.certificate();
  ::setenv("SSL_CERT_FILE", path.c_str(), 1);
  auto context = TlsContext::open();
  ::unsetenv("SSL_CERT_FILE");
  ::unlink(path.c_str());
  EXPECT_TRUE(context) << context.problem().text;
  return *std::move(context);
}

// A stream and its far end.
struct Pair {
  explicit Pair(Kind kind, const std::string& host = "localhost",
                const SelfSigned& trusted = certificate()) {
    int ends[2];
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    far = ends[1];
    ::fcntl(far, F_SETFL, O_NONBLOCK);
    if (kind == Kind::plain) {
      stream = Stream(ends[0]);
    } else if (kind == Kind::accepting) {
      context = TlsContext::accepting(certificate().accepting().get());
      stream = Stream::accepted(ends[0], context.get());
      peer.emplace(SelfSigned::connecting().get(), TlsPeer::Side::connects);
      peer->take("");
    } else {
      context = trusting(trusted);
      stream = Stream::connecting(ends[0], context.get(), host);
      peer.emplace(certificate().accepting().get(), TlsPeer::Side::accepts);
    }
  }
  ~Pair() { close_far(); }
  Pair(const Pair&) = delete;
  Pair& operator=(const Pair&) = delete;

  // Raw bytes at the far end's socket.
  void send(std::string_view raw) const {
    const ssize_t sent = raw.empty() ? 0 : ::send(far, raw.data(), raw.size(), MSG_NOSIGNAL);
    EXPECT_EQ(sent, static_cast<ssize_t>(raw.size()));
  }
  std::string receive(size_t most = SIZE_MAX) {
    std::string all;
    char room[4096];
    while (all.size() < most) {
      const ssize_t n = ::recv(far, room, std::min(sizeof room, most - all.size()), 0);
      if (n == 0) far_ended = true;
      if (n <= 0) break;
      all.append(room, static_cast<size_t>(n));
    }
    return all;
  }
  // The raw bytes that the far end must send for the stream to read `text`.
  std::string raw_of(std::string_view text) {
    if (!peer) return std::string(text);
    peer->write(text);
    return peer->out();
  }
  // What the stream has sent.
  std::string heard() {
    std::string raw = receive();
    if (!peer) return raw;
    peer->take(raw);
    return peer->read();
  }
  void shake_hands() {
    if (!peer) return;
    for (int i = 0; i < 10 && (stream.is_handshaking() || !shaken); ++i) {
      char room[1];
      EXPECT_EQ(stream.read(room, 1), -1);
      EXPECT_EQ(errno, EAGAIN) << stream.problem(errno);
      shaken = peer->take(receive());
      send(peer->out());
    }
    char room[1];
    EXPECT_EQ(stream.read(room, 1), -1);  // TLS session tickets
    EXPECT_EQ(errno, EAGAIN);
    heard();
    EXPECT_TRUE(shaken);
    EXPECT_FALSE(stream.is_handshaking());
  }
  // Fills the stream's socket without the stream's knowledge. Returns how many bytes the far end
  // must discard.
  size_t fill() const {
    const std::string junk(4096, 'j');
    size_t all = 0;
    for (size_t size = junk.size(); size > 0; size /= 2)
      for (ssize_t n = 0; (n = ::send(stream.fd(), junk.data(), size, MSG_DONTWAIT)) > 0;)
        all += static_cast<size_t>(n);
    return all;
  }
  void close_far() {
    if (far >= 0) ::close(std::exchange(far, -1));
  }

  std::unique_ptr<TlsContext> context;
  Stream stream;
  int far = -1;
  bool far_ended = false, shaken = false;
  std::optional<TlsPeer> peer;
};

// Reads until a read would block, as an edge-triggered caller does. Appends "(end)" or "(error)".
std::string read_all(Stream& stream, size_t room = 64) {
  std::string all, bytes(room, '\0');
  for (;;) {
    const ssize_t n = stream.read(bytes.data(), room);
    if (n == 0) return all + "(end)";
    if (n < 0) return errno == EAGAIN ? all : all + "(error)";
    all.append(bytes, 0, static_cast<size_t>(n));
    if (!stream.may_have_more(static_cast<size_t>(n), room)) return all;
  }
}

bool is_readable(int fd) {
  pollfd one{fd, POLLIN, 0};
  return ::poll(&one, 1, 0) == 1;
}

class Streams : public testing::TestWithParam<Kind> {};
INSTANTIATE_TEST_SUITE_P(Kinds, Streams,
                         testing::Values(Kind::plain, Kind::accepting, Kind::connecting));
class TlsStreams : public testing::TestWithParam<Kind> {};
INSTANTIATE_TEST_SUITE_P(Kinds, TlsStreams, testing::Values(Kind::accepting, Kind::connecting));

TEST_P(Streams, AMessageArrivesWhereverItIsSplit) {
  Pair pair(GetParam());
  pair.shake_hands();
  const std::string text = "a message of some bytes";
  size_t size = pair.peer ? SIZE_MAX : text.size();  // how many raw bytes, once known
  for (size_t split = 0; size == SIZE_MAX || split <= size; ++split) {
    const std::string raw = pair.raw_of(text);
    size = raw.size();
    pair.send(std::string_view(raw).substr(0, split));
    std::string got = read_all(pair.stream);
    EXPECT_TRUE(got.empty() || !pair.peer || split == size);
    pair.send(std::string_view(raw).substr(split));
    got += read_all(pair.stream);
    EXPECT_EQ(got, text) << split;
  }
}

TEST_P(TlsStreams, TheHandshakeArrivesByteByByte) {
  Pair pair(GetParam());
  char room[1];
  for (int i = 0; i < 10 && (pair.stream.is_handshaking() || !pair.shaken); ++i) {
    for (const char byte : pair.peer->out()) {
      EXPECT_EQ(pair.stream.read(room, 1), -1);
      EXPECT_EQ(errno, EAGAIN);
      pair.send({&byte, 1});
    }
    EXPECT_EQ(pair.stream.read(room, 1), -1);
    pair.shaken = pair.peer->take(pair.receive());
  }
  EXPECT_TRUE(pair.shaken);
  pair.send(pair.raw_of("text"));
  EXPECT_EQ(read_all(pair.stream), "text");
}

TEST(Stream, AShortPlainReadHasEmptiedTheSocket) {
  Pair pair(Kind::plain);
  pair.send("0123456789");
  EXPECT_EQ(pair.stream.unread_bytes(), 10u);
  char room[16];
  EXPECT_EQ(pair.stream.read(room, 4), 4);
  EXPECT_TRUE(pair.stream.may_have_more(4, 4));
  EXPECT_EQ(pair.stream.unread_bytes(), 6u);
  EXPECT_EQ(pair.stream.read(room, 16), 6);
  EXPECT_FALSE(pair.stream.may_have_more(6, 16));
  EXPECT_FALSE(pair.stream.has_pending());
  EXPECT_EQ(pair.stream.read(room, 16), -1);
  EXPECT_EQ(errno, EAGAIN);
}

TEST_P(TlsStreams, ReportsDecryptedBytesThatRaiseNoEvent) {
  Pair pair(GetParam());
  pair.shake_hands();
  pair.send(pair.raw_of(std::string(10'000, 'a')));
  char room[100];
  EXPECT_EQ(pair.stream.read(room, sizeof room), 100);
  EXPECT_FALSE(is_readable(pair.stream.fd()));
  EXPECT_TRUE(pair.stream.has_pending());
  EXPECT_EQ(pair.stream.unread_bytes(), 9'900u);
  EXPECT_TRUE(pair.stream.may_have_more(100, sizeof room));
  EXPECT_EQ(read_all(pair.stream), std::string(9'900, 'a'));
  EXPECT_FALSE(pair.stream.has_pending());
  EXPECT_EQ(pair.stream.unread_bytes(), 0u);
}

TEST_P(TlsStreams, AReadReturnsTheRecordsThatHaveArrived) {
  Pair pair(GetParam());
  pair.shake_hands();
  pair.send(pair.raw_of("first"));
  pair.send(pair.raw_of("second"));
  char room[100];
  EXPECT_EQ(pair.stream.read(room, sizeof room), 11);
  EXPECT_EQ(std::string_view(room, 11), "firstsecond");
  EXPECT_FALSE(pair.stream.has_pending());
  EXPECT_EQ(pair.stream.unread_bytes(), 0u);
  EXPECT_FALSE(pair.stream.may_have_more(11, sizeof room));
  EXPECT_EQ(pair.stream.read(room, sizeof room), -1);
  EXPECT_EQ(errno, EAGAIN);
}

TEST_P(TlsStreams, AReadKeepsTheRecordsThatItHasNoRoomFor) {
  Pair pair(GetParam());
  pair.shake_hands();
  pair.send(pair.raw_of("first"));
  pair.send(pair.raw_of("second"));
  char room[100];
  EXPECT_EQ(pair.stream.read(room, 5), 5);
  EXPECT_FALSE(is_readable(pair.stream.fd()));
  EXPECT_TRUE(pair.stream.has_pending());
  EXPECT_GE(pair.stream.unread_bytes(), 6u);
  EXPECT_TRUE(pair.stream.may_have_more(5, 5));
  EXPECT_EQ(pair.stream.read(room, sizeof room), 6);
  EXPECT_EQ(std::string_view(room, 6), "second");
  EXPECT_EQ(pair.stream.read(room, sizeof room), -1);
  EXPECT_EQ(errno, EAGAIN);
}

// Records, pieces and rooms of random sizes, in both directions. Where may_have_more says no, the
// next read finds nothing.
TEST_P(TlsStreams, NothingIsLostOrOverlooked) {
  std::mt19937 random(7);
  const auto below = [&](size_t bound) { return random() % bound; };
  for (int round = 0; round < 40; ++round) {
    Pair pair(GetParam());
    pair.shake_hands();
    std::string sent, raw, got, room(1 + below(round % 2 == 0 ? 40 : 20'000), '\0');
    for (int i = 0; i < 12; ++i) {
      const std::string text(1 + below(below(4) == 0 ? 15'000 : 60),
                             static_cast<char>('a' + below(26)));
      sent += text;
      raw += pair.raw_of(text);
    }
    const auto read = [&] {
      for (;;) {
        const ssize_t n = pair.stream.read(room.data(), room.size());
        if (n < 0) {
          ASSERT_EQ(errno, EAGAIN);
          return;
        }
        ASSERT_GT(n, 0);
        got.append(room, 0, static_cast<size_t>(n));
        if (pair.stream.may_have_more(static_cast<size_t>(n), room.size())) continue;
        ASSERT_EQ(pair.stream.read(room.data(), room.size()), -1);
        ASSERT_EQ(errno, EAGAIN);
        return;
      }
    };
    for (size_t at = 0; at < raw.size();) {
      const size_t piece = std::min(raw.size() - at, 1 + below(below(2) == 0 ? 30 : 30'000));
      pair.send(std::string_view(raw).substr(at, piece));
      at += piece;
      ASSERT_NO_FATAL_FAILURE(read());
      if (below(8) == 0) {
        ASSERT_EQ(pair.stream.write("reply"), 5);
        ASSERT_EQ(pair.heard(), "reply");
      }
    }
    ASSERT_EQ(got, sent);
    pair.close_far();
    ASSERT_EQ(read_all(pair.stream), "(error)");
    ASSERT_EQ(pair.stream.fault(), TlsFault::truncated);
  }
}

TEST_P(Streams, AnAnnouncedEndLeavesTheOtherDirectionOpen) {
  Pair pair(GetParam());
  pair.shake_hands();
  std::string raw = pair.raw_of("last");
  if (pair.peer) {
    pair.peer->notify_end();
    raw += pair.peer->out();
  }
  pair.send(raw);
  ::shutdown(pair.far, SHUT_WR);
  EXPECT_EQ(read_all(pair.stream, 4), "last(end)");
  EXPECT_EQ(read_all(pair.stream, 4), "(end)");
  EXPECT_EQ(pair.stream.fault(), TlsFault::none);
  EXPECT_EQ(pair.stream.write("reply"), 5);
  EXPECT_EQ(pair.heard(), "reply");
}

TEST_P(TlsStreams, AnEndThatIsNotAnnouncedIsATruncation) {
  for (const size_t missing : {size_t{0}, size_t{1}}) {  // bytes of the last record
    Pair pair(GetParam());
    pair.shake_hands();
    std::string raw = pair.raw_of("first");
    raw += pair.raw_of("last");
    pair.send(std::string_view(raw).substr(0, raw.size() - missing));
    ::shutdown(pair.far, SHUT_WR);
    EXPECT_EQ(read_all(pair.stream), missing == 0 ? "firstlast" : "first");
    EXPECT_EQ(read_all(pair.stream), "(error)");
    EXPECT_EQ(errno, EPROTO);
    EXPECT_EQ(pair.stream.fault(), TlsFault::truncated);
    EXPECT_EQ(pair.stream.problem(EPROTO), "it closed the connection");
    EXPECT_EQ(pair.stream.write("x"), -1);
    EXPECT_EQ(errno, EPROTO);
  }
}

TEST_P(TlsStreams, AHandshakeThatIsCutOffIsATruncation) {
  Pair pair(GetParam());
  ::shutdown(pair.far, SHUT_WR);
  EXPECT_EQ(read_all(pair.stream), "(error)");
  EXPECT_EQ(pair.stream.fault(), TlsFault::truncated);
}

TEST_P(Streams, AWriteContinuesWhereTheSocketStoppedWithMovedBytes) {
  Pair pair(GetParam());
  pair.shake_hands();
  std::string text;
  for (int i = 0; text.size() < 4'000'000; ++i) text += std::to_string(i) + " ";
  std::string heard;
  size_t at = 0, blocked = 0, parts = 0;
  while (at < text.size()) {
    const std::string moved = text.substr(at);
    const ssize_t n = pair.stream.write(moved);
    if (n > 0) {
      parts += static_cast<size_t>(n) < moved.size();
      at += static_cast<size_t>(n);
      continue;
    }
    ASSERT_EQ(errno, EAGAIN) << pair.stream.problem(errno);
    EXPECT_FALSE(pair.stream.write_wants_read());
    ++blocked;
    heard += pair.heard();
  }
  heard += pair.heard();
  EXPECT_GT(blocked, 0u);
  EXPECT_GT(parts, 0u);
  EXPECT_TRUE(heard == text);
}

TEST_P(TlsStreams, AWriteBeforeTheHandshakeWaitsForReading) {
  Pair pair(GetParam());
  EXPECT_EQ(pair.stream.write("early"), -1);
  EXPECT_EQ(errno, EAGAIN);
  EXPECT_TRUE(pair.stream.write_wants_read());
  EXPECT_TRUE(pair.stream.is_handshaking());
  ssize_t written = -1;
  for (int i = 0; i < 10 && written < 0; ++i) {
    pair.peer->take(pair.receive());
    pair.send(pair.peer->out());
    written = pair.stream.write("early");
  }
  EXPECT_EQ(written, 5);
  EXPECT_FALSE(pair.stream.write_wants_read());
  EXPECT_EQ(pair.heard(), "early");
}

TEST_P(TlsStreams, AReadThatHasToAnswerTheHandshakeWaitsForWriting) {
  Pair pair(GetParam());
  const size_t junk = pair.fill();
  pair.send(pair.peer->out());
  char room[1];
  EXPECT_EQ(pair.stream.read(room, 1), -1);
  EXPECT_EQ(errno, EAGAIN);
  EXPECT_TRUE(pair.stream.read_wants_write());
  EXPECT_EQ(pair.receive(junk).size(), junk);
  EXPECT_EQ(pair.stream.read(room, 1), -1);
  EXPECT_EQ(errno, EAGAIN);
  EXPECT_FALSE(pair.stream.read_wants_write());
  pair.shake_hands();
  pair.send(pair.raw_of("text"));
  EXPECT_EQ(read_all(pair.stream), "text");
}

TEST_P(TlsStreams, BytesThatAreNotAHandshakeAreALastingFault) {
  Pair pair(GetParam());
  EXPECT_EQ(read_all(pair.stream), "");
  pair.send("HIT method=GET ip=10.0.0.7\n");
  EXPECT_EQ(read_all(pair.stream), "(error)");
  EXPECT_EQ(errno, EPROTO);
  EXPECT_EQ(pair.stream.fault(), TlsFault::other);
  EXPECT_TRUE(pair.stream.problem(EPROTO).starts_with("TLS: ")) << pair.stream.problem(EPROTO);
  EXPECT_FALSE(pair.stream.is_handshaking());
  EXPECT_EQ(pair.stream.write("x"), -1);
  EXPECT_EQ(errno, EPROTO);
  EXPECT_EQ(read_all(pair.stream), "(error)");
}

TEST_P(TlsStreams, ARecordThatWasChangedOnTheWayIsAFault) {
  Pair pair(GetParam());
  pair.shake_hands();
  std::string raw = pair.raw_of("text");
  raw.back() = static_cast<char>(raw.back() ^ 1);
  pair.send(raw);
  EXPECT_EQ(read_all(pair.stream), "(error)");
  EXPECT_EQ(pair.stream.fault(), TlsFault::other);
}

TEST(Stream, AnotherHostsCertificateIsAFault) {
  Pair pair(Kind::connecting, "elsewhere.example");
  EXPECT_EQ(read_all(pair.stream), "");
  pair.peer->take(pair.receive());
  pair.send(pair.peer->out());
  EXPECT_EQ(read_all(pair.stream), "(error)");
  EXPECT_EQ(pair.stream.fault(), TlsFault::wrong_host);
  EXPECT_EQ(pair.stream.problem(EPROTO),
            "its certificate is not for elsewhere.example (it is for localhost, and by localhost)");
}

TEST(Stream, AnUntrustedCertificateIsAFault) {
  const SelfSigned other;
  Pair pair(Kind::connecting, "localhost", other);
  EXPECT_EQ(read_all(pair.stream), "");
  pair.peer->take(pair.receive());
  pair.send(pair.peer->out());
  EXPECT_EQ(read_all(pair.stream), "(error)");
  EXPECT_EQ(pair.stream.fault(), TlsFault::untrusted);
  EXPECT_TRUE(pair.stream.problem(EPROTO).starts_with("its certificate is not trusted: "));
}

// No SIGPIPE is raised, which would end this program.
TEST_P(Streams, AWriteToAPeerThatHasGoneIsAnError) {
  for (const bool announced : {false, true}) {
    Pair pair(GetParam());
    pair.shake_hands();
    if (pair.peer && announced) {
      pair.peer->notify_end();
      pair.send(pair.peer->out());
      EXPECT_EQ(read_all(pair.stream), "(end)");
    }
    pair.close_far();
    EXPECT_EQ(pair.stream.write("x"), -1);
    EXPECT_EQ(errno, EPIPE);
    EXPECT_EQ(pair.stream.problem(EPIPE), "Broken pipe");
    EXPECT_EQ(pair.stream.fault(), TlsFault::none);
  }
}

TEST_P(Streams, AnErrorOfTheSocketKeepsItsNumber) {
  Pair pair(GetParam());
  pair.shake_hands();
  EXPECT_EQ(pair.stream.write("what the far end does not read"), 30);
  pair.close_far();
  EXPECT_EQ(read_all(pair.stream), "(error)");
  EXPECT_EQ(errno, ECONNRESET);
  EXPECT_EQ(pair.stream.fault(), TlsFault::none);
}

TEST_P(Streams, EndAnnouncesTheEndAndReadingContinues) {
  Pair pair(GetParam());
  pair.shake_hands();
  EXPECT_EQ(pair.stream.write("bye"), 3);
  EXPECT_TRUE(pair.stream.end());
  EXPECT_TRUE(pair.stream.end());
  EXPECT_EQ(pair.heard(), "bye");
  EXPECT_TRUE(pair.far_ended);
  EXPECT_TRUE(!pair.peer || pair.peer->has_ended());
  pair.send(pair.raw_of("more"));
  EXPECT_EQ(read_all(pair.stream), "more");
}

TEST_P(TlsStreams, AnEndIsAnnouncedOnceTheSocketTakesIt) {
  Pair pair(GetParam());
  pair.shake_hands();
  const size_t junk = pair.fill();
  EXPECT_FALSE(pair.stream.end());
  EXPECT_FALSE(pair.stream.end());
  EXPECT_EQ(pair.receive(junk).size(), junk);
  EXPECT_FALSE(pair.far_ended);
  EXPECT_TRUE(pair.stream.end());
  EXPECT_EQ(pair.heard(), "");
  EXPECT_TRUE(pair.peer->has_ended());
  EXPECT_TRUE(pair.far_ended);
}

TEST_P(TlsStreams, NotifyEndLeavesTheSocketOpenAndEndsNoHandshake) {
  Pair early(GetParam());
  EXPECT_TRUE(early.stream.notify_end());
  early.shake_hands();
  EXPECT_TRUE(early.stream.notify_end());
  EXPECT_EQ(early.heard(), "");
  EXPECT_TRUE(early.peer->has_ended());
  EXPECT_FALSE(early.far_ended);
}

TEST_P(Streams, CloseDoesNotAnnounceTheEnd) {
  Pair pair(GetParam());
  pair.shake_hands();
  pair.stream.close();
  EXPECT_FALSE(pair.stream.is_open());
  EXPECT_EQ(pair.heard(), "");
  EXPECT_TRUE(pair.far_ended);
  EXPECT_FALSE(pair.peer && pair.peer->has_ended());
}

TEST_P(Streams, DiscardReadsRawBytesWithoutTls) {
  Pair pair(GetParam());
  pair.shake_hands();
  const std::string raw = pair.raw_of("thrown away");
  pair.send(raw);
  ::shutdown(pair.far, SHUT_WR);
  char room[256];
  EXPECT_EQ(pair.stream.discard(room, sizeof room), static_cast<ssize_t>(raw.size()));
  EXPECT_EQ(pair.stream.discard(room, sizeof room), 0);
}

TEST_P(Streams, AMovedStreamKeepsWorking) {
  Pair pair(GetParam());
  pair.shake_hands();
  Stream moved(std::move(pair.stream));
  EXPECT_FALSE(pair.stream.is_open());
  pair.send(pair.raw_of("text"));
  EXPECT_EQ(read_all(moved), "text");
  pair.stream = std::move(moved);
  pair.send(pair.raw_of("more"));
  EXPECT_EQ(read_all(pair.stream), "more");
  pair.stream = Stream();
  pair.receive();
  EXPECT_TRUE(pair.far_ended);
}

}  // namespace
}  // namespace sluice::net::stream_test
