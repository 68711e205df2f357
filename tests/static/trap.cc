// A module of another system, as a static program must never load one: of the name service, or a
// provider of OpenSSL. It ends whoever loads it.
#include <unistd.h>

namespace {
[[gnu::constructor]] void spring() {
  ::_exit(77);
}
}  // namespace
