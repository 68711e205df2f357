// Requests that wait, and lists, in limitd's protocol over sockets of the real program. Tests with
// few requests check what is answered, tests with many (`make bench`) when.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <limitd.pb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <iostream>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "protocol/limitd/message.h"
#include "tests/support/dice.h"
#include "tests/support/divvy_server.h"
#include "tests/support/patience.h"
#include "wire/protobuf.h"

namespace sluice::tests {
namespace {

using namespace std::chrono_literals;
using limitd::Request;
using limitd::Response;
using std::chrono::steady_clock;

constexpr size_t body_bytes_max = size_t{16} << 20;

double milliseconds(steady_clock::duration time) {
  return std::chrono::duration<double, std::milli>(time).count();
}

void append_frame(std::string& out, const Request& request) {
  const std::string body = request.SerializeAsString();
  char length[10];
  wire::ProtobufWriter to(length);
  to.varint(body.size());
  out.append(length, to.end()).append(body);
}

Request request(Request::Method method, const std::string& type, const std::string& key, int count,
                int64_t id) {
  Request r;
  r.set_method(method);
  r.set_type(type);
  r.set_key(key);
  r.set_count(count);
  r.set_id2(id);
  return r;
}

// A connection that reads what has arrived, without waiting for more.
class Wire {
 public:
  explicit Wire(uint16_t port) : fd_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(port);
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (connect(fd_, reinterpret_cast<const sockaddr*>(&to), sizeof to) != 0)
      throw std::runtime_error("cannot connect");
    const int on = 1;
    setsockopt(fd_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    fcntl(fd_, F_SETFL, O_NONBLOCK);
  }
  Wire(Wire&& other) noexcept : fd_(std::exchange(other.fd_, -1)), in_(std::move(other.in_)) {}
  Wire& operator=(Wire&&) = delete;
  ~Wire() {
    if (fd_ >= 0) close(fd_);
  }
  int fd() const { return fd_; }

  void send(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t sent = ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent > 0) {
        bytes.remove_prefix(static_cast<size_t>(sent));
      } else if (errno == EAGAIN) {
        pollfd p{fd_, POLLOUT, 0};
        ::poll(&p, 1, 1000);
      } else {
        throw std::runtime_error("the server has closed a connection");
      }
    }
  }
  void send(const Request& r) {
    std::string frame;
    append_frame(frame, r);
    send(frame);
  }
  // Calls `visit(response)` for each response that has arrived.
  template <class Visit>
  void receive(Visit&& visit) {
    char received[64 << 10];
    for (;;) {
      const ssize_t got = recv(fd_, received, sizeof received, 0);
      if (got == 0) throw std::runtime_error("the server has closed a connection");
      if (got < 0) break;
      in_.append(received, static_cast<size_t>(got));
    }
    size_t at = 0, bytes = 0;
    std::string_view body;
    const std::string_view in = in_;
    while (limitd::find_limitd_frame(in.substr(at), body_bytes_max, body, bytes) ==
           limitd::LimitdFrame::whole) {
      Response response;
      if (!response.ParseFromArray(body.data(), static_cast<int>(body.size())))
        throw std::runtime_error("no message");
      visit(response);
      at += bytes;
    }
    in_.erase(0, at);
  }
  void await(Deadline deadline) const {
    pollfd p{fd_, POLLIN, 0};
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - steady_clock::now());
    ::poll(&p, 1, static_cast<int>(std::max<int64_t>(left.count(), 0)));
  }
  // Sends a request and waits for its reply. No other reply may be outstanding.
  Response ask(const Request& r) {
    send(r);
    Response answer;
    const Deadline deadline = soon();
    for (bool got = false; !got;) {
      if (steady_clock::now() > deadline) throw std::runtime_error("no answer");
      await(deadline);
      receive([&](const Response& response) {
        answer = response;
        got = true;
      });
    }
    return answer;
  }

 private:
  int fd_;
  std::string in_;
};

