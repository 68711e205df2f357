#include "net/listener.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/ip/v6_only.hpp>
#include <cerrno>
#include <cstring>
#include <sstream>
#include <system_error>
#include <utility>

#include "base/bounds.h"
#include "net/inherited.h"

namespace sluice::net {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;

namespace {

constexpr auto pause_time = std::chrono::milliseconds(100);
// The pause where the owner makes room, because it does that at once.
constexpr auto short_pause_time = std::chrono::milliseconds(5);
constexpr auto log_period = std::chrono::seconds(10);

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

// Does this machine lack the address, or all addresses of its family?
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

// Finds the addresses of a host, each once, at least one; otherwise returns the problem.
std::optional<std::string> look_up(const Endpoint& options, std::vector<tcp::endpoint>& found) {
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
  // Without /etc/hosts the name may be in no list.
  if (found.empty() && options.host == "localhost")
    found = {{asio::ip::address_v4::loopback(), options.port},
             {asio::ip::address_v6::loopback(), options.port}};
  if (found.empty()) return "listen: cannot resolve \"" + options.host + "\": " + ec.message();
  return {};
}

std::string text_of(const tcp::endpoint& endpoint) {
  std::ostringstream out;
  out << endpoint;
  return out.str();
}

}  // namespace

Listener::Listener(asio::io_context& io, Endpoint options, Take take,
                   std::shared_ptr<spdlog::logger> log, Owner owner)
    : acceptor_(io),
      pause_(io),
      options_(std::move(options)),
      take_(std::move(take)),
      log_(std::move(log)),
      owner_(std::move(owner)) {
  keep_spare();
}

Listener::~Listener() {
  if (spare_ >= 0) ::close(spare_);
}

std::optional<std::string> Listener::resolve(const Endpoint& options, std::vector<Endpoint>& all) {
  std::vector<tcp::endpoint> found;
  if (auto wrong = look_up(options, found)) return wrong;
  const size_t before = all.size();
  const auto add = [&](const tcp::endpoint& endpoint) {
    all.push_back(options);
    all.back().host = endpoint.address().to_string();
  };
  for (const tcp::endpoint& endpoint : found) {
    if (found.size() == 1 || is_here(endpoint)) add(endpoint);
  }
  if (all.size() == before) add(found.front());
  return {};
}

std::optional<std::string> Listener::bind(InheritedSockets* inherited) {
  std::vector<tcp::endpoint> found;
  if (auto wrong = look_up(options_, found)) return wrong;
  tcp::endpoint endpoint = found.front();
  error_code ec;
  if (open(endpoint, inherited, ec)) return {};
  // Without IPv6 on this machine `::` means all addresses of IPv4.
  if (endpoint.address().is_v6() && endpoint.address().is_unspecified() && is_absent(ec)) {
    endpoint = tcp::endpoint(asio::ip::address_v4::any(), options_.port);
    if (open(endpoint, inherited, ec)) return {};
  }
  return "listen " + name_of_error(ec) + " " + text_of(endpoint) +
         (ec.value() == EADDRINUSE ? "; stop what listens there, or listen on another port" : "");
}

bool Listener::open(const tcp::endpoint& endpoint, InheritedSockets* inherited, error_code& ec) {
  error_code ignored;
  acceptor_.close(ignored);
  if (const int fd = inherited != nullptr ? inherited->take(endpoint) : -1; fd >= 0) {
    if (acceptor_.assign(endpoint.protocol(), fd, ec)) {
      ::close(fd);
      return false;
    }
    is_inherited_ = true;
    bound_kernel_memory();
    return !acceptor_.non_blocking(true, ec);
  }
  if (acceptor_.open(endpoint.protocol(), ec)) return false;
  acceptor_.set_option(tcp::acceptor::reuse_address(true), ignored);
  if (endpoint.address().is_v6()) acceptor_.set_option(asio::ip::v6_only(false), ignored);
  bound_kernel_memory();
  acceptor_.non_blocking(true, ignored);
  return !acceptor_.bind(endpoint, ec) && !acceptor_.listen(queue_max, ec);
}

// Bounds the kernel's buffers of each connection, which inherits them from the listener. Bytes that
// a client does not take stay in the send buffer, at most for TCP_USER_TIMEOUT; bytes that the
// server does not read stay in the receive buffer.
void Listener::bound_kernel_memory() {
  error_code ignored;
  acceptor_.set_option(
      asio::socket_base::send_buffer_size(static_cast<int>(base::bounds::socket_send_bytes)),
      ignored);
  acceptor_.set_option(
      asio::socket_base::receive_buffer_size(static_cast<int>(base::bounds::socket_receive_bytes)),
      ignored);
  const auto patience = static_cast<unsigned>(options_.timeouts.send.us / 1000);
  setsockopt(acceptor_.native_handle(), IPPROTO_TCP, TCP_USER_TIMEOUT, &patience, sizeof patience);
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
  if (!is_inherited_) accept_some();
  pause_.cancel();
  error_code ignored;
  acceptor_.close(ignored);
}

void Listener::await() {
  acceptor_.async_wait(tcp::acceptor::wait_read, [this](error_code ec) {
    if (ec || !acceptor_.is_open()) return;
    const Accepted accepted = accept_some();
    if (accepted == Accepted::all || accepted == Accepted::some) return await();
    if (owner_.paused) owner_.paused();
    pause_.expires_after(owner_.make_room ? short_pause_time : pause_time);
    pause_.async_wait([this](error_code cancelled) {
      if (!cancelled && acceptor_.is_open()) await();
    });
  });
}

void Listener::log_pause(int error) {
  const auto now = std::chrono::steady_clock::now();
  if (now < next_log_) return;
  next_log_ = now + log_period;
  log_->warn("{}: accepting pauses: {}{}", address(), std::strerror(error),
             error == EMFILE || error == ENFILE
                 ? "; raise the limit of open files (ulimit -n) or close idle clients"
                 : "");
}

void Listener::keep_spare() {
  // A descriptor that needs no file, as there may be no /dev.
  if (spare_ < 0 && owner_.make_room) spare_ = ::eventfd(0, EFD_CLOEXEC);
}

bool Listener::has_spare() {
  keep_spare();
  return spare_ >= 0 || !owner_.make_room;
}

// Returns a connection's descriptor; below 0: there is none, for the reason in errno. If the
// process has no descriptor left, it uses the spare one.
int Listener::accept_one() {
  const auto accept = [this] {
    return ::accept4(acceptor_.native_handle(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
  };
  const int fd = accept();
  if (fd >= 0 || (errno != EMFILE && errno != ENFILE) || spare_ < 0) return fd;
  ::close(std::exchange(spare_, -1));
  return accept();
}

Listener::Accepted Listener::accept_some() {
  keep_spare();
  for (int i = 0; i <= queue_max; ++i) {  // Linux queues one more than requested
    if (owner_.has_room && !owner_.has_room()) {
      pollfd waiting{acceptor_.native_handle(), POLLIN, 0};
      if (::poll(&waiting, 1, 0) == 0) return Accepted::all;
      if (!owner_.make_room) log_pause(EMFILE);
      return Accepted::no_room;
    }
    const int fd = accept_one();
    if (fd >= 0) {
      const int on = 1;
      setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
      setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
      take_(fd);
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
        continue;  // an error of that one connection, which has ended (accept(2))
      default:
        log_pause(errno);
        if (owner_.make_room) owner_.make_room();
        return Accepted::out_of_resources;
    }
  }
  return Accepted::some;
}

namespace {

constexpr int waiting_max = 16;

// False: the path is too long for a socket.
bool address_of(const std::string& path, sockaddr_un& address) {
  address = {};
  address.sun_family = AF_UNIX;
  if (path.empty() || path.size() >= sizeof address.sun_path) return false;
  path.copy(address.sun_path, path.size());
  return true;
}

const sockaddr* plain(const sockaddr_un& address) {
  return reinterpret_cast<const sockaddr*>(&address);
}

// Another file than a socket at the path must not be removed.
bool is_socket(const std::string& path) {
  struct stat status {};
  return ::lstat(path.c_str(), &status) == 0 && S_ISSOCK(status.st_mode);
}

}  // namespace

base::Result<std::unique_ptr<UnixListener>> UnixListener::open(const std::string& path) {
  const auto problem = [&](const std::string& why) {
    return base::Problem{"the socket `" + path + "` cannot be made: " + why};
  };
  sockaddr_un address;
  if (!address_of(path, address))
    return problem("its path is longer than " + std::to_string(sizeof address.sun_path - 1) +
                   " bytes");
  if (is_socket(path) && !is_listened_on(path)) ::unlink(path.c_str());
  const int fd = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  // The rights are set before the path exists, so no other user can connect at any time.
  if (fd >= 0 && ::fchmod(fd, 0600) == 0 && ::bind(fd, plain(address), sizeof address) == 0) {
    if (::chmod(path.c_str(), 0600) == 0 && ::listen(fd, waiting_max) == 0)
      return std::unique_ptr<UnixListener>(new UnixListener(path, fd));
    const int error = errno;
    ::unlink(path.c_str());
    errno = error;
  }
  const int error = errno;
  if (fd >= 0) ::close(fd);
  return problem(std::generic_category().message(error));
}

UnixListener::~UnixListener() {
  ::unlink(path_.c_str());
  ::close(fd_);
}

bool is_listened_on(const std::string& path) {
  sockaddr_un address;
  if (!address_of(path, address)) return false;
  const int fd = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return false;
  // EAGAIN: the queue is full, so a process listens.
  const bool there = ::connect(fd, plain(address), sizeof address) == 0 || errno == EAGAIN;
  ::close(fd);
  return there;
}

}  // namespace sluice::net
