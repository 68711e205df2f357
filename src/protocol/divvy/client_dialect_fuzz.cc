// Whatever a server sends, the client must read the same answers, or the same problem, in one piece
// and in pieces. The first byte says how the bytes are cut.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <vector>

#include "testing/client_codec_check.h"

namespace sluice::divvy {
extern const calls::Dialect client_dialect;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using sluice::client_verb;
  const std::vector<sluice::calls::Expected> expected = {
      {client_verb::take}, {client_verb::take}, {client_verb::take}};
  if (!sluice::calls::reads_alike(sluice::divvy::client_dialect, data, size, expected))
    std::abort();
  return 0;
}