class LimitdServer {
 public:
  LimitdServer() {
    const std::string policy =
        folder_.write("limitd.yaml",
                      "buckets:\n"
                      "  due: { size: 4000, per_second: 1000 }\n"
                      "  held: { size: 20000 }\n"
                      "  listed: { size: 10, per_hour: 10 }\n"
                      "  other: { size: 1000000000, per_second: 1000000 }\n");
    const std::string config = folder_.write("sluice.yaml",
                                             "listen: [{ protocol: limitd, address: "
                                             "\"127.0.0.1:0\" }]\nworkers: 1\npolicy: [{ limitd: " +
                                                 policy + " }]\n");
    process_ = std::make_unique<Process>(Process::Options{
        .arguments = {"serve", "--config", config}, .environment = {{"SLUICE_LOG_LEVEL", "warn"}}});
    port_ = await_listening(*process_, "limitd");
  }
  uint16_t port() const { return port_; }

 private:
  Folder folder_;
  std::unique_ptr<Process> process_;
  uint16_t port_ = 0;
};

double quantile(std::vector<double> all, double q) {
  const auto at = static_cast<size_t>(static_cast<double>(all.size() - 1) * q);
  std::nth_element(all.begin(), all.begin() + static_cast<ptrdiff_t>(at), all.end());
  return all[at];
}

