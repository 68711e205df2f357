// A connected, non-blocking socket, plain or with TLS. All reads and writes of the socket go
// through it. Beyond the system calls a plain stream costs one branch, and it never allocates.
//
// Results. `read` and `write` return a number of bytes; 0 from `read` is the peer's end; -1 is an
// error in errno, where EAGAIN is not a failure but means "would block". EINTR is handled within,
// and no signal is raised. With TLS, 0 is an end that the peer has announced; an end without that
// is an error (EPROTO, and `fault` is `truncated`). The handshake is part of the first calls, and
// each call after an error fails with the same error.
//
// Readiness. A read that would block can continue when the socket is readable, a write when it is
// writable; with TLS it may be the other way round: see read_wants_write and write_wants_read.
// After a write that would block, the next write must begin with the same bytes, though perhaps at
// another address, and have at least as many. A caller with edge-triggered events must read until
// `may_have_more` is false or a read would block, because bytes that OpenSSL has decrypted cause no
// further event.
//
// Belongs to one thread at a time. Owns the socket and closes it. After a fork only one of the two
// processes may use the stream: the other must close its copy without any other call, because both
// would encrypt with the same keys.
#pragma once

#include <sys/socket.h>

#include <cerrno>
#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

#include "net/tls.h"

namespace sluice::net {

class Stream final {
 public:
  Stream() = default;  // without a socket
  // For a socket that is connected, or is being connected. `tls`: null: plain. `host`: the name
  // that the peer's certificate must be for.
  static Stream connecting(int fd, TlsContext* tls, const std::string& host);
  // For an accepted socket; the peer begins the handshake. `tls` as above.
  static Stream accepted(int fd, TlsContext* tls);
  explicit Stream(int fd) : fd_(fd) {}
  Stream(Stream&& other) noexcept;
  Stream& operator=(Stream&& other) noexcept;
  ~Stream() { close(); }

  bool is_open() const { return fd_ >= 0; }
  int fd() const { return fd_; }
  bool is_tls() const { return tls_ != nullptr; }

  // As Tls::shake_hands; plain: 1.
  ssize_t shake_hands() { return tls_ != nullptr ? tls_->shake_hands() : 1; }
  // `room` must not be 0.
  ssize_t read(char* to, size_t room) {
    if (tls_ != nullptr) [[unlikely]]
      return tls_->read(to, room);
    return receive(to, room);
  }
  // May write a part of `text`, which must not be empty.
  ssize_t write(std::string_view text) {
    if (tls_ != nullptr) [[unlikely]]
      return tls_->write(text);
    ssize_t sent = 0;
    do sent = ::send(fd_, text.data(), text.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    while (sent < 0 && errno == EINTR);
    return sent;
  }
  // After a read of `got` bytes into `room`: may there be more bytes without a further event? A
  // plain read that did not fill its room has emptied the socket, though the peer's end may follow.
  bool may_have_more(size_t got, size_t room) const {
    return tls_ != nullptr ? tls_->may_have_more() : got == room;
  }
  // Does the last read, or write, that would block wait for the other direction?
  bool read_wants_write() const { return tls_ != nullptr && tls_->read_wants_write(); }
  bool write_wants_read() const { return tls_ != nullptr && tls_->write_wants_read(); }
  // Have bytes left the socket that were not read?
  bool has_pending() const { return tls_ != nullptr && tls_->pending() > 0; }
  bool is_handshaking() const { return tls_ != nullptr && tls_->is_handshaking(); }
  // An upper bound of the bytes that have arrived and could be read.
  size_t unread_bytes() const;
  // Has the peer ever sent a byte, as far as the kernel tells (Linux 4.1 and later)? Asks the
  // kernel.
  bool has_received() const;

  // With TLS, tells the peer that this side sends no more (close_notify). False: it would block,
  // and must be called again when the socket is writable.
  bool notify_end() { return tls_ == nullptr || tls_->notify_end(); }
  // Calls notify_end, then shuts down the socket for writing. Does nothing if that was done.
  bool end();
  // Reads raw bytes and ignores them, before a close. Returns as a plain read.
  ssize_t discard(char* to, size_t room) { return receive(to, room); }
  // Closes at once, without notify_end; bytes that the socket has not sent may be lost.
  void close();

  // As Tls::alpn and Tls::peer_name.
  std::string_view alpn() const { return tls_ != nullptr ? tls_->alpn() : std::string_view(); }
  std::string peer_name() const { return tls_ != nullptr ? tls_->peer_name() : std::string(); }

  TlsFault fault() const { return tls_ != nullptr ? tls_->fault() : TlsFault::none; }
  // The text for people for an errno of a call.
  std::string problem(int error) const;

 private:
  ssize_t receive(char* to, size_t room) {
    ssize_t got = 0;
    do got = ::recv(fd_, to, room, MSG_DONTWAIT);
    while (got < 0 && errno == EINTR);
    return got;
  }

  int fd_ = -1;
  bool ended_ = false;
  std::unique_ptr<Tls> tls_;
};

}  // namespace sluice::net
