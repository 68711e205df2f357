#include "net/tls.h"

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509_vfy.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdlib>
#include <system_error>
#include <utility>

#include "base/check.h"

namespace sluice::net {

namespace {

std::string last_error() {
  const unsigned long code = ERR_get_error();
  char text[256] = "an unknown error of OpenSSL";
  if (code != 0) ERR_error_string_n(code, text, sizeof text);
  return text;
}

// Where distributions keep the certificates of public authorities: Debian and its kin and Alpine;
// Fedora and its kin; SUSE; others.
constexpr const char* bundles[] = {"/etc/ssl/certs/ca-certificates.crt",
                                   "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/ca-bundle.pem",
                                   "/etc/ssl/cert.pem"};

bool is_named(const char* variable) {
  const char* const value = std::getenv(variable);
  return value != nullptr && *value != '\0';
}

// Trusts what OpenSSL trusts by default. A library that was built elsewhere does not know where
// this system keeps its authorities: if its own places are not there, and the user names none, it
// is the first bundle that is there.
bool trust_usual(SSL_CTX* context) {
  if (SSL_CTX_set_default_verify_paths(context) != 1) return false;
  if (is_named(X509_get_default_cert_file_env()) || is_named(X509_get_default_cert_dir_env()) ||
      ::access(X509_get_default_cert_file(), F_OK) == 0 ||
      ::access(X509_get_default_cert_dir(), F_OK) == 0)
    return true;
  for (const char* bundle : bundles)
    if (::access(bundle, R_OK) == 0 && SSL_CTX_load_verify_file(context, bundle) == 1) break;
  ERR_clear_error();
  return true;
}

int clamp(size_t size) {
  return static_cast<int>(std::min<size_t>(size, INT_MAX));
}

}  // namespace

base::Result<std::unique_ptr<TlsContext>> TlsContext::open() {
  SSL_CTX* const context = SSL_CTX_new(TLS_client_method());
  if (context == nullptr || SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION) != 1 ||
      !trust_usual(context)) {
    base::Problem problem{last_error()};
    SSL_CTX_free(context);
    return problem;
  }
  SSL_CTX_set_verify(context, SSL_VERIFY_PEER, nullptr);
  return std::unique_ptr<TlsContext>(new TlsContext(context));
}

std::unique_ptr<TlsContext> TlsContext::accepting(ssl_ctx_st* context) {
  SSL_CTX_up_ref(context);
  return std::unique_ptr<TlsContext>(new TlsContext(context));
}

TlsContext::~TlsContext() {
  SSL_CTX_free(context_);
}

// A BIO of our own, because OpenSSL's BIO for sockets writes without MSG_NOSIGNAL, and
// blocks if the socket does.
void* Tls::raw_method() {
  static BIO_METHOD* const method = [] {
    BIO_METHOD* const made = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "stream");
    SLUICE_CHECK(made != nullptr);
    BIO_meth_set_read(made, &Tls::receive_raw);
    BIO_meth_set_write(made, &Tls::send_raw);
    BIO_meth_set_ctrl(made, &Tls::control_raw);
    return made;
  }();
  return method;
}

int Tls::receive_raw(bio_st* bio, char* to, int room) {
  Tls& tls = *static_cast<Tls*>(BIO_get_data(bio));
  ssize_t got = 0;
  do got = ::recv(tls.fd_, to, static_cast<size_t>(room), MSG_DONTWAIT);
  while (got < 0 && errno == EINTR);
  BIO_clear_retry_flags(bio);
  if (got < 0 && errno == EAGAIN) BIO_set_retry_read(bio);
  if (got == 0) tls.socket_ended_ = true;
  return static_cast<int>(got);
}

int Tls::send_raw(bio_st* bio, const char* from, int size) {
  const Tls& tls = *static_cast<const Tls*>(BIO_get_data(bio));
  ssize_t sent = 0;
  do sent = ::send(tls.fd_, from, static_cast<size_t>(size), MSG_NOSIGNAL | MSG_DONTWAIT);
  while (sent < 0 && errno == EINTR);
  BIO_clear_retry_flags(bio);
  if (sent < 0 && errno == EAGAIN) BIO_set_retry_write(bio);
  return static_cast<int>(sent);
}

long Tls::control_raw(bio_st* bio, int command, long, void*) {
  if (command == BIO_CTRL_FLUSH) return 1;
  // OpenSSL asks this to distinguish a truncation from an error of the socket.
  if (command == BIO_CTRL_EOF) return static_cast<Tls*>(BIO_get_data(bio))->socket_ended_ ? 1 : 0;
  return 0;
}

