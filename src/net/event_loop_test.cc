// The order in which a loop serves sockets, clients that want another turn, and those whose work
// takes long; its timers and tasks against a model.
#include "net/event_loop.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/support/dice.h"
#include "tests/support/patience.h"

namespace sluice::net::event_loop_test {
namespace {

// Writes its name when it is served.
struct Client final : EventLoop::SocketOwner {
  Client(std::string& its_order, char its_name) : order(its_order), name(its_name) {}
  void on_ready(bool, bool, bool) override {
    char byte = 0;
    while (::recv(fd, &byte, 1, MSG_DONTWAIT) > 0) order += name;
  }
  void on_turn() override {
    order += name;
    if (then) then();
  }

  std::string& order;
  const char name;
  int fd = -1;
  std::function<void()> then;
};

struct World {
  World() : ready(order, '.') {
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends), 0);
    ready.fd = ends[0];
    EXPECT_TRUE(loop.watch(ends[0], ready));
    loop.run_ready();  // it is writable
  }
  ~World() {
    for (const int end : ends) ::close(end);
  }
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  // A client whose work takes long; while it works, a request arrives at the socket.
  Client& slow() {
    clients.push_back(std::make_unique<Client>(order, 's'));
    clients.back()->then = [this] { EXPECT_EQ(::send(ends[1], "r", 1, 0), 1); };
    loop.after_others(*clients.back());
    return *clients.back();
  }
  // Runs the loop until everybody was served.
  const std::string& run() {
    for (size_t before = order.size() + 1; before != order.size();) {
      before = order.size();
      loop.run_ready();
    }
    return order;
  }

  std::string order;
  EventLoop loop;
  int ends[2] = {-1, -1};
  Client ready;
  std::vector<std::unique_ptr<Client>> clients;
};

TEST(EventLoop, NoRequestWaitsBehindMoreThanOnePieceOfLongWork) {
  World w;
  for (int i = 0; i < 20; ++i) w.slow();
  std::string wanted;
  for (int i = 0; i < 20; ++i) wanted += "s.";
  EXPECT_EQ(w.run(), wanted);
}

TEST(EventLoop, ClientsThatWantAnotherTurnComeBeforeLongWork) {
  World w;
  w.slow();
  w.slow();
  Client again(w.order, 'a');
  int left = 40;
  again.then = [&] {
    if (--left > 0) w.loop.again(again);
  };
  w.loop.again(again);
  // Long work is not held up for ever either: a bound on the rounds that it waits.
  const std::string order = w.run();
  EXPECT_EQ(order.find('s'), 40u) << order;
  left = 1'000;
  w.order.clear();
  w.slow();
  w.loop.again(again);
  EXPECT_LT(w.run().find('s'), 500u);
}

TEST(EventLoop, WhoIsRemovedHasNoTurn) {
  World w;
  Client& gone = w.slow();
  w.slow();
  w.loop.remove(gone);
  EXPECT_EQ(w.run(), "s.");
}

// Ends a loop that nothing ends, as a failure.
struct Limit {
  explicit Limit(EventLoop& loop)
      : timer(loop, [&loop] {
          ADD_FAILURE() << "the loop waits for ever";
          loop.stop();
        }) {
    timer.set(tests::soon());
  }
  Timer timer;
};

// Every thread waits now and then until its tasks have run, so that the loop often sleeps when a
// task comes.
TEST(EventLoop, RunsTheTasksOfEachThreadOnceAndInTheirOrder) {
  EventLoop loop;
  const Limit limit(loop);
  constexpr size_t threads = 4, tasks = 4'000;
  std::vector<size_t> next(threads, 0);
  std::vector<std::atomic<size_t>> ran(threads);
  size_t ended = 0;
  std::atomic<bool> over{false};
  std::vector<std::thread> posting;
  for (size_t thread = 0; thread < threads; ++thread) {
    posting.emplace_back([&, thread] {
      for (size_t task = 0; task < tasks && !over; ++task) {
        loop.post([&, thread, task] {
          EXPECT_EQ(next[thread]++, task);
          ran[thread] = task + 1;
          if (task + 1 == tasks && ++ended == threads) loop.stop();
        });
        while (task % (thread + 3) == 0 && ran[thread] <= task && !over) std::this_thread::yield();
      }
    });
  }
  loop.run();
  over = true;
  for (auto& thread : posting) thread.join();
  EXPECT_EQ(next, std::vector<size_t>(threads, tasks));
}

