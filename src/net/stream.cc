#include "net/stream.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <system_error>
#include <utility>

namespace sluice::net {

Stream Stream::connecting(int fd, TlsContext* tls, const std::string& host) {
  Stream stream(fd);
  if (tls != nullptr) stream.tls_ = std::make_unique<Tls>(*tls, fd, host);
  return stream;
}

Stream Stream::accepted(int fd, TlsContext* tls) {
  Stream stream(fd);
  if (tls != nullptr) stream.tls_ = std::make_unique<Tls>(*tls, fd);
  return stream;
}

Stream::Stream(Stream&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)), ended_(other.ended_), tls_(std::move(other.tls_)) {}

Stream& Stream::operator=(Stream&& other) noexcept {
  if (this == &other) return *this;
  close();
  fd_ = std::exchange(other.fd_, -1);
  ended_ = other.ended_;
  tls_ = std::move(other.tls_);
  return *this;
}

size_t Stream::unread_bytes() const {
  int bytes = 0;
  if (::ioctl(fd_, FIONREAD, &bytes) != 0 || bytes < 0) bytes = 0;
  return static_cast<size_t>(bytes) + (tls_ != nullptr ? tls_->pending() : 0);
}

bool Stream::has_received() const {
  // The beginning of the kernel's struct tcp_info, up to tcpi_bytes_received, its last number; the
  // C library's header has not all of its members.
  uint64_t info[17] = {};
  socklen_t size = sizeof info;
  if (::getsockopt(fd_, IPPROTO_TCP, TCP_INFO, info, &size) != 0) return true;
  return size < sizeof info || info[16] > 0;
}

bool Stream::end() {
  if (ended_) return true;
  if (!notify_end()) return false;
  ended_ = true;
  ::shutdown(fd_, SHUT_WR);
  return true;
}

void Stream::close() {
  tls_.reset();
  ended_ = false;
  if (fd_ >= 0) ::close(std::exchange(fd_, -1));
}

std::string Stream::problem(int error) const {
  if (tls_ != nullptr && !tls_->problem().empty()) return tls_->problem();
  return std::generic_category().message(error);
}

}  // namespace sluice::net
