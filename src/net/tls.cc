#include "net/tls.h"

#include <arpa/inet.h>
#include <openssl/bio.h>
#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <openssl/x509_vfy.h>
#include <openssl/x509v3.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <optional>
#include <system_error>
#include <utility>

#include "base/check.h"
#include "base/hash.h"
#include "base/printable.h"

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

// Of a session that failed.
std::string words_for(unsigned long error) {
  const int reason = ERR_GET_LIB(error) == ERR_LIB_SSL ? ERR_GET_REASON(error) : 0;
  switch (reason - SSL_AD_REASON_OFFSET) {
    case SSL_AD_CERTIFICATE_REQUIRED:
    case SSL_AD_HANDSHAKE_FAILURE:  // in TLS 1.2, among others
      return reason - SSL_AD_REASON_OFFSET == SSL_AD_HANDSHAKE_FAILURE
                 ? "TLS: it refused: handshake failure; perhaps it wants a certificate"
                 : "TLS: it wants a certificate, and none was shown (certificate required)";
    case SSL_AD_UNKNOWN_CA:
      return "TLS: it does not trust the certificate that was shown (unknown ca)";
    case SSL_AD_BAD_CERTIFICATE:
    case SSL_AD_CERTIFICATE_EXPIRED:
    case SSL_AD_CERTIFICATE_REVOKED:
    case SSL_AD_CERTIFICATE_UNKNOWN:
    case SSL_AD_UNSUPPORTED_CERTIFICATE:
      return std::string("TLS: it refused the certificate that was shown (") +
             SSL_alert_desc_string_long(reason - SSL_AD_REASON_OFFSET) + ')';
    default:
      break;
  }
  if (reason == SSL_R_WRONG_VERSION_NUMBER) return "TLS: it answers in plain text";
  const char* const text = ERR_reason_error_string(error);
  return std::string("TLS: ") + (text != nullptr ? text : "an unknown error of OpenSSL");
}

// The text of the first error that says more than that a file is no PEM.
std::string reason() {
  const unsigned long code = ERR_peek_error();
  const char* const text = ERR_reason_error_string(code);
  std::string told =
      ERR_SYSTEM_ERROR(code) ? std::generic_category().message(ERR_GET_REASON(code))
      : ERR_GET_LIB(code) == ERR_LIB_PEM && ERR_GET_REASON(code) == PEM_R_NO_START_LINE
          ? "there is none in PEM in it"
      : text != nullptr ? text
                        : "an unknown error of OpenSSL";
  ERR_clear_error();
  return told;
}

// Each returns what is wrong.
std::optional<std::string> use_pair(SSL_CTX* context, const std::string& certificate,
                                    const std::string& key) {
  ERR_clear_error();
  if (SSL_CTX_use_certificate_chain_file(context, certificate.c_str()) != 1)
    return "the certificate " + certificate + " cannot be used: " + reason();
  // A key behind a passphrase is refused, where OpenSSL would ask the terminal.
  SSL_CTX_set_default_passwd_cb(context, [](char*, int, int, void*) { return 0; });
  if (SSL_CTX_use_PrivateKey_file(context, key.c_str(), SSL_FILETYPE_PEM) == 1) {
    // A key of another kind than the certificate's has taken a place beside it.
    if (SSL_CTX_check_private_key(context) == 1) return std::nullopt;
  } else {
    const unsigned long code = ERR_peek_last_error();
    if (ERR_GET_LIB(code) != ERR_LIB_X509 || ERR_GET_REASON(code) != X509_R_KEY_VALUES_MISMATCH)
      return "the key " + key + " cannot be used: " + reason();
  }
  ERR_clear_error();
  return "the key " + key + " is not that of the certificate " + certificate;
}

std::optional<std::string> use_authority(SSL_CTX* context, const std::string& file) {
  ERR_clear_error();
  if (file.empty() || SSL_CTX_load_verify_file(context, file.c_str()) == 1) return std::nullopt;
  return "the authorities in " + file + " cannot be used: " + reason();
}