TEST(EventLoop, ATaskThatIsPostedByATaskHasTheNextRound) {
  EventLoop loop;
  int rounds = 0;
  std::function<void()> again = [&] {
    ++rounds;
    loop.post(again);
  };
  loop.post(again);
  for (int i = 1; i <= 3; ++i) {
    loop.run_ready();
    EXPECT_EQ(rounds, i);
  }
}

TEST(EventLoop, RunsNothingOnceItIsStopped) {
  EventLoop loop;
  std::string order;
  Client client(order, 'c');
  client.then = [] { ADD_FAILURE() << "a turn"; };
  loop.post([&] {
    loop.again(client);
    loop.stop();
  });
  loop.post([] { ADD_FAILURE() << "a task"; });
  loop.run();
}

TEST(EventLoop, IsStoppedFromAnotherThread) {
  EventLoop loop;
  const Limit limit(loop);
  std::atomic<bool> runs{false};
  loop.post([&] { runs = true; });
  std::thread other([&] {
    while (!runs) std::this_thread::yield();
    loop.stop();
  });
  loop.run();
  other.join();
}

// Timers that are set, set again and cancelled, also by those that are due, beside a list of what
// is set.
TEST(EventLoop, CallsEachTimerOnceAtItsTimeAndInTheOrderOfTimes) {
  EventLoop loop;
  const Limit limit(loop);
  tests::Dice dice(7);
  constexpr size_t timers = 40, calls = 3'000;
  std::vector<std::unique_ptr<Timer>> all(timers);
  std::multimap<Timer::Time, size_t> wanted;
  size_t called = 0;
  const auto forget = [&](size_t which) {
    for (auto at = wanted.begin(); at != wanted.end();)
      at = at->second == which ? wanted.erase(at) : std::next(at);
  };
  const auto change_one = [&] {
    const size_t which = dice(timers);
    forget(which);
    if (dice(4) == 0) return all[which]->cancel();
    // Some are due at once, and some at the same time.
    const auto at =
        std::chrono::steady_clock::now() + std::chrono::microseconds(dice(6) * 100 - 100);
    all[which]->set(at);
    wanted.emplace(at, which);
  };
  for (size_t which = 0; which < timers; ++which) {
    all[which] = std::make_unique<Timer>(loop, [&, which] {
      const auto now = std::chrono::steady_clock::now();
      ASSERT_FALSE(wanted.empty());
      EXPECT_FALSE(all[which]->is_set());
      EXPECT_GE(now, all[which]->due());
      EXPECT_EQ(all[which]->due(), wanted.begin()->first) << "another was due before";
      forget(which);
      if (++called >= calls) return loop.stop();
      for (size_t changes = 1 + dice(size_t{3}); changes > 0; --changes) change_one();
      while (wanted.empty()) change_one();
    });
  }
  while (wanted.empty()) change_one();
  loop.run();
  EXPECT_GE(called, calls);
  for (const auto& [at, which] : wanted) EXPECT_TRUE(all[which]->is_set());
}

