// A certificate authority and the certificates that it signs, made by the test. Throws on an error.
#pragma once

#include <memory>
#include <string>

#include "tests/support/divvy_server.h"

struct evp_pkey_st;
struct x509_st;

namespace sluice::tests {

class Authority {
 public:
  // Its certificate is in `folder` as NAME.crt.
  Authority(const Folder& folder, const std::string& name);
  ~Authority();
  Authority(const Authority&) = delete;
  Authority& operator=(const Authority&) = delete;

  const std::string& certificate() const { return certificate_; }
  struct Files {
    std::string certificate, key;
  };
  // Makes a key and a certificate, in files of their own. `name` is as in a certificate:
  // `IP:127.0.0.1`, `DNS:localhost`.
  Files sign(const std::string& name) const;

 private:
  const Folder& folder_;
  const std::string name_;
  evp_pkey_st* key_;
  x509_st* x509_;
  std::string certificate_;
  mutable int signed_ = 0;
};

}  // namespace sluice::tests
