#include "net/tls.h"

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509_vfy.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <system_error>

#include "base/check.h"

namespace sluice::net {

namespace {

std::string last_error() {
  const unsigned long code = ERR_get_error();
  char text[256] = "an unknown error of OpenSSL";
  if (code != 0) ERR_error_string_n(code, text, sizeof text);
  return text;
}

int clamp(size_t size) {
  return static_cast<int>(std::min<size_t>(size, INT_MAX));
}

}  // namespace

std::unique_ptr<TlsContext> TlsContext::open(std::string& problem) {
  SSL_CTX* const context = SSL_CTX_new(TLS_client_method());
  if (context == nullptr || SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION) != 1 ||
      SSL_CTX_set_default_verify_paths(context) != 1) {
    problem = last_error();
    SSL_CTX_free(context);
    return nullptr;
  }
  SSL_CTX_set_verify(context, SSL_VERIFY_PEER, nullptr);
  SSL_CTX_set_mode(context, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
  return std::unique_ptr<TlsContext>(new TlsContext(context));
}

TlsContext::~TlsContext() {
  SSL_CTX_free(context_);
}

Tls::Tls(TlsContext& context, int fd, const std::string& host)
    : ssl_(SSL_new(context.context_)), host_(host) {
  SLUICE_CHECK(ssl_ != nullptr);
  SSL_set_fd(ssl_, fd);
  X509_VERIFY_PARAM* const param = SSL_get0_param(ssl_);
  // An address in the certificate, or a name.
  if (X509_VERIFY_PARAM_set1_ip_asc(param, host.c_str()) != 1) {
    SSL_set1_host(ssl_, host.c_str());
    // The macro for it casts in C.
    SSL_ctrl(ssl_, SSL_CTRL_SET_TLSEXT_HOSTNAME, TLSEXT_NAMETYPE_host_name,
             const_cast<char*>(host.c_str()));
  }
  ERR_clear_error();
  SSL_set_connect_state(ssl_);
}

Tls::~Tls() {
  SSL_free(ssl_);
}

ssize_t Tls::result_of(int done) {
  if (done > 0) return done;
  const int system_error = errno;
  const int what = SSL_get_error(ssl_, done);
  switch (what) {
    case SSL_ERROR_WANT_READ:
    case SSL_ERROR_WANT_WRITE:
      wants_write_ = what == SSL_ERROR_WANT_WRITE;
      errno = EAGAIN;
      return -1;
    case SSL_ERROR_ZERO_RETURN:
      return 0;
    default: {
      const long verified = SSL_get_verify_result(ssl_);
      if (verified == X509_V_ERR_HOSTNAME_MISMATCH || verified == X509_V_ERR_IP_ADDRESS_MISMATCH)
        problem_ = "its certificate is not for " + host_ +
                   "; name the node in store.redis.nodes as its certificate does";
      else if (verified != X509_V_OK)
        problem_ = std::string("its certificate is not trusted: ") +
                   X509_verify_cert_error_string(verified) +
                   "; have SSL_CERT_FILE name the authority that is behind it";
      else if (what == SSL_ERROR_SYSCALL && ERR_peek_error() == 0)
        problem_ = system_error == 0 ? "it closed the connection"
                                     : std::generic_category().message(system_error);
      else
        problem_ = "TLS: " + last_error();
      errno = EPROTO;
      return -1;
    }
  }
}

ssize_t Tls::read(char* to, size_t size) {
  ERR_clear_error();
  errno = 0;
  return result_of(SSL_read(ssl_, to, clamp(size)));
}

ssize_t Tls::write(const char* from, size_t size) {
  ERR_clear_error();
  errno = 0;
  return result_of(SSL_write(ssl_, from, clamp(size)));
}

}  // namespace sluice::net
