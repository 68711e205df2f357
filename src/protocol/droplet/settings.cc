#include "protocol/droplet/settings.h"

#include <algorithm>

#include "base/bounds.h"
#include "base/units.h"
#include "config/file_reader.h"
#include "config/javascript_words.h"
#include "config/settings.h"
#include "server/options.h"

namespace sluice::droplet {
namespace {

constexpr protocol::SettingsFlag flags[] = {
    {"--cleanup-interval", "SLUICE_CLEANUP_INTERVAL", "SECONDS",
     "Forget droplet's full buckets this often; 0 or less: never; default 60"}};

}  // namespace

std::unique_ptr<protocol::Settings> DropletSettings::clone() const {
  return std::make_unique<DropletSettings>(*this);
}

void DropletSettings::read(config::FileReader& reader, const policy::YamlNode& section) {
  reader.map(section, "droplet",
             {{"cleanup_interval", [&](const std::string& key, const policy::YamlNode& value) {
                 if (const auto text = reader.text(key, value))
                   set(flags[0], *text, reader.origin(value), reader.place(key, value),
                       reader.diagnostics());
               }}});
}

void DropletSettings::set(const protocol::SettingsFlag&, std::string_view text,
                          const std::string& origin, const base::Diagnostic& place,
                          base::Diagnostics& diagnostics) {
  constexpr int64_t most_us = base::bounds::window_us_max;
  const bool negative = text.starts_with('-');
  auto length = base::parse_duration(text);
  if (const auto n = base::parse_count(text.substr(negative ? 1 : 0)))
    length = base::seconds(static_cast<int64_t>(std::min<uint64_t>(*n, most_us / 1'000'000 + 1)));
  if (!length) {
    config::complain(place, "`" + std::string(text) + "` is not an interval",
                     "write seconds, or a length of time as in `5m`; 0 for never", diagnostics);
  } else if (negative) {
    cleanup_interval = {{}, origin};
  } else if (length->us > most_us) {
    config::complain(place, "`" + std::string(text) + "` is too long an interval",
                     "write 100 years or less; 0 for never", diagnostics);
  } else {
    cleanup_interval = {*length, origin};
  }
}

std::vector<std::pair<std::string, std::string>> DropletSettings::lines() const {
  return {{"droplet: { cleanup_interval: " + config::in_one_unit(cleanup_interval.value) + " }",
           cleanup_interval.origin}};
}

void DropletSettings::add_to(server::Options& options, protocol::Protocol self) const {
  options.cleanup_interval = cleanup_interval.value;
  options.cleaned_protocol = self;
}

void apply_droplet_environment(const config::CommandIo& io, config::Config& config,
                               base::Diagnostics& diagnostics) {
  const auto text = io.environment("PORT");
  if (!text || text->empty()) return;  // as droplet's `PORT || 3000`
  if (const auto port = config::node_port(*text)) {
    config.listen.front().value.address.port = *port;
    config.listen.front().origin = "PORT";
    return;
  }
  base::Diagnostic place;
  place.subject = "PORT";
  config::complain(place, "`" + *text + "` is not a port",
                   "set it to 0 to 65535, or unset it for 3000", diagnostics);
}

constinit const protocol::SettingsFormat settings_format = {
    .subject = protocol::SettingsFormat::Subject::store,
    .flags = flags,
    .make = []() -> std::unique_ptr<protocol::Settings> {
      return std::make_unique<DropletSettings>();
    },
};

}  // namespace sluice::droplet
