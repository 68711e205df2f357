// A static program that does what sluice's must not: it looks a name up, and makes a context of
// TLS, as the C library and OpenSSL do by default. With it the tests show that their traps spring.
//
//   careless name NAME    0: the name was looked up, found or not
//   careless tls          0: the context was made
#include <netdb.h>
#include <openssl/ssl.h>

#include <cstring>

int main(int argc, char** argv) {
  if (argc > 2 && std::strcmp(argv[1], "name") == 0) {
    addrinfo* found = nullptr;
    if (::getaddrinfo(argv[2], "1", nullptr, &found) == 0) ::freeaddrinfo(found);
    return 0;
  }
  SSL_CTX* const context = SSL_CTX_new(TLS_client_method());
  SSL_CTX_free(context);
  return context == nullptr ? 1 : 0;
}
