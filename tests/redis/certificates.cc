#include "tests/redis/certificates.h"

#include <openssl/bio.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include <stdexcept>

namespace sluice::tests {
namespace {

void need(bool ok) {
  if (!ok) throw std::runtime_error("no certificate can be made");
}

void extend(X509* x509, X509* by, int nid, const std::string& value) {
  X509V3_CTX context{};
  X509V3_set_ctx(&context, by, x509, nullptr, nullptr, 0);
  X509_EXTENSION* const extension = X509V3_EXT_conf_nid(nullptr, &context, nid, value.c_str());
  need(extension != nullptr && X509_add_ext(x509, extension, -1) == 1);
  X509_EXTENSION_free(extension);
}

// Valid from an hour ago until tomorrow.
X509* new_certificate(EVP_PKEY* key, const std::string& name, long serial) {
  X509* const x509 = X509_new();
  need(x509 != nullptr && X509_set_version(x509, 2) == 1);
  ASN1_INTEGER_set(X509_get_serialNumber(x509), serial);
  X509_gmtime_adj(X509_getm_notBefore(x509), -3600);
  X509_gmtime_adj(X509_getm_notAfter(x509), 86'400);
  std::basic_string<unsigned char> bytes(name.begin(), name.end());
  X509_NAME_add_entry_by_NID(X509_get_subject_name(x509), NID_commonName, MBSTRING_UTF8,
                             bytes.c_str(), -1, -1, 0);
  need(X509_set_pubkey(x509, key) == 1);
  return x509;
}

std::string text_of(BIO* bio) {
  char* at = nullptr;
  const long size = BIO_ctrl(bio, BIO_CTRL_INFO, 0, &at);
  std::string text(at, static_cast<size_t>(size));
  BIO_free(bio);
  return text;
}

std::string pem_of(X509* x509) {
  BIO* const bio = BIO_new(BIO_s_mem());
  need(PEM_write_bio_X509(bio, x509) == 1);
  return text_of(bio);
}

}  // namespace

Authority::Authority(const Folder& folder, const std::string& name)
    : folder_(folder),
      name_(name),
      key_(EVP_PKEY_Q_keygen(nullptr, nullptr, "EC", "P-256")),
      x509_(new_certificate(key_, name, 1)) {
  need(X509_set_issuer_name(x509_, X509_get_subject_name(x509_)) == 1);
  extend(x509_, x509_, NID_basic_constraints, "critical,CA:TRUE");
  need(X509_sign(x509_, key_, EVP_sha256()) > 0);
  certificate_ = folder.write(name + ".crt", pem_of(x509_));
}

Authority::~Authority() {
  X509_free(x509_);
  EVP_PKEY_free(key_);
}

Authority::Files Authority::sign(const std::string& name) const {
  EVP_PKEY* const key = EVP_PKEY_Q_keygen(nullptr, nullptr, "EC", "P-256");
  X509* const x509 = new_certificate(key, "redis", 2);
  need(X509_set_issuer_name(x509, X509_get_subject_name(x509_)) == 1);
  extend(x509, x509_, NID_subject_alt_name, name);
  need(X509_sign(x509, key_, EVP_sha256()) > 0);
  BIO* const bio = BIO_new(BIO_s_mem());
  need(PEM_write_bio_PrivateKey(bio, key, nullptr, nullptr, 0, nullptr, nullptr) == 1);
  const std::string file = name_ + "-redis-" + std::to_string(++signed_);
  Files files{folder_.write(file + ".crt", pem_of(x509)),
              folder_.write(file + ".key", text_of(bio))};
  X509_free(x509);
  EVP_PKEY_free(key);
  return files;
}

}  // namespace sluice::tests