// A record's head and body (RFC 8446, 5.2), and the least that a read asks the kernel for.
constexpr size_t record_bytes_max = 5 + 16'384 + 256, receive_bytes_min = 512;

// As ERR_clear_error, which costs six times as much; hardly ever is there anything to forget.
void forget_errors() {
  if (ERR_peek_error() != 0) ERR_clear_error();
}

// In TLS 1.3 the order of Go and BoringSSL, unless openssl.cnf has one: OpenSSL's own has AES-256
// first, which costs more, and protects no session better that lives as long as a connection.
void prefer_short_keys(SSL_CTX* context) {
  constexpr const char* order =
      "TLS_AES_128_GCM_SHA256:TLS_AES_256_GCM_SHA384:TLS_CHACHA20_POLY1305_SHA256";
  std::string now;
  const STACK_OF(SSL_CIPHER)* const all = SSL_CTX_get_ciphers(context);
  for (int i = 0; i < sk_SSL_CIPHER_num(all); ++i) {
    const SSL_CIPHER* const one = sk_SSL_CIPHER_value(all, i);
    if (SSL_CIPHER_get_protocol_id(one) >> 8 != 0x13) continue;
    if (!now.empty()) now += ':';
    now += SSL_CIPHER_get_name(one);
  }
  if (now == OSSL_default_ciphersuites())
    SLUICE_CHECK(SSL_CTX_set_ciphersuites(context, order) == 1);
}

constexpr size_t files_bytes_max = size_t{4} << 20;
constexpr size_t names_shown_max = 8;

std::string text_of(const ASN1_STRING* text) {
  return {reinterpret_cast<const char*>(ASN1_STRING_get0_data(text)),
          static_cast<size_t>(ASN1_STRING_length(text))};
}

// Calls visit(type, name) for the DNS names, URIs and addresses of the certificate.
template <class Visit>
void each_name(const X509* certificate, Visit&& visit) {
  auto* const all = static_cast<GENERAL_NAMES*>(
      X509_get_ext_d2i(certificate, NID_subject_alt_name, nullptr, nullptr));
  for (int i = 0; i < sk_GENERAL_NAME_num(all); ++i) {
    const GENERAL_NAME* const one = sk_GENERAL_NAME_value(all, i);
    if (one->type == GEN_DNS || one->type == GEN_URI) {
      visit(one->type, text_of(one->d.ia5));
    } else if (one->type == GEN_IPADD) {
      const std::string bytes = text_of(one->d.iPAddress);
      char text[INET6_ADDRSTRLEN] = "";
      if (bytes.size() == 4 || bytes.size() == 16)
        ::inet_ntop(bytes.size() == 4 ? AF_INET : AF_INET6, bytes.data(), text, sizeof text);
      visit(one->type, std::string(text));
    }
  }
  GENERAL_NAMES_free(all);
}

std::string common_name(const X509_NAME* name) {
  const int at = X509_NAME_get_index_by_NID(name, NID_commonName, -1);
  if (at < 0) return {};
  return text_of(X509_NAME_ENTRY_get_data(X509_NAME_get_entry(name, at)));
}

// "it is for a.example, b.example, and by Some Authority"
std::string description_of(const X509* certificate) {
  if (certificate == nullptr) return {};
  std::string names;
  size_t count = 0;
  each_name(certificate, [&](int, const std::string& name) {
    if (++count <= names_shown_max) names += (names.empty() ? "" : ", ") + name;
  });
  if (count > names_shown_max) names += ", ...";
  if (names.empty()) names = common_name(X509_get_subject_name(certificate));
  return "it is for " + base::printable(names) + ", and by " +
         base::printable(common_name(X509_get_issuer_name(certificate)));
}

