// Any bytes, in one piece and in pieces, must give the same as in the naive model. The first byte
// says how the rest is cut, and whether the connection ends after it.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>
#include <vector>

#include "base/utf8.h"
#include "protocol/divvy/session.h"
#include "protocol/divvy/session_model.h"
#include "testing/random_cuts.h"

namespace {

using namespace sluice::divvy;

void require(bool holds) {
  if (!holds) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const uint32_t seed = data[0];
  const bool end = (seed & 0x80) == 0;
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);

  DivvySession one, many;
  const model::Transcript whole = model::run(one, bytes, {}, end);
  require(whole == model::run(many, bytes, sluice::tests::random_cuts(seed, bytes.size()), end));
  require(whole == model::expected(bytes, end));

  for (const model::Pairs& pairs : whole.requests) {
    require(pairs.size() <= sluice::base::bounds::descriptor_entries_max);
    for (const auto& [key, value] : pairs)
      require(sluice::base::utf8::is_valid(key) && sluice::base::utf8::is_valid(value));
  }
  require(sluice::base::utf8::is_valid(whole.farewell));
  return 0;
}
