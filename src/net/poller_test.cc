// The order in which the poller serves sockets, clients that want another turn, and those whose
// work takes long.
#include "net/poller.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace sluice::net::poller_test {
namespace {

// Writes its name when it is served.
struct Client final : Poller::SocketOwner {
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
    EXPECT_TRUE(poller.add(ends[0], ready));
    io.poll();  // it is writable
  }
  ~World() {
    poller.stop();
    for (const int end : ends) ::close(end);
  }
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  // A client whose work takes long; while it works, a request arrives at the socket.
  Client& slow() {
    clients.push_back(std::make_unique<Client>(order, 's'));
    clients.back()->then = [this] { EXPECT_EQ(::send(ends[1], "r", 1, 0), 1); };
    poller.after_others(*clients.back());
    return *clients.back();
  }
  // Runs the loop until everybody was served.
  const std::string& run() {
    for (size_t before = order.size() + 1; before != order.size();) {
      before = order.size();
      io.restart();
      io.poll();
    }
    return order;
  }

  std::string order;
  boost::asio::io_context io{1};
  Poller poller{io, [] {}};
  int ends[2] = {-1, -1};
  Client ready;
  std::vector<std::unique_ptr<Client>> clients;
};

TEST(Poller, NoRequestWaitsBehindMoreThanOnePieceOfLongWork) {
  World w;
  for (int i = 0; i < 20; ++i) w.slow();
  std::string wanted;
  for (int i = 0; i < 20; ++i) wanted += "s.";
  EXPECT_EQ(w.run(), wanted);
}

TEST(Poller, ClientsThatWantAnotherTurnComeBeforeLongWork) {
  World w;
  w.slow();
  w.slow();
  Client again(w.order, 'a');
  int left = 40;
  again.then = [&] {
    if (--left > 0) w.poller.again(again);
  };
  w.poller.again(again);
  // Long work is not held up for ever either: a bound on the rounds that it waits.
  const std::string order = w.run();
  EXPECT_EQ(order.find('s'), 40u) << order;
  left = 1'000;
  w.order.clear();
  w.slow();
  w.poller.again(again);
  EXPECT_LT(w.run().find('s'), 500u);
}

TEST(Poller, WhoIsRemovedHasNoTurn) {
  World w;
  Client& gone = w.slow();
  w.slow();
  w.poller.remove(gone);
  EXPECT_EQ(w.run(), "s.");
}

}  // namespace
}  // namespace sluice::net::poller_test
