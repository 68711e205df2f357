// A connected socket that does not wait, plain or with TLS on it, and its owner's only way to its
// bytes. A plain stream costs what the system calls cost: one branch more, no allocation.
//
// Results. `read` and `write` return bytes; 0 from `read` is the peer's end; -1 is an error in
// errno, where EAGAIN is not an error but "would block". EINTR is not seen, and no signal is
// raised. With TLS, 0 is an end that the peer has announced, one without that is an error as others
// are (EPROTO, and `fault` says `truncated`), the handshake is part of the first calls of either,
// and each call after an error fails as it did.
//
// Readiness. A read that would block goes on when the socket is readable, a write when it is
// writable; with TLS perhaps the other way round: see read_wants_write and write_wants_read. A
// write that would block is repeated with the same bytes first, wherever they are, and at least as
// many. A caller with edge-triggered readiness reads until `may_have_more` is false or a read would
// block: bytes that OpenSSL has decrypted raise no event any more.
//
// Belongs to one thread at a time. Owns the socket, and closes it. What the socket had when a
// process forks belongs to one side of the fork: the other closes its copy without another call, as
// both would encrypt by the same keys.
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
  Stream() = default;  // of no socket
  // Of a socket that is connected or is being connected. `tls` null: plain. `host`: whose
  // certificate the peer has to show.
  static Stream connecting(int fd, TlsContext* tls, const std::string& host);
  // Of an accepted socket; the peer begins the handshake. `tls` as above.
  static Stream accepted(int fd, TlsContext* tls);
  explicit Stream(int fd) : fd_(fd) {}
  Stream(Stream&& other) noexcept;
  Stream& operator=(Stream&& other) noexcept;
  ~Stream() { close(); }

  bool is_open() const { return fd_ >= 0; }
  int fd() const { return fd_; }
  bool is_tls() const { return tls_ != nullptr; }

  // `room` is not 0.
  ssize_t read(char* to, size_t room) {
    if (tls_ != nullptr) [[unlikely]]
      return tls_->read(to, room);
    return receive(to, room);
  }
  // May take a part of it. `text` is not empty.
  ssize_t write(std::string_view text) {
    if (tls_ != nullptr) [[unlikely]]
      return tls_->write(text);
    ssize_t sent = 0;
    do sent = ::send(fd_, text.data(), text.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    while (sent < 0 && errno == EINTR);
    return sent;
  }
  // After a read of `got` bytes into `room`: may there be more that no event will tell of? A plain
  // read that did not fill its room has emptied the socket, but not seen the end behind it. A read
  // of TLS gives one record at most.
  bool may_have_more(size_t got, size_t room) const { return got == room || tls_ != nullptr; }
  // Of the last read, and the last write, that would block: it waits for the other direction.
  bool read_wants_write() const { return tls_ != nullptr && tls_->read_wants_write(); }
  bool write_wants_read() const { return tls_ != nullptr && tls_->write_wants_read(); }
  // Has OpenSSL bytes that it has decrypted?
  bool has_pending() const { return tls_ != nullptr && tls_->pending() > 0; }
  bool is_handshaking() const { return tls_ != nullptr && tls_->is_handshaking(); }
  // No less than what a read could have of what has arrived by now.
  size_t unread_bytes() const;

  // Tells the peer that this side sends no more, where that takes bytes (close_notify). False: it
  // would block, and is called again once the socket is writable.
  bool notify_end() { return tls_ == nullptr || tls_->notify_end(); }
  // That, then ends the sending of the socket. Does nothing where that is done.
  bool end();
  // Reads raw bytes to be thrown away, before a close; results as those of a plain read.
  ssize_t discard(char* to, size_t room) { return receive(to, room); }
  // At once: announces nothing, and what the socket has not sent may be lost.
  void close();

  TlsFault fault() const { return tls_ != nullptr ? tls_->fault() : TlsFault::none; }
  // What an errno of a call says, for people.
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
