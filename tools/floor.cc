// floor: as little as a server of Divvy's line protocol can do, to measure sluice against. One
// thread waits on epoll; each readable connection gets one read and one write, with the same reply
// for every line. Nothing is parsed or decided. Prints the port it listens on (127.0.0.1, chosen by
// the system) and serves until it is killed.
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

namespace {

constexpr std::string_view reply = "OK true 999 60\n";
constexpr size_t read_bytes_max = 64 << 10;

[[noreturn]] void fail(const char* what) {
  std::perror(what);
  std::exit(1);
}

void watch(int epoll, int socket) {
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.fd = socket;
  if (epoll_ctl(epoll, EPOLL_CTL_ADD, socket, &event) != 0) fail("epoll_ctl");
}

int listen_somewhere(in_port_t& port) {
  const int socket = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  auto* generic = reinterpret_cast<sockaddr*>(&address);
  socklen_t length = sizeof address;
  if (socket < 0 || bind(socket, generic, length) != 0 || listen(socket, SOMAXCONN) != 0 ||
      getsockname(socket, generic, &length) != 0) {
    fail("listen");
  }
  port = ntohs(address.sin_port);
  return socket;
}

// Answers what one read brings. False when the connection is over.
bool answer(int socket, const std::string& replies) {
  static std::array<char, read_bytes_max> bytes;
  const ssize_t got = read(socket, bytes.data(), bytes.size());
  if (got <= 0) return false;
  const auto lines = static_cast<size_t>(std::count(bytes.begin(), bytes.begin() + got, '\n'));
  const size_t owed = lines * reply.size();
  // The sockets block, and a client of this program reads all that it is sent, so one write takes
  // everything.
  return owed == 0 || write(socket, replies.data(), owed) == static_cast<ssize_t>(owed);
}

}  // namespace

int main() {
  std::string replies;  // as many as the most lines that one read can bring
  for (size_t i = 0; i < read_bytes_max; ++i) replies += reply;

  in_port_t port = 0;
  const int listener = listen_somewhere(port);
  const int epoll = epoll_create1(EPOLL_CLOEXEC);
  if (epoll < 0) fail("epoll_create1");
  watch(epoll, listener);
  std::printf("floor: listening on 127.0.0.1:%u\n", unsigned{port});
  std::fflush(stdout);

  std::array<epoll_event, 256> events{};
  for (;;) {
    const int ready = epoll_wait(epoll, events.data(), static_cast<int>(events.size()), -1);
    for (int i = 0; i < ready; ++i) {
      const int socket = events[static_cast<size_t>(i)].data.fd;
      if (socket != listener) {
        if (!answer(socket, replies)) close(socket);
        continue;
      }
      const int client = accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
      if (client < 0) continue;
      const int on = 1;
      setsockopt(client, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
      watch(epoll, client);
    }
  }
}
