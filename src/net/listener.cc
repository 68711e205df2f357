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
#include <cerrno>
#include <cstring>
#include <system_error>
#include <utility>

#include "base/bounds.h"
#include "base/look_up.h"
#include "net/inherited.h"

namespace sluice::net {

namespace {

constexpr auto pause_time = std::chrono::milliseconds(100);
// The pause where the owner makes room, because it does that at once.
constexpr auto short_pause_time = std::chrono::milliseconds(5);
constexpr auto log_period = std::chrono::seconds(10);

std::string name_of_error(int error) {
  switch (error) {
    case EADDRINUSE:
      return "EADDRINUSE: address already in use";
    case EACCES:
      return "EACCES: permission denied (ports below 1024 need a privilege)";
    case EADDRNOTAVAIL:
      return "EADDRNOTAVAIL: no such address on this machine";
    default:
      return std::generic_category().message(error);
  }
}

// Does this machine lack the address, or all addresses of its family?
bool is_absent(int error) {
  return error == EAFNOSUPPORT || error == EADDRNOTAVAIL;
}

int make_socket(const SocketAddress& address) {
  return ::socket(address.generic()->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
}

void set_option(int fd, int level, int name, int value) {
  ::setsockopt(fd, level, name, &value, sizeof value);
}

bool is_here(SocketAddress address) {
  address.set_port(0);
  const int probe = make_socket(address);
  const bool there = probe >= 0 && ::bind(probe, address.generic(), address.size()) == 0;
  const int error = errno;
  if (probe >= 0) ::close(probe);
  return there || !is_absent(error);
}

// Finds the addresses of a host, each once, at least one; otherwise returns the problem.
std::optional<std::string> look_up(const Endpoint& options, std::vector<SocketAddress>& found) {
  addrinfo hints{}, *all = nullptr;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV;
  if (const int error = base::look_up(options.host, std::to_string(options.port), hints, &all);
      error != 0)
    return "listen: cannot resolve \"" + options.host + "\": " + ::gai_strerror(error);
  for (const addrinfo* one = all; one != nullptr; one = one->ai_next) {
    const auto address = SocketAddress::of(one->ai_addr, one->ai_addrlen);
    if (address && std::find(found.begin(), found.end(), *address) == found.end())
      found.push_back(*address);
  }
  ::freeaddrinfo(all);
  if (found.empty()) return "listen: cannot resolve \"" + options.host + "\": it has no address";
  return {};
}

}  // namespace

Listener::Listener(EventLoop& loop, Endpoint options, Take take,
                   std::shared_ptr<spdlog::logger> log, Owner owner)
    : loop_(loop),
      next_(loop, [this] { accept(); }),
      options_(std::move(options)),
      take_(std::move(take)),
      log_(std::move(log)),
      owner_(std::move(owner)) {
  keep_spare();
}

Listener::~Listener() {
  close();
  if (spare_ >= 0) ::close(spare_);
}

std::optional<std::string> Listener::resolve(const Endpoint& options, std::vector<Endpoint>& all) {
  std::vector<SocketAddress> found;
  if (auto wrong = look_up(options, found)) return wrong;
  const size_t before = all.size();
  const auto add = [&](const SocketAddress& address) {
    all.push_back(options);
    all.back().host = address.host();
  };
  for (const SocketAddress& address : found) {
    if (found.size() == 1 || is_here(address)) add(address);
  }
  if (all.size() == before) add(found.front());
  return {};
}

std::optional<std::string> Listener::bind(InheritedSockets* inherited) {
  std::vector<SocketAddress> found;
  if (auto wrong = look_up(options_, found)) return wrong;
  SocketAddress address = found.front();
  int error = open(address, inherited);
  // Without IPv6 on this machine `::` means all addresses of IPv4.
  if (address.is_any_v6() && is_absent(error)) {
    address = SocketAddress::of(in_addr{INADDR_ANY}, options_.port);
    error = open(address, inherited);
  }
  if (error == 0) return {};
  return "listen " + name_of_error(error) + " " + address.text() +
         (error == EADDRINUSE ? "; stop what listens there, or listen on another port" : "");
}

// Returns an errno, or 0.
int Listener::open(const SocketAddress& address, InheritedSockets* inherited) {
  close();
  fd_ = inherited != nullptr ? inherited->take(address) : -1;
  is_inherited_ = fd_ >= 0;
  if (!is_inherited_) fd_ = make_socket(address);
  if (fd_ < 0) return errno;
  bound_kernel_memory();
  if (!is_inherited_) {
    set_option(fd_, SOL_SOCKET, SO_REUSEADDR, 1);
    if (address.is_v6()) set_option(fd_, IPPROTO_IPV6, IPV6_V6ONLY, 0);
    if (::bind(fd_, address.generic(), address.size()) != 0 || ::listen(fd_, queue_max) != 0)
      return errno;
  }
  return loop_.watch(fd_, *this) ? 0 : errno;
}

void Listener::close() {
  if (fd_ < 0) return;
  next_.cancel();
  loop_.unwatch(*this);
  loop_.unregister(fd_);  // who passed an inherited socket holds it too
  ::close(std::exchange(fd_, -1));
}

// Bounds the kernel's buffers of each connection, which inherits them from the listener. Bytes that
// a client does not take stay in the send buffer, at most for TCP_USER_TIMEOUT; bytes that the
// server does not read stay in the receive buffer.
void Listener::bound_kernel_memory() {
  set_option(fd_, SOL_SOCKET, SO_SNDBUF, static_cast<int>(base::bounds::socket_send_bytes));
  set_option(fd_, SOL_SOCKET, SO_RCVBUF, static_cast<int>(base::bounds::socket_receive_bytes));
  set_option(fd_, IPPROTO_TCP, TCP_USER_TIMEOUT,
             static_cast<int>(options_.timeouts.send.us / 1000));
}

std::string Listener::address() const {
  const auto address = SocketAddress::local(fd_);
  return address ? address->text() : std::string();
}

uint16_t Listener::port() const {
  const auto address = SocketAddress::local(fd_);
  return address ? address->port() : uint16_t{0};
}

void Listener::stop() {
  if (fd_ < 0) return;
  if (!is_inherited_) accept_some();
  close();
}

void Listener::on_ready(bool /*readable*/, bool /*writable*/, bool /*ended*/) {
  if (!next_.is_set()) accept();
}

void Listener::accept() {
  const Accepted accepted = accept_some();
  if (accepted == Accepted::all) return;
  if (accepted == Accepted::some) return next_.set_after({});  // in the next round
  if (owner_.paused) owner_.paused();
  next_.set_after(owner_.make_room ? short_pause_time : pause_time);
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
    return ::accept4(fd_, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
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
      pollfd waiting{fd_, POLLIN, 0};
      if (::poll(&waiting, 1, 0) == 0) return Accepted::all;
      if (!owner_.make_room) log_pause(EMFILE);
      return Accepted::no_room;
    }
    const int fd = accept_one();
    if (fd >= 0) {
      set_option(fd, IPPROTO_TCP, TCP_NODELAY, 1);
      set_option(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
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
