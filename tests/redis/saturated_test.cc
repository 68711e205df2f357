// What clients of the real server see of a Redis that is asked for more than it can do: what it
// would answer too late is refused at once, and is not charged; also while Redis becomes faster and
// slower, while its connections are cut, and while the policy is reloaded.
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <charconv>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "tests/redis/world.h"
#include "tests/support/dice.h"
#include "tests/support/patience.h"

namespace sluice::tests::saturated_test {
namespace {

using Clock = std::chrono::steady_clock;

// A way to a Redis that lets one call of a script through at a time, over all connections in turn,
// so that Redis seems to need that time for each. It catches up after a pause of this process.
class SlowWay {
 public:
  SlowWay(uint16_t to, std::chrono::microseconds each) : to_(to), each_us_(each.count()) {
    sockaddr_in address = loopback(0);
    socklen_t size = sizeof address;
    if (listener_ < 0 ||
        ::bind(listener_, reinterpret_cast<const sockaddr*>(&address), size) != 0 ||
        ::listen(listener_, 64) != 0 ||
        ::getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size) != 0)
      throw std::runtime_error("the way to Redis cannot listen");
    port_ = ntohs(address.sin_port);
    thread_ = std::thread([this] { carry(); });
  }
  ~SlowWay() {
    ends_ = true;
    thread_.join();
    ::close(listener_);
  }
  SlowWay(const SlowWay&) = delete;
  SlowWay& operator=(const SlowWay&) = delete;

  uint16_t port() const { return port_; }
  void set_each(std::chrono::microseconds each) { each_us_ = each.count(); }
  // Ends all connections; new ones are accepted.
  void cut() { cut_ = true; }

 private:
  struct Connection {
    int client, redis;
    std::string in = {};
    bool ended = false;
  };

  static sockaddr_in loopback(uint16_t port) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return address;
  }
  static void send_all(int to, std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t sent = ::send(to, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent <= 0) return;  // its end is found by reading
      bytes.remove_prefix(static_cast<size_t>(sent));
    }
  }
  // The number behind `at`, and the place behind its line. Nothing: the line is not complete.
  static std::optional<size_t> number(std::string_view text, size_t& at) {
    const size_t end = text.find("\r\n", at);
    size_t value = 0;
    if (end == text.npos) return std::nullopt;
    std::from_chars(text.data() + at + 1, text.data() + end, value);
    at = end + 2;
    return value;
  }
  // The size of the first command; 0: it is not complete.
  static size_t first_command(std::string_view text) {
    size_t at = 0;
    const auto words = text.empty() ? std::nullopt : number(text, at);
    if (!words) return 0;
    for (size_t i = 0; i < *words; ++i) {
      const auto size = at < text.size() ? number(text, at) : std::nullopt;
      if (!size) return 0;
      at += *size + 2;
    }
    return at <= text.size() ? at : 0;
  }
  static bool calls_script(std::string_view command) {
    return command.substr(0, 32).find("\r\nEVAL") != command.npos;
  }

  void accept() {
    const int client = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
    const int redis = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const sockaddr_in address = loopback(to_);
    if (client >= 0 &&
        ::connect(redis, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0) {
      connections_.push_back({client, redis});
      return;
    }
    ::close(client);
    ::close(redis);
  }
  void read_of(Connection& one, short client_events, short redis_events) {
    std::array<char, 65'536> bytes{};
    if (client_events != 0) {
      const ssize_t got = ::recv(one.client, bytes.data(), bytes.size(), 0);
      one.ended |= got <= 0;
      if (got > 0) one.in.append(bytes.data(), static_cast<size_t>(got));
    }
    if (redis_events != 0) {
      const ssize_t got = ::recv(one.redis, bytes.data(), bytes.size(), 0);
      one.ended |= got <= 0;
      if (got > 0) send_all(one.client, {bytes.data(), static_cast<size_t>(got)});
    }
  }
  // Sends the first command on, unless it has to wait for its turn. False: nothing was sent.
  bool send_first(Connection& one, bool has_turn) {
    const size_t size = first_command(one.in);
    if (size == 0) return false;
    const std::string_view command = std::string_view(one.in).substr(0, size);
    if (calls_script(command) && !has_turn) return false;
    send_all(one.redis, command);
    one.in.erase(0, size);
    return true;
  }
  void send_on() {
    for (Connection& one : connections_)
      while (send_first(one, false)) {
      }
    const auto now = Clock::now();
    const std::chrono::microseconds each(each_us_);
    constexpr auto behind_most = std::chrono::milliseconds(200);
    for (next_ = std::max(next_, now - behind_most); next_ <= now; next_ += each) {
      bool any = false;
      for (size_t i = 0; i < connections_.size() && !any; ++i)
        any = send_first(connections_[++turn_ % connections_.size()], true);
      if (any) continue;
      next_ = now;  // nothing waits
      return;
    }
  }
  void end(bool all) {
    for (const Connection& one : connections_) {
      if (!all && !one.ended) continue;
      ::close(one.client);
      ::close(one.redis);
    }
    std::erase_if(connections_, [all](const Connection& one) { return all || one.ended; });
  }
  void carry() {
    while (!ends_) {
      std::vector<pollfd> all{{listener_, POLLIN, 0}};
      for (const Connection& one : connections_) {
        all.push_back({one.client, POLLIN, 0});
        all.push_back({one.redis, POLLIN, 0});
      }
      ::poll(all.data(), all.size(), 1);
      for (size_t i = 0; i < connections_.size(); ++i)
        read_of(connections_[i], all[2 * i + 1].revents, all[2 * i + 2].revents);
      end(cut_.exchange(false));
      if (all[0].revents != 0) accept();
      send_on();
    }
    end(true);
  }

  const uint16_t to_;
  const int listener_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  uint16_t port_ = 0;
  std::atomic<int64_t> each_us_;
  std::atomic<bool> ends_{false}, cut_{false};
  std::vector<Connection> connections_;  // of the thread
  size_t turn_ = 0;
  Clock::time_point next_{};
  std::thread thread_;
};

