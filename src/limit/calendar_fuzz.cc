// Any text as a window of the calendar: it is none, or is written and read again as the same; its
// windows lie side by side.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "limit/calendar.h"

namespace sluice::limit {
namespace {

void require(bool holds) {
  if (!holds) std::abort();
}

void read_one(std::string_view text) {
  auto terms = parse_calendar(text);
  if (!terms) return;
  require(!terms->zone.empty() && terms->zone.size() <= 64);
  terms->zone = "UTC";  // so that it needs no data
  const Calendar its = Calendar::of(*terms).calendar;
  require(static_cast<bool>(its));
  require(its.terms() == *terms);
  require(parse_calendar(its.text()) == terms);
  require(Calendar::of_code(its.code()) == its);
  int64_t now_us = static_cast<int64_t>(text.size()) * 86'400'000'000'000 / 7;
  for (int i = 0; i < 20; ++i) {
    const Calendar::Window window = its.window({now_us});
    require(window.start_us <= now_us && now_us < window.end_us);
    now_us = window.end_us;
    require(its.window({now_us}).start_us == now_us);
  }
}

}  // namespace
}  // namespace sluice::limit

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  sluice::limit::read_one({reinterpret_cast<const char*>(data), size});
  return 0;
}