// One write takes all units of a bucket and waits for new ones. These are due `wait_ms` after the
// take was decided, which is between that write and the reply to the take. The test counts from the
// write. No wait may be answered earlier than that.
void wait_at_spread_times(size_t count, int shortest_ms, int spread_ms) {
  const LimitdServer server;
  std::vector<Wire> wires;
  for (int i = 0; i < 10; ++i) wires.emplace_back(server.port());
  Dice dice(1);
  std::vector<steady_clock::time_point> due(count);
  std::vector<double> late;
  size_t taken = 0, refused = 0;
  const auto receive = [&](Wire& wire) {
    wire.receive([&](const Response& response) {
      const auto now = steady_clock::now();
      if (!response.take().conformant()) ++refused;
      const auto id = static_cast<size_t>(response.request_id2());
      id >= count ? void(++taken) : late.push_back(milliseconds(now - due[id]));
    });
  };
  const auto await_any = [&] {
    std::vector<pollfd> all;
    for (const Wire& wire : wires) all.push_back({wire.fd(), POLLIN, 0});
    ::poll(all.data(), all.size(), 1000);
    for (size_t i = 0; i < wires.size(); ++i)
      if (all[i].revents != 0) receive(wires[i]);
  };
  // How late the machine itself is: the delay of a thread that only sleeps.
  std::atomic<bool> stop{false};
  std::vector<double> overslept;
  std::thread sleeper([&] {
    while (!stop) {
      const auto then = steady_clock::now() + 1ms;
      std::this_thread::sleep_until(then);
      overslept.push_back(milliseconds(steady_clock::now() - then));
    }
  });
  for (size_t i = 0; i < count; ++i) {
    const std::string key = "k" + std::to_string(i);
    const int wait_ms = shortest_ms + dice(spread_ms);
    std::string frames;
    append_frame(frames,
                 request(Request::TAKE, "due", key, 4'000, static_cast<int64_t>(count + i)));
    append_frame(frames, request(Request::WAIT, "due", key, wait_ms, static_cast<int64_t>(i)));
    due[i] = steady_clock::now() + std::chrono::milliseconds(wait_ms);
    wires[i % wires.size()].send(frames);
    const Deadline deadline = soon();
    while (taken <= i && steady_clock::now() < deadline) await_any();
    if (taken != i + 1) break;
  }
  EXPECT_EQ(taken, count);
  const size_t early = late.size();
  const Deadline deadline = soon();
  while (late.size() < count && steady_clock::now() < deadline) await_any();
  stop = true;
  sleeper.join();
  ASSERT_EQ(late.size(), count);
  EXPECT_EQ(refused, 0u);
  EXPECT_GE(*std::min_element(late.begin(), late.end()), 0) << "answered before it was due";
  if (!holds_times()) return;
  EXPECT_LT(early, count / 2) << "too slow a machine: most were answered before all had been asked";
  const double p99 = quantile(late, 0.99);
  const double machine = quantile(overslept, 0.99);
  std::cout << "late by, median: " << quantile(late, 0.5) << " ms, p99: " << p99
            << " ms, most: " << quantile(late, 1) << " ms; a sleeping thread, p99: " << machine
            << " ms\n";
  // An answer needs two threads to wake up, one of the server and this one. On an idle machine that
  // adds nothing.
  EXPECT_LE(p99, 2.0 + 2 * machine);
}

TEST(Waiting, EachIsAnsweredWhenItsUnitsAreDue) {
  wait_at_spread_times(300, 200, 300);
}

TEST(WaitingInTime, TenThousandAtSpreadTimes) {
  SLUICE_HOLDS_TIMES();
  // Most are not due yet when the last one is sent.
  wait_at_spread_times(10'000, 1'500, 2'500);
}

// First by one put for all waits, then by one put for each.
void free_at_once_by_puts(int count, int rounds) {
  for (const int puts : {1, count}) {
    const LimitdServer server;
    Wire putter(server.port());
    std::vector<Wire> wires;
    for (int i = 0; i < 10; ++i) wires.emplace_back(server.port());
    ASSERT_TRUE(putter.ask(request(Request::TAKE, "held", "k", 20'000, 1)).take().conformant());
    std::vector<double> times;
    for (int round = 0; round < rounds; ++round) {
      for (size_t w = 0; w < wires.size(); ++w) {
        std::string frames;
        for (int i = 0; i < count / 10; ++i)
          append_frame(frames, request(Request::WAIT, "held", "k", 1, i));
        wires[w].send(frames);
        // Its answer says that the requests before it wait.
        Request ping = request(Request::PING, "", "", 1, 0);
        ASSERT_TRUE(wires[w].ask(ping).has_pong());
      }
      std::string frames;
      for (int i = 0; i < puts; ++i) {
        Request put = request(Request::PUT, "held", "k", count / puts, 1);
        put.set_skip_response(true);
        append_frame(frames, put);
      }
      int answered = 0, refused = 0;
      const auto begin = steady_clock::now();
      const Deadline deadline = soon();
      putter.send(frames);
      while (answered < count && steady_clock::now() < deadline) {
        for (Wire& wire : wires) {
          wire.receive([&](const Response& response) {
            ++answered;
            if (!response.take().conformant()) ++refused;
          });
        }
      }
      times.push_back(milliseconds(steady_clock::now() - begin));
      ASSERT_EQ(answered, count);
      ASSERT_EQ(refused, 0);
    }
    const double median = quantile(times, 0.5);
    std::cout << count << " freed by " << puts << " puts, median: " << median
              << " ms, most: " << quantile(times, 1) << " ms\n";
    if (holds_times()) {
      EXPECT_LE(median, 50);
    }
  }
}

TEST(Waiting, AllAreFreedByPuts) {
  free_at_once_by_puts(500, 2);
}

TEST(WaitingInTime, TenThousandFreedAtOnceByPuts) {
  SLUICE_HOLDS_TIMES();
  free_at_once_by_puts(10'000, 5);
}

TEST(Waiting, RefusesAWaitPastTheBoundOfAConnection) {
  constexpr int bound = 16'384, more = 100;
  const LimitdServer server;
  Wire wire(server.port()), other(server.port());
  ASSERT_TRUE(other.ask(request(Request::TAKE, "held", "k", 20'000, 1)).take().conformant());
  std::string frames;
  for (int i = 0; i < bound + more; ++i)
    append_frame(frames, request(Request::WAIT, "held", "k", 1, i));
  append_frame(frames, request(Request::PING, "", "", 1, bound + more));
  wire.send(frames);
  std::vector<Response> all;
  const Deadline deadline = soon();
  while ((all.empty() || !all.back().has_pong()) && steady_clock::now() < deadline) {
    wire.await(deadline);
    wire.receive([&](const Response& response) { all.push_back(response); });
  }
  ASSERT_EQ(all.size(), size_t{more} + 1);
  for (int i = 0; i < more; ++i) {
    const Response& response = all[static_cast<size_t>(i)];
    EXPECT_EQ(response.request_id2(), bound + i);
    EXPECT_FALSE(response.take().conformant());
  }
  // The requests that wait get their units.
  Request put = request(Request::PUT, "held", "k", 20'000, 2);
  put.set_all(true);
  ASSERT_TRUE(other.ask(put).has_put());
  all.clear();
  while (all.size() < size_t{bound} && steady_clock::now() < deadline) {
    wire.await(deadline);
    wire.receive([&](const Response& response) { all.push_back(response); });
  }
  ASSERT_EQ(all.size(), size_t{bound});
  for (const Response& response : all) EXPECT_TRUE(response.take().conformant());
}

void fill_listed(Wire& wire, int counters) {
  for (int i = 0; i < counters; i += 10'000) {
    std::string frames;
    for (int n = i; n < i + 10'000; ++n) {
      Request take = request(Request::TAKE, "listed", "counter " + std::to_string(n), 1, 1);
      take.set_skip_response(true);
      append_frame(frames, take);
    }
    wire.send(frames);
    ASSERT_TRUE(wire.ask(request(Request::PING, "", "", 1, 1)).has_pong());
  }
}

// Needs 10,000 counters or more. A list has at most 100 items.
void expect_listed(Wire& wire) {
  const Response list = wire.ask(request(Request::STATUS, "listed", "counter 77", 1, 1));
  ASSERT_EQ(list.status().items_size(), 100);
  EXPECT_EQ(list.status().items(0).instance(), "counter 77");
  EXPECT_EQ(list.status().items(2).instance(), "counter 7700");
}

TEST(Waiting, RequestsAreAnsweredDuringLists) {
  constexpr int lists = 5;
  const LimitdServer server;
  Wire scanner(server.port()), asker(server.port());
  fill_listed(scanner, 10'000);
  if (HasFatalFailure()) return;
  std::atomic<bool> listing{true};
  std::thread other([&] {
    for (int i = 0; i < lists; ++i) expect_listed(scanner);
    listing = false;
  });
  do {
    EXPECT_TRUE(asker.ask(request(Request::TAKE, "other", "k", 1, 1)).take().conformant());
  } while (listing);
  other.join();
}

// Stretches of time with one list after the other alternate with stretches without lists, and are
// compared with them, because other processes use the machine too.
TEST(WaitingInTime, AListOfAMillionCountersDelaysNoRequest) {
  SLUICE_HOLDS_TIMES();
  constexpr int counters = 1'000'000, stretches = 10;
  constexpr auto stretch = 400ms;
  constexpr double delay_max_ms = 1;
  const LimitdServer server;
  Wire scanner(server.port()), asker(server.port());
  fill_listed(scanner, counters);
  if (HasFatalFailure()) return;
  std::vector<double> worst[2], all[2];
  size_t lists = 0;
  for (int i = 0; i < 2 * stretches; ++i) {
    const bool listing = i % 2 == 0;
    std::atomic<bool> stop{false};
    std::thread other;
    if (listing) {
      other = std::thread([&] {
        while (!stop) {
          expect_listed(scanner);
          ++lists;
        }
      });
    }
    double longest = 0;
    const auto end = steady_clock::now() + stretch;
    for (int n = 0; steady_clock::now() < end; ++n) {
      const auto begin = steady_clock::now();
      asker.ask(request(Request::TAKE, "other", "k" + std::to_string(n), 1, 1));
      const double waited = milliseconds(steady_clock::now() - begin);
      all[listing].push_back(waited);
      longest = std::max(longest, waited);
    }
    worst[listing].push_back(longest);
    stop = true;
    if (other.joinable()) other.join();
  }
  size_t longer = 0;
  for (const double with : worst[1])
    for (const double without : worst[0]) longer += with > without + delay_max_ms ? 1 : 0;
  const double part = static_cast<double>(longer) / (stretches * stretches);
  const double with = quantile(all[1], 0.999), without = quantile(all[0], 0.999);
  std::cout << lists << " lists. Wait for a reply, median: " << quantile(all[1], 0.5)
            << " ms with lists, " << quantile(all[0], 0.5) << " ms without; p99.9: " << with
            << " and " << without
            << " ms; longest of a stretch, median: " << quantile(worst[1], 0.5) << " and "
            << quantile(worst[0], 0.5) << " ms; more than " << delay_max_ms << " ms apart in "
            << part * 100 << " % of all pairs\n";
  EXPECT_GE(lists, size_t{stretches});
  EXPECT_LE(with - without, delay_max_ms);
  EXPECT_LT(part, 0.9);
}

}  // namespace
}  // namespace sluice::tests
