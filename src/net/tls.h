// TLS on a socket, by OpenSSL; the part of a Stream that is not plain. Streams of any thread share
// a context. A Tls belongs to one stream and its thread, keeps the context's settings alive, and
// does not close the socket. Files are PEM.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"

struct bio_st;
struct ssl_st;
struct ssl_ctx_st;
struct x509_st;
struct x509_store_ctx_st;

namespace sluice::net {

// Why a session of TLS failed. `truncated`: the socket's end came before the peer had announced an
// end (close_notify), so a third party may have cut it off.
enum class TlsFault : uint8_t { none, wrong_host, untrusted, truncated, other };

// What the connecting side trusts, and what it shows.
struct TlsClient {
  // A file of authorities that are trusted beside the system's; empty: none.
  std::string authority{};
  // Shown to a server that asks for a certificate; both or none.
  std::string certificate{}, key{};
  bool any_name = false;    // the name in the server's certificate is not verified
  bool only_http2 = false;  // offers `h2` by ALPN
  friend bool operator==(const TlsClient&, const TlsClient&) = default;
};

// What the accepting side shows, and what it asks of clients.
struct TlsServer {
  enum class Client : uint8_t {
    ignore,   // no certificate is asked for
    request,  // one that is shown must be trusted
    require,
  };
  std::string certificate{}, key{};  // of a chain, the server's own first
  std::string client_ca{};           // a file of the authorities of clients
  bool with_system = false;          // those of the system are trusted as well
  Client client = Client::ignore;
  // A client's certificate must have one of these names (DNS or URI); none: any will do.
  std::vector<std::string> names{};
  bool only_1_3 = false;
  friend bool operator==(const TlsServer&, const TlsServer&) = default;
};

class TlsContext {
 public:
  // For the connecting side. Trusts the system's certificates, and those that SSL_CERT_FILE and
  // SSL_CERT_DIR name. A problem: a file cannot be used, or OpenSSL cannot create a context.
  static base::Result<std::unique_ptr<TlsContext>> open(const TlsClient& client = {});
  // For the accepting side. `alpn`: the protocols that a client may choose, each behind its length,
  // the preferred one first (RFC 7301); a literal. A client that offers none of them is served too.
  static base::Result<std::unique_ptr<TlsContext>> open(const TlsServer& server,
                                                        std::string_view alpn);
  // The same with the caller's settings, which it shares.
  static std::unique_ptr<TlsContext> accepting(ssl_ctx_st* context);
  ~TlsContext();
  TlsContext(const TlsContext&) = delete;
  TlsContext& operator=(const TlsContext&) = delete;

  // The end of the server's own certificate, in seconds since 1970; 0: it has none.
  int64_t expires() const;

 private:
  friend class Tls;
  struct Rules;  // of the accepting side; they live as long as OpenSSL's context
  explicit TlsContext(ssl_ctx_st* context) : context_(context) {}
  static int verify(x509_store_ctx_st* chain, void* rules);
  static int choose(ssl_st*, const unsigned char** out, unsigned char* out_size,
                    const unsigned char* in, unsigned in_size, void* rules);

  ssl_ctx_st* const context_;
  bool any_name_ = false;
};

// The TLS of a listener. When its files change, those that can be used take the place of the ones
// before, for connections that come later; others change nothing. Any thread.
class ListenerTls {
 public:
  // As TlsContext::open.
  static base::Result<std::shared_ptr<ListenerTls>> open(TlsServer server, std::string_view alpn);

  std::shared_ptr<TlsContext> context() const;

  enum class Look : uint8_t { same, exchanged, refused };
  // Reads the files again. Files that cannot be used are `refused` at the second look that finds
  // them so, as a pair may be half written at the first; one thread at a time.
  Look look();
  // Of the files that were refused last; empty: those that lie there are used.
  std::string problem() const;
  const TlsServer& settings() const { return server_; }

 private:
  ListenerTls(TlsServer server, std::string_view alpn) : server_(std::move(server)), alpn_(alpn) {}
  uint64_t digest_of_files() const;

  const TlsServer server_;
  const std::string_view alpn_;
  uint64_t digest_ = 0, doubtful_ = 0;  // of the files in use; of those of the last look
  mutable std::mutex mutex_;            // of the rest
  std::shared_ptr<TlsContext> context_;
  std::string problem_;
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

  // As Stream::read and Stream::write. The first calls do the handshake, unless `shake_hands` does:
  // 1: it is over; -1: as a write that failed or would block.
  ssize_t shake_hands();
  ssize_t read(char* to, size_t room);
  ssize_t write(std::string_view text);
  bool read_wants_write() const { return read_wants_write_; }
  bool write_wants_read() const { return write_wants_read_; }
  bool is_handshaking() const;
  // Bytes that have left the socket and were not read: an upper bound.
  size_t pending() const;
  // After a read: may there be more without a further event of the socket? The peer's end may
  // follow in any case.
  bool may_have_more() const { return !emptied_ || pending() > 0; }
  // Announces that this side sends no more. False: the socket's buffer is full.
  bool notify_end();

  // The protocol that both sides chose by ALPN; empty: none.
  std::string_view alpn() const;
  // Of the certificate that the peer showed and that is trusted: its first URI, else its first DNS
  // name, else its common name. Empty: it showed none, or the handshake is not over.
  std::string peer_name() const;

  TlsFault fault() const { return fault_; }
  // The text of the fault, for people.
  const std::string& problem() const { return problem_; }

 private:
  friend class TlsContext;
  Tls(TlsContext& context, int fd, std::string host, bool connects);
  ssize_t read_records(char* to, size_t room);
  ssize_t receive(char* to, size_t room);
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
  std::span<char> room_{};    // of the read under way
  size_t asks_for_ = 0;       // bytes of the socket, the next time
  std::string_view ahead_{};  // received, and not yet asked for by OpenSSL
  std::string kept_{};        // has it between two reads; hardly ever anything
  bool emptied_ = false;      // the socket, by the last read
  bool owes_end_ = false;  // the last read found an end or a failure behind bytes that it returned
  int failed_ = 0;         // errno of the failure; after it OpenSSL must not be called
  TlsFault fault_ = TlsFault::none;
  std::string problem_;
  std::string shown_;  // the names and the issuer of a certificate that was not accepted
};

}  // namespace sluice::net