Tls::Tls(TlsContext& context, int fd, std::string host, bool connects)
    : ssl_(SSL_new(context.context_)), fd_(fd), host_(std::move(host)) {
  SLUICE_CHECK(ssl_ != nullptr);
  BIO* const bio = BIO_new(static_cast<BIO_METHOD*>(raw_method()));
  SLUICE_CHECK(bio != nullptr);
  BIO_set_data(bio, this);
  BIO_set_init(bio, 1);
  SSL_set_bio(ssl_, bio, bio);
  // A repeated write may have its bytes at another address, and an idle connection must hold no
  // buffers.
  SSL_set_mode(ssl_, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
                         SSL_MODE_AUTO_RETRY | SSL_MODE_RELEASE_BUFFERS);
  // Bytes that OpenSSL read ahead would be neither in the kernel nor counted by `pending`.
  SSL_set_read_ahead(ssl_, 0);
  SSL_set_options(ssl_, SSL_OP_NO_RENEGOTIATION);
  SSL_clear_options(ssl_, SSL_OP_IGNORE_UNEXPECTED_EOF);
  connects ? SSL_set_connect_state(ssl_) : SSL_set_accept_state(ssl_);
}

Tls::Tls(TlsContext& context, int fd) : Tls(context, fd, std::string(), false) {}

Tls::Tls(TlsContext& context, int fd, const std::string& host) : Tls(context, fd, host, true) {
  X509_VERIFY_PARAM* const param = SSL_get0_param(ssl_);
  // The certificate must be for this address, or else for this name.
  if (X509_VERIFY_PARAM_set1_ip_asc(param, host.c_str()) != 1) {
    SSL_set1_host(ssl_, host.c_str());
    // Called directly, because OpenSSL's macro has a C cast.
    SSL_ctrl(ssl_, SSL_CTRL_SET_TLSEXT_HOSTNAME, TLSEXT_NAMETYPE_host_name,
             const_cast<char*>(host.c_str()));
  }
  ERR_clear_error();
}

Tls::~Tls() {
  SSL_free(ssl_);
}

// `other`: the SSL_ERROR_WANT_... of the other direction than the call's own.
ssize_t Tls::result_of(int done, bool& wants_other, int other) {
  wants_other = false;
  if (done > 0) return done;
  const int system_error = errno;
  const int what = SSL_get_error(ssl_, done);
  if (what == SSL_ERROR_WANT_READ || what == SSL_ERROR_WANT_WRITE) {
    wants_other = what == other;
    errno = EAGAIN;
    return -1;
  }
  // OpenSSL reports a write that fails after the peer's announced end as that end.
  const bool reads = other == SSL_ERROR_WANT_WRITE;
  if (what == SSL_ERROR_ZERO_RETURN && reads) return 0;
  return fail(what, system_error);
}

ssize_t Tls::fail(int what, int system_error) {
  failed_ = EPROTO;
  fault_ = TlsFault::other;
  const unsigned long error = ERR_peek_error();
  const long verified = SSL_get_verify_result(ssl_);
  if (verified == X509_V_ERR_HOSTNAME_MISMATCH || verified == X509_V_ERR_IP_ADDRESS_MISMATCH) {
    fault_ = TlsFault::wrong_host;
    problem_ = "its certificate is not for " + host_;
  } else if (verified != X509_V_OK) {
    fault_ = TlsFault::untrusted;
    problem_ =
        std::string("its certificate is not trusted: ") + X509_verify_cert_error_string(verified);
  } else if (ERR_GET_LIB(error) == ERR_LIB_SSL &&
             ERR_GET_REASON(error) == SSL_R_UNEXPECTED_EOF_WHILE_READING) {
    fault_ = TlsFault::truncated;
    problem_ = "it closed the connection";
  } else if ((what == SSL_ERROR_SYSCALL || what == SSL_ERROR_ZERO_RETURN) && error == 0) {
    failed_ = system_error == 0 ? ECONNRESET : system_error;
    fault_ = TlsFault::none;
    problem_ = std::generic_category().message(failed_);
  } else {
    problem_ = "TLS: " + last_error();
  }
  ERR_clear_error();
  errno = failed_;
  return -1;
}

ssize_t Tls::read(char* to, size_t room) {
  if (failed_ != 0) {
    errno = failed_;
    return -1;
  }
  ERR_clear_error();
  errno = 0;
  return result_of(SSL_read(ssl_, to, clamp(room)), read_wants_write_, SSL_ERROR_WANT_WRITE);
}

ssize_t Tls::write(std::string_view text) {
  if (failed_ != 0) {
    errno = failed_;
    return -1;
  }
  ERR_clear_error();
  errno = 0;
  return result_of(SSL_write(ssl_, text.data(), clamp(text.size())), write_wants_read_,
                   SSL_ERROR_WANT_READ);
}

bool Tls::is_handshaking() const {
  return failed_ == 0 && SSL_is_init_finished(ssl_) == 0;
}

size_t Tls::pending() const {
  return failed_ != 0 ? 0 : static_cast<size_t>(SSL_pending(ssl_));
}

bool Tls::notify_end() {
  if (end_announced_ || failed_ != 0 || is_handshaking()) return true;
  ERR_clear_error();
  const int done = SSL_shutdown(ssl_);
  if (done < 0 && SSL_get_error(ssl_, done) == SSL_ERROR_WANT_WRITE) return false;
  end_announced_ = true;
  ERR_clear_error();
  return true;
}

}  // namespace sluice::net
