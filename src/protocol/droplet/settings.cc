#include "protocol/droplet/settings.h"

#include <algorithm>

#include "base/bounds.h"
#include "base/units.h"
#include "config/settings.h"
#include "config/table.h"
#include "server/options.h"

namespace sluice::droplet {
namespace {

// A number of seconds, which may be negative as in droplet, or a length of time with a unit.
struct Interval {
  static bool read(const config::Written& written, base::Duration& to) {
    constexpr int64_t most_us = base::bounds::window_us_max;
    const std::string_view text = written.text;
    const bool negative = text.starts_with('-');
    auto length = base::parse_duration(text);
    if (const auto n = base::parse_count(text.substr(negative ? 1 : 0)))
      length = base::seconds(static_cast<int64_t>(std::min<uint64_t>(*n, most_us / 1'000'000 + 1)));
    if (!length)
      return written.wrong_text("is not an interval",
                                "write seconds, or a length of time as in `5m`; 0 for never");
    if (!negative && length->us > most_us)
      return written.wrong_text("is too long an interval", "write 100 years or less; 0 for never");
    to = negative ? base::Duration{} : *length;
    return true;
  }
  static std::string text(base::Duration value) { return config::in_one_unit(value); }
  static std::string values() { return "seconds, or a length of time; 0: never"; }
};

}  // namespace

std::unique_ptr<protocol::Settings> DropletSettings::clone() const {
  return std::make_unique<DropletSettings>(*this);
}

std::vector<config::Entry> DropletSettings::table() {
  return {config::setting(
      "cleanup_interval", cleanup_interval, Interval{},
      {.flag = "--cleanup-interval",
       .variable = "SLUICE_CLEANUP_INTERVAL",
       .type = "SECONDS",
       .help = "Forget droplet's full buckets this often; 0 or less: never; default 60"})};
}

void DropletSettings::add_to(server::Options& options, protocol::Protocol self) const {
  options.cleanup_interval = cleanup_interval.value;
  options.cleaned_protocol = self;
}

constinit const protocol::SettingsFormat settings_format = {
    .make = []() -> std::unique_ptr<protocol::Settings> {
      return std::make_unique<DropletSettings>();
    },
};

}  // namespace sluice::droplet
