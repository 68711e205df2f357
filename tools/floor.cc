// floor: as little as a server of a protocol can do, to measure sluice against. One thread waits on
// epoll; each readable connection gets one read and one write, with the same reply for every
// complete request. Only the framing is read, and droplet's handshake is answered; nothing is
// unmasked, parsed or decided. Prints the port it listens on (127.0.0.1, chosen by the system) and
// serves until it is killed. It trusts its client, which is load.
//
//   floor divvy|limitd|droplet
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

using namespace std::string_view_literals;

constexpr size_t read_bytes_max = 64 << 10;

struct Counted {
  size_t requests = 0;
  size_t bytes = 0;  // of those requests; what is left is the beginning of another
};

struct Protocol {
  std::string_view name;
  Counted (*count)(std::string_view text);
  std::string_view reply;
  bool greets;  // begins with a WebSocket handshake
};

// Lines that are cut in two need no memory: only their ends count.
Counted count_lines(std::string_view text) {
  return {static_cast<size_t>(std::count(text.begin(), text.end(), '\n')), text.size()};
}

// Counts frames. `frame_bytes` has the size of the frame that a text begins with, 0 if the header
// is not all there.
template <typename FrameBytes>
Counted count_frames(std::string_view text, FrameBytes frame_bytes) {
  Counted counted;
  for (;;) {
    const std::string_view rest = text.substr(counted.bytes);
    const size_t bytes = frame_bytes(rest);
    if (bytes == 0 || bytes > rest.size()) return counted;
    counted.bytes += bytes;
    ++counted.requests;
  }
}

Counted count_limitd(std::string_view text) {
  return count_frames(text, [](std::string_view rest) -> size_t {
    constexpr size_t length_bytes_max = 5;
    size_t length = 0;
    for (size_t i = 0; i < std::min(rest.size(), length_bytes_max); ++i) {
      const auto byte = static_cast<unsigned char>(rest[i]);
      length |= size_t{byte & 127u} << (7 * i);
      if (byte < 128) return i + 1 + length;
    }
    return 0;
  });
}

Counted count_websocket(std::string_view text) {
  return count_frames(text, [](std::string_view rest) -> size_t {
    constexpr size_t mask_bytes = 4;
    if (rest.size() < 2) return 0;
    const size_t length = static_cast<unsigned char>(rest[1]) & 127u;
    if (length < 126) return 2 + mask_bytes + length;
    const size_t header = length == 126 ? 4 : 10;
    if (rest.size() < header) return 0;
    size_t long_length = 0;
    for (const char byte : rest.substr(2, header - 2))
      long_length = long_length << 8 | static_cast<unsigned char>(byte);
    return header + mask_bytes + long_length;
  });
}

// As long as sluice's own: granted, with a unit less than there was.
constexpr std::array<Protocol, 3> protocols{
    {{"divvy", count_lines, "OK true 999 60\n"sv, false},
     {"limitd", count_limitd,
      "\x14\x0a\x01"
      "1\xaa\x06\x0e\x08\x01\x18\xe7\x07\x20\x8c\xa2\xf7\xa7\x05\x28\xe8\x07"sv,
      false},
     {"droplet", count_websocket, "\x82\x09\x08\x01\x10\xe7\x07\x18\xdf\xd4\x03"sv, true}}};
static_assert(sluice::tools::limitd_id == "1");

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
  explicit Floor(const Protocol& protocol) : protocol_(protocol) {
    for (size_t i = 0; i < read_bytes_max; ++i) replies_ += protocol.reply;
  }

  void begin(int socket) {
    const auto index = static_cast<size_t>(socket);
    if (index >= connections_.size()) connections_.resize(index + 1);
    connections_[index] = {!protocol_.greets, {}};
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
      const Counted counted = protocol_.count(text);
      text.remove_prefix(counted.bytes);
      if (!write_all(socket, {replies_.data(), counted.requests * protocol_.reply.size()}))
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
  static bool greet(int socket, Connection& connection, std::string_view& text) {
    constexpr std::string_view head_end = "\r\n\r\n";
    const size_t end = text.find(head_end);
    if (end == std::string_view::npos) return true;
    text.remove_prefix(end + head_end.size());
    connection.greeted = true;
    std::string head =
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        "Sec-WebSocket-Accept: ";
    head += sluice::tools::websocket_accept;
    return write_all(socket, head += head_end);
  }

  const Protocol& protocol_;
  std::string replies_;                  // as many as the most requests that one read can bring
  std::vector<Connection> connections_;  // by their sockets
  std::array<char, read_bytes_max> bytes_{};
};

}  // namespace

int main(int argc, char** argv) {
  const std::string_view name = argc == 2 ? argv[1] : "";
  const auto* protocol = std::find_if(protocols.begin(), protocols.end(),
                                      [&](const Protocol& p) { return p.name == name; });
  if (protocol == protocols.end()) {
    std::fprintf(stderr, "usage: floor divvy|limitd|droplet\n");
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
