// The client library over sockets, against servers (`Peer`) that are slow or silent, that end in
// the middle of a reply, or reply twice or with garbage. Also: addresses, and the mock client.
#include <gtest/gtest.h>
#include <poll.h>
#include <sluice/client.h>
#include <sluice/client_mock.h>

#include <atomic>
#include <chrono>
#include <coroutine>
#include <exception>
#include <future>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "tests/client/peers.h"

namespace sluice::tests::client_library_test {
namespace {

using namespace std::chrono_literals;

client_request hit(std::string_view ip = "10.0.0.7") {
  client_request request;
  request.subject.entries = {{"ip", ip}};
  return request;
}

client_request keyed(std::string_view key) {
  client_request request;
  request.subject.key = key;
  request.subject.limits = {{100, 60s}};
  return request;
}

constexpr client_call_options patient{.timeout = 60s};
constexpr std::string_view five = "*6\r\n:1\r\n:5\r\n:4\r\n:0\r\n:1000\r\n$1\r\nr\r\n";

TEST(ClientLibrary, AnswersThatComeByteByByteAreRead) {
  const Peer peer([](int fd, int) {
    while (!Peer::line(fd).empty())
      for (const char c : std::string_view("OK true 4 60\n"))
        if (!Peer::say(fd, {&c, 1})) return;
  });
  client one(peer.address("divvy"));
  for (int i = 0; i < 3; ++i) EXPECT_EQ(one.call(hit(), patient).remaining, 4);
}

TEST(ClientLibrary, ASilentServerIsATimeout) {
  const Peer peer([](int fd, int) { Peer::be_silent(fd); });
  for (const char* scheme : {"divvy", "resp", "http", "ws"}) {
    client one(peer.address(scheme));
    const client_request request = scheme == std::string("divvy") ? hit() : keyed("k");
    const client_result result = one.call(request, {.timeout = 50ms});
    EXPECT_EQ(result.error, client_errc::timeout) << scheme;
    EXPECT_FALSE(result.is_allowed());
  }
}

TEST(ClientLibrary, AConnectionCutInMidAnswerFailsTheCallsInFlight) {
  const Peer peer([](int fd, int number) {
    Peer::line(fd);
    Peer::say(fd, number == 0 ? "OK true 3 60\nOK tr" : "OK true 2 60\n");
    if (number > 0) Peer::be_silent(fd);
  });
  client one(peer.address("divvy"));
  auto first = one.ask(hit(), patient), second = one.ask(hit(), patient);
  while (second.wait_for(0s) != std::future_status::ready) one.poll(100ms);
  EXPECT_EQ(first.get().remaining, 3);
  EXPECT_EQ(second.get().error, client_errc::disconnected);
  EXPECT_EQ(one.call(hit(), patient).remaining, 2);
}

TEST(ClientLibrary, ATimedOutCallsAnswerIsNotAnothers) {
  const Peer peer([](int fd, int) {
    Peer::line(fd);
    Peer::line(fd);  // the first is answered when the second has arrived
    Peer::say(fd, "OK true 1 60\nOK true 2 60\n");
    Peer::be_silent(fd);
  });
  client one(peer.address("divvy"));
  EXPECT_EQ(one.call(hit(), {.timeout = 20ms}).error, client_errc::timeout);
  EXPECT_EQ(one.call(hit(), patient).remaining, 2);
}

TEST(ClientLibrary, AnUnaskedAnswerEndsTheConnection) {
  const Peer peer([](int fd, int) {
    for (char c = 0; ::recv(fd, &c, 1, 0) == 1;)
      if (c == '\n' && !Peer::say(fd, five)) return;
  });
  std::atomic<int> lost = 0;
  client_options options;
  options.on_connection = [&](const client_connection_report& report) {
    lost += report.what == client_connection_report::event::disconnected ? 1 : 0;
  };
  client one(peer.address("resp"), options);
  one.call(keyed("k"), patient);
  while (lost == 0) one.poll(100ms);
}

// Requests that expect no answer count for `pending_max` as well, while the server does not read
// them.
TEST(ClientLibrary, UnreadRequestsWaitAndFailPastTheBound) {
  std::promise<void> go;
  std::atomic<size_t> read = 0;
  const Peer peer([&](int fd, int) {
    go.get_future().wait();
    char bytes[64 << 10];
    for (ssize_t n = 0; (n = ::recv(fd, bytes, sizeof bytes, 0)) > 0;)
      read += static_cast<size_t>(n);
  });
  client_options options;
  options.pending_max = 100;
  options.timeout = 600s;
  client one(peer.address("limitd"), options);
  const std::string key(10'000, 'k');
  client_request put;
  put.verb = client_verb::put;
  put.subject.type = "ip";
  put.subject.key = key;
  put.no_answer = true;
  size_t sent = 0, backlog = 0, other = 0;
  const auto count = [&](client_result&& result) {
    if (result.error == client_errc::none)
      ++sent;
    else
      ++(result.error == client_errc::backlog ? backlog : other);
  };
  // More bytes than the buffers of the sockets hold.
  for (int i = 0; i < 10'000 && backlog == 0; ++i) {
    one.submit(put, count);
    one.poll(0ms);
  }
  EXPECT_EQ(backlog, 1u);
  EXPECT_EQ(one.pending(), 100u);
  go.set_value();
  while (one.pending() > 0) one.poll(100ms);
  EXPECT_EQ(other, 0u);
  while (read < sent * key.size()) one.poll(1ms);  // until the socket has taken all
}

TEST(ClientLibrary, GarbageIsABadReply) {
  const Peer peer([](int fd, int) {
    char c = 0;
    ::recv(fd, &c, 1, 0);
    Peer::say(fd, "\x16\x03\x01 garbage\r\n\r\n");
    Peer::be_silent(fd);
  });
  for (const char* scheme : {"divvy", "resp", "http"}) {
    client one(peer.address(scheme));
    const client_request request = scheme == std::string("divvy") ? hit() : keyed("k");
    EXPECT_EQ(one.call(request, patient).error, client_errc::bad_reply) << scheme;
  }
}

TEST(ClientLibrary, WithoutAServerTheCallersChoiceApplies) {
  std::string address;
  {
    const Peer gone([](int, int) {});
    address = gone.address("resp");
  }
  EXPECT_EQ(client(address).call(keyed("k"), patient).error, client_errc::unavailable);
  client_options options;
  options.on_unavailable = client_policy::allow;
  const client_result allowed = client(address, options).call(keyed("k"), patient);
  EXPECT_TRUE(allowed.is_allowed());
  EXPECT_EQ(allowed.origin, client_origin::on_unavailable);
  options.on_unavailable = client_policy::deny;
  EXPECT_FALSE(client(address, options).call(keyed("k"), patient).is_allowed());
}

// Allows three requests for the key `k`, and no other.
class Share final : public client_stand_in {
 public:
  client_result decide(const client_request& request, client_errc error) override {
    client_result result;
    result.allowed = left_ > 0 && request.subject.key == "k";
    if (result.allowed) --left_;
    result.remaining = left_;
    result.rule = std::to_string(static_cast<int>(error));
    return result;
  }

 private:
  int left_ = 3;
};

TEST(ClientLibrary, AStandInDecidesIfTheServerDoesNot) {
  const Peer peer([](int fd, int) { Peer::be_silent(fd); });
  std::vector<client_call_report> reports;
  client_options options;
  options.stand_in = std::make_shared<Share>();
  options.timeout = 10ms;
  options.on_call = [&](const client_call_report& report) { reports.push_back(report); };
  client one(peer.address("resp"), options);
  for (int i = 0; i < 4; ++i) {
    // The caller's string no longer exists when the stand-in is called.
    auto future = one.ask(keyed(std::string("k")));
    while (future.wait_for(0s) != std::future_status::ready) one.poll(100ms);
    const client_result result = future.get();
    EXPECT_EQ(result.is_allowed(), i < 3);
    EXPECT_EQ(result.origin, client_origin::stand_in);
  }
  ASSERT_EQ(reports.size(), 4u);
  EXPECT_EQ(reports[0].error, client_errc::timeout);
  EXPECT_EQ(reports[0].origin, client_origin::stand_in);
  EXPECT_TRUE(reports[0].allowed);
  EXPECT_FALSE(reports[3].allowed);
  EXPECT_GE(reports[0].took, 10ms);
}

TEST(ClientLibrary, ACancelledCallEndsOnce) {
  const Peer peer([](int fd, int) { Peer::be_silent(fd); });
  client one(peer.address("divvy"));
  int ended = 0;
  const auto id = one.submit(
      hit(),
      [&](client_result&& result) {
        ++ended;
        EXPECT_EQ(result.error, client_errc::cancelled);
      },
      patient);
  one.poll(0ms);
  EXPECT_TRUE(one.cancel(id));
  EXPECT_FALSE(one.cancel(id));
  while (ended == 0) one.poll(100ms);
  one.close();
  EXPECT_EQ(ended, 1);
}

TEST(ClientLibrary, ClosingEndsCallsAndLaterOnesToo) {
  const Peer peer([](int fd, int) { Peer::be_silent(fd); });
  client one(peer.address("divvy"));
  auto early = one.ask(hit(), patient);
  one.close();
  EXPECT_EQ(early.get().error, client_errc::closed);
  auto late = one.ask(hit(), patient);
  one.poll(0ms);
  EXPECT_EQ(late.get().error, client_errc::closed);
}

TEST(ClientLibrary, APollAfterTheCloseReturnsAtOnce) {
  client one("resp://127.0.0.1:1");
  one.close();
  EXPECT_EQ(one.poll(-1ms), 0u);
}

// The client may be closed before its thread has begun to wait.
TEST(ClientLibrary, ItsThreadEndsWheneverItIsClosed) {
  client_options options;
  options.own_thread = true;
  for (int i = 0; i < 500; ++i) client("resp://127.0.0.1:1", options).close();
}

TEST(ClientLibrary, CallsAfterTheEndOfItsThreadEndAtOnce) {
  client_options options;
  options.own_thread = true;
  // The server is silent, so that no call ends before the client is closed.
  const Peer peer([](int fd, int) { Peer::be_silent(fd); });
  client one(peer.address("resp"), options);
  std::atomic<int> ended = 0;
  // Also a call made by the handler of a call that the close ends.
  one.submit(
      keyed("k"),
      [&](client_result&&) {
        one.submit(
            keyed("k"),
            [&](client_result&& result) { ended += result.error == client_errc::closed; }, patient);
      },
      patient);
  one.close();
  EXPECT_EQ(ended, 1);
  EXPECT_EQ(one.call(keyed("k"), patient).error, client_errc::closed);
  auto later = one.ask(keyed("k"), patient);
  ASSERT_EQ(later.wait_for(60s), std::future_status::ready);
  EXPECT_EQ(later.get().error, client_errc::closed);
}

// The caller may hold a lock that a handler waits for.
TEST(ClientLibrary, ACallWhileItClosesDoesNotWaitForHandlers) {
  const Peer peer([](int fd, int) { Peer::be_silent(fd); });
  client_options options;
  options.own_thread = true;
  client one(peer.address("resp"), options);
  std::mutex callers;
  std::promise<void> in_handler;
  std::atomic<int> ended = 0;
  std::unique_lock held(callers);
  one.submit(
      keyed("k"),
      [&](client_result&&) {
        in_handler.set_value();
        const std::lock_guard lock(callers);
        ++ended;
      },
      patient);
  std::thread closing([&] { one.close(); });
  in_handler.get_future().wait();
  auto late = one.ask(keyed("k"), patient);
  held.unlock();
  closing.join();
  EXPECT_EQ(ended, 1);
  ASSERT_EQ(late.wait_for(60s), std::future_status::ready);
  EXPECT_EQ(late.get().error, client_errc::closed);
}

TEST(ClientLibrary, ACallWithoutATimeoutWaits) {
  std::promise<void> go;
  const Peer peer([&](int fd, int) {
    if (Peer::line(fd).empty()) return;
    go.get_future().wait();
    Peer::say(fd, "OK true 4 60\n");
  });
  client one(peer.address("divvy"));
  auto answer = one.ask(hit(), {.timeout = client_never});
  for (int i = 0; i < 5; ++i) one.poll(10ms);
  EXPECT_EQ(one.pending(), 1u);
  go.set_value();
  while (answer.wait_for(0s) != std::future_status::ready) one.poll(100ms);
  EXPECT_EQ(answer.get().remaining, 4);
}

TEST(ClientLibrary, TheDescriptorNotifiesAForeignLoopOfReplies) {
  const Peer peer([](int fd, int) {
    while (!Peer::line(fd).empty()) Peer::say(fd, "OK true 4 60\n");
  });
  client one(peer.address("divvy"));
  int ended = 0;
  const auto run = [&](int until) {
    while (ended < until) {
      pollfd wanted{one.descriptor(), POLLIN, 0};
      ASSERT_GT(::poll(&wanted, 1, 60'000), 0);
      one.poll(0ms);
    }
  };
  const auto count = [&](client_result&& result) {
    EXPECT_EQ(result.remaining, 4);
    ++ended;
  };
  one.submit(hit(), count, patient);
  run(1);
  // A call of another thread, while the loop sleeps.
  std::thread other([&] {
    std::this_thread::sleep_for(20ms);
    one.submit(hit(), count, patient);
  });
  run(2);
  other.join();
}

TEST(ClientLibrary, TheDescriptorNotifiesAForeignLoopOfDeadlines) {
  const Peer peer([](int fd, int) { Peer::be_silent(fd); });
  client one(peer.address("divvy"));
  bool ended = false;
  one.submit(hit(), [&](client_result&&) { ended = true; }, {.timeout = 30ms});
  while (!ended) {
    pollfd wanted{one.descriptor(), POLLIN, 0};
    ASSERT_GT(::poll(&wanted, 1, 60'000), 0);
    one.poll(0ms);
  }
}

// A coroutine that starts at once and returns nothing to wait for.
struct Detached {
  struct promise_type {
    Detached get_return_object() { return {}; }
    std::suspend_never initial_suspend() { return {}; }
    std::suspend_never final_suspend() noexcept { return {}; }
    void return_void() {}
    void unhandled_exception() { std::terminate(); }
  };
};

#if defined(__clang__)
__attribute__((no_sanitize("function")))  // clang 14 cannot mark the parts of a coroutine
#endif
Detached
take_three(client_interface& one, std::vector<int64_t>& got) {
  const client_request request = hit();
  for (int i = 0; i < 3; ++i) {
    const client_result result = co_await one.async(request, patient);
    got.push_back(result.remaining.value_or(-1));
  }
}

TEST(ClientLibrary, CoroutinesAwaitCalls) {
  const Peer peer([](int fd, int) {
    for (int i = 0; !Peer::line(fd).empty(); ++i)
      Peer::say(fd, "OK true " + std::to_string(i) + " 60\n");
  });
  client one(peer.address("divvy"));
  std::vector<int64_t> got;
  take_three(one, got);
  while (got.size() < 3) one.poll(100ms);
  EXPECT_EQ(got, (std::vector<int64_t>{0, 1, 2}));
}

TEST(ClientLibrary, AnOwnThreadNeedsNoPolling) {
  const Peer peer([](int fd, int) {
    while (!Peer::line(fd).empty()) Peer::say(fd, "OK true 4 60\n");
  });
  client_options options;
  options.own_thread = true;
  options.pending_max = 1'000;
  client one(peer.address("divvy"), options);
  std::vector<std::thread> threads;
  std::atomic<int> good = 0;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&] {
      for (int i = 0; i < 100; ++i) good += one.call(hit(), patient).remaining == 4 ? 1 : 0;
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(good, 400);
}

TEST(ClientLibrary, ThreadsWithoutAThreadOfTheClientsPollForEachOther) {
  const Peer peer([](int fd, int) {
    while (!Peer::line(fd).empty()) Peer::say(fd, "OK true 4 60\n");
  });
  client one(peer.address("divvy"));
  std::vector<std::thread> threads;
  std::atomic<int> good = 0;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&] {
      for (int i = 0; i < 100; ++i) good += one.call(hit(), patient).remaining == 4 ? 1 : 0;
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(good, 400);
}

TEST(ClientLibrary, AddressesThatCannotBeReadAreRefused) {
  for (const char* address :
       {"", "127.0.0.1:8321", "ftp://a", "divvy://", "divvy://:1", "divvy://a:0", "divvy://a:65536",
        "divvy://user@a", "resp://a%2:b@c", "resp://[::1", "resp://a:1,", "http://a/path",
        "limitd://a,a:9231", "https://a/path", "httpss://a", "s://a"})
    EXPECT_THROW(client{address}, std::invalid_argument) << address;
  for (const char* address :
       {"resp://app:s3cret@fish@a:0", "resp://app:s3cret%fish@a", "app:s3cretfish@a",
        "ftp://app:s3cretfish@a", "rediss://app:s3cret%fish@a", "divvy://app:s3cretfish@a",
        "resp://app:s3cretfish@a/path", "resp://app:s3cret://fish@[::1"}) {
    try {
      const client one(address);
      ADD_FAILURE() << address;
    } catch (const std::invalid_argument& error) {
      const std::string text = error.what();
      for (const char* part : {"app", "s3cret", "fish"})
        EXPECT_EQ(text.find(part), std::string::npos) << text;
    }
  }
  client_options options;
  options.shard = true;
  EXPECT_THROW(client("resp://a", options), std::invalid_argument);
  options = {};
  options.connections = 0;
  EXPECT_THROW(client("resp://a", options), std::invalid_argument);
}

TEST(MockClient, ReturnsTheConfiguredAnswers) {
  mock_client mock;
  EXPECT_TRUE(mock.call(hit("1")).is_allowed());
  mock.next(mock_client::failed(client_errc::timeout, "slow"));
  mock.on([](const client_request& request) {
    return request.verb == client_verb::take ? mock_client::denied(3s) : mock_client::allowed();
  });
  EXPECT_EQ(mock.call(hit("2")).error, client_errc::timeout);
  EXPECT_EQ(mock.call(hit(std::string(100, '3'))).retry_after, 3s);
  client_request put = hit("4");
  put.verb = client_verb::put;
  EXPECT_TRUE(mock.call(put).allowed);
  const auto asked = mock.requests();
  ASSERT_EQ(asked.size(), 4u);
  EXPECT_EQ(asked[2].request.subject.entries[0].value, std::string(100, '3'));
  EXPECT_TRUE(mock.requests().empty());
  bool ended = false;
  const auto id = mock.submit(hit("5"), [&](client_result&& result) {
    ended = true;
    EXPECT_EQ(result.error, client_errc::cancelled);
  });
  EXPECT_TRUE(mock.cancel(id));
  mock.poll(0ms);
  EXPECT_TRUE(ended);
}

}  // namespace
}  // namespace sluice::tests::client_library_test
