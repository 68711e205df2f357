#include "server/listener.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <boost/asio/ip/v6_only.hpp>
#include <cerrno>
#include <cstring>
#include <sstream>

namespace sluice::server {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;

namespace {

constexpr auto pause_time = std::chrono::milliseconds(100);
constexpr auto tell_period = std::chrono::seconds(10);

std::string name_of_error(const error_code& ec) {
  switch (ec.value()) {
    case EADDRINUSE:
      return "EADDRINUSE: address already in use";
    case EACCES:
      return "EACCES: permission denied (ports below 1024 need a privilege)";
    case EADDRNOTAVAIL:
      return "EADDRNOTAVAIL: no such address on this machine";
    default:
      return ec.message();
  }
}

// No such address on this machine, or none of its family.
bool is_absent(const error_code& ec) {
  return ec.value() == EAFNOSUPPORT || ec.value() == EADDRNOTAVAIL;
}

bool is_here(const tcp::endpoint& endpoint) {
  asio::io_context io;
  tcp::acceptor probe(io);
  error_code ec;
  if (!probe.open(endpoint.protocol(), ec)) probe.bind({endpoint.address(), 0}, ec);
  return !is_absent(ec);
}

// The addresses of a host, each once, at least one; or what is wrong.
std::optional<std::string> look_up(const ListenerOptions& options,
                                   std::vector<tcp::endpoint>& found) {
  asio::io_context io;
  tcp::resolver resolver(io);
  error_code ec;
  const auto results =
      resolver.resolve(options.host, std::to_string(options.port),
                       tcp::resolver::passive | tcp::resolver::numeric_service, ec);
  for (const auto& result : results) {
    if (std::find(found.begin(), found.end(), result.endpoint()) == found.end())
      found.push_back(result.endpoint());
  }
  if (ec || found.empty())
    return "listen: cannot resolve \"" + options.host + "\": " + ec.message();
  return {};
}

std::string text_of(const tcp::endpoint& endpoint) {
  std::ostringstream out;
  out << endpoint;
  return out.str();
}

}  // namespace

Listener::Listener(asio::io_context& io, ListenerOptions options, Take take,
                   std::shared_ptr<spdlog::logger> log)
    : acceptor_(io),
      pause_(io),
      options_(std::move(options)),
      take_(std::move(take)),
      log_(std::move(log)) {}

std::optional<std::string> Listener::resolve(const ListenerOptions& options,
                                             std::vector<ListenerOptions>& all) {
  std::vector<tcp::endpoint> found;
  if (auto wrong = look_up(options, found)) return wrong;
  const size_t before = all.size();
  for (const tcp::endpoint& endpoint : found) {
    if (found.size() == 1 || is_here(endpoint))
      all.push_back({options.protocol, endpoint.address().to_string(), options.port});
  }
  if (all.size() == before)
    all.push_back({options.protocol, found.front().address().to_string(), options.port});
  return {};
}

std::optional<std::string> Listener::bind() {
  std::vector<tcp::endpoint> found;
  if (auto wrong = look_up(options_, found)) return wrong;
  tcp::endpoint endpoint = found.front();
  error_code ec;
  if (open(endpoint, ec)) return {};
  // A machine without IPv6 still has all of IPv4.
  if (endpoint.address().is_v6() && endpoint.address().is_unspecified() && is_absent(ec)) {
    endpoint = tcp::endpoint(asio::ip::address_v4::any(), options_.port);
    if (open(endpoint, ec)) return {};
  }
  return "listen " + name_of_error(ec) + " " + text_of(endpoint) +
         (ec.value() == EADDRINUSE ? "; stop what listens there, or listen on another port" : "");
}

bool Listener::open(const tcp::endpoint& endpoint, error_code& ec) {
  error_code ignored;
  acceptor_.close(ignored);
  if (acceptor_.open(endpoint.protocol(), ec)) return false;
  acceptor_.set_option(tcp::acceptor::reuse_address(true), ignored);
  if (endpoint.address().is_v6()) acceptor_.set_option(asio::ip::v6_only(false), ignored);
  acceptor_.non_blocking(true, ignored);
  return !acceptor_.bind(endpoint, ec) && !acceptor_.listen(queue_max, ec);
}

std::string Listener::address() const {
  return text_of(acceptor_.local_endpoint());
}

uint16_t Listener::port() const {
  return acceptor_.local_endpoint().port();
}

void Listener::start() {
  await();
}

void Listener::stop() {
  if (!acceptor_.is_open()) return;
  accept_some();
  pause_.cancel();
  error_code ignored;
  acceptor_.close(ignored);
}

void Listener::await() {
  acceptor_.async_wait(tcp::acceptor::wait_read, [this](error_code ec) {
    if (ec || !acceptor_.is_open()) return;
    if (accept_some() != Accepted::out_of_resources) return await();
    pause_.expires_after(pause_time);
    pause_.async_wait([this](error_code cancelled) {
      if (!cancelled && acceptor_.is_open()) await();
    });
  });
}

void Listener::tell_pause(int error) {
  const auto now = std::chrono::steady_clock::now();
  if (now < tell_again_) return;
  tell_again_ = now + tell_period;
  log_->warn("{}: accepting pauses: {}{}", address(), std::strerror(error),
             error == EMFILE || error == ENFILE
                 ? "; raise the limit of open files (ulimit -n) or close idle clients"
                 : "");
}

Listener::Accepted Listener::accept_some() {
  for (int i = 0; i <= queue_max; ++i) {  // Linux queues one more than it is told
    const int fd =
        ::accept4(acceptor_.native_handle(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd >= 0) {
      const int on = 1;
      setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
      setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
      take_(fd, options_.protocol);
      continue;
    }
    switch (errno) {
      case EAGAIN:
        return Accepted::all;
      case EINTR:
      case ECONNABORTED:
      case EPROTO:
      case EPERM:
      case ENETDOWN:
      case ENOPROTOOPT:
      case EHOSTDOWN:
      case ENONET:
      case EHOSTUNREACH:
      case EOPNOTSUPP:
      case ENETUNREACH:
        continue;  // of that one connection, which is gone (accept(2))
      default:
        tell_pause(errno);
        return Accepted::out_of_resources;
    }
  }
  return Accepted::some;
}

}  // namespace sluice::server
