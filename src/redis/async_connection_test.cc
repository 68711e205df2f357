// A connection to Redis (redis/async_connection.h) on the test's own clock, against a peer that
// sends what the test wants: what a Redis, or another program at its port, may do.
#include "redis/async_connection.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <deque>
#include <functional>
#include <iterator>
#include <list>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/bounds.h"
#include "redis/loop_test.h"
#include "redis/peer_test.h"
#include "tests/support/dice.h"

namespace sluice::redis {
namespace {

constexpr int64_t ms = 1000, second = 1'000'000;
constexpr size_t command = 6;  // the bytes of one with an index of one digit

class AsyncConnectionTest : public testing::Test, public AsyncConnection::Owner {
 protected:
  void on_answer(const Sender& sender, Reply reply, std::string_view text) override {
    ++answered_;
    told_ += std::to_string(sender.index) + (reply == Reply::error ? " error " : " says ") +
             std::string(text.substr(0, 40)) + "; ";
  }
  bool on_late(const Sender& sender) override {
    ++late_;
    told_ += std::to_string(sender.index) + " late; ";
    if (at_late_) at_late_();
    return sender.kind == 1;
  }
  void on_lost(const Sender& sender) override { told_ += std::to_string(sender.index) + " lost; "; }
  void on_change() override {}
  void on_news(bool good, const std::string& text) override {
    ++news_;
    last_news_ = (good ? "good: " : "bad: ") + text;
  }
  std::vector<net::Address> addresses() override { return addresses_; }

  AsyncConnection& connection() {
    if (!connection_) {
      for (size_t i = options_.nodes.size(); i < addresses_.size(); ++i)
        options_.nodes.push_back({"node" + std::to_string(i), 1});
      for (size_t i = 0; i < addresses_.size(); ++i) addresses_[i].node = i;
      connection_ = std::make_unique<AsyncConnection>(options_, nullptr, loop_, *this, 1,
                                                      [] { return now_us_; });
    }
    return *connection_;
  }
  std::optional<base::Time> advance(int64_t by_us = 0) {
    now_us_ += by_us;
    return connection().advance({now_us_});
  }
  void ask(uint32_t index, uint32_t kind = 1) {
    connection().out() += "ask" + std::to_string(index) + "\r\n";
    connection().sent({kind, 0, 0, index}, {now_us_ + 50 * ms});
  }
  // Turns the loop until nothing happens any longer.
  void settle() {
    while (loop_.turn(20)) {
    }
  }
  void greet(Peer& peer) {
    advance();
    settle();
    ASSERT_TRUE(peer.accept());
    settle();
    EXPECT_NE(peer.heard("PING").find("PING"), std::string::npos);
    peer.say("+PONG\r\n");
    settle();
  }
  std::string told() { return std::exchange(told_, ""); }