// The sockets are looked at between turns of clients as well, and that look may be the one that
// sees the ring.
TEST(EventLoop, ATimerThatIsDueDuringATurnIsCalled) {
  World w;
  Timer timer(w.loop, [&] {
    w.order += 't';
    w.loop.stop();
  });
  Client& busy = *w.clients.emplace_back(std::make_unique<Client>(w.order, 'b'));
  busy.then = [&] {
    std::this_thread::sleep_until(timer.due() + std::chrono::milliseconds(5));
    w.loop.add_work(1'000);
  };
  w.loop.again(busy);
  timer.set_after(std::chrono::milliseconds(20));
  std::promise<void> ended;
  std::thread guard([&, its = ended.get_future()] {
    if (its.wait_until(tests::soon()) == std::future_status::timeout) w.loop.stop();
  });
  w.loop.run();
  ended.set_value();
  guard.join();
  EXPECT_EQ(w.order, "bt");
}

TEST(EventLoop, ATimerMayDestroyItself) {
  EventLoop loop;
  const Limit limit(loop);
  std::unique_ptr<Timer> timer;
  timer = std::make_unique<Timer>(loop, [&] {
    loop.stop();
    timer.reset();  // and with it what this captured
  });
  timer->set({});  // a time that is over
  loop.run();
  EXPECT_EQ(timer, nullptr);
}

// Sockets that get bytes, ask for turns, and are closed and replaced by others with the same
// descriptors, all of it while others of the same round are still to be served.
class Crowd {
 public:
  void run(size_t steps) {
    for (size_t i = 0; i < 24; ++i) open();
    for (left_ = steps; left_ > 0; --left_) {
      step();
      if (dice_(3) == 0) loop_.run_ready();
    }
    for (int round = 0; round < 100; ++round) loop_.run_ready();
    for (const auto& member : members_) {
      EXPECT_EQ(member->got, member->sent);
      EXPECT_EQ(member->turns_had, member->turns_wanted);
      EXPECT_EQ(member->ends_had, member->ends_wanted);
    }
    EXPECT_GT(closed_, steps / 50) << "the test closes too few";
    EXPECT_GT(reused_, size_t{0}) << "no descriptor was used again";
  }

 private:
  struct Member final : EventLoop::SocketOwner {
    explicit Member(Crowd& its_crowd) : crowd(its_crowd) {
      EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends), 0);
      EXPECT_TRUE(crowd.loop_.watch(ends[0], *this));
    }
    ~Member() override {
      crowd.loop_.remove(*this);
      for (const int end : ends) ::close(end);
    }
    void on_ready(bool readable, bool, bool ended) override {
      EXPECT_FALSE(ended);
      char bytes[16];
      for (ssize_t count; readable && (count = ::recv(ends[0], bytes, sizeof bytes, 0)) > 0;)
        got += static_cast<size_t>(count);
      crowd.act();
    }
    void on_turn() override {
      ++turns_had;
      EXPECT_EQ(turns_had, turns_wanted);
      crowd.act();
    }
    void on_turn_end() override {
      ++ends_had;
      EXPECT_EQ(ends_had, ends_wanted);
      crowd.act();
    }

    Crowd& crowd;
    int ends[2] = {-1, -1};
    size_t sent = 0, got = 0, turns_wanted = 0, turns_had = 0, ends_wanted = 0, ends_had = 0;
  };

  void open() {
    members_.push_back(std::make_unique<Member>(*this));
    if (members_.back()->ends[0] == last_closed_) ++reused_;
  }

  // What a member does from within; it is bounded, so that a round ends.
  void act() {
    if (dice_(4) == 0 && left_ > 0) step();
  }

  void step() {
    const size_t which = dice_(members_.size());
    Member& member = *members_[which];
    switch (dice_(6)) {
      case 0:
      case 1:
        if (::send(member.ends[1], "byte", 4, MSG_NOSIGNAL) == 4) member.sent += 4;
        return;
      case 2:
      case 3:
        if (member.turns_had == member.turns_wanted) ++member.turns_wanted;
        return dice_(2) == 0 ? loop_.again(member) : loop_.after_others(member);
      case 4:
        if (member.ends_had == member.ends_wanted) ++member.ends_wanted;
        return loop_.at_turn_end(member);
      default:
        // A member that acts is not destroyed before it is done.
        last_closed_ = member.ends[0];
        gone_.push_back(std::move(members_[which]));
        members_.erase(members_.begin() + static_cast<std::ptrdiff_t>(which));
        loop_.post([this] { gone_.clear(); });
        loop_.remove(*gone_.back());
        for (int& end : gone_.back()->ends) ::close(std::exchange(end, -1));
        ++closed_;
        return open();
    }
  }

  EventLoop loop_;
  tests::Dice dice_{11};
  std::vector<std::unique_ptr<Member>> members_, gone_;
  size_t left_ = 0, closed_ = 0, reused_ = 0;
  int last_closed_ = -1;
};

TEST(EventLoop, ServesEachSocketAndNoneThatIsGone) {
  Crowd crowd;
  crowd.run(20'000);
}

}  // namespace
}  // namespace sluice::net::event_loop_test
