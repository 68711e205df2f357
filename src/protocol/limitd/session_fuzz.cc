// Any bytes, in one piece and in pieces, must give the same as in the naive model. The first byte
// says how the rest is cut.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "protocol/limitd/session.h"
#include "protocol/limitd/session_model.h"
#include "testing/random_cuts.h"

namespace {

using namespace sluice::limitd;

void require(bool holds) {
  if (!holds) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);

  LimitdSession one, many;
  const model::Transcript whole = model::run(one, bytes, {});
  require(whole == model::run(many, bytes, sluice::tests::random_cuts(data[0], bytes.size())));
  require(whole == model::expected(std::string(bytes)));
  return 0;
}