  Options options_;
  FakeLoop loop_;
  std::vector<net::Address> addresses_;
  std::unique_ptr<AsyncConnection> connection_;
  static inline int64_t now_us_ = 1'000 * second;
  std::function<void()> at_late_;
  size_t answered_ = 0, late_ = 0;
  std::string told_, last_news_;
  int news_ = 0;
};

TEST_F(AsyncConnectionTest, ReadsAnswersInOrderForAnySplit) {
  Peer peer;
  peer.listen();
  addresses_ = {peer.address};
  greet(peer);
  EXPECT_EQ(connection().state(), ConnectionState::up);
  EXPECT_EQ(last_news_, "good: localhost:6379: connected");
  for (uint32_t i = 0; i < 5; ++i) ask(i);
  settle();
  EXPECT_EQ(peer.heard("ask4"), "ask0\r\nask1\r\nask2\r\nask3\r\nask4\r\n");
  for (const char c : std::string("$3\r\nabc\r\n-ERR no\r\n:7\r\n$-1\r\n*2\r\n$1\r\nx\r\n:1\r\n")) {
    peer.say({&c, 1});
    loop_.turn(20);
  }
  settle();
  EXPECT_EQ(told(), "0 says abc; 1 error ERR no; 2 says 7; 3 says ; 4 says ; ");
}

// An answer after its call's deadline is dropped, and is not taken as the next call's answer.
TEST_F(AsyncConnectionTest, ALateAnswerIsDropped) {
  Peer peer;
  peer.listen();
  addresses_ = {peer.address};
  greet(peer);
  ask(0);
  ask(1, 2);  // with a later deadline
  settle();
  EXPECT_TRUE(connection().takes());
  advance(60 * ms);
  EXPECT_EQ(told(), "0 late; 1 late; ");
  EXPECT_FALSE(connection().takes());
  EXPECT_EQ(connection().state(), ConnectionState::silent);
  peer.say("$4\r\nold0\r\n");
  settle();
  EXPECT_FALSE(connection().takes());
  peer.say("$4\r\nold1\r\n");
  settle();
  EXPECT_EQ(told(), "1 says old1; ");
  EXPECT_TRUE(connection().takes());
  ask(2);
  settle();
  peer.say("$4\r\nnew2\r\n");
  settle();
  EXPECT_EQ(told(), "2 says new2; ");
}

// What is given up because of a late answer may be taken back on the same connection, in each state
// of its memory.
TEST_F(AsyncConnectionTest, TheOwnerMaySendWhenAnAnswerIsLate) {
  constexpr uint32_t back = 1'000;
  for (const uint32_t count : {1u, 63u, 64u, 65u}) {
    SCOPED_TRACE(count);
    Peer peer;
    peer.listen();
    addresses_ = {peer.address};
    at_late_ = nullptr;
    connection_.reset();
    greet(peer);
    for (uint32_t i = 0; i < count; ++i) ask(i);
    at_late_ = [&] { ask(back, 2), at_late_ = nullptr; };
    advance(50 * ms);
    told();
    loop_.turn(0);
    for (uint32_t i = 0; i <= count; ++i) peer.say("+" + std::to_string(i) + "\r\n");
    for (int turns = 0; turns < 2'000 && connection().under_way() > 0; ++turns) loop_.turn(5);
    EXPECT_EQ(told(), "1000 says " + std::to_string(count) + "; ");
    EXPECT_TRUE(connection().takes());
  }
}

// An answer that arrived in time and was read late is in time.
TEST_F(AsyncConnectionTest, AnUnreadAnswerThatArrivedInTimeIsNotLate) {
  Peer peer;
  peer.listen();
  addresses_ = {peer.address};
  greet(peer);
  ask(0);
  settle();
  peer.say("$2\r\nok\r\n");
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  advance(10 * second);
  EXPECT_EQ(told(), "0 says ok; ");
  EXPECT_EQ(connection().state(), ConnectionState::up);
}

TEST_F(AsyncConnectionTest, ASecondOfSilenceEndsTheConnection) {
  Peer peer;
  peer.listen();
  addresses_ = {peer.address};
  greet(peer);
  ask(0);
  ask(1, 2);
  settle();
  advance(60 * ms);
  told();
  advance(900 * ms);
  EXPECT_EQ(connection().state(), ConnectionState::silent);
  advance(200 * ms);
  EXPECT_EQ(told(), "1 lost; ");
  EXPECT_EQ(connection().state(), ConnectionState::down);
  EXPECT_EQ(last_news_, "bad: localhost:6379: it does not answer; trying again");
}

// A reply that never ends counts as silence, however many bytes arrive.
// Answers that are late but come do not silence the connection: it sends what is answered in time.
TEST_F(AsyncConnectionTest, ASaturatedRedisIsAskedForWhatItAnswersInTime) {
  constexpr uint32_t redis_can = 8, asked = 20;  // in a millisecond
  constexpr int64_t run_ms = 4'000;
  Peer peer;
  peer.listen();
  addresses_ = {peer.address};
  greet(peer);
  size_t heard = 0, sent = 0, refused = 0;
  uint64_t silent = 0;
  const auto pass = [&](uint32_t requests) {
    advance(ms);
    uint32_t took = 0;
    for (uint32_t i = 0; i < requests; ++i) {
      if (!connection().takes()) continue;
      ask(7);
      ++took;
    }
    sent += took;
    refused += requests - took;
    loop_.turn(0);
    while (heard < sent * command) {
      loop_.turn(0);
      heard += peer.heard().size();
    }
    const size_t answers = std::min<size_t>(connection().under_way(), redis_can);
    std::string text;
    for (size_t i = 0; i < answers; ++i) text += ":1\r\n";
    peer.say(text);
    const size_t left = connection().under_way() - answers;
    for (int turns = 0; turns < 2'000 && connection().under_way() > left; ++turns) loop_.turn(5);
    ASSERT_EQ(connection().under_way(), left);
    if (connection().state() != ConnectionState::up) ++silent;
  };
  // At once so much that most of it is late: the rest is sent while late answers still come.
  pass(2'000);
  bool went_on = false;
  for (int i = 0; i < 250; ++i) {
    pass(1);
    went_on |= late_ > 0 && connection().takes() && connection().under_way() > 0;
  }
  EXPECT_GT(late_, 1'000u);
  EXPECT_TRUE(went_on);
  EXPECT_EQ(silent, 0u);
  answered_ = late_ = 0;
  told();
  for (int64_t i = 0; i < run_ms; ++i) pass(asked);
  EXPECT_GE(answered_, static_cast<size_t>(run_ms * redis_can * 9 / 10));
  EXPECT_LE(late_, static_cast<size_t>(run_ms * redis_can / 100));
  EXPECT_GT(refused, 0u);
  EXPECT_EQ(silent, 0u);
  // It stops: then nothing more is sent until it answers.
  advance(60 * ms);
  EXPECT_EQ(connection().state(), ConnectionState::silent);
  EXPECT_FALSE(connection().takes());
  peer.say(":1\r\n");
  for (int turns = 0; turns < 2'000 && connection().state() != ConnectionState::up; ++turns)
    loop_.turn(5);
  EXPECT_EQ(connection().state(), ConnectionState::up);
}

TEST_F(AsyncConnectionTest, ABigBurstThatIsAnsweredInTimeIsSentWhole) {
  constexpr size_t burst = 10'000;
  Peer peer;
  peer.listen();
  addresses_ = {peer.address};
  greet(peer);
  for (int round = 0; round < 3; ++round) {
    for (size_t i = 0; i < burst; ++i) {
      ASSERT_TRUE(connection().takes()) << i;
      ask(7);
    }
    loop_.turn(0);
    size_t heard = 0;
    std::string text;
    for (size_t i = 0; i < burst / 40; ++i) text += ":1\r\n";
    for (int i = 0; i < 40; ++i) {
      advance(ms);
      while (heard < (static_cast<size_t>(i) + 1) * burst / 40 * command) {
        loop_.turn(0);
        heard += peer.heard().size();
      }
      peer.say(text);
      const size_t left = burst - (static_cast<size_t>(i) + 1) * burst / 40;
      for (int turns = 0; turns < 2'000 && connection().under_way() > left; ++turns) loop_.turn(5);
      // What comes meanwhile is sent too.
      ASSERT_TRUE(connection().takes()) << i;
    }
    now_us_ += second;
  }
  EXPECT_EQ(answered_, 3 * burst);
  EXPECT_EQ(late_, 0u);
}

TEST_F(AsyncConnectionTest, ATrickleOfBytesCountsAsSilence) {
  Peer peer;
  peer.listen();
  addresses_ = {peer.address};
  greet(peer);
  ask(0);
  settle();
  peer.say("*1000000\r\n");
  for (int i = 0; i < 30; ++i) {
    peer.say(":1\r\n");
    settle();
    advance(50 * ms);
  }
  EXPECT_EQ(connection().state(), ConnectionState::down);
}

TEST_F(AsyncConnectionTest, AReplyHasABound) {
  for (const std::string head : {"$2000000000\r\n", "+"}) {
    Peer peer;
    peer.listen();
    addresses_ = {peer.address};
    connection_.reset();
    greet(peer);
    ask(0);
    settle();
    told();
    peer.say(head);
    const std::string much(64 << 10, 'x');
    size_t said = 0;
    for (; said < 4 * base::bounds::redis_reply_bytes_max &&
           connection().state() == ConnectionState::up;
         said += much.size()) {
      peer.say(much);
      settle();
    }
    EXPECT_LE(said, 2 * base::bounds::redis_reply_bytes_max);
    EXPECT_EQ(told(), "0 lost; ");
    advance();
    EXPECT_NE(last_news_.find("more than 1048576 bytes"), std::string::npos) << last_news_;
  }
}

TEST_F(AsyncConnectionTest, DetectsAPeerThatIsNotRedis) {
  for (const std::string says : {"HTTP/1.1 400 Bad Request\r\n\r\n", "SSH-2.0-x\r\n", "\r\n"}) {
    Peer peer;
    peer.listen();
    addresses_ = {peer.address};
    connection_.reset();
    advance();
    settle();
    ASSERT_TRUE(peer.accept());
    peer.say(says);
    settle();
    advance();
    EXPECT_EQ(connection().state(), ConnectionState::down);
    EXPECT_NE(last_news_.find("does not speak Redis' protocol"), std::string::npos) << last_news_;
  }
}

TEST_F(AsyncConnectionTest, AnUnrequestedAnswerEndsTheConnection) {
  Peer peer;
  peer.listen();
  addresses_ = {peer.address};
  greet(peer);
  peer.say("+what?\r\n");
  settle();
  EXPECT_EQ(connection().state(), ConnectionState::down);
  EXPECT_EQ(told(), "");
}

TEST_F(AsyncConnectionTest, OnlyARejectedLoginCountsAsRefused) {
  const std::pair<const char*, ConnectionState> greetings[] = {
      {"-NOAUTH Authentication required.\r\n", ConnectionState::refused},
      {"-WRONGPASS invalid username-password pair\r\n", ConnectionState::refused},
      {"-LOADING Redis is loading the dataset in memory\r\n", ConnectionState::down},
      {"-MASTERDOWN AsyncConnection with MASTER is down\r\n", ConnectionState::down},
      {"-ERR max number of clients reached\r\n", ConnectionState::down},
  };
  for (const auto& [says, state] : greetings) {
    Peer peer;
    peer.listen();
    addresses_ = {peer.address};
    connection_.reset();
    advance();
    settle();
    ASSERT_TRUE(peer.accept());
    peer.say(says);
    settle();
    advance();
    EXPECT_EQ(connection().state(), state) << says;
    EXPECT_EQ(connection().is_refused(), state == ConnectionState::refused);
  }
}

// The peer closes right after an answer: the answer counts, and the end is noticed.
TEST_F(AsyncConnectionTest, NoticesAnEndThatFollowsAnAnswer) {
  Peer peer;
  peer.listen();
  addresses_ = {peer.address};
  greet(peer);
  ask(0);
  settle();
  peer.heard("ask0");
  peer.say("$2\r\nok\r\n");
  peer.hang_up();
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  settle();
  EXPECT_EQ(told(), "0 says ok; ");
  EXPECT_EQ(connection().state(), ConnectionState::down);
}

TEST_F(AsyncConnectionTest, TriesTheNextAddressAtOnceAfterARefusal) {
  Peer nobody, peer;  // the first one does not listen
  peer.listen();
  addresses_ = {nobody.address, peer.address};
  ask(0);
  advance();
  settle();
  advance();
  settle();
  ASSERT_TRUE(peer.accept());
  peer.say("+PONG\r\n");
  settle();
  EXPECT_EQ(connection().state(), ConnectionState::up);
  EXPECT_EQ(last_news_, "good: node1:1: connected");
  EXPECT_EQ(news_, 1);
  peer.say("$2\r\nok\r\n");
  settle();
  EXPECT_EQ(told(), "0 says ok; ");
}

// After all nodes have refused, the connection pauses, longer each time and by random times.
TEST_F(AsyncConnectionTest, PausesGrowAndAreRandomized) {
  Peer nobody, neither;
  addresses_ = {nobody.address, neither.address};
  int64_t last = 0;
  std::map<int64_t, int> seen;
  for (int i = 0; i < 12; ++i) {
    const uint64_t before = connection().losses();
    std::optional<base::Time> next = advance();
    settle();
    next = advance();
    settle();
    next = advance();
    ASSERT_EQ(connection().losses(), before + 2);
    const int64_t pause = next->us - now_us_;
    EXPECT_GE(pause, std::min<int64_t>(10 * ms << i, 500 * ms)) << i;
    EXPECT_LE(pause, std::min<int64_t>(20 * ms << i, second)) << i;
    ++seen[pause];
    last = pause;
    EXPECT_FALSE(connection().takes());
    now_us_ = next->us;
  }
  EXPECT_GE(last, 500 * ms);
  EXPECT_GE(seen.size(), 10u);
  EXPECT_EQ(news_, 1);  // about the last node
}

// A node that takes no writes is left, and tried again after pauses that grow. That is reported
// once.
TEST_F(AsyncConnectionTest, DoesNotRetryReplicasWithoutAPause) {
  Peer replica;
  replica.listen();
  addresses_ = {replica.address};
  int64_t pauses = 0;
  for (int i = 0; i < 8; ++i) {
    greet(replica);
    ASSERT_EQ(connection().state(), ConnectionState::up);
    ask(0);
    settle();
    replica.say("-READONLY You can't write against a read only replica.\r\n");
    settle();
    connection().leave_node();
    const auto next = advance();
    pauses += next->us - now_us_;
    now_us_ = next->us;
  }
  EXPECT_GE(pauses, 2 * second);
  EXPECT_EQ(news_, 2);
  EXPECT_EQ(last_news_, "bad: localhost:6379: it takes no writes; trying again");
  // The replica becomes a primary.
  greet(replica);
  ask(1);
  settle();
  replica.say("$2\r\nok\r\n");
  settle();
  EXPECT_EQ(last_news_, "good: localhost:6379: connected");
}

// After a peer has closed, the same node is tried first, as it may be back, and the next node may
// be a replica.
TEST_F(AsyncConnectionTest, AConnectionThatEndsIsMadeAgainToTheSameNode) {
  Peer first, second_one;
  first.listen();
  second_one.listen();
  addresses_ = {first.address, second_one.address};
  greet(first);
  first.hang_up();
  settle();
  const auto next = advance();
  now_us_ = next->us;
  greet(first);
  EXPECT_EQ(last_news_, "good: localhost:6379: connected");
  // After a node was silent, the next node is tried.
  ask(0);
  settle();
  advance(60 * ms);
  advance(1100 * ms);
  now_us_ = advance()->us;
  greet(second_one);
  EXPECT_EQ(last_news_, "good: node1:1: connected");
}

// A request that was answered with an error, as Redis could not be reached, must not be sent, and
// so charged, minutes later.
TEST_F(AsyncConnectionTest, ForgetsCommandsThatWereNeverSent) {
  Peer peer;  // it does not listen yet, and has no address
  ask(0);
  ask(1, 2);
  EXPECT_TRUE(connection().takes());
  advance();
  advance(60 * ms);
  EXPECT_EQ(told(), "0 late; 1 late; 1 lost; ");
  EXPECT_FALSE(connection().takes());
  EXPECT_EQ(connection().under_way(), 0u);
  peer.listen();
  addresses_ = {peer.address};
  now_us_ += 60 * second;
  greet(peer);
  ask(2);
  settle();
  EXPECT_EQ(peer.heard("ask"), "ask2\r\n");
}

TEST_F(AsyncConnectionTest, BoundsTheCommandsInFlight) {
  Peer peer;
  peer.listen();
  addresses_ = {peer.address};
  greet(peer);
  for (uint32_t i = 0; i < base::bounds::redis_commands_max; ++i) {
    ASSERT_FALSE(connection().is_full());
    ask(i);
  }
  EXPECT_TRUE(connection().is_full());
  advance(60 * ms);
  told();
  advance(1100 * ms);
  EXPECT_FALSE(connection().is_full());
  EXPECT_EQ(connection().under_way(), 0u);
  // Full by bytes, with few requests.
  now_us_ = advance()->us;
  greet(peer);
  connection().out().append(base::bounds::redis_bytes_max, 'x');
  EXPECT_TRUE(connection().is_full());
}

// What the socket does not take is sent when it takes more.
TEST_F(AsyncConnectionTest, SendsTheRestWhenTheSocketHasRoom) {
  Peer peer;
  peer.listen();
  addresses_ = {peer.address};
  greet(peer);
  const std::string much(12 << 20, 'y');
  connection().out() += much;
  connection().sent({1, 0, 0, 0}, {now_us_ + second});
  settle();
  size_t heard = 0;
  for (int i = 0; i < 3000 && heard < much.size(); ++i) {
    heard += peer.heard().size();
    loop_.turn(5);
  }
  EXPECT_EQ(heard, much.size());
  peer.say("$2\r\nok\r\n");
  settle();
  EXPECT_EQ(told(), "0 says ok; ");
}

// A worker's connection to a Redis of its own, and what has to become of each command.
class CrossedWorker final : public AsyncConnection::Owner {
 public:
  CrossedWorker(FakeLoop& loop, uint64_t seed) : loop_(loop) {
    peer_.listen();
    options_.nodes = {{"node", 1}};
    options_.deadline = base::milliseconds(50);
    connection_ = std::make_unique<AsyncConnection>(options_, nullptr, loop, *this, seed,
                                                    [] { return ticks_us; });
  }

  void on_answer(const Sender& sender, Reply, std::string_view text) override {
    told_ += std::to_string(sender.index) + " says " + std::string(text) + "; ";
  }
  bool on_late(const Sender& sender) override {
    told_ += std::to_string(sender.index) + " late; ";
    return sender.kind == dropped_if_late;
  }
  void on_lost(const Sender& sender) override { told_ += std::to_string(sender.index) + " lost; "; }
  void on_change() override {}
  void on_news(bool, const std::string&) override {}
  std::vector<net::Address> addresses() override { return {peer_.address}; }

  // Past every pause, so that it connects.
  void connect() {
    pass(second);
    advance();
    ASSERT_TRUE(peer_.accept());
    std::string greeting;
    await([&] { return (greeting += peer_.heard()).find("PING\r\n") != std::string::npos; });
    peer_.say("+PONG\r\n");
    heard_ = true;
    await([this] { return connection_->state() == ConnectionState::up; });
    ASSERT_EQ(connection_->state(), ConnectionState::up);
  }
  void ask(size_t count, bool keeps) {
    std::string text;
    for (; count > 0; --count) {
      if (!connection_->takes()) {
        ++refused;
        continue;
      }
      const std::string one = "ask" + std::to_string(next_) + "\r\n";
      text += one;
      connection_->out() += one;
      connection_->sent({keeps ? kept_if_late : dropped_if_late, 0, 0, next_}, {now_us_ + 50 * ms});
      under_way_.push_back({next_++, keeps, now_us_ + 50 * ms});
    }
    loop_.turn();  // what is to be sent is sent at its end
    EXPECT_EQ(text.empty() ? "" : peer_.heard(text.substr(text.size() - 3)), text);
  }
  void answer(size_t count) {
    std::string text;
    for (count = std::min(count, under_way_.size()); count > 0; --count, under_way_.pop_front()) {
      const Command& one = under_way_.front();
      const std::string its = std::to_string(one.index);
      text += "$" + std::to_string(its.size()) + "\r\n" + its + "\r\n";
      if (!one.late || one.keeps) expect(one, "says " + its);
      if (one.late) --late_;
      heard_ = true;
      ++answered;
    }
    peer_.say(text);
    await([this] { return connection_->under_way() == under_way_.size(); });
  }
  void pass(int64_t us) {
    now_us_ += us;
    ticks_us += us;
  }
  void step_back(int64_t us) {
    connection_->step_back({us});
    now_us_ -= us;
    heard_us_ -= us;
    for (Command& one : under_way_) one.due_us -= us;
  }
  // Returns whether the connection was given up.
  bool advance() {
    connection_->advance({now_us_});
    if (std::exchange(heard_, false)) heard_us_ = now_us_;
    for (Command& one : under_way_) {
      if (one.late || one.due_us > now_us_) continue;
      if (late_++ == 0) heard_us_ = now_us_;
      one.late = true;
      expect(one, "late");
      ++were_late;
    }
    if (late_ == 0 || now_us_ - heard_us_ < second) return false;
    lose();
    return true;
  }
  void cut() {
    peer_.hang_up();
    await([this] { return connection_->state() == ConnectionState::down; });
    lose();
  }
  // Has become of each command what had to?
  void check() {
    EXPECT_EQ(told_, expected_);
    told_.clear();
    expected_.clear();
    EXPECT_EQ(connection_->under_way(), under_way_.size());
  }

  size_t refused = 0, answered = 0, were_late = 0, were_lost = 0;

 private:
  static constexpr uint32_t dropped_if_late = 1, kept_if_late = 2;
  struct Command {
    uint32_t index;
    bool keeps;
    int64_t due_us;
    bool late = false;
  };

  // Turns the loop until that holds, or for two seconds.
  void await(const std::function<bool()>& holds) {
    for (int i = 0; i < 2'000 && !holds(); ++i) loop_.turn(1);
  }
  void expect(const Command& one, const std::string& what) {
    expected_ += std::to_string(one.index) + " " + what + "; ";
  }
  void lose() {
    peer_.hang_up();
    for (const Command& one : under_way_) {
      if (one.late && !one.keeps) continue;
      expect(one, "lost");
      ++were_lost;
    }
    under_way_.clear();
    late_ = 0;
  }

  static inline int64_t ticks_us = 1'000 * second;
  FakeLoop& loop_;
  Peer peer_;
  Options options_;
  int64_t now_us_ = 2'000 * second, heard_us_ = 0;
  bool heard_ = false;
  size_t late_ = 0;
  uint32_t next_ = 0;
  std::deque<Command> under_way_;
  std::string told_, expected_;
  std::unique_ptr<AsyncConnection> connection_;
};

// Late answers, cuts, silences, deadlines and steps of the clock, in any order, of several workers.
TEST(AsyncConnections, EachCommandHasOneFateWhateverHappens) {
  size_t refused = 0, answered = 0, were_late = 0, were_lost = 0, silences = 0;
  for (uint32_t seed = 0; seed < 15; ++seed) {
    SCOPED_TRACE(seed);
    tests::Dice dice(seed);
    FakeLoop loop;
    std::list<CrossedWorker> workers;
    for (uint32_t i = 0; i < 3; ++i) {
      workers.emplace_back(loop, i + 1);
      workers.back().connect();
    }
    for (int step = 0; step < 200 && !testing::Test::HasFailure(); ++step) {
      CrossedWorker& one = *std::next(workers.begin(), dice(3));
      const int what = dice(40);
      if (what < 16) {
        one.ask(1 + dice(size_t{30}), dice(4) == 0);
      } else if (what < 28) {
        one.answer(1 + dice(size_t{40}));
      } else if (what < 37) {
        one.pass(dice(dice(3) == 0 ? 1'500 * ms : 30 * ms));
        if (one.advance()) {
          ++silences;
          one.check();
          one.connect();
        }
      } else if (what < 38) {
        one.step_back(dice(100 * ms));
      } else {
        one.cut();
        one.check();
        one.advance();
        one.connect();
      }
      one.check();
    }
    for (const CrossedWorker& one : workers) {
      refused += one.refused, answered += one.answered;
      were_late += one.were_late, were_lost += one.were_lost;
    }
  }
  for (const size_t count : {refused, answered, were_late, were_lost}) EXPECT_GT(count, 100u);
  EXPECT_GT(silences, 5u);
}

}  // namespace
}  // namespace sluice::redis
