// Any bytes, in one piece and in pieces, must give what the naive model of the protocol gives. The
// first byte says how the rest is cut.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "protocol/limitd/session.h"
#include "protocol/limitd/session_model.h"

namespace {

using namespace sluice::limitd;

void require(bool holds) {
  if (!holds) std::abort();
}

// Sizes from a little generator, so that they depend on nothing but the first byte.
std::vector<size_t> cuts_of(uint32_t seed, size_t bytes) {
  std::vector<size_t> cuts;
  const uint32_t longest = seed % 4 == 0 ? 1 : seed % 4 == 1 ? 4 : 32;
  for (size_t left = bytes; left > 0;) {
    seed = seed * 1'664'525 + 1'013'904'223;
    cuts.push_back(std::min<size_t>(left, (seed >> 16) % longest + 1));
    left -= cuts.back();
  }
  return cuts;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);

  LimitdSession one, many;
  const model::Transcript whole = model::run(one, bytes, {});
  require(whole == model::run(many, bytes, cuts_of(data[0], bytes.size())));
  require(whole == model::expected(std::string(bytes)));
  return 0;
}