// As Go has it, a `*` at the front of a certificate's DNS name stands for one label; OpenSSL wants
// two labels behind it.
bool fits(std::string_view its, std::string_view name) {
  if (its.starts_with("*.")) {
    const size_t dot = name.find('.');
    if (dot == 0 || dot == std::string_view::npos) return false;
    its.remove_prefix(1);
    name.remove_prefix(dot);
  }
  return its.size() == name.size() && ::strncasecmp(its.data(), name.data(), its.size()) == 0;
}

// Is it one of the certificate's URIs, or does it fit one of its DNS names?
bool has_name(const X509* certificate, const std::string& name) {
  bool found = false;
  each_name(certificate, [&](int type, const std::string& its) {
    found = found || (type == GEN_URI ? its == name : type == GEN_DNS && fits(its, name));
  });
  return found;
}

int clamp(size_t size) {
  return static_cast<int>(std::min<size_t>(size, INT_MAX));
}

}  // namespace

struct TlsContext::Rules {
  std::vector<std::string> names;
  std::string_view alpn;

  // Attaches them to the context, which frees them: sessions may live longer than a TlsContext.
  static Rules* attach(SSL_CTX* context, Rules rules) {
    static const int index = SSL_CTX_get_ex_new_index(
        0, nullptr, nullptr, nullptr, [](void*, void* its, CRYPTO_EX_DATA*, int, long, void*) {
          delete static_cast<Rules*>(its);
        });
    auto* const made = new Rules(std::move(rules));
    SLUICE_CHECK(SSL_CTX_set_ex_data(context, index, made) == 1);
    return made;
  }
};

base::Result<std::unique_ptr<TlsContext>> TlsContext::open(const TlsClient& client) {
  SSL_CTX* const made = SSL_CTX_new(TLS_client_method());
  if (made == nullptr || SSL_CTX_set_min_proto_version(made, TLS1_2_VERSION) != 1 ||
      !trust_usual(made)) {
    base::Problem problem{last_error()};
    SSL_CTX_free(made);
    return problem;
  }
  std::unique_ptr<TlsContext> context(new TlsContext(made));
  context->any_name_ = client.any_name;
  if (auto wrong = use_authority(made, client.authority)) return base::Problem{*std::move(wrong)};
  if (!client.certificate.empty() || !client.key.empty())
    if (auto wrong = use_pair(made, client.certificate, client.key))
      return base::Problem{*std::move(wrong)};
  if (client.only_http2)
    SSL_CTX_set_alpn_protos(made, reinterpret_cast<const unsigned char*>("\x02h2"), 3);
  SSL_CTX_set_verify(made, SSL_VERIFY_PEER, nullptr);
  SSL_CTX_set_cert_verify_callback(made, verify, Rules::attach(made, {}));
  return context;
}

base::Result<std::unique_ptr<TlsContext>> TlsContext::open(const TlsServer& server,
                                                           std::string_view alpn) {
  SSL_CTX* const made = SSL_CTX_new(TLS_server_method());
  const int least = server.only_1_3 ? TLS1_3_VERSION : TLS1_2_VERSION;
  if (made == nullptr || SSL_CTX_set_min_proto_version(made, least) != 1) {
    base::Problem problem{last_error()};
    SSL_CTX_free(made);
    return problem;
  }
  std::unique_ptr<TlsContext> context(new TlsContext(made));
  Rules* const rules = Rules::attach(made, {server.names, alpn});
  if (auto wrong = use_pair(made, server.certificate, server.key))
    return base::Problem{*std::move(wrong)};
  // Clients resume by tickets, which need no memory here. Not where they show certificates: a
  // ticket would outlive its certificate, as it is renewed with each use.
  SSL_CTX_set_session_cache_mode(made, SSL_SESS_CACHE_OFF);
  const bool asks = server.client != TlsServer::Client::ignore;
  SSL_CTX_set_num_tickets(made, asks ? 0 : 1);
  if (asks) SSL_CTX_set_options(made, SSL_OP_NO_TICKET);
  SSL_CTX_set_options(made, SSL_OP_CIPHER_SERVER_PREFERENCE | SSL_OP_NO_COMPRESSION);
  prefer_short_keys(made);
  if (!alpn.empty()) SSL_CTX_set_alpn_select_cb(made, choose, rules);
  if (server.client == TlsServer::Client::ignore) return context;
  if (server.with_system && !trust_usual(made)) return base::Problem{last_error()};
  if (auto wrong = use_authority(made, server.client_ca)) return base::Problem{*std::move(wrong)};
  // Clients may choose by them which certificate they show; those of the system are too many to
  // send.
  const bool is_short = !server.client_ca.empty() && !server.with_system;
  if (STACK_OF(X509_NAME)* const names =
          is_short ? SSL_load_client_CA_file(server.client_ca.c_str()) : nullptr)
    SSL_CTX_set_client_CA_list(made, names);
  constexpr unsigned char name[] = "sluice";
  SSL_CTX_set_session_id_context(made, name, sizeof name - 1);
  SSL_CTX_set_verify(
      made,
      SSL_VERIFY_PEER |
          (server.client == TlsServer::Client::require ? SSL_VERIFY_FAIL_IF_NO_PEER_CERT : 0),
      nullptr);
  SSL_CTX_set_cert_verify_callback(made, verify, rules);
  ERR_clear_error();
  return context;
}

