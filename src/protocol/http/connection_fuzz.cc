// Any bytes of a client must give the same requests and answers in one piece and in pieces, over
// HTTP/1.1 and HTTP/2. The first two bytes choose the version, the server's settings and how the
// rest is cut; for HTTP/2 the rest follows the preface.
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

#include "protocol/http/split_trial_test.h"
#include "testing/random_cuts.h"
#include "wire/http2_peer_test.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace sluice::http;
  if (size < 2) return 0;
  const split_trial::Kind kind = split_trial::Kind::of(data[0], data[1]);
  std::string bytes;
  if (kind.is_http2)
    bytes = sluice::wire::http2_peer::join(
        {sluice::wire::http2_peer::hello(), sluice::wire::http2_peer::settings_ack()});
  bytes.append(reinterpret_cast<const char*>(data) + 2, size - 2);
  const auto whole = split_trial::run(bytes, {}, kind);
  const auto cut = split_trial::run(
      bytes, sluice::tests::random_cuts(data[0] + 256u * data[1], bytes.size()), kind);
  const std::string difference = split_trial::difference(whole, cut);
  if (difference.empty()) return 0;
  std::fprintf(stderr, "%s\n", difference.c_str());
  std::abort();
}
