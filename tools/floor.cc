// floor: as little as a server of a protocol can do, to measure sluice against. One thread waits on
// epoll; each readable connection gets one read and one write, with the same reply for every
// complete request. Only the framing is read, and a handshake is answered; nothing is unmasked,
// parsed or decided. Prints the port it listens on (127.0.0.1, chosen by the system) and
// serves until it is killed. It trusts its client, which is load.
//
//   floor PROTOCOL
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
#include <vector>

#include "load_protocol.h"

namespace {

constexpr size_t read_bytes_max = 64 << 10;

struct Connection {
  bool greeted = false;
  std::string partial;  // the beginning of a request whose end has not come
};

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

class Floor {
 public:
  explicit Floor(const sluice::protocol::Load& protocol) : protocol_(protocol) {
    for (size_t i = 0; i < read_bytes_max; ++i) replies_ += protocol.reply;
  }

  void begin(int socket) {
    const auto index = static_cast<size_t>(socket);
    if (index >= connections_.size()) connections_.resize(index + 1);
    connections_[index] = {protocol_.greeting_reply.empty(), {}};
  }

  // Answers what one read brings. False when the connection is over.
  bool answer(int socket) {
    Connection& connection = connections_[static_cast<size_t>(socket)];
    std::string& partial = connection.partial;
    std::copy(partial.begin(), partial.end(), bytes_.begin());
    const ssize_t got =
        read(socket, bytes_.data() + partial.size(), bytes_.size() - partial.size());
    if (got <= 0) return false;
    std::string_view text(bytes_.data(), partial.size() + static_cast<size_t>(got));
    if (!connection.greeted && !greet(socket, connection, text)) return false;
    if (connection.greeted) {
      const auto requests = protocol_.count_requests(text);
      text.remove_prefix(requests.bytes);
      if (!write_all(socket, {replies_.data(), requests.count * protocol_.reply.size()}))
        return false;
    }
    partial.assign(text);
    return true;
  }

 private:
  // The sockets block, and a client of this program reads all that it is sent, so one write takes
  // everything.
  static bool write_all(int socket, std::string_view text) {
    return text.empty() ||
           write(socket, text.data(), text.size()) == static_cast<ssize_t>(text.size());
  }

  // Takes the head, once it is all there, out of `text`.
  bool greet(int socket, Connection& connection, std::string_view& text) const {
    constexpr std::string_view head_end = "\r\n\r\n";
    const size_t end = text.find(head_end);
    if (end == std::string_view::npos) return true;
    text.remove_prefix(end + head_end.size());
    connection.greeted = true;
    return write_all(socket, protocol_.greeting_reply);
  }

  const sluice::protocol::Load& protocol_;
  std::string replies_;                  // as many as the most requests that one read can bring
  std::vector<Connection> connections_;  // by their sockets
  std::array<char, read_bytes_max> bytes_{};
};

}  // namespace

int main(int argc, char** argv) {
  const auto* protocol = sluice::tools::find_load(argc == 2 ? argv[1] : "");
  if (protocol == nullptr || protocol->count_requests == nullptr) {
    std::fprintf(stderr, "usage: floor %s\n", sluice::tools::load_names("|").c_str());
    return 2;
  }
  Floor floor(*protocol);

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
        if (!floor.answer(socket)) close(socket);
        continue;
      }
      const int client = accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
      if (client < 0) continue;
      const int on = 1;
      setsockopt(client, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
      floor.begin(client);
      watch(epoll, client);
    }
  }
}
