#include "server/listener.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <boost/asio/ip/v6_only.hpp>
#include <cerrno>
#include <cstring>
#include <sstream>

namespace sluice::server {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;

namespace {

constexpr int backlog = 4096;
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

std::string text_of(const tcp::endpoint& endpoint) {
  std::ostringstream out;
  out << endpoint;
  return out.str();
}

}  // namespace

Listener::Listener(asio::io_context& io, ListenerOptions options,
                   std::function<void(int, Protocol)> take, std::shared_ptr<spdlog::logger> log)
    : acceptor_(io),
      pause_(io),
      options_(std::move(options)),
      take_(std::move(take)),
      log_(std::move(log)) {}

std::optional<std::string> Listener::bind() {
  error_code ec;
  tcp::resolver resolver(acceptor_.get_executor());
  const auto found = resolver.resolve(options_.host, std::to_string(options_.port),
                                      tcp::resolver::passive | tcp::resolver::numeric_service, ec);
  if (ec || found.empty())
    return "listen: cannot resolve \"" + options_.host + "\": " + ec.message();
  tcp::endpoint endpoint = found.begin()->endpoint();
  if (open(endpoint, ec)) return {};
  // A machine without IPv6 still has all of IPv4.
  if (endpoint.address().is_v6() && endpoint.address().is_unspecified() &&
      (ec.value() == EAFNOSUPPORT || ec.value() == EADDRNOTAVAIL)) {
    endpoint = tcp::endpoint(asio::ip::address_v4::any(), options_.port);
    if (open(endpoint, ec)) return {};
  }
  return "listen " + name_of_error(ec) + " " + text_of(endpoint);
}

bool Listener::open(const tcp::endpoint& endpoint, error_code& ec) {
  error_code ignored;
  acceptor_.close(ignored);
  if (acceptor_.open(endpoint.protocol(), ec)) return false;
  acceptor_.set_option(tcp::acceptor::reuse_address(true), ignored);
  if (endpoint.address().is_v6()) acceptor_.set_option(asio::ip::v6_only(false), ignored);
  acceptor_.non_blocking(true, ignored);
  return !acceptor_.bind(endpoint, ec) && !acceptor_.listen(backlog, ec);
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
  accept_all();
  pause_.cancel();
  error_code ignored;
  acceptor_.close(ignored);
}

void Listener::await() {
  acceptor_.async_wait(tcp::acceptor::wait_read, [this](error_code ec) {
    if (ec || !acceptor_.is_open()) return;
    if (accept_all()) return await();
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

bool Listener::accept_all() {
  while (true) {
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
        return true;
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
        return false;
    }
  }
}

}  // namespace sluice::server
