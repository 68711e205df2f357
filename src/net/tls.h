// TLS over a socket that does not block, by OpenSSL. The context is shared by all connections of a
// store; a Tls is one connection's and belongs to its thread.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <memory>
#include <string>

struct ssl_st;
struct ssl_ctx_st;

namespace sluice::net {

class TlsContext {
 public:
  // Trusts what the system trusts, and what SSL_CERT_FILE and SSL_CERT_DIR name. Null, and why in
  // `problem`, where OpenSSL gives none.
  static std::unique_ptr<TlsContext> open(std::string& problem);
  ~TlsContext();
  TlsContext(const TlsContext&) = delete;
  TlsContext& operator=(const TlsContext&) = delete;

 private:
  friend class Tls;
  explicit TlsContext(ssl_ctx_st* context) : context_(context) {}
  ssl_ctx_st* const context_;
};

class Tls {
 public:
  // The certificate has to be that host's.
  Tls(TlsContext& context, int fd, const std::string& host);
  ~Tls();
  Tls(const Tls&) = delete;
  Tls& operator=(const Tls&) = delete;

  // As read and write of a socket: -1 with errno EAGAIN where there is nothing to be done now, 0 at
  // the end; another trouble is -1 with EPROTO, and `problem` tells it. The handshake is part of
  // the first of them.
  ssize_t read(char* to, size_t size);
  ssize_t write(const char* from, size_t size);
  const std::string& problem() const { return problem_; }
  // Behind EAGAIN: the socket is to be writable, else readable.
  bool wants_write() const { return wants_write_; }

 private:
  ssize_t result_of(int done);
  ssl_st* const ssl_;
  const std::string host_;
  bool wants_write_ = false;
  std::string problem_;
};

}  // namespace sluice::net
