#include "protocol/settings.h"

namespace sluice::protocol {

void Settings::set(const SettingsFlag&, std::string_view, const std::string&,
                   const base::Diagnostic&, base::Diagnostics&) {}

std::string Settings::note(const config::Config&) const {
  return {};
}

void Settings::check(const config::Config&, base::Diagnostics&) const {}

}  // namespace sluice::protocol
