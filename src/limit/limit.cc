#include "limit/limit.h"

#include <string>

#include "base/check.h"
#include "base/units.h"
#include "limit/calendar.h"

namespace sluice::limit {

std::string_view name_of(Algorithm algorithm) {
  switch (algorithm) {
    case Algorithm::unlimited:
      return "unlimited";
    case Algorithm::deny:
      return "deny";
    case Algorithm::fixed_window:
      return "fixed_window";
    case Algorithm::aligned_window:
      return "aligned_window";
    case Algorithm::token_bucket:
      return "token_bucket";
    case Algorithm::sliding_window:
      return "sliding_window";
    case Algorithm::sliding_log:
      return "sliding_log";
    case Algorithm::fixed_bucket:
      return "fixed_bucket";
    case Algorithm::concurrency:
      return "concurrency";
    case Algorithm::gcra_cell:
      return "gcra_cell";
    case Algorithm::gcra_crab:
      return "gcra_crab";
    case Algorithm::gcra_redis:
      return "gcra_redis";
  }
  SLUICE_CHECK(false);
  return "";
}

std::string window_text(const Limit& limit) {
  return limit.calendar ? limit.calendar.text() : base::format_duration(limit.window);
}

std::string exact_window_text(const Limit& limit) {
  return limit.calendar ? limit.calendar.text() : base::spell_duration(limit.window);
}

std::string places_text(const Limit& limit) {
  std::string text = std::to_string(limit.quota) + " at a time, " +
                     std::string(name_of(limit.algorithm)) + ", lease " +
                     base::format_duration(limit.window);
  if (limit.burst != limit.window.us) text += ", at most " + base::format_duration({limit.burst});
  return text;
}

int64_t Overdrafts::of(std::span<const Limit> list, size_t i) const {
  if (i < count && limits[i] == list[i]) return most[i];
  int best = 0;
  int64_t found = none;
  for (size_t j = 0; j < count; ++j) {
    const bool of_window = same_window(limits[j], list[i]);
    const int likeness = !of_window ? 1 : limits[j].algorithm != list[i].algorithm ? 2 : 3;
    if (likeness < best) continue;
    found = likeness == best ? std::max(found, most[j]) : most[j];
    best = likeness;
  }
  return found;
}

}  // namespace sluice::limit
