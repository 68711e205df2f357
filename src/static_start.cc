// What a static program does before anything else, so that it loads no code of the machine that it
// runs on: modules for another version of the C library, or of OpenSSL, would end it.
#include <nss.h>
#include <openssl/crypto.h>

namespace {

[[gnu::constructor]] void keep_to_own_code() {
  // Names are looked up in /etc/hosts and by /etc/resolv.conf, by code that is in the C library
  // itself, whatever /etc/nsswitch.conf names besides.
  __nss_configure_lookup("hosts", "files dns");
  // The configuration of OpenSSL may name providers to load.
  OPENSSL_init_crypto(OPENSSL_INIT_NO_LOAD_CONFIG, nullptr);
}

}  // namespace
