// A server of coroutines on one thread (C++20): each connection sends the name of a client in a
// line, waits for its turn without a thread of its own, and is answered 200, or 429 if its turn
// does not come in time. Other connections are served meanwhile.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sluice/limiter.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <coroutine>
#include <cstdio>
#include <exception>
#include <map>
#include <string>
#include <thread>
#include <vector>

using namespace std::chrono_literals;

// A coroutine that begins at once, has no owner, and frees itself at its end.
struct task {
  struct promise_type {
    task get_return_object() noexcept { return {}; }
    std::suspend_never initial_suspend() noexcept { return {}; }
    std::suspend_never final_suspend() noexcept { return {}; }
    void return_void() noexcept {}
    void unhandled_exception() noexcept { std::terminate(); }
  };
};

// `co_await its_turn` takes one unit as soon as there is one, or fails at the deadline.
struct turn {
  sluice::limiter& limiter;
  const sluice::handle& by;
  std::string key;
  sluice::duration patience;
  sluice::decision answer{};

  bool await_ready() const noexcept { return false; }
  bool await_suspend(std::coroutine_handle<> waits) {
    const sluice::time_point now = limiter.now();
    const sluice::waiting w = limiter.wait(
        by, key, 1, now + patience,
        [this, waits](sluice::wait_id, const sluice::decision& d) {
          answer = d;
          waits.resume();
        },
        now);
    // With an id the callback may have run on another thread already: this is not touched then.
    if (w.id != 0) return true;
    answer = w.now;
    return false;  // it is decided: the coroutine goes on
  }
  sluice::decision await_resume() const noexcept { return answer; }
};

// Resumes coroutines when their sockets are readable and when their turns come. One thread decides
// here, so run_due() before each poll() is enough; where others decide as well, options::wake
// must end the poll().
class event_loop {
 public:
  explicit event_loop(sluice::limiter& limiter) : limiter_(limiter) {}

  auto readable(int fd) {
    struct awaitable {
      event_loop& loop;
      int fd;
      bool await_ready() const noexcept { return false; }
      void await_suspend(std::coroutine_handle<> waits) { loop.readers_[fd] = waits; }
      void await_resume() const noexcept {}
    };
    return awaitable{*this, fd};
  }

  // Until nothing waits.
  void run() {
    for (;;) {
      const sluice::due due = limiter_.run_due();
      if (readers_.empty() && limiter_.stats().waiting == 0) return;
      std::vector<pollfd> sockets;
      for (const auto& [fd, waits] : readers_) sockets.push_back({fd, POLLIN, 0});
      poll(sockets.data(), sockets.size(), milliseconds_until(due.next));
      for (const pollfd& socket : sockets)
        if (socket.revents != 0) readers_.extract(socket.fd).mapped().resume();
    }
  }

 private:
  int milliseconds_until(sluice::time_point next) const {
    if (next == sluice::latest_time) return -1;
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(next - limiter_.now());
    return static_cast<int>(std::clamp<long long>(left.count(), 0, 60'000));
  }

  sluice::limiter& limiter_;
  std::map<int, std::coroutine_handle<>> readers_;
};

task serve(event_loop& loop, sluice::limiter& limiter, const sluice::handle& by, int fd) {
  std::string received;
  char room[512];
  for (;;) {
    co_await loop.readable(fd);
    const ssize_t count = recv(fd, room, sizeof room, 0);
    if (count <= 0) break;
    received.append(room, static_cast<size_t>(count));
    for (size_t end; (end = received.find('\n')) != std::string::npos; received.erase(0, end + 1)) {
      turn its_turn{limiter, by, received.substr(0, end), 300ms};
      const sluice::decision d = co_await its_turn;
      const std::string answer = d.allowed ? "200\n" : "429\n";
      send(fd, answer.data(), answer.size(), MSG_NOSIGNAL);
    }
    if (received.size() > sluice::key_bytes_max) break;
  }
  close(fd);
}

task accept_some(event_loop& loop, sluice::limiter& limiter, const sluice::handle& by, int listener,
                 int count) {
  for (int i = 0; i < count; ++i) {
    co_await loop.readable(listener);
    if (const int fd = accept(listener, nullptr, nullptr); fd >= 0) serve(loop, limiter, by, fd);
  }
}

// A client of the server, in another thread: sends a name some times, and tells what came back.
std::string answers(int fd, const std::string& name, int times) {
  std::string told = name;
  for (int i = 0; i < times; ++i) {
    char answer[4];
    send(fd, (name + "\n").data(), name.size() + 1, MSG_NOSIGNAL);
    if (recv(fd, answer, sizeof answer, MSG_WAITALL) != sizeof answer) break;
    told += " " + std::string(answer, 3);
  }
  close(fd);
  return told;
}

int main() {
  auto limiter = sluice::limiter::create();
  if (!limiter) return 1;
  // Two at once and one each 100 ms, and three a day.
  const auto by =
      limiter->limits("requests", {{2, 200ms}, {3, 24h, sluice::algorithm::fixed_window}});
  if (!by) return 1;

  const int listener = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  if (bind(listener, reinterpret_cast<sockaddr*>(&address), size) != 0 ||
      listen(listener, 8) != 0 ||
      getsockname(listener, reinterpret_cast<sockaddr*>(&address), &size) != 0)
    return 1;
  const auto connected = [&] {
    const int fd = socket(AF_INET, SOCK_STREAM, 0);
    if (connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) std::terminate();
    return fd;
  };
  const int alice = connected(), bob = connected();

  std::string of_alice, of_bob;
  std::thread one([&] { of_alice = answers(alice, "alice", 4); });
  std::thread other([&] { of_bob = answers(bob, "bob", 2); });
  event_loop loop(*limiter);
  accept_some(loop, *limiter, *by, listener, 2);
  loop.run();
  one.join();
  other.join();
  close(listener);
  std::printf("%s\n%s\n", of_alice.c_str(), of_bob.c_str());
  return 0;
}
