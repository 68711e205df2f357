// TLS on a socket, by OpenSSL; the part of a Stream that is not plain. Streams of any thread share
// a context. A Tls belongs to one stream and its thread, keeps the context's settings alive, and
// does not close the socket.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "base/result.h"

struct bio_st;
struct ssl_st;
struct ssl_ctx_st;

namespace sluice::net {

// Why a session of TLS failed. `truncated`: the socket's end came before the peer had announced an
// end (close_notify), so a third party may have cut it off.
enum class TlsFault : uint8_t { none, wrong_host, untrusted, truncated, other };

class TlsContext {
 public:
  // For the connecting side. Trusts the system's certificates, and those that SSL_CERT_FILE and
  // SSL_CERT_DIR name. A problem: OpenSSL cannot create a context.
  static base::Result<std::unique_ptr<TlsContext>> open();
  // For the accepting side, with the caller's settings (certificate, key, versions), which it
  // shares.
  static std::unique_ptr<TlsContext> accepting(ssl_ctx_st* context);
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
  // The connecting side. The peer's certificate must be for that host.
  Tls(TlsContext& context, int fd, const std::string& host);
  // The accepting side.
  Tls(TlsContext& context, int fd);
  ~Tls();
  Tls(const Tls&) = delete;
  Tls& operator=(const Tls&) = delete;

  // As Stream::read and Stream::write. The first calls do the handshake.
  ssize_t read(char* to, size_t room);
  ssize_t write(std::string_view text);
  bool read_wants_write() const { return read_wants_write_; }
  bool write_wants_read() const { return write_wants_read_; }
  bool is_handshaking() const;
  size_t pending() const;
  // Announces that this side sends no more. False: the socket's buffer is full.
  bool notify_end();

  TlsFault fault() const { return fault_; }
  // The text of the fault, for people.
  const std::string& problem() const { return problem_; }

 private:
  Tls(TlsContext& context, int fd, std::string host, bool connects);
  static int receive_raw(bio_st* bio, char* to, int room);
  static int send_raw(bio_st* bio, const char* from, int size);
  static long control_raw(bio_st* bio, int command, long number, void* pointer);
  static void* raw_method();
  ssize_t result_of(int done, bool& wants_other, int other);
  ssize_t fail(int what, int system_error);

  ssl_st* const ssl_;
  const int fd_;
  const std::string host_;
  bool read_wants_write_ = false, write_wants_read_ = false;
  bool socket_ended_ = false, end_announced_ = false;
  int failed_ = 0;  // errno of the failure; after it OpenSSL must not be called
  TlsFault fault_ = TlsFault::none;
  std::string problem_;
};

}  // namespace sluice::net
