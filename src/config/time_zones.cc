#include "config/time_zones.h"

#include "base/zone_data.h"
#include "config/settings.h"
#include "limit/calendar.h"

namespace sluice::config {

extern const base::BuiltInZones built_in_zones;

void use_built_in_time_zones() {
  base::ZoneData::set_built_in(built_in_zones);
}

std::string time_zones_text() {
  return "time zones: " + limit::Calendar::zone_data_text();
}

bool read_time_zones(const Config& config, base::Diagnostics& diagnostics) {
  const std::string& folder = config.time_zone_data.value;
  if (limit::Calendar::use_zone_data(folder, true)) return true;
  base::Diagnostic place;
  place.file = config.time_zone_data.origin;
  place.subject = "time_zone_data";
  complain(place, "there are no data of time zones in " + folder,
           "name a folder like /usr/share/zoneinfo, or take it out", diagnostics);
  return false;
}

}  // namespace sluice::config