std::unique_ptr<TlsContext> TlsContext::accepting(ssl_ctx_st* context) {
  SSL_CTX_up_ref(context);
  return std::unique_ptr<TlsContext>(new TlsContext(context));
}

TlsContext::~TlsContext() {
  SSL_CTX_free(context_);
}

int64_t TlsContext::expires() const {
  const X509* const own = SSL_CTX_get0_certificate(context_);
  tm parts{};
  if (own == nullptr || ASN1_TIME_to_tm(X509_get0_notAfter(own), &parts) != 1) return 0;
  return ::timegm(&parts);
}

// As OpenSSL's own, but of what is not accepted the names and the issuer are kept for the message,
// and of a client's the names are compared with those that may come.
int TlsContext::verify(x509_store_ctx_st* chain, void* rules) {
  const auto* const ssl = static_cast<const SSL*>(
      X509_STORE_CTX_get_ex_data(chain, SSL_get_ex_data_X509_STORE_CTX_idx()));
  X509* const shown = X509_STORE_CTX_get0_cert(chain);
  bool is_good = X509_verify_cert(chain) == 1;
  const auto& names = static_cast<const Rules*>(rules)->names;
  if (is_good && !names.empty() &&
      std::ranges::none_of(names, [&](const std::string& name) { return has_name(shown, name); })) {
    X509_STORE_CTX_set_error(chain, X509_V_ERR_HOSTNAME_MISMATCH);
    is_good = false;
  }
  if (!is_good) static_cast<Tls*>(BIO_get_data(SSL_get_rbio(ssl)))->shown_ = description_of(shown);
  return is_good ? 1 : 0;
}

int TlsContext::choose(ssl_st*, const unsigned char** out, unsigned char* out_size,
                       const unsigned char* in, unsigned in_size, void* rules) {
  const std::string_view own = static_cast<const Rules*>(rules)->alpn;
  unsigned char* chosen = nullptr;
  const int found =
      SSL_select_next_proto(&chosen, out_size, reinterpret_cast<const unsigned char*>(own.data()),
                            static_cast<unsigned>(own.size()), in, in_size);
  *out = chosen;
  return found == OPENSSL_NPN_NEGOTIATED ? SSL_TLSEXT_ERR_OK : SSL_TLSEXT_ERR_NOACK;
}

base::Result<std::shared_ptr<ListenerTls>> ListenerTls::open(TlsServer server,
                                                             std::string_view alpn) {
  std::shared_ptr<ListenerTls> made(new ListenerTls(std::move(server), alpn));
  made->digest_ = made->digest_of_files();
  auto context = TlsContext::open(made->server_, alpn);
  if (!context) return std::move(context).problem();
  made->context_ = *std::move(context);
  return made;
}

