// Any bytes as the data of a time zone: they are none, or a zone whose periods lie side by side,
// and which shows no instant twice as the second.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "base/time_zone.h"

namespace sluice::base {
namespace {

void require(bool holds) {
  if (!holds) std::abort();
}

void look_at(const TimeZone& zone, int64_t instant) {
  const TimeZone::Period now = zone.at(instant);
  require(now.begin <= instant && instant < now.end);
  require(now.offset >= -26 * 3600 && now.offset <= 26 * 3600);
  const int64_t shown = instant + now.offset;
  const int64_t first = zone.when_shown(shown);
  // The clock shows it at the instant, so that it is not in a gap.
  require(first <= instant && first + zone.at(first).offset == shown);
}

}  // namespace
}  // namespace sluice::base

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace sluice::base;
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const auto zone = TimeZone::parse(bytes);
  if (!zone) return 0;
  constexpr int64_t year = 31'556'952;
  for (int64_t instant = -30 * year; instant < 200 * year; instant += year / 3 + 12'345)
    look_at(*zone, instant);
  return 0;
}
