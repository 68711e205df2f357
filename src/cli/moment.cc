#include "cli/moment.h"

#include <string>

#include "base/rfc3339.h"

namespace sluice::cli {

std::optional<base::Time> parse_moment(std::string_view text) {
  constexpr size_t date = 10, minutes = 16;  // bytes of "2026-12-01" and "2026-12-01T08:30"
  std::string full(text);
  if (full.size() == date) full += "T00:00";
  if (full.size() > date && full[date] == ' ') full[date] = 'T';
  if (full.size() == minutes || (full.size() > minutes && full[minutes] != ':'))
    full.insert(minutes, ":00");
  if (full.find_first_of("Zz+-", date) == full.npos) full += 'Z';
  auto moment = base::parse_rfc3339(full);
  if (moment) moment->us -= moment->us % 1'000'000;
  return moment;
}

}  // namespace sluice::cli