constexpr int64_t quota = 1'000'000;
const std::string rules =
    "rules:\n  - name: own\n    match: { r: \"*\" }\n    actor: r\n"
    "    limit: { quota: 1000000, window: 30d, algorithm: fixed_window }\n";

// The replies of a server, by what they say.
struct Replies {
  int64_t granted = 0, overloaded = 0, late = 0, lost = 0;
  std::string other;

  void add(const std::string& reply) {
    const auto says = [&](const char* text) { return reply.find(text) != reply.npos; };
    if (reply.starts_with("OK true"))
      ++granted;
    else if (says("too many requests wait for Redis"))
      ++overloaded;
    else if (says("Redis did not answer in"))
      ++late;
    else if (says("Redis cannot be reached"))
      ++lost;
    else
      other = reply;
  }
};

// Clients that ask one request at a time, and the next one a moment after the reply.
class Crowd {
 public:
  explicit Crowd(uint16_t port) : port_(port) {}

  void grow(size_t by) {
    for (; by > 0; --by) clients_.push_back({connected(port_)});
  }
  size_t size() const { return clients_.size(); }
  // Sends the requests that are due and reads the replies that are there. `asks`: false: it only
  // waits for replies. False: nothing is awaited any more.
  bool turn(Replies& replies, bool asks = true) {
    bool awaits = false;
    const auto now = Clock::now();
    for (Client& one : clients_) {
      if (one.waits) {
        const auto reply = one.socket.peek_line(Milliseconds(0));
        if (!reply && one.socket.ended()) throw std::runtime_error("the server ended a connection");
        if (reply) {
          replies.add(*reply);
          if (!reply->starts_with("OK")) one.socket = connected(port_);  // an error ends it
          one.waits = false;
          one.next = now + std::chrono::milliseconds(30);
        }
      } else if (asks && one.next <= now) {
        one.waits = one.socket.send("HIT r=a\n");
      }
      awaits |= one.waits;
    }
    std::this_thread::sleep_for(Milliseconds(2));
    return awaits;
  }
  void await_all(Replies& replies) {
    for (const Deadline end = soon(); turn(replies, false);)
      if (Clock::now() > end) throw std::runtime_error("a request has no reply");
  }

 private:
  struct Client {
    TcpClient socket;
    bool waits = false;
    Clock::time_point next{};
  };
  const uint16_t port_;
  std::vector<Client> clients_;
};

// The units that Redis has taken of the limit.
int64_t charged(RedisWorld& world) {
  EXPECT_EQ(world.await_hit("r=a", "OK true"), "");
  const std::string reply = world.hit("r=a");
  EXPECT_TRUE(reply.starts_with("OK true ")) << reply;
  return quota - std::stoll(reply.substr(8)) - 2;
}

