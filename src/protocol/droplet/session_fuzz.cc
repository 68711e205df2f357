// Any bytes must give the same in one piece and in pieces; after a valid handshake, also the same
// as in the naive model. The first byte says how the rest is cut, and whether a valid handshake is
// put before it.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "protocol/droplet/session.h"
#include "protocol/droplet/session_model.h"
#include "testing/random_cuts.h"

namespace {

using namespace sluice::droplet;

void require(bool holds) {
  if (!holds) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const uint32_t seed = data[0];
  const bool raw = (seed & 0x80) != 0;
  const std::string_view behind(reinterpret_cast<const char*>(data) + 1, size - 1);
  std::string bytes(raw ? "" : model::handshake);
  bytes += behind;

  DropletSession one, many;
  const model::Transcript whole = model::run(one, bytes, {});
  require(whole == model::run(many, bytes, sluice::tests::random_cuts(seed, bytes.size(), 64)));
  if (!raw) require(whole == model::expected(behind));
  require(whole.closing == !whole.farewell.empty());
  require(one.held_bytes() <= behind.size() + 4096);
  return 0;
}
