// The other side of a TLS stream: a session of OpenSSL between two buffers, so that the test
// decides about each encrypted byte, with a certificate that signs itself. Owned by the test.
#pragma once

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

#include "base/check.h"

namespace sluice::tests {

// A key, and a certificate that is its own authority, for names as in `DNS:localhost,URI:...`.
class SelfSigned {
 public:
  enum class Kind { ec, rsa };
  explicit SelfSigned(const char* its_names = "DNS:localhost", Kind kind = Kind::ec)
      : key_(kind == Kind::ec ? EVP_PKEY_Q_keygen(nullptr, nullptr, "EC", "P-256")
                              : EVP_PKEY_Q_keygen(nullptr, nullptr, "RSA", size_t{2048})) {
    SLUICE_CHECK(key_ != nullptr && x509_ != nullptr && X509_set_version(x509_, 2) == 1);
    X509_gmtime_adj(X509_getm_notBefore(x509_), -3600);
    X509_gmtime_adj(X509_getm_notAfter(x509_), 86'400);
    const auto* const name = reinterpret_cast<const unsigned char*>("localhost");
    X509_NAME_add_entry_by_NID(X509_get_subject_name(x509_), NID_commonName, MBSTRING_UTF8, name,
                               -1, -1, 0);
    X509_EXTENSION* const names =
        X509V3_EXT_conf_nid(nullptr, nullptr, NID_subject_alt_name, its_names);
    SLUICE_CHECK(names != nullptr && X509_add_ext(x509_, names, -1) == 1);
    X509_EXTENSION_free(names);
    SLUICE_CHECK(X509_set_issuer_name(x509_, X509_get_subject_name(x509_)) == 1 &&
                 X509_set_pubkey(x509_, key_) == 1 && X509_sign(x509_, key_, EVP_sha256()) > 0);
  }
  ~SelfSigned() {
    X509_free(x509_);
    EVP_PKEY_free(key_);
  }
  SelfSigned(const SelfSigned&) = delete;
  SelfSigned& operator=(const SelfSigned&) = delete;

  struct FreeContext {
    void operator()(SSL_CTX* context) const { SSL_CTX_free(context); }
  };
  using Context = std::unique_ptr<SSL_CTX, FreeContext>;
  // For the accepting side, with this certificate; for the connecting side, which trusts every
  // server, and shows this one to servers that ask.
  Context accepting() const {
    Context context(SSL_CTX_new(TLS_server_method()));
    SLUICE_CHECK(SSL_CTX_use_certificate(context.get(), x509_) == 1 &&
                 SSL_CTX_use_PrivateKey(context.get(), key_) == 1);
    return context;
  }
  static Context connecting() { return Context(SSL_CTX_new(TLS_client_method())); }
  Context connecting_with() const {
    Context context = connecting();
    SLUICE_CHECK(SSL_CTX_use_certificate(context.get(), x509_) == 1 &&
                 SSL_CTX_use_PrivateKey(context.get(), key_) == 1);
    return context;
  }

  std::string certificate() const {
    BIO* const bio = BIO_new(BIO_s_mem());
    SLUICE_CHECK(PEM_write_bio_X509(bio, x509_) == 1);
    return text_of(bio);
  }
  // passphrase: null: the key is in plain text.
  std::string key(const char* passphrase = nullptr) const {
    BIO* const bio = BIO_new(BIO_s_mem());
    SLUICE_CHECK(PEM_write_bio_PKCS8PrivateKey(
                     bio, key_, passphrase == nullptr ? nullptr : EVP_aes_128_cbc(), passphrase,
                     passphrase == nullptr ? 0 : 4, nullptr, nullptr) == 1);
    return text_of(bio);
  }

 private:
  static std::string text_of(BIO* bio) {
    char* at = nullptr;
    const long size = BIO_ctrl(bio, BIO_CTRL_INFO, 0, &at);
    std::string text(at, static_cast<size_t>(size));
    BIO_free(bio);
    return text;
  }

  EVP_PKEY* const key_;
  X509* const x509_ = X509_new();
};

class TlsPeer {
 public:
  enum class Side { connects, accepts };
  TlsPeer(SSL_CTX* context, Side side) : ssl_(SSL_new(context)) {
    SSL_set_bio(ssl_, in_, out_);
    // An empty buffer does not mean the end.
    BIO_set_mem_eof_return(in_, -1);
    side == Side::connects ? SSL_set_connect_state(ssl_) : SSL_set_accept_state(ssl_);
  }
  ~TlsPeer() { SSL_free(ssl_); }
  TlsPeer(const TlsPeer&) = delete;
  TlsPeer& operator=(const TlsPeer&) = delete;

  // Takes bytes from the other side. True: the handshake is done.
  bool take(std::string_view encrypted) {
    if (!encrypted.empty())
      SLUICE_CHECK(BIO_write(in_, encrypted.data(), static_cast<int>(encrypted.size())) > 0);
    ERR_clear_error();
    return SSL_do_handshake(ssl_) == 1;
  }
  // The bytes for the other side.
  std::string out() {
    std::string bytes(static_cast<size_t>(BIO_ctrl_pending(out_)), '\0');
    if (!bytes.empty())
      SLUICE_CHECK(BIO_read(out_, bytes.data(), static_cast<int>(bytes.size())) > 0);
    return bytes;
  }
  // Writes one record of at most 16 KiB.
  void write(std::string_view text) {
    SLUICE_CHECK(SSL_write(ssl_, text.data(), static_cast<int>(text.size())) ==
                 static_cast<int>(text.size()));
  }
  // Everything that can be decrypted.
  std::string read() {
    std::string all;
    char room[4096];
    ERR_clear_error();
    int n = 0;
    while ((n = SSL_read(ssl_, room, sizeof room)) > 0) all.append(room, static_cast<size_t>(n));
    ended_ |= SSL_get_error(ssl_, n) == SSL_ERROR_ZERO_RETURN;
    return all;
  }
  void notify_end() { SSL_shutdown(ssl_); }
  // The protocol that the other side chose by ALPN, and its certificate as PEM.
  std::string alpn() const {
    const unsigned char* name = nullptr;
    unsigned size = 0;
    SSL_get0_alpn_selected(ssl_, &name, &size);
    return {reinterpret_cast<const char*>(name), size};
  }
  std::string certificate() const {
    X509* const its = SSL_get0_peer_certificate(ssl_);
    BIO* const bio = BIO_new(BIO_s_mem());
    if (its != nullptr) SLUICE_CHECK(PEM_write_bio_X509(bio, its) == 1);
    char* at = nullptr;
    const long size = BIO_ctrl(bio, BIO_CTRL_INFO, 0, &at);
    std::string text(at, static_cast<size_t>(size));
    BIO_free(bio);
    return text;
  }
  // Has the other side sent its end notice, as far as `read` has read?
  bool has_ended() const { return ended_; }

 private:
  SSL* const ssl_;
  BIO* const in_ = BIO_new(BIO_s_mem());
  BIO* const out_ = BIO_new(BIO_s_mem());
  bool ended_ = false;
};

}  // namespace sluice::tests