// What /metrics counts of them; `granted`: not counted.
Replies counted(const RedisWorld& world) {
  const auto failures = [&](const char* reason) {
    return std::stoll(
        world.metric("sluice_redis_failures_total{reason=\"" + std::string(reason) + "\"}"));
  };
  return {.overloaded = failures("overloaded"),
          .late = failures("deadline"),
          .lost = failures("store"),
          .other = {}};
}
void expect_counted(const Replies& replies, const Replies& before, const RedisWorld& world) {
  const Replies now = counted(world);
  EXPECT_EQ(now.overloaded - before.overloaded, replies.overloaded);
  EXPECT_EQ(now.late - before.late, replies.late);
  EXPECT_EQ(now.lost - before.lost, replies.lost);
  EXPECT_EQ(replies.other, "");
}

// 300 clients ask a Redis that answers 200 requests a second for what it would need 1.5 s for, and
// it has 1 s.
TEST(ASaturatedRedis, RefusesAtOnceWhatItWouldAnswerLate) {
  RedisServer redis;
  SlowWay way(redis.port(), std::chrono::milliseconds(5));
  RedisWorld world(way.port(), rules, ", deadline_ms: 1000");
  ASSERT_EQ(world.await_hit("r=b", "OK true"), "");  // it has the scripts
  const Replies before = counted(world);
  Crowd crowd(world.divvy_port());
  Replies replies;
  // One by one, so that the server learns what Redis can do before that is too much.
  const auto began = Clock::now();
  while (Clock::now() < began + std::chrono::seconds(5)) {
    if (crowd.size() < 300) crowd.grow(1);
    crowd.turn(replies);
  }
  crowd.await_all(replies);
  EXPECT_GT(replies.granted, 100);
  EXPECT_GT(replies.overloaded, 100);
  EXPECT_LE(replies.late, replies.granted / 20);
  expect_counted(replies, before, world);
  way.set_each(std::chrono::microseconds(0));
  const int64_t units = charged(world);
  EXPECT_GE(units, replies.granted);
  EXPECT_LE(units, replies.granted + replies.late);
}

// Each request has one reply, each reply is counted, and no unit is taken for a request that was
// refused.
TEST(ASaturatedRedis, IsAskedForNoMoreThanItsRepliesSayWhateverHappens) {
  for (const uint32_t seed : {1u, 2u}) {
    SCOPED_TRACE(seed);
    Dice dice(seed);
    RedisServer redis;
    SlowWay way(redis.port(), std::chrono::milliseconds(1));
    RedisWorld world(
        {"127.0.0.1:" + std::to_string(way.port())},
        {.rules = rules, .redis = ", deadline_ms: 150", .environment = {{"SLUICE_WORKERS", "4"}}});
    ASSERT_EQ(world.await_hit("r=b", "OK true"), "");
    const Replies before = counted(world);
    Crowd crowd(world.divvy_port());
    crowd.grow(120);
    Replies replies;
    int reloads = 0;
    for (int step = 0; step < 40; ++step) {
      const auto until = Clock::now() + std::chrono::milliseconds(20 + dice(80));
      way.set_each(std::chrono::microseconds(100 << dice(8)));
      if (dice(5) == 0) way.cut();
      if (dice(3) == 0) {
        world.write_rules(rules + "  - name: other" + std::to_string(++reloads) +
                          "\n    match: { x: y }\n    deny: true\n");
        world.process().signal(SIGHUP);
      }
      while (Clock::now() < until) crowd.turn(replies);
    }
    way.set_each(std::chrono::microseconds(0));
    crowd.await_all(replies);
    EXPECT_GT(replies.granted, 100);
    EXPECT_GT(replies.overloaded, 0);
    EXPECT_GT(replies.late, 0);
    EXPECT_GT(replies.lost, 0);
    expect_counted(replies, before, world);
    const int64_t units = charged(world);
    EXPECT_GE(units, replies.granted);
    EXPECT_LE(units, replies.granted + replies.late + replies.lost);
    EXPECT_GT(reloads, 0);
    EXPECT_TRUE(world.process().says("reloaded")) << world.process().err();
  }
}

}  // namespace
}  // namespace sluice::tests::saturated_test
