#include "client/divvy_client.h"

#include <fcntl.h>
#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <memory>
#include <system_error>
#include <vector>

namespace sluice::client {
namespace {

using Clock = std::chrono::steady_clock;

// Of a reply line; the longest that a server sends is an ERR with a text for people.
constexpr size_t reply_bytes_max = 64 << 10;

DivvyResult failed(std::string error) {
  return {std::nullopt, std::move(error)};
}

std::string words_for(int problem) {
  return std::generic_category().message(problem);
}

// A socket that closes itself.
class Socket {
 public:
  explicit Socket(int fd) : fd_(fd) {}
  ~Socket() {
    if (fd_ >= 0) ::close(fd_);
  }
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;
  int fd() const { return fd_; }

 private:
  const int fd_;
};

// Waits for the socket. 0: it is ready; else an errno, ETIMEDOUT when the deadline passed first.
int await(const Socket& socket, short events, Clock::time_point deadline) {
  for (;;) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now());
    if (left.count() <= 0) return ETIMEDOUT;
    pollfd wanted{socket.fd(), events, 0};
    const auto ms = std::min<std::chrono::milliseconds::rep>(left.count(), 60'000);
    const int ready = ::poll(&wanted, 1, static_cast<int>(ms));
    if (ready > 0) return 0;
    if (ready < 0 && errno != EINTR) return errno;
  }
}

int connect(const Socket& socket, const addrinfo& address, Clock::time_point deadline) {
  if (socket.fd() < 0) return errno;
  if (::connect(socket.fd(), address.ai_addr, address.ai_addrlen) == 0) return 0;
  if (errno != EINPROGRESS && errno != EINTR) return errno;
  if (const int problem = await(socket, POLLOUT, deadline)) return problem;
  int problem = 0;
  socklen_t size = sizeof problem;
  if (::getsockopt(socket.fd(), SOL_SOCKET, SO_ERROR, &problem, &size) != 0) return errno;
  return problem;
}

int send_all(const Socket& socket, std::string_view bytes, Clock::time_point deadline) {
  while (!bytes.empty()) {
    const ssize_t n = ::send(socket.fd(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (n >= 0) {
      bytes.remove_prefix(static_cast<size_t>(n));
    } else if (errno == EAGAIN) {
      if (const int problem = await(socket, POLLOUT, deadline)) return problem;
    } else if (errno != EINTR) {
      return errno;
    }
  }
  return 0;
}

// Reads up to the first line end, which is dropped.
DivvyResult receive(const Socket& socket, Clock::time_point deadline) {
  std::string line;
  char chunk[4096];
  for (;;) {
    if (const int problem = await(socket, POLLIN, deadline))
      return failed(problem == ETIMEDOUT ? "no reply in time" : "no reply: " + words_for(problem));
    const ssize_t n = ::recv(socket.fd(), chunk, sizeof chunk, 0);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) continue;
    if (n < 0) return failed("no reply: " + words_for(errno));
    if (n == 0) return failed("the server closed the connection without a reply");
    const std::string_view got(chunk, static_cast<size_t>(n));
    const size_t end = got.find('\n');
    line.append(got.substr(0, end));
    if (end != std::string_view::npos) return divvy_reply(line);
    if (line.size() > reply_bytes_max)
      return failed("the reply has no line end; that is no server of Divvy's protocol");
  }
}

DivvyResult ask(const Socket& socket, std::string_view request, Clock::time_point deadline) {
  // A server may refuse before it reads, and then its words say more than the failed write.
  const int problem = send_all(socket, request, deadline);
  if (problem == ETIMEDOUT) return failed("the request could not be sent in time");
  return receive(socket, deadline);
}

}  // namespace

std::optional<std::string> divvy_request(std::span<const DivvyClient::Entry> descriptor,
                                         std::string& problem) {
  std::vector<DivvyClient::Entry> sorted(descriptor.begin(), descriptor.end());
  // Of equal keys the last one counts, so they keep their order.
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  std::string line = "HIT";
  for (const auto& [key, value] : sorted) {
    for (const std::string* part : {&key, &value}) {
      const bool is_key = part == &key;
      const size_t bad = part->find_first_of("\"\n");
      if (bad == std::string::npos) continue;
      problem = (is_key ? "the key `" + key : "the value of `" + key) + "` holds " +
                ((*part)[bad] == '"' ? "a double quote" : "a line end") +
                ", which Divvy's protocol cannot carry; leave it out or replace it";
      return std::nullopt;
    }
    line += " \"" + key + "\"=\"" + value + "\"";
  }
  return line += '\n';
}

DivvyResult divvy_reply(std::string_view line) {
  if (line.ends_with('\r')) line.remove_suffix(1);
  if (line.starts_with("ERR")) return failed("the server refused: " + std::string(line));
  const auto wrong = [&] {
    return failed("that is no reply of Divvy's protocol: " + std::string(line.substr(0, 200)));
  };
  auto next = [rest = line]() mutable {
    const size_t end = std::min(rest.find(' '), rest.size());
    const std::string_view first = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    return first;
  };
  const auto number = [](std::string_view text, int64_t& n) {
    const char* const end = text.data() + text.size();
    const auto [at, bad] = std::from_chars(text.data(), end, n);
    return bad == std::errc{} && at == end;
  };
  DivvyAnswer answer;
  if (std::count(line.begin(), line.end(), ' ') != 3 || next() != "OK") return wrong();
  const std::string_view allowed = next();
  if (allowed != "true" && allowed != "false") return wrong();
  answer.allowed = allowed == "true";
  if (!number(next(), answer.remaining) || !number(next(), answer.reset_seconds)) return wrong();
  return {answer, ""};
}

DivvyClient::DivvyClient(std::string host, uint16_t port, std::chrono::milliseconds timeout)
    : host_(std::move(host)), port_(port), timeout_(timeout) {}

DivvyResult DivvyClient::hit(std::span<const Entry> descriptor) const {
  std::string problem;
  const auto request = divvy_request(descriptor, problem);
  if (!request) return failed(std::move(problem));

  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const std::string port = std::to_string(port_);
  if (const int bad = ::getaddrinfo(host_.c_str(), port.c_str(), &hints, &found))
    return failed("cannot find the host `" + host_ + "`: " + ::gai_strerror(bad));
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> addresses(found, &::freeaddrinfo);

  const auto deadline = Clock::now() + timeout_;
  int last = ECONNREFUSED;
  for (const addrinfo* a = addresses.get(); a != nullptr; a = a->ai_next) {
    const Socket socket(::socket(a->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    last = connect(socket, *a, deadline);
    if (last == 0) return ask(socket, *request, deadline);
    if (last == ETIMEDOUT) break;
  }
  return failed("cannot connect to " + host_ + " port " + port + ": " +
                (last == ETIMEDOUT ? "no answer in time" : words_for(last)));
}

}  // namespace sluice::client
