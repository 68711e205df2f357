// A worker over socket pairs: turns, gathered output, timeouts and bounds of memory. Fairness is
// counted in requests that are decided before another one, not in time.
#include "server/worker.h"

#include <gtest/gtest.h>
#include <linux/sockios.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <future>
#include <string>
#include <thread>
#include <vector>

#include "base/bounds.h"
#include "base/machine.h"
#include "server/worker_world_test.h"
#include "tests/support/comes.h"
#include "tests/support/patience.h"

namespace sluice::server {
namespace {

// The methods of limitd's requests.
constexpr char take = 0, wait = 1, status = 3, ping = 4;

std::string varint(size_t n) {
  std::string bytes;
  for (; n > 127; n >>= 7) bytes += static_cast<char>(n | 128);
  return bytes + static_cast<char>(n);
}

std::string frame(char method, const std::string& id, const std::string& key = "k") {
  const std::string body = "\x0a" + varint(id.size()) + id + "\x12\x06hourly\x1a" +
                           varint(key.size()) + key + "\x20" + std::string(1, method);
  return varint(body.size()) + body;
}

std::string read_reply(int fd, const std::string& id) {
  return read_until(fd, [&](const std::string& all) { return all.find(id) != all.npos; });
}

// Each client sends many requests at once, after one that needs a buffer of that size.
class Turns : public testing::TestWithParam<size_t> {};

TEST_P(Turns, ARequestWaitsForOneTurnAndNotForAllBacklogs) {
  constexpr size_t many = 300, each = 2'000;
  base::raise_open_files();
  World w;
  const std::string first = GetParam() == 0 ? "" : "HIT ip=" + std::string(GetParam(), 'x') + "\n";
  std::string requests = first;
  for (size_t i = 0; i < each; ++i) requests += "HIT ip=1\n";
  for (size_t i = 0; i < many; ++i) send(w.client(), requests);
  const int single = w.client();
  w.store.at = 20'000;
  w.store.ask = [single] { send(single, "HIT ip=single\n"); };
  auto between = w.store.between.get_future();
  w.start();
  ASSERT_EQ(between.wait_until(tests::soon()), std::future_status::ready);
  EXPECT_LE(between.get(), 2 * base::bounds::turn_requests_max);
  EXPECT_EQ(read_until(single, "\n").substr(0, 8), "OK true ");
  // The other clients are served to the end, in order.
  for (size_t i = 0; i < many; i += 50) {
    send(w.clients[i], "HIT ip=last" + std::to_string(i) + "\n");
    const std::string all = read_until(w.clients[i], "OK true 99999999 600\n");
    size_t lines = 0;
    for (const char c : all) lines += c == '\n';
    EXPECT_GE(lines, 1u);
    EXPECT_EQ(all.find("(late)"), std::string::npos);
  }
}

INSTANTIATE_TEST_SUITE_P(Buffers, Turns, testing::Values(0, 5'000));

// How many of the clients have something to read.
size_t answered(const std::vector<int>& clients) {
  size_t count = 0;
  for (const int fd : clients) {
    char byte;
    count += ::recv(fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 1;
  }
  return count;
}

// Replies of one turn are sent at its end; a reply waits for a bounded number of others.
TEST(Worker, TheOutputOfATurnIsGathered) {
  constexpr size_t many = 2 * GatheredOutput::connections_max + 22;
  base::raise_open_files();
  World w;
  for (size_t i = 0; i < many; ++i) send(w.client(), "HIT ip=" + std::to_string(i) + "\n");
  std::promise<size_t> during;
  w.store.at = many;
  w.store.ask = [&] { during.set_value(answered(w.clients)); };
  auto answers = during.get_future();
  w.start();
  ASSERT_EQ(answers.wait_until(tests::soon()), std::future_status::ready);
  EXPECT_EQ(answers.get(), 2 * GatheredOutput::connections_max);
  for (const int fd : w.clients) EXPECT_EQ(read_until(fd, "\n"), "OK true 99999999 600\n");
}

// The bytes that the other side has not read yet.
int unread(int fd) {
  int bytes = -1;
  EXPECT_EQ(::ioctl(fd, SIOCOUTQ, &bytes), 0);
  return bytes;
}

// The first burst is read with the connection's own buffer, so in parts; the later ones all at
// once.
TEST(Worker, AClientThatSendsMuchIsReadAtOnce) {
  constexpr size_t lines = 250, bursts = 4;
  World w;
  const int fd = w.client();
  std::string burst;
  for (size_t i = 0; i < lines; ++i) burst += "HIT ip=much-" + std::to_string(i) + "\n";
  ASSERT_GT(burst.size(), 2 * Worker::small_buffer_bytes - 1'000);
  ASSERT_LT(burst.size(), base::bounds::read_bytes_max);
  std::array<std::atomic<int>, bursts> left{};
  w.store.ask = [&] {
    left[(w.store.at - 1) / lines] = unread(fd);
    w.store.at += lines;
  };
  w.store.at = 1;
  w.start();
  for (size_t i = 0; i < bursts; ++i) {
    send(fd, burst);
    size_t replies = 0;
    const std::string all = read_until(fd, [&](const std::string& text) {
      replies = static_cast<size_t>(std::count(text.begin(), text.end(), '\n'));
      return replies == lines;
    });
    ASSERT_EQ(replies, lines) << all;
  }
  EXPECT_GT(left[0], 0);
  for (size_t i = 1; i < bursts; ++i) EXPECT_EQ(left[i], 0) << i;
}

// A connection that closes in the turn in which it was answered still gets its replies.
TEST(Worker, GatheredOutputLeavesBeforeTheClose) {
  World w;
  for (int i = 0; i < 3; ++i) {
    const int fd = w.client();
    send(fd, "HIT ip=" + std::to_string(i) + "\nHIT ip=9\n");
    ::shutdown(fd, SHUT_WR);
  }
  w.start();
  for (const int fd : w.clients) {
    const std::string all = read_until(fd, [](const std::string&) { return false; });
    EXPECT_TRUE(all.starts_with("OK true 99999999 600\nOK true 9999999")) << all;
    EXPECT_TRUE(all.ends_with("600\n(end)")) << all;
  }
}

// A half request does not delay other clients, and its client gets the reason.
TEST(Worker, ClosesAConnectionWhoseRequestIsIncompleteAtTheTimeout) {
  World w;
  const net::Timeouts brief{.request = base::milliseconds(100)};
  const int idle = w.client(brief), half = w.client(brief), patient = w.client();
  w.start();
  send(idle, "HIT ip=2\n");
  EXPECT_EQ(read_until(idle, "\n").substr(0, 8), "OK true ");
  send(patient, "HIT ip=");
  send(half, "HIT ip=3\nHIT ip=");
  const std::string all = read_until(half, "never");
  EXPECT_EQ(all.substr(0, 8), "OK true ");
  EXPECT_NE(all.find("\nERR Internal Error: the request did not arrive whole in time"),
            std::string::npos)
      << all;
  EXPECT_TRUE(all.ends_with("\n(end)")) << all;
  // An idle connection, and one with a longer timeout, stay open.
  send(idle, "HIT ip=2\n");
  EXPECT_EQ(read_until(idle, "\n").substr(0, 8), "OK true ");
  send(patient, "4\n");
  EXPECT_EQ(read_until(patient, "\n").substr(0, 8), "OK true ");
  const auto& of = w.stats.at(protocol::find("divvy").value());
  EXPECT_EQ(of.closed_for[static_cast<size_t>(engine::Closed::request_timeout)].read(), 1u);
}

// More bytes of the same request do not extend its time.
TEST(Worker, ARequestByteByByteDoesNotExtendTheTimeout) {
  World w;
  const int drips = w.client({.request = base::milliseconds(100)});
  w.start();
  send(drips, "HIT ip=1\nHIT ip=");
  EXPECT_EQ(read_until(drips, "\n").substr(0, 8), "OK true ");
  bool told = false;
  for (const auto deadline = tests::soon(); !told && std::chrono::steady_clock::now() < deadline;) {
    send(drips, "x");
    pollfd wanted{drips, POLLIN, 0};
    told = ::poll(&wanted, 1, 1) == 1;
  }
  EXPECT_TRUE(told);
  const auto& of = w.stats.at(protocol::find("divvy").value());
  EXPECT_EQ(of.closed_for[static_cast<size_t>(engine::Closed::request_timeout)].read(), 1u);
}

// Half a request and replies that are not taken have other timeouts.
TEST(Worker, ClosesAnIdleClientIfIdleTimeoutIsSet) {
  World w;
  const net::Timeouts brief{.idle = base::milliseconds(100)};
  const int mute = w.client(brief), brisk = w.client(brief), half = w.client(brief),
            patient = w.client();
  w.start();
  send(half, "HIT ip=");
  send(patient, "HIT ip=1\n");
  EXPECT_EQ(read_until(patient, "\n").substr(0, 8), "OK true ");
  send(brisk, "HIT ip=1\n");
  const std::string all = read_until(brisk, "never");
  EXPECT_EQ(all.substr(0, 8), "OK true ");
  EXPECT_TRUE(all.ends_with("\n(end)")) << all;
  EXPECT_EQ(read_until(mute, "never"), "(end)");
  const auto& of = w.stats.at(protocol::find("divvy").value());
  EXPECT_EQ(of.closed_for[static_cast<size_t>(engine::Closed::idle_timeout)].read(), 2u);
  send(half, "1\n");
  EXPECT_EQ(read_until(half, "\n").substr(0, 8), "OK true ");
  EXPECT_EQ(read_until(half, "never"), "(end)");
  send(patient, "HIT ip=1\n");
  EXPECT_EQ(read_until(patient, "\n").substr(0, 8), "OK true ");
  EXPECT_EQ(of.closed_for[static_cast<size_t>(engine::Closed::idle_timeout)].read(), 3u);
}

// Each byte restarts the time: without that the first client would be closed before the second.
TEST(Worker, AClientThatKeepsSendingIsNotIdle) {
  World w;
  const int client = w.client({.idle = base::seconds(1)}),
            other = w.client({.idle = base::seconds(2)});
  w.start();
  // Until the other client is closed, which may be idle for twice as long.
  for (const auto deadline = tests::soon(); std::chrono::steady_clock::now() < deadline;) {
    pollfd ended{other, POLLIN, 0};
    if (::poll(&ended, 1, 1) == 1) break;
    send(client, "HIT ip=1\n");
    ASSERT_EQ(read_until(client, "\n").substr(0, 8), "OK true ");
  }
  EXPECT_EQ(read_until(other, "never"), "(end)");
  const auto& of = w.stats.at(protocol::find("divvy").value());
  EXPECT_EQ(of.closed_for[static_cast<size_t>(engine::Closed::idle_timeout)].read(), 1u);
}

TEST(Worker, ClosesAClientThatReadsNothing) {
  World w;
  const net::Timeouts brief{.send = base::milliseconds(100)};
  const int silent = w.client(brief), other = w.client(brief);
  w.start();
  // The socket takes only a part of the replies.
  std::string requests;
  for (int i = 0; i < 1'000; ++i) requests += "HIT ip=1\n";
  const auto deadline = tests::soon();
  const auto closed = [&] {
    return w.stats.at(protocol::find("divvy").value())
        .closed_for[static_cast<size_t>(engine::Closed::send_timeout)]
        .read();
  };
  size_t at = 0;
  while (closed() == 0 && std::chrono::steady_clock::now() < deadline) {
    const ssize_t n = ::send(silent, requests.data() + at, requests.size() - at, MSG_NOSIGNAL);
    if (n > 0) at = (at + static_cast<size_t>(n)) % requests.size();
    pollfd wanted{silent, POLLOUT, 0};
    if (n < 0) ::poll(&wanted, 1, 20);
  }
  EXPECT_EQ(closed(), 1u);
  while (w.worker->connections() != 1 && std::chrono::steady_clock::now() < deadline)
    std::this_thread::yield();
  EXPECT_EQ(w.worker->connections(), 1u);
  send(other, "HIT ip=2\n");
  EXPECT_EQ(read_until(other, "\n").substr(0, 8), "OK true ");
}

// When unfinished requests exceed their bound of memory, the one that began first is closed, in
// whatever order the loop reports them, and even if it has received more bytes since.
TEST(Worker, ClosesTheOldestIncompleteRequestPastTheBound) {
  World w;
  w.start();
  const net::Timeouts long_ones{.request = base::seconds(3'600)};
  const int other = w.client(long_ones);
  const std::string half = "HIT ip=1 pad=\"" + std::string(900'000, 'x'), ask = "HIT ip=2\n";
  const auto& of = w.stats.at(protocol::find("divvy").value());
  const auto told = [](int fd) {
    pollfd wanted{fd, POLLIN, 0};
    return ::poll(&wanted, 1, 0) == 1;
  };
  const auto await = [&](uint64_t received) {
    const auto deadline = tests::soon();
    while (of.received.read() < received && std::chrono::steady_clock::now() < deadline)
      std::this_thread::yield();
    EXPECT_EQ(of.received.read(), received);
  };
  std::vector<int> halves;
  uint64_t sent = 0;
  size_t gone = 0;
  for (size_t i = 0; i < base::bounds::unfinished_bytes_max / half.size() + 4; ++i) {
    if (gone < halves.size()) {
      send(halves[gone], "x");
      await(++sent);
    }
    halves.push_back(w.client(long_ones));
    for (std::string_view rest = half; !rest.empty();) {
      pollfd wanted{halves.back(), POLLOUT, 0};
      ASSERT_EQ(::poll(&wanted, 1, 25'000), 1);
      const ssize_t n = ::send(halves.back(), rest.data(), rest.size(), MSG_NOSIGNAL);
      ASSERT_GT(n, 0);
      rest.remove_prefix(static_cast<size_t>(n));
    }
    await(sent += half.size());
    // The answer shows that the worker has handled the half request.
    send(other, ask);
    sent += ask.size();
    ASSERT_EQ(read_until(other, "\n").substr(0, 8), "OK true ");
    while (gone < halves.size() && told(halves[gone])) ++gone;
    for (size_t j = gone; j < halves.size(); ++j) ASSERT_FALSE(told(halves[j])) << j << " of " << i;
  }
  EXPECT_GE(gone, 4u);
  EXPECT_LE(gone, 20u);
  EXPECT_EQ(of.closed_for[static_cast<size_t>(engine::Closed::request_memory)].read(), gone);
  for (size_t j = 0; j < halves.size(); ++j) {
    if (j >= gone) send(halves[j], "\"\n");
    const std::string all = read_until(halves[j], "\n");
    EXPECT_EQ(all.substr(0, 8), j < gone ? "ERR Inte" : "OK true ") << j << all;
  }
}

// When unsent replies exceed their bound of memory, the client that has taken nothing for the
// longest is closed.
TEST(Worker, ClosesTheSlowestReaderWhenOutputExceedsItsBound) {
  World w;
  w.start();
  const net::Timeouts long_ones{.request = base::seconds(3'600), .send = base::seconds(3'600)};
  const int other = w.client(long_ones, protocol::find("limitd").value());
  // Ten keys of 60,000 bytes each; a list has as many as fit, half a megabyte.
  for (char n = 'a'; n < 'k'; ++n) {
    send(other, frame(take, std::string("take ") + n, n + std::string(60'000, 'x')));
    read_reply(other, std::string("take ") + n);
  }
  const auto& of = w.stats.at(protocol::find("limitd").value());
  const auto closed = [](int fd) {
    pollfd ended{fd, 0, 0};
    return ::poll(&ended, 1, 0) == 1 && (ended.revents & POLLHUP) != 0;
  };
  std::vector<int> silent;
  size_t gone = 0;
  while (gone < 5 && silent.size() < 300) {
    // The first five one by one, so that their order is known; then many, while there is memory for
    // all.
    for (int more = silent.size() == 5 ? 120 : 1; more > 0; --more) {
      silent.push_back(w.client(long_ones, protocol::find("limitd").value(), 4'096));
      send(silent.back(), frame(status, "a list", ""));
    }
    const auto& answered = of.requests[static_cast<size_t>(request::Verb::list)]
                                      [static_cast<size_t>(engine::RequestOutcome::answered)];
    for (const auto deadline = tests::soon(); answered.read() < silent.size();) {
      ASSERT_LT(std::chrono::steady_clock::now(), deadline);
      std::this_thread::yield();
    }
    // The answer shows that the worker has handled these lists.
    send(other, frame(ping, "a ping"));
    ASSERT_NE(read_reply(other, "a ping").find("a ping"), std::string::npos);
    while (gone < silent.size() && closed(silent[gone])) ++gone;
    for (size_t i = gone; i < silent.size(); ++i) ASSERT_FALSE(closed(silent[i])) << i;
  }
  EXPECT_EQ(gone, 5u);
  EXPECT_EQ(of.closed_for[static_cast<size_t>(engine::Closed::send_memory)].read(), gone);
  const std::string list =
      read_until(silent.back(), [](const std::string& all) { return all.size() > 400'000; });
  EXPECT_EQ(list.find("(end)"), std::string::npos) << "the last one is not closed";
}

// While a request waits, an idle worker looks at the clock again and again: a timer of an hour
// would not end early when the clock is set forward.
TEST(Worker, AnswersAWaitWhenTheClockIsSetForwardToItsTime) {
  World w;
  const int client = w.client({}, protocol::find("limitd").value());
  w.start();
  send(client, frame(take, "first take"));
  read_reply(client, "first take");
  send(client, frame(wait, "it waits") + frame(ping, "a ping"));
  EXPECT_EQ(read_reply(client, "a ping").find("it waits"), std::string::npos);
  set_forward_us = int64_t{2} * 3'600'000'000;
  const std::string all = read_reply(client, "it waits");
  EXPECT_EQ(all.find("(late)"), std::string::npos);
  set_forward_us = 0;
}

// The wait may have its units, so its client learns how it ended before the connection does.
TEST(Worker, AnswersAWaitBeforeItEndsAConnectionWithAnIncompleteRequest) {
  World w;
  const int fd = w.client({.request = base::milliseconds(100)}, protocol::find("limitd").value());
  w.start();
  send(fd, frame(take, "first take"));
  read_reply(fd, "first take");
  const std::string whole = frame(ping, "never whole");
  send(fd, frame(wait, "it waits") + whole.substr(0, whole.size() - 3));
  const std::string all = read_until(fd, "never");
  EXPECT_NE(all.find("it waits"), all.npos) << all;
  EXPECT_TRUE(all.ends_with("(end)")) << all;
  const auto& of = w.stats.at(protocol::find("limitd").value());
  EXPECT_EQ(of.closed_for[static_cast<size_t>(engine::Closed::request_timeout)].read(), 1u);
}

// While the server stops, a client that asks again as soon as it has an answer would have a request
// on its way at every look.
TEST(Worker, AStopEndsAConnectionBehindTheAnswerToWhatHadArrived) {
  World w;
  const int fd = w.client();
  w.store.at = 2;
  w.store.ask = [&] {
    w.worker->stop(std::chrono::minutes(1));
    send(fd, "HIT ip=1\n");
  };
  w.start();
  send(fd, "HIT ip=1\nHIT ip=1\n");
  EXPECT_EQ(read_until(fd, "97 600\n"),
            "OK true 99999999 600\nOK true 99999998 600\nOK true 99999997 600\n");
  ::send(fd, "HIT ip=1\n", 9, MSG_NOSIGNAL);
  EXPECT_EQ(read_until(fd, "\n"), "(end)");
}

// Of a request that has arrived in part the rest may be on its way, and what the client sends
// behind it at once has arrived as well.
TEST(Worker, AStopAnswersWhatArrivesWithTheRestOfARequest) {
  World w;
  const int fd = w.client();
  w.store.at = 1;
  w.store.ask = [&] {
    w.worker->stop(std::chrono::minutes(1));
    send(fd, "HIT ip=1\nHIT i");
  };
  w.start();
  send(fd, "HIT ip=1\n");
  EXPECT_EQ(read_until(fd, "98 600\n"), "OK true 99999999 600\nOK true 99999998 600\n");
  send(fd, "p=1\nHIT ip=1\n");
  EXPECT_EQ(read_until(fd, "never"), "OK true 99999997 600\nOK true 99999996 600\n(end)");
}

TEST(Worker, AStopEndsWithClientsThatLeaveMeanwhile) {
  World w;
  for (int i = 0; i < 3; ++i) w.client();
  w.store.at = 1;
  w.store.ask = [&] {
    w.worker->stop(std::chrono::minutes(1));
    for (const int fd : w.clients) ::shutdown(fd, SHUT_WR);
  };
  w.start();
  send(w.clients.front(), "HIT ip=1\n");
  EXPECT_EQ(read_until(w.clients.front(), "never"), "OK true 99999999 600\n(end)");
  for (const int fd : w.clients) EXPECT_EQ(read_until(fd, "never"), "(end)");
  w.worker->join();
}

}  // namespace
}  // namespace sluice::server