std::shared_ptr<TlsContext> ListenerTls::context() const {
  const std::lock_guard lock(mutex_);
  return context_;
}

std::string ListenerTls::problem() const {
  const std::lock_guard lock(mutex_);
  return problem_;
}

uint64_t ListenerTls::digest_of_files() const {
  std::string all;
  for (const std::string& path : {server_.certificate, server_.key, server_.client_ca}) {
    std::ifstream file(path, std::ios::binary);
    char part[16384];
    for (size_t left = files_bytes_max; left > 0 && file;) {
      file.read(part, sizeof part);
      const auto got = static_cast<size_t>(file.gcount());
      all.append(part, got);
      left -= std::min(left, got);
    }
    all += '\0';
  }
  const uint64_t digest = base::digest(all);
  OPENSSL_cleanse(all.data(), all.size());
  return digest;
}

ListenerTls::Look ListenerTls::look() {
  const uint64_t digest = digest_of_files();
  if (digest == digest_) {
    doubtful_ = 0;
    const std::lock_guard lock(mutex_);
    problem_.clear();  // the files are again as they were
    return Look::same;
  }
  auto context = TlsContext::open(server_, alpn_);
  // They may have changed between the two readings.
  const bool is_whole = digest == digest_of_files();
  if (!context || !is_whole) {
    const bool is_known = std::exchange(doubtful_, digest) == digest;
    const std::lock_guard lock(mutex_);
    if (!is_known || context || problem_ == context.problem().text) return Look::same;
    problem_ = context.problem().text;
    return Look::refused;
  }
  digest_ = digest;
  doubtful_ = 0;
  const std::lock_guard lock(mutex_);
  context_ = *std::move(context);
  problem_.clear();
  return Look::exchanged;
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

ssize_t Tls::receive(char* to, size_t room) {
  ssize_t got = 0;
  do got = ::recv(fd_, to, room, MSG_DONTWAIT);
  while (got < 0 && errno == EINTR);
  if (got == 0) socket_ended_ = true;
  return got;
}

// OpenSSL asks for a record's head and its body by two calls. A read asks the kernel once for what
// it has room for, for more only if a record is longer, and not again once the socket is empty.
int Tls::receive_raw(bio_st* bio, char* to, int room) {
  Tls& tls = *static_cast<Tls*>(BIO_get_data(bio));
  BIO_clear_retry_flags(bio);
  if (tls.ahead_.empty()) {
    ssize_t got = -1;
    if (tls.room_.empty()) {
      got = tls.receive(to, static_cast<size_t>(room));
    } else if (tls.emptied_) {
      errno = EAGAIN;
    } else {
      const size_t asked = std::exchange(tls.asks_for_, tls.room_.size());
      got = tls.receive(tls.room_.data(), asked);
      tls.emptied_ = got < static_cast<ssize_t>(asked);
      if (got > 0) tls.ahead_ = {tls.room_.data(), static_cast<size_t>(got)};
    }
    if (got < 0 && errno == EAGAIN) BIO_set_retry_read(bio);
    if (got <= 0 || tls.room_.empty()) return static_cast<int>(got);
  }
  const size_t given = tls.ahead_.copy(to, static_cast<size_t>(room));
  tls.ahead_.remove_prefix(given);
  return static_cast<int>(given);
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
  // Bytes that OpenSSL read ahead would not be counted by `pending`; `receive_raw` reads ahead.
  SSL_set_read_ahead(ssl_, 0);
  SSL_set_options(ssl_, SSL_OP_NO_RENEGOTIATION);
  SSL_clear_options(ssl_, SSL_OP_IGNORE_UNEXPECTED_EOF);
  connects ? SSL_set_connect_state(ssl_) : SSL_set_accept_state(ssl_);
}

Tls::Tls(TlsContext& context, int fd) : Tls(context, fd, std::string(), false) {}

Tls::Tls(TlsContext& context, int fd, const std::string& host) : Tls(context, fd, host, true) {
  X509_VERIFY_PARAM* const param = SSL_get0_param(ssl_);
  // The certificate must be for this address, or else for this name.
  in6_addr address;
  const bool is_address = ::inet_pton(AF_INET, host.c_str(), &address) == 1 ||
                          ::inet_pton(AF_INET6, host.c_str(), &address) == 1;
  if (is_address) {
    if (!context.any_name_) X509_VERIFY_PARAM_set1_ip_asc(param, host.c_str());
  } else {
    if (!context.any_name_) SSL_set1_host(ssl_, host.c_str());
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
    problem_ = host_.empty() ? "its certificate has none of the names that may come"
                             : "its certificate is not for " + host_;
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
    problem_ = words_for(error);
  }
  if (!shown_.empty()) problem_ += " (" + shown_ + ')';
  ERR_clear_error();
  errno = failed_;
  return -1;
}

ssize_t Tls::shake_hands() {
  if (failed_ != 0) {
    errno = failed_;
    return -1;
  }
  ERR_clear_error();
  errno = 0;
  return result_of(SSL_do_handshake(ssl_), write_wants_read_, SSL_ERROR_WANT_READ);
}

ssize_t Tls::read(char* to, size_t room) {
  if (failed_ != 0) {
    owes_end_ = false;
    errno = failed_;
    return -1;
  }
  // Not initialized: what is received is written before it is read.
  char received[record_bytes_max];  // NOLINT(cppcoreguidelines-pro-type-member-init)
  room_ = received;
  asks_for_ = std::clamp(room, receive_bytes_min, sizeof received);
  emptied_ = owes_end_ = false;
  const ssize_t got = read_records(to, room);
  room_ = {};
  if (!ahead_.empty() || !kept_.empty()) {
    const int error = errno;
    std::string(ahead_).swap(kept_);  // an assignment could keep a long buffer for a short rest
    ahead_ = kept_;
    errno = error;
  }
  return got;
}

// Fills the room with what was received at once.
ssize_t Tls::read_records(char* to, size_t room) {
  for (size_t all = 0;;) {
    forget_errors();
    errno = 0;
    const ssize_t got = result_of(SSL_read(ssl_, to + all, clamp(room - all)), read_wants_write_,
                                  SSL_ERROR_WANT_WRITE);
    if (got <= 0 && all == 0) return got;
    owes_end_ = got == 0 || (got < 0 && failed_ != 0);
    if (got > 0) all += static_cast<size_t>(got);
    if (got <= 0 || all == room || pending() == 0) return static_cast<ssize_t>(all);
  }
}

ssize_t Tls::write(std::string_view text) {
  if (failed_ != 0) {
    errno = failed_;
    return -1;
  }
  forget_errors();
  errno = 0;
  return result_of(SSL_write(ssl_, text.data(), clamp(text.size())), write_wants_read_,
                   SSL_ERROR_WANT_READ);
}

bool Tls::is_handshaking() const {
  return failed_ == 0 && SSL_is_init_finished(ssl_) == 0;
}

std::string_view Tls::alpn() const {
  const unsigned char* name = nullptr;
  unsigned size = 0;
  SSL_get0_alpn_selected(ssl_, &name, &size);
  return {reinterpret_cast<const char*>(name), size};
}

std::string Tls::peer_name() const {
  const X509* const its = failed_ == 0 ? SSL_get0_peer_certificate(ssl_) : nullptr;
  if (its == nullptr || is_handshaking()) return {};
  std::string uri, dns;
  each_name(its, [&](int type, const std::string& name) {
    if (type == GEN_URI && uri.empty()) uri = name;
    if (type == GEN_DNS && dns.empty()) dns = name;
  });
  return !uri.empty() ? uri : !dns.empty() ? dns : common_name(X509_get_subject_name(its));
}

size_t Tls::pending() const {
  if (failed_ != 0 || owes_end_) return owes_end_ ? 1 : 0;
  return static_cast<size_t>(SSL_pending(ssl_)) + ahead_.size();
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
